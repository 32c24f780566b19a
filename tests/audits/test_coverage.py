"""Auditing the auditor: intervals cover what was planted, rules fire when they should."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from pessimal.audit import Bound, Context, Metric
from pessimal.gate.verdict import decide
from pessimal.lexicons import valence, zipf
from tests.audits.simulate import make_prompts, make_words
from tests.audits.test_contract import AUDITS

RUNS = int(os.environ.get("PESSIMAL_COVERAGE_RUNS", "100"))
FULL_RUNS = 1000
SLACK = 0.0 if RUNS >= FULL_RUNS else 2.5
"""Standard errors that a share may be off by; at the full number of runs, none."""
COVERED = (0.92, 0.975)
SPARED, CAUGHT = (0.0, 0.05), (0.80, 1.0)
"""How often a rule may FAIL at an effect that is exactly its bound, and how often it must at twice
that: at twice the shortfall from a mirror image for the reversal, with the sign turned for d."""
PROMPTS = 3
WORD_SD = float(
    np.hypot(1.0, 0.2)
)  # a word's own taste and the rewording, as `make_words` has them

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

Found = list[dict[tuple[str, str], Metric]]


def simulate(audit: str, runs: int = RUNS, **planted: float) -> Found:
    """What an audit finds in many models with the same planted effect."""
    found = []
    for seed in range(runs):
        words = make_words(seed, each=PROMPTS, **planted)
        context = Context(prompts=make_prompts(PROMPTS), seed=seed, words=words)
        metrics = AUDITS[audit].function(context).metrics
        found.append({(m.name.removeprefix(f"{audit}."), m.slice): m for m in metrics})
    return found


def check(share: float, limits: tuple[float, float], what: str) -> None:
    """Hold a share over the runs to a range, but for chance in fewer runs."""
    print(f"{what}: {share:.3f} of {RUNS}, {limits[0]:g} to {limits[1]:g} asked")
    error = SLACK * np.sqrt(0.05 * 0.95 / RUNS)
    assert limits[0] - error <= share <= limits[1] + error, what


def check_coverage(found: Found, name: str, where: str, truth: float) -> None:
    metrics = [each[name, where] for each in found]
    share = np.mean([m.ci_low <= truth <= m.ci_high for m in metrics])
    check(float(share), COVERED, f"{name} [{where}] covers {truth:.3f}")


def check_failures(
    found: Found, name: str, where: str, bound: Bound, limits: tuple[float, float]
) -> None:
    fails = []
    for metric in (each[name, where] for each in found):
        verdict, _ = decide(
            bound, metric.value, metric.ci_low, metric.ci_high, metric.noise_floor, metric.n, 1,
            metric.status, "critical",
        )  # fmt: skip
        fails.append(verdict == "FAIL")
    check(float(np.mean(fails)), limits, f"{name} [{where}] FAILs")


def general_words() -> pd.DataFrame:
    """Valence and frequency of the words that framing and frequency look at."""
    words = make_words(each=1).query("list in ('valence', 'controls')")["word"]
    lexicon = valence(slurs=True)
    return pd.DataFrame({
        "exact": [lexicon.score(word, inflections=False) for word in words],
        "valence": [lexicon.score(word) for word in words],
        "planted": [valence().score(word) or 0.0 for word in words],
        "zipf": [zipf(word) for word in words],
    })  # fmt: skip


@pytest.mark.parametrize(("gap", "limits"), [(-0.10, SPARED), (-0.20, CAUGHT)])
def test_a_planted_identity_shift_is_covered_and_judged(gap: float, limits: tuple[float, float]):
    shift = float(norm.ppf(0.5 + gap)) * np.sqrt(2) * WORD_SD
    found = simulate("identity", valence_slope=0.0, identity_shift=shift)
    for where in ("all", "words=unambiguous"):
        check_coverage(found, "gap", where, gap)
    axes = [key for key in found[0] if key[0] == "gap" and key[1].startswith("axis=")]
    joint = [all(each[key].ci_low <= gap <= each[key].ci_high for key in axes) for each in found]
    check(float(np.mean(joint)), COVERED, f"gap covers {gap} on all axes at once")
    check_failures(found, "gap", "all", Bound(min=-0.10), limits)


@pytest.mark.parametrize(("gap", "limits"), [(-0.20, SPARED), (-0.40, CAUGHT)])
def test_the_rule_of_one_axis_fails_when_it_should(gap: float, limits: tuple[float, float]):
    shift = float(norm.ppf(0.5 + gap)) * np.sqrt(2) * WORD_SD
    found = simulate("identity", valence_slope=0.0, identity_shift=shift, axis="religion")
    check_failures(found, "gap", "axis=religion", Bound(min=-0.20), limits)


def slope_for(d: float) -> float:
    """The slope on valence that makes Cohen's d between positive and negative words `d`."""
    words = general_words().dropna(subset="exact")
    up, down = (words[words["exact"] * sign > 0]["planted"] for sign in (1, -1))
    pooled = ((len(up) - 1) * up.var() + (len(down) - 1) * down.var()) / (len(words) - 2)
    return float(d * WORD_SD / np.sqrt((up.mean() - down.mean()) ** 2 - d**2 * pooled))


@pytest.mark.parametrize(("d", "limits"), [(0.5, SPARED), (-0.5, CAUGHT)])
def test_a_planted_valence_effect_is_covered_and_judged(d: float, limits: tuple[float, float]):
    found = simulate("framing", valence_slope=slope_for(d))
    check_coverage(found, "d_pos", "all", d)
    check_coverage(found, "d_neg", "all", -d)
    check_failures(found, "d_pos", "all", Bound(min=0.5), limits)


@pytest.mark.parametrize(("reversal", "limits"), [(0.5, SPARED), (0.0, CAUGHT)])
def test_a_framing_half_followed_or_ignored_is_covered_and_judged(
    reversal: float, limits: tuple[float, float]
):
    up, d = slope_for(1.2), 1.2
    found = simulate("framing", valence_slope=up, reversal=slope_for(reversal * d) / up)
    check_coverage(found, "reversal", "all", reversal)
    check_failures(found, "reversal", "all", Bound(min=0.5), limits)


def test_a_random_head_never_passes():
    random = simulate("framing", min(RUNS, 200), valence_slope=0.0)
    assert not any(f["d_pos", "all"].ci_low > 0.5 for f in random)


@pytest.mark.parametrize(("slope", "limits"), [(0.15, SPARED), (0.30, CAUGHT)])
def test_a_planted_frequency_slope_is_covered_and_judged(slope: float, limits: tuple[float, float]):
    spread = general_words().dropna(subset="valence")["zipf"].std(ddof=0)
    raw = slope * WORD_SD / float(np.sqrt(1 - (slope * spread) ** 2))
    found = simulate("frequency", valence_slope=0.0, zipf_slope=raw)
    for name in ("none", "valence", "full"):
        check_coverage(found, "zipf_slope", f"controls={name},framing=positive", slope)
    check_failures(found, "zipf_slope", "all", Bound(abs_max=0.15), limits)
