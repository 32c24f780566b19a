"""What is tried of a server before anything is scored; each fault is refused by its name."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pessimal.errors import PessimalError
from pessimal.models.endpoints.dialects import Item
from pessimal.models.selftest import SelfTest, refuse_degenerate, special_ids
from pessimal.models.slot import ORDINARY, PROBE_PROMPT, find_slot
from pessimal.scores.files import write_file

if TYPE_CHECKING:
    from pessimal.models.endpoints.scorer import EndpointScorer

Scores = NDArray[np.float64]
TOKENS = 64
"""Random tokens that are tried."""
ALONE = 8
"""How many of them are also asked for alone."""
UNUSABLE_SD = 0.5
"""A difference, in SD of the scores, beyond which they say nothing."""
ROUNDING_SD = 1e-4
"""A difference that is worth a note."""
LONG = "It is a small house by the sea, and nobody has lived in it for a very long time. " * 3
FAULT_SD = 0.01
"""A difference from local weights that is looked into."""
CALIBRATED = 48
"""Replies that are compared with local weights."""


@dataclass(frozen=True)
class Probe(SelfTest):
    """How a server answered, and what else is known of it."""

    scores: tuple[float, ...] = ()
    """Its scores of the probe's replies."""
    found: dict[str, Any] = field(default_factory=dict)
    """``repeated_sd alone_sd reversed_sd tokens_checked low high``."""
    calibration: dict[str, Any] | None = None
    """How it compared with local weights, or None."""

    @property
    def subject(self) -> str:
        """What was tested, as a sentence begins."""
        return "The endpoint"


def run_probe(scorer: EndpointScorer) -> Probe:
    """Try a server, give it an identity, and compare it with local weights where there are any.

    Raises:
        PessimalError: ``endpoint_vectors``, ``endpoint_constant``, ``endpoint_activation``,
            ``endpoint_unstable``, ``endpoint_batches``, ``endpoint_bos``, ``endpoint_tokens``,
            ``endpoint_differs``; what the client raises.
    """
    items = _items(scorer)
    # One alone comes first: what the server doesn't take at all shows there.
    scorer.ask(items[:1])
    scores, counts = _ask(scorer, items)
    _refuse_useless(scorer, scores)
    sd = float(scores.std())
    alone, _ = _ask(scorer, items[:ALONE], rows=1)
    again, _ = _ask(scorer, items)
    backwards, _ = _ask(scorer, items[::-1])
    found = {
        "repeated_sd": float(np.abs(again - scores).max()) / sd,
        "alone_sd": float(np.abs(alone - scores[:ALONE]).max()) / sd,
        "reversed_sd": float(np.abs(backwards[::-1] - scores).max()) / sd,
        "tokens_checked": counts is not None,
        "low": float(scores.min()),
        "high": float(scores.max()),
    }
    _refuse_unstable(found)
    if counts is not None:
        _refuse_other_counts(scorer, items, counts)
    largest = max(found[name] for name in ("repeated_sd", "alone_sd", "reversed_sd"))
    probe = Probe(
        path="full", max_difference_sd=largest, sd=sd, n=len(items), tolerance_sd=UNUSABLE_SD,
        compared_with="itself, asked again, alone and in another order,",
        scores=tuple(scores.tolist()), found=found,
        notes=_notes(scorer, largest, counted=counts is not None),
        calibration=_calibrate(scorer, items, scores, sd),
    )  # fmt: skip
    scorer.identify(_identity(scorer, probe), probe)
    return probe


def refuse_another_model(scorer: EndpointScorer, probe: Probe) -> None:
    """Refuse a server that came back with another model than the one that was probed.

    Raises:
        PessimalError: ``endpoint_changed``.
    """
    scores, _ = _ask(scorer, _items(scorer)[:ALONE])
    if not _alike(scores, probe.scores[:ALONE], probe):
        raise PessimalError(
            "endpoint_changed",
            "The endpoint was away, and now gives other scores than at the start.",
            "Start again once the model that is to be audited is served: its scores are kept.",
        )


def _items(scorer: EndpointScorer) -> list[Item]:
    """Random tokens, ordinary replies and a long one, under one prompt."""
    source = scorer.model.source
    slot = find_slot(source, PROBE_PROMPT)
    tokenizer: Any = source.tokenizer
    rng = np.random.default_rng(0)
    special = set(special_ids(scorer.model))
    drawn = rng.permutation(source.embedding_rows).tolist()
    tokens = [token for token in drawn if token not in special][:TOKENS]
    replies: list[tuple[int, ...]] = [(token,) for token in tokens]
    for text in (*ORDINARY, LONG):
        replies.append(tuple(tokenizer(text, add_special_tokens=False)["input_ids"]))
    return scorer.items(slot, replies)


