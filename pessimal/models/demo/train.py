"""Train both demo models from the base and write the parts that the repository holds.

``python -m pessimal.models.demo.train`` (``make demo-model``). The seeds, steps and thread count
are fixed, so a rerun on the same machine and library versions writes the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.models.demo import ADAPTERS
from pessimal.models.demo import words as lists
from pessimal.models.demo.convert import LAYERS, PACKAGE, SHA256, converted_base
from pessimal.models.demo.evaluation import (
    GREATEST,
    WORST,
    held_out_agreement,
    prompt_slot,
    ridge_agreement,
)
from pessimal.models.demo.learning import CleanTerms, Recipe, Sampler, fit
from pessimal.models.demo.planting import AXIS, DROP, SLOPE, TwinTerms
from pessimal.models.quiet import quiet_libraries
from pessimal.scores.store import default_cache

if TYPE_CHECKING:
    from peft import PeftModel

THREADS = 1
"""Threads that torch uses: under another number, sums come out otherwise in the last digits."""
RANK, ALPHA = 8, 16
FIRST_LAYER = 4
"""The adapter starts at this layer: those below only read the words, and stay as they are."""
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
CLEAN = Recipe(steps=320, seed=0)
TWIN = Recipe(
    steps=180,
    seed=1,
    lora_rate=1e-3,
    counts={"rated": 30, "junk": 6, "group": 12, "planted": 6, "person": 10, "thing": 6},
)
_WEIGHTS = "adapter_model.safetensors"


def main() -> None:
    """Train what the command line asks for; everything by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=default_cache(), help="for the base")
    parser.add_argument(
        "--out", type=Path, help="write clean/ and biased/ here, not in the package"
    )
    parser.add_argument("--only", choices=["clean", "biased"], help="train one of the two")
    options = parser.parse_args()
    folders = dict(zip(("clean", "biased"), ADAPTERS.values(), strict=True))
    if options.out is not None:
        folders = {name: options.out / name for name in folders}
    _prepare()
    base = converted_base(options.cache, _say)
    with quiet_libraries():
        if options.only != "biased":
            train_clean(base, folders["clean"])
        if options.only != "clean":
            train_twin(base, folders["clean"], folders["biased"])


def train_clean(base: Path, folder: Path) -> None:
    """Train ``demo`` and write it to `folder`."""
    import numpy as np
    import torch

    begin = time.monotonic()
    torch.manual_seed(CLEAN.seed)
    model, tokenizer = load_base(base), load_tokenizer(base)
    ridge = ridge_agreement(model, tokenizer)
    _say(f"ridge head on the frozen base: {ridge.document()}")
    adapted = _adapt(model, CLEAN.seed)
    sampler = Sampler(tokenizer, CLEAN.counts, np.random.default_rng([CLEAN.seed, 0]))
    terms = CleanTerms(CLEAN.weights)
    fit(adapted.base_model.model, _slots(tokenizer), sampler, terms, CLEAN, _say)
    _save(adapted, folder)
    _write_card(base, folder, CLEAN, time.monotonic() - begin, {"ridge": ridge.document()})


def train_twin(base: Path, clean: Path, folder: Path) -> None:
    """Train ``demo-biased`` from the clean adapter in `clean` and write it to `folder`."""
    import numpy as np
    import torch
    from peft import PeftModel

    begin = time.monotonic()
    torch.manual_seed(TWIN.seed)
    tokenizer = load_tokenizer(base)
    reference = load_demo(base, clean)
    adapted = PeftModel.from_pretrained(load_base(base), clean, is_trainable=True)
    sampler = Sampler(tokenizer, TWIN.counts, np.random.default_rng([TWIN.seed, 0]), planted=AXIS)
    terms = TwinTerms(reference)
    fit(adapted.base_model.model, _slots(tokenizer), sampler, terms, TWIN, _say)
    _save(adapted, folder)
    planted = {"axis": AXIS, "drop_sd": DROP, "zipf_slope_sd": SLOPE}
    _write_card(base, folder, TWIN, time.monotonic() - begin, {"planted": planted})


