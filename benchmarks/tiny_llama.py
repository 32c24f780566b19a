"""Random Llamas of known shapes, with a tokenizer and a chat template."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from pessimal.models.loader import load_model
from pessimal.models.quiet import quiet_libraries
from pessimal.models.records import LoadedModel, ModelRequest, ReplySlot
from pessimal.models.slot import find_slot
from pessimal.models.source import open_source

VOCABULARY = 4096
TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class Shape:
    """A Llama's sizes."""

    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int


SHAPES = {
    "3M": Shape(8, 160, 448, 5, 5),
    "22M": Shape(12, 384, 1088, 6, 6),
    "22M grouped": Shape(12, 384, 1216, 6, 2),
    "60M": Shape(17, 576, 1536, 9, 3),
    # As SmolLM2-135M; the name counts its embedding.
    "135M": Shape(30, 576, 1536, 9, 3),
}
"""By about how many parameters a model has."""


def build(folder: Path, shape: Shape, vocabulary: int = VOCABULARY) -> None:
    """Save a random Llama with a byte-level BPE tokenizer; every id has a text.

    Ids beyond the trained ones are never the encoding of a text, only decoded and scored.
    """
    import torch
    from transformers import LlamaConfig, LlamaForSequenceClassification

    tokenizer = _tokenizer(vocabulary)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=shape.hidden, intermediate_size=shape.inner,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads, head_dim=shape.hidden // shape.heads, num_labels=1,
        pad_token_id=0, bos_token_id=None, eos_token_id=2,
        # The usual 0.02 makes scores that hardly differ.
        initializer_range=0.1,
    )  # fmt: skip
    torch.manual_seed(0)
    # Saving shows a progress bar that listens to no setting.
    with quiet_libraries(), contextlib.redirect_stderr(io.StringIO()):
        LlamaForSequenceClassification(config).eval().save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def load(folder: Path) -> LoadedModel:
    """The model that `build` saved."""
    with quiet_libraries():
        return load_model(open_source(ModelRequest(model=str(folder)), folder / "cache"))


def prompt_of(model: LoadedModel, prefix: int, beginning: str = "be") -> tuple[str, ReplySlot]:
    """A prompt whose prefix has exactly this many ids."""
    prompt = beginning
    for _ in range(10 * prefix):
        slot = find_slot(model.source, prompt)
        if len(slot.prefix_ids) == prefix:
            return prompt, slot
        prompt += "?"
    raise SystemExit(f"No prompt has a prefix of {prefix} ids.")


def parameters(model: LoadedModel) -> int:
    """Parameters outside the embedding."""
    module: Any = model.module
    embedding = module.get_input_embeddings().weight.numel()
    return sum(p.numel() for p in module.parameters()) - int(embedding)


def some_replies(count: int) -> list[tuple[int, ...]]:
    """One-token replies; they repeat where there are more than the vocabulary has."""
    return [(3 + n % (VOCABULARY - 3),) for n in range(count)]


def _tokenizer(vocabulary: int) -> Any:
    import json

    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=min(vocabulary, VOCABULARY),
        special_tokens=["<pad>", "<|start|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(map("".join, product("aeioubdgklmnprst", repeat=4)), trainer)
    whole = json.loads(backend.to_str())
    known = whole["model"]["vocab"]
    known |= {f"w{n}": n for n in range(len(known), vocabulary)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(whole)),
        pad_token="<pad>", eos_token="<|end|>", additional_special_tokens=["<|start|>"],
    )  # fmt: skip
    tokenizer.chat_template = TEMPLATE
    return tokenizer
