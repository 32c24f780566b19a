"""The report of the largest vocabulary stays small, in the file and in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "report.py"


@pytest.mark.slow
def test_a_report_of_256_000_tokens_and_18_prompts_is_small() -> None:
    # A process of its own: the peak is of a whole process.
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--json"], capture_output=True, check=True, text=True
    )
    found = json.loads(done.stdout)
    assert (found["tokens"], found["prompts"]) == (256_000, 18)
    assert 2_000_000 < found["bytes"] < 10_000_000
    assert found["peak_bytes"] < 2 * 2**30
