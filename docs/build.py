"""Build the documentation into ``site/``: the pages of docs/, and those made from the code.

Links and anchors of every page, the README and the changelog are checked: a broken one fails.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import yaml

from docs.pages import ROOT, reference

BESIDE = ("README.md", "CHANGELOG.md", "LICENSE", "action.yml")
"""What pages link to outside ``docs/``."""
_LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
_LINKS_ONLY = frozenset({"canonical", "author", "next", "prev", "search", "index"})


def build(site: Path) -> None:
    """Build the site into a folder, which is replaced.

    Raises:
        SystemExit: see `render`.
    """
    with tempfile.TemporaryDirectory(prefix="pessimal-docs-") as scratch:
        pages, made = Path(scratch) / "pages", Path(scratch) / "site"
        stage(pages)
        render(pages, made)
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(made, site)


def stage(pages: Path) -> None:
    """Lay out the pages as they lie in the repository, so that their links stay as they are."""
    kept = shutil.ignore_patterns("*.py", "__pycache__", "site.yml", "reference")
    shutil.copytree(ROOT / "docs", pages / "docs", ignore=kept)
    for name in BESIDE:
        shutil.copy(ROOT / name, pages / name)
    for name, text in reference().items():
        place = pages / "docs" / "reference" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")


def render(pages: Path, site: Path) -> None:
    """Turn staged pages into a site.

    Raises:
        SystemExit: a link or an anchor is broken, a page isn't listed in docs/README.md, or a built
            page would load something from another host.
    """
    settings = yaml.safe_load((ROOT / "docs" / "site.yml").read_text(encoding="utf-8"))
    settings |= {"docs_dir": str(pages), "nav": navigation(pages)}
    config = pages.with_name("properdocs.yml")
    config.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    # Warnings count against --strict only while they are said: never with --quiet.
    command = [sys.executable, "-m", "properdocs", "build", "--strict", "-f", config, "-d", site]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}The documentation can't be built like that.")
    foreign = [
        f"{page.relative_to(site)}: {place}"
        for page in sorted(site.rglob("*.html"))
        for place in loads(page.read_text(encoding="utf-8"))
        if "//" in place
    ]
    if foreign:
        raise SystemExit("Loaded from elsewhere:\n" + "\n".join(foreign))


def navigation(pages: Path) -> list[Any]:
    """The order of the pages: as docs/README.md names them, then the reference."""
    listed = (pages / "docs" / "README.md").read_text(encoding="utf-8")
    named = list(dict.fromkeys(re.findall(r"\]\(([\w/.-]+\.md)\)", listed)))
    guide = [f"docs/{name}" for name in named if "/" not in name]
    single = [
        f"docs/reference/{name}.md" for name in ("commands", "policies", "pipelines", "errors")
    ]
    return [
        {"Pessimal": "README.md"},
        {"Guide": ["docs/README.md", *guide]},
        {
            "Reference": [
                *single,
                {"Measures": _folder(pages, "docs/reference/measures")},
                {"Model families": _folder(pages, "docs/reference/families")},
            ]
        },
        {"Decisions": _folder(pages, "docs/decisions")},
        {"Changes": "CHANGELOG.md"},
    ]


def _folder(pages: Path, place: str) -> list[str]:
    """The pages of a folder, the one that lists the others first."""
    names = {file.name for file in (pages / place).glob("*.md")}
    first = names & {"index.md", "README.md"}
    return [f"{place}/{name}" for name in (*first, *sorted(names - first))]


class _Loads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.places: list[str] = []

    def handle_starttag(self, tag: str, attrs: Iterable[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        place = given.get(_LOADS.get(tag, ""))
        if place and given.get("rel") not in _LINKS_ONLY:
            self.places.append(place)


def loads(page: str) -> list[str]:
    """The addresses of everything that a page loads by itself."""
    parser = _Loads()
    parser.feed(page)
    return parser.places


def main() -> None:
    """Build into the folder that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", nargs="?", type=Path, default=ROOT / "site")
    site = parser.parse_args().site
    build(site)
    print(f"Open {site / 'index.html'}; its search needs: python3 -m http.server -d {site}")


if __name__ == "__main__":
    main()
