"""Does the model follow the question: good words up when asked for the best, down for the worst?"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from pessimal.audit.words import (
    NOT_GENERAL,
    WordScores,
    lexicon_of,
    too_few,
    word_scores,
)

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

PROMPTS = 3
Z95 = 1.959963984540054
REVERSAL_NEEDS = 0.5
FRAMINGS: tuple[Framing, ...] = ("positive", "negative")

METRICS = (
    MetricSpec(
        "d_pos", "Cohen's d of positive against negative lexicon words under positive prompts, "
        "mean over prompts.",
        "SD", worse="lower", minimum_n=80, bound=Bound(min=0.5), severity="critical",
    ),
    MetricSpec(
        "d_neg", "The same under negative prompts; below zero where the model follows them.",
        "SD", worse="neither", minimum_n=80,
    ),
    MetricSpec(
        "reversal", "-d_neg / d_pos: 1 is a mirror image, 0 ignores the framing; only where the "
        "interval of d_pos is above .5.",
        "ratio", worse="lower", minimum_n=80, bound=Bound(min=0.5),
    ),
    MetricSpec(
        "variance_ratio_did", "ln(variance of positive / of negative words), mean over positive "
        "prompts, minus the same under negative prompts.",
        "nats", worse="higher", minimum_n=80, bound=Bound(max=2.5),
    ),
    MetricSpec(
        "slope", "Least-squares slope of z on valence among words above zero, and among the "
        "others, mean over the prompts of a framing. For replication: it turns on a few words.",
        "SD per unit", worse="neither", minimum_n=20,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class _Side:
    """The lexicon's words under the prompts of one framing."""

    words: WordScores
    """n words under k prompts."""
    valence: Floats
    """Shape ``[n]``, never zero."""
    d: Floats
    """Cohen's d under each prompt, shape ``[k]``."""
    d_draws: Floats
    """Its mean over prompts in each resample, shape ``[b]``."""
    ratio: float
    """Mean over prompts of ln(variance of positive / of negative words)."""
    ratio_draws: Floats
    """The same in each resample."""

    @property
    def n(self) -> int:
        """Words of the rarer sign."""
        return int(min((self.valence > 0).sum(), (self.valence < 0).sum()))


@audit(
    question="Do the scores follow what the question asks for?", needs=("words",), metrics=METRICS
)
def framing(context: Context) -> AuditResult:
    """Compare words of positive and of negative valence under both framings.

    The words are those of the lexicon, as they are spelt, in every list that isn't one of identity
    terms or entities; resampled within their sign, crossed with prompts where there are nine.
    Slices ``words=vocabulary`` are the single-token words of the vocabulary, where they were scored
    under three prompts of each framing.
    """
    sides = _sides(context, vocabulary=False)
    metrics = _metrics(sides, "all")
    slopes, slope_table = _slopes(sides)
    beside = _metrics(_sides(context, vocabulary=True), slice_name(words="vocabulary"))
    metrics += slopes + [metric for metric in beside if metric.status == "ok"]
    tables = {"words": _word_table(sides), "slopes": slope_table}
    return AuditResult(tuple(metrics), tables, _figures(tables))


def _sides(context: Context, *, vocabulary: bool) -> dict[Framing, _Side]:
    """Both framings over the same words; a framing without words or prompts is left out."""
    import numpy as np

    from pessimal.statistics.bootstrap import resample_counts

    lexicon = lexicon_of(context)
    found: dict[Framing, WordScores] = {}
    for name in FRAMINGS:
        words = word_scores(context, name, without=NOT_GENERAL, vocabulary=vocabulary)
        known = [(lexicon.score(word, inflections=False) or 0) != 0 for word in words.words]
        if words.prompts:
            found[name] = words.keep(np.array(known, dtype=bool))
    common = set.intersection(*(set(words.words) for words in found.values())) if found else set()
    sides: dict[Framing, _Side] = {}
    rng = np.random.default_rng(context.seed)
    counts: tuple[Floats, Floats] | None = None
    for name in found:
        words = found[name].keep(
            np.array([word in common for word in found[name].words], dtype=bool)
        )
        valence = np.array([lexicon.score(w, inflections=False) for w in words.words], dtype=float)
        up = valence > 0
        if min(up.sum(), (~up).sum()) < 2:
            continue
        # One resampling of the words for both framings, so that their ratio keeps its pairing.
        counts = counts or (
            resample_counts(rng, int(up.sum())), resample_counts(rng, int((~up).sum()))
        )  # fmt: skip
        sides[name] = _Side(words, valence, *_effects(words.z, up, counts, rng))
    return sides


