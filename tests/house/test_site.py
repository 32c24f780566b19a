"""The documentation builds, is whole, and a broken link fails it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.build import loads, navigation, render, stage
from docs.pages import ROOT, find_errors, read_readings, reference, shipped_audits
from pessimal.cli import app
from pessimal.models.families import FAMILIES


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "pages"
    stage(folder)
    return folder


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return reference()


def test_every_measure_has_a_page_that_says_how_it_is_read(made: dict[str, str]) -> None:
    metrics = {
        f"{audit.name}.{spec.name}": spec
        for audit in shipped_audits().values()
        for spec in audit.metrics
    }
    said = read_readings((ROOT / "docs/reading.md").read_text(encoding="utf-8"))
    assert said.keys() == metrics.keys()
    assert all(len(text) > 80 for text in said.values())
    for name, spec in metrics.items():
        assert f"{spec.minimum_n:,}" in made[f"measures/{name}.md"]
        assert said[name] in made[f"measures/{name}.md"]


def test_a_measures_page_has_the_rules_of_every_policy(made: dict[str, str]) -> None:
    page = made["measures/framing.d_pos.md"]
    assert "| default | all | min 0.5 | critical |" in page
    assert "| report-only | all | min 0.5 | warning |" in page


def test_every_family_and_command_has_its_place(made: dict[str, str]) -> None:
    for family in FAMILIES:
        assert f"# {family.name}\n" in made[f"families/{family.name}.md"]
        assert f"({family.name}.md)" in made["families/index.md"]
    for name, command in app.commands.items():
        assert f"\n## pessimal {name}\n" in made["commands.md"]
        assert all(option in made["commands.md"] for one in command.params for option in one.opts
                   if option.startswith("--"))  # fmt: skip


def test_errors_are_read_from_the_source(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "one.py").write_text(
        'CODE = "from_name"\n'
        'raise UsageError("plain_code", f"There is no {name!r} in " + where, "Name one.")\n'
        'raise PessimalError(CODE, "No.", f"Ask {who}." , exit_code=4)\n'
        'write(path, data, code="disk_full", remedy="Make room.")\n'
        'raise PessimalError(code, "Unknown.", "None.")\n'
        'raise ValueError("not_one", "of them", "at all")\n'
    )
    found = [
        (one.code, one.message, one.remedy, one.exit_code, one.area)
        for one in find_errors(tmp_path)
    ]
    assert found == [
        ("plain_code", "There is no … in …", "Name one.", 2, "part"),
        ("from_name", "No.", "Ask ….", 4, "part"),
        ("disk_full", "Can't write to …: ….", "Make room.", 3, "part"),
    ]


def test_the_codes_that_troubleshooting_names_exist() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([a-z_]+)` \|", page, re.M))
    assert len(named) > 4
    assert named <= {error.code for error in find_errors()}


def test_every_page_is_listed(pages: Path) -> None:
    def flat(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        parts = entry.values() if isinstance(entry, dict) else entry
        return [name for part in parts for name in flat(part)]

    listed = flat(navigation(pages))
    assert len(listed) == len(set(listed))
    assert set(listed) == {page.relative_to(pages).as_posix() for page in pages.rglob("*.md")}


def test_every_decision_is_on_their_list() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"\]\(([\w.-]+)\)", (folder / "README.md").read_text(encoding="utf-8"))
    assert listed == sorted(page.name for page in folder.glob("0*.md"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    ["", "[gone](nowhere.md)", "[no anchor](gate.md#nowhere)", "[no file](../nowhere.yml)",
     "![no image](images/nowhere.png)", '<img src="https://example.org/x.png">'],
)  # fmt: skip
def test_a_broken_link_fails_the_build(pages: Path, tmp_path: Path, line: str) -> None:
    page = pages / "docs" / "import.md"
    whole = page.read_text(encoding="utf-8")
    try:
        page.write_text(f"{whole}\n{line}\n", encoding="utf-8")
        if line:
            with pytest.raises(SystemExit):
                render(pages, tmp_path / "site")
        else:
            render(pages, tmp_path / "site")
            assert "framing.d_pos" in (
                tmp_path / "site/docs/reference/measures/framing.d_pos.html"
            ).read_text(encoding="utf-8")
    finally:
        page.write_text(whole, encoding="utf-8")


def test_what_a_page_loads_is_found() -> None:
    page = (
        '<link rel="stylesheet" href="a.css"><link rel="canonical" href="https://x/">'
        '<script src="https://x/y.js"></script><a href="https://z">z</a><img src="b.png" alt="">'
    )
    assert loads(page) == ["a.css", "https://x/y.js", "b.png"]
