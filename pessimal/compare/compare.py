"""Set finished audits side by side: one document, its tables and its figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pessimal.audit import Figure, Metric, Prompt
from pessimal.compare.agreement import (
    MINIMUM_WORDS,
    PromptAgreement,
    agree,
    matrix,
    mean_matrix,
)
from pessimal.compare.drift import drift_between, versions
from pessimal.compare.join import SOURCES, Joined, Source, join
from pessimal.compare.mds import make_map
from pessimal.compare.records import Entry, label_models
from pessimal.compare.rsa import explain
from pessimal.compare.show import comparison_figures, comparison_tables, headline_metrics
from pessimal.compare.words import disagreement
from pessimal.errors import PessimalError, UsageError
from pessimal.text import show_text

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "pessimal.compare/1"
_LISTED_WORDS = 30


@dataclass(frozen=True)
class Comparison:
    """What a comparison found."""

    document: dict[str, Any]
    """The ``pessimal.compare/1`` document."""
    metrics: list[Metric]
    """Its headline numbers."""
    tables: dict[str, pd.DataFrame]
    """Its tables by name."""
    figures: list[Figure]
    """Figures over those tables."""


def compare_models(entries: Sequence[Entry], seed: int = 0) -> Comparison:
    """Compare finished audits of two or more models.

    Args:
        entries: the runs, in the order to show them.
        seed: of bootstraps, permutations and the map.

    Raises:
        UsageError: ``one_run`` or ``run_twice``.
        PessimalError: ``no_common_prompt`` or ``no_common_words``, saying what each run has.
    """
    _refuse(entries)
    labels, size = label_models(entries), len(entries)
    prompts, notes = _prompts(entries)
    joined = {source: join(entries, source) for source in SOURCES}
    agreements = [
        agree(joined[source], prompt, models, seed)
        for prompt, (source, models) in _plan(entries, prompts, joined).items()
    ]
    _refuse_strangers(agreements, entries, labels)
    tau = mean_matrix(agreements, size)
    notes += [
        f"{label}: a sample of the vocabulary was scored."
        for label, entry in zip(labels, entries, strict=True)
        if (entry.document.get("vocabulary") or {}).get("sampled")
    ]
    words: dict[str, pd.DataFrame] = {}
    common: dict[str, int] = {}
    for one in agreements:
        words[one.prompt], common[one.prompt] = disagreement(
            joined[one.source], one.prompt, one.models, labels
        )
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "models": [entry.summary(label) for entry, label in zip(entries, labels, strict=True)],
        "prompts": [vars(prompts[one.prompt]) | {"source": one.source} for one in agreements],
        **_matrices(agreements, size),
        "off_diagonal_mean": _means(agreements),
        "mean_tau_intervals": {
            one.prompt: {"ci_low": _known(one.mean_tau.low), "ci_high": _known(one.mean_tau.high),
                         "n": one.mean_tau.n}
            for one in agreements
        },
        "pairs": _pairs(agreements),
        "mean_tau": [[_known(cell) for cell in row] for row in tau],
        "mds": make_map(tau, seed).document(),
        "rsa": explain(tau, [entry.covariates for entry in entries], seed),
        "drift": [
            drift_between(entries, pair, agreements, joined, prompts) for pair in versions(entries)
        ],
        "disagreement": {
            prompt: {"words": common[prompt], "most": _records(table, labels)}
            for prompt, table in words.items()
        },
        "metrics": side_by_side(entries),
        "notes": notes,
    }  # fmt: skip
    tables = comparison_tables(document, labels, words)
    return Comparison(
        document,
        headline_metrics(document, agreements),
        tables,
        comparison_figures(document, tables),
    )


def side_by_side(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Every metric that two models or more have: ``name slice unit values``, one value a model."""
    found: dict[tuple[str, str], list[Any]] = {}
    units: dict[tuple[str, str], str] = {}
    for place, entry in enumerate(entries):
        for metric in entry.document["metrics"]:
            key = (metric["name"], metric["slice"])
            units[key] = metric.get("unit") or ""
            kept = ("value", "ci_low", "ci_high", "n", "noise_floor", "status", "reason")
            values = found.setdefault(key, [None] * len(entries))
            values[place] = {name: metric.get(name) for name in kept}
    rows = [
        {"name": name, "slice": where, "unit": units[name, where], "values": values}
        for (name, where), values in found.items()
        if sum(value is not None and value["value"] is not None for value in values) > 1
    ]
    # Sorting is stable: whole metrics first, each as its audit declares it.
    return sorted(rows, key=lambda row: row["slice"] != "all")


def _refuse(entries: Sequence[Entry]) -> None:
    if len(entries) < 2:
        raise UsageError(
            "one_run", "A comparison takes two runs; one is named." if entries
            else "A comparison takes two runs; none is named.",
            "Name another run's id, or take the newest ones with --last N.",
        )  # fmt: skip
    seen: set[str] = set()
    for entry in entries:
        if entry.run_id in seen:
            raise UsageError(
                "run_twice", f"Run {entry.run_id} is named twice.", "Name each run once."
            )
        seen.add(entry.run_id)


def _prompts(entries: Sequence[Entry]) -> tuple[dict[str, Prompt], list[str]]:
    """Every prompt that has one text in all runs, and a note for each that hasn't."""
    found: dict[str, Prompt] = {}
    differ: dict[str, None] = {}
    for entry in entries:
        for stored in entry.document.get("prompts") or []:
            prompt = Prompt(stored["id"], stored["text"], stored["framing"])
            known = found.setdefault(prompt.id, prompt)
            if _plain(known.text) != _plain(prompt.text):
                differ[prompt.id] = None
    notes = [
        f"The prompt {show_text(name, 60)} has another text in another run: it was left out."
        for name in differ
    ]
    return {name: prompt for name, prompt in found.items() if name not in differ}, notes


