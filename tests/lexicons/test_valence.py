"""Valence lexicons."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pessimal.errors import PessimalError, UsageError
from pessimal.lexicons import stem, valence, valence_words, zipf


def test_vader_holds_words_of_letters_only():
    scores = valence().scores
    assert scores["love"] == 3.2
    assert scores["hate"] == -2.7
    assert len(scores) > 6500
    assert all(word.isalpha() for word in scores)


def test_an_inflection_finds_its_lexicon_entry():
    lexicon = valence()
    assert lexicon.score("LOVE") == 3.2
    assert "murderings" not in lexicon.scores
    assert lexicon.score("hugging") == 1.8
    assert lexicon.score("murderings") < -2
    assert lexicon.score("murderings", inflections=False) is None
    assert lexicon.score("chair") is None


def test_the_words_are_balanced_over_signs_and_frequency():
    lexicon = valence()
    words = valence_words()
    assert len(words) == len(set(words)) == 600
    counts = Counter((lexicon.scores[word] > 0, int(2 * zipf(word))) for word in words)
    for k in range(4, 12):
        assert counts[True, k] == counts[False, k]
    assert sum(count for (positive, _), count in counts.items() if positive) == 300
    assert len({stem(word) for word in words}) == 600


def test_a_users_file_is_read_and_slurs_are_a_choice(tmp_path: Path):
    file = tmp_path / "mine.csv"
    file.write_text("\ufeffGood,2\r\nbad,-1.5\r\nslut,-3\r\n", encoding="utf-8")
    assert valence("mine", file).scores == {"good": 2, "bad": -1.5}
    assert valence("mine", file, slurs=True).scores["slut"] == -3


def test_afinn_is_the_list_of_2477_entries(tmp_path: Path):
    try:
        scores = valence("afinn", slurs=True).scores
    except PessimalError as error:
        pytest.skip(error.message)
    assert scores["breathtaking"] == 5
    assert 2400 < len(scores) <= 2477


@pytest.mark.parametrize(
    ("text", "code"),
    [("good,2\n", "lexicon_one_sided"), ("good\n", "lexicon_malformed"),
     ("good,2\nbad,inf\n", "lexicon_malformed"), ("", "lexicon_one_sided")],
)  # fmt: skip
def test_bad_files_are_refused(tmp_path: Path, text: str, code: str):
    file = tmp_path / "bad.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        valence("mine", file)
    assert caught.value.code == code
    assert str(file) in caught.value.message


def test_unknown_and_missing_lexicons_are_named(tmp_path: Path, monkeypatch):
    with pytest.raises(UsageError, match="vader, afinn, opinion"):
        valence("vadr")
    with pytest.raises(UsageError, match="can't be read"):
        valence("mine", tmp_path / "none.txt")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    valence.cache_clear()
    with pytest.raises(PessimalError, match="pip install afinn"):
        valence("afinn")


def test_opinion_words_come_from_a_folder(tmp_path: Path):
    (tmp_path / "positive-words.txt").write_text("; head\ngood\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"negative-words\.txt"):
        valence("opinion", tmp_path)
    (tmp_path / "negative-words.txt").write_text("; head\nbad\na+\n", encoding="utf-8")
    valence.cache_clear()
    assert valence("opinion", tmp_path).scores == {"good": 1, "bad": -1}
