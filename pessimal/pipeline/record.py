"""What an audit leaves behind: its document, its tables, figures and report, in one MLflow run."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.audit import Bound, Metric, MetricSpec
from pessimal.errors import PessimalError
from pessimal.pipeline.audits import AuditOutcome
from pessimal.pipeline.evidence import (
    GATE,
    RECORD,
    code_hashes,
    combined,
    dumps,
    log_gate,
    log_record,
)
from pessimal.pipeline.scoring import Tables
from pessimal.pipeline.session import versions
from pessimal.pipeline.standing import waived
from pessimal.pipeline.work import Planned

if TYPE_CHECKING:
    import pandas as pd

    from pessimal.gate.records import Judgement
    from pessimal.tracking import RunHandle

VOCABULARY = "scores/vocabulary.parquet"
WORDS = "scores/words.parquet"
AS_TEXT = "scores/as_text.parquet"
REPORT = "report.html"
CHARTS = "figures/charts"
SPECS = "inputs/metrics.json"
POLICY = "inputs/policy.json"


@dataclass(frozen=True)
class Findings:
    """Everything that one audit measured, ready to be judged and recorded."""

    work: Planned
    """What was to be done."""
    model: dict[str, Any]
    """The ``model`` object of the document."""
    tables: Tables
    """The scores."""
    outcomes: list[AuditOutcome]
    """What became of each audit."""
    metrics: list[Metric]
    """Every metric of the audits that ran."""
    timings: dict[str, float]
    """Seconds by step."""
    ids_without_row: tuple[int, ...] = ()
    """Ids of the tokenizer that the model has no embedding row for."""
    rows_without_token: int = 0
    """Embedding rows that no token belongs to."""
    files: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    """The files that the model was read from, by part."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further entries of the document."""


def audit_document(findings: Findings, judgement: Judgement, run_id: str) -> dict[str, Any]:
    """The ``pessimal.audit/1`` document."""
    from pessimal.tracking import list_digest

    results = {one.name: one.result for one in findings.outcomes if one.result}
    vocabulary = findings.tables.vocabulary
    artifacts: dict[str, Any] = {
        "report": REPORT,
        "document": "audit.json",
        "record": RECORD,
        "gate": list(GATE),
        "tables": [
            table_place(audit, name) for audit, result in results.items() for name in result.tables
        ],
        "figures": [
            figure_place(audit, figure.name)
            for audit, result in results.items()
            for figure in result.figures
        ],
        "charts": [
            f"{CHARTS}/{audit}.{figure.name}.json"
            for audit, result in results.items()
            for figure in result.figures
        ],
    }
    if vocabulary is not None:
        artifacts["scores"] = VOCABULARY
    if findings.tables.words is not None:
        artifacts["words"] = WORDS
    if findings.tables.as_text is not None:
        artifacts["as_text"] = AS_TEXT
    return {
        "schema": "pessimal.audit/1",
        "run_id": run_id,
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": findings.work.command,
        "pipeline": findings.work.pipeline_name,
        **judgement.document(),
        "model": findings.model,
        "audits": [outcome.document() for outcome in findings.outcomes],
        "metrics": [metric.document() for metric in findings.metrics],
        "searches": [],
        "prompts": [asdict(prompt) for prompt in findings.work.prompts.values()],
        "word_lists": [
            {"name": name, "items": len(words), "sha256": list_digest(words)}
            for name, words in findings.work.lists.items()
        ],
        "vocabulary": None
        if vocabulary is None
        else {
            "rows": len(vocabulary.frame),
            "sampled": vocabulary.metadata.sampled,
            "ids_without_row": list(findings.ids_without_row),
            "rows_without_token": findings.rows_without_token,
        },
        "sweeps": findings.tables.costs,
        "artifacts": artifacts,
        "timings": {name: round(seconds, 3) for name, seconds in findings.timings.items()},
        "versions": versions(),
    } | findings.extra


def table_place(audit: str, name: str) -> str:
    """Where an audit's table lies in the run."""
    return f"tables/{audit}.{name}.parquet"


def figure_place(audit: str, name: str) -> str:
    """Where an audit's figure lies in the run."""
    return f"figures/{audit}.{name}.svg"


def write_artifacts(
    run: RunHandle, findings: Findings, judgement: Judgement, document: dict[str, Any],
    scratch: Path,
) -> None:  # fmt: skip
    """Log everything to the run; the document last, so that a run that has it is whole."""
    from pessimal.reports.html import write_report
    from pessimal.reports.markdown import describe

    tables, work = findings.tables, findings.work
    _log_facts(run, findings, judgement, document)
    _log_scores(run, findings, scratch)
    shown = _log_tables(run, findings.outcomes, scratch)
    drawings, charts = _log_figures(run, findings.outcomes)
    run.log_text(dumps({name: asdict(spec) for name, spec in work.specs.items()}), SPECS)
    run.log_text(dumps(work.policy.document()), POLICY)
    log_gate(run, judgement, document, work.waivers)
    write_report(
        document, shown, None if tables.vocabulary is None else tables.vocabulary.frame,
        drawings, scratch / REPORT,
        words=None if tables.words is None else tables.words.frame, as_text=tables.as_text,
        charts=charts,
    )  # fmt: skip
    run.log_file(scratch / REPORT, REPORT)
    run.describe(describe(document))
    log_record(run, work, document, findings.files)
    run.log_document(document)