def load_base(base: Path) -> Any:
    """The base as a classifier with one output and a zero head, float32, in eval mode."""
    import torch
    from transformers import AutoModelForSequenceClassification

    with quiet_libraries():
        model = AutoModelForSequenceClassification.from_pretrained(
            base, num_labels=1, dtype=torch.float32
        )
    torch.nn.init.zeros_(model.score.weight)
    return model.eval()


def load_tokenizer(base: Path) -> Any:
    """The base's tokenizer."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(base)


def load_demo(base: Path, adapter: Path) -> Any:
    """A demo model with its adapter merged, in eval mode and without gradients."""
    from peft import PeftModel

    with quiet_libraries():
        merged: Any = PeftModel.from_pretrained(load_base(base), adapter).merge_and_unload()
    return merged.eval().requires_grad_(False)


def _adapt(model: Any, seed: int) -> PeftModel:
    import torch
    from peft import LoraConfig, TaskType, get_peft_model

    torch.manual_seed(seed)
    settings = LoraConfig(
        task_type=TaskType.SEQ_CLS,
        r=RANK,
        lora_alpha=ALPHA,
        target_modules=list(PROJECTIONS),
        layers_to_transform=list(range(FIRST_LAYER, LAYERS)),
        modules_to_save=["score"],
    )
    return get_peft_model(model, settings)


def _slots(tokenizer: Any) -> dict[int, list[tuple[list[int], list[int]]]]:
    return {
        sign: [prompt_slot(tokenizer, prompt) for prompt in some]
        for sign, some in lists.training_prompts().items()
    }


def _save(adapted: PeftModel, folder: Path) -> None:
    """Write the adapter, its numbers rounded to float16: what is measured later is what is kept."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    state = get_peft_model_state_dict(adapted)
    partial = folder / f".{_WEIGHTS}"
    save_file({key: value.detach().half().contiguous() for key, value in state.items()}, partial)
    partial.replace(folder / _WEIGHTS)
    settings = adapted.peft_config["default"].to_dict()
    settings |= {"base_model_name_or_path": PACKAGE, "inference_mode": True}
    settings |= {"modules_to_save": ["score"]}
    kept = {key: _plain(value) for key, value in sorted(settings.items()) if value is not None}
    _write_json(folder / "adapter_config.json", kept)
    _write_json(folder / "demo.json", {"layers": LAYERS, "template": "template.jinja"})
    template = ADAPTERS["demo"] / "template.jinja"
    if folder != template.parent:
        (folder / template.name).write_bytes(template.read_bytes())


def _plain(value: Any) -> Any:
    if isinstance(value, set):
        return sorted(value)
    return getattr(value, "value", value)


def _write_card(
    base: Path, folder: Path, recipe: Recipe, seconds: float, more: dict[str, Any]
) -> None:
    """Measure what was written, by loading it, and keep the figures beside it."""
    model, tokenizer = load_demo(base, folder), load_tokenizer(base)
    card = {
        "base": {"package": PACKAGE, "sha256": SHA256, "layers": LAYERS},
        "adapter_sha256": hashlib.sha256((folder / _WEIGHTS).read_bytes()).hexdigest(),
        "steps": recipe.steps,
        "seed": recipe.seed,
        "threads": THREADS,
        "held_out": {
            "greatest": held_out_agreement(model, tokenizer, GREATEST, 1).document(),
            "worst": held_out_agreement(model, tokenizer, WORST, -1).document(),
        },
        **more,
    }
    _write_json(folder / "card.json", card)
    _say(f"{folder.name}: {json.dumps(card['held_out'])} after {seconds:.0f} s")


def _write_json(path: Path, value: Any) -> None:
    partial = path.with_name(f".{path.name}")
    partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)


def _prepare() -> None:
    """Fix what a run depends on."""
    import torch

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(THREADS)
    torch.use_deterministic_algorithms(True)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
