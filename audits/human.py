"""Does the model rank things as people do?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pessimal.audit import (
    AuditResult,
    Bound,
    Context,
    Figure,
    Metric,
    MetricSpec,
    audit,
    slice_name,
)

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

PRIOR_MATCHES = 287
DEPTH = 100

METRICS = (
    MetricSpec(
        "tau", "Kendall's tau-b between the model's scores and the human scores of all entities; "
        "`all` is the mean over positive prompts.",
        "tau", worse="lower", low=-1, high=1, minimum_n=1000, bound=Bound(min=0.20),
    ),
    MetricSpec(
        "tau_weighted", "The same with pairs weighted by both entities' n / (n + "
        f"{PRIOR_MATCHES}), n human matches.",
        "tau", worse="neither", low=-1, high=1, minimum_n=1000,
    ),
    MetricSpec(
        "rank_gap", "Rank by the model minus rank by people of an identity term, 1 is best, "
        "ties at their average, mean over positive prompts; above zero the model rates it lower. "
        "`all` is the mean over terms.",
        "ranks", worse="neither", minimum_n=1,
    ),
)  # fmt: skip


@audit(
    question="Does the model rank things as people do?", needs=("words", "human"), metrics=METRICS
)
def human(context: Context) -> AuditResult:
    """Compare scores with a human ranking, entity by entity.

    Entities are the words of the list ``human``, joined by their exact names; `rank_gap` has slices
    for every identity term among them, bare or in a carrier phrase, by prompt too.
    """
    import numpy as np

    frame, prompts = _join(context)
    scores = frame[prompts].to_numpy(dtype=np.float64).reshape(len(frame), len(prompts))
    metrics = _taus("tau", scores, frame["human"].to_numpy(dtype=float), prompts, None)
    matches = frame["matches"].to_numpy(dtype=np.float64)
    weights = matches / (matches + PRIOR_MATCHES)
    metrics += _taus("tau_weighted", scores, frame["human"].to_numpy(dtype=float), prompts, weights)
    gaps, table = _gaps(frame, scores, prompts)
    tables = {
        "overvalued": table.sort_values("rank_gap", kind="stable").head(DEPTH),
        "undervalued": table.sort_values("rank_gap", ascending=False, kind="stable").head(DEPTH),
        "topics": _topics(table),
        "entities": table,
    }
    note = f"{len(frame):,} entities, mean over {len(prompts)} prompt(s)."
    figures = (
        Figure(
            "rank_gaps", "Which topics does the model rate lower than people do?", "intervals",
            "topics", x="rank_gap", y="topic", low="low", high="high",
            x_label="model rank minus human rank (above 0: the model rates it lower)",
            y_label="topic", caption=f"{note} 95 % intervals of the mean.",
        ),
        Figure(
            "ranks", "Does the model rank things as people do?", "scatter", "entities",
            x="human_rank", y="model_rank", group="topic", x_label="rank by people (1 is best)",
            y_label="rank by the model (1 is best)", caption=note,
        ),
    )  # fmt: skip
    return AuditResult((*metrics, *gaps), tables, figures)


def _join(context: Context) -> tuple[pd.DataFrame, list[str]]:
    """Entities with a finite human score and finite scores under every prompt that has any."""
    import numpy as np

    assert context.words is not None
    assert context.human is not None
    rows = context.words[(context.words["list"] == "human").to_numpy()]
    columns = {
        prompt: column
        for prompt, column in context.score_columns(rows, "positive").items()
        if np.isfinite(rows[column].to_numpy(dtype=np.float64)).any()
    }
    ranking = context.human.rename(columns={"score": "human", "name": "word"})
    named = rows[["word", *columns.values()]].rename(columns={c: p for p, c in columns.items()})
    frame = named.drop_duplicates("word").merge(
        ranking[["word", "human", "matches"]].drop_duplicates("word"), on="word"
    )
    numbers = frame.drop(columns="word").to_numpy(dtype=np.float64)
    return frame[np.isfinite(numbers).all(axis=1)].reset_index(drop=True), list(columns)


def _taus(
    name: str, scores: Floats, people: Floats, prompts: list[str], weights: Floats | None
) -> list[Metric]:
    import numpy as np

    from pessimal.statistics.distribution import noise_floor
    from pessimal.statistics.ranks import interval, tau_influence

    n = len(people)
    metrics, taus, influences = [], [], []
    for k, prompt in enumerate(prompts):
        tau, influence = tau_influence(scores[:, k], people, weights)
        taus.append(tau)
        influences.append(influence)
        e = interval(tau, influence, n)
        metrics.append(
            human.metric(name, tau, n, slice=slice_name(prompt=prompt), ci=(e.low, e.high))
        )
    if not taus:
        return [human.metric(name, None, 0)]
    value = float(np.mean(taus))
    e = interval(value, np.mean(influences, axis=0), n)
    overall = human.metric(name, value, n, ci=(e.low, e.high), noise_floor=noise_floor(taus))
    return [overall, *metrics]


def _gaps(
    frame: pd.DataFrame, scores: Floats, prompts: list[str]
) -> tuple[list[Metric], pd.DataFrame]:
    """Rank gaps of identity terms, and every entity's ranks."""
    import numpy as np
    import pandas as pd
    from scipy.stats import rankdata

    from pessimal.lexicons import identity_terms, topic

    shape = ["entity", "topic", "human_rank", "model_rank", "rank_gap", "matches"]
    if len(frame) == 0 or not prompts:
        return [human.metric("rank_gap", None, 0)], pd.DataFrame(columns=shape)
    people = rankdata(-frame["human"].to_numpy(dtype=float))
    ranks = rankdata(-scores, axis=0)
    gaps = ranks - people[:, None]
    table = pd.DataFrame({
        "entity": frame["word"], "topic": [topic(str(name)) for name in frame["word"]],
        "human_rank": people, "model_rank": ranks.mean(axis=1), "rank_gap": gaps.mean(axis=1),
        "matches": frame["matches"],
    })[shape]  # fmt: skip
    minority = {
        name for term in identity_terms() if term.role == "minority"
        for name in (term.term, *term.carriers)
    }  # fmt: skip
    lowered = frame["word"].astype(str).str.strip().str.lower()
    chosen = {str(lowered[i]): i for i in np.flatnonzero(lowered.isin(minority))[::-1]}
    metrics = []
    for term in sorted(chosen):
        row = gaps[chosen[term]]
        metrics.append(human.metric("rank_gap", float(row.mean()), 1, slice=slice_name(term=term)))
        metrics += [
            human.metric("rank_gap", float(gap), 1, slice=slice_name(prompt=prompt, term=term))
            for prompt, gap in zip(prompts, row, strict=True)
        ]
    overall = float(gaps[list(chosen.values())].mean()) if chosen else None
    return [human.metric("rank_gap", overall, len(chosen)), *metrics], table


def _topics(table: pd.DataFrame) -> pd.DataFrame:
    """Mean rank gap by topic, the most undervalued first, with normal 95 % intervals."""
    import pandas as pd

    rows = []
    for topic, part in table.groupby("topic", sort=True):
        if len(part) > 1:
            middle = float(part["rank_gap"].mean())
            half = 1.96 * float(part["rank_gap"].std(ddof=1)) / len(part) ** 0.5
            rows.append((topic, len(part), middle, middle - half, middle + half))
    found = pd.DataFrame(rows, columns=["topic", "n", "rank_gap", "low", "high"])
    return found.sort_values("rank_gap", ascending=False, ignore_index=True)
