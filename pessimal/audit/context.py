"""What an audit sees: tables, lexicons, a seeded generator and, where there is one, a scorer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

Framing = Literal["positive", "negative"]


@dataclass(frozen=True)
class Prompt:
    """A prompt that replies are scored under."""

    id: str
    """Its id, which names the column ``score:<id>``."""
    text: str
    """What the user asks."""
    framing: Framing
    """Whether it asks for the best or the worst."""


class AuditScorer(Protocol):
    """Scores replies again, otherwise than the sweep did; for the numerics audit."""

    def rescore(
        self,
        prompt: str,
        replies: Sequence[Sequence[int]],
        *,
        variant: Literal["batch", "order", "padding", "bfloat16"],
    ) -> NDArray[np.float32] | None:
        """Score `replies` (token ids) under the prompt with this id, with one thing changed.

        Args:
            prompt: the id of a prompt.
            replies: token ids of each reply.
            variant: ``batch`` another batch size, ``order`` reversed order, ``padding`` the
                model's own batched forward with padding, ``bfloat16`` a true bfloat16 forward.

        Returns:
            float32 scores, shape ``[len(replies)]``, in the order of `replies`; None where the
            model can't be asked in that way.
        """
        ...


@dataclass(frozen=True)
class SearchTables:
    """What searches for longer replies found. Rewards are by ids; z is in SD of single tokens."""

    found: pd.DataFrame
    """One row a search: ``prompt length direction seed method baseline token_ids tokens text
    reward as_text_reward as_text_same z single_best single_sd kinds forward_tokens evaluations
    backward_passes seconds``; a baseline ran at the same forward tokens as its search."""
    steps: pd.DataFrame
    """The best so far at every step: ``prompt length direction seed method baseline forward_tokens
    reward z``."""
    parts: pd.DataFrame
    """What each token of a found reply adds: ``prompt length direction seed method baseline
    position token_id text without contribution``."""
    transfer: pd.DataFrame
    """Replies found for other models, as this one scores their texts: ``model prompt direction
    length text there here``, both in SD; empty where there is no earlier run."""


@dataclass(frozen=True)
class Context:
    """The inputs of an audit. Anything that was not planned or not given is None."""

    prompts: Mapping[str, Prompt]
    """Every prompt that any table has a column for, by id."""
    seed: int
    """Seed of every generator that an audit makes: ``numpy.random.default_rng(context.seed)``."""
    vocabulary: pd.DataFrame | None = None
    """The score table: ``token_id token text kind roundtrips`` and ``score:<prompt>`` columns."""
    vocabulary_planned: int = 0
    """How many (token, prompt) scores the sweep set out to make."""
    sampled: bool = False
    """Whether the vocabulary was sampled and not swept whole."""
    words: pd.DataFrame | None = None
    """The word table: ``word list ids`` and ``score:<prompt>`` columns."""
    as_text: pd.DataFrame | None = None
    """A sample of the vocabulary scored as text: ``token_id prompt score text_score reason``."""
    scorer: AuditScorer | None = None
    """Scores replies again; None for an imported table or an endpoint that is gone."""
    human: pd.DataFrame | None = None
    """Human ranking: ``name score matches``."""
    base_logprobs: pd.DataFrame | None = None
    """Base model's next-token log-probabilities: ``token_id`` and ``logprob:<prompt>`` columns."""
    searches: SearchTables | None = None
    """Searches for longer replies."""
    categories: Mapping[str, Sequence[str]] | None = None
    """Word categories that the user supplied, by name."""
    baseline: pd.DataFrame | None = None
    """The word table of an earlier run of the same words and prompts."""
    lexicons: Mapping[str, object] = field(default_factory=dict)
    """Lexicons by name, as ``pessimal.lexicons`` loads them."""

    def score_columns(self, table: pd.DataFrame, framing: Framing | None = None) -> dict[str, str]:
        """Map prompt id to column name for the table's score columns, in the table's order.

        Args:
            table: a score or word table.
            framing: keep the prompts of one framing only.
        """
        found: dict[str, str] = {}
        for column in table.columns:
            if not str(column).startswith("score:"):
                continue
            prompt = str(column).removeprefix("score:")
            known = self.prompts.get(prompt)
            if framing is None or (known is not None and known.framing == framing):
                found[prompt] = str(column)
        return found
