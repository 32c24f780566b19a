"""The command line answers at once: it loads nothing heavy before it must."""

from __future__ import annotations

import json
import subprocess
import sys

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
