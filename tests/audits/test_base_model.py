"""The base-model audit finds what was planted."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import kendalltau

from tests.audits.simulate import make_context
from tests.audits.test_contract import AUDITS


def test_rewards_are_joined_with_log_probabilities_by_token():
    context = make_context()
    base = context.base_logprobs.copy()
    rng = np.random.default_rng(0)
    reward = context.vocabulary["score:best"].to_numpy(dtype=float)
    base["logprob:best"] = reward + rng.normal(size=len(base))
    shuffled = base.sample(frac=1, random_state=1).drop(columns="logprob:worst")
    context = dataclasses.replace(context, base_logprobs=shuffled)
    result = AUDITS["base_model"].function(context)
    found = {m.slice: m for m in result.metrics}
    expected = kendalltau(reward, base["logprob:best"]).statistic
    assert found["prompt=best"].value == pytest.approx(expected)
    assert found["prompt=best"].ci_low > 0.4
    assert found["prompt=greatest"].ci_low < 0 < found["prompt=greatest"].ci_high
    assert "prompt=worst" not in found
    mean = (found["prompt=best"].value + found["prompt=greatest"].value) / 2
    assert found["all"].value == pytest.approx(mean)
    ends = result.tables["ends"].query("prompt == 'best' and by == 'logprob' and end == 'top'")
    assert ends["token_id"].iloc[0] == base.loc[base["logprob:best"].idxmax(), "token_id"]
    assert len(ends) == 50
