"""Write one run: parameters, metrics, tags, datasets, tables, files and its description.

Everything is keyed and written whole, so that a resumed run repeats it without doubling anything.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from pessimal.lexicons import list_digest
from pessimal.text import show_text

if TYPE_CHECKING:
    import pandas as pd
    from filelock import FileLock
    from mlflow import MlflowClient
    from mlflow.entities import Run

    from pessimal.audit import Metric

DOCUMENT = "audit.json"
MAXIMUM_HEADLINES = 40
MAXIMUM_ROWS = 200
MAXIMUM_FILE_BYTES = 64 * 2**20
_TAGS_A_BATCH = 100
_TAG_LENGTH = 5000


class RunHandle:
    """A run that this process owns; a context manager that closes it.

    Leaving the block closes the run as FINISHED, or as FAILED after an error. After an interrupt
    (Ctrl-C, or an exit asked for by a signal) it stays RUNNING, and the same command resumes it.
    """

    def __init__(self, client: MlflowClient, run: Run, lock: FileLock, *, resumed: bool) -> None:
        self._client = client
        self._lock = lock
        self._tables = _logged_tables(run.data.tags)
        self.run_id: str = run.info.run_id
        self.resumed = resumed
        """Whether an interrupted run was picked up."""
        self.hashes: dict[str, str] = {}
        """sha256 of every file logged so far, by its path in the run."""
        self.interruptions = sum(tag.startswith("pessimal.resumed") for tag in run.data.tags)
        """How often this run was interrupted before."""
        if resumed:
            self.set_tags({f"pessimal.resumed.{self.interruptions + 1}": int(time.time())})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.finish()
        elif issubclass(kind, Exception):
            self.set_tags({"pessimal.error": getattr(error, "code", kind.__name__)})
            self.finish("FAILED")
        else:
            self._release()

    def finish(self, status: Literal["FINISHED", "FAILED"] = "FINISHED") -> None:
        """Close the run and give up its lock."""
        try:
            self._client.set_terminated(self.run_id, status)
        finally:
            self._release()

    def log_params(self, params: Mapping[str, object]) -> None:
        """Log parameters; those whose value is None are left out."""
        from mlflow.entities import Param

        rows = [Param(key, show_text(value, 500)) for key, value in _present(params)]
        for start in range(0, len(rows), _TAGS_A_BATCH):
            self._client.log_batch(self.run_id, params=rows[start : start + _TAGS_A_BATCH])

    def set_tags(self, tags: Mapping[str, object]) -> None:
        """Set tags; those whose value is None are left out."""
        from mlflow.entities import RunTag

        rows = [RunTag(key, value) for key, value in tag_values(tags).items()]
        for start in range(0, len(rows), _TAGS_A_BATCH):
            self._client.log_batch(self.run_id, tags=rows[start : start + _TAGS_A_BATCH])

    def log_metrics(self, metrics: Sequence[Metric], first: Iterable[str] = ()) -> None:
        """Log at most 40 headline metrics, each with its interval, in one batch.

        A metric that is not ``ok``, or not finite, is left out: the tag ``status.<metric>`` says
        why. MLflow has no NaN, and a void number in a chart looks like any other.

        Args:
            metrics: every metric of the run.
            first: names of the metrics to keep when there are more than 40: the policy's.
        """
        from mlflow.entities import Metric as Entity

        wanted = set(first)
        # Sorting is stable: the policy's metrics, then whole ones before slices, then as declared.
        ranked = sorted(metrics, key=lambda m: (m.name not in wanted, m.slice != "all"))
        now = int(time.time() * 1000)
        rows: list[Entity] = []
        left_out: dict[str, object] = {}
        for metric in ranked[:MAXIMUM_HEADLINES]:
            key = metric_key(metric)
            if metric.status != "ok" or metric.value is None or not math.isfinite(metric.value):
                status = metric.status if metric.status != "ok" else "failed"
                left_out[f"status.{key}"] = f"{status}: {metric.reason or 'no finite value'}"
                continue
            ends = {"": metric.value, ".ci_low": metric.ci_low, ".ci_high": metric.ci_high}
            rows += [
                Entity(key + end, float(value), now, 0)
                for end, value in ends.items()
                if value is not None and math.isfinite(value)
            ]
        self._client.log_batch(self.run_id, metrics=rows)
        self.set_tags(left_out)

    def log_dataset(self, name: str, items: Sequence[str], context: str) -> None:
        """Log a list of prompts or words: its text as an artifact, its digest as a dataset.

        Args:
            name: the list's name.
            items: prompts or words, in order.
            context: what the run used it as: ``prompts`` or ``words``.
        """
        from mlflow.entities import Dataset, DatasetInput, InputTag

        path = f"inputs/{context}/{name}.txt"
        self.log_text("".join(f"{item}\n" for item in items), path)
        digest = list_digest(items)
        dataset = Dataset(
            name=name,
            digest=digest[:36],
            source_type="local",
            source=json.dumps({"uri": path}),
            profile=json.dumps({"items": len(items), "sha256": digest}),
        )
        tags = [InputTag("mlflow.data.context", context)]
        self._client.log_inputs(self.run_id, [DatasetInput(dataset, tags)])

    def log_table(self, name: str, table: pd.DataFrame) -> None:
        """Log the first 200 rows for the UI's comparison of runs, once a run.

        Args:
            name: the audit's name: the table is ``tables/<name>.json``.
            table: the most telling rows first.
        """
        import pandas as pd

        path = f"tables/{name}.json"
        if path in self._tables:
            self._hash_logged(path)
            return
        rows = table.head(MAXIMUM_ROWS).to_dict(orient="list")
        columns = {str(key): [_cell(value) for value in values] for key, values in rows.items()}
        # Cells as they are: MLflow's own handling of pandas' text columns is deprecated.
        self._client.log_table(self.run_id, pd.DataFrame(columns, dtype=object), path)
        self._tables.add(path)
        self._hash_logged(path)

    def log_parquet(self, file: Path, artifact_path: str) -> list[str]:
        """Log a parquet file, in parts of at most 64 MiB where it is larger.

        Args:
            file: the file.
            artifact_path: its path in the run, such as ``scores/vocabulary.parquet``.

        Returns:
            The paths in the run; ``name.part-1-of-2.parquet`` for parts, in the order of the rows.
        """
        target = Path(artifact_path)
        if file.stat().st_size <= MAXIMUM_FILE_BYTES:
            self.log_file(file, artifact_path)
            return [artifact_path]
        from pyarrow import parquet

        table = parquet.read_table(file)
        # Parts compress a little worse than the whole: leave an eighth of room.
        parts = math.ceil(file.stat().st_size / (MAXIMUM_FILE_BYTES * 7 / 8))
        rows = math.ceil(table.num_rows / parts)
        paths: list[str] = []
        with tempfile.TemporaryDirectory(prefix="pessimal-") as folder:
            for part in range(parts):
                name = f"{target.stem}.part-{part + 1}-of-{parts}.parquet"
                parquet.write_table(table.slice(part * rows, rows), Path(folder) / name)
                paths.append((target.parent / name).as_posix())
                self.log_file(Path(folder) / name, paths[-1])
        return paths

    def log_file(self, file: Path, artifact_path: str) -> None:
        """Log a file under a path of the run."""
        target = Path(artifact_path)
        folder = None if target.parent == Path() else target.parent.as_posix()
        self.hashes[target.as_posix()] = hash_file(file)
        if file.name == target.name:
            self._client.log_artifact(self.run_id, str(file), folder)
            return
        # MLflow keeps the file's own name.
        with tempfile.TemporaryDirectory(prefix="pessimal-") as scratch:
            copy = Path(scratch) / target.name
            shutil.copyfile(file, copy)
            self._client.log_artifact(self.run_id, str(copy), folder)

    def log_text(self, text: str, artifact_path: str) -> None:
        """Log text, UTF-8, as a file of the run."""
        self.log_bytes(text.encode("utf-8", errors="backslashreplace"), artifact_path)

    def log_bytes(self, data: bytes, artifact_path: str) -> None:
        """Log bytes as a file of the run."""
        with tempfile.TemporaryDirectory(prefix="pessimal-") as scratch:
            file = Path(scratch) / Path(artifact_path).name
            file.write_bytes(data)
            self.log_file(file, artifact_path)

    def log_document(self, document: Mapping[str, object]) -> None:
        """Log the audit document as ``audit.json``."""
        self.log_text(document_text(document), DOCUMENT)

    def describe(self, markdown: str) -> None:
        """Set the run's description; the caller escapes what it quotes."""
        self._client.set_tag(self.run_id, "mlflow.note.content", markdown[:_TAG_LENGTH])

    def _hash_logged(self, path: str) -> None:
        # MLflow writes tables itself: their bytes are read back.
        with tempfile.TemporaryDirectory(prefix="pessimal-") as folder:
            found = self._client.download_artifacts(self.run_id, path, folder)
            self.hashes[path] = hash_file(Path(found))

    def _release(self) -> None:
        self._lock.release()


