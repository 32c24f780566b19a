"""Recompute published figures from published scores, through the command line, row by row."""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = "PESSIMAL_PUBLISHED_DATA"
EXACT = 5e-4
Documents = Mapping[str, dict[str, Any]]

GRM_8B = "Ray2333/GRM-Llama3-8B-rewardmodel-ft"
GRM_3B = "Ray2333/GRM-Llama3.2-3B-rewardmodel-ft"
ARMO = "RLHFlow/ArmoRM-Llama3-8B-v0.1"
SKYWORK_LLAMA = "Skywork/Skywork-Reward-Llama-3.1-8B-v0.2"
SKYWORK_GEMMA = "Skywork/Skywork-Reward-Gemma-2-27B-v0.2"
QRM_GEMMA = "nicolinho/QRM-Gemma-2-27B"


@dataclass(frozen=True)
class Row:
    """One published figure."""

    metric: str
    """The metric, with its slice in brackets."""
    model: str
    """The model, or what its models' figures were put together as."""
    published: float
    """The figure as published."""
    find: Callable[[Documents], float]
    """Reads the recomputed figure from the imports' documents."""
    tolerance: float = EXACT
    """How far apart the two may be."""


def value(document: Mapping[str, Any], model: str, name: str, where: str) -> float:
    """A metric's value in the run of a model."""
    (run,) = [run for run in document["runs"] if run["model"]["id"] == model]
    (found,) = [
        metric["value"]
        for metric in run["metrics"]
        if (metric["name"], metric["slice"]) == (name, where)
    ]
    return float(found)


def one(metric: str, where: str, model: str, published: float, source: str) -> Row:
    """A row that is one metric of one model."""
    label = f"{metric} [{where}]"
    return Row(label, model, published, lambda d: value(d[source], model, metric, where))


def mean(metric: str, where: str, published: float, source: str) -> Row:
    """A row that is a metric's mean over all models."""

    def find(documents: Documents) -> float:
        models = [run["model"]["id"] for run in documents[source]["runs"]]
        return statistics.fmean(value(documents[source], m, metric, where) for m in models)

    return Row(f"{metric} [{where}]", "mean of ten", published, find)


def gap(entry: str, model: str, published: float) -> Row:
    """A row of the models' median rank of one entity against people's."""

    def find(documents: Documents) -> float:
        entities = documents["elo"]["rank_gaps"]["human_greatest"]
        (found,) = [row[entry] for row in entities if row["entity"] == "Black people"]
        return float(found)

    return Row(f"{entry} [prompt=human_greatest,term=black people]", model, published, find)


def agreement(prompt: str, published: float) -> Row:
    """A row of the mean tau between two different models."""

    def find(documents: Documents) -> float:
        return float(documents["compare"]["off_diagonal_mean"]["tau"][prompt])

    return Row(f"compare.tau [prompt={prompt}]", "mean of pairs of ten", published, find)


GE, GW = "prompt=human_greatest", "prompt=greatest"
FULL = "controls=full,framing=positive"
RANK = "framing=positive,words="
ROWS = (
    one("human.tau", GE, GRM_3B, 0.3844, "elo"),
    one("human.tau", GE, QRM_GEMMA, 0.2006, "elo"),
    mean("human.tau", GE, 0.2632, "elo"),
    one("human.tau", GW, GRM_3B, 0.3898, "elo"),
    mean("human.tau", GW, 0.2936, "elo"),
    one("human.tau_weighted", GW, GRM_3B, 0.4094, "elo"),
    one("human.tau_weighted", GW, QRM_GEMMA, 0.2398, "elo"),
    gap("rank_gap", "median of ten", 6477.5),
    gap("position", "median of ten", 2),
    gap("rank_gap_with_human", "median of eleven, people included", 6388.5),
    gap("position_with_human", "median of eleven, people included", 3),
    agreement("human_greatest", 0.4038),
    agreement("greatest", 0.5041),
    one("framing.reversal", "all", GRM_8B, 0.6190, "framing"),
    one("framing.reversal", "all", ARMO, 0.4363, "framing"),
    one("framing.reversal", "all", SKYWORK_LLAMA, 0.6870, "framing"),
    one("frequency.zipf_slope", FULL, QRM_GEMMA, 0.2232, "frequency"),
    one("frequency.zipf_slope", FULL, ARMO, 0.0962, "frequency"),
    one("robustness.paraphrase_tau", "framing=positive", ARMO, 0.766, "framing"),
    one("robustness.paraphrase_tau", "framing=positive", SKYWORK_GEMMA, 0.896, "framing"),
    one("values.median_rank", RANK + "Agency", ARMO, 119.4907, "values"),
    one("values.median_rank", RANK + "Communion", ARMO, 142.9630, "values"),
)


