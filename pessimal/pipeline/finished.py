"""Judge and report finished runs, from what they hold alone: no content of any folder is run."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.audit import Metric, metric_specs
from pessimal.audit.drift import drift
from pessimal.errors import PessimalError
from pessimal.pipeline.baseline import measure_drift
from pessimal.pipeline.evidence import REPORTS
from pessimal.pipeline.record import POLICY, SPECS, stored_specs
from pessimal.pipeline.standing import register_run
from pessimal.pipeline.stored import open_document, read_frame, read_json
from pessimal.pipeline.verify import verify_run
from pessimal.pipeline.work import WAIVERS
from pessimal.project import ContentRoot
from pessimal.tracking import Tracker

if TYPE_CHECKING:
    from pessimal.gate.records import Judgement


def judge_run(
    reference: str, policy_name: str | None, content: ContentRoot, tracking_uri: str | None,
    today: datetime.date | None = None, *, baseline: str | None = None, verify: bool = False,
    publish: bool = False,
) -> tuple[dict[str, Any], Judgement]:  # fmt: skip
    """Judge a finished run again; loads no model.

    Args:
        reference: a run id, the beginning of one, or ``latest``.
        policy_name: a policy of `content` or a file; the run's own policy when None.
        content: where policies and waivers are read from, as data.
        tracking_uri: where runs are.
        today: the day that waivers are held against.
        baseline: an earlier run to measure changes from; see `pessimal.pipeline.baseline`.
        verify: first check that nothing of the run has changed.
        publish: tag the model's registered version with the verdict, and give or take its alias.

    Returns:
        The audit document with the new verdict, and the judgement.

    Raises:
        UsageError: no such run, or a policy, waiver or baseline that is wrong.
        PessimalError: the run's record can't be read, or something of it has changed.
    """
    from pessimal.gate.judge import judge
    from pessimal.gate.policy import load_policy, policy_from_document
    from pessimal.gate.records import AuditStatus
    from pessimal.gate.waivers import load_waivers, revision_of

    tracker = Tracker(tracking_uri, content.home)
    run_id = tracker.find_run(reference)
    document = open_document(tracker, run_id)
    specs = metric_specs({drift.name: drift}) | stored_specs(tracker.download(run_id, SPECS))
    if verify:
        unchecked = verify_run(tracker, run_id, content, specs)
        document["verified"] = {"changed": [], "unchecked": unchecked}
    if baseline is not None:
        document |= _with_drift(tracker, document, baseline)
    audits = [AuditStatus(**audit) for audit in document["audits"]]
    if policy_name is None:
        policy = policy_from_document(read_json(tracker.download(run_id, POLICY)))
    else:
        names = {audit.name for audit in audits} | {name.split(".")[0] for name in specs}
        policy = load_policy(policy_name, content.expectations, specs, sorted(names))
    # A metric that an earlier judgement voided is judged as measured; numerics decide again.
    metrics = [_metric(stored) for stored in document["metrics"]]
    judgement = judge(
        policy, metrics, audits, specs, model_id=document["model"]["id"],
        revision=revision_of(document["model"]), today=today,
        waivers=load_waivers(content.expectations / WAIVERS, specs),
    )  # fmt: skip
    document = document | judgement.document()
    if publish:
        register_run(tracker, document, content, specs)
    return document, judgement


def _with_drift(tracker: Tracker, document: Mapping[str, Any], baseline: str) -> dict[str, Any]:
    """The entries of a document that a baseline changes."""
    outcome, metrics, found = measure_drift(tracker, document, baseline)
    others = [one for one in document["audits"] if one["name"] != drift.name]
    kept = [one for one in document["metrics"] if not one["name"].startswith(f"{drift.name}.")]
    return {
        "audits": [*others, outcome.document()],
        "metrics": [*kept, *(metric.document() for metric in metrics)],
        "baseline": found.document,
    }


def read_reports(
    document: Mapping[str, Any], content: ContentRoot, tracking_uri: str | None
) -> dict[str, str]:
    """The reports for machines and people that a run holds, by their path in it.

    Raises:
        PessimalError: the run holds no such reports.
    """
    tracker = Tracker(tracking_uri, content.home)
    return {
        place: tracker.download(document["run_id"], place).read_text(encoding="utf-8")
        for place in REPORTS
    }


def report_run(reference: str, out: Path, content: ContentRoot, tracking_uri: str | None) -> str:
    """Write the report of a finished run from what the run holds.

    Returns:
        The run's id.

    Raises:
        UsageError: no such run.
        PessimalError: the run's record can't be read, or `out` can't be written.
    """
    from pessimal.reports.html import write_report

    tracker = Tracker(tracking_uri, content.home)
    run_id = tracker.find_run(reference)
    document = open_document(tracker, run_id)
    artifacts = document["artifacts"]
    tables = {
        Path(place).stem.replace(".", "/", 1): read_frame(tracker, run_id, place)
        for place in artifacts.get("tables", [])
    }
    drawings, charts = (
        {
            Path(place).stem: tracker.download(run_id, place).read_text(encoding="utf-8")
            for place in artifacts.get(kind, [])
        }
        for kind in ("figures", "charts")
    )
    scores = {
        name: read_frame(tracker, run_id, artifacts[name]) if name in artifacts else None
        for name in ("scores", "words", "as_text")
    }
    write_report(
        document, tables, scores["scores"], drawings, out,
        words=scores["words"], as_text=scores["as_text"], charts=charts,
    )  # fmt: skip
    return run_id


def _metric(stored: Mapping[str, Any]) -> Metric:
    try:
        metric = Metric(**stored)
    except TypeError as error:
        raise PessimalError(
            "record_invalid",
            f"A metric of the run is not a metric: {error}.",
            "Audit the model again.",
        ) from error
    return metric
