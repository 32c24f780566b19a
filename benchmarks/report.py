"""The report of a large vocabulary: seconds, peak memory and size. Wants a quiet machine.

python benchmarks/report.py [--tokens 256000] [--prompts 18] [--json]
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pessimal.audit import Figure
from pessimal.reports import draw, write_report

KINDS = ("word", "subword", "code", "non_latin", "number", "punctuation", "bytes", "unused")


def make_vocabulary(tokens: int, prompts: int) -> pd.DataFrame:
    """A table as incompressible as real ones: distinct texts, scores of no pattern."""
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz爱дж"))
    lengths = rng.integers(2, 14, tokens)
    drawn = letters[rng.integers(0, len(letters), int(lengths.sum()))]
    ends = np.cumsum(lengths)
    texts = [
        f"{'' if place % 2 else ' '}{''.join(drawn[end - length : end])}"
        for place, (length, end) in enumerate(zip(lengths, ends, strict=True))
    ]
    table = pd.DataFrame({
        "token_id": np.arange(tokens, dtype=np.int32), "token": pd.Series(texts, dtype=object),
        "text": pd.Series(texts, dtype=object), "kind": rng.choice(KINDS, tokens),
        "roundtrips": rng.random(tokens) > 0.1,
    })  # fmt: skip
    common = rng.normal(size=tokens)
    scores = {
        f"score:prompt_{number}": (common + rng.normal(size=tokens)).astype(np.float32)
        for number in range(prompts)
    }
    return table.assign(**scores)


def measure(tokens: int, prompts: int, folder: Path) -> dict[str, Any]:
    """Write one report with two figures."""
    vocabulary = make_vocabulary(tokens, prompts)
    names = [column.removeprefix("score:") for column in vocabulary if column.startswith("score:")]
    document: dict[str, Any] = {
        "run_id": "0" * 32, "verdict": "PASS", "model": {"id": "large"}, "audits": [],
        "prompts": [
            {"id": name, "text": f"What is {name}?", "framing": "positive"} for name in names
        ],
    }  # fmt: skip
    kinds = Figure(
        "kinds", "Kinds?", "distribution", "v", "score:prompt_0", group="kind", x_label="reward"
    )
    pairs = Figure("pairs", "Alike?", "scatter", "s", "score:prompt_0", "score:prompt_1")
    tables = {"v": vocabulary, "s": vocabulary.head(2_000)}
    file = folder / "report.html"
    started = time.perf_counter()
    drawings = [draw(figure, tables) for figure in (kinds, pairs)]
    write_report(
        document, {"vocabulary/ends": vocabulary.head(200)}, vocabulary,
        {one.name: one.svg for one in drawings}, file,
        charts={one.name: one.chart for one in drawings},
    )  # fmt: skip
    return {
        "tokens": tokens,
        "prompts": prompts,
        "seconds": round(time.perf_counter() - started, 1),
        "bytes": file.stat().st_size,
        # Of the whole process: Python, its packages and the table itself are in it.
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        * (1 if sys.platform == "darwin" else 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=256_000)
    parser.add_argument("--prompts", type=int, default=18)
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(flags.tokens, flags.prompts, Path(folder))
    if flags.json:
        print(json.dumps(found))
        return
    print(
        f"Report of {found['tokens']:,} tokens x {found['prompts']} prompts: {found['seconds']} s,"
        f" {found['bytes'] / 1e6:.1f} MB, peak memory {found['peak_bytes'] / 2**30:.2f} GiB"
    )


if __name__ == "__main__":
    main()
