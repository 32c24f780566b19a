"""What several models together rate lower or higher than people do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pessimal.pipeline.published import Published

if TYPE_CHECKING:
    import pandas as pd

DEPTH = 50


def median_gaps(models: Sequence[Published]) -> dict[str, list[dict[str, Any]]] | None:
    """The models' median rank minus the human rank, by prompt, most undervalued first.

    Ranks are among the entities that all models were scored on, 1 is best, ties at their average.

    Returns:
        By prompt the 50 first and the 50 last entities: ``entity position human_rank median_rank
        rank_gap``, and for comparison with figures that count people as one more model
        ``rank_gap_with_human position_with_human``. None with fewer than two models or no ranking.
    """
    ranked = [model for model in models if model.human is not None]
    if len(ranked) < 2:
        return None
    prompts = dict.fromkeys(prompt for model in ranked for prompt in model.prompts)
    found = {}
    for prompt in prompts:
        mine = [model for model in ranked if prompt in model.prompts]
        if len(mine) > 1:
            table = _gaps(prompt, mine)
            ends = table if len(table) <= 2 * DEPTH else _ends(table)
            found[prompt] = [
                {str(key): value for key, value in row.items()} for row in ends.to_dict("records")
            ]
    return found


def _gaps(prompt: str, models: Sequence[Published]) -> pd.DataFrame:
    import pandas as pd

    assert models[0].human is not None
    people = models[0].human.set_index("name")["score"]
    columns = {model.id: model.words.frame.set_index("word")[f"score:{prompt}"] for model in models}
    scores = pd.DataFrame(columns).dropna()
    human = people.reindex(scores.index).rank(ascending=False)
    ranks = scores.rank(ascending=False)
    median = ranks.median(axis=1)
    # The human column among the models, as the method's paper counted it.
    with_human = ranks.assign(**{"": human}).median(axis=1) - human
    table = pd.DataFrame({
        "entity": scores.index.astype(str), "human_rank": human.to_numpy(),
        "median_rank": median.to_numpy(), "rank_gap": (median - human).to_numpy(),
        "rank_gap_with_human": with_human.to_numpy(),
    })  # fmt: skip
    for end in ("", "_with_human"):
        places = table[f"rank_gap{end}"].rank(ascending=False, method="min")
        table[f"position{end}"] = places.astype(int)
    return table.sort_values("rank_gap", ascending=False, kind="stable")


def _ends(table: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    return pd.concat([table.head(DEPTH), table.tail(DEPTH)])
