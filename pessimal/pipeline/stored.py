"""Read what finished runs hold. Nothing of any folder is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.errors import PessimalError
from pessimal.tracking import Tracker

if TYPE_CHECKING:
    import pandas as pd

AUDIT_SCHEMA = "pessimal.audit/1"


def open_document(tracker: Tracker, run_id: str) -> dict[str, Any]:
    """A run's audit document.

    Raises:
        PessimalError: it holds none, or one of another version.
    """
    document = tracker.load_document(run_id)
    missing = {"model", "metrics", "audits", "artifacts"} - document.keys()
    if document.get("schema") != AUDIT_SCHEMA or missing:
        raise PessimalError(
            "not_an_audit", f"Run {run_id} is not an audit of this version of Pessimal.",
            "Name an audit's run, or audit the model again.",
        )  # fmt: skip
    return document


def read_frame(tracker: Tracker, run_id: str, place: str) -> pd.DataFrame:
    """A table of a run; one that was stored in parts is put together again.

    Raises:
        PessimalError: the run holds no such table.
    """
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


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of a run.

    Raises:
        PessimalError: the file is none.
    """
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
