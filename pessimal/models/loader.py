"""Loads a reward model and proves that what was loaded is what the checkpoint holds."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pessimal.errors import PessimalError, UsageError
from pessimal.models.adapters import merge_adapter
from pessimal.models.checkpoint import read_tensor
from pessimal.models.checks import check_behaviour, check_loading, check_softcap
from pessimal.models.devices import SPREAD, spread_over_gpus
from pessimal.models.hashing import hash_source, hash_tensors
from pessimal.models.quantised import is_quantised
from pessimal.models.quiet import quiet_libraries
from pessimal.models.records import LoadedModel, ModelSource
from pessimal.models.source import ADAPTER_PREFIX
from pessimal.models.steps import passed
from pessimal.models.threads import choose_threads

if TYPE_CHECKING:
    import torch

_SEEDS = (11, 12)


def load_model(source: ModelSource) -> LoadedModel:
    """Load `source` and verify it.

    The head is proved three ways: by the loading report, by comparing it with the file's bytes,
    and by loading twice under two seeds, since only weights that weren't in a file differ then.

    Returns:
        The model in eval mode, without gradients, with eager attention, on its device.

    Raises:
        PessimalError: the model is refused; the code and the message say why.
    """
    import torch

    choose_threads()
    device = pick_device(source.request.device)
    dtype = getattr(torch, source.request.dtype)
    with quiet_libraries(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEEDS[0])
        # Older quantisers take a layer that is left out for a fault.
        short = source.adapter is None and not is_quantised(source.config)
        first = _proof(source, _build(source, dtype, short=short))
        torch.manual_seed(_SEEDS[1])
        module = _build(source, dtype)
        if _proof(source, module) != first:
            raise PessimalError(
                "head_missing",
                "Two loads of the model under two seeds differ: some weights are random.",
                "Name a checkpoint that holds every weight, the head included.",
            )
        with _naming_memory(device):
            if source.request.device == SPREAD:
                module = spread_over_gpus(source.family, module)
            elif not is_quantised(source.config):
                module = module.to(device)
        module.eval().requires_grad_(False)
        head = _check_head(source, module)
        passed("weights_loaded", "Nothing is missing, left over, or changed by another seed.")
        passed("head_loaded", "It is finite and has the file's numbers.")
        check_softcap(source.family, module)
        if source.family.softcap:
            passed("softcap", "The attention keeps the soft-cap that it was trained with.")
        check_behaviour(source, module, head)
        passed("pooling", f"The score is read at: {source.family.pooled}.")
    digest = hash_tensors(head.state_dict().items())
    return LoadedModel(source=source, module=module, head=head, hashes=hash_source(source, digest))


def pick_device(name: str) -> torch.device:
    """The device of a ``--device`` flag; ``auto`` prefers CUDA, then MPS.

    Of ``auto-map`` it is the kind of device that inputs go to.

    Raises:
        UsageError: ``device_invalid``: torch knows no such device.
        PessimalError: ``device_unavailable``: this machine doesn't have it.
    """
    import torch

    has = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == SPREAD:
        name = "cuda"
    if name == "auto":
        return torch.device(next((kind for kind, there in has.items() if there), "cpu"))
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(
            "device_invalid",
            f"There is no device {name}.",
            "Use auto, cpu, cuda, cuda:1, mps or auto-map.",
        ) from None
    missing = not has.get(device.type, True)
    if missing or (device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()):
        raise PessimalError(
            "device_unavailable",
            f"This machine has no {name} that torch can use.",
            "Use --device cpu.",
        )
    return device


def _build(source: ModelSource, dtype: torch.dtype, *, short: bool = False) -> Any:
    """Load the weights once; `short` keeps only the first layer, which is enough for the head."""
    import torch

    config = copy.deepcopy(source.config)
    remote = source.family.kind == "remote"
    more: dict[str, Any] = {"key_mapping": _renames(source)} if source.family.own_head else {}
    if is_quantised(source.config):
        # Its kernels are a device's own, so that the weights are put there as they are read.
        more["device_map"] = {"": pick_device(source.request.device)}
    if short and not remote:
        config.num_hidden_layers = 1
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:1]
    with _naming_errors(source):
        module, report = _model_class(source).from_pretrained(
            source.folder,
            config=config,
            # An adapter is merged before rounding, or its small changes would be lost.
            dtype=torch.float32 if source.adapter else dtype,
            attn_implementation=None if remote else "eager",
            output_loading_info=True,
            local_files_only=True,
            trust_remote_code=remote,
            use_safetensors=source.weight_files[0].suffix == ".safetensors",
            **more,
        )
    check_loading(source, report, short=short)
    module.eval().requires_grad_(False)
    if source.adapter is not None:
        with _naming_errors(source):
            module = merge_adapter(source, module).to(dtype)
    return module


def _model_class(source: ModelSource) -> Any:
    from transformers import AutoModel, AutoModelForSequenceClassification

    if source.family.own_head:
        from pessimal.models.heads.model import own_model_class

        return own_model_class(source)
    mapped = getattr(source.config, "auto_map", None) or {}
    if source.family.kind == "remote" and "AutoModelForSequenceClassification" not in mapped:
        return AutoModel
    return AutoModelForSequenceClassification


def _renames(source: ModelSource) -> dict[str, str]:
    from pessimal.models.heads.model import renames

    return renames(source)


def _proof(source: ModelSource, module: Any) -> str:
    """sha256 of what must not depend on the seed: the head; all weights of remote code."""
    if source.family.kind == "remote":
        return hash_tensors(module.state_dict().items())
    return hash_tensors(module.get_submodule(source.family.head).state_dict().items())


def _check_head(source: ModelSource, module: Any) -> torch.nn.Module:
    """The head, proved to be a finite linear layer equal to the file's tensor."""
    import torch

    if source.family.kind == "remote":
        whole: torch.nn.Module = module
        return whole
    head: torch.nn.Module = module.get_submodule(source.family.head)
    linear = isinstance(head, torch.nn.Linear) or source.family.own_head
    if not linear or not all(weight.is_floating_point() for weight in head.parameters()):
        raise PessimalError(
            "head_not_linear",
            f"The head {source.head_key} is a {type(head).__name__}, not a float linear layer.",
            "Name the model's unquantised weights.",
        )
    if not all(torch.isfinite(weight).all() for weight in head.parameters()):
        raise PessimalError(
            "head_not_finite",
            f"The head {source.head_key} holds NaN or infinity in {source.request.dtype}.",
            "Use --dtype float32; if it stays, the checkpoint is broken.",
        )
    for name, loaded in _head_tensors(source, head).items():
        stored = _stored_head(source, name)
        if stored is None or not torch.equal(stored.to(loaded.dtype), loaded.cpu()):
            raise PessimalError(
                "head_missing",
                f"The loaded head isn't the tensor {name} of the checkpoint.",
                "Save the reward model again with its head.",
            )
    return head


