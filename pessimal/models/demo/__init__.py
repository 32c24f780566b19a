"""The demo reward model: a small language model, a LoRA adapter and a scalar head.

The repository holds the adapter, the head and the template of two models, ``demo`` and its twin
with planted faults, ``demo-biased``. Their base comes from a package and is converted once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pessimal.errors import UsageError

ADAPTERS: dict[str, Path] = {
    "demo": Path(__file__).parent / "clean",
    "demo-biased": Path(__file__).parent / "biased",
}
"""Adapter folder of each demo model, by the name that users give it."""


@dataclass(frozen=True)
class DemoParts:
    """The two folders that a demo model is loaded from."""

    base: Path
    """The converted base: safetensors, config and tokenizer, cut to the layers that are kept."""
    adapter: Path
    """The PEFT adapter, with the head, the template and ``demo.json``."""


def locate(name: str, cache: Path, say: Callable[[str], None] | None = None) -> DemoParts:
    """Find a demo model's parts, converting the base into the cache where it isn't there yet.

    Args:
        name: ``demo`` or ``demo-biased``.
        cache: Pessimal's cache folder; the base goes to ``<cache>/demo/base-<hash>/``.
        say: told, in a sentence, what is happening when it takes a while; stderr by default.

    Raises:
        UsageError: there is no demo model of that name.
        PessimalError: the base's package is missing (``demo_base_missing``), holds another base
            (``demo_base_mismatch``), or can't be read (``demo_reader_missing``).
    """
    if name not in ADAPTERS:
        raise UsageError(
            "demo_unknown",
            f"There is no demo model {name!r}.",
            f"Use one of {', '.join(ADAPTERS)}.",
        )
    from pessimal.models.demo.convert import converted_base

    return DemoParts(base=converted_base(cache, say), adapter=ADAPTERS[name])
