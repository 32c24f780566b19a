"""Write docs/performance.md from docs/performance.json, which `benchmarks.bench --page` writes.

Called by itself, it makes the page from the document that is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import savings
from benchmarks.machine import OTHERS_LIMIT, verdict, wanted

DOCS = Path(__file__).parents[1] / "docs"
DATA, PAGE = DOCS / "performance.json", DOCS / "performance.md"
FIGURE = DOCS / "images" / "growth.svg"
Document = dict[str, Any]

HEAD = """\
# How fast it is

What the benchmarks measured on one machine, beside what was wanted. `make bench` measures again
(fifteen to twenty minutes on two quiet cores; `make bench-quick`: two), and this page is
made from its document, [performance.json](performance.json), by
`.venv/bin/python -m benchmarks.performance_page`.

Rates are medians of interleaved rounds, with quartiles. In a round each way runs between two runs
of ours (of one process, where processes are compared): how many times as fast ours is is the median
of the rounds' own ratios, since a machine's speed drifts within minutes. In each round the
benchmark also measures what other processes take of the machine; where that is over {limit:.0%}, a
target has no verdict. What a virtual machine's neighbours take it can't see: the page is of one
run.
"""

SAVINGS = """\
## Savings that were counted and not built

An exact count of forward tokens on the shipped pipelines with the demo's tokenizer, searches left
out: what a trie over prompts, and one over the word lists, would save at best. Why neither is
built: [the decision](decisions/0012-savings-that-do-not-pay.md).
"""

PLAN = """\
## How `pessimal plan` knows

