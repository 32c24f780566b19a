"""Next-token log-probabilities of a base language model, over a reward model's vocabulary."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.errors import PessimalError
from pessimal.models.checkpoint import read_json, weight_files
from pessimal.models.loader import pick_device
from pessimal.models.places import Place, find_place
from pessimal.models.quiet import quiet_libraries
from pessimal.models.records import ModelSource
from pessimal.models.slot import find_slot
from pessimal.models.templates import open_tokenizer
from pessimal.models.vocabulary import vocabulary
from pessimal.text import show_token

if TYPE_CHECKING:
    import pandas as pd

DEMO_BASE = "demo-base"
"""Names the base of the demo reward models, with all its layers."""
LOGPROB = "logprob:"
_CAUSAL = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


@dataclass(frozen=True)
class BaseLogprobs:
    """What a base model would say next."""

    frame: pd.DataFrame
    """``token_id`` int32, then a float32 ``logprob:<prompt id>`` a prompt, in nats."""
    document: dict[str, Any]
    """``id revision class rendering tokens``; ``rendering`` says how prompts were put to it."""


@dataclass(frozen=True)
class _Base:
    id: str
    revision: str | None
    model: Any
    tokenizer: Any


def base_logprobs(
    name: str, source: ModelSource, prompts: Mapping[str, str], cache: Path
) -> BaseLogprobs:
    """Ask a base model what comes next after each prompt: one forward a prompt.

    A prompt is rendered as it is for the reward model, up to the reply, where the base's tokenizer
    has a chat template of its own and all the tokens that takes; else its plain text is given.

    Args:
        name: a folder, a hub id (``org/name@revision``) or ``demo-base``.
        source: the reward model; its dtype and device are used.
        prompts: texts by prompt id.
        cache: Pessimal's cache folder.

    Raises:
        PessimalError: it is no complete causal language model, or its tokenizer is another.
    """
    import numpy as np
    import pandas as pd
    import torch

    with quiet_libraries():
        base = _load(name, source)
    ids, names = _shared_ids(source, base)
    device = pick_device(source.request.device)
    model = base.model.to(device).eval()
    columns: dict[str, Any] = {}
    renderings = set()
    for prompt, text in prompts.items():
        prefix = list(find_slot(source, text).prefix_ids)
        as_chat = bool(base.tokenizer.chat_template) and names.issuperset(prefix)
        if not as_chat:
            prefix = base.tokenizer(text)["input_ids"]
        renderings.add("template" if as_chat else "plain")
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([prefix], device=device)).logits[0, -1]
        found = torch.log_softmax(logits.float(), dim=-1).cpu().numpy()
        columns[LOGPROB + prompt] = found[ids].astype(np.float32)
    frame = pd.DataFrame({"token_id": ids.astype(np.int32)} | columns)
    return BaseLogprobs(
        frame,
        {
            "id": base.id,
            "revision": base.revision,
            "class": type(base.model).__name__,
            "rendering": " and ".join(sorted(renderings)),
            "tokens": len(frame),
        },
    )


def _shared_ids(source: ModelSource, base: _Base) -> tuple[Any, set[int]]:
    """Ids of the reward model's vocabulary that mean the same in the base; all of the base's same.

    Raises:
        PessimalError: ``base_tokenizer_differs``: an ordinary token isn't the base's under its id.
    """
    import numpy as np

    tokenizer: Any = source.tokenizer
    ours = {index: token for token, index in tokenizer.get_vocab().items()}
    theirs = {index: token for token, index in base.tokenizer.get_vocab().items()}
    rows = base.model.get_output_embeddings().weight.shape[0]
    same = {index for index, token in ours.items() if theirs.get(index) == token and index < rows}
    for index in vocabulary(source).ids.tolist():
        # Tokens that were added for a chat format may be missing in the base.
        if index not in same and index not in tokenizer.added_tokens_decoder:
            raise PessimalError(
                "base_tokenizer_differs",
                f"Token {index} is {show_token(ours[index])} for {source.id} and "
                f"{show_token(theirs.get(index, 'nothing'))} for {base.id}: their log-probabilities"
                " can't be set beside its rewards.",
                "Name the base that the reward model was trained from.",
            )
    ids = np.array([index for index in vocabulary(source).ids.tolist() if index in same])
    return ids, same


def _load(name: str, source: ModelSource) -> _Base:
    if name == DEMO_BASE:
        return _load_demo()
    place = find_place(name, None, allow_pickle=source.request.allow_pickle)
    if not (place.folder / "config.json").is_file():
        raise PessimalError(
            "not_a_model_folder",
            f"{place.folder} has no config.json, so it isn't a model's folder.",
            "Name the folder that save_pretrained wrote.",
        )
    kind = str((read_json(place.folder / "config.json").get("architectures") or ["nothing"])[0])
    if not kind.endswith(_CAUSAL):
        raise PessimalError(
            "base_not_causal",
            f"{place.id} was saved as {kind}, which is no causal language model.",
            "Name the language model that the reward model was trained from.",
        )
    model = _from_folder(place, source)
    return _Base(place.id, place.revision, model, open_tokenizer(place.folder, trust=False))


def _from_folder(place: Place, source: ModelSource) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    files = weight_files(place.folder, "model", allow_pickle=source.request.allow_pickle)
    try:
        load: Any = AutoModelForCausalLM.from_pretrained
        model, report = load(
            place.folder,
            dtype=getattr(torch, source.request.dtype),
            # Before transformers 5.21 other attentions dropped a soft-cap without a word.
            attn_implementation="eager",
            output_loading_info=True,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=files[0].suffix == ".safetensors",
        )
    except Exception as error:
        raise PessimalError(
            "base_failed",
            f"{place.id} can't be loaded: {type(error).__name__}: "
            f"{' '.join(str(error).split())[:300]}.",
            "Compare config.json with the weights.",
        ) from error
    wrong = sorted({*map(str, report["missing_keys"]), *map(str, report["mismatched_keys"])})
    if wrong:
        raise PessimalError(
            "base_incomplete",
            f"The weights of {place.id} lack {', '.join(wrong[:3])}, which would be random.",
            "Name a folder that holds the whole language model.",
        )
    return model


def _load_demo() -> _Base:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from pessimal.models.demo.convert import SHA256, checked_base_file

    file = checked_base_file()
    place: dict[str, Any] = {
        "pretrained_model_name_or_path": file.parent,
        "gguf_file": file.name,
    }
    # The reader's progress bar listens to nothing but the stream.
    with contextlib.redirect_stderr(io.StringIO()):
        model = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(**place)
    return _Base(DEMO_BASE, SHA256, model, tokenizer)
