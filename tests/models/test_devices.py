"""Spreading a model over several devices keeps its layers whole and its end together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pessimal.models import devices
from pessimal.models.devices import device_of, devices_of, plan_devices
from pessimal.models.families import family_of
from pessimal.models.loader import pick_device
from pessimal.models.scorer import Scorer
from pessimal.models.slot import find_slot
from tests.builders import build_config, build_model
from tests.models.opening import loaded, refusal
from tests.models.traps import PROMPT, REPLIES

LAYERS = 8


def empty_model(family: str, **config: Any) -> Any:
    """A model without memory behind it, as a large one is planned."""
    from transformers import AutoModelForSequenceClassification

    if family != "gpt2":
        config |= {"num_hidden_layers": LAYERS}
    with torch.device("meta"):
        return AutoModelForSequenceClassification.from_config(build_config(family, 300, **config))


def size_of(module: torch.nn.Module) -> int:
    return sum(weight.numel() * weight.element_size() for weight in module.parameters())


@pytest.mark.parametrize("family", ["llama", "gemma2", "qwen3", "gpt2"])
@pytest.mark.parametrize("gpus", [2, 3])
def test_the_norm_and_the_head_are_where_the_last_layer_is(family: str, gpus: int) -> None:
    row, module = family_of(family), empty_model(family)
    assert row is not None
    room = size_of(module)
    plan = plan_devices(row, module, dict.fromkeys(range(gpus), room))
    layers = f"{row.backbone}.{row.layers}"
    count = len(module.get_submodule(layers))
    places = [device_of(plan, f"{layers}.{index}") for index in range(count)]
    assert places == sorted(places)
    assert set(plan.values()) == set(range(gpus))
    end = {device_of(plan, name) for name in (f"{row.backbone}.{row.norm}", row.head)}
    assert end == {places[-1]}
    # A layer is never cut in two.
    assert not [name for name in plan if name.startswith(f"{layers}.") and name.count(".") > 2]


def test_without_the_rule_the_head_may_lie_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    import accelerate.utils

    row, module = family_of("llama"), empty_model("llama")
    assert row is not None
    apart = {f"model.layers.{index}": 0 for index in range(LAYERS)}
    apart |= {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": 1, "score": 1}
    monkeypatch.setattr(accelerate.utils, "infer_auto_device_map", lambda *_: dict(apart))
    plan = plan_devices(row, module, {0: 10**9, 1: 10**9})
    assert (plan["model.norm"], plan["score"]) == (0, 0)
    assert (apart["model.norm"], apart["score"]) == (1, 1)


def test_a_model_that_the_gpus_do_not_hold_is_refused() -> None:
    row, module = family_of("llama"), empty_model("llama")
    assert row is not None
    small = size_of(module) // 4
    assert refusal(plan_devices, row, module, {0: small, 1: small}).code == "out_of_memory"


def test_an_encoder_takes_one_device() -> None:
    row = family_of("bert")
    assert row is not None
    error = refusal(plan_devices, row, empty_model("bert"), {0: 10**9, 1: 10**9})
    assert error.code == "map_unavailable"


@pytest.mark.parametrize(
    "family",
    [
        "gemma2",
        pytest.param("llama", marks=pytest.mark.slow),
        pytest.param("gpt2", marks=pytest.mark.slow),
    ],
)
def test_a_dispatched_model_scores_as_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    from accelerate import dispatch_model

    whole = loaded(build_model(tmp_path, family), device="cpu")
    place = find_slot(whole.source, PROMPT)

    def dispatch(_: Any, module: Any) -> Any:
        # Every module gets the hooks that would move its inputs from one GPU to the next.
        parts = {name: "cpu" for name, part in module.named_modules() if not list(part.children())}
        return dispatch_model(module, parts, main_device="cpu", force_hooks=True)

    monkeypatch.setattr("pessimal.models.loader.spread_over_gpus", dispatch)
    monkeypatch.setattr("pessimal.models.loader.pick_device", lambda _: torch.device("cpu"))
    spread = loaded(tmp_path, device=devices.SPREAD)
    assert any(hasattr(part, "_hf_hook") for part in spread.module.modules())
    for path in ("shared", "copied", "full"):
        scores = Scorer(spread, path).score(place, REPLIES)  # type: ignore[arg-type]
        expected = Scorer(whole, path).score(place, REPLIES)  # type: ignore[arg-type]
        assert np.array_equal(scores, expected)
    assert Scorer(spread).self_test(place).path == "shared"
    assert devices_of(spread.module) == "cpu"


def test_a_machine_without_gpus_has_nothing_to_spread_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    error = refusal(pick_device, devices.SPREAD)
    assert error.code == "device_unavailable"
