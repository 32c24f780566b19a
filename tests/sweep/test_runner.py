"""A sweep scores each reply once, keeps it, and never serves what another model said."""

import dataclasses
import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

from pessimal.engines.protocol import ShardError
from pessimal.errors import PessimalError
from pessimal.models.records import ModelHashes
from pessimal.scores.store import BlockStore
from tests.sweep.fakes import HASHES, PAD, SLOT, FakeScorer, run

TOKENS = [(token,) for token in range(5, 45)]
WORDS = [(9, 8), (7,), (9, 8, 7), (7,), (8, 9), (30,)]


class Count:
    def __init__(self) -> None:
        self.scored = self.reused = 0

    def advance(self, candidates: int, *, reused: bool = False) -> None:
        if reused:
            self.reused += candidates
        else:
            self.scored += candidates


def expected(replies: list[tuple[int, ...]]) -> np.ndarray:
    scorer = FakeScorer()
    return np.array(
        [scorer.value((*SLOT.prefix_ids, *r, *SLOT.suffix_ids)) for r in replies], np.float32
    )


def test_scores_are_in_the_order_of_the_replies(tmp_path: Path) -> None:
    replies = [*reversed(TOKENS), *WORDS]
    found = run(FakeScorer(), replies, tmp_path)
    assert found.scores.dtype == np.float32
    assert found.scores.tobytes() == expected(replies).tobytes()
    assert found.complete


def test_repeated_replies_are_scored_once(tmp_path: Path) -> None:
    scorer = FakeScorer()
    found = run(scorer, WORDS * 3, tmp_path)
    assert len(scorer.asked) == len(set(scorer.asked)) == found.rows == found.computed == 5
    assert len({len(ids) for ids in scorer.asked[:2]}) == 1


def test_counts_of_forward_tokens(tmp_path: Path) -> None:
    # Prefix 3, suffix 1; five different replies of 1, 1, 2, 2 and 3 tokens.
    shared = run(FakeScorer(), WORDS, tmp_path)
    assert shared.forward_tokens == shared.planned_tokens == 3 + (2 + 2 + 3 + 3 + 4)
    full = run(FakeScorer(path="full"), WORDS, tmp_path)
    assert full.forward_tokens == 5 * 3 + 14
    again = run(FakeScorer(), WORDS, tmp_path)
    assert (again.forward_tokens, again.planned_tokens) == (0, 17)


def test_a_second_sweep_scores_nothing(tmp_path: Path) -> None:
    first = run(FakeScorer(), TOKENS, tmp_path)
    scorer, progress = FakeScorer(), Count()
    # The order of the replies is nothing that blocks depend on.
    again = run(scorer, TOKENS[::-1], tmp_path, progress=progress)
    assert scorer.calls == 0
    assert (again.computed, again.reused) == (0, 40)
    assert (progress.scored, progress.reused) == (0, 40)
    assert again.scores.tobytes() == first.scores[::-1].tobytes()


def test_a_finished_sweep_needs_no_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(FakeScorer(), TOKENS, tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "replace", refuse)
    assert run(FakeScorer(), TOKENS, tmp_path).complete
    with pytest.raises(PessimalError) as caught:
        run(FakeScorer(), [(99,)], tmp_path)
    assert caught.value.code == "cache_not_writable"


def test_progress_counts_every_reply(tmp_path: Path) -> None:
    progress = Count()
    run(FakeScorer(), [*TOKENS, *WORDS], tmp_path, progress=progress)
    assert progress.scored == len(TOKENS) + len(WORDS)


@pytest.mark.parametrize("part", ["weights", "adapter", "head", "config", "tokenizer", "template"])
def test_a_changed_part_never_meets_old_scores(tmp_path: Path, part: str) -> None:
    run(FakeScorer(), TOKENS, tmp_path)
    changed: ModelHashes = dataclasses.replace(HASHES, **{part: "changed"})
    found = run(FakeScorer(salt=1.0), TOKENS, tmp_path, hashes=changed)
    assert (found.computed, found.reused) == (40, 0)
    # The fake's sums are in double: 1 is added before the rounding to float32.
    assert np.allclose(found.scores, expected(TOKENS) + 1, atol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"prefix_ids": (1, 2)},
        {"suffix_ids": (4, 4)},
        {"pooled_index": 0},
        {"token_types": (0, 1, 1)},
    ],
)
def test_another_slot_never_meets_old_scores(tmp_path: Path, change: dict[str, object]) -> None:
    run(FakeScorer(), TOKENS, tmp_path)
    found = run(FakeScorer(), TOKENS, tmp_path, slot=dataclasses.replace(SLOT, **change))
    assert found.reused == 0


def test_another_path_or_dtype_never_meets_old_scores(tmp_path: Path) -> None:
    run(FakeScorer(), TOKENS, tmp_path)
    assert run(FakeScorer(path="copied"), TOKENS, tmp_path).reused == 0
    half = FakeScorer()
    half.dtype = "torch.bfloat16"
    assert run(half, TOKENS, tmp_path).reused == 0


