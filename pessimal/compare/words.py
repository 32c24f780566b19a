"""The words that models disagree on most, by where each of them ranks them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pessimal.compare.join import Joined

if TYPE_CHECKING:
    import pandas as pd

LISTED = 200


def disagreement(
    joined: Joined, prompt: str, models: Sequence[int], labels: Sequence[str]
) -> tuple[pd.DataFrame, int]:
    """Words by the SD of their percentile over models, the most disputed first.

    A percentile is the word's average rank among the words that all these models have; 1 is best.

    Args:
        joined: the models' tables.
        prompt: the prompt's id.
        models: places of the models to set side by side.
        labels: every model's name, for the columns.

    Returns:
        The first 200 words: ``word``, ``sd`` (of k models, ddof 0), ``highest`` and ``lowest`` (the
        models that rank it so) and ``percentile:<label>`` a model; and how many words there are.
    """
    import numpy as np
    import pandas as pd

    from pessimal.statistics.ranks import percentiles

    words, scores = joined.common([joined.scores(model, prompt) for model in models])
    ranks = percentiles(scores)
    spread = ranks.std(axis=1)
    order = np.argsort(-spread, kind="stable")[:LISTED]
    names = [labels[model] for model in models]
    table: dict[str, object] = {
        "prompt": prompt,
        "word": [joined.show(int(words[place])) for place in order],
        "sd": spread[order],
        "highest": [names[place] for place in ranks[order].argmax(axis=1)] if len(order) else [],
        "lowest": [names[place] for place in ranks[order].argmin(axis=1)] if len(order) else [],
    }
    table |= {f"percentile:{name}": ranks[order, place] for place, name in enumerate(names)}
    return pd.DataFrame(table), len(words)