def _plain(text: str) -> str:
    return " ".join(text.casefold().removesuffix("?").split())


def _plan(
    entries: Sequence[Entry], prompts: Mapping[str, Prompt], joined: Mapping[Source, Joined]
) -> dict[str, tuple[Source, list[int]]]:
    """The tables to compare under each prompt: those that most models have, vocabularies first.

    Raises:
        PessimalError: ``no_common_prompt``.
    """
    plan: dict[str, tuple[Source, list[int]]] = {}
    for prompt in prompts:
        having = {
            source: [place for place in range(len(entries)) if tables.has(place, prompt)]
            for source, tables in joined.items()
        }
        source = max(SOURCES, key=lambda name: len(having[name]))
        if len(having[source]) > 1:
            plan[prompt] = (source, having[source])
    if plan:
        return plan
    said = []
    for entry in entries:
        names = [show_text(p["id"], 30) for p in entry.document.get("prompts") or []]
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        said.append(f"{show_text(entry.id, 60)} {', '.join(names[:4]) or 'none'}{more}")
    raise PessimalError(
        "no_common_prompt",
        f"No two of these runs scored the same kind of table under one prompt: {'; '.join(said)}.",
        "Audit or import the models under the same prompts.",
    )


def _refuse_strangers(
    agreements: Sequence[PromptAgreement], entries: Sequence[Entry], labels: Sequence[str]
) -> None:
    if any(one.compared for one in agreements):
        return
    best = max((pair for one in agreements for pair in one.pairs), key=lambda pair: pair.words)
    if best.words >= MINIMUM_WORDS:
        raise PessimalError(
            "scores_constant",
            "Every two runs have words in common, but one of them gives all of those one score.",
            "Look at the runs' reports: a model whose scores don't differ can't be compared.",
        )
    raise PessimalError(
        "no_common_words",
        f"No two of these {len(entries)} runs have {MINIMUM_WORDS} words in common: at most"
        f" {best.words}, of {show_text(labels[best.first], 60)} and"
        f" {show_text(labels[best.second], 60)}.",
        "Audit the models with the same word lists, or with more of their vocabularies.",
    )


def _matrices(agreements: Sequence[PromptAgreement], size: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: {}
        for name in ("tau", "rbo", "tail_overlap", "top_overlap", "bottom_overlap", "words")
    }
    for one in agreements:
        tops = [pair.top.value for pair in one.pairs]
        bottoms = [pair.bottom.value for pair in one.pairs]
        values: dict[str, list[float]] = {
            "tau": [pair.tau.value for pair in one.pairs],
            "rbo": [pair.rbo for pair in one.pairs],
            "tail_overlap": [(a + b) / 2 for a, b in zip(tops, bottoms, strict=True)],
            "top_overlap": tops,
            "bottom_overlap": bottoms,
        }
        for name, column in values.items():
            found[name][one.prompt] = matrix(one, size, column)
        counts: list[list[int]] = [[0] * size for _ in range(size)]
        for place, own in enumerate(one.own_words):
            counts[place][place] = own
        for pair in one.pairs:
            counts[pair.first][pair.second] = counts[pair.second][pair.first] = pair.words
        found["words"][one.prompt] = counts
    return found


def _means(agreements: Sequence[PromptAgreement]) -> dict[str, dict[str, float | None]]:
    """Means over pairs of different models, by measure and prompt."""
    found: dict[str, dict[str, float | None]] = {
        "tau": {}, "rbo": {}, "top_overlap": {}, "bottom_overlap": {}, "tail_overlap": {}
    }  # fmt: skip
    for one in agreements:
        top, bottom = one.mean("top"), one.mean("bottom")
        found["tau"][one.prompt] = one.mean("tau")
        found["rbo"][one.prompt] = one.mean("rbo")
        found["top_overlap"][one.prompt], found["bottom_overlap"][one.prompt] = top, bottom
        both = None if top is None or bottom is None else (top + bottom) / 2
        found["tail_overlap"][one.prompt] = both
    return found


def _pairs(agreements: Sequence[PromptAgreement]) -> list[dict[str, Any]]:
    """Every pair under every prompt with its intervals; ``first`` and ``second`` are places."""
    rows = []
    for one in agreements:
        for pair in one.pairs:
            row: dict[str, Any] = {
                "prompt": one.prompt, "first": pair.first, "second": pair.second,
                "words": pair.words, "rbo": pair.rbo,
            }  # fmt: skip
            for name in ("tau", "top", "bottom"):
                estimate = getattr(pair, name)
                row |= {name: estimate.value, f"{name}_low": estimate.low,
                        f"{name}_high": estimate.high}  # fmt: skip
            numbers = {key: value for key, value in row.items() if isinstance(value, float)}
            rows.append(row | {key: _known(value) for key, value in numbers.items()})
    return rows


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _records(table: pd.DataFrame, labels: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "word": row["word"], "sd": float(row["sd"]), "highest": row["highest"],
            "lowest": row["lowest"],
            "percentiles": [
                float(row[f"percentile:{label}"]) if f"percentile:{label}" in row else None
                for label in labels
            ],
        }
        for row in table.head(_LISTED_WORDS).to_dict("records")
    ]  # fmt: skip
