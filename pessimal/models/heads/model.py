"""A reward model of an own head on transformers' own backbone."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor
from transformers import MODEL_MAPPING, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from pessimal.models.checkpoint import tensor_shapes
from pessimal.models.heads.formulas import HEADS, Head
from pessimal.models.records import ModelSource
from pessimal.models.slot import find_last


def own_model_class(source: ModelSource) -> type[PreTrainedModel]:
    """The class that loads `source`: a backbone at ``model``, a head at ``head``.

    Args:
        source: a model of a family with an own head.
    """
    shapes = tensor_shapes(source.weight_files)
    backbone: Any = MODEL_MAPPING[type(source.config)]
    base: Any = next(kind for kind in backbone.__mro__[1:] if issubclass(kind, PreTrainedModel))
    head, family, gate = HEADS[source.family.own_head], source.family, source.gate_ids

    class RewardModel(base):  # type: ignore[misc]
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.model = backbone(config)
            self.head = head(config, shapes)
            self.post_init()

        def forward(
            self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any
        ) -> SequenceClassifierOutput:
            """The score of whole sequences ``[B, T]`` as ``logits`` ``[B, 1]``."""
            hidden, at_gate = self.states(input_ids, attention_mask)
            return SequenceClassifierOutput(logits=self.head(hidden, at_gate)[:, None])

        def states(
            self, input_ids: Tensor, attention_mask: Tensor | None = None
        ) -> tuple[Tensor, Tensor | None]:
            """Hidden states at the pooled position and at the gate's, ``[B, H]`` each."""
            mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
            every = self.model(
                input_ids=input_ids, attention_mask=mask, use_cache=False
            ).last_hidden_state
            rows = torch.arange(len(input_ids), device=every.device)
            pad = self.config.pad_token_id
            if family.pooled == "before the first pad" and pad is not None:
                places = (input_ids == pad).int().argmax(-1) - 1
            else:
                places = (mask * torch.arange(mask.shape[1], device=mask.device)).argmax(-1)
            if not self.head.gated:
                return every[rows, places], None
            gates = [find_last(ids, gate) for ids in input_ids.tolist()]
            return every[rows, places], every[rows, gates]

    RewardModel.__name__ = f"{backbone.__name__}With{head.__name__}"
    return RewardModel


def renames(source: ModelSource) -> dict[str, str]:
    """Patterns of published weight names of the head, with what they become in our model."""
    with torch.device("meta"):
        head: Head = HEADS[source.family.own_head](
            source.config, tensor_shapes(source.weight_files)
        )
    parts = {name.partition(".")[0] for name in head.state_dict()}
    return {rf"^{re.escape(part)}(?=\.|$)": f"{HEAD}{part}" for part in parts}


HEAD = "head."
"""What stands before a head's published weight names in our model."""
