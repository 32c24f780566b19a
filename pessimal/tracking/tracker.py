"""Start, resume and find runs.

A run has one living owner, which holds an exclusive lock on a file named after the run. A process
that dies in any way drops the lock, so the same command finds its run still RUNNING, unlocked and
with the same key, and goes on with it. An interrupted run therefore stays RUNNING; one that failed
with an error is closed as FAILED and never resumed.
"""

from __future__ import annotations

import json
import platform
import re
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse
from urllib.request import url2pathname

from pessimal.errors import PessimalError, UsageError
from pessimal.text import show_text
from pessimal.tracking.run import DOCUMENT, RunHandle, hash_file, tag_values
from pessimal.tracking.store import (
    AUDITS,
    EXPERIMENTS,
    database_file,
    import_mlflow,
    locked,
    make_folder,
    open_client,
    resolve_uri,
    show_uri,
    unreachable,
)
from pessimal.tracking.views import VIEW

if TYPE_CHECKING:
    from filelock import FileLock
    from mlflow import MlflowClient
    from mlflow.entities import Run

KEY_TAG = "pessimal.key"
HOST_TAG = "pessimal.host"
_KEY = re.compile(r"[\w.:-]{1,200}", re.ASCII)
_RUN_ID = re.compile(r"[0-9a-f]{1,32}")


