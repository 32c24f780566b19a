"""One sweep into a file, with no tracking."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pessimal.audit import Prompt
from pessimal.errors import UsageError
from pessimal.models.records import ModelRequest
from pessimal.pipeline.scoring import score_as_text, score_vocabulary, score_words
from pessimal.pipeline.session import Say, Session, open_session
from pessimal.sweep.runner import SweepOptions

COLUMN = "prompt"


@dataclass(frozen=True)
class ScoreRequest:
    """What the user asked for."""

    model: ModelRequest
    """Which model, and how to load it."""
    cache: Path
    """Where scores are kept."""
    prompt: str
    """What the user asks the model that is scored."""
    tokens: str
    """``all``, a number, or a file with a word or phrase a line."""
    as_text: bool
    """Whether each token is scored as text through the template too."""
    out: Path
    """Where the table goes."""
    options: SweepOptions = field(default_factory=SweepOptions)
    """Batch rows and shard."""
    quiet: bool = False
    """No progress bars."""


def run_score(request: ScoreRequest, say: Say) -> dict[str, Any]:
    """Score the vocabulary or a list of words under one prompt, and write the table.

    Returns:
        The ``pessimal.score/1`` document.

    Raises:
        UsageError: ``tokens`` names nothing that can be scored, or ``out`` can't be written.
        PessimalError: the model is refused, or the work could not be done.
    """
    tokens = _tokens(request.tokens)
    if isinstance(tokens, list) and request.as_text:
        raise UsageError(
            "as_text_words", "--as-text is for tokens: words of a file are scored as they are.",
            "Leave out --as-text, or name a number of tokens.",
        )  # fmt: skip
    _check_out(request.out)
    prompt = Prompt(id=COLUMN, text=request.prompt, framing="positive")
    session = open_session(request.model, request.cache, prompt, request.options, say)
    began = time.perf_counter()
    if isinstance(tokens, list):
        say(f"Scoring {len(tokens):,} words and phrases")
        words, costs = score_words(
            session, [prompt], {Path(request.tokens).stem: tokens}, quiet=request.quiet
        )
        rows = len(words.frame)
        if costs[0]["complete"]:
            words.write(request.out)
    else:
        ids = session.planned_ids(tokens)
        say(f"Scoring {len(ids):,} tokens")
        table, costs = score_vocabulary(session, [prompt], ids, quiet=request.quiet)
        rows = len(table.frame)
        if costs[0]["complete"] and request.as_text:
            found, more = score_as_text(session, [prompt], table, "all", quiet=request.quiet)
            costs[0]["complete"] = more[0]["complete"]
            table.frame[f"as_text:{COLUMN}"] = found["text_score"].to_numpy()
            table.frame["as_text_reason"] = found["reason"].to_numpy()
        if costs[0]["complete"]:
            table.write(request.out)
    return _document(request, session, costs[0], rows, time.perf_counter() - began)


def _document(
    request: ScoreRequest, session: Session, cost: dict[str, Any], rows: int, seconds: float
) -> dict[str, Any]:
    slot = session.slots[COLUMN]
    return {
        "schema": "pessimal.score/1",
        "model": session.document(),
        "rows": rows,
        "out": str(request.out) if cost["complete"] else None,
        "complete": cost["complete"],
        "prefix_tokens": len(slot.prefix_ids),
        "suffix_tokens": len(slot.suffix_ids),
        "forward_tokens": cost["forward_tokens"],
        "planned_tokens": cost["planned_tokens"],
        "computed": cost["computed"],
        "reused": cost["reused"],
        "blocks": cost["blocks"],
        "seconds": seconds,
        "path": session.scorer.path,
    }


def _tokens(text: str) -> Literal["all"] | int | list[str]:
    if text == "all":
        return "all"
    if text.isdecimal() and int(text) > 0:
        return int(text)
    path = Path(text)
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "tokens_invalid", f"--tokens {text} is not all, a number or a text file: {error}.",
            "Name a UTF-8 file with a word or phrase a line.",
        ) from error  # fmt: skip
    words = list(dict.fromkeys(line for line in content.splitlines() if line.strip()))
    if not words:
        raise UsageError(
            "tokens_invalid", f"{path} holds no word.", "Write a word or phrase a line."
        )
    return words


def _check_out(out: Path) -> None:
    """Refuse an output that can't be written before anything is scored."""
    if out.is_dir():
        raise UsageError(
            "out_invalid", f"{out} is a folder.", "Name a file, such as scores.parquet."
        )
    folder = out.absolute().parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise UsageError("out_invalid", f"{folder} is not a folder.", "Name another place.")
