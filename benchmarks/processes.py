"""Measures a sweep in one process and in more: plain processes with a core each, threads, and Ray.

Every worker has its model loaded and has scored a little before the clock starts. Each way runs
between two runs of one process, in interleaved rounds; ratios are medians over rounds. All ways
must give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import Watch, describe, exit_code, spread, target, verdicts
from benchmarks.tiny_llama import SHAPES, build, some_replies
from pessimal.models.records import ModelRequest
from pessimal.scores.store import BlockStore, default_cache
from pessimal.sweep.runner import SweepOptions, SweepResult, sweep

ONE, TWO, THREADS = "1 process, 1 core", "2 processes, a core each", "1 process, 2 threads"
RAY = "Ray, 2 actors"
PROMPT = "What, in one word, is the greatest thing ever?"
Model = tuple[str, Path]
"""What `--model` would name, and Pessimal's cache folder."""
BLOCK_ROWS = 256
"""Small blocks let two workers end at about the same time."""


class Sweeper:
    """A process that holds a model and sweeps its share when it is asked to."""

    def __init__(self, model: Model, threads: int, core: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=serve, args=(far, model, threads, core))
        self._process.start()
        # A worker that dies is then an end of file here, and no endless wait.
        far.close()

    def ask(self, cache: str, count: int, share: tuple[int, int] | None) -> None:
        """Let it begin."""
        self._pipe.send((cache, count, share))

    def wait(self) -> Any:
        """Its scores once it is done; first of all, None once it is ready."""
        return self._pipe.recv()

    def close(self) -> None:
        self._pipe.send(None)
        self._process.join()


def serve(pipe: Any, model: Model, threads: int, core: int | None) -> None:
    """What a `Sweeper`'s process does."""
    import torch

    torch.set_num_threads(threads)
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[core]})
    scorer, slot = opened(*model)
    with tempfile.TemporaryDirectory() as cache:
        run(scorer, slot, cache, 2 * BLOCK_ROWS)
    pipe.send(None)
    while (task := pipe.recv()) is not None:
        cache, count, share = task
        options = SweepOptions(block_rows=BLOCK_ROWS, shard=share)
        pipe.send(run(scorer, slot, cache, count, options).scores)


def opened(name: str, folder: Path) -> tuple[Any, Any]:
    """A model's scorer and a slot; `folder` is Pessimal's cache."""
    from pessimal.models.opening import open_scorer
    from pessimal.models.slot import find_slot
    from pessimal.models.source import open_source

    source = open_source(ModelRequest(model=name), folder)
    return open_scorer(source, folder), find_slot(source, PROMPT)


def run(
    scorer: Any, slot: Any, cache: str, count: int, options: SweepOptions | None = None
) -> SweepResult:
    """One sweep into an empty store."""
    return sweep(
        scorer, scorer.model.hashes, slot, some_replies(count), BlockStore(Path(cache)),
        prompt_id="prompt", options=options or SweepOptions(block_rows=BLOCK_ROWS),
    )  # fmt: skip


def timed(workers: list[Sweeper], count: int) -> tuple[float, Any]:
    """Seconds that sweepers take together, and the scores."""
    with tempfile.TemporaryDirectory() as cache:
        began = time.perf_counter()
        for number, worker in enumerate(workers, 1):
            worker.ask(cache, count, (number, len(workers)) if len(workers) > 1 else None)
        parts = [worker.wait() for worker in workers]
        seconds = time.perf_counter() - began
    joined = parts[0]
    for part in parts[1:]:
        joined = np.where(np.isnan(joined), part, joined)
    return seconds, joined


def sweepers(model: Model, stack: ExitStack) -> dict[str, Callable[[int], tuple[float, Any]]]:
    """The ways without Ray, ready to run; each gives its seconds and the scores of some tokens."""
    ways = {
        ONE: [Sweeper(model, 1, 0)],
        TWO: [Sweeper(model, 1, 0), Sweeper(model, 1, 1)],
        THREADS: [Sweeper(model, 2, None)],
    }
    for worker in [worker for workers in ways.values() for worker in workers]:
        stack.callback(worker.close)
        worker.wait()
    return {name: partial(timed, workers) for name, workers in ways.items()}


