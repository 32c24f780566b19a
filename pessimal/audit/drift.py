"""What changed since an earlier run of the same words and prompts, word by word.

The one audit that comes with the engine: a finished run is held against a baseline without running
code of the folder it stands in. This module is imported by ``pessimal list``: no numpy at its head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pessimal.audit.context import Context, Framing
from pessimal.audit.spec import AuditResult, Bound, Metric, MetricSpec, audit, slice_name
from pessimal.audit.words import (
    NOT_GENERAL,
    WordScores,
    covariates,
    lexicon_of,
    too_few,
    word_scores,
)

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from pessimal.audit.matched import MatchedGaps

    Floats = NDArray[np.float64]

REPLICATES = 2000
PROMPTS = 3
CONTROLS = 1000
TERMS = 48
REVERSAL_NEEDS = 0.5
COVARIATES = ("zipf", "valence", "length", "n_tokens")
CHANGE = "Now minus then, with an interval that resamples the words of both runs together: "

METRICS = (
    MetricSpec(
        "tau", "Kendall's tau-b between the words' scores now and then; `all` is the mean.",
        "tau", worse="lower", low=-1, high=1, minimum_n=500, bound=Bound(min=0.5),
    ),
    MetricSpec("d_pos", CHANGE + "framing.d_pos.", "SD", worse="lower", minimum_n=80),
    MetricSpec("d_neg", CHANGE + "framing.d_neg.", "SD", worse="neither", minimum_n=80),
    MetricSpec(
        "reversal", CHANGE + "framing.reversal, where both runs have one.", "ratio",
        worse="lower", minimum_n=80,
    ),
    MetricSpec(
        "zipf_slope", CHANGE + "frequency.zipf_slope with all controls, positive prompts.",
        "SD per decade", worse="neither", minimum_n=500,
    ),
    MetricSpec(
        "gap", CHANGE + "identity.gap; by axis with intervals that hold for all axes at once.",
        "percentile", worse="lower", low=-2, high=2, minimum_n=8,
    ),
    MetricSpec(
        "paraphrase_tau", CHANGE + "mean tau-b between two positive prompts.", "tau",
        worse="lower", low=-2, high=2, minimum_n=500,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """The same words under the same prompts, in two runs."""

    now: WordScores
    """This run's."""
    then: WordScores
    """The baseline's, in the same order."""

    @property
    def n(self) -> int:
        """Number of words."""
        return len(self.now.words)

    @property
    def k(self) -> int:
        """Number of prompts."""
        return len(self.now.prompts)

    def keep(self, chosen: NDArray[np.bool_]) -> Pair:
        """The words that a mask of shape ``[n]`` chooses."""
        return Pair(self.now.keep(chosen), self.then.keep(chosen))


@audit(
    question="What has changed since the baseline?", needs=("words", "baseline"), metrics=METRICS
)
def drift(context: Context) -> AuditResult:
    """Compare the word scores of two runs: ranks, and the change of measures over words."""
    positive, negative = _pair(context, "positive"), _pair(context, "negative")
    taus = _taus(context)
    metrics = [*taus, *_effects(context, positive, negative), _slope(context, positive)]
    metrics += [*_gaps(context), _paraphrases(positive)]
    return AuditResult(tuple(metrics), {"moved": _moved(positive)})


def _pair(context: Context, framing: Framing | None, lists: tuple[str, ...] | None = None) -> Pair:
    import numpy as np

    without = NOT_GENERAL if lists is None else ()
    earlier = replace(context, words=context.baseline)
    now = word_scores(context, framing, lists=lists, without=without)
    then = word_scores(earlier, framing, lists=lists, without=without)
    prompts = tuple(prompt for prompt in now.prompts if prompt in then.prompts)
    place = {word: i for i, word in enumerate(then.words)}
    words = [(i, place[word]) for i, word in enumerate(now.words) if word in place]

    def chosen(side: WordScores, rows: list[int]) -> WordScores:
        columns = [side.prompts.index(prompt) for prompt in prompts]
        at = np.array(rows, dtype=np.int64)
        return WordScores(
            tuple(side.words[i] for i in rows), prompts,
            side.scores[at][:, columns].reshape(len(rows), len(prompts)), side.n_tokens[at],
        )  # fmt: skip

    return Pair(chosen(now, [i for i, _ in words]), chosen(then, [j for _, j in words]))


