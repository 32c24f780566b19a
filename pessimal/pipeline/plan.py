"""What an audit will cost, told before it is run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.audit import Prompt
from pessimal.errors import UsageError
from pessimal.models.records import ModelRequest, ModelSource, ReplySlot
from pessimal.pipeline.calibrate import Rates, calibrate
from pessimal.pipeline.session import sample_places
from pessimal.pipeline.spec import Pipeline, PromptBook, SearchStep

if TYPE_CHECKING:
    from pessimal.sweep.plan import Plan

FIXED_S = 25.0
"""Seconds for starting, audits, gate, report and MLflow with a small vocabulary."""
FIXED_S_PER_SCORE = 5e-5
"""More of them for every score that is measured and written."""
READ_BYTES_PER_S = 3e8
"""How fast weights are assumed to be read, checked and tested where nothing was measured."""
RERUNS = 200
"""Replies that the audit `numerics` scores again: two ways under two prompts, and under one of
them as whole sequences in two dtypes."""


@dataclass(frozen=True)
class PlannedStep:
    """A scoring step of a pipeline, and what it takes."""

    name: str
    prompts: list[Prompt]
    slots: list[ReplySlot]
    plan: Plan


def plan_audit(
    request: ModelRequest, pipeline: Pipeline, book: PromptBook, cache: Path, *,
    try_it: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Count what an audit pushes through the model, and estimate its time.

    Scores that are kept already are not taken off.

    Args:
        request: which model, and how.
        pipeline: what would run.
        book: its prompts.
        cache: Pessimal's cache folder.
        try_it: load the model and measure its own rates; else no weights are loaded.

    Returns:
        A ``pessimal.plan/1`` document. ``calibration`` tells where ``seconds`` come from:
        ``model``, measured with the model itself; ``matmul``, from this machine's matmul rate;
        ``none``, the weights aren't here or a server scores: ``seconds`` is None then. ``gpus``
        and ``memory`` are arithmetic and marked as estimates. What a server takes isn't known:
        ``flops`` is None then too.

    Raises:
        UsageError: ``nothing_to_try``: `try_it` without weights.
        PessimalError: the model is refused.
    """
    from pessimal.models.endpoints.source import is_url
    from pessimal.models.outline import open_outline
    from pessimal.models.threads import choose_threads
    from pessimal.models.vocabulary import vocabulary
    from pessimal.sweep.hardware import BYTES, estimates, memory, size_of
    from pessimal.sweep.plan import count_parameters, matmul_rate, total

    source = open_outline(request, cache)
    words = vocabulary(source)
    served = is_url(request.model)
    outside, everything = (0, 0) if served else count_parameters(source.config)
    # A reference is as large as the policy that was trained from it.
    copies = 2 if request.kind == "implicit" else 1
    steps = count_steps(source, pipeline, book, len(words.ids), copies * outside)
    whole = total(step.plan for step in steps)
    slots = [slot for step in steps for slot in step.slots]
    longest = max(len(slot.prefix_ids) for slot in slots)
    weights = sum(file.stat().st_size for file in source.weight_files)
    rate, rates, kind = None, None, "none"
    if try_it and (served or not weights):
        raise UsageError(
            "nothing_to_try",
            f"The weights of {source.id} aren't here.",
            "Leave --calibrate out, or name a folder with weights.",
        )
    if weights and not served:
        choose_threads()
        rate = matmul_rate(_device(request.device))
        kind, rates = "matmul", _from_matmul(whole, weights, rate)
    if try_it:
        kind, first = "model", steps[0].prompts[0]
        rates = calibrate(request, cache, first, _word_lists(pipeline), pipeline.searches)
    parts = _searches_of(pipeline, book)
    time = [] if rates is None else _times(rates, steps, longest, parts)
    document: dict[str, Any] = {
        "schema": "pessimal.plan/1",
        "model": source.id,
        "pipeline": pipeline.name,
        "tokens": whole.tokens,
        "forward_tokens": whole.forward_tokens,
        "blocks": whole.blocks,
        "flops": None if served else whole.flops,
        "disk_bytes": whole.disk_bytes,
        "seconds": None if rates is None else sum(part["seconds"] for part in time),
        "estimate": kind != "model",
        "calibration": kind,
        "time": time,
        "parameters_outside_embeddings": None if served else copies * outside,
        "vocabulary": len(words.ids),
        "ids_without_row": len(words.without_row),
        "matmul_flops_per_s": rate,
        "searches": "none" if parts is None else "counted" if rates else "not counted",
        "steps": [
            {"step": step.name, "prompts": len(step.prompts), "tokens": step.plan.tokens,
             "forward_tokens": step.plan.forward_tokens}
            for step in steps
        ],
        "memory": {},
        "gpus": [],
    }  # fmt: skip
    if not served:
        tail = 1 + len(slots[0].suffix_ids)
        size = size_of(source.config, copies * everything, longest, tail)
        needs = {dtype: memory(size, dtype) for dtype in BYTES}
        document["memory"] = {dtype: {**one, "estimate": True} for dtype, one in needs.items()}
        document["gpus"] = estimates(whole.flops, size)
    return document


