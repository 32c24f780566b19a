"""Spreads a model that no single GPU holds over all of them, its end kept together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pessimal.errors import PessimalError
from pessimal.models.families import Family
from pessimal.models.quantised import is_quantised

if TYPE_CHECKING:
    import torch

SPREAD = "auto-map"
"""The ``--device`` that spreads a model over all GPUs."""

DeviceMap = dict[str, int | str]


def spread_over_gpus(family: Family, module: Any) -> Any:
    """Move a model's layers to this machine's GPUs, in order.

    Raises:
        PessimalError: ``map_unavailable``: the family's parts aren't known; or ``out_of_memory``:
            the GPUs don't hold it.
    """
    from accelerate import dispatch_model

    return dispatch_model(module, plan_devices(family, module, _gpu_memory()))


def plan_devices(family: Family, module: Any, memory: Mapping[int | str, int]) -> DeviceMap:
    """Which GPU holds which part.

    The final norm and the head go where the last layer is: they read its output, and a head that
    lies elsewhere fails at the first forward, or is forgotten when parameters are moved by hand.

    Args:
        family: how the architecture is read.
        module: the model, on any device.
        memory: free bytes by GPU.

    Raises:
        PessimalError: as `spread_over_gpus`.
    """
    from accelerate.utils import get_balanced_memory, infer_auto_device_map

    if family.kind != "decoder" or is_quantised(module.config):
        raise PessimalError(
            "map_unavailable",
            f"Which parts of this model ({family.name}) belong together isn't known.",
            "Name one device: --device cuda.",
        )
    whole = sorted(module._no_split_modules or [])
    # Without an entry for the CPU, what doesn't fit would be put on the disk.
    limits: dict[int | str, int] = {**memory, "cpu": 0}
    balanced = get_balanced_memory(module, limits, whole)
    found: DeviceMap = infer_auto_device_map(module, balanced, whole)
    layers = f"{family.backbone}.{family.layers}"
    count = len(module.get_submodule(layers))
    last = device_of(found, f"{layers}.{count - 1}")
    end = (f"{family.backbone}.{family.norm}", family.head)
    found = {
        name: last if any(f"{name}.".startswith(f"{part}.") for part in end) else device
        for name, device in found.items()
    }
    if any(not isinstance(device, int) for device in found.values()):
        raise PessimalError(
            "out_of_memory",
            f"The model doesn't fit into the memory of {len(memory)} GPUs.",
            "Use --dtype bfloat16, or more GPUs.",
        )
    return found


def device_of(devices: DeviceMap, name: str) -> int | str:
    """The device of a module by its name: its own entry's, or the one of what it lies in."""
    while name and name not in devices:
        name = name.rpartition(".")[0]
    return devices[name]


def devices_of(module: torch.nn.Module) -> str:
    """The devices that hold a model's parameters, as documents show them."""
    return ", ".join(sorted({str(weight.device) for weight in module.parameters()}))


def _gpu_memory() -> dict[int | str, int]:
    import torch

    count = torch.cuda.device_count()
    return {index: int(torch.cuda.mem_get_info(index)[0]) for index in range(count)}
