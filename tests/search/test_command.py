"""``pessimal search`` from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pessimal.models.scorer import Scorer
from pessimal.models.slot import find_slot
from tests.builders import build_model
from tests.cli.runner import call
from tests.models.opening import loaded

Capture = pytest.CaptureFixture[str]
PROMPT = "What is the best thing?"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_model(tmp_path_factory.mktemp("models") / "tiny", "llama")


def searched(capsys: Capture, model: Path, *flags: object) -> dict[str, Any]:
    outcome = call(capsys, "search", "--model", model, "--prompt", PROMPT, "--json", *flags)
    assert outcome.code == 0, outcome.err
    return outcome.document


def test_the_document_has_what_the_contract_says(capsys: Capture, model: Path) -> None:
    document = searched(capsys, model, "--length", 3, "--budget", 900)
    assert document["schema"] == "pessimal.search/1"
    assert {
        "method", "seed", "best", "trajectory", "forward_tokens", "evaluations", "certificate",
    } <= document.keys()  # fmt: skip
    assert {"token_ids", "text", "reward", "as_text_reward"} <= document["best"].keys()
    assert {"forward_tokens", "reward"} <= document["trajectory"][0].keys()
    assert document["method"] == "gcg"
    assert 0 < document["forward_tokens"] <= 900
    assert document["trajectory"][-1]["reward"] == document["best"]["reward"]
    assert document["tokens"]["excluded"]["special"] == 5


def test_the_best_reply_scores_what_is_said_by_ids_and_as_text(
    capsys: Capture, model: Path
) -> None:
    best = searched(capsys, model, "--budget", 900, "--direction", "pessimal")["best"]
    opened = loaded(model)
    scorer, slot = Scorer(opened), find_slot(opened.source, PROMPT)
    assert best["reward"] == pytest.approx(scorer.reference(slot, best["token_ids"]), abs=1e-4)
    rendered = slot.rendered.replace("<reply>", best["text"])
    ids = opened.tokenizer(rendered, add_special_tokens=False)["input_ids"]
    whole = scorer.score_sequences(slot, [ids])[0]
    assert best["as_text_reward"] == pytest.approx(whole, abs=1e-4)
    expected = [*slot.prefix_ids, *best["token_ids"], *slot.suffix_ids]
    assert best["as_text_same"] == (ids == expected)


def test_the_same_seed_gives_the_same_document(
    capsys: Capture, model: Path, tmp_path: Path
) -> None:
    flags = ("--budget", 700, "--length", 4, "--seed", 3, "--cache")
    one, two = (searched(capsys, model, *flags, tmp_path / name) for name in "ab")
    kept = ("best", "trajectory", "forward_tokens", "evaluations", "backward_passes", "stopped")
    assert {key: one[key] for key in kept} == {key: two[key] for key in kept}
    other = searched(capsys, model, *flags, tmp_path / "a", "--seed", 4)
    assert other["trajectory"] != one["trajectory"]


def test_a_finished_search_is_not_run_again(
    capsys: Capture, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pessimal.search.model import TorchReplyModel

    flags = ("--budget", 500, "--cache", tmp_path)
    first = searched(capsys, model, *flags)
    monkeypatch.setattr(TorchReplyModel, "score", lambda *_: pytest.fail("scored again"))
    again = searched(capsys, model, *flags)
    assert again["trajectory"] == first["trajectory"]


def test_all_tokens_can_be_allowed_and_the_best_certified(capsys: Capture, model: Path) -> None:
    document = searched(
        capsys, model, "--length", 1, "--allow", "all", "--method", "coordinate", "--certify",
        "--budget", 900,
    )  # fmt: skip
    assert document["tokens"]["allowed"] == 300
    assert document["certificate"]["global_optimum"] is True
    opened = loaded(model)
    scores = Scorer(opened).score(find_slot(opened.source, PROMPT), [(n,) for n in range(300)])
    assert document["best"]["token_ids"] == [int(np.argmax(scores))]


@pytest.mark.parametrize(
    ("flags", "code", "error"),
    [
        (("--length", 0), 2, "length_invalid"),
        (("--budget", 20), 2, "budget_too_small"),
        (("--budget", 0), 2, "budget_invalid"),
        (("--method", "exhaustive", "--length", 4), 2, "space_too_large"),
        (("--prompt", "be " * 600), 3, "prompt_too_long"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    capsys: Capture, model: Path, flags: tuple[object, ...], code: int, error: str
) -> None:
    outcome = call(capsys, "search", "--model", model, "--prompt", PROMPT, "--json", *flags)
    assert (outcome.code, outcome.document["error"]) == (code, error)
    assert outcome.document["remedy"]


def test_a_prompt_that_leaves_no_room_for_the_reply_is_refused(
    capsys: Capture, tmp_path: Path
) -> None:
    model = build_model(tmp_path / "short", "llama")
    opened = loaded(model)
    prompt = "be"
    while len(find_slot(opened.source, prompt).prefix_ids) < 508:
        prompt += "?"
    outcome = call(
        capsys, "search", "--model", model, "--prompt", prompt, "--length", 8, "--json"
    )  # fmt: skip
    assert (outcome.code, outcome.document["error"]) == (3, "reply_too_long")


def test_a_model_without_gradients_steps_down_unless_they_were_asked_for(
    capsys: Capture, model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import torch

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("derivative is not implemented")

    monkeypatch.setattr(torch.autograd, "grad", refuse)
    flags = ("--budget", 900, "--cache", tmp_path)
    document = searched(capsys, model, *flags)
    assert document["method"] == "coordinate"
    assert "no gradient" in document["notes"][0]
    outcome = call(
        capsys, "search", "--model", model, "--prompt", PROMPT, "--method", "gcg", "--json", *flags
    )
    assert (outcome.code, outcome.document["error"]) == (3, "no_gradient")


def test_people_are_told_the_reply(capsys: Capture, model: Path) -> None:
    flags = ("--prompt", PROMPT, "--budget", 500, "--certify")
    shown = call(capsys, "search", "--model", model, *flags)
    assert shown.code == 0
    assert "ids" in shown.out
    assert "as text" in shown.out
    assert "forward tokens" in shown.out
    assert "single change is better" in shown.out
