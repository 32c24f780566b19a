"""Examines a reward model before anything is scored: what it is, what was checked, what drifts."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pessimal.errors import PessimalError, UsageError
from pessimal.models.records import ModelRequest, ModelSource, ReplySlot
from pessimal.models.steps import listening

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pessimal.models.protocol import ReplyScorer
    from pessimal.models.vocabulary import Vocabulary

TEXT_TOKENS = 512
"""Random tokens that are sent through the template as text."""
DRIFT_REPLIES = 48
"""Random one-token replies that are scored again; with too few a drift may not show."""
WHOLE_REPLIES = 16
"""How many of them where each runs its whole prompt again."""
SAME_SD = 1e-4
"""Largest drift, in SD of the scores, that counts as none."""
REPLY_MARK, POOLED_MARK = ("⟦", "⟧"), ("⟪", "⟫")
"""What stands around the reply and the pooled token in the example."""


@dataclass
class _Examination:
    model: dict[str, Any]
    checks: list[dict[str, str]] = field(default_factory=list)
    drift: list[dict[str, Any]] = field(default_factory=list)
    example: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, detail: str, status: str = "ok") -> None:
        self.checks.append({"name": name, "status": status, "detail": detail})


def examine(request: ModelRequest, cache: Path, prompt: str | None = None) -> dict[str, Any]:
    """Open, load and try a model.

    Args:
        request: the model flags.
        cache: Pessimal's cache folder.
        prompt: what the example asks; the prompt that models are tried with by default.

    Returns:
        The ``pessimal.doctor/1`` document. A check's status is ``ok``, ``warning`` or ``refused``;
        the verdict is REFUSED where an audit would refuse the model, and the checks that it passed
        before are there all the same.

    Raises:
        UsageError: a flag is wrong, which says nothing of the model.
    """
    found = _Examination({"id": request.model})
    verdict = "OK"
    try:
        with listening(found.note):
            _examine(request, cache, prompt, found)
    except UsageError:
        raise
    except PessimalError as error:
        verdict = "REFUSED"
        found.note(error.code, f"{error.message} {error.remedy}", "refused")
    return {
        "schema": "pessimal.doctor/1",
        "verdict": verdict,
        "model": found.model,
        "checks": found.checks,
        "drift": found.drift,
        "example": found.example,
        "exit_code": 0 if verdict == "OK" else 3,
    }


def _examine(request: ModelRequest, cache: Path, prompt: str | None, found: _Examination) -> None:
    from pessimal.models.opening import open_scorer
    from pessimal.models.slot import PROBE_PROMPT, find_slot
    from pessimal.models.source import open_source

    source = open_source(request, cache)
    found.model = {
        "id": source.id,
        "revision": source.revision,
        "family": source.family.name,
        "head": {"key": source.head_key, "shape": list(source.head_shape)},
        "dtype": request.dtype,
        "notes": list(source.notes),
    }
    slot = find_slot(source, prompt or PROBE_PROMPT)
    found.example = {"prompt": slot.prompt, "marked": mark_example(source, slot)}
    _check_ids(source, slot, found)
    scorer = open_scorer(source, cache)
    test = scorer.self_test(slot)
    found.note(
        "self_test",
        f"{test.subject} agrees with {test.compared_with} on {test.n} replies (largest difference "
        f"{test.max_difference_sd:.1g} SD).",
    )
    for step in test.steps:
        found.note("path", f"A faster path was given up: {step}.", "warning")
    found.model = scorer.document(slot, test)
    _check_drift(scorer, slot, found)


def mark_example(source: ModelSource, slot: ReplySlot) -> str:
    """The rendered prompt, with marks around the reply's place and the pooled token."""

    def read(ids: tuple[int, ...]) -> str:
        text = source.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return str(text)

    def pooled(text: str) -> str:
        # A reward that is a sum over the reply's tokens is read at none.
        summed = source.request.kind == "implicit"
        return text if summed else POOLED_MARK[0] + text + POOLED_MARK[1]

    prefix, reply, suffix = slot.prefix_ids, "reply".join(REPLY_MARK), slot.suffix_ids
    if slot.pooled_index == 0:
        return pooled(read(prefix[:1])) + read(prefix[1:]) + reply + read(suffix)
    if not suffix:
        return read(prefix) + pooled(reply)
    return read(prefix) + reply + read(suffix[:-1]) + pooled(read(suffix[-1:]))


