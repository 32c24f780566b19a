"""Words as the unit: variants averaged, holes dropped, framings kept apart."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from pessimal.audit import Context, Prompt
from pessimal.audit.matched import percentile_among
from pessimal.audit.words import covariates, lexicon_of, word_scores
from pessimal.lexicons import ValenceLexicon

PROMPTS = {
    "up": Prompt("up", "best?", "positive"),
    "down": Prompt("down", "worst?", "negative"),
    "never": Prompt("never", "best of all?", "positive"),
}


def context(**changes: object) -> Context:
    words = pd.DataFrame({
        "word": ["Love", " love", "war", "tax", "women"],
        "list": ["valence", "valence", "valence", "controls", "identity"],
        "ids": [[1], [2, 3], [4], [5], [6]],
        "score:up": [1.0, 3.0, -1.0, math.nan, 0.5],
        "score:down": [0.0, 0.0, 1.0, 1.0, 1.0],
        "score:never": [math.nan] * 5,
    })  # fmt: skip
    return Context(prompts=PROMPTS, seed=0, words=words, **changes)  # type: ignore[arg-type]


def test_variants_of_a_word_are_averaged():
    found = word_scores(context(), "positive")
    assert found.words == ("love", "war", "women")
    assert found.prompts == ("up",)  # a prompt that scored none of the rows doesn't count
    assert found.scores[:, 0].tolist() == [2.0, -1.0, 0.5]
    assert found.n_tokens.tolist() == [1.5, 1, 1]
    assert found.z[:, 0].mean() == pytest.approx(0)


def test_framings_and_lists_are_kept_apart():
    assert word_scores(context(), "negative").words == ("love", "war", "tax", "women")
    assert word_scores(context(), "negative", lists=("controls",)).words == ("tax",)
    assert "women" not in word_scores(context(), without=("identity",)).words


def test_the_vocabularys_words_are_its_single_tokens():
    table = pd.DataFrame({
        "token_id": [0, 1, 2], "token": ["a", "b", "c"], "text": [" Dog", "dog", "{{"],
        "kind": ["word", "word", "code"], "score:up": [1.0, 2.0, 9.0],
    })  # fmt: skip
    found = word_scores(context(vocabulary=table), "positive", vocabulary=True)
    assert found.words == ("dog",)
    assert found.scores.tolist() == [[1.5]]
    assert found.n_tokens.tolist() == [1]
    assert word_scores(context(), vocabulary=True).words == ()


def test_covariates_are_of_the_word_as_counted():
    known = covariates(word_scores(context(), "positive"))
    assert known["length"].tolist() == [4, 3, 5]
    assert known["zipf"][0] > 5
    assert set(known) == {"zipf", "length", "n_tokens"}


def test_a_chosen_lexicon_is_used():
    own = ValenceLexicon("own", {"tax": -1.0, "love": 1.0})
    assert lexicon_of(context(lexicons={"valence": own})) is own
    assert lexicon_of(context()).scores["love"] == 3.2


def test_percentiles_among_controls():
    found = percentile_among(np.array([0.0, 2.0, 2.5, 9.0]), np.array([1.0, 2.0, 2.0, 3.0]))
    assert found.tolist() == [0, 0.5, 0.75, 1]
