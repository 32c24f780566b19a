"""The vocabulary as readers see it: the best and worst tokens, and the whole table, compressed."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pessimal.reports.charts import chart, ridge_traces, view
from pessimal.reports.places import NOTES, ridges
from pessimal.text import show_text, show_token

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

SCORES_EMBEDDED: Final = 600_000
"""Scores that a report embeds for searching: about 3 MB of its 10."""


@dataclass(frozen=True)
class TokenRow:
    """A token in a list."""

    rank: int
    """1 is the best of the vocabulary."""
    token_id: int
    """Its id."""
    shown: str
    """Its text, made visible; safe to show."""
    name: str
    """Its name in the tokenizer, made visible."""
    kind: str
    """Its kind."""
    roundtrips: bool
    """Whether its text encodes to this id again."""
    score: float
    """Raw reward."""
    z: float
    """Score in SD from the mean of the tokens scored under this prompt."""


@dataclass(frozen=True)
class PromptTokens:
    """The two ends of the vocabulary under one prompt."""

    id: str
    """The prompt's id."""
    text: str
    """What it asks; safe to show; empty when unknown."""
    framing: str
    """``positive``, ``negative``, or empty when unknown."""
    n: int
    """Tokens with a finite score."""
    mean: float
    """Mean score."""
    sd: float
    """Standard deviation of the scores (ddof 0)."""
    optimal: tuple[TokenRow, ...]
    """Best tokens, best first."""
    pessimal: tuple[TokenRow, ...]
    """Worst tokens, worst first."""


def prompt_tokens(
    vocabulary: pd.DataFrame, prompts: Sequence[Mapping[str, Any]], count: int = 20
) -> list[PromptTokens]:
    """The best and worst `count` tokens under every prompt that the table has a column for.

    Args:
        vocabulary: a score table.
        prompts: prompts with ``id``, ``text`` and ``framing``; a column without one is kept.
        count: tokens in each list; never more than half of those scored, so no token is in both.
    """
    import numpy as np

    known = {str(prompt.get("id")): prompt for prompt in prompts}
    found: list[PromptTokens] = []
    for column in score_columns(vocabulary):
        scores = vocabulary[column].to_numpy(dtype=np.float64)
        finite = np.flatnonzero(np.isfinite(scores))
        mean = float(scores[finite].mean()) if len(finite) else 0.0
        sd = float(scores[finite].std()) if len(finite) else 0.0
        best_first = finite[np.argsort(-scores[finite], kind="stable")]
        kept = min(count, len(finite) // 2)

        def rows(
            places: NDArray[np.intp],
            ranks: range,
            scores: NDArray[np.float64] = scores,
            mean: float = mean,
            sd: float = sd,
        ) -> tuple[TokenRow, ...]:
            return tuple(
                _row(vocabulary, int(place), rank, float(scores[place]), mean, sd)
                for place, rank in zip(places, ranks, strict=True)
            )

        prompt_id = column.removeprefix("score:")
        prompt = known.get(prompt_id, {})
        n = len(finite)
        found.append(
            PromptTokens(
                id=show_text(prompt_id, 120),
                text=show_text(prompt.get("text", ""), 500),
                framing=show_text(prompt.get("framing", ""), 20),
                n=n, mean=mean, sd=sd,
                optimal=rows(best_first[:kept], range(1, kept + 1)),
                pessimal=rows(best_first[::-1][:kept], range(n, n - kept, -1)),
            )
        )  # fmt: skip
    return found


def pack_vocabulary(
    vocabulary: pd.DataFrame, prompts: Sequence[PromptTokens]
) -> tuple[dict[str, Any], str]:
    """The table for a page's script: what it holds, and its bytes.

    The bytes are gzip in base64 of: the shown texts, UTF-8, a newline after each; then, all
    little-endian, int32 token ids, uint8 kinds, uint8 round-trip flags, and a float32 column of
    scores a prompt. Prompts beyond `SCORES_EMBEDDED` scores are left out, and named.
    """
    import numpy as np

    columns = score_columns(vocabulary)
    room = max(1, SCORES_EMBEDDED // max(1, len(vocabulary)))
    kinds = sorted({str(kind) for kind in vocabulary["kind"]})
    place = {kind: number for number, kind in enumerate(kinds)}
    texts = "".join(f"{show_token(str(text))}\n" for text in vocabulary["text"]).encode("utf-8")
    parts = [
        texts,
        vocabulary["token_id"].to_numpy(dtype="<i4").tobytes(),
        np.array([place[str(kind)] for kind in vocabulary["kind"]], dtype=np.uint8).tobytes(),
        vocabulary["roundtrips"].to_numpy(dtype=np.uint8).tobytes(),
        *(vocabulary[column].to_numpy(dtype="<f4").tobytes() for column in columns[:room]),
    ]
    meta = {
        "rows": len(vocabulary),
        "text_bytes": len(texts),
        "kinds": [show_text(kind, 40) for kind in kinds],
        "prompts": [
            {"id": prompt.id, "text": prompt.text, "mean": prompt.mean, "sd": prompt.sd}
            for prompt in prompts[:room]
        ],
        "left_out": [prompt.id for prompt in prompts[room:]],
    }
    packed = gzip.compress(b"".join(parts), compresslevel=6, mtime=0)
    return meta, base64.b64encode(packed).decode("ascii")


def kinds_chart(vocabulary: pd.DataFrame, prompts: Sequence[PromptTokens]) -> dict[str, Any]:
    """The distribution of each kind of token, a view a prompt; see `pessimal.reports.charts`."""
    import numpy as np

    kinds = vocabulary["kind"].astype(str).to_numpy(dtype=object)
    names = list(vocabulary["kind"].astype(str).value_counts().index)
    places = {kind: np.flatnonzero(kinds == kind) for kind in names}
    shown = []
    for column, prompt in zip(score_columns(vocabulary), prompts, strict=True):
        z = (vocabulary[column].to_numpy(dtype=np.float64) - prompt.mean) / (prompt.sd or 1.0)
        groups = [(kind, z[rows][np.isfinite(z[rows])]) for kind, rows in places.items()]
        label = "score (SD of the vocabulary)"
        shown.append(view(prompt.id, *ridge_traces(ridges(groups)), label, ""))
    return chart("How does each kind of token score?", NOTES["distribution"], shown)


def json_for_html(value: object) -> str:
    """JSON that stays inside its ``<script>``: no ``<``, ``>``, ``&`` or line separator in it."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False)
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def score_columns(table: pd.DataFrame) -> list[str]:
    """The names of a table's score columns, in its order."""
    return [str(column) for column in table.columns if str(column).startswith("score:")]


def _row(
    vocabulary: pd.DataFrame, place: int, rank: int, score: float, mean: float, sd: float
) -> TokenRow:
    row = vocabulary.iloc[place]
    return TokenRow(
        rank=rank,
        token_id=int(row["token_id"]),
        shown=show_token(str(row["text"])),
        name=show_token(str(row["token"])),
        kind=show_text(row["kind"], 40),
        roundtrips=bool(row["roundtrips"]),
        score=score,
        z=(score - mean) / sd if sd > 0 else 0.0,
    )
