"""Finished audits that no model stands behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pessimal.compare import Covariates, Entry
from pessimal.compare.join import _alphabet
from pessimal.scores.table import storable

LETTERS = {byte: letter for letter, byte in _alphabet().items()}


def word_table(
    words: Sequence[str], scores: Mapping[str, Any], list_: str = "general"
) -> pd.DataFrame:
    table = pd.DataFrame({"word": storable(words), "list": list_})
    return table.assign(**{f"score:{name}": np.asarray(v) for name, v in scores.items()})


def byte_level(data: bytes) -> str:
    """A token as byte-level tokenizers name it."""
    return "".join(LETTERS[byte] for byte in data)


def token_table(
    tokens: Sequence[str], texts: Sequence[str], scores: Any, prompt: str = "greatest",
    kind: str = "word",
) -> pd.DataFrame:  # fmt: skip
    return pd.DataFrame({
        "token_id": np.arange(len(tokens)), "token": list(tokens), "text": list(texts),
        "kind": kind, "roundtrips": True, f"score:{prompt}": np.asarray(scores),
    })  # fmt: skip


def entry(
    model: str, words: pd.DataFrame | None = None, vocabulary: pd.DataFrame | None = None, *,
    revision: str | None = None, run: str = "", texts: Mapping[str, str] | None = None,
    metrics: Sequence[Mapping[str, Any]] = (), finished: str = "2026-01-01T00:00:00+00:00",
    covariates: Covariates | None = None,
) -> Entry:  # fmt: skip
    tables = [table for table in (words, vocabulary) if table is not None]
    names = dict.fromkeys(
        column.removeprefix("score:")
        for table in tables for column in table.columns if column.startswith("score:")
    )  # fmt: skip
    prompts = [
        {"id": name, "text": (texts or {}).get(name, f"What is {name}?"), "framing": "positive"}
        for name in names
    ]
    document = {
        "schema": "pessimal.audit/1", "run_id": run or f"run of {model} {revision}",
        "model": {"id": model, "revision": revision, "hashes": None}, "prompts": prompts,
        "metrics": list(metrics), "audits": [], "artifacts": {}, "pipeline": "import",
        "policy": "report-only", "verdict": "WARN", "finished": finished, "vocabulary": None,
    }  # fmt: skip
    return Entry(document, vocabulary, words, covariates or Covariates())


def metric(name: str, value: float | None, half: float = 0.1, **others: Any) -> dict[str, Any]:
    return {
        "name": name, "slice": "all", "value": value, "n": 100, "unit": "SD", "status": "ok",
        "ci_low": None if value is None else value - half,
        "ci_high": None if value is None else value + half, "noise_floor": None, "reason": None,
    } | others  # fmt: skip