def _head_tensors(source: ModelSource, head: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The head's tensors as loaded, by their names in the checkpoint."""
    if source.family.own_head:
        return dict(head.state_dict())
    weight: Any = head.weight
    return {source.head_key: weight}


def _stored_head(source: ModelSource, name: str) -> torch.Tensor | None:
    stored: torch.Tensor | None = None
    if source.adapter is not None:
        files = tuple(sorted(source.adapter.glob("adapter_model*")))
        stored = read_tensor(files, ADAPTER_PREFIX + name)
    if stored is None:
        stored = read_tensor(source.weight_files, name)
    return stored


@contextmanager
def _naming_errors(source: ModelSource) -> Iterator[None]:
    from safetensors import SafetensorError

    reason = "{}: {}"
    try:
        yield
    except PessimalError:
        raise
    except SafetensorError as error:
        raise PessimalError(
            "weights_corrupt",
            f"The weights in {source.folder} can't be read: {error}.",
            "Fetch the files again and compare their sizes.",
        ) from None
    except Exception as error:
        text = reason.format(type(error).__name__, " ".join(str(error).split())[:300])
        if source.family.kind == "remote":
            raise PessimalError(
                "remote_code_failed",
                f"The model's own code failed: {text}.",
                "It may be written for an older transformers; ask its author for a newer revision.",
            ) from error
        raise PessimalError(
            "model_failed",
            f"{source.id} can't be loaded: {text}.",
            "Compare config.json with the weights' shapes and the adapter with its base.",
        ) from error


@contextmanager
def _naming_memory(device: torch.device) -> Iterator[None]:
    import torch

    try:
        yield
    except torch.OutOfMemoryError:
        raise PessimalError(
            "out_of_memory",
            f"The model doesn't fit into the memory of {device}.",
            "Use --dtype bfloat16, or --device cpu.",
        ) from None
