"""Measures a whole-vocabulary sweep on random Llamas, several ways in one run.

Full forwards through decode, template and re-tokenise; a key/value cache copied by repeating it,
and by expanding it once and cropping it; the shared prefix; and the rate of a plain matmul, which
no exact method can pass. Each way runs at its own best batch between two runs of ours, in
interleaved rounds: ratios are medians over rounds, rates medians with quartiles. Scores are
compared before anything is timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.machine import Watch, describe, exit_code, spread, target, verdicts
from benchmarks.peers import Way, cropped, multiply, repeated, retokenised, through
from benchmarks.shares import shares
from benchmarks.tiny_llama import (
    SHAPES,
    VOCABULARY,
    Shape,
    build,
    load,
    parameters,
    prompt_of,
    some_replies,
)
from pessimal.models.records import LoadedModel, ReplySlot
from pessimal.models.scorer import Scorer
from pessimal.pipeline.calibrate import seconds_per_run

OURS, PAPER, MATMUL = "shared prefix", "re-tokenised full forward", "matmul"
COPIED = ("cache repeated, eager", "cache repeated, sdpa", "cache expanded and cropped, sdpa")
TARGETS = {
    "22M": {"paper": 25.0, "copied": 1.5, "share": 0.75},
    "135M": {"paper": 20.0, "copied": 1.25, "share": 0.8},
}
COUNTS = {"22M": {PAPER: 64, OURS: 1024}, "135M": {PAPER: 32, OURS: 512}}
"""Tokens that a way scores in a round; the copied caches score half of ours."""
BATCHES = {PAPER: (8, 16, 32), OURS: (256, 512, 1024)}
COPIED_BATCHES = (64, 128, 256)
DIFFERENCE_SD = 1e-3
MATMUL_S = 1.0
"""Seconds that a matmul is measured for in a round."""


def make_ways(model: LoadedModel, prompt: str, slot: ReplySlot) -> dict[str, Way]:
    """Every way to the scores."""
    return {
        PAPER: retokenised(model, prompt),
        COPIED[0]: repeated(model, slot, "eager"),
        COPIED[1]: repeated(model, slot, "sdpa"),
        COPIED[2]: cropped(model, slot, "sdpa"),
        OURS: through(Scorer(model), slot),
    }


def timed(way: Way, tokens: Sequence[int], rows: int) -> float:
    """Seconds."""
    began = time.perf_counter()
    way(tokens, rows)
    return time.perf_counter() - began


def check_agreement(ways: dict[str, Way], model: LoadedModel) -> float:
    """Largest difference of any way from the shared prefix, in SD, on tokens that round-trip."""
    tokenizer: Any = model.tokenizer
    tokens = [
        token
        for token in range(260, VOCABULARY, 120)
        if tokenizer(tokenizer.decode([token]), add_special_tokens=False)["input_ids"] == [token]
    ]
    ours = ways[OURS](tokens, 16)
    return max(
        float(np.abs(way(tokens, 16) - ours).max() / ours.std())
        for name, way in ways.items()
        if name != OURS
    )


def fastest_matmul(shape: Shape) -> tuple[Way, float]:
    """The matmul of the highest rate: the model's own largest, at several rows, or a square."""
    tries = [multiply(rows, shape.hidden, shape.inner) for rows in (1024, 2048, 4096)]
    tries.append(multiply(2048, 2048, 2048))
    return max(tries, key=lambda one: one[1] / min(timed(one[0], (), 0) for _ in range(10)))


