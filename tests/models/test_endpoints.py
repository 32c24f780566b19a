"""Reward models behind a server: the same scores as from their weights, or a refusal by name."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pessimal.errors import PessimalError
from pessimal.models.endpoints.client import RETRY_FLOOR
from pessimal.models.endpoints.dialects import DIALECTS, read_settings
from pessimal.models.endpoints.scorer import EndpointScorer
from pessimal.models.opening import open_scorer
from pessimal.models.records import ModelRequest
from pessimal.models.scorer import Scorer
from pessimal.models.slot import encode_as_text, find_slot
from pessimal.models.source import open_source
from pessimal.models.vocabulary import vocabulary
from pessimal.scores.store import BlockStore
from pessimal.sweep.runner import SweepOptions, SweepResult, sweep
from tests.builders import build_model
from tests.models.opening import loaded, refusal
from tests.models.serving import PATIENT, RewardServer, serving

PROMPT = "What is the best thing in the world?"
SLIME = {
    "request": {"rendered": "$text", "prompt": "$prompt", "response": "$reply", "label": None},
    "scores": "result.reward", "path": "/rm", "in_flight": 2,
}  # fmt: skip
QUICK = {"backoff_s": 0.001}
ROWS = 16


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("models") / "tiny", "llama", num_hidden_layers=1)


@pytest.fixture(scope="module")
def local(model: Path) -> Scorer:
    return Scorer(loaded(model))


def settings_file(folder: Path, **settings: Any) -> str:
    file = folder / "endpoint.json"
    file.write_text(json.dumps(QUICK | settings))
    return str(file)


def opened_at(server: RewardServer, endpoint: str, cache: Path, **flags: Any) -> EndpointScorer:
    request = ModelRequest(
        model=server.url, endpoint=endpoint, tokenizer=str(server.folder), **flags
    )
    scorer = open_scorer(open_source(request, cache), cache)
    assert isinstance(scorer, EndpointScorer)
    return scorer


def quick(server: RewardServer, cache: Path, settings: dict[str, Any] | None = None, **flags: Any):
    more = {"rows": ROWS} | (settings or {})
    return opened_at(server, settings_file(cache, dialect=server.dialect, **more), cache, **flags)


def refused(server: RewardServer, cache: Path, **flags: Any) -> PessimalError:
    scorer = quick(server, cache, **flags)
    return refusal(scorer.self_test, find_slot(scorer.model.source, PROMPT))


def swept(scorer: EndpointScorer, replies: list[tuple[int, ...]], cache: Path) -> SweepResult:
    slot = find_slot(scorer.model.source, PROMPT)
    return sweep(
        scorer, scorer.model.hashes, slot, replies, BlockStore(cache), prompt_id="best",
        options=SweepOptions(block_rows=64),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "send"),
    [("openrlhf", "text"), ("sglang", "text"), ("sglang", "ids"), ("vllm-classify", "ids"),
     ("vllm-classify", "text"), ("vllm-pooling", "ids"), ("slime", "text")],
)  # fmt: skip
def test_every_dialect_scores_as_the_weights_do(
    model: Path, local: Scorer, dialect: str, send: str, tmp_path: Path
) -> None:
    known = {"dialect": dialect, "rows": ROWS} if dialect != "slime" else SLIME
    with serving(model, dialect) as server:
        scorer = opened_at(server, settings_file(tmp_path, send=send, **known), tmp_path)
        source = scorer.model.source
        slot = find_slot(source, PROMPT)
        test = scorer.self_test(slot)
        assert test.max_difference_sd <= 1e-6
        words = vocabulary(source)
        tokens = words.ids.tolist() if dialect != "slime" else words.ids[::8].tolist()
        replies = [(token,) for token in tokens] + [(40, 41), (42, 43, 44)]
        before = server.requests
        found = scorer.score(slot, replies)
        rows = 1 if dialect == "slime" else ROWS
        assert server.requests - before == math.ceil(len(replies) / rows)
    expected = local.score(slot, replies)
    whole = [encode_as_text(source, PROMPT, source.tokenizer.decode(reply)) for reply in replies]
    if send == "text":
        # What doesn't survive being text has the score of what the server reads instead.
        same = np.array([ids == (*slot.prefix_ids, *r, *slot.suffix_ids)
                         for ids, r in zip(whole, replies, strict=True)])  # fmt: skip
        assert same.mean() > 0.5
        expected[~same] = local.score_sequences(
            slot, [i for i, s in zip(whole, same, strict=True) if not s]
        )
    assert np.abs(found - expected).max() <= 1e-4 * expected.std()
    document = scorer.document(slot, test)
    assert document["gradient"] is False
    assert document["endpoint"]["send"] == send
    assert any("no gradient" in note for note in document["notes"])
    assert any("don't survive" in note for note in document["notes"]) == (send == "text")


def test_whole_sequences_go_there_as_well(model: Path, local: Scorer, tmp_path: Path) -> None:
    for dialect in ("sglang", "vllm-pooling"):
        with serving(model, dialect) as server:
            scorer = quick(server, tmp_path)
            slot = find_slot(scorer.model.source, PROMPT)
            ids = [encode_as_text(scorer.model.source, PROMPT, text) for text in ("love", " a b")]
            found = scorer.score_sequences(slot, ids)
        np.testing.assert_allclose(found, local.score_sequences(slot, ids), atol=1e-5)


def test_a_failing_server_is_asked_again_and_not_stormed(
    model: Path, local: Scorer, tmp_path: Path
) -> None:
    faults = {"share": 0.3, "delay_s": 0.004, "restart_after": 60}
    with serving(model, "vllm-classify", **faults) as server:
        scorer = quick(server, tmp_path, {"rows": 4, "in_flight": 3, **PATIENT})
        scorer.self_test(find_slot(scorer.model.source, PROMPT))
        replies = [(int(token),) for token in vocabulary(scorer.model.source).ids]
        found = swept(scorer, replies, tmp_path)
        asked, retried = scorer.client.requests, scorer.client.retries
        assert server.requests <= asked + retried
        assert retried <= RETRY_FLOOR + asked
        assert server.most_at_once <= 3
        assert scorer.client.interruptions > 0
    expected = local.score(find_slot(scorer.model.source, PROMPT), replies)
    assert found.complete
    assert np.abs(found.scores - expected).max() <= 1e-4 * expected.std()


def test_a_server_that_mostly_fails_is_given_up(model: Path, tmp_path: Path) -> None:
    with serving(model, "sglang") as server:
        scorer = quick(server, tmp_path, {"rows": 1, "tries": 1000, "in_flight": 40})
        slot = find_slot(scorer.model.source, PROMPT)
        scorer.score(slot, [(40,)])
        server.faults.share = 1.0
        error = refusal(scorer.score, slot, [(token,) for token in range(40, 80)])
        assert error.code == "endpoint_failing"
        assert server.requests <= 2 * scorer.client.requests + RETRY_FLOOR + 8


def test_a_killed_sweep_goes_on_and_another_model_never_meets_its_scores(
    model: Path, tmp_path: Path
) -> None:
    other = build_model(tmp_path / "other", "llama", num_hidden_layers=1, seed=5)
    replies = [(token,) for token in range(40, 240)]
    with serving(model, "sglang") as server:
        scorer = quick(server, tmp_path)
        slot = find_slot(scorer.model.source, PROMPT)
        scorer.self_test(slot)
        first = swept(scorer, replies[:128], tmp_path)
        again = quick(server, tmp_path)
        again.self_test(slot)
        assert again.model.revision == scorer.model.revision
        rest = swept(again, replies, tmp_path)
        assert (rest.reused, rest.computed) == (128, 72)
        assert np.array_equal(rest.scores[:128], first.scores)
        server.load(other)
        changed = quick(server, tmp_path)
        changed.self_test(slot)
        assert changed.model.revision != scorer.model.revision
        assert swept(changed, replies, tmp_path).reused == 0
        # The first one is recognised when it is back.
        server.load(model)
        back = quick(server, tmp_path)
        back.self_test(slot)
        assert back.model.revision == scorer.model.revision


def test_another_model_after_a_restart_stops_the_sweep(model: Path, tmp_path: Path) -> None:
    other = build_model(tmp_path / "other", "llama", num_hidden_layers=1, seed=5)
    with serving(model, "sglang") as server:
        scorer = quick(server, tmp_path)
        slot = find_slot(scorer.model.source, PROMPT)
        scorer.self_test(slot)
        server.folder = other
        server.faults.restart_after = server.requests + 3
        error = refusal(swept, scorer, [(token,) for token in range(40, 240)], tmp_path)
    assert error.code == "endpoint_changed"


def sigmoid(scores: list[float]) -> list[Any]:
    return [1 / (1 + math.exp(-score)) for score in scores]


def jitter() -> Any:
    rng = np.random.default_rng(0)
    return lambda scores: [score + 20 * float(rng.normal()) for score in scores]


@pytest.mark.parametrize(
    ("code", "faults"),
    [
        ("endpoint_constant", {"change": lambda scores: [1.0 for _ in scores]}),
        ("endpoint_activation", {"change": sigmoid}),
        ("endpoint_vectors", {"change": lambda scores: [[score] * 8 for score in scores]}),
        ("scores_not_finite", {"change": lambda scores: [math.nan for _ in scores]}),
        ("endpoint_unstable", {"change": jitter()}),
        # Scores that depend on the company they are in, as with padding on the wrong side.
        (
            "endpoint_batches",
            {"change": lambda s: [one + 9 * len(s) * p for p, one in enumerate(s)]},
        ),
        ("endpoint_bos", {"bos": 1}),
        ("endpoint_malformed", {"change": lambda scores: scores[1:]}),
        ("endpoint_denied", {"key": "secret"}),
    ],
)
@pytest.mark.parametrize("dialect", ["sglang", "vllm-classify"])
def test_what_cannot_be_a_reward_is_refused_by_name(
    model: Path, dialect: str, code: str, faults: dict[str, Any], tmp_path: Path
) -> None:
    with serving(model, dialect, **faults) as server:
        error = refused(server, tmp_path)
        assert error.code == code
        assert server.requests < 60


def test_scores_between_0_and_1_can_be_said_to_be_the_models_own(
    model: Path, tmp_path: Path
) -> None:
    with serving(model, "openrlhf", change=sigmoid) as server:
        assert refused(server, tmp_path).code == "endpoint_activation"
        scorer = quick(server, tmp_path, {"bounded": True})
        test = scorer.self_test(find_slot(scorer.model.source, PROMPT))
        assert 0 <= test.found["low"] < test.found["high"] <= 1


def test_local_weights_calibrate_an_endpoint(model: Path, tmp_path: Path) -> None:
    other = build_model(tmp_path / "other", "llama", num_hidden_layers=1, seed=5)
    with serving(model, "openrlhf") as server:
        scorer = quick(server, tmp_path, calibrate_with=str(model))
        slot = find_slot(scorer.model.source, PROMPT)
        found = scorer.document(slot, scorer.self_test(slot))["calibration"]
        assert found["n"] == 48
        assert 0 <= found["max_difference_sd"] <= 1e-4
        assert found["model"] == str(model)
        error = refused(server, tmp_path, calibrate_with=str(other))
        assert error.code == "endpoint_differs"
        assert "BOS" not in error.message
        # OpenRLHF's server doesn't count tokens: only the weights show a BOS too many.
        server.faults.bos = 1
        error = refused(server, tmp_path, calibrate_with=str(model))
        assert error.code == "endpoint_differs"
        assert "one BOS more" in error.message


def test_a_key_is_sent_and_never_shown(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PESSIMAL_ENDPOINT_KEY", "k-very-secret")
    with serving(model, "sglang", key="k-very-secret") as server:
        scorer = quick(server, tmp_path)
        slot = find_slot(scorer.model.source, PROMPT)
        document = scorer.document(slot, scorer.self_test(slot))
        server.faults.key = "another"
        error = refused(server, tmp_path)
        assert error.code == "endpoint_denied"
        assert "***" in error.message
    assert "k-very-secret" not in json.dumps(document) + error.message + error.remedy
    assert "k-very-secret" not in repr(scorer.model)


def test_a_server_that_counts_no_tokens_is_taken_with_a_note(model: Path, tmp_path: Path) -> None:
    for dialect in ("sglang", "vllm-pooling"):
        with serving(model, dialect, counts=False) as server:
            scorer = quick(server, tmp_path)
            test = scorer.self_test(find_slot(scorer.model.source, PROMPT))
        assert test.found["tokens_checked"] is False
        assert any("how many BOS" in note for note in test.notes)


def test_a_key_that_no_header_can_hold_is_refused_unseen(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PESSIMAL_ENDPOINT_KEY", "secret\nX-Other: 1")
    source = url_source("http://127.0.0.1:9", model)
    error = refusal(open_scorer, source, tmp_path)
    assert error.code == "endpoint_key"
    assert "secret" not in error.message


def url_source(url: str, model: Path, **flags: Any) -> Any:
    flags = {"endpoint": "sglang", "tokenizer": str(model)} | flags
    return open_source(ModelRequest(model=url, **flags), model)


def test_flags_that_make_no_sense_are_refused_before_anything_is_asked(
    model: Path, tmp_path: Path
) -> None:
    url = "http://127.0.0.1:9"
    for wrong, code in (
        ({"endpoint": None}, "endpoint_dialect"),
        ({"endpoint": "sglamg"}, "endpoint_dialect"),
        ({"tokenizer": None}, "endpoint_tokenizer"),
        ({"kind": "judge"}, "kind_flags"),
        ({"adapter": "x"}, "kind_flags"),
    ):
        assert refusal(url_source, url, model, **wrong).code == code
    for bad in ("http://me:pass@host/x", "http://host/x?token=1", "http://", "http://host:port/"):
        assert refusal(url_source, bad, model).code == "endpoint_url"
    stray = ModelRequest(model=str(model), endpoint="sglang")
    assert refusal(open_source, stray, tmp_path).code == "kind_flags"
    for text in ("[]", "{", '{"rows": 0}', '{"unknown": 1}', '{"dialect": "x"}', "{}"):
        (tmp_path / "bad.json").write_text(text)
        error = refusal(read_settings, str(tmp_path / "bad.json"))
        assert error.exit_code == 2


def test_plain_http_to_another_machine_is_warned_of(model: Path) -> None:
    assert not url_source("http://127.0.0.1:9", model).notes
    assert not url_source("https://rm.example.org", model).notes
    source = url_source("http://10.1.2.3:8000", model)
    assert source.notes[0].startswith("Warning: 10.1.2.3")
    assert source.id == "http://10.1.2.3:8000/classify"


def test_nobody_there_is_said_at_once(model: Path, tmp_path: Path) -> None:
    with serving(model, "sglang") as server:
        pass
    error = refused(server, tmp_path)
    assert error.code == "endpoint_unreachable"


def test_a_wrong_path_names_itself(model: Path, tmp_path: Path) -> None:
    with serving(model, "sglang") as server:
        server.dialect = "openrlhf"
        scorer = opened_at(server, settings_file(tmp_path, dialect="sglang"), tmp_path)
        error = refusal(scorer.self_test, find_slot(scorer.model.source, PROMPT))
    assert error.code == "endpoint_not_found"
    assert "/classify" in error.message


def test_the_settings_on_the_page_are_understood(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "endpoints.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```json\n(.*?)^```", page, re.M | re.S)
    assert len(examples) == 2
    for place, example in enumerate(examples):
        (tmp_path / f"{place}.json").write_text(example)
        assert read_settings(str(tmp_path / f"{place}.json")).scores
    for dialect in DIALECTS:
        assert f"`{dialect}`" in page
    assert read_settings(str(tmp_path / "0.json")).request["input_ids"] == "$ids"
    assert read_settings(str(tmp_path / "1.json")).single