class Tracker:
    """A tracking store: the only way that runs are written or read.

    Args:
        tracking_uri: the store; ``MLFLOW_TRACKING_URI`` and then the project's own database stand
            in for None.
        home: the folder that ``mlruns/`` lies in.
    """

    def __init__(self, tracking_uri: str | None, home: Path) -> None:
        self.uri = resolve_uri(tracking_uri, home)
        self._locks = home.resolve() / "mlruns" / ".locks"

    @property
    def shown_uri(self) -> str:
        """The URI without credentials."""
        return show_uri(self.uri)

    @cached_property
    def client(self) -> MlflowClient:
        """The client; opening it makes the database where there is none.

        Raises:
            PessimalError: the store can't be reached or written.
        """
        return open_client(self.uri)

    def start(
        self, name: str, tags: Mapping[str, object], key: str, experiment: str = AUDITS
    ) -> RunHandle:
        """Resume the newest interrupted run with this key, else start one.

        Args:
            name: the run's name in the UI.
            tags: tags to set at once.
            key: what makes two runs the same work: a hash of model, pipeline, policy and code.
            experiment: ``reward-audits`` or ``reward-comparisons``.

        Raises:
            PessimalError: the store or the lock's folder can't be used.
        """
        if not _KEY.fullmatch(key):
            raise ValueError(f"a key holds letters, digits and .:_- only, not {key!r}")
        make_folder(self._locks)
        with locked(self._locks / "start.lock"):
            for run in self._interrupted(key, experiment):
                lock = self._try_lock(run.info.run_id)
                if lock is not None:
                    handle = RunHandle(self.client, run, lock, resumed=True)
                    handle.set_tags(tags)
                    return handle
            all_tags = tag_values({**tags, KEY_TAG: key, HOST_TAG: _host()})
            run = self.client.create_run(
                self._experiment_id(experiment), tags=all_tags, run_name=show_text(name, 200)
            )
            lock = self._try_lock(run.info.run_id)
            if lock is None:
                raise AssertionError(f"a new run's lock is taken: {run.info.run_id}")
            return RunHandle(self.client, run, lock, resumed=False)

    def find_run(self, reference: str) -> str:
        """The id of a run by its id, an unambiguous beginning of it, or ``latest``.

        ``latest`` is the newest finished audit.

        Raises:
            UsageError: no run, or more than one, is meant.
        """
        if reference == "latest":
            ids = self._search([AUDITS], "attributes.status = 'FINISHED'", 1)
        elif _RUN_ID.fullmatch(reference.lower()):
            pattern = f"attributes.run_id LIKE '{reference.lower()}%'"
            ids = self._search(list(EXPERIMENTS), pattern, 2)
        else:
            ids = []
        if len(ids) == 1:
            return ids[0]
        shown = show_text(reference, 60)
        if not ids:
            raise UsageError(
                "run_unknown", f"{self.shown_uri} has no run {shown!r}.",
                "Name a run by its id, the beginning of its id, or latest; pessimal ui lists them.",
            )  # fmt: skip
        raise UsageError(
            "run_ambiguous", f"More than one run of {self.shown_uri} begins with {shown!r}.",
            "Give more digits of the run's id.",
        )  # fmt: skip

    def newest_audits(self, count: int) -> list[str]:
        """Ids of the newest finished audits, the oldest of them first."""
        return self._search([AUDITS], "attributes.status = 'FINISHED'", count)[::-1]

    def load_document(self, run_id: str) -> dict[str, Any]:
        """The audit document that a finished run holds.

        Raises:
            PessimalError: the run holds none, or one that can't be read.
        """
        path = self.download(run_id, DOCUMENT)
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise PessimalError(
                "document_invalid", f"{DOCUMENT} of run {run_id} is not JSON: {error}.",
                "Audit the model again.",
            ) from error  # fmt: skip
        if not isinstance(document, dict) or "schema" not in document:
            raise PessimalError(
                "document_invalid", f"{DOCUMENT} of run {run_id} is not an audit document.",
                "Audit the model again.",
            )  # fmt: skip
        return document

    def download(self, run_id: str, artifact_path: str, into: Path | None = None) -> Path:
        """A local path of a run's artifact (file or folder).

        Args:
            run_id: the run's full id.
            artifact_path: path inside the run.
            into: folder to copy it to; by default the store's own file where it is a local one.

        Raises:
            PessimalError: the run has no such artifact.
        """
        mlflow = import_mlflow()
        missing = PessimalError(
            "artifact_missing", f"Run {run_id} holds no {show_text(artifact_path)}.",
            "It may not have finished: run the same audit again, which resumes it.",
        )  # fmt: skip
        try:
            if into is None:
                folder = self._local_artifacts(run_id)
                if folder is not None:
                    path = (folder / artifact_path).resolve()
                    # A path comes from a run's own document, which anybody may have edited.
                    if path.exists() and path.is_relative_to(folder.resolve()):
                        return path
                    raise missing
                into = Path(tempfile.mkdtemp(prefix="pessimal-"))
            return Path(self.client.download_artifacts(run_id, artifact_path, str(into)))
        except (mlflow.MlflowException, OSError) as error:
            raise missing from error

    def hash_artifact(self, run_id: str, artifact_path: str) -> str:
        """sha256 of a run's file.

        Raises:
            PessimalError: the run has no such artifact.
        """
        if self._local_artifacts(run_id) is not None:
            return hash_file(self.download(run_id, artifact_path))
        with tempfile.TemporaryDirectory(prefix="pessimal-") as scratch:
            return hash_file(self.download(run_id, artifact_path, Path(scratch)))

    def _local_artifacts(self, run_id: str) -> Path | None:
        """The folder of a run's artifacts, where it is one of this machine."""
        uri = urlparse(self.client.get_run(run_id).info.artifact_uri)
        if uri.scheme not in ("", "file"):
            return None
        folder = Path(url2pathname(uri.path))
        return folder if folder.is_dir() else None

    def tags(self, run_id: str) -> dict[str, str]:
        """A run's tags."""
        return dict(self.client.get_run(run_id).data.tags)

    def artifacts(self, run_id: str, folder: str = "") -> list[str]:
        """The paths of all files that a run holds in a folder, sorted."""
        found: list[str] = []
        for item in self.client.list_artifacts(run_id, folder or None):
            found += self.artifacts(run_id, item.path) if item.is_dir else [item.path]
        return sorted(found)

    def experiment_url(self, base: str, experiment: str = AUDITS) -> str:
        """The address of an experiment's runs in a UI at `base`, with the columns that matter."""
        page = f"{base.rstrip('/')}/#/experiments/{self._experiment_id(experiment)}/runs"
        return f"{page}?viewStateShareKey={VIEW}&workflowType=machine_learning"

    def _interrupted(self, key: str, experiment: str) -> list[Run]:
        # The store of a server is shared: the lock files of another host can't be seen from here.
        host = "" if database_file(self.uri) else f" AND tags.`{HOST_TAG}` = '{_host()}'"
        found = self.client.search_runs(
            [self._experiment_id(experiment)],
            f"attributes.status = 'RUNNING' AND tags.`{KEY_TAG}` = '{key}'{host}",
            order_by=["attributes.start_time DESC"],
        )
        return list(found)

    def _experiment_id(self, name: str) -> str:
        experiment = self.client.get_experiment_by_name(name)
        if experiment is None:
            raise PessimalError(
                "experiment_missing", f"{self.shown_uri} has no experiment {name!r}.",
                "Restore the experiment if it was deleted in the UI, or name another store.",
            )  # fmt: skip
        return str(experiment.experiment_id)

    def _search(self, experiments: list[str], query: str, count: int) -> list[str]:
        ids = [self._experiment_id(name) for name in experiments]
        # Child runs have no key: a search or a trial is not an audit.
        query = f"{query} AND tags.`{KEY_TAG}` LIKE '%'"
        try:
            found = self.client.search_runs(
                ids, query, max_results=count, order_by=["attributes.start_time DESC"]
            )
        except import_mlflow().MlflowException as error:
            raise unreachable(self.uri, error) from None
        return [run.info.run_id for run in found]

    def _try_lock(self, run_id: str) -> FileLock | None:
        from filelock import FileLock, Timeout

        lock = FileLock(self._locks / f"{run_id}.lock", timeout=0, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            return None
        return lock


def _host() -> str:
    return re.sub(r"[^\w.-]", "_", platform.node())
