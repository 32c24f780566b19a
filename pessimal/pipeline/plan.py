"""What an audit will cost, told before any weights are loaded."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal

from pessimal.models.records import ModelRequest, ModelSource
from pessimal.pipeline.session import sample_places
from pessimal.pipeline.spec import Pipeline, PromptBook

FIXED_S = 25.0
"""Seconds for loading, self-test, audits, gate and report of a small model."""


def plan_audit(
    request: ModelRequest, pipeline: Pipeline, book: PromptBook, cache: Path
) -> dict[str, Any]:
    """Count the replies, forward tokens, blocks, FLOPs and bytes of an audit's scoring steps.

    Scores that are kept already are not taken off, and searches are not counted.

    Returns:
        A ``pessimal.plan/1`` document; ``seconds`` is an estimate for this machine. What a server
        behind an endpoint takes isn't known: ``flops`` and ``seconds`` are None.
    """
    from pessimal.lexicons import word_lists
    from pessimal.models.slot import find_slot
    from pessimal.models.source import open_source
    from pessimal.models.vocabulary import vocabulary
    from pessimal.sweep.plan import matmul_rate, parameters_outside_embeddings, plan_sweep, total

    source = open_source(request, cache)
    words = vocabulary(source)
    here = bool(source.weight_files)
    parameters = parameters_outside_embeddings(source.config) if here else 0
    if request.kind == "implicit":
        # A reference is as large as the policy that was trained from it.
        parameters *= 2
    shares = source.family.kind == "decoder"
    steps: list[dict[str, Any]] = []
    plans = []

    def add(what: str, names: str | list[str], lengths: dict[int, int]) -> None:
        prompts = book.select(names)
        parts = [
            plan_sweep(
                find_slot(source, prompt.text), lengths, parameters=parameters, shares_prefix=shares
            )
            for prompt in prompts
        ]
        plans.extend(parts)
        whole = total(parts)
        steps.append({"step": what, "prompts": len(prompts), "tokens": whole.tokens,
                      "forward_tokens": whole.forward_tokens})  # fmt: skip

    count = _count(len(words.ids), pipeline.vocabulary.tokens)
    add("vocabulary", pipeline.vocabulary.prompts, {1: count})
    if pipeline.words is not None:
        replies = [word for listed in word_lists().values() for word in listed]
        add("words", pipeline.words.prompts, _lengths(source, replies))
    if pipeline.as_text is not None:
        add("as_text", pipeline.as_text.prompts, {1: _count(count, pipeline.as_text.tokens)})
    whole = total(plans)
    rate = matmul_rate(_device(request.device)) if here else None
    return {
        "schema": "pessimal.plan/1",
        "model": source.id,
        "pipeline": pipeline.name,
        "tokens": whole.tokens,
        "forward_tokens": whole.forward_tokens,
        "blocks": whole.blocks,
        "flops": whole.flops if here else None,
        "disk_bytes": whole.disk_bytes,
        "seconds": None if rate is None else FIXED_S + whole.seconds(rate),
        "parameters_outside_embeddings": parameters if here else None,
        "vocabulary": len(words.ids),
        "ids_without_row": len(words.without_row),
        "matmul_flops_per_s": rate,
        "searches": "not counted",
        "steps": steps,
    }


def _count(size: int, tokens: Literal["all"] | int) -> int:
    return len(sample_places(size, tokens))


def _lengths(source: ModelSource, replies: list[str]) -> dict[int, int]:
    tokenizer: Any = source.tokenizer
    ids = {tuple(row) for row in tokenizer(replies, add_special_tokens=False)["input_ids"]}
    return dict(Counter(len(row) for row in ids))


def _device(name: str) -> str:
    from pessimal.models.loader import pick_device

    return str(pick_device(name))
