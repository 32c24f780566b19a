from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from pessimal.models.prefix import PASS_ARGUMENT, Pass, Prefix, shared_prefix_attention

HEADS, DIM, LENGTH, ROWS = 4, 8, 11, 3


def attend(run: Pass, layer: int, states: tuple[Tensor, Tensor, Tensor], **kwargs: Any) -> Tensor:
    module: Any = SimpleNamespace(layer_idx=layer)
    mixed, weights = shared_prefix_attention(
        module, *states, None, **{PASS_ARGUMENT: run}, **kwargs
    )
    assert weights is None
    return mixed


def plain_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scaling: float,
    softcap: float | None,
    window: int | None,
) -> Tensor:
    """Attention of one sequence, position by position: ``[heads, n, D]`` to ``[n, heads, D]``."""
    rows = []
    for position in range(query.shape[1]):
        first = 0 if window is None else max(0, position - window + 1)
        seen = slice(first, position + 1)
        scores = (key[:, seen] @ query[:, position, :, None]).squeeze(-1) * scaling
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        rows.append((scores.softmax(-1)[..., None] * value[:, seen]).sum(1))
    return torch.stack(rows)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("own", [1, 2, 5, 12])
@pytest.mark.parametrize("window", [None, 3, 7, 11, 12, 40])
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_attention_equals_that_of_whole_sequences(
    kv_heads: int, own: int, window: int | None, softcap: float | None
) -> None:
    generator = torch.Generator().manual_seed(own)

    def states(rows: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
        query = torch.randn(rows, HEADS, length, DIM, generator=generator)
        key, value = torch.randn(2, rows, kv_heads, length, DIM, generator=generator)
        return query, key, value

    shared, tails = states(1, LENGTH), states(ROWS, own)
    options: dict[str, Any] = {"scaling": 0.7, "softcap": softcap, "sliding_window": window}
    prefix = Prefix(LENGTH)
    recorded = attend(Pass(prefix, True, last_layer=1), 0, shared, **options)
    mixed = attend(Pass(prefix, False, last_layer=1), 0, tails, **options)

    whole = [
        torch.cat([one.expand(ROWS, -1, -1, -1), other], dim=2)
        for one, other in zip(shared, tails, strict=True)
    ]
    whole[1:] = [part.repeat_interleave(HEADS // kv_heads, dim=1) for part in whole[1:]]
    for row in range(ROWS):
        expected = plain_attention(
            whole[0][row], whole[1][row], whole[2][row], 0.7, softcap, window
        )
        torch.testing.assert_close(recorded[0], expected[:LENGTH], atol=2e-6, rtol=1e-5)
        torch.testing.assert_close(mixed[row], expected[LENGTH:], atol=2e-6, rtol=1e-5)


def test_the_last_layer_gives_the_last_position() -> None:
    own = 4
    generator = torch.Generator().manual_seed(0)
    shared = tuple(torch.randn(1, HEADS, LENGTH, DIM, generator=generator) for _ in range(3))
    tails = tuple(torch.randn(ROWS, HEADS, own, DIM, generator=generator) for _ in range(3))
    results = []
    for last_layer in (0, 1):
        prefix = Prefix(LENGTH)
        attend(Pass(prefix, True, last_layer), 0, shared)  # type: ignore[arg-type]
        results.append(attend(Pass(prefix, False, last_layer), 0, tails))  # type: ignore[arg-type]
    assert results[0].shape == results[1].shape == (ROWS, own, HEADS, DIM)
    torch.testing.assert_close(results[0][:, -1], results[1][:, -1])


def test_a_forward_that_brings_no_pass_is_refused() -> None:
    state = torch.zeros(1, 1, 1, 2)
    with pytest.raises(ValueError, match="keyword arguments"):
        shared_prefix_attention(SimpleNamespace(layer_idx=0), state, state, state, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["s_aux", "position_bias"])
def test_what_the_attention_does_not_do_is_refused(name: str) -> None:
    states = (torch.zeros(1, 1, 1, 2),) * 3
    with pytest.raises(ValueError, match="not supported"):
        attend(Pass(Prefix(0), True, 0), 0, states, **{name: torch.zeros(1)})