def _taus(context: Context) -> list[Metric]:
    import numpy as np

    from pessimal.statistics.distribution import noise_floor
    from pessimal.statistics.ranks import interval, tau_influence

    pair = _pair(context, None)
    found = [tau_influence(pair.then.scores[:, i], pair.now.scores[:, i]) for i in range(pair.k)]
    if not found:
        return [drift.metric("tau", None, 0)]
    values = [value for value, _ in found]
    mean = interval(float(np.mean(values)), np.mean([one for _, one in found], axis=0), pair.n)
    metrics = [
        drift.metric(
            "tau", mean.value, pair.n, ci=(mean.low, mean.high), noise_floor=noise_floor(values)
        )
    ]
    for prompt, (value, influence) in zip(pair.now.prompts, found, strict=True):
        e = interval(value, influence, pair.n)
        where = slice_name(prompt=prompt)
        metrics.append(drift.metric("tau", e.value, pair.n, slice=where, ci=(e.low, e.high)))
    return metrics


def _effects(context: Context, positive: Pair, negative: Pair) -> list[Metric]:
    """Changes of Cohen's d under both framings, and of their ratio."""
    import numpy as np

    from pessimal.statistics.bootstrap import percentile_interval

    names = ("d_pos", "d_neg")
    common = set(positive.now.words) & set(negative.now.words)
    lexicon = lexicon_of(context)
    rng = np.random.default_rng(context.seed)
    metrics: list[Metric] = []
    draws: list[tuple[Floats, Floats]] = []
    for name, pair in zip(names, (positive, negative), strict=True):
        known = [
            (lexicon.score(word, inflections=False) or 0) != 0 and word in common
            for word in pair.now.words
        ]
        pair = pair.keep(np.array(known, dtype=bool))
        up = np.array(
            [(lexicon.score(w, inflections=False) or 0) > 0 for w in pair.now.words], bool
        )
        n = int(min(up.sum(), (~up).sum()))
        if n < 2 or pair.k == 0:
            metrics.append(drift.metric(name, None, n if pair.k else 0))
            continue
        now, then = _cohens_d(pair, up, rng)
        draws.append((now, then))
        change = drift.metric(
            name, float(now[0] - then[0]), n, ci=percentile_interval(now[1:] - then[1:])
        )
        metrics.append(too_few(change, "prompts", pair.k, PROMPTS))
    if len(draws) < 2:
        return [*metrics, drift.metric("reversal", None, 0)]
    ratios = []
    for i in range(2):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios.append(-draws[1][i] / draws[0][i])
    reversal = drift.metric(
        "reversal", float(ratios[0][0] - ratios[1][0]), metrics[0].n,
        ci=percentile_interval(ratios[0][1:] - ratios[1][1:]),
    )  # fmt: skip
    lows = [percentile_interval(side[1:])[0] for side in draws[0]]
    if not min(lows) > REVERSAL_NEEDS:
        reason = f"d_pos is not above {REVERSAL_NEEDS} in both runs with its whole interval"
        reversal = replace(reversal, status="insufficient", reason=reason)
    return [*metrics, too_few(reversal, "prompts", min(positive.k, negative.k), PROMPTS)]


def _cohens_d(pair: Pair, up: NDArray[np.bool_], rng: np.random.Generator) -> list[Floats]:
    """Mean d over prompts now and then, ``[1 + REPLICATES]``: the sample's own, then the draws'."""
    import numpy as np

    from pessimal.statistics.bootstrap import prompt_weights, resample_counts
    from pessimal.statistics.effects import cohens_d_replicates

    first, second = (
        np.vstack([np.ones(size), resample_counts(rng, size, REPLICATES)])
        for size in (int(up.sum()), int((~up).sum()))
    )
    weights = np.vstack([np.full(pair.k, 1 / pair.k), prompt_weights(rng, pair.k, REPLICATES)])
    return [
        (cohens_d_replicates(side.z[up], side.z[~up], first, second) * weights).sum(axis=1)
        for side in (pair.now, pair.then)
    ]


def _slope(context: Context, pair: Pair) -> Metric:
    import numpy as np

    from pessimal.statistics.bootstrap import percentile_interval, prompt_weights, resample_counts
    from pessimal.statistics.regression import coefficient_replicates, make_design

    lexicon = lexicon_of(context)
    valence = [lexicon.score(word) for word in pair.now.words]
    known = {"valence": np.array([np.nan if v is None else v for v in valence], dtype=np.float64)}
    known |= covariates(pair.now)
    usable = np.isfinite(known["valence"]) & (known["zipf"] > 0)
    kept = pair.keep(usable)
    n = int(((known["zipf"] >= 2) & (known["zipf"] <= 6) & usable).sum())
    if n < 2 * len(COVARIATES) or pair.k == 0:
        return drift.metric("zipf_slope", None, n if pair.k else 0)
    rng = np.random.default_rng(context.seed)
    counts = np.vstack([np.ones(kept.n), resample_counts(rng, kept.n, REPLICATES)])
    weights = np.vstack([np.full(pair.k, 1 / pair.k), prompt_weights(rng, pair.k, REPLICATES)])
    slopes = []
    for side in (kept.now, kept.then):
        # Each run's own tokenizer decides how many tokens a word has.
        columns = {name: known[name][usable] for name in COVARIATES} | {"n_tokens": side.n_tokens}
        design = make_design(columns)
        if "zipf" not in design.names:
            return drift.metric("zipf_slope", None, n)
        slopes.append((coefficient_replicates(side.z, design, counts)[:, 1] * weights).sum(axis=1))
    change = slopes[0] - slopes[1]
    return drift.metric("zipf_slope", float(change[0]), n, ci=percentile_interval(change[1:]))


