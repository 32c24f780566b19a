"""sha256 of everything that a score depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pessimal.models.records import ModelHashes, ModelSource

if TYPE_CHECKING:
    import torch

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "*.model",
)
"""The files a tokenizer is read from, as glob patterns."""
ADAPTER_FILES = ("adapter_model*", "adapter_config.json", "demo.json")


def hash_files(files: Iterable[Path]) -> str:
    """sha256 over the name, the size and the bytes of each file, in order of name."""
    total = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.name):
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256")
            total.update(f"{path.name}\0{stream.tell()}\0{digest.hexdigest()}\n".encode())
    return total.hexdigest()


def hash_tensors(tensors: Iterable[tuple[str, torch.Tensor]]) -> str:
    """sha256 over the name, the type, the shape and the bytes of each tensor."""
    import torch

    total = hashlib.sha256()
    for name, tensor in tensors:
        flat = tensor.detach().to("cpu").contiguous().reshape(-1)
        total.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\n".encode())
        total.update(flat.view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def hash_source(source: ModelSource, head: str) -> ModelHashes:
    """Hash the files of `source`; the weights are streamed once.

    Args:
        source: what was found.
        head: sha256 of the head as loaded.
    """
    parts = {name: hash_files(files) for name, files in source_files(source).items()}
    return ModelHashes(
        weights=parts["weights"],
        adapter=parts.get("adapter"),
        head=head,
        config=parts["config"],
        tokenizer=parts["tokenizer"],
        template=hash_text(source.template),
    )


def source_files(source: ModelSource) -> dict[str, list[Path]]:
    """The files that a score depends on, by the name of the part that they make."""
    # A GGUF file is its own config; the folder of an endpoint's tokenizer may hold none.
    config = [path for path in [source.folder / "config.json"] if path.is_file()]
    if source.family.kind == "remote":
        config += source.folder.rglob("*.py")
    parts = {
        "weights": list(source.weight_files),
        "config": config,
        "tokenizer": _matching(source.tokenizer_folder, TOKENIZER_FILES),
    }
    if source.adapter is not None:
        parts["adapter"] = _matching(source.adapter, ADAPTER_FILES)
    return parts | {name: list(files) for name, files in source.parts.items()}


def template_files(source: ModelSource) -> list[Path]:
    """The files beside the tokenizer's own that a chat template can stand in."""
    if source.request.template is not None:
        return [source.request.template]
    folders = [source.tokenizer_folder, *([source.adapter] if source.adapter else [])]
    return [path for folder in folders for path in sorted(folder.glob("*.jinja"))]


def hash_adapter(folder: Path) -> str:
    """sha256 over an adapter's weights and configs."""
    return hash_files(_matching(folder, ADAPTER_FILES))


def hash_text(template: str | None) -> str:
    """sha256 of a chat template's text; of nothing for text pairs."""
    return hashlib.sha256((template or "").encode()).hexdigest()


def _matching(folder: Path, patterns: Iterable[str]) -> list[Path]:
    return sorted({path for pattern in patterns for path in folder.glob(pattern)})
