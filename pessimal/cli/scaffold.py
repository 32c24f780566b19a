"""Make a content root for a user's own project."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from pessimal.errors import UsageError
from pessimal.project import find_content

SETTINGS = """\
[tool.pessimal]
# This folder is a Pessimal project: audits/, pipelines/ and expectations/ are read from here.
"""


def make_project(folder: Path) -> Path:
    """Copy the content at hand into a new or an empty folder, whole or not at all.

    Raises:
        UsageError: the folder exists and isn't empty, or can't be made.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            "folder_not_empty", f"{folder} exists and is not an empty folder.", "Name a new folder."
        )
    source = find_content(start=Path(os.sep))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise UsageError(
            "folder_not_writable",
            f"{folder} can't be made: {error}.",
            "Name a folder you may write to.",
        ) from error
    try:
        for part in (source.audits, source.pipelines, source.expectations):
            shutil.copytree(part, made / part.name, ignore=shutil.ignore_patterns("__pycache__"))
        (made / "mlruns").mkdir()
        (made / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
        made.chmod(0o755)
        if folder.exists():
            folder.rmdir()
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return folder.resolve()
