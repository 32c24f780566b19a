"""Opens and loads causal language models: the policy, the reference and the judge of a reward."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.errors import PessimalError, UsageError
from pessimal.models.base import DEMO_BASE
from pessimal.models.checkpoint import embedding_rows, read_json, tensor_shapes, weight_files
from pessimal.models.families import Family, family_of
from pessimal.models.hashing import hash_source, hash_tensors
from pessimal.models.loader import pick_device
from pessimal.models.places import find_place
from pessimal.models.quiet import quiet_libraries
from pessimal.models.records import LoadedModel, ModelRequest, ModelSource
from pessimal.models.templates import open_tokenizer, pin_date, read_template
from pessimal.models.threads import choose_threads

if TYPE_CHECKING:
    from torch import Tensor

_CAUSAL = ("ForCausalLM", "LMHeadModel")
HEAD = "lm_head"


@dataclass(frozen=True)
class _Files:
    id: str
    revision: str | None
    folder: Path
    weights: tuple[Path, ...]
    gguf: str | None = None

    @property
    def place(self) -> dict[str, Any]:
        found: dict[str, Any] = {"pretrained_model_name_or_path": self.folder}
        return found | ({} if self.gguf is None else {"gguf_file": self.gguf})


def open_causal(request: ModelRequest, kind: str, *, templated: bool = True) -> ModelSource:
    """Find a causal language model and read all that needs no weights.

    Args:
        request: the model flags; ``demo-base`` names the demo models' base, whole.
        kind: what it is opened for, as the family's name says.
        templated: whether its chat template is needed.

    Raises:
        PessimalError: it is no complete causal language model of a known architecture.
        UsageError: a flag that has no meaning here.
    """
    _refuse_flags(request, kind)
    with quiet_libraries():
        files = _find(request)
        config, family = _read_config(files)
        shapes = {} if files.gguf else tensor_shapes(files.weights)
        if request.tokenizer is None:
            folder, tokenizer = files.folder, _own_tokenizer(files)
        else:
            folder = find_place(request.tokenizer, None).folder
            tokenizer = open_tokenizer(folder, trust=False)
        template = read_template(request, None, tokenizer) if templated else None
        rows = embedding_rows(shapes, int(config.vocab_size)) if shapes else int(config.vocab_size)
        return ModelSource(
            request=request, id=files.id, revision=files.revision, folder=files.folder,
            weight_files=files.weights, adapter=None, base={}, config=config,
            family=replace(family, name=f"{family.name} {kind}", pooled="last token"),
            head_key=f"{HEAD}.weight", head_shape=(rows, int(config.hidden_size)),
            embedding_rows=rows, tokenizer=tokenizer, tokenizer_folder=folder,
            template=template, template_kwargs=pin_date(tokenizer, template or ""),
        )  # fmt: skip


def load_causal(source: ModelSource) -> LoadedModel:
    """Load a causal language model, complete; its head is its output embedding.

    Raises:
        PessimalError: weights are missing, or it can't be loaded.
    """
    import torch
    from transformers import AutoModelForCausalLM

    choose_threads()
    files = _find(source.request)
    device = pick_device(source.request.device)
    more: dict[str, Any] = {} if files.gguf else {
        "use_safetensors": files.weights[0].suffix == ".safetensors"
    }  # fmt: skip
    try:
        load: Any = AutoModelForCausalLM.from_pretrained
        # The reader's progress bar of a GGUF file listens to nothing but the stream.
        with quiet_libraries(), contextlib.redirect_stderr(io.StringIO()):
            module, report = load(
                **files.place,
                **more,
                dtype=getattr(torch, source.request.dtype),
                attn_implementation="eager",
                output_loading_info=True,
                local_files_only=True,
                trust_remote_code=False,
            )
    except Exception as error:
        raise PessimalError(
            "model_failed",
            f"{source.id} can't be loaded: {type(error).__name__}: "
            f"{' '.join(str(error).split())[:300]}.",
            "Compare config.json with the weights' shapes.",
        ) from error
    wrong = sorted({*map(str, report["missing_keys"]), *map(str, report["mismatched_keys"])})
    if wrong:
        raise PessimalError(
            "weights_incomplete",
            f"The weights of {source.id} lack {', '.join(wrong[:3])}, which would be random.",
            "Name a folder that holds the whole language model.",
        )
    module = module.to(device).eval().requires_grad_(False)
    head = module.get_output_embeddings()
    digest = hash_tensors(head.state_dict().items())
    return LoadedModel(source=source, module=module, head=head, hashes=hash_source(source, digest))


def softcap_of(config: Any) -> float | None:
    """The cap that a model puts on its logits, as Gemma 2 does, or None."""
    cap = getattr(config.get_text_config(), "final_logit_softcapping", None)
    return None if cap is None else float(cap)


def cap_logits(logits: Tensor, softcap: float | None) -> Tensor:
    """Logits under a model's cap: ``softcap * tanh(logits / softcap)``; as they are without one."""
    if softcap is None:
        return logits
    import torch

    return softcap * torch.tanh(logits / softcap)


def _refuse_flags(request: ModelRequest, kind: str) -> None:
    given: Mapping[str, object] = {
        "--adapter": request.adapter, "--trust-remote-code": request.trust_remote_code,
    }  # fmt: skip
    for flag, value in given.items():
        if value:
            raise UsageError(
                "kind_flags",
                f"{flag} can't be combined with --kind {kind}.",
                f"Leave out {flag}; merge an adapter into its model first.",
            )


def _find(request: ModelRequest) -> _Files:
    if request.model == DEMO_BASE:
        from pessimal.models.demo.convert import SHA256, checked_base_file

        file = checked_base_file()
        return _Files(DEMO_BASE, SHA256, file.parent, (file,), file.name)
    place = find_place(request.model, request.revision, allow_pickle=request.allow_pickle)
    if not (place.folder / "config.json").is_file():
        raise PessimalError(
            "not_a_model_folder",
            f"{place.folder} has no config.json, so it isn't a model's folder.",
            "Name the folder that save_pretrained wrote.",
        )
    weights = weight_files(place.folder, "model", allow_pickle=request.allow_pickle)
    return _Files(place.id, place.revision, place.folder, weights)


def _own_tokenizer(files: _Files) -> Any:
    if files.gguf is None:
        return open_tokenizer(files.folder, trust=False)
    from transformers import AutoTokenizer

    with contextlib.redirect_stderr(io.StringIO()):
        return AutoTokenizer.from_pretrained(**files.place)


def _read_config(files: _Files) -> tuple[Any, Family]:
    from transformers import AutoConfig

    if files.gguf is None:
        raw = read_json(files.folder / "config.json")
        name = str((raw.get("architectures") or ["nothing"])[0])
        if not name.endswith(_CAUSAL):
            raise PessimalError(
                "not_causal",
                f"{files.id} was saved as {name}, which is no causal language model.",
                "Name a language model, or leave out --kind for a reward model.",
            )
        if "auto_map" in raw or "quantization_config" in raw:
            raise PessimalError(
                "causal_unsupported",
                f"{files.id} brings its own code or quantised weights.",
                "Name a language model of transformers' own classes with float weights.",
            )
    with contextlib.redirect_stderr(io.StringIO()):
        config: Any = AutoConfig.from_pretrained(**files.place, local_files_only=True)
    family = family_of(str(config.model_type))
    if family is None or family.kind != "decoder":
        raise PessimalError(
            "architecture_unknown",
            f"Language models of type {config.model_type} aren't known here.",
            "Name one of a type that `pessimal models` lists as a decoder.",
        )
    return config, family
