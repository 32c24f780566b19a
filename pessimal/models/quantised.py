"""Takes weights that bitsandbytes quantised, where it is installed and the head is left whole."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pessimal.errors import PessimalError
from pessimal.models.checkpoint import read_tensor
from pessimal.models.families import Family

METHOD = "bitsandbytes"


def is_quantised(config: Any) -> bool:
    """Whether a model's config says that its weights are quantised."""
    return getattr(config, "quantization_config", None) is not None


def rounds_activations(config: Any) -> bool:
    """Whether activations are rounded too, by what a batch holds: so in 8 bits, not in 4."""
    settings = getattr(config, "quantization_config", None) or {}
    return bool(settings.get("load_in_8bit"))


def check_quantised(
    raw: Mapping[str, Any], family: Family, files: tuple[Path, ...], adapter: Path | None
) -> None:
    """Refuse quantised weights that can't be read here, or whose head is quantised as well.

    Args:
        raw: the model's config.json.
        family: how the architecture is read.
        files: its files of weights.
        adapter: the adapter that is to be merged into it.

    Raises:
        PessimalError: ``weights_quantized`` or ``head_not_linear``.
    """
    settings = raw.get("quantization_config") or {}
    method = str(settings.get("quant_method"))
    if method != METHOD or family.own_head or adapter is not None:
        what = "an adapter can't be merged into them" if adapter else "the head may be as well"
        raise PessimalError(
            "weights_quantized",
            f"The weights are quantised ({method}), and {what}.",
            "Name the model's unquantised weights.",
        )
    if find_spec(METHOD) is None:
        raise PessimalError(
            "weights_quantized",
            f"The weights are quantised with {METHOD}, which isn't installed.",
            f"Install {METHOD} beside Pessimal, or name the model's unquantised weights.",
        )
    key = f"{family.head}.weight"
    head = read_tensor(files, key)
    if head is not None and not head.is_floating_point():
        raise PessimalError(
            "head_not_linear",
            f"The head {key} is quantised as well ({str(head.dtype).removeprefix('torch.')}): its "
            "rounding is in every score.",
            "Quantise the model again with its head in llm_int8_skip_modules.",
        )


def quantised_note(raw: Mapping[str, Any]) -> str:
    """What a reader should know of scores from quantised weights."""
    settings = raw.get("quantization_config") or {}
    bits = 4 if settings.get("load_in_4bit") else 8
    batches = " In 8 bits a score also depends on the batch that it is in." if bits == 8 else ""
    return (
        f"The weights are quantised to {bits} bits ({METHOD}), the head isn't: scores are those of "
        f"this copy and not of the model it was made from.{batches}"
    )
