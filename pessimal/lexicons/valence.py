"""Valence lexicons behind one record: VADER, AFINN-111, NLTK's opinion lexicon or a user's file."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from pessimal.errors import PessimalError, UsageError
from pessimal.lexicons.words import controls, identity_terms, is_excluded, stem, zipf

NAMES = ("vader", "afinn", "opinion")


@dataclass(frozen=True)
class ValenceLexicon:
    """Words with a valence above or below zero."""

    name: str
    """``vader``, ``afinn``, ``opinion``, or the name of a user's file."""
    scores: Mapping[str, float]
    """Valence by lower-case word; at least one word of each sign."""

    def score(self, word: str, *, inflections: bool = True) -> float | None:
        """The word's valence, or None where the lexicon doesn't know it.

        Args:
            word: the word in any case.
            inflections: look the word's stem up where the word itself is missing: the mean of the
                entries with that stem, if they agree in sign.
        """
        word = word.lower()
        if word in self.scores:
            return self.scores[word]
        return self._by_stem.get(stem(word)) if inflections else None

    @cached_property
    def _by_stem(self) -> dict[str, float]:
        groups: dict[str, list[float]] = {}
        for word, value in self.scores.items():
            groups.setdefault(stem(word), []).append(value)
        return {
            key: sum(values) / len(values)
            for key, values in groups.items()
            if min(values) > 0 or max(values) < 0
        }


@cache
def valence(
    name: str = "vader", path: Path | None = None, *, slurs: bool = False
) -> ValenceLexicon:
    """Load a valence lexicon; entries that aren't single words of letters are left out.

    Args:
        name: ``vader`` (Hutto and Gilbert 2014: mean human ratings, -4 to 4), ``afinn`` (AFINN-111,
            Nielsen 2011: -5 to 5) or ``opinion`` (Bing Liu's, through NLTK: -1 and 1). With `path`,
            any other name is the user's own.
        path: the lexicon's file (word, tab or comma, number; further columns are ignored), or for
            ``opinion`` the folder that holds ``positive-words.txt`` and ``negative-words.txt``.
        slurs: keep slurs, to look up words that somebody else's list already holds.

    Raises:
        UsageError: an unknown name, or a file that is missing, malformed or one-sided.
        PessimalError: the package or data of a known lexicon is not installed.
    """
    if path is None and name not in NAMES:
        raise UsageError(
            "lexicon_unknown", f"There is no valence lexicon {name!r}.",
            f"Known: {', '.join(NAMES)}; or name a file of words and numbers.",
        )  # fmt: skip
    if name == "opinion":
        scores = _opinion(path)
    else:
        file = path or (_vader_file() if name == "vader" else _afinn_file())
        scores = _read(file)
    kept = {word: value for word, value in scores.items() if slurs or not is_excluded(word)}
    for sign, label in ((1, "positive"), (-1, "negative")):
        if not any(value * sign > 0 for value in kept.values()):
            raise UsageError(
                "lexicon_one_sided", f"The valence lexicon {path or name} has no {label} word.",
                "Give a lexicon with words above and below zero.",
            )  # fmt: skip
    return ValenceLexicon(name, kept)


@cache
def _selected(n: int) -> tuple[str, ...]:
    lexicon = valence()
    taken = {term.term for term in identity_terms()} | {control.word for control in controls()}
    bins: dict[tuple[bool, int], list[str]] = {}
    roots: set[str] = set()
    for word in sorted(lexicon.scores, key=lambda word: (-zipf(word), word)):
        frequency = zipf(word)
        if word in taken or len(word) < 4 or abs(lexicon.scores[word]) < 1:
            continue  # three letters are mostly abbreviations
        if not 2 <= frequency < 6:
            continue
        # The most frequent inflection stands for its stem, so that words are independent units.
        root = stem(word)
        if root not in roots:
            roots.add(root)
            bins.setdefault((lexicon.scores[word] > 0, int(2 * frequency)), []).append(word)
    room = [min(len(bins.get((sign, k), [])) for sign in (True, False)) for k in range(12)]
    quotas = _fill(room, n // 2)
    words = []
    for sign in (True, False):
        for k, quota in enumerate(quotas):
            ordered = sorted(
                bins.get((sign, k), []), key=lambda word: (abs(lexicon.scores[word]), word)
            )
            words += [ordered[int((i + 0.5) * len(ordered) / quota)] for i in range(quota)]
    return tuple(words)


def valence_words(n: int = 600) -> list[str]:
    """VADER words, half of each sign, with the same number of each sign in every half zipf.

    Words of four letters or more, absolute valence 1 or more and zipf 2 to 6, one a stem, spread
    evenly over strength; neither identity terms nor controls. The same list on every call.
    """
    return list(_selected(n))


def _fill(room: list[int], total: int) -> list[int]:
    """Spread `total` over bins as evenly as their room allows."""
    quotas = [0] * len(room)
    while sum(quotas) < total:
        open_bins = [i for i, space in enumerate(room) if quotas[i] < space]
        if not open_bins:
            break
        least = min(open_bins, key=lambda i: (quotas[i], i))
        quotas[least] += 1
    return quotas


def _vader_file() -> Path:
    return _package_file("vaderSentiment", "vader_lexicon.txt", "vaderSentiment")


def _afinn_file() -> Path:
    # Its package also holds a newer list of 3,382 entries, which gives other values.
    return _package_file("afinn", "data/AFINN-111.txt", "afinn==0.1")


def _package_file(package: str, name: str, requirement: str) -> Path:
    # find_spec locates a package without running it.
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(folder) / name).is_file():
            return Path(folder) / name
    raise PessimalError(
        "lexicon_missing", f"The valence lexicon in the package {package} is not installed.",
        f"Install it with: pip install {requirement}, or name the file.",
    )  # fmt: skip


def _read(path: Path) -> dict[str, float]:
    scores: dict[str, float] = {}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "lexicon_unreadable", f"The lexicon {path} can't be read: {error}.",
            "Name a UTF-8 text file with one word and one number a line.",
        ) from error  # fmt: skip
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.split("\t") if "\t" in line else line.split(",")
        try:
            value = float(cells[1])
        except (IndexError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            raise UsageError(
                "lexicon_malformed", f"{path}, line {number}: no finite number after the word.",
                "Write a word, a tab or comma, and its valence.",
            )  # fmt: skip
        word = cells[0].strip().lower()
        if word.isalpha() and value != 0:
            scores[word] = value
    return scores


def _opinion(path: Path | None) -> dict[str, float]:
    if path is not None:
        return _opinion_folder(path)
    from nltk.corpus import opinion_lexicon

    try:
        signs = {1.0: opinion_lexicon.positive(), -1.0: opinion_lexicon.negative()}
    except LookupError as error:
        raise PessimalError(
            "lexicon_missing", "NLTK's opinion lexicon is not installed.",
            "Get it with: python -m nltk.downloader opinion_lexicon, or name the folder.",
        ) from error  # fmt: skip
    return {word.lower(): sign for sign, words in signs.items() for word in words if word.isalpha()}


def _opinion_folder(path: Path) -> dict[str, float]:
    scores: dict[str, float] = {}
    for sign, name in ((1.0, "positive-words.txt"), (-1.0, "negative-words.txt")):
        try:
            text = (path / name).read_text(encoding="latin-1")
        except OSError as error:
            raise UsageError(
                "lexicon_unreadable", f"{path} holds no readable {name}.",
                "Name the folder with positive-words.txt and negative-words.txt.",
            ) from error  # fmt: skip
        words = (line.strip().lower() for line in text.splitlines())
        scores.update((word, sign) for word in words if word.isalpha())
    return scores
