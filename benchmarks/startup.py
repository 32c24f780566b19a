"""Measures how long commands take to begin, beside a bare Python and beside importing libraries."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.machine import Watch, describe, exit_code, spread, target, verdicts

BARE, LIBRARIES, FIRST = "python -c pass", "import torch, transformers", "first score of the demo"
COMMANDS = {
    BARE: ["-c", "pass"],
    "import pessimal.cli": ["-c", "import pessimal.cli"],
    "pessimal --version": ["-m", "pessimal", "--version"],
    "pessimal --help": ["-m", "pessimal", "--help"],
    "pessimal list": ["-m", "pessimal", "list"],
    LIBRARIES: ["-c", "import torch, transformers"],
}
HALF_SECOND = ("pessimal --version", "pessimal --help", "pessimal list")


def first_score(folder: str, number: int) -> list[str]:
    """Scores one token of the demo under a prompt that was never asked before."""
    return ["-m", "pessimal", "score", "--model", "demo", "--prompt", f"What is number {number}?",
            "--tokens", "1", "--out", f"{folder}/{number}.parquet", "--cache", f"{folder}/cache",
            "--quiet"]  # fmt: skip


def timed(arguments: list[str]) -> float:
    """Seconds of one process from start to end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def measure(rounds: int) -> dict[str, Any]:
    """Every command in every round; returns the document that ``--json`` prints."""
    watch = Watch()
    seconds: dict[str, list[float]] = {name: [] for name in (*COMMANDS, FIRST)}
    with tempfile.TemporaryDirectory() as folder:
        for arguments in (*COMMANDS.values(), first_score(folder, 0)):
            timed(arguments)
        for number in range(rounds):
            with watch.round():
                for name, arguments in COMMANDS.items():
                    seconds[name].append(timed(arguments))
                seconds[FIRST].append(timed(first_score(folder, number + 1)))
    found = {name: spread(values) for name, values in seconds.items()}
    bare, libraries = found[BARE]["median"], found[LIBRARIES]["median"]
    rows = [
        {"command": name, "seconds": one, "times_bare": one["median"] / bare,
         "times_libraries": one["median"] / libraries}
        for name, one in found.items()
    ]  # fmt: skip
    return {
        "schema": "pessimal.benchmark.startup/1", "machine": describe(), "commands": rows,
        "targets": [
            target(name, found[name]["median"], most=0.5, unit=" s") for name in HALF_SECOND
        ],
        **watch.document(),
    }  # fmt: skip


def table(document: dict[str, Any]) -> str:
    """The document as text."""
    lines = [f"{'command':<28}{'seconds':>9}{'x bare':>9}{'x libraries':>13}"]
    lines += [
        f"{row['command']:<28}{row['seconds']['median']:>9.2f}{row['times_bare']:>9.1f}"
        f"{row['times_libraries']:>13.2f}"
        for row in document["commands"]
    ]
    return "\n".join([*lines, *verdicts(document)])


def main() -> int:
    """Run; exit code 1 when a target is missed on a quiet machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    document = measure(options.rounds)
    print(json.dumps(document) if options.json else table(document))
    return exit_code(document)


if __name__ == "__main__":
    sys.exit(main())
