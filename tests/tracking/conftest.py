"""A prepared tracking database, copied for each test: making one takes seconds."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pessimal.tracking import Tracker


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose database is made and empty."""
    home = tmp_path_factory.mktemp("prepared")
    _ = Tracker(None, home).client
    return home


@pytest.fixture
def home(prepared: Path, tmp_path: Path) -> Path:
    """A copy of the prepared home whose artifacts lie in the copy."""
    home = tmp_path / "a home"
    shutil.copytree(prepared, home)
    with closing(sqlite3.connect(home / "mlruns" / "mlflow.db")) as database, database:
        database.execute(
            "UPDATE experiments SET artifact_location = replace(artifact_location, ?, ?)",
            (prepared.resolve().as_uri(), home.resolve().as_uri()),
        )
    return home


@pytest.fixture
def tracker(home: Path) -> Tracker:
    """A tracker of the copied home."""
    return Tracker(None, home)
