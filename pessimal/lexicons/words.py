"""Identity terms, controls and the word lists that every pipeline scores."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

DATA = Path(__file__).parent / "data"
CARRIERS = ("{} people", "being {}")


@dataclass(frozen=True)
class IdentityTerm:
    """A term for a group of people."""

    term: str
    """The term, in lower case."""
    axis: str
    """The axis it lies on, e.g. ``religion``."""
    role: Literal["minority", "majority"]
    """Which side of the axis."""
    contrast: str | None
    """The majority term it is compared with; None for a majority term."""
    polysemous: bool
    """Whether the bare form has a frequent meaning that is not about people."""
    source: str
    """Where the category is listed (see the header of ``data/identity.tsv``)."""
    form: Literal["adjective", "noun", "phrase"]
    """Only adjectives go into carrier phrases."""

    @property
    def carriers(self) -> tuple[str, ...]:
        """The phrases ``X people`` and ``being X``; empty for nouns and phrases."""
        if self.form != "adjective":
            return ()
        return tuple(carrier.format(self.term) for carrier in CARRIERS)


@dataclass(frozen=True)
class Control:
    """A noun that identity terms are compared with."""

    word: str
    """The noun, in lower case."""
    category: str
    """``person``, ``occupation`` or ``thing``."""


@cache
def _all_terms() -> tuple[IdentityTerm, ...]:
    terms = []
    for line in _lines("identity.tsv"):
        axis, role, form, term, contrast, polysemous, source = line.split("\t")
        terms.append(
            IdentityTerm(
                term, axis, role, contrast or None, polysemous == "1", source, form,  # type: ignore[arg-type]
            )
        )  # fmt: skip
    return tuple(terms)


def identity_terms(*, polysemous: bool = True) -> tuple[IdentityTerm, ...]:
    """The identity terms of every axis, majority counterparts included.

    Args:
        polysemous: keep the terms whose bare form has another frequent meaning.
    """
    return tuple(term for term in _all_terms() if polysemous or not term.polysemous)


@cache
def controls() -> tuple[Control, ...]:
    """The control nouns: people, occupations and common things."""
    return tuple(Control(word, category) for category, word in _sections("controls.txt"))


@cache
def sexual_words() -> frozenset[str]:
    """Words about sex and nudity, in lower case."""
    return frozenset(word for line in _lines("sexual.txt") for word in line.split())


@cache
def _topics() -> dict[str, str]:
    topics: dict[str, str] = {}
    for term in identity_terms():
        for name in (*term.carriers, *(() if term.polysemous else (term.term,))):
            topics.setdefault(name, "identity")
    for topic, word in _sections("topics.txt"):
        topics.setdefault(word, topic)
    return topics


def topic(name: str) -> str:
    """The topic of an entity, e.g. ``nature``, told by its name or the words in it; or ``other``.

    A name that is an identity term, alone or in a carrier phrase, has the topic ``identity``.
    """
    topics = _topics()
    words = name.lower().replace("'s", "").split()
    for part in (name.lower(), *words):
        for form in (part, part.removesuffix("s"), f"{part}s"):
            if form in topics:
                return topics[form]
    return "other"


def is_excluded(word: str) -> bool:
    """Whether the word is a slur that no word list may hold. The list is shipped as hashes."""
    return hashlib.sha256(word.lower().encode()).hexdigest()[:16] in _excluded()


def zipf(word: str) -> float:
    """English frequency of a word or phrase on the zipf scale (log10 per 10^9); 0: unknown."""
    from wordfreq import zipf_frequency

    return float(zipf_frequency(word, "en"))


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The word's Snowball stem, in lower case; ``loving`` and ``loved`` share one."""
    return str(_stemmer().stem(word.lower()))


def word_lists() -> dict[str, list[str]]:
    """The words that every pipeline scores as replies of their own, by list; no word is in two.

    ``valence`` (balanced over signs and frequency), ``identity`` (bare terms), ``carriers``
    (identity adjectives in carrier phrases) and ``controls``.
    """
    from pessimal.lexicons.valence import valence_words

    terms = identity_terms()
    return {
        "valence": valence_words(),
        "identity": [term.term for term in terms],
        "carriers": [phrase for term in terms for phrase in term.carriers],
        "controls": [control.word for control in controls()],
    }


def list_digest(words: Iterable[str]) -> str:
    """sha256 of a list of words or prompts, in order, each ended by a newline, in UTF-8."""
    text = "".join(f"{word}\n" for word in words)
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()


@cache
def _excluded() -> frozenset[str]:
    return frozenset(_lines("excluded.txt"))


@cache
def _stemmer() -> Any:
    from nltk.stem.snowball import SnowballStemmer

    return SnowballStemmer("english")


def _sections(name: str) -> Iterator[tuple[str, str]]:
    """Every word of a file with the ``[section]`` that it stands in."""
    section = ""
    for line in _lines(name):
        if line.startswith("["):
            section = line.strip("[]")
        else:
            yield from ((section, word) for word in line.split())


def _lines(name: str) -> Iterator[str]:
    for line in (DATA / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line
