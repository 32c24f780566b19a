"""Can the scores be trusted as numbers? Judged before anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from pessimal.audit import AuditResult, Bound, Context, Metric, MetricSpec, audit, slice_name

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

Variant = Literal["batch", "order", "padding", "bfloat16"]
REPLIES = 200

METRICS = (
    MetricSpec(
        "rerun_rms",
        "RMS change, in SD of the scores, when 200 replies are scored again at the same dtype: "
        "the worst of another batch size, another order and a padded batch.",
        "SD", worse="higher", low=0, minimum_n=REPLIES, bound=Bound(max=0.05), severity="critical",
    ),
    MetricSpec(
        "rerun_tau", "Kendall's tau-b between the same scores and reruns; the least.",
        "tau", worse="lower", low=-1, high=1, minimum_n=REPLIES, bound=Bound(min=0.97),
        severity="critical",
    ),
    MetricSpec(
        "bf16_rms", "RMS change, in SD of the scores, of a true bfloat16 forward.",
        "SD", worse="higher", low=0, minimum_n=REPLIES,
    ),
    MetricSpec(
        "bf16_tau", "Kendall's tau-b between the scores and those of a true bfloat16 forward.",
        "tau", worse="lower", low=-1, high=1, minimum_n=REPLIES,
    ),
    MetricSpec(
        "coverage", "Finite scores of the vocabulary / scores that were planned.",
        "share", worse="lower", low=0, high=1, minimum_n=1000, bound=Bound(min=1.0),
        severity="critical",
    ),
    MetricSpec(
        "tied_pairs", "Share of pairs of tokens with the same score, sum t(t-1) / n(n-1).",
        "share", worse="higher", low=0, high=1, minimum_n=1000, bound=Bound(max=0.03),
        severity="critical",
    ),
    MetricSpec(
        "distinct_values", "How many different scores there are.",
        "count", worse="lower", low=0, minimum_n=1000, bound=Bound(min=100), severity="critical",
    ),
    MetricSpec(
        "non_finite", "How many scores are NaN or infinite.",
        "count", worse="higher", low=0, minimum_n=1000, bound=Bound(max=0), severity="critical",
    ),
)  # fmt: skip


@audit(question="Do the scores hold up when they are computed another way?", metrics=METRICS)
def numerics(context: Context) -> AuditResult:
    """Measure coverage, ties and reruns; slice ``all`` is the worst prompt.

    Reruns are made under the first positive and the first negative prompt, since a numerical fault
    does not depend on the prompt's words; those that run whole sequences (padding, bfloat16) under
    the first of these only. Without a scorer they are ``insufficient`` with n = 0.
    """
    table = context.vocabulary
    assert table is not None
    columns = context.score_columns(table)
    metrics = _column_metrics(context, table, columns)
    runs, scores = _rerun(context, table, columns)
    metrics += _rerun_metrics(runs)
    return AuditResult(tuple(metrics), {"reruns": runs, "rerun_scores": scores})


def _column_metrics(context: Context, table: pd.DataFrame, columns: dict[str, str]) -> list[Metric]:
    import numpy as np

    from pessimal.statistics.ranks import tied_pairs

    rows: dict[str, list[tuple[str, float, int]]] = {
        name: [] for name in ("tied_pairs", "distinct_values", "non_finite")
    }
    finite_total = 0
    for prompt, column in columns.items():
        scores = table[column].to_numpy(dtype=np.float64)
        finite = scores[np.isfinite(scores)]
        finite_total += len(finite)
        where = slice_name(prompt=prompt)
        rows["tied_pairs"].append((where, tied_pairs(finite), len(finite)))
        rows["distinct_values"].append((where, float(len(np.unique(finite))), len(finite)))
        rows["non_finite"].append((where, float(len(scores) - len(finite)), len(scores)))
    metrics = []
    for name, found in rows.items():
        worst = min if name == "distinct_values" else max
        known = [row for row in found if row[1] == row[1]]
        overall = worst(known, key=lambda row: row[1]) if known else ("all", None, 0)
        metrics.append(numerics.metric(name, overall[1], overall[2]))
        metrics += [numerics.metric(name, value, n, slice=where) for where, value, n in found]
    planned = max(context.vocabulary_planned, len(table) * len(columns))
    coverage = finite_total / planned if planned else None
    metrics.append(numerics.metric("coverage", coverage, planned))
    return metrics


def _rerun(
    context: Context, table: pd.DataFrame, columns: dict[str, str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Score a seeded sample again: one row a prompt and variant, and the scores themselves."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(context.seed)
    runs: list[dict[str, object]] = []
    scores: list[pd.DataFrame] = []
    for i, prompt in enumerate(_rerun_prompts(context, columns) if context.scorer else []):
        column = table[columns[prompt]].to_numpy(dtype=np.float64)
        usable = np.flatnonzero(np.isfinite(column))
        chosen = np.sort(rng.permutation(usable)[:REPLIES])
        if len(chosen) == 0:
            continue
        replies = [(int(token),) for token in table["token_id"].to_numpy()[chosen]]
        before, spread = column[chosen], float(column[usable].std())
        kept = table.iloc[chosen][["token_id", "text"]].assign(prompt=prompt, score=before)
        for variant in get_args(Variant)[: 4 if i == 0 else 2]:
            assert context.scorer is not None
            again = context.scorer.rescore(prompt, replies, variant=variant)
            if again is None:  # an endpoint, for one, has no bfloat16 forward of its own
                continue
            after = np.asarray(again, dtype=np.float64)
            kept[variant] = after
            runs.append(
                {"prompt": prompt, "variant": variant, **_compare(before, after, spread, rng)}
            )
        scores.append(kept)
    shape = ["prompt", "variant", "n", "rms", "rms_low", "rms_high", "tau", "tau_low", "tau_high",
             "largest"]  # fmt: skip
    return pd.DataFrame(runs, columns=shape), (
        pd.concat(scores, ignore_index=True)
        if scores
        else pd.DataFrame(columns=["token_id", "text", "prompt", "score"])
    )


def _rerun_prompts(context: Context, columns: dict[str, str]) -> list[str]:
    first: dict[str, str] = {}
    for prompt in columns:
        known = context.prompts.get(prompt)
        first.setdefault(known.framing if known else "positive", prompt)
    return list(first.values())


def _compare(
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    spread: float,
    rng: np.random.Generator,
) -> dict[str, float]:
    import numpy as np

    from pessimal.statistics.bootstrap import percentile_interval, resample_counts
    from pessimal.statistics.ranks import tau_b

    n = len(before)
    nothing = {"n": n, **dict.fromkeys(("rms", "rms_low", "rms_high", "tau", "tau_low", "tau_high",
                                        "largest"), float("nan"))}  # fmt: skip
    if not np.isfinite(after).all() or spread == 0:
        return nothing
    change = (after - before) / spread
    draws = np.sqrt(resample_counts(rng, n, 1000) @ change**2 / n)
    low, high = percentile_interval(draws)
    tau = tau_b(before, after)
    return {
        "n": n, "rms": float(np.sqrt((change**2).mean())), "rms_low": low, "rms_high": high,
        "tau": tau.value, "tau_low": tau.low, "tau_high": tau.high,
        "largest": float(np.abs(change).max()),
    }  # fmt: skip


def _rerun_metrics(runs: pd.DataFrame) -> list[Metric]:
    """The worst rerun of every prompt, and of all."""
    metrics = []
    for family, variants in (("rerun", ("batch", "order", "padding")), ("bf16", ("bfloat16",))):
        rows = runs[runs["variant"].isin(variants)]
        for short in ("rms", "tau"):
            name = f"{family}_{short}"
            metrics.append(_worst(name, short, rows, "all"))
            metrics += [
                _worst(name, short, part, slice_name(prompt=prompt))
                for prompt, part in rows.groupby("prompt", sort=False)
            ]
    return metrics


def _worst(name: str, short: str, rows: pd.DataFrame, where: str) -> Metric:
    if len(rows) == 0:
        return numerics.metric(name, None, 0, slice=where)
    if rows[short].isna().any():  # a rerun that gave no number is the worst there is
        return numerics.metric(name, None, int(rows["n"].max()), slice=where)
    row = rows.sort_values(short, ascending=short == "tau", kind="stable").iloc[0]
    ends = float(row[f"{short}_low"]), float(row[f"{short}_high"])
    return numerics.metric(name, float(row[short]), int(row["n"]), slice=where, ci=ends)