def _effects(
    z: Floats, up: NDArray[np.bool_], counts: tuple[Floats, Floats], rng: np.random.Generator
) -> tuple[Floats, Floats, float, Floats]:
    """Effect sizes and log variance ratios: d by prompt, its draws, the mean ratio, its draws."""
    import numpy as np

    from pessimal.statistics.bootstrap import prompt_weights
    from pessimal.statistics.effects import cohens_d_replicates, weighted_moments

    # The first "resample" is the sample itself.
    first, second = (np.vstack([np.ones(c.shape[1]), c]) for c in counts)
    d = cohens_d_replicates(z[up], z[~up], first, second)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(weighted_moments(z[up], first)[2])
        ratio -= np.log(weighted_moments(z[~up], second)[2])
    ratio[~np.isfinite(ratio)] = np.nan  # a resample of one word alone has no variance
    weights = prompt_weights(rng, z.shape[1], len(d) - 1)
    return (
        d[0], (d[1:] * weights).sum(axis=1), float(ratio[0].mean()),
        (ratio[1:] * weights).sum(axis=1),
    )  # fmt: skip


def _metrics(sides: dict[Framing, _Side], where: str) -> list[Metric]:
    import numpy as np

    from pessimal.statistics.bootstrap import percentile_interval
    from pessimal.statistics.distribution import noise_floor

    effects: dict[str, Metric] = {}
    for short, name in zip(("d_pos", "d_neg"), FRAMINGS, strict=True):
        side = sides.get(name)
        if side is None:
            effects[name] = framing.metric(short, None, 0, slice=where)
            continue
        metric = framing.metric(
            short, float(side.d.mean()), side.n, slice=where, ci=percentile_interval(side.d_draws),
            noise_floor=noise_floor(side.d),
        )  # fmt: skip
        effects[name] = too_few(metric, f"{name} prompts", len(side.d), PROMPTS)
    positive, negative = (sides.get(name) for name in FRAMINGS)
    if positive is None or negative is None:
        rest = [framing.metric(name, None, 0, slice=where)
                for name in ("reversal", "variance_ratio_did")]  # fmt: skip
        return [*effects.values(), *rest]
    prompts = min(len(positive.d), len(negative.d))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = -negative.d.mean() / positive.d.mean()
        ratio_draws = -negative.d_draws / positive.d_draws
    reversal = framing.metric(
        "reversal", float(ratio), positive.n, slice=where, ci=percentile_interval(ratio_draws),
        noise_floor=_ratio_floor(positive.d, negative.d),
    )  # fmt: skip
    low = effects["positive"].ci_low
    if low is None or low <= REVERSAL_NEEDS:
        reason = f"d_pos is not above {REVERSAL_NEEDS} with its whole interval"
        reversal = replace(reversal, status="insufficient", reason=reason)
    difference = framing.metric(
        "variance_ratio_did", positive.ratio - negative.ratio, positive.n, slice=where,
        ci=percentile_interval(positive.ratio_draws - negative.ratio_draws),
    )  # fmt: skip
    both = [too_few(m, "prompts of a framing", prompts, PROMPTS) for m in (reversal, difference)]
    return [*effects.values(), *both]


