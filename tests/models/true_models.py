"""Tiny random models of true architectures, with the true tokenizers and chat templates."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.assets.tokenizers import FOLDER, MEMBERS, assets_folder, find_tokenizer
from tests.builders import build_model

TRUE: dict[str, tuple[str, dict[str, Any]]] = {
    "llama3_1": ("llama", {"vocab_size": 128256, "bos_token_id": 128000, "eos_token_id": 128009}),
    "gemini": ("gemma2", {"vocab_size": 256000, "bos_token_id": 2, "eos_token_id": 1}),
    "gemma3": ("gemma3_text", {"vocab_size": 262144, "bos_token_id": 2, "eos_token_id": 1}),
    "qwen3": ("qwen3", {"vocab_size": 151936, "bos_token_id": None, "eos_token_id": 151645}),
}
"""Architecture and embedding rows of the published models, by tokenizer."""
PADS = {"llama3_1": 128004, "gemini": 0, "gemma3": 0, "qwen3": 151643}


def build_true(folder: Path, name: str) -> Path:
    """Save a tiny random model, one layer deep, with the tokenizer `name`.

    Without the tokenizers the test is skipped, unless the environment says where they should be.
    """
    found = find_tokenizer(name)
    if found is None:
        message = f"{assets_folder()} has no tokenizer {name}: make test-assets fetches it"
        if os.environ.get(FOLDER):
            pytest.fail(message)
        pytest.skip(message)
    family, settings = TRUE[name]
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "head_dim": 4}
    build_model(folder, family, pad_token_id=PADS[name], **small, **settings)
    for own in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (folder / own).unlink()
    for member in MEMBERS:
        shutil.copyfile(found / member, folder / member)
    return folder