def measure(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Build, check, tune and time one shape."""
    shape = SHAPES[name]
    build(folder, shape)
    model = load(folder)
    prompt, slot = prompt_of(model, options.prefix)
    assert len(slot.suffix_ids) == 1
    ways = make_ways(model, prompt, slot)
    difference = check_agreement(ways, model)
    if difference > DIFFERENCE_SD:
        raise SystemExit(f"The ways disagree by {difference:.2g} SD: nothing was measured.")
    counts = {way: COUNTS[name.split()[0]].get(way, 0) for way in ways}
    counts |= dict.fromkeys(COPIED, counts[OURS] // 2)
    tokens = {way: [token for (token,) in some_replies(n)] for way, n in counts.items()}
    best = {
        way: min(
            BATCHES.get(way, COPIED_BATCHES),
            key=lambda rows, way=way: min(  # type: ignore[misc]
                timed(ways[way], tokens[way], rows) for _ in range(2)
            ),
        )
        for way in ways
    }
    matmul, operations = fastest_matmul(shape)

    def a_token(way: str) -> float:
        return timed(ways[way], tokens[way], best[way]) / counts[way]

    def an_operation() -> float:
        return seconds_per_run(lambda: matmul((), 0), MATMUL_S) / operations

    others: dict[str, Callable[[], float]] = {
        **{way: partial(a_token, way) for way in (PAPER, *COPIED)}, MATMUL: an_operation,
    }  # fmt: skip
    watch, seconds = Watch(), {way: [] for way in (OURS, *others)}  # type: ignore[var-annotated]
    ratios: dict[str, list[float]] = {way: [] for way in others}
    for _ in range(options.rounds):
        with watch.round():
            # A machine's speed drifts: a way is compared with ours just before it and after it.
            seconds[OURS].append(a_token(OURS))
            for way, other in others.items():
                seconds[way].append(other())
                seconds[OURS].append(a_token(OURS))
                ratios[way].append(seconds[way][-1] / statistics.mean(seconds[OURS][-2:]))
    found = report(name, seconds, ratios, best, parameters(model), difference, watch)
    return found | {"shares": shares(lambda: ways[OURS](tokens[OURS], best[OURS]))}


def report(
    name: str, seconds: dict[str, list[float]], ratios: dict[str, list[float]],
    best: dict[str, int], size: int, difference: float, watch: Watch,
) -> dict[str, Any]:  # fmt: skip
    """Ratios and shares of one shape, from the seconds of each way and round."""
    rates = {way: spread([1 / value for value in values]) for way, values in seconds.items()}
    times = {way: statistics.median(each) for way, each in ratios.items()} | {OURS: 1.0}
    copied = min(COPIED, key=lambda way: times[way])
    # No exact method needs less than two operations a parameter for reply and suffix.
    share = 2 * size * 2 * times[MATMUL]
    wanted = TARGETS.get(name, {})
    values = {
        "paper": ("times the paper's way", times[PAPER], "x"),
        "copied": ("times the best copied cache", times[copied], "x"),
        "share": ("of the flat-matmul rate", share, ""),
    }
    return {
        "shape": name,
        "parameters_outside_embedding": size,
        "largest_difference_sd": difference,
        "ways": [
            {"way": way, "batch_rows": best[way], "per_second": rates[way],
             "ours_is_times": times[way]}
            for way in best
        ],
        "best_copied": copied,
        "matmul_flops_per_s": rates[MATMUL],
        "share_of_matmul_rate": share,
        "targets": [
            target(f"{name}: sweep, {values[key][0]}", values[key][1], least=least,
                   unit=values[key][2])
            for key, least in wanted.items()
        ],
        **watch.document(),
    }  # fmt: skip


def table(document: dict[str, Any]) -> str:
    """The document as text."""
    lines = []
    for one in document["shapes"]:
        lines.append(f"{one['shape']}, prefix {document['prefix_tokens']}")
        lines.append(f"{'way':<36}{'batch':>6}{'/s':>10}{'quartiles':>20}{'ours':>9}")
        for row in one["ways"]:
            rate = row["per_second"]
            quartiles = f"{rate['low']:.1f}-{rate['high']:.1f}"
            lines.append(
                f"{row['way']:<36}{row['batch_rows']:>6}{rate['median']:>10.1f}{quartiles:>20}"
                f"{row['ours_is_times']:>8.2f}x"
            )
        lines.append(
            f"matmul {one['matmul_flops_per_s']['median'] / 1e9:.1f} GFLOP/s; the shared prefix"
            f" reaches {one['share_of_matmul_rate']:.0%} of it"
        )
        lines += [f"  {share:.0%} {kind}" for kind, share in one["shares"].items()]
        lines += [*verdicts(one), ""]
    return "\n".join(lines)


def main() -> int:
    """Run; exit code 1 when a target is missed on a quiet machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--prefix", type=int, default=48, help="ids before the reply (default 48)")
    parser.add_argument("--shapes", nargs="+", default=["22M", "135M"],
                        choices=["22M", "22M grouped", "135M"])  # fmt: skip
    parser.add_argument("--threads", type=int, help="threads of torch (default: its own choice)")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    shapes = []
    for name in options.shapes:
        with tempfile.TemporaryDirectory() as folder:
            shapes.append(measure(name, options, Path(folder)))
    document = {
        "schema": "pessimal.benchmark.sweep/2", "prefix_tokens": options.prefix,
        "suffix_tokens": 1, "machine": describe(), "shapes": shapes,
    }  # fmt: skip
    print(json.dumps(document) if options.json else table(document))
    return max(exit_code(one) for one in shapes)


if __name__ == "__main__":
    sys.exit(main())
