"""An audit from end to end: plan, sweep, audits, track, gate. The only orchestration."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.audit import Context, Metric
from pessimal.pipeline.audits import metrics_of, run_audits
from pessimal.pipeline.record import Findings, audit_document, write_artifacts
from pessimal.pipeline.scoring import Tables, score_as_text, score_vocabulary, score_words
from pessimal.pipeline.session import SEED, Say, Session, open_session
from pessimal.pipeline.work import AuditRequest, Work, read_work

if TYPE_CHECKING:
    from pessimal.gate.records import Judgement

Timings = dict[str, float]


def run_audit(request: AuditRequest, say: Say) -> dict[str, Any]:
    """Audit a reward model: score, measure, record and judge it.

    What an interrupted run left is picked up: its scores from the cache, its MLflow run by key.
    A share of the work (``shard``) that leaves other shares undone ends after scoring.

    Returns:
        The ``pessimal.audit/1`` document; a ``pessimal.share/1`` one for such a share.

    Raises:
        UsageError: a flag, a pipeline, a policy or an audit file is wrong. Nothing was loaded yet.
        PessimalError: the model is refused, or the work could not be done.
    """
    from pessimal.tracking import Tracker

    work = read_work(request)
    tracker = Tracker(request.tracking_uri, request.content.home)
    timings: Timings = {}
    with _timed(timings, "load_s"):
        first = work.steps["vocabulary"][0]
        session = open_session(request.model, request.cache, first, request.options, say)
        for prompt in work.prompts.values():
            session.slot(prompt)
    if request.options.shard is not None:
        tables = _score(session, work, timings, say)
        if not tables.complete:
            return _share_document(tables)
    name = f"{session.source.id} {work.pipeline.name}"
    tags = {"model": session.source.id, "pipeline": work.pipeline.name}
    with tracker.start(name, tags, _key(session, work)) as run:
        picked_up = " (picked up where it stopped)" if run.resumed else ""
        say(f"Recording run {run.run_id}{picked_up}")
        findings = _measure(session, work, timings, say)
        judgement = _judge(findings)
        if judgement.void:
            findings = replace(findings, metrics=[_void(one) for one in findings.metrics])
        document = audit_document(findings, judgement, run.run_id)
        say("Writing the report")
        with tempfile.TemporaryDirectory(prefix="pessimal-") as scratch:
            write_artifacts(run, findings, judgement, document, Path(scratch))
    return document


def _score(session: Session, work: Work, timings: Timings, say: Say) -> Tables:
    pipeline, steps, quiet = work.pipeline, work.steps, work.request.quiet
    ids = session.planned_ids(pipeline.vocabulary.tokens)
    with _timed(timings, "sweep_s"):
        say(f"Scoring {len(ids):,} tokens under {len(steps['vocabulary'])} prompts")
        vocabulary, costs = score_vocabulary(session, steps["vocabulary"], ids, quiet=quiet)
    tables = Tables(vocabulary, costs, ids)
    if "words" in steps:
        with _timed(timings, "words_s"):
            count = sum(map(len, work.lists.values()))
            say(f"Scoring {count:,} words and phrases under {len(steps['words'])} prompts")
            tables.words, costs = score_words(session, steps["words"], work.lists, quiet=quiet)
            tables.costs += costs
    if pipeline.as_text is not None:
        with _timed(timings, "as_text_s"):
            say(f"Scoring tokens ({pipeline.as_text.tokens}) as text through the template")
            tables.as_text, costs = score_as_text(
                session, steps["as_text"], vocabulary, pipeline.as_text.tokens, quiet=quiet
            )
            tables.costs += costs
    return tables


def _measure(session: Session, work: Work, timings: Timings, say: Say) -> Findings:
    from pessimal.models.rescoring import RescoringScorer

    tables = _score(session, work, timings, say)
    say("Measuring")
    with _timed(timings, "audits_s"):
        context = Context(
            prompts=work.prompts,
            seed=SEED,
            vocabulary=tables.vocabulary.frame,
            vocabulary_planned=len(tables.planned_ids) * len(work.steps["vocabulary"]),
            sampled=tables.vocabulary.metadata.sampled,
            words=None if tables.words is None else tables.words.frame,
            as_text=tables.as_text,
            scorer=RescoringScorer(session.scorer, session.slots),
        )
        outcomes = run_audits(work.audits, context, work.pipeline.audits)
    return Findings(
        work=work,
        model=session.document(),
        tables=tables,
        outcomes=outcomes,
        metrics=metrics_of(outcomes),
        timings=timings,
        ids_without_row=session.vocabulary.without_row,
        rows_without_token=session.vocabulary.rows_without_token,
    )


def _judge(findings: Findings) -> Judgement:
    from pessimal.gate.judge import judge
    from pessimal.gate.records import AuditStatus
    from pessimal.gate.suite import score_table_suite

    work, tables = findings.work, findings.tables
    table = tables.vocabulary
    with _timed(findings.timings, "gate_s"):
        return judge(
            work.policy,
            findings.metrics,
            [AuditStatus(one.name, one.status, one.reason) for one in findings.outcomes],
            work.specs,
            model_id=findings.model["id"],
            revision=findings.model["revision"],
            waivers=work.waivers,
            scores=score_table_suite(table.frame, tables.planned_ids, table.prompts),
        )


def _void(metric: Metric) -> Metric:
    if metric.name.startswith("numerics."):
        return metric
    return replace(metric, status="void", reason="the numerics failed")


def _share_document(tables: Tables) -> dict[str, Any]:
    return {
        "schema": "pessimal.share/1",
        "complete": False,
        "computed": sum(cost["computed"] for cost in tables.costs),
        "reused": sum(cost["reused"] for cost in tables.costs),
        "rows": sum(cost["rows"] for cost in tables.costs),
        "exit_code": 0,
    }


def _key(session: Session, work: Work) -> str:
    """What makes two runs the same work, so that one can go on with what the other left."""
    parts = {
        "model": session.loaded.hashes.items(),
        "request": asdict(session.loaded.request),
        "pipeline": work.pipeline.model_dump(),
        "policy": work.policy.sha256,
        "prompts": [prompt.text for prompt in work.prompts.values()],
        "lists": work.lists,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


@contextmanager
def _timed(timings: Timings, name: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    timings[name] = timings.get(name, 0.0) + time.perf_counter() - began
