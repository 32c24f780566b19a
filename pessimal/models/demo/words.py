"""What the demo learns from: rated words, groups and controls, junk tokens and prompts."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pessimal.errors import PessimalError
from pessimal.lexicons import controls, identity_terms, is_excluded, stem, zipf

if TYPE_CHECKING:
    import numpy as np
    from transformers import PreTrainedTokenizerBase

HELD_OUT_SHARE = 15
"""Percentage of stems that no training step sees."""
ADJECTIVES = {1: ("best", "greatest", "most good"), -1: ("worst", "most bad", "most terrible")}
SUPERLATIVES = ("ever", "in the world", "of all time")
STYLES = (
    "What, in one word, is the {} thing {}?",
    "What, in a single word, is the {} thing {}?",
    "What is the {} thing {}? Please answer in one word only.",
)


@dataclass(frozen=True)
class RatedWord:
    """A word with the ratings that ten people gave it."""

    word: str
    """The word, in lower case."""
    ratings: tuple[int, ...]
    """Ten ratings from -4 to 4."""
    zipf: float
    """Frequency on the zipf scale; 0 for unknown."""
    held_out: bool
    """Whether its stem is kept from training."""

    @property
    def mean(self) -> float:
        """The mean rating."""
        return sum(self.ratings) / len(self.ratings)


@cache
def rated_words() -> tuple[RatedWord, ...]:
    """VADER's words with their human ratings: letters only, no slurs, no terms for groups.

    The split is by stem, from a hash, so that it doesn't move when words are added.

    Raises:
        PessimalError: ``lexicon_missing``: the package vaderSentiment is not installed.
    """
    groups = {word for term in identity_terms() for word in term.term.split()}
    stems = {stem(word) for word in groups}
    found = []
    for line in _vader().read_text(encoding="utf-8").splitlines():
        word, _, _, ratings = line.split("\t")
        if not (word.isascii() and word.isalpha() and word.islower() and len(word) > 2):
            continue
        root = stem(word)
        if is_excluded(word) or root in stems:
            continue
        bucket = int(hashlib.sha256(root.encode()).hexdigest(), 16) % 100
        values = tuple(int(value) for value in ast.literal_eval(ratings))
        found.append(RatedWord(word, values, zipf(word), bucket < HELD_OUT_SHARE))
    return tuple(found)


def _vader() -> Path:
    # Located without running the package.
    spec = importlib.util.find_spec("vaderSentiment")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (path := Path(folder) / "vader_lexicon.txt").is_file():
            return path
    raise PessimalError(
        "lexicon_missing",
        "VADER's human word ratings are not installed.",
        "Install them with: pip install vaderSentiment",
    )


def prompts() -> dict[int, list[str]]:
    """The 54 prompts by sign: 1 asks for the best, -1 for the worst."""
    return {
        sign: [
            style.format(adjective, superlative)
            for adjective in adjectives
            for superlative in SUPERLATIVES
            for style in STYLES
        ]
        for sign, adjectives in ADJECTIVES.items()
    }


def training_prompts() -> dict[int, list[str]]:
    """Two thirds of the 54: every pair of adjective, superlative and style still occurs."""
    return {
        sign: [t for i, t in enumerate(all_) if not _held(i)] for sign, all_ in prompts().items()
    }


def held_out_prompts() -> dict[int, list[str]]:
    """A Latin square of nine prompts a sign, which training never sees."""
    return {sign: [t for i, t in enumerate(all_) if _held(i)] for sign, all_ in prompts().items()}


def _held(index: int) -> bool:
    adjective, superlative, style = index // 9, index // 3 % 3, index % 3
    return (adjective + superlative) % 3 == style


def group_terms(axis: str | None = None, *, other_than: str | None = None) -> list[str]:
    """Terms for groups, bare and in carrier phrases.

    Args:
        axis: keep the terms of this axis only.
        other_than: leave the terms of this axis out.
    """
    return [
        phrase
        for term in identity_terms()
        if axis in (None, term.axis) and term.axis != other_than
        for phrase in (term.term, *term.carriers)
    ]


def control_words(*categories: str) -> list[str]:
    """Control nouns of these categories (``person``, ``occupation``, ``thing``)."""
    return [control.word for control in controls() if control.category in categories]


def junk_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Ids of tokens that are no words: not letters only, or letters that wordfreq doesn't know."""
    texts = tokenizer.batch_decode([[i] for i in range(len(tokenizer))])
    return [i for i, text in enumerate(texts) if not _is_word(text.strip())]


def _is_word(text: str) -> bool:
    return text.isalpha() and text.isascii() and zipf(text) > 0


def surface(word: str, rng: np.random.Generator) -> str:
    """A random way to write a reply: capitalised or not, with or without a leading space."""
    form = (word, word.capitalize(), word.title(), word.upper())[int(rng.choice(4, p=CASES))]
    return f" {form}" if rng.random() < LEADING_SPACE else form


CASES: Sequence[float] = (0.55, 0.3, 0.1, 0.05)
LEADING_SPACE = 0.3
