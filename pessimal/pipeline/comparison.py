"""Compare finished runs and record what was found as a run of its own."""

from __future__ import annotations

import datetime
import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.compare import Comparison, Covariates, Entry, compare_models, read_covariates
from pessimal.errors import PessimalError, UsageError
from pessimal.pipeline.session import Say, versions
from pessimal.pipeline.stored import open_document, read_frame
from pessimal.project import ContentRoot
from pessimal.tracking import COMPARISONS, Tracker

if TYPE_CHECKING:
    from pessimal.tracking import RunHandle

DOCUMENT = "comparison.json"
REPORT = "report.html"


@dataclass(frozen=True)
class CompareRequest:
    """What the user asked for."""

    runs: tuple[str, ...]
    """Run ids, beginnings of them, or ``latest``."""
    content: ContentRoot
    """Where runs are, unless `tracking_uri` says."""
    last: int | None = None
    """Take the newest finished audits too, oldest first."""
    covariates: Path | None = None
    """CSV file of what is known of the models."""
    out: Path | None = None
    """Where to write the report beside the run's own."""
    tracking_uri: str | None = None
    """Where runs are."""
    command: str = ""
    """The command line that does it again."""


def run_compare(request: CompareRequest, say: Say) -> dict[str, Any]:
    """Compare runs, record it in ``reward-comparisons``, and return the document.

    Raises:
        UsageError: runs that don't exist, are named twice or are too few; wrong covariates.
        PessimalError: a run that is no audit, or runs with nothing in common.
    """
    tracker = Tracker(request.tracking_uri, request.content.home)
    given = {} if request.covariates is None else read_covariates(request.covariates)
    ids = [tracker.find_run(reference) for reference in request.runs]
    if request.last is not None:
        ids += [one for one in tracker.newest_audits(request.last) if one not in ids]
    say(f"Comparing {len(ids)} runs")
    entries = [_entry(tracker, run_id, given) for run_id in ids]
    if given and not given.keys() & {entry.id for entry in entries}:
        raise UsageError(
            "covariates_unknown", f"{request.covariates} names none of the models of these runs.",
            "Write the models' ids as the runs do, in the column model.",
        )  # fmt: skip
    comparison = compare_models(entries)
    tags: dict[str, object] = {"kind": "comparison", "models": len(entries)}
    for place, entry in enumerate(entries, 1):
        tags |= {f"source.{place}": entry.run_id, f"source.{place}.model": entry.id}
    name = " / ".join(model["label"] for model in comparison.document["models"])
    with tracker.start(name, tags, _key(entries), COMPARISONS) as run:
        say(f"Recording run {run.run_id}")
        document = _complete(comparison, run.run_id, request.command)
        with tempfile.TemporaryDirectory(prefix="pessimal-") as scratch:
            _record(run, comparison, document, request.out, Path(scratch))
    return document


def _entry(tracker: Tracker, run_id: str, given: Mapping[str, Covariates]) -> Entry:
    try:
        document = open_document(tracker, run_id)
    except PessimalError as error:
        if error.code != "artifact_missing":
            raise
        raise PessimalError(
            "not_an_audit", f"Run {run_id} holds no audit: it is of another kind, or unfinished.",
            "Name runs of pessimal audit or import that have finished.",
        ) from error  # fmt: skip
    artifacts, model = document["artifacts"], document["model"]
    tables = {
        name: read_frame(tracker, run_id, artifacts[key]) if key in artifacts else None
        for name, key in (("vocabulary", "scores"), ("words", "words"))
    }
    known = Covariates.of(model).updated(given.get(model["id"]))
    return Entry(document | {"run_id": run_id}, tables["vocabulary"], tables["words"], known)


def _key(entries: list[Entry]) -> str:
    """What makes two comparisons the same work."""
    parts = [[(entry.run_id, entry.covariates.document()) for entry in entries], versions()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _complete(comparison: Comparison, run_id: str, command: str) -> dict[str, Any]:
    artifacts = {
        "report": REPORT, "document": DOCUMENT,
        "tables": [f"tables/{name}.parquet" for name in _stored(comparison)],
        "figures": [f"figures/{figure.name}.svg" for figure in comparison.figures],
    }  # fmt: skip
    return comparison.document | {
        "run_id": run_id,
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command, "artifacts": artifacts, "versions": versions(),
    }  # fmt: skip


def _stored(comparison: Comparison) -> list[str]:
    # The rest only serve figures.
    return [name for name in comparison.tables if ":" not in name]


def _record(
    run: RunHandle, comparison: Comparison, document: dict[str, Any], out: Path | None,
    scratch: Path,
) -> None:  # fmt: skip
    """Log everything to the run; the document last, so that a run that has it is whole."""
    from pessimal.reports.comparison import describe_comparison, write_comparison
    from pessimal.reports.figures import draw

    run.log_params({
        "models": len(document["models"]), "prompts": len(document["prompts"]),
        **{f"model.{i}": model["id"] for i, model in enumerate(document["models"], 1)},
        **{f"revision.{i}": model["revision"] for i, model in enumerate(document["models"], 1)},
    })  # fmt: skip
    run.log_metrics(comparison.metrics)
    for name in _stored(comparison):
        file = scratch / f"{name}.parquet"
        comparison.tables[name].to_parquet(file, index=False)
        run.log_parquet(file, f"tables/{name}.parquet")
    for name in ("pairs", "disagreement"):
        run.log_table(name, comparison.tables[name])
    drawings: dict[str, str] = {}
    charts: dict[str, str] = {}
    for figure in comparison.figures:
        drawing = draw(figure, comparison.tables)
        drawings[figure.name], charts[figure.name] = drawing.svg, drawing.chart
        run.log_bytes(drawing.png, f"figures/{figure.name}.png")
        run.log_text(drawing.svg, f"figures/{figure.name}.svg")
    write_comparison(document, drawings, scratch / REPORT, charts)
    run.log_file(scratch / REPORT, REPORT)
    if out is not None:
        write_comparison(document, drawings, out, charts)
    run.describe(describe_comparison(document))
    run.log_text(json.dumps(document, indent=1, allow_nan=False), DOCUMENT)
