"""Judge and report finished runs, from what they hold alone: no content of any folder is run."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.audit import Metric
from pessimal.errors import PessimalError
from pessimal.pipeline.record import POLICY, SPECS, stored_specs
from pessimal.project import ContentRoot
from pessimal.tracking import Tracker

if TYPE_CHECKING:
    import pandas as pd

    from pessimal.gate.records import Judgement

WAIVERS = "waivers.yaml"
AUDIT_SCHEMA = "pessimal.audit/1"


def judge_run(
    reference: str, policy_name: str | None, content: ContentRoot, tracking_uri: str | None,
    today: datetime.date | None = None,
) -> tuple[dict[str, Any], Judgement]:  # fmt: skip
    """Judge a finished run again; loads no model.

    Args:
        reference: a run id, the beginning of one, or ``latest``.
        policy_name: a policy of `content` or a file; the run's own policy when None.
        content: where policies and waivers are read from, as data.
        tracking_uri: where runs are.
        today: the day that waivers are held against.

    Returns:
        The audit document with the new verdict, and the judgement.

    Raises:
        UsageError: no such run, or a policy or waiver that is wrong.
        PessimalError: the run's record can't be read.
    """
    from pessimal.gate.judge import judge
    from pessimal.gate.policy import load_policy, policy_from_document
    from pessimal.gate.records import AuditStatus
    from pessimal.gate.waivers import load_waivers, revision_of

    tracker = Tracker(tracking_uri, content.home)
    run_id, document = _open(tracker, reference)
    specs = stored_specs(tracker.download(run_id, SPECS))
    audits = [AuditStatus(**audit) for audit in document["audits"]]
    if policy_name is None:
        policy = policy_from_document(_read(tracker.download(run_id, POLICY)))
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
    return document, judgement


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
    run_id, document = _open(tracker, reference)
    artifacts = document["artifacts"]
    tables = {
        Path(place).stem.replace(".", "/", 1): _frame(tracker, run_id, place)
        for place in artifacts.get("tables", [])
    }
    drawings = {
        Path(place).stem: tracker.download(run_id, place).read_text(encoding="utf-8")
        for place in artifacts.get("figures", [])
    }
    scores = {
        name: _frame(tracker, run_id, artifacts[name]) if name in artifacts else None
        for name in ("scores", "words", "as_text")
    }
    write_report(
        document, tables, scores["scores"], drawings, out,
        words=scores["words"], as_text=scores["as_text"],
    )  # fmt: skip
    return run_id


def _open(tracker: Tracker, reference: str) -> tuple[str, dict[str, Any]]:
    run_id = tracker.find_run(reference)
    document = tracker.load_document(run_id)
    missing = {"model", "metrics", "audits", "artifacts"} - document.keys()
    if document.get("schema") != AUDIT_SCHEMA or missing:
        raise PessimalError(
            "not_an_audit", f"Run {run_id} is not an audit of this version of Pessimal.",
            "Name an audit's run, or audit the model again.",
        )  # fmt: skip
    return run_id, document


def _frame(tracker: Tracker, run_id: str, place: str) -> pd.DataFrame:
    """A table of the run; one that was stored in parts is put together again."""
    import pandas as pd

    stem, folder = Path(place).stem, Path(place).parent.as_posix()
    parts = [
        file for file in tracker.artifacts(run_id, folder)
        if file == place or Path(file).name.startswith(f"{stem}.part-")
    ]  # fmt: skip
    parts.sort(key=lambda file: (len(file), file))
    if not parts:
        parts = [place]
    return pd.concat([pd.read_parquet(tracker.download(run_id, part)) for part in parts])


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


def _read(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PessimalError(
            "record_invalid",
            f"The run's {path.name} can't be read: {error}.",
            "Audit the model again.",
        ) from error
    if not isinstance(stored, dict):
        raise PessimalError(
            "record_invalid", f"The run's {path.name} is no record.", "Audit again."
        )
    return stored
