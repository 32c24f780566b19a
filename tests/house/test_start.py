"""The command line answers at once: it loads nothing heavy before it must."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

HEAVY = {
    "great_expectations", "matplotlib", "mlflow", "optuna", "pandas", "peft", "plotly", "pyarrow",
    "scipy", "sklearn", "statsmodels", "torch", "transformers", "wordfreq",
}  # fmt: skip

LIST_LOADED = """
import json, sys
from pessimal.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    code = end.code
print("\\n" + json.dumps([code, sorted({name.split(".")[0] for name in sys.modules})]))
"""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["list"], ["list", "--json"]])
def test_nothing_heavy_is_loaded(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIST_LOADED, *arguments], capture_output=True, text=True, check=True
    )
    code, loaded = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    assert HEAVY.isdisjoint(loaded)


@pytest.mark.parametrize("arguments", [["--help"], ["list"]])
def test_the_answer_takes_less_than_half_a_second(arguments: list[str]) -> None:
    command = [Path(sys.executable).with_name("pessimal"), *arguments]
    best = float("inf")
    # A busy machine makes some tries slow, never fast.
    for _ in range(10):
        start = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        best = min(best, time.perf_counter() - start)
        if best < 0.5:
            break
    assert best < 0.5