def stored_specs(path: Path) -> dict[str, MetricSpec]:
    """Read back the metric declarations that a run holds.

    Raises:
        PessimalError: the file is not such a record.
    """
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: MetricSpec(**{**spec, "bound": Bound(**spec["bound"]) if spec["bound"] else None})
            for name, spec in stored.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise PessimalError(
            "record_invalid", f"The run's {SPECS} is not a record of metrics: {error}.",
            "Audit the model again.",
        ) from error  # fmt: skip


def _log_facts(
    run: RunHandle, findings: Findings, judgement: Judgement, document: dict[str, Any]
) -> None:
    model, policy = findings.model, findings.work.policy
    code = combined(code_hashes(findings.work.audits))
    vocabulary = findings.tables.vocabulary
    run.log_params({
        "model": model["id"], "revision": model["revision"],
        "pipeline": findings.work.pipeline_name,
        "policy": policy.name, "family": model["family"], "dtype": model["dtype"],
        "attention": model["attention"], "bos": model["bos"], "device": model["device"],
        "tokens": None if vocabulary is None else len(vocabulary.frame),
        "prompts": len(findings.work.prompts),
    })  # fmt: skip
    run.set_tags({
        "verdict": judgement.verdict, "waivers": waived(document),
        "policy": policy.name, "policy.sha256": policy.sha256,
        "code.sha256": code, "model": model["id"], "model.revision": model["revision"],
        "model.weights.sha256": (model["hashes"] or {}).get("weights"),
        "model.template.sha256": model["template_sha256"], "precision": model["dtype"],
        "sampled": True if vocabulary is not None and vocabulary.metadata.sampled else None,
    })  # fmt: skip
    run.log_metrics(findings.metrics, first=[rule.metric for rule in judgement.rules])
    run.log_dataset("prompts", [p.text for p in findings.work.prompts.values()], "prompts")
    for name, words in findings.work.lists.items():
        run.log_dataset(name, words, "words")


def _log_scores(run: RunHandle, findings: Findings, scratch: Path) -> None:
    for table, place in ((findings.tables.vocabulary, VOCABULARY), (findings.tables.words, WORDS)):
        if table is not None:
            file = scratch / Path(place).name
            table.write(file)
            run.log_parquet(file, place)
    if findings.tables.as_text is not None:
        _log_frame(run, findings.tables.as_text, AS_TEXT, scratch)


def _log_tables(
    run: RunHandle, outcomes: Sequence[AuditOutcome], scratch: Path
) -> dict[str, pd.DataFrame]:
    """Every audit's tables as parquet, and its first one for MLflow's comparison page."""
    tables: dict[str, pd.DataFrame] = {}
    for outcome in outcomes:
        if outcome.result is None:
            continue
        for place, (name, table) in enumerate(outcome.result.tables.items()):
            tables[f"{outcome.name}/{name}"] = table
            _log_frame(run, table, table_place(outcome.name, name), scratch)
            if place == 0:
                run.log_table(outcome.name, table)
    return tables


def _log_figures(
    run: RunHandle, outcomes: Sequence[AuditOutcome]
) -> tuple[dict[str, str], dict[str, str]]:
    """Draw the audits' figures; their SVG and their charts by ``<audit>.<figure>``."""
    from pessimal.reports.figures import draw

    drawings: dict[str, str] = {}
    charts: dict[str, str] = {}
    for outcome in outcomes:
        for figure in outcome.result.figures if outcome.result else ():
            drawing = draw(figure, outcome.result.tables if outcome.result else {})
            name = f"{outcome.name}.{drawing.name}"
            drawings[name], charts[name] = drawing.svg, drawing.chart
            run.log_bytes(drawing.png, f"figures/{name}.png")
            run.log_text(drawing.svg, figure_place(outcome.name, drawing.name))
            run.log_text(drawing.chart, f"{CHARTS}/{name}.json")
    return drawings, charts


def _log_frame(run: RunHandle, frame: pd.DataFrame, place: str, scratch: Path) -> None:
    from pessimal.scores.table import storable

    file = scratch / Path(place).name
    texts = {
        column: storable(frame[column].astype(str).tolist())
        for column in frame.columns
        if frame[column].dtype.kind == "O" or str(frame[column].dtype) == "str"
    }
    frame.assign(**texts).to_parquet(file, index=False)
    run.log_parquet(file, place)