def actors(model: Model, stack: ExitStack) -> Callable[[int], tuple[float, Any]]:
    """Two Ray actors, ready to run, as `sweepers`."""
    from pessimal.engines.ray import RayEngine

    scorer, slot = opened(*model)
    engine = stack.enter_context(closing(RayEngine(2)))
    cache = stack.enter_context(tempfile.TemporaryDirectory())
    options = SweepOptions(block_rows=BLOCK_ROWS, engine=engine)
    # Each actor loads its model at its first block, and again for another cache folder.
    run(scorer, slot, cache, 4 * BLOCK_ROWS, options)

    def way(count: int) -> tuple[float, Any]:
        shutil.rmtree(BlockStore(Path(cache)).folder)
        began = time.perf_counter()
        scores = run(scorer, slot, cache, count, options).scores
        return time.perf_counter() - began, scores

    return way


def measure(model: Model, count: int, rounds: int, *, ray: bool) -> dict[str, Any]:
    """One model, every way."""
    watch, seconds = Watch(), defaultdict(list)
    ratios: dict[str, list[float]] = defaultdict(list)
    found = set()

    def timed_once(name: str) -> float:
        took, scores = ways[name](count)
        found.add(scores.tobytes())
        seconds[name].append(took)
        return took

    with ExitStack() as stack:
        ways = sweepers(model, stack)
        if ray:
            ways[RAY] = actors(model, stack)
        for _ in range(rounds):
            with watch.round():
                # A machine's speed drifts: a way is compared with one process before and after it.
                before = timed_once(ONE)
                for name in list(ways)[1:]:
                    took, after = timed_once(name), timed_once(ONE)
                    ratios[name].append((before + after) / 2 / took)
                    before = after
    times = {ONE: 1.0, **{name: statistics.median(each) for name, each in ratios.items()}}
    return {
        "tokens": count, "same_bytes": len(found) == 1,
        "ways": [{"way": name, "seconds": spread(values), "times_one": times[name]}
                 for name, values in seconds.items()],
        "times": times,
        **watch.document(),
    }  # fmt: skip


def table(document: dict[str, Any]) -> str:
    """The document as text."""
    lines = []
    for one in document["models"]:
        lines.append(f"{one['model']}, {one['tokens']:,} tokens; same bytes: {one['same_bytes']}")
        lines += [
            f"  {row['way']:<28}{row['seconds']['median']:>8.2f} s{row['times_one']:>8.2f}x"
            for row in one["ways"]
        ]
    return "\n".join([*lines, *verdicts(document)])


def main() -> int:
    """Run; exit code 1 when a target is missed on a quiet machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=4096, help="of the 22M shape")
    parser.add_argument("--demo-tokens", type=int, default=1024, help="0 leaves it out")
    options = parser.parse_args()
    models, cache = [], default_cache()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder / "model", SHAPES["22M"])
        tasks = [("22M", str(folder / "model"), options.tokens, True)]
        if options.demo_tokens:
            tasks.append(("demo", "demo", options.demo_tokens, False))
        for shown, model, count, ray in tasks:
            # The demo's base is converted here, once.
            opened(model, cache)
            found = measure((model, cache), count, options.rounds, ray=ray)
            models.append({"model": shown, **found})
    first = models[0]
    others = [share for one in models for share in one["others"]]
    document = {
        "schema": "pessimal.benchmark.processes/1", "machine": describe(), "models": models,
        "targets": [
            target("two processes with a core each against one", first["times"][TWO], least=1.8,
                   unit="x"),
            target("Ray with two actors against one process", first["times"][RAY], least=1.7,
                   unit="x"),
            target("ways that give the same bytes, of all",
                   sum(one["same_bytes"] for one in models) / len(models), least=1.0),
        ],
        "others": others, "fair": all(one["fair"] for one in models),
    }  # fmt: skip
    print(json.dumps(document) if options.json else table(document))
    return exit_code(document)


if __name__ == "__main__":
    sys.exit(main())