def _ask(
    scorer: EndpointScorer, items: list[Item], rows: int | None = None
) -> tuple[Scores, list[tuple[tuple[int, ...], int]] | None]:
    """Scores, and of each answer the token counts that it gave and how many replies it held."""
    answers = scorer.ask(items, rows)
    scores = np.array([score for one in answers for score in one.scores])
    if any(one.tokens is None for one in answers):
        return scores, None
    return scores, [(one.tokens or (), len(one.scores)) for one in answers]


def _refuse_useless(scorer: EndpointScorer, scores: Scores) -> None:
    off = (
        "Turn the server's activation off (vLLM: use_activation false; OpenRLHF: no sigmoid), and "
        "check that it serves the reward model."
    )
    try:
        refuse_degenerate(scores.astype(np.float32))
    except PessimalError as error:
        if error.code != "scores_constant":
            raise
        raise PessimalError(
            "endpoint_constant",
            f"The endpoint gives {len(scores)} different replies the same score,"
            f" {float(scores[0]):g}; a softmax over one label does.",
            off,
        ) from None
    if not scorer.settings.bounded and float(scores.min()) >= 0 and float(scores.max()) <= 1:
        raise PessimalError(
            "endpoint_activation",
            f"All {len(scores)} scores lie between 0 and 1, as a sigmoid or softmax makes them.",
            off + ' If the model\'s own scores do, say so: "bounded": true in a settings file.',
        )


def _refuse_unstable(found: dict[str, Any]) -> None:
    if not found["repeated_sd"] <= UNUSABLE_SD:
        raise PessimalError(
            "endpoint_unstable",
            f"The same replies differ by {found['repeated_sd']:.2g} SD when they are sent again.",
            "Check that dropout is off, and that one model answers at that URL.",
        )
    for name, how in (("alone_sd", "alone and among others"), ("reversed_sd", "in another order")):
        if not found[name] <= UNUSABLE_SD:
            raise PessimalError(
                "endpoint_batches",
                f"The same replies differ by {found[name]:.2g} SD {how}.",
                "Check the server's padding side and its order of answers; or send one reply a "
                "request: --batch-size 1.",
            )


def _refuse_other_counts(
    scorer: EndpointScorer, items: list[Item], counts: list[tuple[tuple[int, ...], int]]
) -> None:
    """Compare the numbers of tokens that the server read with those that were meant."""
    tokenizer: Any = scorer.model.tokenizer
    bos = tokenizer.bos_token_id
    start = 0
    for tokens, size in counts:
        part = items[start : start + size]
        start += size
        meant = [len(_read(scorer, item)) for item in part]
        extra = (sum(tokens) - sum(meant)) / size
        if extra == 0:
            continue
        remedy = 'Send token ids: "send": "ids" in a settings file; or match the server\'s BOS.'
        if abs(extra) == 1 and bos is not None:
            what = "one BOS too many: it is doubled" if extra > 0 else "no BOS, or one too few"
            raise PessimalError(
                "endpoint_bos",
                f"The server reads {what} (it counts {extra:+g} token a reply).",
                remedy,
            )
        raise PessimalError(
            "endpoint_tokens",
            f"The server counts {sum(tokens):,} tokens for replies that have {sum(meant):,}.",
            "Name the model's own tokenizer and template (--tokenizer, --template), and check that "
            "the server cuts nothing off.",
        )


def _read(scorer: EndpointScorer, item: Item) -> list[int]:
    """The ids that a server with our tokenizer reads."""
    if scorer.settings.send == "ids":
        return list(item.ids)
    tokenizer: Any = scorer.model.tokenizer
    ids: list[int] = tokenizer(item.text)["input_ids"]
    return ids


def _notes(scorer: EndpointScorer, largest: float, *, counted: bool) -> tuple[str, ...]:
    notes = ["There is no gradient: searches change one token at a time."]
    if largest > ROUNDING_SD:
        notes.append(f"The endpoint's scores of the same reply differ by up to {largest:.2g} SD.")
    if not counted:
        notes.append(
            "The endpoint doesn't say how many tokens it reads: how many BOS its inputs have can't "
            "be seen from here (--calibrate-with compares it with local weights)."
        )
    tokenizer: Any = scorer.model.tokenizer
    eos = tokenizer.eos_token
    slot = find_slot(scorer.model.source, PROBE_PROMPT)
    if scorer.settings.dialect == "openrlhf" and eos and not slot.rendered.endswith(eos):
        notes.append(
            f"OpenRLHF's server ends every text with its end-of-sequence token, which the template"
            f" doesn't write ({eos})."
        )
    return tuple(notes)


