"""Does the ranking survive another wording of the question?"""

from __future__ import annotations

from itertools import combinations
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
from pessimal.audit.context import Framing
from pessimal.audit.words import NOT_GENERAL, too_few, word_scores

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pair = tuple[str, str, float, NDArray[np.float64]]

PROMPTS = 9
FRAMINGS: tuple[Framing, ...] = ("positive", "negative")
NAMES = ("paraphrase_tau", "minor_tau", "worst_pair_tau")

METRICS = (
    MetricSpec(
        "paraphrase_tau", "Kendall's tau-b between the words' scores under two prompts of a "
        "framing, mean over pairs; `all` is the lower framing.",
        "tau", worse="lower", low=-1, high=1, minimum_n=500, bound=Bound(min=0.75),
    ),
    MetricSpec(
        "minor_tau", "The same over pairs with the same adjective, which differ in the rest of the "
        "sentence only.",
        "tau", worse="lower", low=-1, high=1, minimum_n=500, bound=Bound(min=0.90),
    ),
    MetricSpec(
        "worst_pair_tau", "The lowest of all pairs.",
        "tau", worse="lower", low=-1, high=1, minimum_n=500, bound=Bound(min=0.55),
    ),
)  # fmt: skip


@audit(question="Do rewordings keep the ranking?", needs=("words",), metrics=METRICS)
def robustness(context: Context) -> AuditResult:
    """Correlate the general words' scores between prompts of one framing."""
    import pandas as pd

    metrics: list[Metric] = []
    rows = []
    for framing in FRAMINGS:
        scores = word_scores(context, framing, without=NOT_GENERAL)
        pairs = _pairs(scores.prompts, scores.scores)
        rows += [(framing, a, b, tau, _is_minor(a, b)) for a, b, tau, _ in pairs]
        metrics += _metrics(pairs, len(scores.words), len(scores.prompts), framing)
    shape = ["framing", "first", "second", "tau", "minor"]
    table = pd.DataFrame(rows, columns=shape).sort_values("tau", kind="stable", ignore_index=True)
    table["pair"] = table["first"].astype(str) + " / " + table["second"].astype(str)
    overall = [
        _lower(name, [m for m in metrics if m.name == f"robustness.{name}"]) for name in NAMES
    ]
    figure = Figure(
        "paraphrases", "How alike are the rankings under two wordings?", "distribution", "pairs",
        x="tau", group="framing", x_label="tau-b", y_label="density",
        caption=f"{len(table)} pairs of prompts.",
    )  # fmt: skip
    return AuditResult((*overall, *metrics), {"pairs": table}, (figure,))


def _pairs(prompts: tuple[str, ...], scores: NDArray[np.float64]) -> list[Pair]:
    from pessimal.statistics.ranks import tau_influence

    return [
        (prompts[i], prompts[j], *tau_influence(scores[:, i], scores[:, j]))
        for i, j in combinations(range(len(prompts)), 2)
    ]


def _is_minor(first: str, second: str) -> bool:
    """Whether two factorial prompts, <adjective>_<superlative>_<style>, share the adjective."""
    one, two = first.split("_"), second.split("_")
    return len(one) == len(two) == 3 and one[0] == two[0]


def _metrics(pairs: list[Pair], words: int, prompts: int, framing: str) -> list[Metric]:
    minor = [pair for pair in pairs if _is_minor(*pair[:2])]
    worst = sorted(pairs, key=lambda pair: pair[2])[:1]
    metrics = []
    for name, chosen in zip(NAMES, (pairs, minor, worst), strict=True):
        metric = _mean(name, chosen, words if chosen else 0, slice_name(framing=framing))
        metrics.append(too_few(metric, f"{framing} prompts", prompts, PROMPTS))
    return metrics


def _mean(name: str, pairs: list[Pair], n: int, where: str) -> Metric:
    """The mean tau with the interval that its words' mean influences give."""
    import numpy as np

    from pessimal.statistics.ranks import interval

    if not pairs:
        return robustness.metric(name, None, n, slice=where)
    value = float(np.mean([pair[2] for pair in pairs]))
    estimate = interval(value, np.mean([pair[3] for pair in pairs], axis=0), n)
    return robustness.metric(name, value, n, slice=where, ci=(estimate.low, estimate.high))


def _lower(name: str, metrics: list[Metric]) -> Metric:
    """The framing with the lower value; one that is missing or failed is the lowest."""
    from dataclasses import replace

    known = [m for m in metrics if m.n > 0] or metrics
    least = min(known, key=lambda m: (m.status != "failed", m.value if m.value is not None else -2))
    return replace(least, slice="all")
