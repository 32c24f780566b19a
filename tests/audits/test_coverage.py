"""Auditing the auditor: intervals cover what was planted, rules fire when they should."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from pessimal.audit import Context, Metric
from pessimal.lexicons import valence, zipf
from tests.audits.simulate import make_prompts, make_words
from tests.audits.test_contract import AUDITS

RUNS = int(os.environ.get("PESSIMAL_COVERAGE_RUNS", "100"))
FULL_RUNS = 1000
SLACK = 0.0 if RUNS >= FULL_RUNS else 2.5
"""Standard errors that a share may be off by; at the full number of runs, none."""
PROMPTS = 3
WORD_SD = float(
    np.hypot(1.0, 0.2)
)  # a word's own taste and the rewording, as `make_words` has them

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def simulate(audit: str, runs: int = RUNS, **planted: float) -> list[dict[tuple[str, str], Metric]]:
    """What an audit finds in many models with the same planted effect."""
    found = []
    for seed in range(runs):
        words = make_words(seed, each=PROMPTS, **planted)
        context = Context(prompts=make_prompts(PROMPTS), seed=seed, words=words)
        metrics = AUDITS[audit].function(context).metrics
        found.append({(m.name.removeprefix(f"{audit}."), m.slice): m for m in metrics})
    return found


def between(share: float, low: float, high: float) -> bool:
    """Whether a share over the runs lies in a range, but for chance in fewer runs."""
    error = np.sqrt(0.05 * 0.95 / RUNS)
    return bool(low - SLACK * error <= share <= high + SLACK * error)


def coverage(metrics: list[Metric], truth: float) -> float:
    return float(np.mean([m.ci_low <= truth <= m.ci_high for m in metrics]))


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


def test_a_planted_identity_shift_is_covered():
    shift = -0.5
    truth = float(norm.cdf(shift / (np.sqrt(2) * WORD_SD)) - 0.5)
    found = simulate("identity", valence_slope=0.0, identity_shift=shift)
    for where in ("all", "words=unambiguous"):
        assert between(coverage([f["gap", where] for f in found], truth), 0.92, 0.975)
    axes = [key for key in found[0] if key[0] == "gap" and key[1].startswith("axis=")]
    joint = [all(f[key].ci_low <= truth <= f[key].ci_high for key in axes) for f in found]
    assert between(float(np.mean(joint)), 0.92, 0.985)


@pytest.mark.parametrize(("gap", "low", "high"), [(-0.10, 0.0, 0.05), (-0.20, 0.80, 1.0)])
def test_the_identity_rule_fails_when_it_should(gap: float, low: float, high: float):
    shift = float(norm.ppf(0.5 + gap)) * np.sqrt(2) * WORD_SD
    found = simulate("identity", valence_slope=0.0, identity_shift=shift)
    # Wholly beyond the bound, and by more than the noise floor: what makes a rule FAIL.
    metrics = [f["gap", "all"] for f in found]
    fails = [m.ci_high < -0.10 and -0.10 - m.value > m.noise_floor for m in metrics]
    assert between(float(np.mean(fails)), low, high)


def test_a_planted_valence_effect_is_covered():
    slope, words = 0.4, general_words().dropna(subset="exact")
    up, down = (words[words["exact"] * sign > 0]["planted"] for sign in (1, -1))
    pooled = ((len(up) - 1) * up.var() + (len(down) - 1) * down.var()) / (len(words) - 2)
    truth = slope * (up.mean() - down.mean()) / np.sqrt(slope**2 * pooled + WORD_SD**2)
    found = simulate("framing", valence_slope=slope, reversal=0.6)
    assert between(coverage([f["d_pos", "all"] for f in found], truth), 0.92, 0.975)
    pooled_below = np.sqrt((0.6 * slope) ** 2 * pooled + WORD_SD**2)
    below = -0.6 * slope * (up.mean() - down.mean()) / pooled_below
    assert between(coverage([f["reversal", "all"] for f in found], -below / truth), 0.92, 0.975)


def test_an_ignored_framing_never_passes_and_a_turned_head_fails():
    ignored = simulate("framing", min(RUNS, 200), valence_slope=0.5, reversal=-1.0)
    assert all(f["reversal", "all"].ci_high < 0.5 for f in ignored)
    turned = simulate("framing", min(RUNS, 200), valence_slope=-0.5)
    assert all(f["d_pos", "all"].ci_high < 0.5 for f in turned)
    random = simulate("framing", min(RUNS, 200), valence_slope=0.0)
    assert not any(f["d_pos", "all"].ci_low > 0.5 for f in random)


def test_a_planted_frequency_slope_is_covered():
    slope, words = 0.3, general_words().dropna(subset="valence")
    spread = float(np.hypot(slope * words["zipf"].std(ddof=0), WORD_SD))
    found = simulate("frequency", valence_slope=0.0, zipf_slope=slope)
    for name in ("none", "valence", "full"):
        where = f"controls={name},framing=positive"
        assert between(
            coverage([f["zipf_slope", where] for f in found], slope / spread), 0.92, 0.98
        )
