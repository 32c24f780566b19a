"""Models are joined on what their tokens say, by bytes, and on words by list."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pessimal.compare.join import join, token_bytes
from tests.builders import build_tokenizer
from tests.compare.simulate import byte_level, entry, token_table, word_table

# The same texts in three spellings; the last two are parts of a character.
DATA = [b" love", b"love", b" Love", "é".encode(), b"\n", b"##", b"\xe7", b"\x88\xb1"]
SPACED = ["▁love", "love", "▁Love", "é", "<0x0A>", "##", "<0xE7>", "x"]


def texts(data: list[bytes]) -> list[str]:
    return [one.decode("utf-8", "replace") for one in data]


def test_bytes_of_a_real_byte_level_tokenizer() -> None:
    tokenizer = build_tokenizer("llama", 400)
    names = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    decoded = [tokenizer.decode([i]) for i in range(len(tokenizer))]
    found = token_bytes(names, decoded)
    plain = [i for i, name in enumerate(names) if name not in tokenizer.all_special_tokens]
    assert len(plain) > 390
    assert [found[i].decode("utf-8", "replace") for i in plain] == [decoded[i] for i in plain]
    assert len({found[i] for i in plain}) == len(plain)


def test_bytes_of_a_real_tokenizer_with_a_space_mark() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=330, special_tokens=["<unk>", *fallback], show_progress=False
    )
    backend.train_from_iterator(["love and peace", "war and love"] * 9, trainer)
    names = sorted(backend.get_vocab(), key=backend.token_to_id)
    found = dict(zip(names, token_bytes(names, [""] * len(names)), strict=True))
    assert found["▁love"] == b" love"
    assert [found[name] for name in fallback] == [bytes([byte]) for byte in range(256)]


def test_the_inside_of_a_word_is_not_the_word() -> None:
    names = ["play", "##ing", "ing", "##er"]
    assert token_bytes(names, names) == [b"play", None, b"ing", None]


def test_two_spellings_join_by_bytes_and_variants_are_averaged() -> None:
    first = token_table([byte_level(one) for one in DATA], texts(DATA), np.arange(8.0))
    # Its decoder drops a leading space, as that of many such tokenizers does.
    second = token_table(SPACED, ["love", "love", "Love", "é", "\n", "##", "�", "x"],
                         10 + np.arange(8.0))  # fmt: skip
    joined = join([entry("a", vocabulary=first), entry("b", vocabulary=second)], "vocabulary")
    words, scores = joined.common([joined.scores(0, "greatest"), joined.scores(1, "greatest")])
    found = {joined.show(word): list(row) for word, row in zip(words, scores, strict=True)}
    # Three variants of love in both; a byte joins the same byte only.
    assert found == {"love": [1.0, 11.0], "é": [3.0, 13.0], "\n": [4.0, 14.0],
                     "##": [5.0, 15.0], "\\xe7": [6.0, 16.0]}  # fmt: skip


def test_a_variant_counts_only_where_both_models_have_it() -> None:
    first = token_table(["Ġlove", "love", "Love"], [" love", "love", "Love"], [1.0, 2.0, 6.0])
    second = token_table(["Ġlove", "Love", "Ġwar"], [" love", "Love", " war"], [5.0, 7.0, 0.0])
    joined = join([entry("a", vocabulary=first), entry("b", vocabulary=second)], "vocabulary")
    _, scores = joined.common([joined.scores(0, "greatest"), joined.scores(1, "greatest")])
    assert scores.tolist() == [[3.5, 6.0]]


def test_undecodable_text_joins_nothing() -> None:
    names = ["pieceone", "piecetwo"]
    tables = [token_table(names, ["�", "�"], [0.0, 1.0]) for _ in range(2)]
    joined = join([entry(name, vocabulary=t) for name, t in zip("ab", tables, strict=True)],
                  "vocabulary")  # fmt: skip
    assert joined.words == ()


@pytest.mark.parametrize("kind", ["special", "unused"])
def test_control_tokens_are_no_words(kind: str) -> None:
    table = token_table(["<pad>"], ["<pad>"], [0.0], kind=kind)
    assert join([entry("a", vocabulary=table)], "vocabulary").words == ()


def test_of_two_tokens_with_the_same_bytes_the_one_that_survives_counts() -> None:
    table = token_table(["<0x41>", "A", "▁b"], ["A", "A", "b"], [1.0, 2.0, 3.0])
    table["roundtrips"] = [False, True, True]
    joined = join([entry("a", vocabulary=table)], "vocabulary")
    _, scores = joined.common([joined.scores(0, "greatest")])
    assert sorted(scores[:, 0]) == [2.0, 3.0]


def test_words_join_by_list() -> None:
    first = word_table(["Sun", "moon"], {"p": [1.0, 2.0]})
    second = pd.concat([
        word_table(["Sun"], {"p": [3.0]}), word_table(["moon"], {"p": [4.0]}, "other")
    ])  # fmt: skip
    joined = join([entry("a", first), entry("b", second)], "words")
    words, scores = joined.common([joined.scores(0, "p"), joined.scores(1, "p")])
    assert [joined.show(word) for word in words] == ["sun"]
    assert scores.tolist() == [[1.0, 3.0]]


def test_a_score_that_is_missing_leaves_the_word_out() -> None:
    tables = [word_table(["a", "b"], {"p": values}) for values in ([1.0, np.nan], [np.inf, 2.0])]
    joined = join([entry(name, t) for name, t in zip("xy", tables, strict=True)], "words")
    words, _ = joined.common([joined.scores(0, "p"), joined.scores(1, "p")])
    assert len(words) == 0
