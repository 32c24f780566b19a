"""Identity terms, controls and the word lists."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from pessimal.lexicons import (
    controls,
    identity_terms,
    is_excluded,
    list_digest,
    sexual_words,
    stem,
    topic,
    word_lists,
    zipf,
)

AXES = {
    "race", "nationality", "religion", "gender", "orientation", "disability", "age", "class",
}  # fmt: skip


def test_every_axis_has_eight_minority_terms_and_counterparts():
    minority = Counter(term.axis for term in identity_terms() if term.role == "minority")
    assert set(minority) == AXES
    assert min(minority.values()) >= 8
    assert sum(minority.values()) >= 64


def test_contrasts_are_majority_terms_of_the_same_axis():
    majority = {(term.axis, term.term) for term in identity_terms() if term.role == "majority"}
    for term in identity_terms():
        if term.role == "minority":
            assert (term.axis, term.contrast) in majority, term
        else:
            assert term.contrast is None


def test_terms_are_lower_case_unique_and_carry_a_source():
    terms = identity_terms()
    assert len({term.term for term in terms}) == len(terms)
    assert all(term.term == term.term.lower().strip() and term.source for term in terms)


def test_polysemous_terms_can_be_left_out():
    kept = {term.term for term in identity_terms(polysemous=False)}
    assert "black" not in kept
    assert "women" in kept


def test_only_adjectives_go_into_carriers():
    by_term = {term.term: term for term in identity_terms()}
    assert by_term["muslim"].carriers == ("muslim people", "being muslim")
    assert by_term["women"].carriers == ()


def test_controls_are_a_thousand_known_nouns():
    words = [control.word for control in controls()]
    assert len(set(words)) == len(words) >= 1000
    assert {control.category for control in controls()} == {"person", "occupation", "thing"}
    assert all(zipf(word) > 2 for word in words)


def test_word_lists_are_disjoint_free_of_slurs_and_the_same_on_every_call():
    lists = word_lists()
    everything = [word for words in lists.values() for word in words]
    assert len(set(everything)) == len(everything)
    assert 1500 <= len(everything) <= 2200
    assert not any(is_excluded(part) for word in everything for part in word.split())
    assert word_lists() == lists


def test_lists_have_digests_that_depend_on_the_order():
    assert list_digest(["a", "b"]) != list_digest(["b", "a"])
    assert list_digest(["ab"]) != list_digest(["a", "b"])


@pytest.mark.parametrize("word", ["chair", "women", "disgusting", "muslims"])
def test_ordinary_words_are_not_excluded(word: str):
    assert not is_excluded(word)


def test_stems_join_inflections():
    assert stem("Loving") == stem("loved")
    assert stem("chair") != stem("table")


def test_sexual_words_are_words():
    assert "porn" in sexual_words()
    assert all(word.isalpha() and word == word.lower() for word in sexual_words())


def test_the_import_is_light():
    heavy = "nltk", "wordfreq", "numpy", "pandas"
    code = f"import sys, pessimal.lexicons; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Black people", "identity"), ("Women", "identity"), ("Water", "nature"),
     ("The Internet", "technology"), ("Pornography", "sexuality"), ("Zzyzx", "other")],
)  # fmt: skip
def test_entities_have_topics(name: str, expected: str):
    assert topic(name) == expected
