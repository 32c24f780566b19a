"""Searches over an open model: one for the command line, the building block of an audit's."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pessimal.audit import Prompt
from pessimal.errors import PessimalError
from pessimal.models.records import ModelRequest
from pessimal.pipeline.session import Say, Session, open_session
from pessimal.search.records import Ids, Point, SearchConfig, SearchResult, Space
from pessimal.sweep.runner import SweepOptions, block_context

if TYPE_CHECKING:
    from pessimal.models.records import ReplySlot

SCHEMA = "pessimal.search/1"
SAID_EVERY_S = 5.0
"""Seconds between two lines that tell how far a search is."""


@dataclass(frozen=True)
class SearchRequest:
    """What the user asked for."""

    model: ModelRequest
    """Which model, and how to load it."""
    cache: Path
    """Where scores and the states of searches are kept."""
    prompt: str
    """What the user asks the model that is scored."""
    config: SearchConfig
    """What to search for, and how long."""
    allow: Literal["roundtrip", "all"] = "roundtrip"
    """Which tokens a reply may hold."""
    include: tuple[str, ...] = ()
    """Kinds of tokens to let in beside those."""
    step_down: bool = True
    """Search without gradients where the model gives none."""
    options: SweepOptions = field(default_factory=SweepOptions)
    """Batch rows."""


def run_search(request: SearchRequest, say: Say) -> dict[str, Any]:
    """Search for one reply; nothing is tracked.

    Returns:
        The ``pessimal.search/1`` document.

    Raises:
        UsageError: the budget is below one step, or no token is left.
        PessimalError: the model or the prompt is refused, or the work could not be done.
    """
    prompt = Prompt(id="prompt", text=request.prompt, framing="positive")
    session = open_session(request.model, request.cache, prompt, request.options, say)
    space = token_space(session, request.allow, request.include)
    say(f"Searching among {len(space.allowed):,} tokens")
    result = search_prompt(
        session, session.slot(prompt), request.config, space, request.cache,
        say=say, step_down=request.step_down,
    )  # fmt: skip
    for note in result.notes:
        say(f"Note: {note}")
    return {"schema": SCHEMA, "model": session.document(), "prompt": request.prompt} | document(
        session, session.slot(prompt), result, space, request.allow
    )


def token_space(
    session: Session,
    allow: Literal["roundtrip", "all"] = "roundtrip",
    include: tuple[str, ...] = (),
    singles: Mapping[int, float] | None = None,
) -> Space:
    """The tokens that replies may hold; see `choose_tokens`."""
    from pessimal.search.allowed import choose_tokens

    return choose_tokens(
        session.source, session.vocabulary, session.duplicates,
        allow=allow, include=include, singles=singles,
    )  # fmt: skip


def search_prompt(
    session: Session, slot: ReplySlot, config: SearchConfig, space: Space, cache: Path, *,
    say: Say | None = None, step_down: bool = True,
) -> SearchResult:  # fmt: skip
    """Search under one prompt, going on where an interrupted run of the same search stopped.

    Args:
        session: the model.
        slot: the prompt's reply slot.
        config: what to search for, and how long.
        space: the tokens that replies may hold.
        cache: where the state is kept.
        say: told the best reply so far, every few seconds.
        step_down: search without gradients where the model gives none.

    Raises:
        PessimalError: ``reply_too_long``: prompt and reply don't fit the model; what searching
            refuses.
    """
    from pessimal.search.model import reply_model
    from pessimal.search.peers import SHARING
    from pessimal.search.run import search

    _check_room(session, slot, config.length)
    model = reply_model(session.scorer, slot, space.allowed, SHARING.get(config.method))
    return search(
        model, config, space, folder=cache / "searches" / _key(session, slot, config, space),
        progress=None if say is None else _progress(session, config, say), step_down=step_down,
    )  # fmt: skip


def document(
    session: Session, slot: ReplySlot, result: SearchResult, space: Space, allow: str
) -> dict[str, Any]:
    """A search's entries of a document: the best reply by ids and as text, and what it took."""
    config = result.config
    return {
        "length": config.length,
        "direction": config.direction,
        "method": config.method,
        "seed": config.seed,
        "budget": config.budget,
        "seconds_limit": config.seconds,
        "settings": asdict(config.settings),
        "best": {
            "token_ids": list(result.token_ids),
            "tokens": token_names(session, result.token_ids),
            "text": decoded(session, result.token_ids),
            "reward": result.reward,
            **as_text(session, slot, result.token_ids),
        },
        "trajectory": [asdict(point) for point in result.trajectory],
        "forward_tokens": result.forward_tokens,
        "evaluations": result.evaluations,
        "backward_passes": result.trajectory[-1].backward_passes,
        "seconds": result.seconds,
        "stopped": result.stopped,
        "certificate": result.certificate,
        "tokens": {
            "allow": allow, "allowed": len(space.allowed), "excluded": dict(space.excluded),
        },
        "notes": list(result.notes),
    }  # fmt: skip


