"""Which kinds of words does the model prefer? The user's own categories."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from pessimal.audit import AuditResult, Context, Figure, Metric, MetricSpec, audit, slice_name
from pessimal.audit.context import Framing
from pessimal.audit.words import WordScores, word_scores

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]

FRAMINGS: tuple[Framing, ...] = ("positive", "negative")
REPLICATES = 1000

METRICS = (
    MetricSpec(
        "median_rank", "Median rank of a category's words among the words of all categories (1 is "
        "best, ties at their average), mean over the prompts of a framing.",
        "rank", worse="neither", low=1, minimum_n=50,
    ),
    MetricSpec(
        "delta", "Cliff's delta, P(first > second) - P(first < second) for words of two "
        "categories, mean over the prompts of a framing.",
        "delta", worse="neither", low=-1, high=1, minimum_n=50,
    ),
)  # fmt: skip


@audit(
    question="Which of the categories does the model prefer?",
    needs=("words", "categories"),
    metrics=METRICS,
)
def values(context: Context) -> AuditResult:
    """Rank the words of the user's categories; a term that ends in ``*`` stands for a prefix."""
    import pandas as pd

    metrics: list[Metric] = []
    rows = []
    for framing in FRAMINGS:
        words, members = _members(context, framing)
        for name, member in members.items():
            metric = _median_rank(context, words, member, slice_name(framing=framing, words=name))
            metrics.append(metric)
            rows.append((framing, name, metric.n, metric.value, metric.ci_low, metric.ci_high))
        for one, two in combinations(members, 2):
            where = slice_name(framing=framing, contrast=f"{one} vs {two}")
            metrics.append(_delta(context, words, members[one], members[two], where))
    for spec in METRICS:
        if not any(metric.name == f"values.{spec.name}" for metric in metrics):
            metrics.append(values.metric(spec.name, None, 0))
    shape = ["framing", "category", "n", "median_rank", "low", "high"]
    figure = Figure(
        "values", "Which categories rank high (1 is best)?", "intervals", "categories",
        x="median_rank", y="category", group="framing", low="low", high="high",
        x_label="median rank", y_label="category", caption="95 % intervals over words.",
    )  # fmt: skip
    table = pd.DataFrame(rows, columns=shape)
    return AuditResult(tuple(metrics), {"categories": table}, (figure,))


def _members(context: Context, framing: Framing) -> tuple[WordScores, dict[str, Mask]]:
    """The words of any category, and which of them each category holds."""
    import numpy as np

    categories: Mapping[str, Sequence[str]] = context.categories or {}
    lists = set() if context.words is None else set(context.words["list"])
    # Ranked entities have prompts of their own: beside other lists, no word has a score under all.
    words = word_scores(context, framing, without=("human",) if lists - {"human"} else ())
    found: dict[str, Mask] = {}
    for name, terms in categories.items():
        lowered = [term.strip().lower() for term in terms]
        exact = {term for term in lowered if not term.endswith("*")}
        prefixes = tuple(term[:-1] for term in lowered if term.endswith("*"))
        # A slice's value can hold neither sign.
        found[name.replace(",", " ").replace("=", " ")] = np.array(
            [word in exact or word.startswith(prefixes) for word in words.words], dtype=bool
        )
    if not found:
        return words, {}
    listed = np.any(list(found.values()), axis=0)
    return words.keep(listed), {name: member[listed] for name, member in found.items()}


def _median_rank(context: Context, words: WordScores, member: Mask, where: str) -> Metric:
    import numpy as np

    from pessimal.statistics.bootstrap import percentile_interval
    from pessimal.statistics.distribution import noise_floor
    from pessimal.statistics.ranks import percentiles

    n, k = int(member.sum()), len(words.prompts)
    if n == 0 or k == 0:
        return values.metric("median_rank", None, n if k else 0, slice=where)
    ranks = percentiles(-words.scores)[member] * len(words.words) + 0.5
    rng = np.random.default_rng(context.seed)
    drawn = ranks[rng.integers(0, n, (REPLICATES, n))]  # [b, n, k]
    draws = np.median(drawn, axis=1).mean(axis=1)
    by_prompt = np.median(ranks, axis=0)
    return values.metric(
        "median_rank", float(by_prompt.mean()), n, slice=where, ci=percentile_interval(draws),
        noise_floor=noise_floor(by_prompt),
    )  # fmt: skip


def _delta(context: Context, words: WordScores, one: Mask, two: Mask, where: str) -> Metric:
    import numpy as np

    from pessimal.statistics.bootstrap import percentile_interval, resample_counts
    from pessimal.statistics.distribution import noise_floor

    n, k = int(min(one.sum(), two.sum())), len(words.prompts)
    if n == 0 or k == 0:
        return values.metric("delta", None, n if k else 0, slice=where)
    first, second = words.scores[one], words.scores[two]
    by_prompt = [
        np.sign(first[:, None, j] - second[None, :, j]).mean(axis=1) for j in range(k)
    ]  # how each word of the first stands to the second
    other = [np.sign(first[:, None, j] - second[None, :, j]).mean(axis=0) for j in range(k)]
    rng = np.random.default_rng(context.seed)
    left = resample_counts(rng, len(first), REPLICATES) / len(first)
    right = resample_counts(rng, len(second), REPLICATES) / len(second)
    value = float(np.mean(by_prompt))
    # First-order terms of the two-sample U-statistic: each side's words move it by their means.
    draws = left @ np.mean(by_prompt, axis=0) + right @ np.mean(other, axis=0) - value
    return values.metric(
        "delta", value, n, slice=where, ci=percentile_interval(np.clip(draws, -1, 1)),
        noise_floor=noise_floor([float(column.mean()) for column in by_prompt]),
    )  # fmt: skip
