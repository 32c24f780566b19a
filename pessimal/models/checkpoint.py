"""Reads what a checkpoint holds, without its weights: files, tensor names, shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pessimal.errors import PessimalError

Shapes = dict[str, tuple[int, ...]]
EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        PessimalError: ``file_invalid``: it isn't one.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PessimalError(
            "file_invalid", f"{path} can't be read: {error}.", "Fetch or save the model again."
        ) from None
    if not isinstance(document, dict):
        raise PessimalError(
            "file_invalid", f"{path} isn't a JSON object.", "Fetch or save the model again."
        )
    return document


def weight_files(folder: Path, stem: str, *, allow_pickle: bool) -> tuple[Path, ...]:
    """List the files of weights in `folder`, the shards of an index included.

    Args:
        folder: the model's or adapter's folder.
        stem: ``model`` or ``adapter_model``.
        allow_pickle: take PyTorch's own format where there is no safetensors file.

    Raises:
        PessimalError: none is there, one is missing, or only pickles are there.
    """
    pickles = "pytorch_model" if stem == "model" else stem
    for name, ending in ((stem, "safetensors"), (pickles, "bin")):
        single, index = folder / f"{name}.{ending}", folder / f"{name}.{ending}.index.json"
        if not single.is_file() and not index.is_file():
            continue
        if ending == "bin" and not allow_pickle:
            raise PessimalError(
                "weights_pickle",
                f"The weights in {folder} are pickles ({name}.bin), which can run code on loading.",
                "Convert them to safetensors, or pass --allow-pickle if you trust their source.",
            )
        if single.is_file():
            return (single,)
        shards = sorted(set(read_json(index).get("weight_map", {}).values()))
        missing = [shard for shard in shards if not (folder / shard).is_file()]
        if missing or not shards:
            raise PessimalError(
                "weights_missing",
                f"{index} names files that aren't there: {', '.join(missing[:3]) or 'none'}.",
                "Fetch the model again, whole.",
            )
        return tuple(folder / shard for shard in shards)
    others = [path.name for path in sorted(folder.glob("*.pt*")) + sorted(folder.glob("*.gguf"))]
    raise PessimalError(
        "weights_missing",
        f"{folder} holds no weights ({stem}.safetensors)"
        + (f"; {', '.join(others[:3])} can't be used." if others else "."),
        "Save the model with save_pretrained, or name another folder.",
    )


def tensor_shapes(files: tuple[Path, ...]) -> Shapes:
    """The shape of every tensor in `files`, by name, read from their headers.

    Raises:
        PessimalError: ``weights_corrupt``: a file is cut short or isn't what its name says.
    """
    shapes: Shapes = {}
    for path in files:
        try:
            shapes |= _safetensors(path) if path.suffix == ".safetensors" else _pickle(path)
        except Exception as error:
            raise PessimalError(
                "weights_corrupt",
                f"{path} can't be read: it is cut short, a Git LFS pointer, or not a weights file "
                f"({type(error).__name__}).",
                "Fetch the file again and compare its size.",
            ) from None
    return shapes


def read_tensor(files: tuple[Path, ...], key: str) -> Any:
    """The tensor named `key`, or None where no file holds it."""
    from safetensors import safe_open

    for path in files:
        if path.suffix != ".safetensors":
            tensors = _pickled(path)
            if key in tensors:
                return tensors[key]
            continue
        with safe_open(path, framework="pt") as reader:
            if key in reader.keys():  # noqa: SIM118 - the reader isn't a mapping
                return reader.get_tensor(key)
    return None


def embedding_rows(shapes: Mapping[str, tuple[int, ...]], fallback: int) -> int:
    """Rows of the input embedding among `shapes`, else `fallback`."""
    rows = [shape[0] for key, shape in shapes.items() if key.endswith(EMBEDDINGS)]
    return rows[0] if len(rows) == 1 else fallback


def _safetensors(path: Path) -> Shapes:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as reader:
        return {key: tuple(reader.get_slice(key).get_shape()) for key in reader.keys()}  # noqa: SIM118


def _pickled(path: Path) -> dict[str, Any]:
    import torch

    tensors = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    if not isinstance(tensors, dict):
        raise TypeError("not a dictionary of tensors")
    return tensors


def _pickle(path: Path) -> Shapes:
    return {key: tuple(tensor.shape) for key, tensor in _pickled(path).items()}
