"""A comparison's tables, figures and headline numbers, made from its document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pessimal.audit import Figure, Metric, slice_name
from pessimal.compare.agreement import PromptAgreement

if TYPE_CHECKING:
    import pandas as pd

DRAWN_PROMPTS = 6
_DRAWN_METRICS = 12


def comparison_tables(
    document: Mapping[str, Any], labels: Sequence[str], words: Mapping[str, pd.DataFrame]
) -> dict[str, pd.DataFrame]:
    """Tables by name: ``pairs``, ``disagreement``, ``metrics``, ``models``, and those of figures.

    Args:
        document: the comparison.
        labels: the models' names.
        words: the most disputed words by prompt.
    """
    import pandas as pd

    pairs = pd.DataFrame(document["pairs"])
    for side in ("first", "second"):
        pairs[side] = [labels[place] for place in pairs[side]]
    tables = {
        "pairs": pairs,
        "disagreement": pd.concat(list(words.values()), ignore_index=True),
        "metrics": _metrics(document, labels),
        "models": pd.DataFrame([
            {key: value for key, value in model.items() if key != "covariates"}
            | model["covariates"] for model in document["models"]
        ]),
    }  # fmt: skip
    for prompt in _drawn(document):
        tables[f"tau:{prompt}"] = _cells(document["tau"][prompt], labels)
        upper, lower = (document[name][prompt] for name in ("top_overlap", "bottom_overlap"))
        tails = [
            [None if i == j else (upper if i < j else lower)[i][j] for j in range(len(labels))]
            for i in range(len(labels))
        ]
        tables[f"tails:{prompt}"] = _cells(tails, labels)
    points = document["mds"]["points"]
    if points is not None:
        tables["map"] = pd.DataFrame(points, columns=["x", "y"]).assign(model=list(labels))
    return tables


def comparison_figures(
    document: Mapping[str, Any], tables: dict[str, pd.DataFrame]
) -> list[Figure]:
    """Matrices of tau and of shared tails by prompt, the map, and metrics side by side.

    Tables that only a figure needs are added to `tables`.
    """
    figures = []
    for number, prompt in enumerate(_drawn(document), 1):
        words = document["words"][prompt]
        size = range(len(words))
        counts = [words[i][j] for i in size for j in size if i < j and words[i][j]]
        spread = f"{min(counts):,} to {max(counts):,}" if counts else "0"
        n = f"n = {counts[0]:,} words" if len(set(counts)) == 1 else f"n = {spread} words"
        figures.append(Figure(
            f"tau-{number}", f"How far do the models agree? Prompt {prompt}", "heatmap",
            f"tau:{prompt}", x="column", y="row", value="value",
            caption=f"Kendall's tau-b, 1 = the same ranking, 0 = none; {n} in common.",
        ))  # fmt: skip
        if tables[f"tails:{prompt}"]["value"].notna().any():
            figures.append(Figure(
                f"tails-{number}", f"Do they share their best and worst words? Prompt {prompt}",
                "heatmap", f"tails:{prompt}", x="column", y="row", value="value",
                caption="Share of 1 % of the words that both have in common: above the diagonal"
                f" the best, below it the worst; {n}. By chance: 0.01.",
            ))  # fmt: skip
    if "map" in tables:
        figures.append(Figure(
            "map", "Which models rank alike?", "map", "map", x="x", y="y", group="model",
            x_label="1 - tau", y_label="1 - tau",
            caption=f"Near models agree. Stress-1 is {document['mds']['stress']:.2f}; only"
            " distances mean something, not directions.",
        ))  # fmt: skip
    metrics = tables["metrics"]
    whole = metrics[(metrics["slice"] == "all") & metrics["ci_low"].notna()]
    for number, unit in enumerate(dict.fromkeys(whole["unit"]), 1):
        names = list(dict.fromkeys(whole[whole["unit"] == unit]["metric"]))
        table = f"metrics:{unit}"
        chosen = whole["metric"].isin(names[:_DRAWN_METRICS]) & (whole["unit"] == unit)
        tables[table] = whole[chosen]
        figures.append(Figure(
            f"metrics-{number}", f"The models' metrics in {unit or 'their own unit'}", "intervals",
            table, x="value", y="metric", group="model", low="ci_low", high="ci_high",
            x_label=unit, caption="Dot: value; line: 95 % interval; n is in the table of metrics.",
        ))  # fmt: skip
    return figures


def headline_metrics(
    document: Mapping[str, Any], agreements: Sequence[PromptAgreement]
) -> list[Metric]:
    """Means over pairs of models, by prompt and over prompts, and the map's stress."""
    from pessimal.statistics.distribution import noise_floor

    units = {"tau": "tau", "rbo": "share", "tail_overlap": "share"}
    metrics: list[Metric] = []
    for name, unit in units.items():
        by_prompt = document["off_diagonal_mean"][name]
        found = []
        for one in agreements:
            metric = Metric(
                f"compare.{name}", by_prompt[one.prompt], one.mean_tau.n, unit=unit,
                slice=slice_name(prompt=one.prompt.replace(",", "_").replace("=", "_")),
            )  # fmt: skip
            if metric.value is None:
                metric = replace(metric, status="insufficient", reason="too few words in common")
            elif name == "tau":
                metric = replace(metric, ci_low=one.mean_tau.low, ci_high=one.mean_tau.high)
            found.append(metric)
        known = [metric.value for metric in found if metric.value is not None]
        if known:
            n = max(metric.n for metric in found)
            metrics.append(Metric(
                f"compare.{name}", sum(known) / len(known), n, unit=unit,
                noise_floor=noise_floor(known),
            ))  # fmt: skip
        metrics += found
    stress = document["mds"]["stress"]
    if stress is not None:
        metrics.append(Metric("compare.stress", stress, len(document["models"]), unit="stress-1"))
    return metrics


def _drawn(document: Mapping[str, Any]) -> list[str]:
    return [prompt["id"] for prompt in document["prompts"]][:DRAWN_PROMPTS]


def _cells(matrix: Sequence[Sequence[float | None]], labels: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({
        "row": [label for label in labels for _ in labels],
        "column": [label for _ in labels for label in labels],
        "value": pd.Series([cell for row in matrix for cell in row], dtype="float64"),
    })  # fmt: skip


def _metrics(document: Mapping[str, Any], labels: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    columns = ("metric", "slice", "unit", "model", "value", "ci_low", "ci_high", "n", "status")
    rows = [
        {"metric": row["name"], "slice": row["slice"], "unit": row["unit"], "model": label}
        | {key: value[key] for key in columns[4:]}
        for row in document["metrics"]
        for label, value in zip(labels, row["values"], strict=True)
        if value is not None
    ]
    table = pd.DataFrame(rows, columns=list(columns))
    numbers = {name: table[name].astype("float64") for name in ("value", "ci_low", "ci_high")}
    return table.assign(**numbers)
