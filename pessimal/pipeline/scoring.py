"""The scoring steps of a pipeline, each giving a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from pessimal.audit import Prompt
from pessimal.pipeline.session import Session, sample_places
from pessimal.sweep.progress import SweepProgress

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from pessimal.scores.table import ScoreTable, WordTable
    from pessimal.sweep.runner import SweepOptions, SweepResult

Cost = dict[str, Any]
"""What one prompt's sweep cost: ``prompt what rows complete computed reused blocks
forward_tokens planned_tokens halvings seconds``."""


@dataclass
class Tables:
    """The scores of an audit."""

    vocabulary: ScoreTable | None
    """The vocabulary, or a sample of it; None for imported scores."""
    costs: list[Cost]
    """What each sweep cost."""
    planned_ids: list[int]
    """The token ids that were to be scored."""
    words: WordTable | None = None
    """Words and phrases."""
    as_text: pd.DataFrame | None = None
    """Tokens scored as text."""

    @property
    def complete(self) -> bool:
        """Whether every reply has its score; not so while other shares are undone."""
        return all(cost["complete"] for cost in self.costs)


def score_vocabulary(
    session: Session, prompts: Sequence[Prompt], ids: Sequence[int], *, quiet: bool
) -> tuple[ScoreTable, list[Cost]]:
    """Score tokens of the vocabulary under some prompts.

    Args:
        session: the model.
        prompts: the prompts.
        ids: the tokens' ids, ascending.
        quiet: show no progress bar.

    Returns:
        The table, and what each prompt's sweep cost.
    """
    import numpy as np

    from pessimal.scores.table import ScoreTable

    words = session.vocabulary
    places = np.searchsorted(words.ids, ids)
    scores, costs = _sweep(session, prompts, [(int(token),) for token in ids], "vocabulary", quiet)
    return ScoreTable.build(
        token_ids=ids,
        tokens=[words.tokens[place] for place in places],
        texts=[words.texts[place] for place in places],
        kinds=[session.kinds[place] for place in places],
        roundtrips=words.roundtrips[places],
        scores=scores,
        metadata=session.metadata(sampled=len(places) < len(words.ids)),
    ), costs


def score_words(
    session: Session, prompts: Sequence[Prompt], lists: Mapping[str, Sequence[str]], *, quiet: bool
) -> tuple[WordTable, list[Cost]]:
    """Score words and phrases as replies of their own, under some prompts."""
    from pessimal.scores.table import WordTable

    rows = [(word, name) for name, words in lists.items() for word in words]
    ids = session.encode(prompts[0], [word for word, _ in rows])
    scores, costs = _sweep(session, prompts, ids, "words", quiet)
    return WordTable.build(
        words=[word for word, _ in rows], lists=[name for _, name in rows], ids=ids,
        scores=scores, metadata=session.metadata(),
    ), costs  # fmt: skip


def join_words(first: WordTable, second: WordTable) -> WordTable:
    """One table of both's rows; a prompt that only one was scored under is NaN in the other."""
    import pandas as pd

    from pessimal.scores.table import WordTable

    # Columns stay float32: a missing one is made of NaN by concat.
    frame = pd.concat([first.frame, second.frame], ignore_index=True)
    return WordTable(frame, first.metadata)


def score_as_text(
    session: Session, prompts: Sequence[Prompt], table: ScoreTable,
    tokens: Literal["all"] | int, *, quiet: bool,
) -> tuple[pd.DataFrame, list[Cost]]:  # fmt: skip
    """Score tokens of a table as text through the template, beside their scores by ids.

    Returns:
        One row a token and prompt: ``token_id token text kind prompt score text_score reason``,
        and what each prompt cost.
    """
    import pandas as pd

    from pessimal.models.slot import encode_as_text
    from pessimal.sweep.as_text import as_text

    frame = table.frame.iloc[sample_places(len(table.frame), tokens)]
    parts = []
    costs: list[Cost] = []
    total = len(frame) * len(prompts)
    with _options(session, total, "as text", quiet) as options:
        for prompt in prompts:
            slot = session.slot(prompt)
            found = as_text(
                session.scorer, session.model.hashes, slot, frame["token_id"].tolist(),
                frame["text"].tolist(), frame["kind"].tolist(),
                lambda text, slot=slot: encode_as_text(session.source, slot.prompt, text),  # type: ignore[misc]
                session.store, prompt_id=prompt.id, options=options,
            )  # fmt: skip
            part = frame[["token_id", "token", "text", "kind"]].copy()
            part["prompt"] = prompt.id
            part["score"] = frame[f"score:{prompt.id}"]
            part["text_score"] = found.sweep.scores
            part["reason"] = list(found.reasons)
            parts.append(part)
            costs.append(_cost(prompt, "as text", found.sweep))
    return pd.concat(parts, ignore_index=True), costs


def _cost(prompt: Prompt, what: str, result: SweepResult) -> Cost:
    return {
        "prompt": prompt.id, "what": what, "rows": result.rows, "complete": result.complete,
        "computed": result.computed, "reused": result.reused, "blocks": result.blocks,
        "forward_tokens": result.forward_tokens, "planned_tokens": result.planned_tokens,
        "halvings": result.halvings, "seconds": result.seconds,
    }  # fmt: skip


def _sweep(
    session: Session, prompts: Sequence[Prompt], replies: Sequence[tuple[int, ...]],
    label: str, quiet: bool,
) -> tuple[dict[str, NDArray[np.float32]], list[Cost]]:  # fmt: skip
    from pessimal.sweep.runner import sweep

    scores: dict[str, NDArray[np.float32]] = {}
    costs: list[Cost] = []
    with _options(session, len(replies) * len(prompts), label, quiet) as options:
        for prompt in prompts:
            if isinstance(options.progress, SweepProgress):
                options.progress.label = f"{label}: {prompt.id}"
            result = sweep(
                session.scorer, session.model.hashes, session.slot(prompt), replies,
                session.store, prompt_id=prompt.id, duplicates=session.duplicates, options=options,
            )  # fmt: skip
            scores[prompt.id] = result.scores
            costs.append(_cost(prompt, label, result))
    return scores, costs


@contextmanager
def _options(session: Session, total: int, label: str, quiet: bool) -> Iterator[SweepOptions]:
    with SweepProgress(total, label, quiet=quiet) as progress:
        yield replace(session.options, progress=progress)