def count_steps(
    source: ModelSource, pipeline: Pipeline, book: PromptBook, size: int, parameters: int
) -> list[PlannedStep]:
    """The scoring steps of a pipeline over a vocabulary of `size`."""
    from pessimal.models.slot import find_slot
    from pessimal.sweep.plan import plan_sweep, total

    count = len(sample_places(size, pipeline.vocabulary.tokens))
    lengths = {"vocabulary": (pipeline.vocabulary.prompts, {1: count})}
    if pipeline.words is not None:
        sizes = Counter(len(ids) for ids in word_ids(source, pipeline))
        lengths["words"] = pipeline.words.prompts, sizes
    if pipeline.as_text is not None:
        texts = len(sample_places(count, pipeline.as_text.tokens))
        lengths["as_text"] = pipeline.as_text.prompts, {1: texts}
    steps = []
    for name, (names, by_length) in lengths.items():
        prompts = book.select(names)
        slots = [find_slot(source, prompt.text) for prompt in prompts]
        plans = [
            plan_sweep(
                slot, by_length, parameters=parameters,
                shares_prefix=source.family.kind == "decoder",
            )
            for slot in slots
        ]  # fmt: skip
        steps.append(PlannedStep(name, prompts, slots, total(plans)))
    return steps


def _times(
    rates: Rates, steps: list[PlannedStep], prefix: int, searches: tuple[SearchStep, int] | None
) -> list[dict[str, Any]]:
    """The parts of an audit with their seconds."""
    parts = {"load": rates.load_s}
    for step in steps:
        each = rates.words_s if step.name == "words" else rates.singles_s
        parts[step.name] = step.plan.forward_tokens * each
        if step.name == "as_text":
            parts[step.name] += step.plan.tokens * rates.encode_s
    if searches is not None:
        parts["searches"] = _search_seconds(*searches, rates)
    tail = 1 + len(steps[0].slots[0].suffix_ids)
    parts["reruns"] = RERUNS * (
        4 * tail * rates.singles_s + (prefix + tail) * (rates.whole_s + rates.half_s)
    )
    scores = sum(step.plan.tokens for step in steps)
    parts["audits_and_report"] = FIXED_S + FIXED_S_PER_SCORE * scores
    return [{"part": name, "seconds": seconds} for name, seconds in parts.items()]


def _searches_of(pipeline: Pipeline, book: PromptBook) -> tuple[SearchStep, int] | None:
    """The searches and how many there are, baselines apart."""
    step = pipeline.searches
    if step is None:
        return None
    prompts = len(book.select(step.prompts))
    return step, prompts * len(step.lengths) * len(step.directions) * step.seeds


def _search_seconds(step: SearchStep, count: int, rates: Rates) -> float:
    from pessimal.pipeline.searches import OURS_SHARE

    if step.budget is None:
        # The search has its share of the step's seconds, and each baseline as many tokens.
        return step.seconds * (1.0 if rates.search_s is None else OURS_SHARE * rates.search_s)
    each = rates.singles_s / OURS_SHARE if rates.search_token_s is None else rates.search_token_s
    return step.budget * count * each


def _from_matmul(whole: Plan, weights: int, rate: float) -> Rates:
    """Rates of a model that isn't loaded, from this machine's matmuls."""
    each = whole.seconds(rate) / whole.forward_tokens
    return Rates(weights / READ_BYTES_PER_S, each, each, 1e-3, each, each)


def _word_lists(pipeline: Pipeline) -> list[str]:
    from pessimal.lexicons import word_lists

    return [] if pipeline.words is None else [w for listed in word_lists().values() for w in listed]


def word_ids(source: ModelSource, pipeline: Pipeline) -> set[tuple[int, ...]]:
    """Ids of the words and phrases that a pipeline scores, each once."""
    tokenizer: Any = source.tokenizer
    words = _word_lists(pipeline)
    return {tuple(row) for row in tokenizer(words, add_special_tokens=False)["input_ids"]}


def _device(name: str) -> str:
    from pessimal.models.loader import pick_device

    return str(pick_device(name))
