"""Measures how a sweep grows: time by vocabulary, prefix, prompts and model size, and memory.

Vocabularies are swept by the command itself, each in a process of its own, whose peak memory is the
system's figure. What grows in proportion has an exponent of 1: the slope of log time on log size.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import Watch, describe, exit_code, spread, target, verdicts
from benchmarks.tiny_llama import (
    SHAPES,
    build,
    load,
    parameters,
    prompt_of,
    some_replies,
)
from pessimal.models.scorer import Scorer

VOCABULARIES = (1_024, 4_096, 16_384, 256_000)
PREFIXES = (24, 48, 96)
PROMPTS = (1, 2, 5, 10)
SIZES = ("3M", "22M", "60M", "135M")
SLOPE = (0.9, 1.1)
FLAT_GIB = 0.25
"""Memory that the largest vocabulary may take beyond the smallest one, weights apart."""


def sweep_command(folder: Path, out: Path) -> tuple[float, int]:
    """Seconds of a whole sweep by `pessimal score`, and its process's peak memory in bytes."""
    command = [
        sys.executable, "-m", "pessimal", "score", "--model", str(folder), "--prompt", "be",
        "--tokens", "all", "--out", str(out / "scores.parquet"), "--cache", str(out / "cache"),
        "--quiet", "--json",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        document = json.loads(process.stdout.read() or "{}")
        # Of this child alone; what `resource` tells of children is the largest of all.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit("The sweep failed: nothing was measured.")
    return document["seconds"], usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def vocabularies(sizes: Sequence[int], watch: Watch) -> list[dict[str, Any]]:
    """Time and memory by vocabulary, one run each, at 22M parameters."""
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            build(folder / "model", SHAPES["22M"], size)
            weights = sum(file.stat().st_size for file in (folder / "model").glob("*.safetensors"))
            with watch.round():
                seconds, peak = sweep_command(folder / "model", folder)
        rows.append({"size": size, "seconds": seconds, "peak_bytes": peak,
                     "weight_bytes": weights, "above_weights_bytes": peak - weights})  # fmt: skip
    return rows


def interleaved(
    runs: dict[int, Callable[[], object]], rounds: int, watch: Watch
) -> list[dict[str, Any]]:
    """Seconds by size, medians and quartiles of rounds."""
    seconds: dict[int, list[float]] = {size: [] for size in runs}
    for run in runs.values():
        run()
    for _ in range(rounds):
        with watch.round():
            for size, run in runs.items():
                began = time.perf_counter()
                run()
                seconds[size].append(time.perf_counter() - began)
    return [{"size": size, **spread(values)} for size, values in seconds.items()]


def prefixes_and_prompts(
    rounds: int, count: int, watch: Watch
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Time by prefix under one prompt, and by prompts whose prefixes have a beginning in common.

    A prompt's time holds the recording of its prefix; size 0 is one sweep of what follows a prefix
    that is recorded already.
    """
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), SHAPES["22M"])
        model = load(Path(folder))
    slots = {length: prompt_of(model, length)[1] for length in PREFIXES}
    replies, warm = some_replies(count), Scorer(model)

    def score(length: int) -> Callable[[], object]:
        return lambda: warm.score(slots[length], replies)

    by_prefix = interleaved({length: score(length) for length in PREFIXES}, rounds, watch)
    # Ten last words that are one id each keep the prefixes' other ids the same.
    endings = [prompt_of(model, 48, "be" + "?" * 5 + letter)[1] for letter in "abcdefghij"]

    def ask(count: int) -> Callable[[], object]:
        def run() -> None:
            fresh = Scorer(model)
            for slot in endings[:count]:
                fresh.score(slot, replies)

        return run

    runs: dict[int, Callable[[], object]] = {0: lambda: warm.score(endings[0], replies)}
    return by_prefix, interleaved(runs | {n: ask(n) for n in PROMPTS}, rounds, watch)


def model_sizes(
    names: Sequence[str], rounds: int, count: int, watch: Watch
) -> list[dict[str, Any]]:
    """Time by parameters outside the embedding."""
    runs: dict[int, Callable[[], object]] = {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            build(Path(folder), SHAPES[name])
            model = load(Path(folder))
        slot, scorer = prompt_of(model, 48)[1], Scorer(model)

        def run(scorer: Scorer = scorer, slot: Any = slot) -> object:
            return scorer.score(slot, some_replies(count // 2))

        runs[parameters(model)] = run
    return interleaved(runs, rounds, watch)


def slope(rows: Sequence[dict[str, Any]], key: str = "median") -> float:
    """Exponent of time in size, over the three largest sizes: small ones hardly show."""
    pairs = [(row["size"], row[key]) for row in rows if row["size"]][-3:]
    size, seconds = np.log(np.array(pairs)).T
    return float(np.polyfit(size, seconds, 1)[0])


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All of it; returns the document that ``--json`` prints."""
    watch = Watch()
    words = vocabularies(options.vocabularies, watch)
    prefix, prompts = prefixes_and_prompts(options.rounds, options.replies, watch)
    sizes = model_sizes(options.sizes, options.rounds, options.replies, watch)
    at = {row["size"]: row["median"] for row in (*prefix, *prompts)}
    exponents = {
        "vocabulary": slope(words, "seconds"),
        "prompts": slope(prompts),
        "parameters": slope(sizes),
    }
    grown = words[-1]["above_weights_bytes"] - words[0]["above_weights_bytes"]
    return {
        "schema": "pessimal.benchmark.growth/1", "machine": describe(),
        "vocabulary": words, "prefix": prefix, "prompts": prompts, "parameters": sizes,
        "exponents": exponents,
        "targets": [
            target("prefix 96 against prefix 24", at[96] / at[24], most=1.1, unit="x"),
            target("ten prompts against ten sweeps of their own suffixes", at[10] / (10 * at[0]),
                   most=1.1, unit="x"),
            target(f"peak memory above the weights, {words[-1]['size']:,} tokens, 22M",
                   words[-1]["above_weights_bytes"] / 2**30, most=1.0, unit=" GiB"),
            target(f"the same less that of {words[0]['size']:,} tokens", grown / 2**30,
                   most=FLAT_GIB, unit=" GiB"),
            *(
                target(f"exponent of time in {name}", value, least=SLOPE[0], most=SLOPE[1])
                for name, value in exponents.items()
            ),
        ],
        **watch.document(),
    }  # fmt: skip


def table(document: dict[str, Any]) -> str:
    """The document as text."""
    lines = []
    for name in ("vocabulary", "prefix", "prompts", "parameters"):
        for row in document[name]:
            seconds = row.get("median", row.get("seconds"))
            memory = row.get("above_weights_bytes")
            above = "" if memory is None else f"  {memory / 2**20:,.0f} MiB above the weights"
            lines.append(f"{name:<12}{row['size']:>12,}{seconds:>10.2f} s{above}")
    return "\n".join([*lines, *verdicts(document)])


def main() -> int:
    """Run; exit code 1 when a target is missed on a quiet machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--replies", type=int, default=1024, help="of a sweep in this process")
    parser.add_argument("--vocabularies", type=int, nargs="+", default=VOCABULARIES)
    parser.add_argument("--sizes", nargs="+", default=SIZES, choices=SIZES)
    options = parser.parse_args()
    document = measure(options)
    print(json.dumps(document) if options.json else table(document))
    return exit_code(document)


if __name__ == "__main__":
    sys.exit(main())
