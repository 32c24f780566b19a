"""Scores by word: case and space variants averaged, with the covariates that measures share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pessimal.audit.spec import Metric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pessimal.audit.context import Context, Framing
    from pessimal.lexicons import ValenceLexicon

    Floats = NDArray[np.float64]

NOT_GENERAL = ("identity", "carriers", "human")
"""Lists that serve one audit; the others are general words."""


@dataclass(frozen=True)
class WordScores:
    """Finite scores of distinct words."""

    words: tuple[str, ...]
    """Trimmed and lower-cased, n of them, each once."""
    prompts: tuple[str, ...]
    """Ids of the k prompts."""
    scores: Floats
    """Rewards, shape ``[n, k]``."""
    n_tokens: Floats
    """Tokens of each word (mean over its variants), shape ``[n]``; 0 where unknown."""

    @property
    def z(self) -> Floats:
        """Rewards standardised within each prompt over these words."""
        from pessimal.statistics.distribution import standardise

        return standardise(self.scores)

    def keep(self, chosen: NDArray[np.bool_]) -> WordScores:
        """The words that a mask of shape ``[n]`` chooses."""
        words = tuple(word for word, kept in zip(self.words, chosen, strict=True) if kept)
        return replace(
            self, words=words, scores=self.scores[chosen], n_tokens=self.n_tokens[chosen]
        )


def word_scores(
    context: Context,
    framing: Framing | None = None,
    *,
    lists: Collection[str] | None = None,
    without: Collection[str] = (),
    vocabulary: bool = False,
) -> WordScores:
    """Average the variants of each word; a word without a finite score under a prompt is dropped.

    Prompts without a single finite score among the chosen rows don't count.

    Args:
        context: what the audit sees.
        framing: prompts of one framing only.
        lists: word lists to take; all by default.
        without: word lists to leave out.
        vocabulary: take the vocabulary's single-token words in place of the word table.
    """
    import numpy as np
    import pandas as pd

    table = context.vocabulary if vocabulary else context.words
    if table is None:
        return WordScores((), (), np.zeros((0, 0)), np.zeros(0))
    if vocabulary:
        table = table[(table["kind"] == "word").to_numpy()]
        words = table["text"]
    else:
        chosen = np.ones(len(table), dtype=bool)
        if lists is not None:
            chosen = table["list"].isin(list(lists)).to_numpy()
        table = table[chosen & ~table["list"].isin(list(without)).to_numpy()]
        words = table["word"]
    prompts: list[str] = []
    columns: dict[str, Floats] = {}
    for prompt, column in context.score_columns(table, framing).items():
        values = table[column].to_numpy(dtype=np.float64)
        if np.isfinite(values).any():
            prompts.append(prompt)
            columns[prompt] = np.where(np.isfinite(values), values, np.nan)
    frame = pd.DataFrame(columns, index=table.index)
    frame["n_tokens"] = table["ids"].map(len) if "ids" in table else float(vocabulary)
    merged = frame.groupby(words.astype(str).str.strip().str.lower(), sort=False).mean()
    merged = merged.dropna()
    return WordScores(
        tuple(map(str, merged.index)),
        tuple(prompts),
        merged[prompts].to_numpy(dtype=np.float64).reshape(len(merged), len(prompts)),
        merged["n_tokens"].to_numpy(dtype=np.float64),
    )


def lexicon_of(context: Context) -> ValenceLexicon:
    """The context's valence lexicon, VADER unless another was chosen."""
    from pessimal.lexicons import ValenceLexicon, valence

    chosen = context.lexicons.get("valence")
    # Words that somebody's list holds are looked up as they are, slurs included.
    return chosen if isinstance(chosen, ValenceLexicon) else valence(slurs=True)


def covariates(words: WordScores) -> dict[str, Floats]:
    """Zipf frequency, length in characters and number of tokens, each shape ``[n]``."""
    import numpy as np

    from pessimal.lexicons import zipf

    return {
        "zipf": np.array([zipf(word) for word in words.words], dtype=np.float64),
        "length": np.array([len(word) for word in words.words], dtype=np.float64),
        "n_tokens": words.n_tokens,
    }


def too_few(metric: Metric, what: str, found: int, needed: int) -> Metric:
    """The metric, ``insufficient`` where there is less of `what` than it takes."""
    if found >= needed or metric.status == "insufficient":
        return metric
    return replace(metric, status="insufficient", reason=f"{found} {what}; it takes {needed}")


def by_framing(context: Context, values: Mapping[str, float]) -> dict[str, list[float]]:
    """Values by prompt id, grouped by the prompt's framing."""
    groups: dict[str, list[float]] = {}
    for prompt, value in values.items():
        known = context.prompts.get(prompt)
        groups.setdefault(known.framing if known else "positive", []).append(value)
    return groups
