"""Which tokens a reply may hold, chosen by id."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pessimal.models.slot import control_ids
from pessimal.search.records import REASONS, Allow, Reason, Space

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pessimal.models.records import ModelSource
    from pessimal.models.vocabulary import Vocabulary


def choose_tokens(
    source: ModelSource,
    vocabulary: Vocabulary,
    duplicates: Collection[int],
    *,
    allow: Allow = "roundtrip",
    include: Collection[str] = (),
    singles: Mapping[int, float] | None = None,
) -> Space:
    """The ids that a search may use.

    Args:
        source: the model.
        vocabulary: its tokens.
        duplicates: ids whose embedding row equals another's.
        allow: ``roundtrip`` leaves out every id with a reason to, ``all`` none.
        include: reasons that don't count.
        singles: rewards of tokens as replies of their own, by id.

    Returns:
        The space; an id with several reasons is counted under the first.
    """
    reasons = _reasons(source, vocabulary, duplicates)
    lifted = set(REASONS) if allow == "all" else set(include)
    out = np.zeros(source.embedding_rows, bool)
    counts: dict[str, int] = {}
    for reason in REASONS:
        if reason not in lifted:
            counts[reason] = int((reasons[reason] & ~out).sum())
            out |= reasons[reason]
    allowed = np.flatnonzero(~out).astype(np.int64)
    rewards = None
    if singles is not None:
        found = [singles.get(token, np.nan) for token in allowed.tolist()]
        rewards = np.array(found, np.float32)
    return Space(allowed, rewards, {name: count for name, count in counts.items() if count})


def _reasons(
    source: ModelSource, vocabulary: Vocabulary, duplicates: Collection[int]
) -> dict[Reason, NDArray[np.bool_]]:
    rows = source.embedding_rows

    def mask(ids: Collection[int] | NDArray[np.int64]) -> NDArray[np.bool_]:
        found = np.zeros(rows, bool)
        found[[index for index in ids if 0 <= index < rows]] = True
        return found

    ids = vocabulary.ids.astype(np.int64)
    return {
        "special": mask(control_ids(source)),
        "added": mask(list(getattr(source.tokenizer, "added_tokens_decoder", {}))),
        "unused": mask(duplicates),
        "padded": ~mask(ids),
        "unstable": mask(ids[~vocabulary.roundtrips]),
    }