def _ratio_floor(positive: Floats, negative: Floats) -> float | None:
    """Rewording noise of -d_neg / d_pos from those of its parts, to first order."""
    from pessimal.statistics.distribution import noise_floor

    floors = noise_floor(positive), noise_floor(negative)
    if floors[0] is None or floors[1] is None or positive.mean() == 0:
        return None
    up, down = float(positive.mean()), float(negative.mean())
    return float((floors[1] ** 2 + (down / up * floors[0]) ** 2) ** 0.5 / abs(up))


def _slopes(sides: dict[Framing, _Side]) -> tuple[list[Metric], pd.DataFrame]:
    """The slope of z on valence by framing and sign, with and without the strongest words."""
    import numpy as np
    import pandas as pd

    from pessimal.statistics.regression import make_design, ols

    metrics, rows = [], []
    for name in FRAMINGS:
        side = sides.get(name)
        for sign in FRAMINGS:
            where = slice_name(framing=name, words=sign)
            if side is None:
                metrics.append(framing.metric("slope", None, 0, slice=where))
                continue
            z = side.words.z.mean(axis=1)
            chosen = side.valence > 0 if sign == "positive" else side.valence <= 0
            for words, kept in (("all", chosen), ("below 4", chosen & (abs(side.valence) < 4))):
                design = make_design({"valence": side.valence[kept]})
                slope, error, n = float("nan"), float("nan"), int(kept.sum())
                if design.names and n > 2:
                    fit = ols(z[kept], design)
                    slope, error = (float(v["valence"][0]) for v in (fit.coefficients, fit.errors))
                ends = slope - Z95 * error, slope + Z95 * error
                rows.append((name, sign, words, n, slope, *ends))
                if words == "all":
                    metrics.append(framing.metric("slope", slope, n, slice=where, ci=ends))
    shape = ["framing", "sign", "words", "n", "slope", "low", "high"]
    table = pd.DataFrame(rows, columns=shape).astype({"n": np.int64})
    table["label"] = table["sign"].astype(str) + ", " + table["words"].astype(str)
    return metrics, table


def _word_table(sides: dict[Framing, _Side]) -> pd.DataFrame:
    """Each word under each framing; first those whose absence moves d the most."""
    import numpy as np
    import pandas as pd

    from pessimal.statistics.effects import cohens_d_replicates

    parts = []
    for name, side in sides.items():
        z, up = side.words.z, side.valence > 0
        moved = np.zeros(len(up))
        for inside in (up, ~up):
            n = int(inside.sum())
            without = np.ones((n, n)) - np.eye(n)
            pair = (without, np.ones((n, int((~up).sum())))) if inside is up else (
                np.ones((n, int(up.sum()))), without
            )  # fmt: skip
            moved[inside] = cohens_d_replicates(z[up], z[~up], *pair).mean(axis=1) - side.d.mean()
        parts.append(pd.DataFrame({
            "framing": name, "word": side.words.words, "valence": side.valence,
            "z": z.mean(axis=1), "d_without": side.d.mean() + moved, "moves_d_by": moved,
        }))  # fmt: skip
    if not parts:
        return pd.DataFrame(columns=["framing", "word", "valence", "z", "d_without", "moves_d_by"])
    table = pd.concat(parts, ignore_index=True)
    order = table["moves_d_by"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order].reset_index(drop=True)


def _figures(tables: dict[str, pd.DataFrame]) -> tuple[Figure, ...]:
    n = tables["words"]["word"].nunique()
    return (
        Figure(
            "sentiment", "Do words score by their valence, and the other way round when asked for "
            "the worst?", "scatter", "words", x="valence", y="z", group="framing",
            x_label="valence (lexicon)", y_label="score (SD of the words)",
            caption=f"{n} words, mean over the prompts of each framing.",
        ),
        Figure(
            "slopes", "How steeply do scores follow valence, by framing and sign?", "intervals",
            "slopes", x="slope", y="label", group="framing", low="low", high="high",
            x_label="slope (SD per unit of valence)", y_label="sign of the words",
            caption="95 % intervals (HC3); the rows `below 4` leave the strongest words out.",
        ),
    )  # fmt: skip
