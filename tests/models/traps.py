"""What the tests of known traps share: scores by transformers alone, and by our scorer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pessimal.models.records import LoadedModel, ReplySlot
from pessimal.models.scorer import Scorer
from pessimal.models.slot import find_slot
from tests.builders import build_model
from tests.models.opening import edit_json

PROMPT = "What is it?"
REPLIES = [(token,) for token in range(10, 60)]
COMMIT = "89abcdef01" * 4
CODE = """
import torch
from transformers import LlamaModel, LlamaPreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput
TOP

class Own(LlamaPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = LlamaModel(config)
        self.score = torch.nn.Linear(config.hidden_size, 1, bias=False)
        POST

    def forward(self, input_ids, attention_mask=None, **kwargs):
        hidden = self.model(input_ids, attention_mask=attention_mask).last_hidden_state
        last = hidden[torch.arange(len(hidden)), attention_mask.sum(1) - 1]
        RETURN
"""
LOGITS = "return SequenceClassifierOutput(logits=self.score(last))"
END_SCORES = "from types import SimpleNamespace as S; return S(end_scores=self.score(last))"


def nothing(*_: Any, **__: Any) -> None:
    """What a guard is replaced by."""


def own_code(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    result: str = LOGITS,
    post: str = "self.post_init()",
    top: str = "",
) -> Path:
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(folder / "modules"))
    model = build_model(folder / "model", "llama")
    code = CODE.replace("RETURN", result).replace("POST", post).replace("TOP", top)
    (model / "modeling_own.py").write_text(code)
    mapped = {"AutoModelForSequenceClassification": "modeling_own.Own"}
    edit_json(model / "config.json", architectures=["Own"], auto_map=mapped)
    return model


def plain(folder: Path, **config: Any) -> Any:
    """The model as transformers loads it: eager, float32, in eval mode."""
    from transformers import AutoConfig, AutoModelForSequenceClassification

    settings = AutoConfig.from_pretrained(folder, num_labels=1, **config)
    return AutoModelForSequenceClassification.from_pretrained(
        folder, config=settings, dtype=torch.float32, attn_implementation="eager"
    ).eval()


def whole(slot: ReplySlot, reply: Sequence[int]) -> torch.Tensor:
    return torch.tensor([[*slot.prefix_ids, *reply, *slot.suffix_ids]])


@torch.no_grad()
def head_at_every_position(folder: Path, slot: ReplySlot, reply: Sequence[int]) -> list[float]:
    """The head read at each position of one sequence: an oracle without anybody's pooling."""
    model = plain(folder)
    ids = whole(slot, reply)
    hidden = model.base_model(ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    scores: list[float] = model.score(hidden)[0, :, 0].tolist()
    return scores


def our_scores(model: LoadedModel, replies: Sequence[Any] = REPLIES) -> NDArray[np.float32]:
    return Scorer(model).score(find_slot(model.source, PROMPT), replies)


def true_scores(folder: Path, model: LoadedModel, **config: Any) -> NDArray[np.float64]:
    """One forward a reply, with transformers alone."""
    module, slot = plain(folder, **config), find_slot(model.source, PROMPT)
    with torch.no_grad():
        found = [float(module(input_ids=whole(slot, reply)).logits[0, 0]) for reply in REPLIES]
    return np.array(found)


def apart(first: Any, second: Any) -> float:
    """Largest difference, in SD of the second."""
    return float(np.abs(np.asarray(first) - second).max() / np.std(second))
