"""Runs every benchmark, each in a process of its own, and writes one JSON document.

``--page`` also makes docs/performance.md, its document and its figure from what was measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import describe

SCHEMA = "pessimal.benchmark/1"
FULL: dict[str, list[str]] = {
    "sweep": ["--rounds", "3"],
    "growth": ["--rounds", "1"],
    "processes": ["--rounds", "2"],
    "startup": ["--rounds", "1"],
    "savings": [],
    "measures": [],
    "report": [],
}
QUICK: dict[str, list[str]] = {
    "sweep": ["--rounds", "1", "--shapes", "22M"],
    "processes": ["--rounds", "1", "--tokens", "1024", "--demo-tokens", "0"],
}  # fmt: skip


def run(name: str, arguments: list[str]) -> dict[str, Any]:
    """One benchmark's document; what it says on the way goes to standard error."""
    began = time.perf_counter()
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise SystemExit(f"The benchmark {name} failed.") from None
    return {**document, "exit_code": done.returncode, "took_s": time.perf_counter() - began}


def main() -> int:
    """Run them in order; exit code 1 where one misses a target on a quiet machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="the sweep and processes alone, smaller"
    )
    parser.add_argument("--out", type=Path, default=Path("test-output/bench"), help="a folder")
    parser.add_argument("--page", action="store_true", help="make docs/performance.md from it")
    options = parser.parse_args()
    if options.page and options.quick:
        parser.error("the page takes every benchmark: leave --quick out")
    began = time.perf_counter()
    found: dict[str, Any] = {}
    for name, arguments in (QUICK if options.quick else FULL).items():
        found[name] = run(name, arguments)
        sys.stderr.write(f"{name}: {found[name]['took_s']:.0f} s\n")
    document = {
        "schema": SCHEMA, "quick": options.quick, "machine": describe(),
        "took_s": time.perf_counter() - began, **found,
    }  # fmt: skip
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "performance.json"
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    from benchmarks.performance_page import publish, summary

    print(summary(document))
    print(f"Written to {file}")
    if options.page:
        publish(document)
    return max(one["exit_code"] for one in found.values())


if __name__ == "__main__":
    sys.exit(main())
