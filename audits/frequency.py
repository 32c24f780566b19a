"""Does the model pay for how common a word is?"""

from __future__ import annotations

from dataclasses import dataclass
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
from pessimal.audit.words import NOT_GENERAL, covariates, lexicon_of, word_scores

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CONTROLS = {
    "none": (),
    "valence": ("valence",),
    "full": ("valence", "length", "n_tokens"),
}
MANY_WORDS = 10_000
FRAMINGS: tuple[Framing, ...] = ("positive", "negative")

METRICS = (
    MetricSpec(
        "zipf_slope", "Slope of z on zipf frequency, mean over the prompts of a framing, under "
        "three sets of control covariates. `all`: positive prompts, the slope nearest zero of the "
        "three, with an interval that spans them, so that a rule on it fails only if all agree.",
        "SD per decade", worse="both", minimum_n=500, bound=Bound(abs_max=0.15),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class _Slope:
    """One regression of one framing."""

    value: float
    """Mean over prompts."""
    low: float
    """Lower end of the 95 % word bootstrap."""
    high: float
    """Upper end."""
    floor: float | None
    """Noise of rewording."""
    row: dict[str, object]
    """What the table of models says of it."""


@audit(question="Does the model reward a word for being common?", needs=("words",), metrics=METRICS)
def frequency(context: Context) -> AuditResult:
    """Regress standardised scores on zipf frequency.

    The words are those with a valence (inflections included) and a frequency, in every list that
    isn't one of identity terms or entities; a word without a covariate is dropped. n counts those
    of zipf 2 to 6. ``words=vocabulary`` is the vocabulary's single-token words without controls.
    """
    import pandas as pd

    metrics: list[Metric] = []
    rows: list[dict[str, object]] = []
    lines: list[pd.DataFrame] = []
    for framing in FRAMINGS:
        slopes, n, line = _fit(context, framing, CONTROLS)
        metrics += [
            _metric(slope, n, slice_name(controls=name, framing=framing))
            for name, slope in slopes.items()
        ]
        rows += [{"framing": framing, **slope.row} for slope in slopes.values()]
        lines.append(line.assign(framing=framing))
        if framing == "positive":
            metrics.append(_overall(list(slopes.values()), n))
        beside, n, _ = _fit(context, framing, {"none": ()}, vocabulary=True)
        where = slice_name(controls="none", framing=framing, words="vocabulary")
        metrics += [_metric(slope, n, where) for slope in beside.values() if n >= 500]
    line = pd.concat(lines, ignore_index=True)
    return AuditResult(tuple(metrics), {"models": pd.DataFrame(rows), "bins": line}, _figures(line))


def _metric(slope: _Slope, n: int, where: str) -> Metric:
    return frequency.metric(
        "zipf_slope", slope.value, n, slice=where, ci=(slope.low, slope.high),
        noise_floor=slope.floor,
    )  # fmt: skip


def _overall(slopes: list[_Slope], n: int) -> Metric:
    nearest = min(slopes, key=lambda slope: abs(slope.value))
    floors = [slope.floor for slope in slopes if slope.floor is not None]
    return frequency.metric(
        "zipf_slope", nearest.value, n,
        ci=(min(slope.low for slope in slopes), max(slope.high for slope in slopes)),
        noise_floor=max(floors, default=None),
    )  # fmt: skip


def _fit(
    context: Context,
    framing: Framing,
    controls: dict[str, tuple[str, ...]],
    *,
    vocabulary: bool = False,
) -> tuple[dict[str, _Slope], int, pd.DataFrame]:
    """The slopes by control set, the words of zipf 2 to 6, and mean scores by frequency."""
    import numpy as np

    found = word_scores(context, framing, without=NOT_GENERAL, vocabulary=vocabulary)
    known = covariates(found)
    usable = known["zipf"] > 0
    if not vocabulary:
        lexicon = lexicon_of(context)
        # NaN, not zero: a word that the lexicon doesn't know has no valence to control for.
        known["valence"] = np.array(
            [v if (v := lexicon.score(word)) is not None else np.nan for word in found.words],
            dtype=np.float64,
        )
        usable &= np.isfinite(known["valence"])
    words = found.keep(usable)
    columns = {name: values[usable] for name, values in known.items()}
    n = int(((columns["zipf"] >= 2) & (columns["zipf"] <= 6)).sum())
    slopes = {
        name: _slope(context, words.z, {k: columns[k] for k in ("zipf", *extra)}, name)
        for name, extra in controls.items()
    }
    return slopes, n, _bins(columns["zipf"], words.z)


def _slope(context: Context, z: Floats, columns: dict[str, Floats], name: str) -> _Slope:
    import numpy as np

    from pessimal.statistics.bootstrap import (
        in_batches,
        percentile_interval,
        prompt_weights,
        resample_counts,
    )
    from pessimal.statistics.distribution import noise_floor
    from pessimal.statistics.effects import weighted_moments
    from pessimal.statistics.regression import coefficient_replicates, make_design, ols

    design = make_design(columns)
    row: dict[str, object] = {
        "controls": name, "covariates": " ".join(design.names),
        "dropped": " ".join(design.dropped), "words": len(z), "prompts": z.shape[1],
        "vif_zipf": design.vif.get("zipf", float("nan")),
    }  # fmt: skip
    if "zipf" not in design.names or z.shape[1] == 0 or len(z) <= design.matrix.shape[1]:
        nan = float("nan")
        return _Slope(nan, nan, nan, None, {**row, "slope": nan, "hc3_error": nan})
    rng = np.random.default_rng(context.seed)
    total = 2000 if len(z) < MANY_WORDS else 1000
    parts = []
    for size in in_batches(total, len(z)):
        counts = resample_counts(rng, len(z), size)
        # A resample is standardised anew: a slope moves with the SD that it is a share of.
        spread = np.sqrt(weighted_moments(z, counts)[2])
        with np.errstate(divide="ignore", invalid="ignore"):
            parts.append(coefficient_replicates(z, design, counts)[:, 1] / spread)
    draws = np.concatenate(parts)
    fit = ols(np.column_stack([z, z.mean(axis=1)]), design)
    by_prompt = fit.coefficients["zipf"][:-1]
    low, high = percentile_interval((draws * prompt_weights(rng, z.shape[1], total)).sum(axis=1))
    row |= {"slope": float(by_prompt.mean()), "hc3_error": float(fit.errors["zipf"][-1])}
    return _Slope(float(by_prompt.mean()), low, high, noise_floor(by_prompt), row)


def _bins(zipf: Floats, z: Floats) -> pd.DataFrame:
    """Mean score of words in bins of half a decade, with 95 % normal intervals."""
    import numpy as np
    import pandas as pd

    rows = []
    mean = z.mean(axis=1) if z.shape[1] else np.zeros(0)
    bins = (2 * zipf[: len(mean)]).astype(int)
    for k in sorted(set(bins.tolist())):
        inside = mean[bins == k]
        if len(inside) > 1:
            half = 1.96 * float(inside.std(ddof=1)) / len(inside) ** 0.5
            middle = float(inside.mean())
            rows.append((k / 2 + 0.25, middle, middle - half, middle + half, len(inside)))
    return pd.DataFrame(rows, columns=["zipf", "z", "low", "high", "n"])


def _figures(line: pd.DataFrame) -> tuple[Figure, ...]:
    n = int(line.loc[line["framing"] == "positive", "n"].sum()) if len(line) else 0
    return (
        Figure(
            "frequency", "Do common words score higher?", "lines", "bins", x="zipf", y="z",
            group="framing", low="low", high="high", x_label="zipf (log10 per 10^9 words)",
            y_label="score (SD of the words)",
            caption=f"{n} words with a valence, in bins of half a decade; 95 % intervals.",
        ),
    )  # fmt: skip
