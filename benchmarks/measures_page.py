"""Write docs/measures.md: every metric from its declaration, and what published models give."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pessimal.audit import Audit, MetricSpec, collect_audits
from pessimal.project import find_content

DATA = "PESSIMAL_PUBLISHED_DATA"
PAGE = Path(__file__).parent.parent / "docs" / "measures.md"
PUBLISHED = "<!-- published -->"

HEAD = """\
# Measures

What each metric is, from how its audit declares it, and what published reward models give for
it.

Rules that hold for all of them:

- Scores are standardised within a model and a prompt before anything is averaged: raw rewards
  of two models differ by factors of a hundred.
- The unit is a word: case and space variants are averaged first. Words are scored as replies of
  their own, so a measure has the same words under every tokenizer; what the vocabulary's
  single-token words give stands beside it (`words=vocabulary`).
- Every value carries a 95 % interval (bootstrap over words, crossed with prompts where there
  are nine or more), its n, and a noise floor where the prompt was reworded at least three
  times.
- Below its minimum n a metric is `insufficient`, and its rule INCONCLUSIVE.
- There are no p-values over a vocabulary: with 100,000 words everything is significant.

A bound is only a default. Those calibrated on other word lists than the shipped ones are
warnings.
"""

NOTE = """\
## What published reward models give

The scores that were published with the method's paper (ten models, 7,530 ranked entities, two
prompts) and with its follow-up (seven of them, 2,260 value words, 54 prompts), recomputed with
`make reproduce`'s files and VADER's valence. A value beyond the default bound is in bold.
`identity` needs the shipped word lists, which these scores do not cover; `numerics` needs the
models.

"""

SHOWN = (
    ("human.tau", "prompt=human_greatest", "elo"),
    ("human.tau", "prompt=greatest", "elo"),
    ("human.tau_weighted", "prompt=greatest", "elo"),
    ("framing.d_pos", "all", "words"),
    ("framing.d_neg", "all", "words"),
    ("framing.reversal", "all", "words"),
    ("framing.variance_ratio_did", "all", "words"),
    ("frequency.zipf_slope", "all", "words"),
    ("frequency.zipf_slope", "controls=none,framing=positive", "words"),
    ("robustness.paraphrase_tau", "all", "words"),
    ("robustness.minor_tau", "all", "words"),
    ("robustness.worst_pair_tau", "all", "words"),
)


def declarations(audits: Mapping[str, Audit]) -> str:
    """Every metric of every audit, a table an audit."""
    parts = []
    for audit in audits.values():
        rows = "\n".join(
            f"| `{spec.name}` | {spec.definition.replace('|', '&#124;')} | {spec.unit} "
            f"| {spec.minimum_n:,} | {bound(spec)} |"
            for spec in audit.metrics
        )
        parts.append(
            f"## {audit.name}\n\n{audit.question}\n\n"
            "| metric | definition | unit | minimum n | default bound |\n|---|---|---|---|---|\n"
            f"{rows}\n"
        )
    return "\n".join(parts)


def bound(spec: MetricSpec) -> str:
    """A default bound in words."""
    if spec.bound is None:
        return "none"
    words = {"min": "at least", "max": "at most", "abs_max": "magnitude at most"}
    ((name, value),) = [pair for pair in vars(spec.bound).items() if pair[1] is not None]
    return f"{words[name]} {value:g}, {spec.severity}"


def published(data: Path, specs: Mapping[str, MetricSpec]) -> str:
    """A table with a row a model and a column a metric, made by ``pessimal import``."""
    values = data / "value_words"
    words = [*sorted((values / "mfd").glob("*.csv")), *sorted((values / "big_two").glob("*.csv"))]
    with tempfile.TemporaryDirectory(prefix="pessimal-") as scratch:
        found = {
            "elo": run(scratch, "--format", "elo", *sorted((data / "eloeverything").glob("*.csv"))),
            "words": run(
                scratch, "--format", "words", "--prompts", values / "prompts.yaml", *words
            ),
        }
    models = list(dict.fromkeys(model for part in found.values() for model in part))
    heads = [name if where == "all" else f"{name} [{where}]" for name, where, _ in SHOWN]
    lines = [f"| model | {' | '.join(f'`{head}`' for head in heads)} |"]
    lines.append("|---" * (len(SHOWN) + 1) + "|")
    for model in models:
        cells = [
            cell(found[source].get(model, {}).get((name, where)), specs[name])
            for name, where, source in SHOWN
        ]
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def cell(value: float | None, spec: MetricSpec) -> str:
    """A value with two decimals, bold beyond its default bound."""
    if value is None:
        return ""
    limits = spec.bound
    beyond = limits is not None and (
        (limits.min is not None and value < limits.min)
        or (limits.max is not None and value > limits.max)
        or (limits.abs_max is not None and abs(value) > limits.abs_max)
    )
    return f"**{value:.2f}**" if beyond else f"{value:.2f}"


def run(scratch: str, *arguments: object) -> dict[str, dict[tuple[str, str], float]]:
    """Import score files; each model's values by metric and slice."""
    command = [sys.executable, "-m", "pessimal", "import", "--json", "--quiet", "--tracking-uri",
               f"sqlite:///{scratch}/runs.db", *map(str, arguments)]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=scratch)
    document: dict[str, Any] = json.loads(done.stdout)
    return {
        one["model"]["id"]: {
            (metric["name"], metric["slice"]): metric["value"]
            for metric in one["metrics"]
            if metric["value"] is not None
        }
        for one in document["runs"]
    }


def main() -> None:
    """Write the page; without data, keep the published table that it has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, default=os.environ.get(DATA))
    data = parser.parse_args().data
    audits = collect_audits(find_content(start=PAGE.parent).audits)
    specs = {f"{a.name}.{spec.name}": spec for a in audits.values() for spec in a.metrics}
    if data is not None:
        table = NOTE + published(Path(data).resolve(), specs)
    else:
        table = PAGE.read_text(encoding="utf-8").split(PUBLISHED)[1].lstrip()
    PAGE.write_text(f"{HEAD}\n{declarations(audits)}\n{PUBLISHED}\n\n{table}", encoding="utf-8")


if __name__ == "__main__":
    main()
