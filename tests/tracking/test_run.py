"""What a run holds: whole, once, and nothing that isn't a number or isn't safe."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from pessimal.audit import Metric
from pessimal.tracking import RunHandle, Tracker, list_digest
from pessimal.tracking import run as run_module

GAP = Metric("identity.gap", -0.05, 64, ci_low=-0.09, ci_high=-0.01, unit="percentile")


def logged(tracker: Tracker, run: RunHandle) -> dict[str, float]:
    return dict(tracker.client.get_run(run.run_id).data.metrics)


def test_metrics_come_with_their_intervals(tracker: Tracker) -> None:
    with tracker.start("one", {}, "key") as run:
        run.log_metrics([GAP, Metric("numerics.coverage", 1.0, 9, slice="prompt=greatest")])
    assert logged(tracker, run) == {
        "identity.gap": -0.05,
        "identity.gap.ci_low": -0.09,
        "identity.gap.ci_high": -0.01,
        "numerics.coverage/prompt:greatest": 1.0,
    }


@pytest.mark.parametrize(
    ("metric", "tag"),
    [
        (Metric("a.b", None, 3, status="insufficient", reason="n is 3; it takes 9"),
         "insufficient: n is 3; it takes 9"),
        (Metric("a.b", 1.0, 3, status="void", reason="numerics failed"), "void: numerics failed"),
        (Metric("a.b", math.nan, 3), "failed: no finite value"),
        (Metric("a.b", math.inf, 3), "failed: no finite value"),
    ],
)  # fmt: skip
def test_what_is_not_a_sound_number_is_a_tag(tracker: Tracker, metric: Metric, tag: str) -> None:
    with tracker.start("one", {}, "key") as run:
        run.log_metrics([metric])
    assert logged(tracker, run) == {}
    assert tracker.client.get_run(run.run_id).data.tags["status.a.b"] == tag


def test_forty_headlines_the_policys_first(tracker: Tracker) -> None:
    metrics = [Metric("a.sliced", 1.0, 1, slice=f"prompt=p{i}") for i in range(30)]
    metrics += [Metric(f"a.m{i}", float(i), 1) for i in range(60)]
    with tracker.start("one", {}, "key") as run:
        run.log_metrics(metrics, first=["a.m59"])
    values = logged(tracker, run)
    assert len(values) == 40
    assert {"a.m59", "a.m0", "a.m38"} <= set(values)
    assert "a.m39" not in values
    assert not any("sliced" in name for name in values)


def test_more_tags_and_params_than_a_batch_takes(tracker: Tracker) -> None:
    many = {f"k{i}": i for i in range(150)}
    with tracker.start("one", {}, "key") as run:
        run.set_tags({**many, "none": None, "long": "x" * 9000, "bad": "a\u202eb\0"})
        run.log_params({**many, "none": None})
    data = tracker.client.get_run(run.run_id).data
    assert data.tags["k149"] == "149"
    assert "none" not in data.tags
    assert data.tags["bad"] == "a⟨U+202E⟩b⟨U+0000⟩"
    assert data.params == {key: str(value) for key, value in many.items()}


def test_a_list_is_a_dataset_with_a_digest_of_its_text(tracker: Tracker) -> None:
    with tracker.start("one", {}, "key") as run:
        run.log_dataset("identity", ["women", "men"], "words")
        run.log_dataset("identity", ["women", "men"], "words")
    [entry] = tracker.client.get_run(run.run_id).inputs.dataset_inputs
    assert entry.dataset.name == "identity"
    assert json.loads(entry.dataset.profile)["sha256"] == list_digest(["women", "men"])
    assert list_digest(["women", "men"]) != list_digest(["men", "women"])
    text = tracker.download(run.run_id, "inputs/words/identity.txt").read_text(encoding="utf-8")
    assert text == "women\nmen\n"


def test_a_table_is_logged_once_short_and_safe(tracker: Tracker) -> None:
    table = pd.DataFrame(
        {
            "token": pd.Series(["</script>", "a\0\u202e\ud800"] + ["x"] * 298, dtype=object),
            "score": np.array([math.nan, math.inf] + [0.5] * 298, dtype=np.float32),
            "keep": [True] * 300,
            "ids": [[1, 2]] * 300,
        }
    )
    with tracker.start("one", {}, "key") as run:
        run.log_table("vocabulary", table)
        run.log_table("vocabulary", table)
    path = tracker.download(run.run_id, "tables/vocabulary.json")
    rows = json.loads(path.read_text(encoding="utf-8"))
    assert rows["columns"] == ["token", "score", "keep", "ids"]
    assert len(rows["data"]) == 200
    assert rows["data"][1] == ["a⟨U+0000⟩⟨U+202E⟩⟨U+D800⟩", None, True, "[1, 2]"]
    assert rows["data"][2][1] == 0.5
    assert (
        "tables/vocabulary.json"
        in (tracker.client.get_run(run.run_id).data.tags["mlflow.loggedArtifacts"])
    )


def test_a_resumed_run_repeats_what_it_logged_without_doubling(tracker: Tracker) -> None:
    def work(run: RunHandle) -> None:
        run.log_params({"model": "demo"})
        run.log_metrics([GAP])
        run.log_table("identity", pd.DataFrame({"term": ["women"]}))
        run.log_dataset("greatest", ["What is best?"], "prompts")

    def interrupted() -> None:
        with tracker.start("one", {}, "key") as run:
            work(run)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with tracker.start("one", {}, "key") as run:
        assert run.resumed
        work(run)
    rows = json.loads(tracker.download(run.run_id, "tables/identity.json").read_text("utf-8"))
    assert rows["data"] == [["women"]]
    assert logged(tracker, run)["identity.gap"] == -0.05
    assert len(tracker.client.get_run(run.run_id).inputs.dataset_inputs) == 1


def test_a_large_parquet_file_is_logged_in_parts(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"score": np.random.default_rng(0).normal(size=9_001)})
    frame.to_parquet(tmp_path / "all.parquet")
    monkeypatch.setattr(run_module, "MAXIMUM_FILE_BYTES", 50_000)
    with tracker.start("one", {}, "key") as run:
        paths = run.log_parquet(tmp_path / "all.parquet", "scores/vocabulary.parquet")
    assert len(paths) > 1
    files = [tracker.download(run.run_id, path) for path in paths]
    assert all(file.stat().st_size <= 50_000 for file in files)
    joined = pd.concat([parquet.read_table(file).to_pandas() for file in files])
    pd.testing.assert_frame_equal(joined.reset_index(drop=True), frame)
    assert tracker.artifacts(run.run_id) == sorted(paths)


def test_a_document_comes_back_and_holds_no_nan(tracker: Tracker) -> None:
    document = {"schema": "pessimal.audit/1", "verdict": "PASS", "rendered": "a\ud800b"}
    with tracker.start("one", {}, "key") as run:
        run.log_document(document)
        with pytest.raises(ValueError, match="Out of range"):
            run.log_document({"value": math.nan})
    assert tracker.load_document(run.run_id) == document


def test_files_are_logged_under_the_name_asked_for(tracker: Tracker, tmp_path: Path) -> None:
    file = tmp_path / "raw.bin"
    file.write_bytes(b"\x00\xff")
    with tracker.start("one", {}, "key") as run:
        run.log_file(file, "scores/named.bin")
        run.log_file(file, "raw.bin")
        run.log_bytes(b"png", "figures/one.png")
        run.describe("**PASS**")
    assert tracker.artifacts(run.run_id) == ["figures/one.png", "raw.bin", "scores/named.bin"]
    assert tracker.download(run.run_id, "scores/named.bin").read_bytes() == b"\x00\xff"
    copy = tracker.download(run.run_id, "raw.bin", tmp_path / "copies")
    assert copy.parent == tmp_path / "copies"
    note = tracker.client.get_run(run.run_id).data.tags["mlflow.note.content"]
    assert note == "**PASS**"
