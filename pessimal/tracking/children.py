"""Child runs: a search, or a trial of a study, under the run that it belongs to."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from pessimal.text import show_text
from pessimal.tracking.run import tag_values

if TYPE_CHECKING:
    from pessimal.tracking.run import RunHandle

CHILD_TAG = "pessimal.child"
PARENT_TAG = "mlflow.parentRunId"
_METRICS_A_BATCH = 1000


def log_child(
    parent: RunHandle, key: str, name: str, *, params: Mapping[str, object],
    metrics: Mapping[str, float], series: Mapping[str, Sequence[tuple[int, float]]] | None = None,
    status: Literal["FINISHED", "FAILED", "KILLED"] = "FINISHED",
) -> str:  # fmt: skip
    """Log a finished child run, once a key: a resumed parent doesn't double it.

    Args:
        parent: the run it belongs to.
        key: what tells it from the parent's other children.
        name: its name in the UI.
        params: its parameters; those whose value is None are left out.
        metrics: final values; those that aren't finite are left out.
        series: values by step, as (step, value).
        status: how it ended.

    Returns:
        The child's run id.
    """
    from mlflow.entities import Metric, Param

    client = parent._client
    experiment = client.get_run(parent.run_id).info.experiment_id
    query = f"tags.`{PARENT_TAG}` = '{parent.run_id}' AND tags.`{CHILD_TAG}` = '{key}'"
    for run in client.search_runs([experiment], query):
        if run.info.status in ("FINISHED", "FAILED", "KILLED"):
            return str(run.info.run_id)
        # Begun by a process that was killed: it is written again from the start.
        client.delete_run(run.info.run_id)
    tags = tag_values({PARENT_TAG: parent.run_id, CHILD_TAG: key})
    child = client.create_run(experiment, tags=tags, run_name=show_text(name, 200))
    run_id = str(child.info.run_id)
    rows = [Param(k, show_text(value, 500)) for k, value in params.items() if value is not None]
    now = int(time.time() * 1000)
    points = [(key, value, 0) for key, value in metrics.items()]
    points += [(key, value, step) for key, row in (series or {}).items() for step, value in row]
    values = [Metric(key, float(v), now, step) for key, v, step in points if math.isfinite(v)]
    client.log_batch(run_id, params=rows)
    for start in range(0, len(values), _METRICS_A_BATCH):
        client.log_batch(run_id, metrics=values[start : start + _METRICS_A_BATCH])
    client.set_terminated(run_id, status)
    return run_id