def test_another_scoring_core_never_meets_old_scores(tmp_path: Path) -> None:
    run(FakeScorer(), TOKENS, tmp_path)
    other = FakeScorer()
    other.core = "other"
    assert run(other, TOKENS, tmp_path).reused == 0


def test_identical_embeddings_are_scored_once(tmp_path: Path) -> None:
    scorer = FakeScorer()
    replies = [(5,), (6,), (7,), (6, 9), (5, 9)]
    found = run(scorer, replies, tmp_path, duplicates={6: 5})
    assert found.rows == 3
    assert found.scores[0] == found.scores[1] != found.scores[2]
    assert found.scores[3] == found.scores[4]


def test_the_pad_is_never_taken_for_another(tmp_path: Path) -> None:
    replies = [(PAD,), (5,), (6,)]
    found = run(FakeScorer(), replies, tmp_path, duplicates={5: PAD, PAD: 6})
    assert found.scores.tobytes() == expected(replies).tobytes()


def test_a_truncated_block_is_scored_again(tmp_path: Path) -> None:
    first = run(FakeScorer(), TOKENS, tmp_path)
    victim = sorted((tmp_path / "scores" / "blocks").rglob("*/*"))[2]
    victim.write_bytes(victim.read_bytes()[:-1])
    again = run(FakeScorer(), TOKENS, tmp_path)
    assert (again.computed, again.reused) == (8, 32)
    assert again.scores.tobytes() == first.scores.tobytes()
    assert run(FakeScorer(), TOKENS, tmp_path).computed == 0


def test_the_manifest_tells_what_was_done(tmp_path: Path) -> None:
    class Halving(FakeScorer):
        def score_sequences(self, *given: object) -> np.ndarray:
            if self.calls == 1:
                self.halvings.append("memory ran out")
            return super().score_sequences(*given)

    found = run(Halving(), TOKENS, tmp_path)
    assert found.halvings == 1
    assert found.manifest is not None
    manifest = json.loads(found.manifest.read_text())
    assert manifest["halvings"] == [0, 1, 0, 0, 0]
    assert manifest["rows"] == [8] * 5
    assert manifest["settings"]["parts"] == HASHES.items()
    assert manifest["settings"]["path"] == "shared"
    store = BlockStore(tmp_path)
    for key, digest in zip(manifest["keys"], manifest["sha256"], strict=True):
        block = store.get(key, 8)
        assert block is not None
        assert block.sha256 == digest
    # What an earlier run halved is still told.
    assert run(FakeScorer(), TOKENS, tmp_path).halvings == 1


def test_shards_share_the_work(tmp_path: Path) -> None:
    scorers = [FakeScorer() for _ in range(3)]
    results = [
        run(scorer, TOKENS, tmp_path, shard=(n, 3)) for n, scorer in enumerate(scorers, start=1)
    ]
    asked = [ids for scorer in scorers for ids in scorer.asked]
    assert len(asked) == len(set(asked)) == len(TOKENS)
    assert [result.complete for result in results] == [False, False, True]
    assert results[0].manifest is None
    known = ~np.isnan(results[0].scores)
    assert known.sum() == results[0].computed == 16
    assert results[0].scores[known].tobytes() == expected(TOKENS)[known].tobytes()
    assert results[2].scores.tobytes() == expected(TOKENS).tobytes()


def test_a_full_disk_keeps_what_was_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, room = os.write, [3]

    def write(handle: int, data: bytes) -> int:
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle, data)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(PessimalError) as caught:
        run(FakeScorer(), TOKENS, tmp_path)
    monkeypatch.undo()
    assert caught.value.code == "disk_full"
    assert str(tmp_path) in caught.value.message
    again = run(FakeScorer(), TOKENS, tmp_path)
    assert (again.computed, again.reused) == (16, 24)
    assert again.scores.tobytes() == expected(TOKENS).tobytes()


def test_a_refusal_of_the_scorer_comes_through(tmp_path: Path) -> None:
    class Refusing(FakeScorer):
        def score(self, *_: object) -> np.ndarray:
            raise PessimalError("reply_too_long", "Too long.", "Shorten it.")

    with pytest.raises(PessimalError) as caught:
        run(Refusing(), TOKENS, tmp_path)
    assert caught.value.code == "reply_too_long"


def test_a_failure_names_its_block_and_keeps_the_rest(tmp_path: Path) -> None:
    class Failing(FakeScorer):
        def score(self, *given: object) -> np.ndarray:
            if self.calls == 2:
                raise RuntimeError("broken")
            return super().score(*given)

    with pytest.raises(ShardError) as caught:
        run(Failing(), TOKENS, tmp_path)
    assert caught.value.index == 2
    assert run(FakeScorer(), TOKENS, tmp_path).reused == 16


def test_no_replies_are_no_work(tmp_path: Path) -> None:
    scorer = FakeScorer()
    found = run(scorer, [], tmp_path)
    assert (scorer.calls, len(found.scores), found.planned_tokens) == (0, 0, 0)
    assert found.complete