def _check_ids(source: ModelSource, slot: ReplySlot, found: _Examination) -> None:
    """What the tokenizer and the template do to a prompt, and which tokens can be scored."""
    from pessimal.models.vocabulary import vocabulary

    tokenizer = source.tokenizer
    doubled = slot.bos > 1
    found.note(
        "bos",
        f"Inputs begin with {slot.bos} BOS ({tokenizer.bos_token or 'the tokenizer has none'}).",
        "warning" if doubled else "ok",
    )
    config_pad, own_pad = getattr(source.config, "pad_token_id", None), tokenizer.pad_token_id
    found.note(
        "pad",
        f"Pad id {config_pad} in the config, {own_pad} in the tokenizer; scores are computed "
        f"without padding, whatever its side ({tokenizer.padding_side}).",
        "ok" if config_pad == own_pad else "warning",
    )
    words = vocabulary(source)
    lost = f"; ids without an embedding row: {_some(words.without_row)}"
    found.note(
        "vocabulary",
        f"{len(words.ids):,} tokens can be scored, {int(words.special.sum()):,} of them special; "
        f"{int(words.roundtrips.sum()):,} keep their id as text"
        + (lost if words.without_row else "")
        + ".",
        "warning" if words.without_row else "ok",
    )
    found.note("as_text", _check_text(source, slot, words))


def _check_text(source: ModelSource, slot: ReplySlot, words: Vocabulary) -> str:
    """What becomes of tokens that reach the model as text, as a policy's do."""
    import numpy as np

    from pessimal.models.slot import encode_as_text

    size = len(words.ids)
    places = np.random.default_rng(2).choice(size, min(TEXT_TOKENS, size), replace=False)
    start, stop = len(slot.prefix_ids), len(slot.suffix_ids)
    same = collided = 0
    for place in places.tolist():
        token = int(words.ids[place])
        ids: tuple[int, ...] = ()
        # A template may refuse a text, while the token itself can be scored.
        with suppress(PessimalError):
            ids = encode_as_text(source, slot.prompt, words.texts[place])
        same += ids == (*slot.prefix_ids, token, *slot.suffix_ids)
        middle = ids[start : len(ids) - stop]
        alone = len(middle) == 1 and ids == (*slot.prefix_ids, *middle, *slot.suffix_ids)
        collided += alone and middle != (token,)
    return (
        f"Of {len(places)} tokens given as text {same} stay what they are, {len(places) - same} "
        f"become other ids, {collided} of these another token."
    )


def _check_drift(scorer: ReplyScorer, slot: ReplySlot, found: _Examination) -> None:
    """Score the same replies with one thing changed at a time."""
    import numpy as np

    from pessimal.models.rescoring import RescoringScorer, Variant

    rows = scorer.model.embedding_rows
    drawn = np.random.default_rng(1).choice(rows, min(DRIFT_REPLIES, rows), replace=False)
    replies = [(int(token),) for token in drawn]
    scores = scorer.score(slot, replies)
    found.note(
        "scores",
        f"{len(replies)} random tokens score {scores.min():.4g} to {scores.max():.4g}, mean "
        f"{scores.mean():.4g}, SD {scores.std():.4g}.",
    )
    sd = float(scores.std())
    again = RescoringScorer(scorer, {"example": slot})
    for variant in get_args(Variant):
        count = len(replies) if variant in ("batch", "order") else WHOLE_REPLIES
        other = again.rescore("example", replies[:count], variant=variant)
        if other is not None:
            found.drift.append(_compare(variant, scores[:count], other, sd))
    sizes = {row["variant"]: row["max_difference_sd"] for row in found.drift}
    moved = [name for name, size in sizes.items() if size is None or size > SAME_SD]
    low = scorer.model.request.dtype != "float32"
    surprising = [name for name in moved if name != "bfloat16" and not low]
    found.note(
        "drift",
        f"Scores stay within {SAME_SD:g} SD when the batch, the order or the padding changes."
        if not set(moved) - {"bfloat16"}
        else f"Scores move by more than {SAME_SD:g} SD with: {', '.join(moved)}.",
        "warning" if surprising else "ok",
    )


def _compare(
    variant: str, scores: NDArray[np.float32], other: NDArray[np.float32], sd: float
) -> dict[str, Any]:
    import numpy as np

    difference = float(np.abs(other - scores).max())
    finite = bool(np.isfinite(difference))
    first, second = (np.sign(side[:, None] - side[None]) for side in (scores, other))
    pairs = np.triu_indices(len(scores), 1)
    return {
        "variant": variant,
        "replies": len(scores),
        "max_difference": difference if finite else None,
        "max_difference_sd": difference / sd if finite else None,
        "flipped_pairs": float((first[pairs] * second[pairs] < 0).mean()),
    }


def _some(ids: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, ids[:5]))
    return shown + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
