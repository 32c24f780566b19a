"""An audit from end to end: plan, sweep, audits, track, gate. The only orchestration."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pessimal.audit import Context
from pessimal.errors import UsageError
from pessimal.pipeline.audits import metrics_of, run_audits
from pessimal.pipeline.baseline import Baseline, open_baseline
from pessimal.pipeline.conclude import Timings, conclude, timed
from pessimal.pipeline.evidence import model_files
from pessimal.pipeline.record import Findings
from pessimal.pipeline.scoring import (
    Tables,
    join_words,
    score_as_text,
    score_vocabulary,
    score_words,
)
from pessimal.pipeline.session import SEED, Say, Session, open_session
from pessimal.pipeline.standing import register_run
from pessimal.pipeline.work import HUMAN, AuditRequest, Work, read_work
from pessimal.tracking import Tracker, list_digest

if TYPE_CHECKING:
    import pandas as pd

    from pessimal.models.base import BaseLogprobs
    from pessimal.pipeline.searches import Searches
    from pessimal.tracking import RunHandle


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
    work = read_work(request)
    tracker = Tracker(request.tracking_uri, request.content.home)
    timings: Timings = {}
    base = _ask_base(work, timings, say)
    with timed(timings, "load_s"):
        first = work.steps["vocabulary"][0]
        session = open_session(request.model, request.cache, first, request.options, say)
        for prompt in work.prompts.values():
            session.slot(prompt)
    baseline = _open_baseline(tracker, work, session)
    if request.options.shard is not None:
        tables = _score(session, work, timings, say)
        if not tables.complete:
            return _share_document(tables)
    name = f"{session.source.id} {work.pipeline.name}"
    tags = {"model": session.source.id, "pipeline": work.pipeline.name}
    with tracker.start(name, tags, _key(session, work, base, baseline)) as run:
        picked_up = " (picked up where it stopped)" if run.resumed else ""
        say(f"Recording run {run.run_id}{picked_up}")
        findings = _measure(session, work, base, baseline, (tracker, run), timings, say)
        say("Judging, and writing the report")
        document = conclude(run, findings)
        register_run(tracker, document, request.content, work.specs)
        return document


def _open_baseline(tracker: Tracker, work: Work, session: Session) -> Baseline | None:
    """The run to measure changes from, found before anything is scored."""
    reference = work.request.baseline
    if reference is None:
        return None
    if "words" not in work.steps:
        raise UsageError(
            "baseline_without_words", f"The pipeline {work.pipeline.name} scores no word lists.",
            "Leave out --baseline, or name a pipeline with words.",
        )  # fmt: skip
    prompts = {prompt.id: prompt.text for prompt in work.steps["words"]}
    lists = {name: list_digest(words) for name, words in work.lists.items()}
    return open_baseline(tracker, reference, session.source.id, prompts, lists)


def _ask_base(work: Work, timings: Timings, say: Say) -> BaseLogprobs | None:
    """What the base model would say next; asked before the reward model takes up the memory."""
    request = work.request
    if request.base_model is None:
        return None
    from pessimal.models.base import base_logprobs
    from pessimal.models.source import open_source

    prompts = {prompt.id: prompt.text for prompt in work.steps["vocabulary"]}
    with timed(timings, "base_s"):
        say(f"Asking {request.base_model} for the next token after {len(prompts)} prompts")
        source = open_source(request.model, request.cache)
        return base_logprobs(request.base_model, source, prompts, request.cache)


def _score(session: Session, work: Work, timings: Timings, say: Say) -> Tables:
    pipeline, steps, quiet = work.pipeline, work.steps, work.request.quiet
    ids = session.planned_ids(pipeline.vocabulary.tokens)
    with timed(timings, "sweep_s"):
        say(f"Scoring {len(ids):,} tokens under {len(steps['vocabulary'])} prompts")
        vocabulary, costs = score_vocabulary(session, steps["vocabulary"], ids, quiet=quiet)
    tables = Tables(vocabulary, costs, ids)
    if "words" in steps:
        with timed(timings, "words_s"):
            lists = {name: words for name, words in work.lists.items() if name != HUMAN}
            count = sum(map(len, lists.values()))
            say(f"Scoring {count:,} words and phrases under {len(steps['words'])} prompts")
            tables.words, costs = score_words(session, steps["words"], lists, quiet=quiet)
            tables.costs += costs
    if HUMAN in steps:
        with timed(timings, "human_s"):
            lists = {HUMAN: work.lists[HUMAN]}
            say(f"Scoring {len(lists[HUMAN]):,} ranked entities under {len(steps[HUMAN])} prompts")
            ranked, costs = score_words(session, steps[HUMAN], lists, quiet=quiet)
            tables.words = ranked if tables.words is None else join_words(tables.words, ranked)
            tables.costs += costs
    if pipeline.as_text is not None:
        with timed(timings, "as_text_s"):
            say(f"Scoring tokens ({pipeline.as_text.tokens}) as text through the template")
            tables.as_text, costs = score_as_text(
                session, steps["as_text"], vocabulary, pipeline.as_text.tokens, quiet=quiet
            )
            tables.costs += costs
    return tables


def _measure(
    session: Session, work: Work, base: BaseLogprobs | None, baseline: Baseline | None,
    tracked: tuple[Tracker, RunHandle], timings: Timings, say: Say,
) -> Findings:  # fmt: skip
    from pessimal.models.rescoring import RescoringScorer

    tables = _score(session, work, timings, say)
    assert tables.vocabulary is not None
    searches = _search(session, work, tables.vocabulary.frame, tracked, timings, say)
    say("Measuring")
    with timed(timings, "audits_s"):
        context = Context(
            prompts=work.prompts,
            seed=SEED,
            vocabulary=tables.vocabulary.frame,
            vocabulary_planned=len(tables.planned_ids) * len(work.steps["vocabulary"]),
            sampled=tables.vocabulary.metadata.sampled,
            words=None if tables.words is None else tables.words.frame,
            as_text=tables.as_text,
            scorer=RescoringScorer(session.scorer, session.slots),
            human=work.human,
            base_logprobs=None if base is None else base.frame,
            categories=work.categories,
            baseline=None if baseline is None else baseline.words,
            searches=None if searches is None else searches.tables,
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
        files=model_files(session.source),
        extra=_extra(base, baseline, searches),
    )


def _search(
    session: Session, work: Work, vocabulary: pd.DataFrame, tracked: tuple[Tracker, RunHandle],
    timings: Timings, say: Say,
) -> Searches | None:  # fmt: skip
    step, (tracker, run) = work.pipeline.searches, tracked
    if step is None:
        return None
    from pessimal.pipeline.searches import record_searches, run_searches

    prompts = work.steps["searches"]
    with timed(timings, "searches_s"):
        say(f"Searching for longer replies under {len(prompts)} prompts")
        found = run_searches(
            session, prompts, step, work.request.content, vocabulary, work.request.cache, tracker,
            say,
        )  # fmt: skip
        record_searches(run, found, {
            "model": session.source.id, "revision": session.source.revision,
            "pipeline": work.pipeline.name, "policy": work.policy.name,
        })  # fmt: skip
    return found


def _extra(
    base: BaseLogprobs | None, baseline: Baseline | None, searches: Searches | None
) -> dict[str, Any]:
    entries = {"base_model": base, "baseline": baseline}
    extra: dict[str, Any] = {k: one.document for k, one in entries.items() if one is not None}
    if searches is not None and searches.preset is not None:
        extra["searches"] = searches.found
        extra["search_preset"] = searches.preset.document()
    return extra


def _share_document(tables: Tables) -> dict[str, Any]:
    return {
        "schema": "pessimal.share/1",
        "complete": False,
        "computed": sum(cost["computed"] for cost in tables.costs),
        "reused": sum(cost["reused"] for cost in tables.costs),
        "rows": sum(cost["rows"] for cost in tables.costs),
        "exit_code": 0,
    }


def _key(session: Session, work: Work, base: BaseLogprobs | None, baseline: Baseline | None) -> str:
    """What makes two runs the same work, so that one can go on with what the other left."""
    parts = {
        "model": session.model.hashes.items(),
        "request": asdict(session.model.request),
        "pipeline": work.pipeline.model_dump(),
        "policy": work.policy.sha256,
        "prompts": [prompt.text for prompt in work.prompts.values()],
        "lists": work.lists,
        "human": None if work.human is None else work.human.to_dict("list"),
        "categories": work.categories,
        "baseline": None if baseline is None else baseline.run_id,
        "base": None if base is None else [base.document, base.frame.sum().tolist()],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
