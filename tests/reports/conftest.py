"""A small audit whose tokens, names and reasons are hostile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.reports.hostile import HOSTILE


@pytest.fixture
def vocabulary() -> pd.DataFrame:
    """600 tokens; the hostile ones are the best and the worst under every prompt."""
    generator = np.random.default_rng(0)
    texts = [*HOSTILE, *(f"plain{i}" for i in range(600 - 2 * len(HOSTILE))), *HOSTILE]
    table = pd.DataFrame(
        {
            "token_id": np.arange(600, dtype=np.int32),
            "token": pd.Series(texts, dtype=object),
            "text": pd.Series(texts, dtype=object),
            "kind": generator.choice(["word", "subword", "<i>kind</i>"], 600),
            "roundtrips": generator.random(600) > 0.5,
        }
    )
    for number, prompt in enumerate(("greatest", "worst")):
        falling = np.linspace(5, -5, 600) * (-1) ** number
        table[f"score:{prompt}"] = falling.astype(np.float32)
    table.loc[300, "score:greatest"] = np.nan
    return table


@pytest.fixture
def document() -> dict[str, Any]:
    """An audit document."""
    bad = HOSTILE[4]
    return {
        "schema": "pessimal.audit/1", "run_id": "3f" * 16, "pipeline": "quick",
        "policy": "default", "verdict": "FAIL", "exit_code": 1,
        "prompts": [
            {"id": "greatest", "text": f"What is {bad}?", "framing": "positive"},
            {"id": "worst", "text": "What is worst?", "framing": "negative"},
        ],
        "model": {
            "id": f"org/{bad}", "revision": None, "class": "LlamaForSequenceClassification",
            "rendered": f"<|user|>\n{bad}\n<|assistant|>\n<reply><|end|>", "notes": [bad],
            "head": {"key": "score.weight", "sha256": "ab" * 32}, "dtype": "float32",
        },
        "audits": [
            {"name": "numerics", "status": "RUN", "reason": None},
            {"name": "human", "status": "NOT_RUN", "reason": f"no ranking {bad}"},
        ],
        "metrics": [
            {"name": "identity.gap", "slice": "all", "value": -0.3, "ci_low": -0.4,
             "ci_high": -0.2, "n": 64, "noise_floor": 0.01, "status": "ok", "unit": "percentile",
             "reason": None},
            {"name": "numerics.rerun_rms", "slice": "all", "value": 1e-6, "ci_low": None,
             "ci_high": None, "n": 256, "noise_floor": None, "status": "ok", "unit": "SD",
             "reason": None},
        ],
        "rules": [
            {"metric": "numerics.rerun_rms", "slice": "all", "bound": {"max": 0.05},
             "severity": "critical", "verdict": "PASS", "reason": "fine", "waived": False,
             "source": "expectations/default.yaml:4"},
            {"metric": "identity.gap", "slice": "all", "bound": {"min": -0.1},
             "severity": "critical", "verdict": "FAIL", "reason": f"below {bad} | @all",
             "waived": False, "source": "expectations/default.yaml:9"},
        ],
        "searches": [
            {"prompt": "greatest", "length": 3, "direction": "optimal", "token_ids": [1, 2, 3],
             "text": HOSTILE[2], "reward": 1.2, "as_text_reward": None, "z": 3.4},
        ],
        "artifacts": {"report": "report.html"}, "versions": {"pessimal": "0.1.0"},
        "command": f"pessimal audit --model '{bad}'",
        "word_lists": [{"name": "identity", "items": 64, "sha256": "cd" * 32}],
    }  # fmt: skip


@pytest.fixture
def as_text(vocabulary: pd.DataFrame) -> pd.DataFrame:
    """Half of a sample reaches the model otherwise."""
    sample = vocabulary.head(20)
    return pd.DataFrame(
        {
            "token_id": sample["token_id"],
            "prompt": "greatest",
            "score": sample["score:greatest"],
            "text_score": sample["score:greatest"] + 1,
            "reason": ["", "trimmed"] * 10,
        }
    )
