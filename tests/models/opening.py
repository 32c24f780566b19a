"""Opens and loads models for tests, and edits their saved files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from pessimal.errors import PessimalError
from pessimal.models.loader import load_model
from pessimal.models.records import LoadedModel, ModelRequest, ModelSource
from pessimal.models.source import open_source


def opened(model: Path | str, **flags: Any) -> ModelSource:
    return open_source(ModelRequest(model=str(model), **flags), Path("unused"))


def loaded(model: Path | str, **flags: Any) -> LoadedModel:
    return load_model(opened(model, **flags))


def refusal(action: Callable[..., Any], *args: Any, **flags: Any) -> PessimalError:
    with pytest.raises(PessimalError) as caught:
        action(*args, **flags)
    assert caught.value.message
    assert caught.value.remedy
    return caught.value


def edit_json(path: Path, **changes: Any) -> None:
    document = json.loads(path.read_text()) | changes
    kept = {key: value for key, value in document.items() if value is not ...}
    path.write_text(json.dumps(kept))


def edit_weights(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def write_template(folder: Path, text: str) -> None:
    (folder / "chat_template.jinja").write_text(text)
