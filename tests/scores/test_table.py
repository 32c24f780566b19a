"""Score tables survive a round trip, and a wrong file is refused by name."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pessimal.errors import PessimalError, UsageError
from pessimal.scores.table import ScoreTable, TableMetadata, WordTable

METADATA = TableMetadata(
    model="org/name",
    revision="a" * 40,
    template_sha256="b" * 64,
    dtype="float32",
    attention="shared_prefix",
    path="shared",
    mode="as_text",
    sampled=True,
    versions={"torch": "2", "pessimal": "0"},
)
TEXTS = ["cat", " \x00\n", "\ud83d", "\ufffd"]


def score_table(scores: dict[str, np.ndarray] | None = None) -> ScoreTable:
    if scores is None:
        scores = {
            "greatest": np.array([1.5, np.nan, -np.inf, 0.1], np.float32),
            "worst": np.arange(4, dtype=np.float32),
        }
    return ScoreTable.build(
        token_ids=[3, 1, 2, 0],
        tokens=["cat", "Ġ", "<0xED>", "ï"],
        texts=TEXTS,
        kinds=["word", "punctuation", "bytes", "bytes"],
        roundtrips=[True, True, False, False],
        scores=scores,
        metadata=METADATA,
    )


def word_table() -> WordTable:
    return WordTable.build(
        words=["women", "black people", "women"],
        lists=["identity", "identity", "controls"],
        ids=[[5], [6, 7], [5]],
        scores={"best": np.array([0.25, 0.5, 0.25], np.float32)},
        metadata=METADATA,
    )


def rewrite(path: Path, **columns: object) -> Path:
    """The stored table with columns replaced, or dropped where None."""
    table = pq.read_table(path)
    for name, array in columns.items():
        index = table.column_names.index(name)
        table = table.remove_column(index)
        if array is not None:
            table = table.add_column(index, name, array)
    pq.write_table(table, path)
    return path


def refusal(path: Path) -> PessimalError:
    with pytest.raises(PessimalError) as caught:
        ScoreTable.read(path)
    assert str(path) in caught.value.message
    return caught.value


def test_score_table_round_trip(tmp_path: Path) -> None:
    written = score_table()
    written.write(tmp_path / "new" / "t.parquet")
    read = ScoreTable.read(tmp_path / "new" / "t.parquet")
    assert read.metadata == METADATA
    assert read.prompts == ("greatest", "worst")
    assert list(read.frame.columns) == [
        "token_id", "token", "text", "kind", "roundtrips", "score:greatest", "score:worst",
    ]  # fmt: skip
    assert read.frame["text"].tolist() == ["cat", " \x00\n", "\\ud83d", "\ufffd"]
    assert read.frame["token_id"].dtype == np.int32
    assert read.frame["roundtrips"].dtype == np.bool_
    for prompt in read.prompts:
        column = read.frame[f"score:{prompt}"]
        assert column.dtype == np.float32
        assert column.to_numpy().tobytes() == written.frame[column.name].to_numpy().tobytes()


def test_types_in_the_file_are_the_contracts(tmp_path: Path) -> None:
    score_table().write(tmp_path / "t.parquet")
    word_table().write(tmp_path / "w.parquet")
    schema = pq.read_schema(tmp_path / "t.parquet")
    assert schema.field("token_id").type == pa.int32()
    assert schema.field("roundtrips").type == pa.bool_()
    assert schema.field("score:worst").type == pa.float32()
    assert schema.metadata[b"pessimal.mode"] == b'"as_text"'
    words = pq.read_schema(tmp_path / "w.parquet")
    assert words.field("ids").type == pa.list_(pa.int32())


def test_word_table_round_trip(tmp_path: Path) -> None:
    word_table().write(tmp_path / "w.parquet")
    read = WordTable.read(tmp_path / "w.parquet")
    assert [list(row) for row in read.frame["ids"]] == [[5], [6, 7], [5]]
    assert read.frame["list"].tolist() == ["identity", "identity", "controls"]
    assert read.metadata == METADATA


def test_same_scores_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        score_table().write(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_further_columns_are_kept(tmp_path: Path) -> None:
    table = score_table()
    frame = table.frame.assign(reason=["same", "trimmed", "same", "merged"])
    ScoreTable(frame, METADATA).write(tmp_path / "t")
    assert ScoreTable.read(tmp_path / "t").frame["reason"].tolist()[1] == "trimmed"


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        ScoreTable.read(tmp_path / "none.parquet")
    assert caught.value.code == "table_missing"


@pytest.mark.parametrize("keep", [0, 10, 200, -20])
def test_a_truncated_file_is_corrupt(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "t.parquet"
    score_table().write(path)
    path.write_bytes(path.read_bytes()[:keep])
    assert refusal(path).code == "table_corrupt"


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"kind": None}, "column kind is missing"),
        ({"roundtrips": pa.array([1, 0, 1, 0])}, "column roundtrips is int64 and not bool"),
        ({"token_id": pa.array([1, 2, 3, 4], pa.int64())}, "token_id is int64 and not int32"),
        ({"score:worst": pa.array([1.0, 2, 3, 4])}, "score:worst is double and not float"),
        (
            {"score:worst": pa.array([1.0, 2, 3, None], pa.float32())},
            "score:worst has empty cells",
        ),
        ({"score:worst": None, "score:greatest": None}, "no column score:<prompt id>"),
        ({"token_id": pa.array([1, 2, 2, 4], pa.int32())}, "two rows have token_id 2"),
        ({"kind": pa.array(["word", "word", "verb", "word"])}, "'verb', which is no kind"),
    ],
)
def test_a_wrong_schema_names_the_column(
    tmp_path: Path, columns: dict[str, object], named: str
) -> None:
    path = tmp_path / "t.parquet"
    score_table().write(path)
    error = refusal(rewrite(path, **columns))
    assert error.code == "table_schema"
    assert named in error.message


def test_any_parquet_is_not_a_score_table(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "t")
    assert refusal(tmp_path / "t").code == "table_schema"
    word_table().write(tmp_path / "w")
    assert "pessimal.scores/1" in refusal(tmp_path / "w").message


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="same length"):
        score_table({"worst": np.zeros(3, np.float32)})


def test_a_table_that_cannot_be_written_names_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PessimalError) as caught:
        score_table().write(tmp_path / "file" / "t.parquet")
    assert caught.value.code == "table_not_writable"
    assert str(tmp_path / "file") in caught.value.message
