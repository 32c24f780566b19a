"""Tokens scored as text, with the reason why that isn't the token."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from pessimal.scores.store import BlockStore
from pessimal.sweep.as_text import AsTextResult, as_text
from pessimal.sweep.runner import SweepOptions
from tests.sweep.fakes import HASHES, SLOT, FakeScorer, run

VOCABULARY = {"cat": 10, " cat": 11, "c": 12, "at": 13, "<s>": 14, "\ufffd": 15, "<unused1>": 16,
              " at": 17, "<": 18, "s": 19, "tac": 20}  # fmt: skip
TOKENS = ["cat", " cat", "<s>", "\ufffd", "<unused1>", "at", " at", "tac"]
KINDS = ["word", "word", "special", "bytes", "unused", "word", "word", "subword"]


def encode(text: str) -> tuple[int, ...]:
    """A template that trims and a tokenizer that can't make some of its own tokens."""
    cut = {"cat": (10,), "at": (13,), "<s>": (18, 19), "\ufffd": (21, 22), "tac": (23, 12)}
    return (*SLOT.prefix_ids, *cut.get(text.strip(), (24,)), *SLOT.suffix_ids)


def score(scorer: FakeScorer, cache: Path, function=encode) -> AsTextResult:
    return as_text(
        scorer, HASHES, SLOT, [VOCABULARY[text] for text in TOKENS], TOKENS, KINDS, function,
        BlockStore(cache), prompt_id="greatest", options=SweepOptions(block_rows=3),
    )  # fmt: skip


def test_reasons(tmp_path: Path) -> None:
    assert score(FakeScorer(), tmp_path).reasons == (
        "same", "trimmed", "special", "invalid_utf8", "unused", "same", "trimmed", "merged",
    )  # fmt: skip


def test_scores_are_of_the_texts_ids(tmp_path: Path) -> None:
    scorer = FakeScorer()
    found = score(scorer, tmp_path)
    wanted = np.array([scorer.value(encode(text)) for text in TOKENS], np.float32)
    assert found.sweep.scores.tobytes() == wanted.tobytes()
    # Trimmed tokens are the same text, so the same sequence.
    assert len(scorer.asked) == found.sweep.rows == 6
    assert found.sweep.forward_tokens == 3 + 3 * (1 + 1) + 3 * (2 + 1)


def test_the_same_ids_score_the_same_in_both_modes(tmp_path: Path) -> None:
    by_ids = run(FakeScorer(), [(VOCABULARY[text],) for text in TOKENS], tmp_path)
    found = score(FakeScorer(), tmp_path)
    same = np.array([reason == "same" for reason in found.reasons])
    assert (by_ids.scores == found.sweep.scores).tolist() == same.tolist()
    assert same.sum() == 2


def test_scores_are_kept(tmp_path: Path) -> None:
    first = score(FakeScorer(), tmp_path)
    scorer = FakeScorer()
    again = score(scorer, tmp_path)
    assert scorer.calls == 0
    assert again.sweep.scores.tobytes() == first.sweep.scores.tobytes()


def test_modes_never_share_blocks(tmp_path: Path) -> None:
    score(FakeScorer(), tmp_path)
    spliced = [encode(text) for text in TOKENS]
    # Even where a reply's ids are those of a whole sequence.
    assert run(FakeScorer(), spliced, tmp_path, block_rows=3).reused == 0


def test_a_sequence_that_lost_the_prompt_pays_for_itself(tmp_path: Path) -> None:
    def other(text: str) -> tuple[int, ...]:
        return (9, 9, 9, 9) if text == "cat" else encode(text)

    found = score(FakeScorer(), tmp_path, other)
    assert found.reasons[0] == "merged"
    # "cat" as whole sequence of 4; " cat" is trimmed to what it was: one of 2 behind the prefix.
    assert found.sweep.forward_tokens == 3 + 4 + 3 * (1 + 1) + 3 * (2 + 1)


def test_unequal_inputs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="zip"):
        as_text(
            FakeScorer(), HASHES, dataclasses.replace(SLOT), [1, 2], ["a"], ["word"], encode,
            BlockStore(tmp_path), prompt_id="greatest",
        )  # fmt: skip
