"""Child runs: once a key, whatever was interrupted, and never taken for an audit."""

from __future__ import annotations

from pathlib import Path

import pytest

from pessimal.errors import UsageError
from pessimal.tracking import AUDITS, Tracker
from pessimal.tracking.children import CHILD_TAG, PARENT_TAG, log_child


def test_a_resumed_parent_does_not_double_its_children(tmp_path: Path) -> None:
    tracker = Tracker(None, tmp_path)
    experiment = tracker.client.get_experiment_by_name(AUDITS).experiment_id
    with tracker.start("audit", {}, "key") as run:
        begun = tracker.client.create_run(
            experiment, tags={PARENT_TAG: run.run_id, CHILD_TAG: "search.best"}
        )
        found = [
            log_child(
                run, "search.best", "search best", params={"prompt": "best", "revision": None},
                metrics={"reward": 1.5, "broken": float("nan")},
                series={"best_so_far": [(10, 0.5), (20, 1.5)]},
            )
            for _ in range(2)
        ]  # fmt: skip
        other = log_child(run, "search.worst", "search worst", params={}, metrics={})
    assert found[0] == found[1] != other
    query = f"tags.`{PARENT_TAG}` = '{run.run_id}'"
    children = tracker.client.search_runs([experiment], query)
    assert {child.info.run_id for child in children} == {found[0], other}
    assert begun.info.run_id not in found
    [child] = [child for child in children if child.info.run_id == found[0]]
    assert child.data.params == {"prompt": "best"}
    assert child.data.metrics == {"reward": 1.5, "best_so_far": 1.5}
    history = tracker.client.get_metric_history(found[0], "best_so_far")
    assert [(point.step, point.value) for point in history] == [(10, 0.5), (20, 1.5)]
    assert tracker.find_run("latest") == run.run_id
    with pytest.raises(UsageError):
        tracker.find_run(found[0])
