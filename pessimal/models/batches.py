"""Batches of equally long id sequences: how many rows, in which order, and when memory runs out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pessimal.errors import PessimalError
from pessimal.models.records import ScoringPath

ROW_STEP = 16
"""Batches are filled up to a multiple of this, by repeating a row: with very few rows a matmul
may take another kernel, whose sums run in another order."""
CPU_TOKENS, CPU_ROWS = 1024, 1024
"""Tokens that a batch aims at, and most rows, on a CPU, where activations should stay in cache."""
DEVICE_TOKENS, DEVICE_ROWS = 16384, 8192
"""The same on an accelerator."""
MEMORY_SHARE = 0.25
"""Share of the free memory that a batch may take."""


class Batcher:
    """Runs batches on one device.

    Args:
        config: the model's text config; its sizes tell what a row takes.
        device: where batches run.
        dtype: dtype of the activations.
    """

    def __init__(self, config: Any, device: torch.device, dtype: torch.dtype) -> None:
        self.device = device
        self.halvings: list[str] = []
        """One sentence for each time that memory ran out and a batch was halved."""
        self._size = dtype.itemsize
        # Remote code may name its sizes otherwise; these serve an estimate only.
        self._hidden = int(getattr(config, "hidden_size", None) or 4096)
        self._inner = int(getattr(config, "intermediate_size", None) or 4 * self._hidden)
        self._heads = int(getattr(config, "num_attention_heads", None) or 32)
        self._kv_heads = int(getattr(config, "num_key_value_heads", None) or self._heads)
        self._head_dim = int(getattr(config, "head_dim", None) or self._hidden // self._heads)
        self._layers = int(getattr(config, "num_hidden_layers", None) or 32)

    def row_bytes(self, path: ScoringPath, prefix: int, tail: int) -> int:
        """Bytes that one row of a batch takes at most, by an estimate on the safe side.

        Args:
            path: the scoring path.
            prefix: number of ids in the prefix.
            tail: number of ids after it.
        """
        run = prefix + tail if path == "full" else tail
        activations = run * (8 * self._hidden + 3 * self._inner) * self._size
        attention = 3 * self._heads * run * (prefix + tail) * 4
        copies = 0
        if path == "copied":
            per_layer = 2 * self._kv_heads * self._head_dim * (prefix + tail) * self._size
            copies = (self._layers + 2) * per_layer
        return activations + attention + copies

    def rows(self, path: ScoringPath, prefix: int, tail: int) -> int:
        """Rows of a batch that suit the device and its free memory; see `row_bytes`."""
        run = prefix + tail if path == "full" else tail
        on_cpu = self.device.type == "cpu"
        tokens, most = (CPU_TOKENS, CPU_ROWS) if on_cpu else (DEVICE_TOKENS, DEVICE_ROWS)
        fitting = MEMORY_SHARE * _free_memory(self.device) / self.row_bytes(path, prefix, tail)
        return max(1, min(tokens // run, most, int(fitting)))

    def run(
        self, score: Callable[[Tensor], Tensor], ids: NDArray[np.int64], rows: int
    ) -> NDArray[np.float32]:
        """Score equally long sequences, batch by batch.

        Args:
            score: takes ids ``[B, T]`` on the device, returns float32 ``[B]``.
            ids: ``[n, T]``.
            rows: rows of a batch; rounded up to a multiple of `ROW_STEP`.

        Returns:
            float32 ``[n]``.

        Raises:
            PessimalError: ``out_of_memory``, memory ran out with the smallest batch.
        """
        rows = math.ceil(rows / ROW_STEP) * ROW_STEP
        found: list[Tensor] = []
        done = 0
        while done < len(ids):
            batch = ids[done : done + rows]
            filling = batch[-1:].repeat(-len(batch) % ROW_STEP, axis=0)
            try:
                scores = score(self.to_device(np.concatenate([batch, filling])))
            except RuntimeError as error:
                if not _is_out_of_memory(error):
                    raise
                rows = self._halve(rows)
                continue
            found.append(scores[: len(batch)])
            done += len(batch)
        scored: NDArray[np.float32] = torch.cat(found).cpu().numpy()
        return scored

    def to_device(self, ids: NDArray[np.int64]) -> Tensor:
        """Ids on the batcher's device."""
        tensor = torch.from_numpy(ids)
        if self.device.type == "cuda":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor.to(self.device)

    def _halve(self, rows: int) -> int:
        if rows <= ROW_STEP:
            raise PessimalError(
                "out_of_memory",
                f"Memory ran out with {rows} rows a batch.",
                "Free memory, or choose a 16-bit --dtype or another --device.",
            )
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        half = math.ceil(rows / 2 / ROW_STEP) * ROW_STEP
        self.halvings.append(f"memory ran out: {rows} rows a batch became {half}")
        return half


def equal_lengths(
    sequences: Sequence[tuple[int, ...]], apart: Callable[[tuple[int, ...]], bool] | None = None
) -> list[NDArray[np.int64]]:
    """Indexes of sequences that can share a batch: equally long, and treated alike.

    Args:
        sequences: ids of each sequence.
        apart: tells the sequences that must not share a batch with others.

    Returns:
        The groups, short sequences first, each in the order of `sequences`.

    Raises:
        PessimalError: ``reply_empty``, a sequence has no ids.
    """
    groups: dict[tuple[int, bool], list[int]] = {}
    for index, ids in enumerate(sequences):
        if not ids:
            raise PessimalError(
                "reply_empty",
                "A reply is empty and nothing follows it in the template.",
                "Score replies of at least one token.",
            )
        groups.setdefault((len(ids), apart is not None and apart(ids)), []).append(index)
    return [np.array(groups[key], np.int64) for key in sorted(groups)]


def _free_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    import psutil  # type: ignore[import-untyped]

    return int(psutil.virtual_memory().available)


def _is_out_of_memory(error: RuntimeError) -> bool:
    text = str(error).lower()
    return (
        isinstance(error, torch.OutOfMemoryError)
        or "out of memory" in text
        or "can't allocate memory" in text
    )