def decoded(session: Session, ids: Ids) -> str:
    """A reply's text, special tokens included."""
    tokenizer: Any = session.source.tokenizer
    return str(
        tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    )


def token_names(session: Session, ids: Ids) -> list[str]:
    """The tokens as the tokenizer names them; empty for rows that no token belongs to."""
    tokenizer: Any = session.source.tokenizer
    return [str(name or "") for name in tokenizer.convert_ids_to_tokens(list(ids))]


def as_text(session: Session, slot: ReplySlot, ids: Ids) -> dict[str, Any]:
    """A reply's score as text through the template: what a policy's string would get.

    Returns:
        ``as_text_reward`` (None where the text can't be scored) and ``as_text_same``, whether the
        text gives the same ids.
    """
    from pessimal.models.slot import encode_as_text

    text = decoded(session, ids)
    try:
        sequence = encode_as_text(session.source, slot.prompt, text)
        score = float(session.scorer.score_sequences(slot, [sequence])[0])
    except PessimalError:
        return {"as_text_reward": None, "as_text_same": False}
    same = sequence == (*slot.prefix_ids, *ids, *slot.suffix_ids)
    return {"as_text_reward": score if score - score == 0 else None, "as_text_same": same}


def _check_room(session: Session, slot: ReplySlot, length: int) -> None:
    from pessimal.models.slot import position_limit

    taken = len(slot.prefix_ids) + length + len(slot.suffix_ids)
    limit = position_limit(session.source)
    if taken > limit:
        raise PessimalError(
            "reply_too_long",
            f"Prompt and a reply of {length} have {taken} ids, the model holds {limit}.",
            "Shorten the prompt or the reply; nothing is cut off silently.",
        )


def _progress(session: Session, config: SearchConfig, say: Say) -> Callable[[Point, Ids], None]:
    last = time.monotonic()

    def tell(point: Point, best: Ids) -> None:
        nonlocal last
        if time.monotonic() - last < SAID_EVERY_S:
            return
        last = time.monotonic()
        of = "" if config.budget is None else f" of {config.budget:,}"
        say(
            f"{point.forward_tokens:,}{of} forward tokens, best so far {point.reward:.4g}:"
            f" {decoded(session, best)!r}"
        )

    return tell


def _key(session: Session, slot: ReplySlot, config: SearchConfig, space: Space) -> str:
    """sha256 of all that the answers of a search's model depend on, and the questions."""
    context = block_context(session.scorer, session.model.hashes, slot, "ids")
    asked = {name: value for name, value in asdict(config).items() if name != "certify"}
    arrays = hashlib.sha256(space.allowed.tobytes())
    if space.singles is not None:
        arrays.update(space.singles.tobytes())
    parts = {
        "context": asdict(context), "config": asked, "space": arrays.hexdigest(),
        "core": _core_sha256(),
    }  # fmt: skip
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


@cache
def _core_sha256() -> str:
    """sha256 of the search's source: another version asks other questions."""
    import pessimal.search

    digest = hashlib.sha256()
    for path in sorted(Path(pessimal.search.__file__).parent.glob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
