"""Where runs are kept: the tracking URI, the database behind it, and a client for both.

MLflow is imported here, inside a function: it takes two seconds.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.errors import PessimalError

if TYPE_CHECKING:
    from mlflow import MlflowClient

AUDITS = "reward-audits"
COMPARISONS = "reward-comparisons"
TUNING = "reward-tuning"
EXPERIMENTS = (AUDITS, COMPARISONS, TUNING)

# Read by MLflow when it is imported or at each call; what the user set stays.
_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
}
_SQLITE = "sqlite:///"


def resolve_uri(tracking_uri: str | None, home: Path) -> str:
    """The tracking URI: `tracking_uri`, else ``MLFLOW_TRACKING_URI``, else a database in `home`."""
    named = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
    return named or f"{_SQLITE}{(home.resolve() / 'mlruns' / 'mlflow.db').as_posix()}"


def show_uri(uri: str) -> str:
    """The URI without user, password, query and fragment, for messages."""
    return re.sub(r"(://)[^/@]*@", r"\1", uri).split("?")[0].split("#")[0]


def database_file(uri: str) -> Path | None:
    """The file of a sqlite URI, else None."""
    name = uri.removeprefix(_SQLITE).split("?")[0] if uri.startswith(_SQLITE) else ""
    return Path(name) if name and name != ":memory:" else None


@contextmanager
def locked(path: Path, timeout_s: float = 120.0) -> Iterator[None]:
    """Hold an exclusive lock on a file, made if it is missing.

    Raises:
        PessimalError: the lock stays taken for `timeout_s`, or its folder can't be written.
    """
    from filelock import FileLock, Timeout

    make_folder(path.parent)
    try:
        with FileLock(path, timeout=timeout_s):
            yield
    except Timeout as error:
        raise PessimalError(
            "tracking_locked",
            f"Another process has held {path} for {timeout_s:g} s.",
            "Wait until it is done, or end it, and run the same command again.",
        ) from error


def make_folder(folder: Path) -> None:
    """Make a folder of the tracking store.

    Raises:
        PessimalError: it can't be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PessimalError(
            "tracking_not_writable",
            f"The tracking folder {folder} can't be made: {error.strerror}.",
            "Run from a folder that can be written, or name a store with --tracking-uri.",
        ) from error


def open_client(uri: str) -> MlflowClient:
    """Open the store, making a sqlite database and the experiments where they are missing.

    Raises:
        PessimalError: the store can't be reached or written.
    """
    mlflow = import_mlflow()
    file = database_file(uri)
    try:
        if file is None:
            client: MlflowClient = mlflow.MlflowClient(tracking_uri=uri)
            _make_experiments(client, None)
            return client
        # Two first uses at once would run the same migrations twice and both would fail.
        with locked(file.with_name(f".{file.name}.lock")):
            client = mlflow.MlflowClient(tracking_uri=uri)
            _make_experiments(client, file.resolve().parent)
            return client
    except PessimalError:
        raise
    except Exception as error:
        raise unreachable(uri, error) from None


def unreachable(uri: str, error: Exception) -> PessimalError:
    """A named error for a store that fails; the cause's text may hold the URI's password."""
    text = show_uri(str(error).replace(uri, show_uri(uri)).split("\n")[0])
    return PessimalError(
        "tracking_unreachable",
        f"The tracking store {show_uri(uri)} can't be used: {type(error).__name__}: {text}.",
        "Check --tracking-uri and MLFLOW_TRACKING_URI, and that the server runs.",
    )


def import_mlflow() -> Any:
    """MLflow, with telemetry, progress bars and printed links off."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import mlflow

    for name in ("mlflow.store.db.utils", "mlflow.store.db_migrations", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return mlflow


def _make_experiments(client: MlflowClient, folder: Path | None) -> None:
    from pessimal.tracking.views import experiment_tags

    for name in EXPERIMENTS:
        found, tags = client.get_experiment_by_name(name), experiment_tags(name)
        if found is None:
            # A database has no folder of its own for artifacts: they lie beside it.
            location = None if folder is None else (folder / name).as_uri()
            try:
                client.create_experiment(name, artifact_location=location, tags=tags)
            except Exception:
                # On a server that others use, somebody may have been faster.
                if client.get_experiment_by_name(name) is None:
                    raise
            continue
        # One of an earlier version lacks some; what somebody changed in the UI stays.
        for key in tags.keys() - found.tags.keys():
            client.set_experiment_tag(found.experiment_id, key, tags[key])