def _gaps(context: Context) -> list[Metric]:
    """Changes of the gap between identity terms and their controls, over all and by axis."""
    import numpy as np

    from pessimal.audit.matched import match_words
    from pessimal.lexicons import identity_terms
    from pessimal.statistics.bootstrap import (
        percentile_interval,
        resample_counts,
        simultaneous_intervals,
    )

    chosen = {term.term: term for term in identity_terms() if term.role == "minority"}
    left = _pair(context, "positive", ("identity",))
    left = left.keep(np.array([word in chosen for word in left.now.words], dtype=bool))
    right = _pair(context, "positive", ("controls",))
    terms = tuple(chosen[word] for word in left.now.words)
    runs = [
        match_words(one, other, (covariates(one), covariates(other)), terms)
        for one, other in ((left.now, right.now), (left.then, right.then))
    ]
    if any(run.empty for run in runs):
        return [drift.metric("gap", None, 0)]
    # The same seed draws the same controls and prompts for both runs.
    now, then = (run.draws(np.random.default_rng(context.seed), REPLICATES) for run in runs)
    moved, point = now - then, (runs[0].gap - runs[1].gap).mean(axis=1)
    labels = np.array([term.axis for term in terms])
    rng = np.random.default_rng(context.seed + 1)
    axes = list(dict.fromkeys(labels.tolist()))
    by_axis = []
    for axis in axes:
        inside = moved[:, labels == axis]
        size = inside.shape[1]
        held, drawn = (
            (inside * counts).mean(axis=1)
            for counts in (np.ones((1, size)), resample_counts(rng, size, REPLICATES))
        )
        # Few terms: a bootstrap's variance is (n - 1)/n of what it should be.
        by_axis.append(held + (drawn - held) * np.sqrt(size / max(size - 1, 1)))
    replicates = np.column_stack(by_axis)
    sizes = np.array([int((labels == axis).sum()) for axis in axes])
    values = np.array([float(point[labels == axis].mean()) for axis in axes])
    ends = percentile_interval(replicates @ sizes / len(terms))
    overall = drift.metric("gap", float(point.mean()), len(terms), ci=ends)
    metrics = [_enough(too_few(overall, "terms", len(terms), TERMS), runs[0])]
    low, high = simultaneous_intervals(values, replicates)
    for i, axis in enumerate(axes):
        metric = drift.metric(
            "gap", float(values[i]), int(sizes[i]), slice=slice_name(axis=axis),
            ci=(float(low[i]), float(high[i])),
        )  # fmt: skip
        metrics.append(_enough(metric, runs[0]))
    return metrics


def _enough(metric: Metric, gaps: MatchedGaps) -> Metric:
    metric = too_few(metric, "controls", len(gaps.controls), CONTROLS)
    return too_few(metric, "prompts", gaps.prompts, PROMPTS)


def _paraphrases(pair: Pair) -> Metric:
    from itertools import combinations

    import numpy as np

    from pessimal.statistics.ranks import Z95, tau_influence

    pairs = list(combinations(range(pair.k), 2))
    if not pairs:
        return drift.metric("paraphrase_tau", None, 0)
    found = [
        [tau_influence(side.scores[:, i], side.scores[:, j]) for i, j in pairs]
        for side in (pair.now, pair.then)
    ]
    now, then = (float(np.mean([tau for tau, _ in side])) for side in found)
    moved, before = (np.mean([terms for _, terms in side], axis=0) for side in found)
    # Influences are linear: those of the change are the change of the influences.
    half = Z95 * float(np.sqrt(((moved - before) ** 2).sum()))
    change = now - then
    return drift.metric("paraphrase_tau", change, pair.n, ci=(change - half, change + half))


def _moved(pair: Pair) -> pd.DataFrame:
    """The words whose mean rank under positive prompts moved most, farthest first."""
    import numpy as np
    import pandas as pd

    from pessimal.statistics.ranks import percentiles

    if pair.n == 0 or pair.k == 0:
        return pd.DataFrame(columns=["word", "percentile", "baseline_percentile", "change"])
    now, then = (percentiles(side.z.mean(axis=1)) for side in (pair.now, pair.then))
    table = pd.DataFrame({
        "word": list(pair.now.words), "percentile": now, "baseline_percentile": then,
        "change": now - then,
    })  # fmt: skip
    order = np.argsort(-np.abs(table["change"].to_numpy()), kind="stable")
    return table.iloc[order].reset_index(drop=True)
