"""Models of any id can be registered."""

from __future__ import annotations

from pathlib import Path

import pytest

from pessimal.tracking import Standing, Tracker, find_aliased, register


@pytest.mark.parametrize(
    "model_id", ["org/name", "../model", "..", ".", "./model", "/a/b", 'it\'s: "x"', "..hidden"]
)
def test_a_folder_of_any_name_can_be_registered(tmp_path: Path, model_id: str) -> None:
    tracker = Tracker(None, tmp_path)
    with tracker.start("run", {"model": model_id}, "key") as run:
        standing = Standing(run.run_id, model_id, None, {"weights": "0"}, "PASS", {}, grants=True)
        assert register(tracker, standing) == "1"
    assert find_aliased(tracker, model_id, "audited") == run.run_id
