"""Measures a sweep in one process and in more: plain processes with a core each, threads, and Ray.

Every worker has its model loaded and has scored a little before the clock starts. All ways must
give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
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
        self._pipe.recv()

    def ask(self, cache: str, count: int, share: tuple[int, int] | None) -> None:
        """Let it begin."""
        self._pipe.send((cache, count, share))

    def wait(self) -> Any:
        """Its scores once it is done."""
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


def measure_plain(model: Model, count: int, rounds: int, watch: Watch) -> dict[str, Any]:
    """Seconds of the ways without Ray, interleaved, and one way's scores."""
    ways = {
        ONE: [Sweeper(model, 1, 0)],
        TWO: [Sweeper(model, 1, 0), Sweeper(model, 1, 1)],
        THREADS: [Sweeper(model, 2, None)],
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    scores: dict[str, Any] = {}
    for _ in range(rounds):
        with watch.round():
            for name, workers in ways.items():
                took, scores[name] = timed(workers, count)
                seconds[name].append(took)
    for workers in ways.values():
        for worker in workers:
            worker.close()
    return {"seconds": seconds, "scores": scores}


def measure_ray(model: Model, count: int, rounds: int, watch: Watch) -> tuple[list[float], Any]:
    """Seconds of two actors, and the scores."""
    from contextlib import closing

    from pessimal.engines.ray import RayEngine

    scorer, slot = opened(*model)
    seconds, scores = [], None
    with closing(RayEngine(2)) as engine, tempfile.TemporaryDirectory() as cache:
        options = SweepOptions(block_rows=BLOCK_ROWS, engine=engine)
        # Each actor loads its model at its first block, and again for another cache folder.
        run(scorer, slot, cache, 4 * BLOCK_ROWS, options)
        for _ in range(rounds):
            shutil.rmtree(BlockStore(Path(cache)).folder)
            with watch.round():
                began = time.perf_counter()
                scores = run(scorer, slot, cache, count, options).scores
                seconds.append(time.perf_counter() - began)
    return seconds, scores


def measure(model: Model, count: int, rounds: int, *, ray: bool) -> dict[str, Any]:
    """One model, every way."""
    watch = Watch()
    found = measure_plain(model, count, rounds, watch)
    seconds, scores = found["seconds"], found["scores"]
    if ray:
        seconds[RAY], scores[RAY] = measure_ray(model, count, rounds, watch)
    same = all(one.tobytes() == scores[ONE].tobytes() for one in scores.values())
    ways = {name: spread(values) for name, values in seconds.items()}
    times = {name: ways[ONE]["median"] / one["median"] for name, one in ways.items()}
    return {
        "tokens": count, "same_bytes": same,
        "ways": [{"way": name, "seconds": one, "times_one": times[name]}
                 for name, one in ways.items()],
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
