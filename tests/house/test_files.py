"""What every tracked file keeps to: no host or path of one machine, no file too long to read."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST_MODULE = 400

# Written apart, so that this file keeps the rule it checks.
REGISTRY_HOST = re.compile(
    r"\b(?:[\w-]+\.)*(?:" + "|".join(("py" + "pi", "pythonhosted", "npm" + "js", "deb" + "ian"))
    + r")\.org\b"
)  # fmt: skip
MACHINE_PATH = re.compile(r"(?<![\w.~$}])/(?:work|home|Users|root|tmp|opt|mnt)/\w")


def tracked() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    return [path for name in listing.split("\0") if name and (path := ROOT / name).is_file()]


def text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def hits(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in tracked()
        for number, line in enumerate((text_of(path) or "").splitlines(), 1)
        for match in pattern.finditer(line)
    ]


def test_no_file_names_a_registry_host() -> None:
    assert hits(REGISTRY_HOST) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert hits(MACHINE_PATH) == []


def test_every_module_can_be_read_in_one_sitting() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len((text_of(path) or "").splitlines())
        for path in tracked()
        if path.suffix == ".py"
    }
    assert {name: n for name, n in lengths.items() if n > LONGEST_MODULE} == {}


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (REGISTRY_HOST, "see https://files.python" + "hosted.org/x"),
        (REGISTRY_HOST, "index-url = https://py" + "pi.org/simple"),
        (MACHINE_PATH, "open('/ho" + "me/someone/model')"),
        (MACHINE_PATH, "cache: /wo" + "rk/cache"),
    ],
)
def test_the_patterns_find_what_they_are_for(pattern: re.Pattern[str], line: str) -> None:
    assert pattern.search(line)


@pytest.mark.parametrize(
    "line", ["../shared/data", "tests/tmp/file", "https://host/work", "$HOME/x"]
)
def test_relative_paths_are_fine(line: str) -> None:
    assert not MACHINE_PATH.search(line)
