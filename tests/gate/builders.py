"""Specs, metrics and audits of a run that passes, for tests to break."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pessimal.audit import Bound, Metric, MetricSpec
from pessimal.gate import AuditStatus, Judgement, Policy, Rule, judge, load_policy

# Small policies over the metrics below; the project's own are tested in test_shipped.py.
EXPECTATIONS = Path(__file__).parent / "expectations"
AUDITS = ("identity", "numerics", "vocabulary")
RAN = tuple(AuditStatus(name, "RUN") for name in AUDITS)
MODEL, REVISION = "org/model", "a" * 40


def spec(name: str, worse: Any, low: float | None = None, high: float | None = None,
         minimum_n: int = 1, **more: Any) -> MetricSpec:  # fmt: skip
    return MetricSpec(name, "a definition", "unit", worse, low, high, minimum_n, **more)


SPECS = {
    "numerics.rerun_rms": spec("rerun_rms", "higher", 0, None, 200),
    "numerics.rerun_tau": spec("rerun_tau", "lower", -1, 1, 200),
    "numerics.coverage": spec("coverage", "lower", 0, 1, 1000),
    "numerics.tied_pairs": spec("tied_pairs", "higher", 0, 1, 1000),
    "numerics.distinct_values": spec("distinct_values", "lower", 0, None, 1000),
    "numerics.non_finite": spec("non_finite", "higher", 0, None, 1000),
    "vocabulary.quantile_skew": spec("quantile_skew", "both", -1, 1, 1000),
    "vocabulary.mean": spec("mean", "neither"),
    "identity.gap": spec("gap", "lower", -1, 1, 48),
    "identity.new": spec("new", "higher", 0, 1, 1, bound=Bound(max=0.25), severity="critical"),
}

METRICS = (
    Metric("numerics.rerun_rms", 1e-6, 300),
    Metric("numerics.rerun_tau", 0.999, 300),
    Metric("numerics.coverage", 1.0, 3000),
    Metric("numerics.tied_pairs", 0.001, 3000),
    Metric("numerics.distinct_values", 2990.0, 3000),
    Metric("numerics.non_finite", 0.0, 3000),
    Metric("vocabulary.quantile_skew", 0.1, 3000, ci_low=0.05, ci_high=0.15, noise_floor=0.01),
    Metric("vocabulary.mean", -3.0, 3000),
    Metric("identity.gap", -0.05, 64, ci_low=-0.08, ci_high=-0.02, noise_floor=0.01),
    Metric("identity.gap", -0.15, 50, slice="axis=age", ci_low=-0.19, ci_high=-0.12),
    Metric("identity.new", 0.1, 64, ci_low=0.05, ci_high=0.2),
)


def shipped(name: str = "default") -> Policy:
    """A policy over the metrics above, laid out as the project's are."""
    return load_policy(name, EXPECTATIONS, SPECS, AUDITS)


def write_policy(folder: Path, text: str, name: str = "mine") -> Policy:
    """Load a policy with this text."""
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return load_policy(name, folder, SPECS, AUDITS)


def rule(metric: str = "identity.gap", slice: str = "all", severity: Any = "critical",
         **bound: float) -> Rule:  # fmt: skip
    return Rule(
        metric, slice, Bound(**(bound or {"min": -0.1})), severity, "because", "mine.yaml:7", 7
    )


def policy(*rules: Rule, required: tuple[str, ...] = ()) -> Policy:
    return Policy("mine", Path("mine.yaml"), "0" * 64, required, rules, "mine.yaml:1")


def changed(name: str, slice: str = "all", /, **fields: Any) -> tuple[Metric, ...]:
    """The metrics with one of them changed."""
    assert any((one.name, one.slice) == (name, slice) for one in METRICS)
    return tuple(
        replace(one, **fields) if (one.name, one.slice) == (name, slice) else one
        for one in METRICS
    )  # fmt: skip


def run(under: Policy | None = None, metrics: Any = METRICS, audits: Any = RAN,
        **settings: Any) -> Judgement:  # fmt: skip
    """Judge a run; the one that passes, unless something is changed."""
    settings = {"model_id": MODEL, "revision": REVISION, **settings}
    return judge(under or shipped(), metrics, audits, SPECS, **settings)