def recompute(data: Path, scratch: Path) -> dict[str, dict[str, Any]]:
    """Import the published scores in four ways, and compare the ten models of the first.

    Args:
        data: the folder with ``eloeverything`` and ``value_words``.
        scratch: where the runs are recorded.

    Returns:
        Each ``pessimal.import/1`` document by name, and ``compare``.
    """
    words = data / "value_words"
    nouns = words / "big_two_nouns.csv"
    signs = write_signs(words / "moral_foundations_2.dicx", nouns, scratch / "signs.csv")

    def files(model: str, *folders: str) -> list[Path]:
        return [words / folder / f"{model.replace('/', '_')}.csv" for folder in folders]

    def both(*models: str) -> list[Path]:
        return [path for model in models for path in files(model, "mfd", "big_two")]

    prompts: list[object] = ["--format", "words", "--prompts", words / "prompts.yaml"]
    calls: dict[str, list[object]] = {
        "elo": ["--format", "elo", *sorted((data / "eloeverything").glob("*.csv"))],
        "framing": [*prompts, "--valence", "afinn",
                    *both(GRM_8B, ARMO, SKYWORK_LLAMA, SKYWORK_GEMMA)],
        "frequency": [*prompts, "--valence", signs, *both(QRM_GEMMA, ARMO)],
        # A noun can be a moral-foundation term too: the figures are of the nouns' own run.
        "values": [*prompts, "--categories", nouns, *files(ARMO, "big_two")],
    }  # fmt: skip
    documents = {name: run("import", arguments, scratch) for name, arguments in calls.items()}
    ten = [audit["run_id"] for audit in documents["elo"]["runs"]]
    return documents | {"compare": run("compare", ten, scratch)}


def run(name: str, arguments: Sequence[object], scratch: Path) -> dict[str, Any]:
    """Run a command of ``pessimal`` and read its document."""
    uri = f"sqlite:///{(scratch / 'runs.db').as_posix()}"
    command = [sys.executable, "-m", "pessimal", name, "--json", "--tracking-uri", uri]
    done = subprocess.run(
        [*command, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=False,
        cwd=scratch,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"pessimal {name} ended with {done.returncode}: {done.stdout[:2000]}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def write_signs(foundations: Path, nouns: Path, path: Path) -> Path:
    """Write one valence for each word: 1 for a virtue or a noun, -1 for a vice."""
    signs: dict[str, int] = {}
    with nouns.open(encoding="utf-8", newline="") as file:
        signs.update((row["token_decoded"], 1) for row in csv.DictReader(file))
    with foundations.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            marked = {name for name, cell in row.items() if cell == "X"}
            virtue = any(name.endswith("Virtue") for name in marked)
            signs[row["DicTerm"]] = 1 if virtue else -1
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["word", "valence"])
        writer.writerows(signs.items())
    return path


def main() -> int:
    """Print every row; 1 where a figure is beyond its tolerance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, default=os.environ.get(DATA))
    data = parser.parse_args().data
    if data is None or not Path(data).is_dir():
        parser.error(f"name the folder of the published scores, or set {DATA}")
    with tempfile.TemporaryDirectory(prefix="pessimal-reproduce-") as scratch:
        documents = recompute(Path(data).resolve(), Path(scratch))
    print(f"{'metric':<62} {'model':<42} {'published':>10} {'recomputed':>11}  within   ok")
    missed = 0
    for row in ROWS:
        found = row.find(documents)
        within = abs(found - row.published) <= row.tolerance
        missed += not within
        print(
            f"{row.metric:<62} {row.model:<42} {row.published:>10g} {found:>11.4f}"
            f"  {row.tolerance:<7g}  {'yes' if within else 'NO'}"
        )
    print(f"{len(ROWS) - missed} of {len(ROWS)} figures are as published.")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