def document_text(document: Mapping[str, object]) -> str:
    """An audit document as the text of ``audit.json``."""
    return json.dumps(document, indent=1, allow_nan=False, default=str)


def hash_file(file: Path) -> str:
    """sha256 of a file's bytes."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def metric_key(metric: Metric) -> str:
    """A metric's name in MLflow, which rejects ``=``: the slice follows as ``/key:value``."""
    if metric.slice == "all":
        return metric.name
    parts = metric.slice.replace("=", ":").split(",")
    text = "/".join([metric.name, *parts])
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-. :/") else "_" for c in text)


def tag_values(tags: Mapping[str, object]) -> dict[str, str]:
    """Tags as MLflow takes them: text of at most 5,000 characters, None left out."""
    return {key: show_text(value, _TAG_LENGTH) for key, value in _present(tags)}


def _present(values: Mapping[str, object]) -> list[tuple[str, object]]:
    return [(key, value) for key, value in values.items() if value is not None]


def _logged_tables(tags: Mapping[str, str]) -> set[str]:
    listed = json.loads(tags.get("mlflow.loggedArtifacts", "[]"))
    return {item["path"] for item in listed}


def _cell(value: Any) -> object:
    """A table's cell as JSON: hostile text made safe, numbers that are not finite left out."""
    if isinstance(value, bool) or value is None:
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (int, float)):
        return value if math.isfinite(value) else None
    return show_text(value, 500)