def _identity(scorer: EndpointScorer, probe: Probe) -> str:
    """What stands for the weights behind the server: how it answered the probe the first time.

    A server that answers as it did before, up to its own rounding, is the same; so an interrupted
    sweep goes on, and another model at the same URL never meets old scores.
    """
    from pessimal.models.endpoints.scorer import identity_of

    model = scorer.model
    key = identity_of(model.id, model.hashes.config, model.hashes.tokenizer, model.hashes.template)
    place = scorer.cache / "endpoints" / f"{key}.json"
    known = _known(place)
    for scores in known:
        if len(scores) == len(probe.scores) and _alike(np.array(scores), probe.scores, probe):
            return identity_of(key, json.dumps(scores))
    known.append(list(probe.scores))
    write_file(
        place, json.dumps(known).encode(), code="cache_not_writable",
        remedy="Name a folder that can be written with --cache or PESSIMAL_CACHE.",
    )  # fmt: skip
    return identity_of(key, json.dumps(known[-1]))


def _known(place: Path) -> list[list[float]]:
    try:
        found: list[list[float]] = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return found


def _alike(scores: Scores, others: tuple[float, ...], probe: Probe) -> bool:
    tolerance = max(1e-3, 4 * probe.max_difference_sd)
    return bool(np.abs(scores - np.array(others)).max() / probe.sd <= tolerance)


def _calibrate(
    scorer: EndpointScorer, items: list[Item], scores: Scores, sd: float
) -> dict[str, Any] | None:
    """Compare a server with the weights it is said to serve, loaded here.

    Raises:
        PessimalError: ``endpoint_differs``, or the weights are refused.
    """
    request = scorer.model.request
    if request.calibrate_with is None:
        return None
    from dataclasses import replace

    from pessimal.models.loader import load_model
    from pessimal.models.scorer import Scorer
    from pessimal.models.source import open_source

    source = open_source(
        replace(request, model=request.calibrate_with, endpoint=None, calibrate_with=None),
        scorer.cache,
    )
    slot, ours = find_slot(source, PROBE_PROMPT), find_slot(scorer.model.source, PROBE_PROMPT)
    if (slot.prefix_ids, slot.suffix_ids) != (ours.prefix_ids, ours.suffix_ids):
        raise PessimalError(
            "endpoint_differs",
            f"{source.id} renders a prompt to other ids than the tokenizer and template named for"
            " the endpoint.",
            "Name the tokenizer and the template of the same model.",
        )
    local = Scorer(load_model(source))
    chosen = items[-CALIBRATED:]
    there = scores[-CALIBRATED:]
    bos = source.tokenizer.bos_token_id
    variants: dict[str, list[tuple[int, ...]]] = {
        "": [tuple(_read(scorer, item)) for item in chosen]
    }
    if bos is not None:
        variants["with one BOS more"] = [(bos, *ids) for ids in variants[""]]
        variants["with one BOS less"] = [ids[ids[:1] == (bos,) :] for ids in variants[""]]
    eos = source.tokenizer.eos_token_id
    if eos is not None:
        variants["with an end-of-sequence token more"] = [(*ids, eos) for ids in variants[""]]
    differences = {
        name: float(np.abs(local.score_sequences(slot, sequences) - there).max()) / sd
        for name, sequences in variants.items()
    }
    plain = differences.pop("")
    best = min(differences, key=differences.__getitem__, default="")
    # Rounding moves all variants alike; a fault of the input is told by the variant that has it.
    told = bool(best) and plain > FAULT_SD and differences[best] < plain / 4
    if told or not plain <= UNUSABLE_SD:
        like = f" They agree with its scores {best} ({differences[best]:.2g} SD)." if told else ""
        raise PessimalError(
            "endpoint_differs",
            f"The endpoint's scores differ by {plain:.2g} SD from those of {source.id}." + like,
            "Serve the same weights with the same template and BOS, and no activation.",
        )
    return {
        "model": source.id,
        "revision": source.revision,
        "weights_sha256": local.model.hashes.weights,
        "n": len(chosen),
        "max_difference_sd": plain,
    }
