"""``pessimal doctor``: what is known of a model, what it passed, and why it is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from pessimal.models import loader
from pessimal.models.doctor import examine
from pessimal.models.records import ModelRequest
from tests.builders import CHATML, build_model
from tests.cli.runner import call
from tests.models.opening import edit_json, edit_weights, write_template

ORDER = (
    "found", "files", "family", "head", "tokenizer", "reply_slot", "bos", "pad", "vocabulary",
    "as_text", "weights_loaded", "head_loaded", "pooling", "self_test", "scores", "drift",
)  # fmt: skip


pytestmark = pytest.mark.usefixtures("one_thread")


def examined(folder: Path, **flags: Any) -> dict[str, Any]:
    return examine(ModelRequest(model=str(folder), device="cpu", **flags), Path("unused"))


def checks(document: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["status"] for check in document["checks"]}


def test_a_sound_model_passes_every_check(tmp_path: Path) -> None:
    document = examined(build_model(tmp_path, "llama"))
    assert (document["verdict"], document["exit_code"]) == ("OK", 0)
    assert checks(document) == dict.fromkeys(ORDER, "ok")
    assert document["model"]["class"] == "LlamaForSequenceClassification"
    assert document["model"]["head"]["key"] == "score.weight"
    drift = {row["variant"]: row for row in document["drift"]}
    assert set(drift) == {"batch", "order", "padding", "bfloat16"}
    assert drift["batch"]["max_difference"] == drift["order"]["max_difference"] == 0
    assert 0 < drift["padding"]["max_difference_sd"] <= 1e-4
    assert drift["bfloat16"]["max_difference_sd"] > 1e-4
    assert 0 < drift["bfloat16"]["flipped_pairs"] < 0.5


@pytest.mark.parametrize(
    ("family", "marked"),
    [
        ("llama", "<|im_start|>assistant\n⟦reply⟧⟪<|im_end|>⟫"),
        ("deberta-v2", "⟪[CLS]⟫What, in one word, is the greatest thing ever?[SEP]⟦reply⟧[SEP]"),
    ],
)
def test_the_example_marks_the_reply_and_the_pooled_token(
    tmp_path: Path, family: str, marked: str
) -> None:
    document = examined(build_model(tmp_path, family))
    assert document["verdict"] == "OK"
    assert document["example"]["marked"].endswith(marked)


def test_a_template_without_a_suffix_pools_the_reply(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    write_template(tmp_path, "Q: {{ messages[0]['content'] }}\nA:\n{{ messages[1]['content'] }}")
    assert examined(tmp_path)["example"]["marked"].endswith("A:\n⟪⟦reply⟧⟫")


FAULTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "head": ("head_missing", ORDER[:3]),
    "template": ("template_missing", ORDER[:5]),
    "slot": ("template_unstable", ORDER[:5]),
    "leftover": ("weights_unexpected", ORDER[:10]),
    "pad": ("pad_moves_pooling", ORDER[:12]),
    "constant": ("scores_constant", ORDER[:13]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_refused_model_shows_what_it_passed_before(tmp_path: Path, fault: str) -> None:
    build_model(tmp_path, "llama", pad_token_id=4 if fault == "pad" else 0)
    if fault == "head":
        edit_weights(tmp_path, lambda t: t.update({"v_head.weight": t.pop("score.weight")}))
    elif fault == "template":
        (tmp_path / "chat_template.jinja").unlink()
    elif fault == "slot":
        write_template(tmp_path, CHATML.replace("message['content']", "message['content'] | upper"))
    elif fault == "leftover":
        edit_weights(tmp_path, lambda t: t.update({"gate.weight": torch.ones(5, 32)}))
    elif fault == "constant":
        edit_weights(tmp_path, lambda t: t["score.weight"].zero_())
    document = examined(tmp_path)
    code, before = FAULTS[fault]
    assert (document["verdict"], document["exit_code"]) == ("REFUSED", 3)
    assert tuple(check["name"] for check in document["checks"]) == (*before, code)
    last = document["checks"][-1]
    assert last["status"] == "refused"
    assert len(last["detail"].split(". ")) > 1, "the remedy is there too"
    assert document["model"]["id"] == str(tmp_path)
    assert document["drift"] == []


def test_tokens_that_collide_as_text_are_counted(tmp_path: Path) -> None:
    build_model(tmp_path, "llama", vocabulary=1000)
    plain = counts(examined(tmp_path))
    content = "message['content']"
    template = CHATML.replace("{{ bos }}", "{{ bos_token }}")
    write_template(tmp_path, template.replace(content, f"({content} | trim)"))
    trimmed = counts(examined(tmp_path))
    assert plain[0] == trimmed[0] == 512
    assert plain[1] + plain[2] == trimmed[1] + trimmed[2] == 512
    # What was a token behind a space is now the token without it.
    assert trimmed[3] > plain[3]
    assert trimmed[2] > plain[2] > 0


def counts(document: dict[str, Any]) -> list[int]:
    detail = next(check["detail"] for check in document["checks"] if check["name"] == "as_text")
    return [int(number) for number in re.findall(r"\d+", detail)]


def test_what_a_reader_should_look_at_is_a_warning(tmp_path: Path) -> None:
    build_model(tmp_path, "llama", pad_token_id=2)
    document = examined(tmp_path, bos="double")
    found = checks(document)
    assert (found["bos"], found["pad"], document["verdict"]) == ("warning", "warning", "OK")


@pytest.mark.parametrize("moved", [0.5, float("nan")])
def test_drift_in_float32_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: float
) -> None:
    from pessimal.models.rescoring import RescoringScorer

    honest = RescoringScorer.rescore

    def drifting(self: Any, prompt: str, replies: Any, *, variant: Any) -> Any:
        scores = honest(self, prompt, replies, variant=variant)
        return scores + moved if variant == "batch" and scores is not None else scores

    monkeypatch.setattr(RescoringScorer, "rescore", drifting)
    document = examined(build_model(tmp_path, "llama"))
    assert checks(document)["drift"] == "warning"
    assert "batch" in document["checks"][-1]["detail"]
    found = document["drift"][0]["max_difference"]
    assert found == pytest.approx(0.5, abs=1e-4) if moved == 0.5 else found is None


def test_nobody_listens_to_an_ordinary_load(tmp_path: Path) -> None:
    from pessimal.models.steps import listening, passed

    heard: list[tuple[str, str]] = []
    with listening(lambda *found: heard.append(found)):
        passed("a", "b")
    passed("c", "d")
    loader.passed("e", "f")
    assert heard == [("a", "b")]


def test_the_command_prints_facts_example_checks_drift_and_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build_model(tmp_path, "llama")
    edit_json(tmp_path / "config.json", note="<b>\u202e")
    found = call(capsys, "doctor", tmp_path, "--device", "cpu")
    assert found.code == 0
    for part in ("score.weight [1, 32]", "⟦reply⟧⟪<|im_end|>⟫", "self_test", "bfloat16"):
        assert part in found.out
    assert found.out.rstrip().endswith("OK")
    assert call(capsys, "doctor", tmp_path, "--json", "--device", "cpu").document["verdict"] == "OK"


def test_the_command_refuses_with_3_and_wrong_flags_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build_model(tmp_path, "llama", head=False)
    found = call(capsys, "doctor", "--model", tmp_path, "--json")
    assert (found.code, found.document["verdict"]) == (3, "REFUSED")
    assert found.document["schema"] == "pessimal.doctor/1"
    assert "REFUSED" in call(capsys, "doctor", tmp_path).out
    twice = call(capsys, "doctor", tmp_path, "--model", tmp_path, "--json")
    assert (twice.code, twice.document["error"]) == (2, "model_twice")
    wrong = call(capsys, "doctor", "demo", "--revision", "main", "--json")
    assert (wrong.code, wrong.document["error"]) == (2, "demo_flags")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_demo_passes(cache: Path) -> None:
    document = examine(ModelRequest(model="demo", device="cpu"), cache)
    assert document["verdict"] == "OK"
    assert {"refused", "warning"}.isdisjoint(checks(document).values())
