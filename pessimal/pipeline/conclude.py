"""Judge what was measured, and record it: the end of every audit."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.audit import Metric
from pessimal.pipeline.record import Findings, audit_document, write_artifacts

if TYPE_CHECKING:
    from pessimal.gate.records import Judgement
    from pessimal.tracking import RunHandle

Timings = dict[str, float]


def conclude(run: RunHandle, findings: Findings) -> dict[str, Any]:
    """Judge findings, write everything to the run, and return the audit document."""
    with timed(findings.timings, "gate_s"):
        judgement = _judge(findings)
    if judgement.void:
        findings = replace(findings, metrics=[_void(one) for one in findings.metrics])
    document = audit_document(findings, judgement, run.run_id)
    with tempfile.TemporaryDirectory(prefix="pessimal-") as scratch:
        write_artifacts(run, findings, judgement, document, Path(scratch))
    return document


@contextmanager
def timed(timings: Timings, name: str) -> Iterator[None]:
    """Add the seconds that a block takes to ``timings[name]``."""
    began = time.perf_counter()
    yield
    timings[name] = timings.get(name, 0.0) + time.perf_counter() - began


def _judge(findings: Findings) -> Judgement:
    from pessimal.gate.judge import judge
    from pessimal.gate.records import AuditStatus
    from pessimal.gate.suite import score_table_suite
    from pessimal.gate.waivers import revision_of

    work, tables = findings.work, findings.tables
    table = tables.vocabulary
    scores = None
    if table is not None:
        scores = score_table_suite(table.frame, tables.planned_ids, table.prompts)
    return judge(
        work.policy,
        findings.metrics,
        [AuditStatus(one.name, one.status, one.reason) for one in findings.outcomes],
        work.specs,
        model_id=findings.model["id"],
        revision=revision_of(findings.model),
        waivers=work.waivers,
        scores=scores,
    )


def _void(metric: Metric) -> Metric:
    if metric.name.startswith("numerics."):
        return metric
    return replace(metric, status="void", reason="the numerics failed")
