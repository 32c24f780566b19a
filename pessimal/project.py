"""Content roots: where audits, pipelines and expectations are read from.

Content is found by path and never imported by a bare name, so that a user's own package called
``pipelines`` can't be shadowed.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from pessimal.errors import UsageError

PACKAGED = Path(__file__).parent / "content"


@dataclass(frozen=True)
class ContentRoot:
    """A folder that holds ``audits/``, ``pipelines/`` and ``expectations/``."""

    path: Path
    """The folder."""
    packaged: bool
    """Whether this is the copy inside the installed package, and not a project of the user's."""

    @property
    def audits(self) -> Path:
        """The folder of audits, one Python file each."""
        return self.path / "audits"

    @property
    def pipelines(self) -> Path:
        """The folder of pipelines (YAML)."""
        return self.path / "pipelines"

    @property
    def expectations(self) -> Path:
        """The folder of policies (YAML)."""
        return self.path / "expectations"

    @property
    def home(self) -> Path:
        """The folder that ``mlruns/`` lies in: the project, or the working folder."""
        return Path.cwd() if self.packaged else self.path


def find_content(project: Path | None = None, start: Path | None = None) -> ContentRoot:
    """Find the content root: `project`, else the nearest project above `start`, else the package.

    Args:
        project: a folder named by the user; it must hold the three content folders.
        start: where to look from; the working folder by default.

    Raises:
        UsageError: `project` is not a content root.
    """
    if project is not None:
        root = ContentRoot(project.resolve(), packaged=False)
        for folder in (root.audits, root.pipelines, root.expectations):
            if not folder.is_dir():
                raise UsageError(
                    "project_invalid",
                    f"{project} is not a Pessimal project: it has no folder {folder.name}/.",
                    f"Make one with: pessimal init {project}",
                )
        return root
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if _is_project(folder):
            return find_content(folder)
    if PACKAGED.is_dir():
        return ContentRoot(PACKAGED, packaged=True)
    # An editable install carries no copy: the checkout itself is the content.
    return ContentRoot(Path(__file__).parent.parent, packaged=True)


def _is_project(folder: Path) -> bool:
    try:
        settings = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    tool = settings.get("tool")
    return isinstance(tool, dict) and "pessimal" in tool
