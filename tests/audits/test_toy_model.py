"""Every audit works on the scores of a real, tiny reward model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pessimal.audit import AuditResult, Context
from pessimal.lexicons import word_lists
from tests.audits.simulate import make_prompts
from tests.audits.test_contract import AUDITS, check
from tests.builders import build_model

AVAILABLE = {"vocabulary", "words", "scorer"}


@pytest.fixture(scope="module")
def context(tmp_path_factory) -> Context:
    """The toy's vocabulary under one prompt a framing, a quarter of the word lists under three."""
    from pessimal.models.loader import load_model
    from pessimal.models.records import ModelRequest
    from pessimal.models.rescoring import RescoringScorer
    from pessimal.models.scorer import Scorer
    from pessimal.models.slot import find_slot
    from pessimal.models.source import open_source

    folder: Path = tmp_path_factory.mktemp("toy")
    build_model(folder / "model", "llama", vocabulary=1100)
    source = open_source(ModelRequest(str(folder / "model"), device="cpu"), folder / "cache")
    scorer = Scorer(load_model(source))
    prompts = make_prompts(3)
    slots = {name: find_slot(source, prompt.text) for name, prompt in prompts.items()}
    encode = scorer.model.tokenizer
    ids = range(len(encode))
    texts = [encode.decode([i]) for i in ids]
    table = pd.DataFrame({
        "token_id": np.array(ids, dtype=np.int32), "token": encode.convert_ids_to_tokens(list(ids)),
        "text": texts, "kind": ["word" if t.strip().isalpha() else "bytes" for t in texts],
        "roundtrips": True,
    })  # fmt: skip
    words = pd.DataFrame(
        [(w, name) for name, listed in word_lists().items() for w in listed[::4]],
        columns=["word", "list"],
    )
    words["ids"] = [encode.encode(w, add_special_tokens=False) for w in words["word"]]
    for i, (name, slot) in enumerate(slots.items()):
        if i % 3 == 0:
            table[f"score:{name}"] = scorer.score(slot, [(i,) for i in ids])
        words[f"score:{name}"] = scorer.score(slot, [tuple(w) for w in words["ids"]])
    return Context(
        prompts=prompts, seed=0, vocabulary=table, vocabulary_planned=len(table) * 2,
        words=words, scorer=RescoringScorer(scorer, slots),
    )  # fmt: skip


@pytest.fixture(scope="module")
def results(context: Context) -> dict[str, AuditResult]:
    """What every audit finds that needs no input but the model."""
    return {
        name: audit.function(context)
        for name, audit in AUDITS.items()
        if set(audit.needs) <= AVAILABLE
    }


def test_the_toy_model_is_audited(results: dict[str, AuditResult]):
    assert len(results) >= 6
    for name, result in results.items():
        check(AUDITS[name], result)
        assert any(metric.value is not None for metric in result.metrics), name


def test_the_toys_scores_hold_up(results: dict[str, AuditResult]):
    found = {m.name: m for m in results["numerics"].metrics if m.slice == "all"}
    assert found["numerics.rerun_rms"].value < 1e-3
    assert found["numerics.rerun_tau"].value > 0.99
    assert found["numerics.coverage"].value == 1
    assert found["numerics.bf16_rms"].value > found["numerics.rerun_rms"].value
