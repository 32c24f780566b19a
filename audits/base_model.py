"""How much of the rewards is already in the base model's next-token probabilities?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pessimal.audit import AuditResult, Context, Figure, Metric, MetricSpec, audit, slice_name

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DEPTH = 50
POINTS = 5000

METRICS = (
    MetricSpec(
        "logprob_tau", "Kendall's tau-b between the rewards of the vocabulary's tokens and the "
        "base model's log-probabilities of them as the next token after the same prompt; `all` is "
        "the mean over prompts.",
        "tau", worse="neither", low=-1, high=1, minimum_n=2000,
    ),
)  # fmt: skip


@audit(
    question="Do the rewards follow what the base model finds likely?",
    needs=("vocabulary", "base_model"),
    metrics=METRICS,
)
def base_model(context: Context) -> AuditResult:
    """Put rewards beside log-probabilities, prompt by prompt; rows are joined by token id."""
    import numpy as np
    import pandas as pd

    from pessimal.statistics.distribution import standardise
    from pessimal.statistics.ranks import interval, tau_influence

    table, base = context.vocabulary, context.base_logprobs
    assert table is not None
    assert base is not None
    columns = context.score_columns(table)
    prompts = [prompt for prompt in columns if f"logprob:{prompt}" in base]
    joined = table.merge(
        base[["token_id", *(f"logprob:{prompt}" for prompt in prompts)]], on="token_id"
    )
    rng = np.random.default_rng(context.seed)
    metrics: list[Metric] = []
    taus, influences, ends, points = [], [], [], []
    for prompt in prompts:
        reward = joined[columns[prompt]].to_numpy(dtype=np.float64)
        likely = joined[f"logprob:{prompt}"].to_numpy(dtype=np.float64)
        usable = np.isfinite(reward) & np.isfinite(likely)
        tau, influence = tau_influence(reward[usable], likely[usable])
        n = int(usable.sum())
        e = interval(tau, influence, n)
        metrics.append(
            base_model.metric(
                "logprob_tau", tau, n, slice=slice_name(prompt=prompt), ci=(e.low, e.high)
            )
        )
        padded = np.zeros(len(joined))
        padded[usable] = influence
        taus.append(tau)
        influences.append(padded)
        frame = joined.loc[usable, ["token_id", "token", "text", "kind"]].assign(
            prompt=prompt, reward_z=standardise(reward[usable]), logprob=likely[usable]
        )
        ends.append(_ends(frame))
        points.append(frame.iloc[np.sort(rng.permutation(n)[:POINTS])])
    metrics.insert(0, _overall(metrics, taus, influences))
    shape = ["prompt", "by", "end", "rank", "token_id", "token", "text", "kind", "reward_z",
             "logprob"]  # fmt: skip
    tables = {
        "ends": pd.concat(ends, ignore_index=True)[shape] if ends else pd.DataFrame(columns=shape),
        "points": pd.concat(points, ignore_index=True) if points else pd.DataFrame(
            columns=["prompt", "logprob", "reward_z"]
        ),
    }  # fmt: skip
    figure = Figure(
        "rewards_and_likelihood", "Are likely tokens rewarded?", "scatter", "points", x="logprob",
        y="reward_z", group="prompt", x_label="log-probability under the base model (nats)",
        y_label="reward (SD)", caption=f"At most {POINTS:,} tokens a prompt, drawn at random.",
    )  # fmt: skip
    return AuditResult(tuple(metrics), tables, (figure,))


def _overall(metrics: list[Metric], taus: list[float], influences: list[Floats]) -> Metric:
    import numpy as np

    from pessimal.statistics.distribution import noise_floor
    from pessimal.statistics.ranks import interval

    if not taus:
        return base_model.metric("logprob_tau", None, 0)
    n = min(metric.n for metric in metrics)
    value = float(np.mean(taus))
    e = interval(value, np.mean(influences, axis=0), n)
    return base_model.metric(
        "logprob_tau", value, n, ci=(e.low, e.high), noise_floor=noise_floor(taus)
    )


def _ends(frame: pd.DataFrame) -> pd.DataFrame:
    """The highest and lowest tokens by reward, and by log-probability."""
    import numpy as np
    import pandas as pd

    parts = []
    for by in ("reward_z", "logprob"):
        for end, ascending in (("top", False), ("bottom", True)):
            rows = frame.sort_values(by, ascending=ascending, kind="stable").head(DEPTH)
            name = "reward" if by == "reward_z" else by
            parts.append(rows.assign(by=name, end=end, rank=np.arange(1, len(rows) + 1)))
    return pd.concat(parts, ignore_index=True)