It counts what each step pushes through the model, the searches and the audits' own scoring
included, and loads no weights: the time is the counted work at a share of this machine's matmul
rate. With `--calibrate` it opens the model and scores some of the pipeline's own replies, and
searches, for a few seconds: the rates it reaches and the seconds that loading took make the time.
Without weights (a folder with a config and a tokenizer, or a hub id that isn't fetched) or for a
named GPU there is only arithmetic: two operations a parameter and token, at an assumed share of the
published rate. Such a figure is marked as an estimate, on screen and in the document
(`"estimate": true`). Scores that are kept already are not taken off.
"""


def page(document: Document) -> str:
    """The whole page."""
    parts = [HEAD.format(limit=OTHERS_LIMIT), machine(document), *targets(document)]
    parts += [sweep(document), growth(document), processes(document), startup(document)]
    if "savings" in document:
        parts += [SAVINGS, savings.table(document["savings"]), ""]
    return "\n".join([*parts, PLAN])


def measured(document: Document) -> Iterator[tuple[str, Document]]:
    """Every part with targets, by a name."""
    for shape in document["sweep"]["shapes"]:
        yield "sweep", shape
    for name in ("growth", "processes", "startup", "measures"):
        if name in document:
            yield name, document[name]


def machine(document: Document) -> str:
    """What it ran on."""
    found = document["machine"]
    versions = ", ".join(f"{name} {text}" for name, text in found["versions"].items())
    return (
        "## The machine\n\n"
        f"{found['cpu']}, {found['cores']} cores, {found['memory_gib']:g} GiB; Python"
        f" {found['python']}, {versions}; torch's threads: {found['threads']};"
        f" {found['date']}. All of it took {document['took_s'] / 60:.0f} minutes.\n"
    )


def targets(document: Document) -> Iterator[str]:
    """A row a target."""
    yield "## Wanted and measured\n"
    yield "| | wanted | measured | |"
    yield "|---|---|---|---|"
    for _, part in measured(document):
        for one in part["targets"]:
            end = verdict(one, fair=part["fair"]).replace("MISSED", "**MISSED**")
            yield f"| {one['target']} | {wanted(one)} | {one['value']:.3g}{one['unit']} | {end} |"
    unfair = sorted({name for name, part in measured(document) if not part["fair"]})
    if unfair:
        yield (
            "\nNOT A FAIR RUN: other work kept the machine busy during "
            f"{', '.join(unfair)}; figures there are no measurement of Pessimal."
        )
    yield ""


def sweep(document: Document) -> str:
    """A table a shape, and where the time goes."""
    whole = document["sweep"]
    lines = [
        "## A sweep beside other ways\n",
        f"One-token replies, {whole['prefix_tokens']} ids before and one after, random Llamas in"
        " float32. Every way has its own best batch and gives the same scores.\n",
    ]
    for shape in whole["shapes"]:
        lines += [
            f"### {shape['shape']}\n",
            f"{shape['parameters_outside_embedding']:,} parameters outside the embedding.\n",
            "| way | batch | replies a second | quartiles | ours is |",
            "|---|---|---|---|---|",
        ]
        for row in shape["ways"]:
            rate = row["per_second"]
            lines.append(
                f"| {row['way']} | {row['batch_rows']} | {rate['median']:,.0f} |"
                f" {rate['low']:,.0f} to {rate['high']:,.0f} | {row['ours_is_times']:.1f} times |"
            )
        parts = ", ".join(f"{share:.0%} {kind}" for kind, share in shape["shares"].items())
        lines.append(
            f"\nA flat matmul runs at {shape['matmul_flops_per_s']['median'] / 1e9:.0f} GFLOP/s;"
            f" the sweep does the operations that no exact method can avoid at"
            f" {shape['share_of_matmul_rate']:.0%} of that rate. Its CPU time goes to: {parts}.\n"
        )
    return "\n".join(lines)


def growth(document: Document) -> str:
    """Exponents, the figure, and memory."""
    found = document["growth"]
    exponents = ", ".join(f"{value:.2f} in {name}" for name, value in found["exponents"].items())
    lines = [
        "## How it grows\n",
        "![Time by vocabulary, prefix, prompts and parameters](images/growth.svg)\n",
        "The exponent of time (the slope of log time on log size; 1 is in proportion):"
        f" {exponents}. A prefix is run once, so its length hardly shows.\n",
        "| vocabulary, 22M | seconds | peak memory | weights | above the weights |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['size']:,} | {row['seconds']:.1f} | {row['peak_bytes'] / 2**20:,.0f} MiB |"
        f" {row['weight_bytes'] / 2**20:,.0f} MiB |"
        f" {row['above_weights_bytes'] / 2**20:,.0f} MiB |"
        for row in found["vocabulary"]
    ]
    lines.append("\nMemory is that of the whole process, Python and its packages included.\n")
    return "\n".join(lines)


def processes(document: Document) -> str:
    """Threads, processes and Ray."""
    lines = [
        "## Threads and processes\n",
        "| model | way | seconds | times one process |",
        "|---|---|---|---|",
    ]
    for one in document["processes"]["models"]:
        lines += [
            f"| {one['model']}, {one['tokens']:,} tokens | {row['way']} |"
            f" {row['seconds']['median']:.2f} | {row['times_one']:.2f} |"
            for row in one["ways"]
        ]
    same = all(one["same_bytes"] for one in document["processes"]["models"])
    lines.append(f"\nAll ways gave {'the same bytes' if same else '**different bytes**'}.\n")
    return "\n".join(lines)


def startup(document: Document) -> str:
    """Seconds of short commands."""
    lines = [
        "## Starting\n",
        "| command | seconds | times a bare Python | times importing torch and transformers |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row['command']} | {row['seconds']['median']:.2f} | {row['times_bare']:.1f} |"
        f" {row['times_libraries']:.2f} |"
        for row in document["startup"]["commands"]
    ]
    return "\n".join([*lines, ""])


def summary(document: Document) -> str:
    """Every target, as text for a terminal."""
    return "\n".join(targets(document))


def draw(document: Document, file: Path) -> None:
    """The figure: four panels of time on size."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    titles = {
        "vocabulary": "vocabulary (tokens)", "prefix": "prompt (ids)",
        "prompts": "prompts", "parameters": "parameters outside the embedding",
    }  # fmt: skip
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "growth"}):
        figure, panels = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
        for panel, (name, title) in zip(panels, titles.items(), strict=True):
            rows = [row for row in document["growth"][name] if row["size"]]
            seconds = [row.get("median", row.get("seconds")) for row in rows]
            sizes = [row["size"] for row in rows]
            panel.plot(sizes, seconds, "o-", color="#3b6ea5")
            panel.set(xscale="log", yscale="log", xlabel=title)
            if name == "prefix":
                # Flat is what is wanted: don't magnify what is left.
                panel.set_ylim(min(seconds) / 3, max(seconds) * 3)
            else:
                line = [seconds[-1] * size / sizes[-1] for size in sizes]
                panel.plot(sizes, line, "--", color="#999999", linewidth=1)
        panels[0].set_ylabel("seconds (dashes: in proportion)")
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, metadata={"Date": None, "Creator": None})
        plt.close(figure)


def publish(document: Document) -> None:
    """Write the document, the figure and the page into the documentation."""
    DATA.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    draw(document, FIGURE)
    PAGE.write_text(page(document), encoding="utf-8")


if __name__ == "__main__":
    publish(json.loads(DATA.read_text(encoding="utf-8")))
