"""Prompts by id, from a user's YAML file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from pessimal.errors import UsageError
from pessimal.inputs.sheet import read_text
from pessimal.text import show_text

PROMPT_ID = re.compile(r"[^\s,=/]{1,100}")
"""An id names columns and slices, so it holds no white space, comma, equals sign or slash."""
_EXAMPLE = 'Write: best: {framing: positive, text: "What is the best thing ever?"}'


@dataclass(frozen=True)
class PromptText:
    """What a file says of a prompt."""

    text: str
    """What the user asks."""
    framing: Literal["positive", "negative"] | None
    """Whether it asks for the best or the worst; None where the file doesn't say."""


def read_prompts(path: Path) -> dict[str, PromptText]:
    """Read a mapping from prompt id to a text, or to ``{framing: ..., text: ...}``.

    The mapping may stand under a key ``prompts``, as in a project's own ``prompts.yaml``.

    Raises:
        UsageError: ``prompts_invalid``; the message names the row or the prompt.
    """
    try:
        data: Any = yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        row = f", row {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it is not YAML"
        raise UsageError(
            "prompts_invalid", f"{path}{row}: {problem}.", f"Mend the YAML. {_EXAMPLE}"
        ) from error
    if isinstance(data, dict) and isinstance(data.get("prompts"), dict):
        data = data["prompts"]
    if not isinstance(data, dict) or not data:
        raise UsageError("prompts_invalid", f"{path} names no prompt by id.", _EXAMPLE)
    return {str(key): _prompt(path, key, value) for key, value in data.items()}


def _prompt(path: Path, key: object, value: object) -> PromptText:
    text, framing = value, None
    if isinstance(value, dict):
        text, framing = value.get("text"), value.get("framing")
    problem = ""
    if PROMPT_ID.fullmatch(str(key)) is None:
        problem = "an id holds no white space, comma, slash or equals sign"
    elif not isinstance(text, str) or not text.strip():
        problem = "there is no text"
    elif framing not in (None, "positive", "negative"):
        problem = f"the framing {show_text(framing, 40)!r} is neither positive nor negative"
    if problem:
        raise UsageError(
            "prompts_invalid", f"{path}, prompt {show_text(key, 60)!r}: {problem}.", _EXAMPLE
        )
    return PromptText(str(text), framing)
