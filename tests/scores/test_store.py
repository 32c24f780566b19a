"""The block store: what went in comes out, or it is missing; never something else."""

import dataclasses
import errno
import os
from pathlib import Path

import numpy as np
import pytest

from pessimal.errors import PessimalError
from pessimal.scores.files import remove_stale
from pessimal.scores.store import BlockContext, BlockStore, default_cache

CONTEXT = BlockContext(
    parts={"weights": "w", "head": "h", "config": "c", "tokenizer": "t", "template": "p"},
    prefix_ids=(1, 2, 3),
    suffix_ids=(4,),
    token_types=None,
    prefix_types=None,
    pooled_index=-1,
    mode="ids",
    dtype="float32",
    device_type="cpu",
    path="shared",
    versions={"torch": "2", "transformers": "5"},
    core="k",
)
SCORES = np.array([1.5, -2.0, np.nan], np.float32)


@pytest.mark.parametrize(
    "change",
    [
        {"parts": {**CONTEXT.parts, "weights": "other"}},
        {"parts": {**CONTEXT.parts, "adapter": "a"}},
        {"parts": {**CONTEXT.parts, "head": "other"}},
        {"parts": {**CONTEXT.parts, "tokenizer": "other"}},
        {"parts": {**CONTEXT.parts, "template": "other"}},
        {"prefix_ids": (1, 2)},
        {"suffix_ids": ()},
        {"token_types": (0, 1, 1)},
        {"prefix_types": (0, 0, 0)},
        {"pooled_index": 0},
        {"mode": "as_text"},
        {"dtype": "bfloat16"},
        {"device_type": "cuda"},
        {"path": "full"},
        {"versions": {"torch": "3", "transformers": "5"}},
        {"core": "other"},
    ],
)
def test_anything_that_scores_depend_on_changes_the_key(change: dict[str, object]) -> None:
    changed = dataclasses.replace(CONTEXT, **change)
    assert changed.key([(7,)]) != CONTEXT.key([(7,)])


def test_every_field_of_the_context_is_in_the_key() -> None:
    names = {entry.name for entry in dataclasses.fields(BlockContext)}
    assert names == {
        "parts", "prefix_ids", "suffix_ids", "token_types", "prefix_types", "pooled_index", "mode",
        "dtype", "device_type", "path", "versions", "core",
    }  # fmt: skip


def test_the_key_tells_replies_apart() -> None:
    replies = [[(1,), (2,)], [(2,), (1,)], [(1, 2)], [(12,)], [(1,)]]
    assert len({CONTEXT.key(some) for some in replies}) == len(replies)
    assert CONTEXT.key([(1, 2)]) == CONTEXT.key([[1, 2]])
    reordered = dataclasses.replace(CONTEXT, parts=dict(reversed(CONTEXT.parts.items())))
    assert reordered.key([(1,)]) == CONTEXT.key([(1,)])


def test_a_block_comes_back_bit_for_bit(tmp_path: Path) -> None:
    store = BlockStore(tmp_path)
    written = store.put("ab12", SCORES, halvings=2)
    read = store.get("ab12", 3)
    assert read is not None
    assert read.scores.tobytes() == SCORES.tobytes()
    assert (read.halvings, read.sha256) == (2, written.sha256)


def test_a_missing_block_or_one_of_another_size_is_none(tmp_path: Path) -> None:
    store = BlockStore(tmp_path)
    assert store.get("ab12", 3) is None
    store.put("ab12", SCORES)
    assert store.get("ab12", 2) is None
    os.replace(store.block_path("ab12"), store.block_path("ab13"))
    assert store.get("ab13", 3) is None


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    store = BlockStore(tmp_path)
    store.put("ab12", SCORES)
    path = store.block_path("ab12")
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        assert store.get("ab12", 3) is None
    for position in range(whole.index(b"\n"), len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        assert store.get("ab12", 3) is None
    for junk in (b"", b"[]\n", b"null\n" + whole, b"\xff\n", whole + b"x"):
        path.write_bytes(junk)
        assert store.get("ab12", 3) is None


def test_a_full_disk_is_named_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    store = BlockStore(tmp_path)
    with pytest.raises(PessimalError) as caught:
        store.put("ab12", SCORES)
    monkeypatch.undo()
    assert caught.value.code == "disk_full"
    assert str(tmp_path) in caught.value.message
    assert store.get("ab12", 3) is None
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, bytes(data)[:7]))
    store = BlockStore(tmp_path)
    store.put("ab12", SCORES)
    assert store.get("ab12", 3) is not None


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EIO])
def test_an_unwritable_cache_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PessimalError) as caught:
        BlockStore(tmp_path).put("ab12", SCORES)
    monkeypatch.undo()
    assert caught.value.code == "cache_not_writable"
    assert str(tmp_path) in caught.value.message
    assert os.strerror(number) in caught.value.message
    assert "--cache" in caught.value.remedy


def test_a_file_in_the_caches_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(PessimalError) as caught:
        BlockStore(tmp_path / "cache").put("ab12", SCORES)
    assert caught.value.code == "cache_not_writable"


def test_only_old_leftovers_are_removed(tmp_path: Path) -> None:
    store = BlockStore(tmp_path)
    store.put("ab12", SCORES)
    folder = store.block_path("ab12").parent
    (folder / ".tmp-1-old").write_text("")
    (folder / ".tmp-2-new").write_text("")
    os.utime(folder / ".tmp-1-old", (0, 0))
    assert remove_stale(store.folder / "blocks", "*/") == 1
    assert sorted(path.name for path in folder.iterdir()) == [".tmp-2-new", "ab12"]


def test_the_default_cache_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PESSIMAL_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("PESSIMAL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache().name == "pessimal"
