from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.builders import build_model
from tests.models.opening import edit_json, edit_weights, loaded, opened, refusal
from tests.models.test_loader import score

COMMIT = "89abcdef01" * 4
CODE = """
import torch
from transformers import LlamaModel, LlamaPreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput


class Gated(LlamaPreTrainedModel):
    _keys_to_ignore_on_load_missing = ["hidden_head"]

    def __init__(self, config):
        super().__init__(config)
        self.model = LlamaModel(config)
        self.score = torch.nn.Linear(config.hidden_size, 5, bias=False)
        self.gate = torch.nn.Linear(config.hidden_size, 5, bias=False)
        EXTRA
        self.post_init()

    def forward(self, input_ids, attention_mask=None, **kwargs):
        hidden = self.model(input_ids, attention_mask=attention_mask).last_hidden_state[:, -1]
        parts = self.score(hidden) * self.gate(hidden).softmax(-1)
        return SequenceClassifierOutput(logits=RESULT)
"""


def build_remote(
    folder: Path, result: str = "parts.sum(-1, keepdim=True)", extra: str = "pass", top: str = ""
) -> Path:
    build_model(folder, "llama", num_labels=5)
    (folder / "modeling_gated.py").write_text(
        top + CODE.replace("RESULT", result).replace("EXTRA", extra)
    )
    edit_json(
        folder / "config.json",
        architectures=["Gated"],
        auto_map={"AutoModelForSequenceClassification": "modeling_gated.Gated"},
    )
    gate = torch.randn(5, 32, generator=torch.Generator().manual_seed(1))
    edit_weights(folder, lambda t: t.update({"gate.weight": gate}))
    return folder


@pytest.fixture(autouse=True)
def _own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))


def test_code_is_refused_without_the_flag_even_where_a_stock_class_would_load(
    tmp_path: Path,
) -> None:
    build_model(tmp_path, "llama")
    edit_json(
        tmp_path / "config.json",
        auto_map={"AutoModelForSequenceClassification": "modeling_gated.Gated"},
    )
    error = refusal(opened, tmp_path)
    assert error.code == "remote_code"
    assert "--trust-remote-code" in error.remedy


def test_a_tokenizers_code_is_refused_as_well(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    edit_json(tmp_path / "tokenizer_config.json", auto_map={"AutoTokenizer": ["t.T", None]})
    assert refusal(opened, tmp_path).code == "remote_code"


@pytest.mark.parametrize("revision", [None, "main", "89abcdef"])
def test_code_needs_a_whole_commit(tmp_path: Path, revision: str | None) -> None:
    build_remote(tmp_path)
    error = refusal(opened, tmp_path, trust_remote_code=True, revision=revision)
    assert error.code == "revision_not_pinned"


def test_trusted_code_scores_by_its_own_forward(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = loaded(build_remote(tmp_path / "m"), trust_remote_code=True, revision=COMMIT)
    (warned,) = [record.getMessage() for record in caplog.records]
    assert "modeling_gated.py" in warned
    assert COMMIT in warned
    assert type(model.module).__name__ == "Gated"
    assert model.family.kind == "remote"
    assert model.revision == COMMIT
    hidden = []
    model.module.model.register_forward_hook(lambda _, __, out: hidden.append(out[0][:, -1]))
    own = score(model, [40])
    module = model.module
    expected = (module.score(hidden[0]) * module.gate(hidden[0]).softmax(-1)).sum()
    assert own == pytest.approx(float(expected), abs=1e-5)
    assert any("own code" in note for note in model.notes)


def test_changed_code_changes_a_hash(tmp_path: Path) -> None:
    flags = {"trust_remote_code": True, "revision": COMMIT}
    build_remote(tmp_path / "m")
    first = loaded(tmp_path / "m", **flags).hashes
    code = tmp_path / "m" / "modeling_gated.py"
    code.write_text(code.read_text() + "# changed\n")
    assert loaded(tmp_path / "m", **flags).hashes.config != first.config


def test_code_that_gives_several_scores(tmp_path: Path) -> None:
    build_remote(tmp_path / "m", result="parts")
    error = refusal(loaded, tmp_path / "m", trust_remote_code=True, revision=COMMIT)
    assert error.code == "many_labels"
    assert "(1, 5)" in error.message


def test_random_weights_that_the_code_hides_from_the_report(tmp_path: Path) -> None:
    build_remote(
        tmp_path / "m",
        extra="self.hidden_head = torch.nn.Linear(config.hidden_size, 1, bias=False)",
        result="self.hidden_head(hidden)",
    )
    error = refusal(loaded, tmp_path / "m", trust_remote_code=True, revision=COMMIT)
    assert error.code == "head_missing"
    assert "two seeds" in error.message


def test_code_for_an_older_library_is_named(tmp_path: Path) -> None:
    build_remote(
        tmp_path / "m",
        top="from transformers.models.llama.modeling_llama import LLAMA_INPUTS_DOCSTRING\n",
    )
    error = refusal(loaded, tmp_path / "m", trust_remote_code=True, revision=COMMIT)
    assert error.code == "remote_code_failed"
    assert "LLAMA_INPUTS_DOCSTRING" in error.message
