"""A comparison of reward models as one HTML file, and as the description of its run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pessimal.reports.html import embed_figures, page_environment, page_parts, write_page
from pessimal.reports.markdown import show_figures
from pessimal.reports.view import flatten, number
from pessimal.text import escape_markdown

_LENGTH: Final = 4_800
_METRICS_SHOWN: Final = 400


def write_comparison(
    document: Mapping[str, Any], figures: Mapping[str, str], path: Path,
    charts: Mapping[str, str] | None = None,
) -> None:  # fmt: skip
    """Write the report of a comparison.

    Args:
        document: a ``pessimal.compare/1`` document.
        figures: SVG documents by name, in the order to show them.
        path: the file; it appears whole or not at all.
        charts: charts by the name of the figure that they stand in for.

    Raises:
        PessimalError: the file can't be written.
    """
    write_page(path, render_comparison(document, figures, charts))


def render_comparison(
    document: Mapping[str, Any], figures: Mapping[str, str],
    charts: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """The report as text; see `write_comparison`."""
    labels = [model["label"] for model in document["models"]]
    return page_environment().get_template("compare.html.j2").render(
        **page_parts(embed_figures(figures, charts or {})),
        document=document,
        labels=labels,
        pairs=_by_prompt(document),
        metrics=document["metrics"][:_METRICS_SHOWN],
        facts=flatten({key: document.get(key) or {} for key in ("versions", "artifacts")}),
    )  # fmt: skip


def describe_comparison(document: Mapping[str, Any]) -> str:
    """The models, how far they agree, and what couldn't be told, in at most 4,800 characters.

    Args:
        document: a ``pessimal.compare/1`` document.
    """
    means = document["off_diagonal_mean"]
    lines = ["## How far these reward models agree", ""]
    lines += [
        f"{place}. **{escape_markdown(model['label'])}**, verdict"
        f" {escape_markdown(model['verdict'] or '–')}, run {escape_markdown(model['run_id'])}"
        for place, model in enumerate(document["models"], 1)
    ]
    lines += ["", "| prompt | mean tau | RBO | best 1 % shared | worst 1 % shared |",
              "|---|---:|---:|---:|---:|"]  # fmt: skip
    for prompt in document["prompts"]:
        name = prompt["id"]
        cells = [escape_markdown(name)]
        cells += [
            number(means[what][name]) for what in ("tau", "rbo", "top_overlap", "bottom_overlap")
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for drift in document["drift"]:
        lines.append(
            f"- {escape_markdown(drift['model'])}, two versions:"
            f" {escape_markdown(drift['verdict'] or 'not judged')}."
            f" {escape_markdown(drift['reason'])}"
        )
    for name in ("mds", "rsa"):
        if document[name]["reason"]:
            lines.append(f"- {escape_markdown(document[name]['reason'])}")
    lines.append("- The whole report is the artifact report.html.")
    lines += show_figures(document, ("tau-1", "map", "metrics-1"))
    text = ""
    for line in lines:
        # A description that is too long ends with a whole line.
        if len(text) + len(line) >= _LENGTH:
            break
        text += f"{line}\n"
    return text


def _by_prompt(document: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in document["pairs"]:
        found.setdefault(row["prompt"], []).append(row)
    # Those that agree least come first.
    return {
        prompt: sorted(rows, key=lambda row: (row["tau"] is None, row["tau"]))
        for prompt, rows in found.items()
    }
