"""What reward-model servers speak: the request that they take, and where the scores are."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pessimal.errors import PessimalError, UsageError
from pessimal.text import show_text

BATCH = ("$texts", "$ids", "$prompts", "$replies", "$labels")
"""What a request that holds many replies is filled with: a list each."""
SINGLE = ("$text", "$token_ids", "$prompt", "$reply")
"""The same for a request that holds one reply."""


class Settings(BaseModel):
    """How a server is asked: a dialect's own settings, or those of a JSON file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dialect: str = "json"
    """The dialect that these settings begin from; ``json`` brings none."""
    path: str = ""
    """Path of the URL where the user's has none."""
    request: dict[str, Any] = Field(default_factory=dict)
    """The request's body, with placeholders of `BATCH` or of `SINGLE`; ``$model`` too."""
    scores: str = ""
    """Where the scores are in the answer, such as ``data[].score``; ``[]`` is every entry."""
    tokens: str | None = None
    """Where the answer says how many tokens it read: of all replies, or of each."""
    send: Literal["text", "ids"] = "text"
    """Whether a reply goes there as rendered text without BOS, or as token ids."""
    model: str | None = None
    """The name by which the server knows the model."""
    rows: int = Field(default=32, ge=1)
    """Replies of a request."""
    in_flight: int = Field(default=4, ge=1, le=64)
    """Requests that wait for an answer at once, at most."""
    timeout_s: float = Field(default=60, gt=0)
    """Seconds that an answer may take."""
    tries: int = Field(default=8, ge=1)
    """How often a request is sent, at least, before it is given up."""
    patience_s: float = Field(default=300, ge=0)
    """Seconds that a server may be away before a request is given up."""
    backoff_s: float = Field(default=0.5, gt=0)
    """Seconds before the first retry; each further one waits up to twice as long."""
    bounded: bool = False
    """Whether the model's own scores lie between 0 and 1, with no activation behind them."""

    @property
    def single(self) -> bool:
        """Whether a request holds one reply."""
        return _mentions(self.request, SINGLE) and not _mentions(self.request, BATCH)


_VLLM = {"model": "$model", "use_activation": False}
DIALECTS: dict[str, Settings] = {
    "openrlhf": Settings(
        dialect="openrlhf", path="/get_reward", scores="rewards[]",
        request={"query": "$texts", "prompts": "$prompts", "labels": "$labels"},
    ),
    "sglang": Settings(
        dialect="sglang", path="/classify", scores="[].embedding",
        tokens="[].meta_info.prompt_tokens", request={"model": "$model", "text": "$texts"},
    ),
    "vllm-classify": Settings(
        dialect="vllm-classify", path="/classify", scores="data[].probs", send="ids",
        tokens="usage.prompt_tokens", request={**_VLLM, "input": "$ids"},
    ),
    "vllm-pooling": Settings(
        dialect="vllm-pooling", path="/pooling", scores="data[].data", send="ids",
        tokens="usage.prompt_tokens", request={**_VLLM, "task": "classify", "input": "$ids"},
    ),
}  # fmt: skip
"""The dialects that are known by name."""
_INPUT = {
    ("sglang", "ids"): {"model": "$model", "input_ids": "$ids"},
    ("vllm-classify", "text"): {**_VLLM, "input": "$texts"},
    ("vllm-pooling", "text"): {**_VLLM, "task": "classify", "input": "$texts"},
}


@dataclass(frozen=True)
class Item:
    """One reply, in every way that a server may want it."""

    ids: tuple[int, ...]
    """The whole sequence."""
    text: str
    """The whole sequence as text, without the BOS that the server adds."""
    prompt: str
    """The user's question."""
    reply: str
    """The reply alone."""


@dataclass(frozen=True)
class Answer:
    """What a server said of a request's replies."""

    scores: tuple[float, ...]
    """A score a reply."""
    tokens: tuple[int, ...] | None
    """How many tokens it read, of each reply or of all; None where it doesn't say."""


class Malformed(Exception):
    """An answer that isn't what the dialect promises; it may be another one the next time."""


def read_settings(name: str) -> Settings:
    """The settings of ``--endpoint``: a dialect, or a JSON file that changes or makes one.

    Raises:
        UsageError: there is no such dialect or file, or the file says what it can't.
    """
    if name in DIALECTS:
        return DIALECTS[name]
    path = Path(name).expanduser()
    remedy = f"Name one of {', '.join(DIALECTS)}, or a JSON file of settings."
    if not path.is_file():
        raise UsageError("endpoint_dialect", f"There is no dialect and no file {name}.", remedy)
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
        dialect = str(given.get("dialect", "json"))
        if dialect not in ("json", *DIALECTS):
            raise UsageError("endpoint_dialect", f"{name} names no known dialect.", remedy)
        base = DIALECTS[dialect].model_dump() if dialect in DIALECTS else {}
        send = given.get("send", base.get("send", "text"))
        if "request" not in given and (dialect, send) in _INPUT:
            base["request"] = _INPUT[dialect, send]
        settings = Settings(**(base | given))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            "endpoint_settings", f"{name}: {where}: {first['msg']}.", "See docs/endpoints.md."
        ) from None
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(
            "endpoint_settings", f"{name} can't be read as JSON: {error}.", "See docs/endpoints.md."
        ) from None
    if not settings.scores or not _mentions(settings.request, (*BATCH, *SINGLE)):
        raise UsageError(
            "endpoint_settings",
            f"{name} doesn't say what is sent (request) or where the scores are (scores).",
            "See docs/endpoints.md.",
        )
    return settings


def body(settings: Settings, items: Sequence[Item]) -> bytes:
    """The request for some replies; one, where a request holds one."""
    filled = {
        "$texts": [item.text for item in items],
        "$ids": [list(item.ids) for item in items],
        "$prompts": [item.prompt for item in items],
        "$replies": [item.reply for item in items],
        "$labels": ["" for _ in items],
        "$text": items[0].text,
        "$token_ids": list(items[0].ids),
        "$prompt": items[0].prompt,
        "$reply": items[0].reply,
        "$model": settings.model,
    }
    # Lone surrogates can't be sent: they would break the request, or the server.
    text = json.dumps(_fill(settings.request, filled), ensure_ascii=True)
    return text.encode()


def parse(settings: Settings, content: bytes, count: int) -> Answer:
    """Read an answer.

    Args:
        settings: where the scores are.
        content: the answer's bytes.
        count: how many replies it is about.

    Raises:
        Malformed: it is no JSON, or lacks scores.
        PessimalError: ``endpoint_vectors``, there are several numbers for one reply.
    """
    try:
        document = json.loads(content)
        found = _pick(document, settings.scores)
    except (ValueError, LookupError, TypeError) as error:
        raise Malformed(f"{type(error).__name__} in the answer") from None
    values = [found] if settings.single else found
    if not isinstance(values, list) or len(values) != count:
        raise Malformed(f"no {count} scores in the answer")
    return Answer(tuple(map(_number, values)), _tokens(settings, document))


def _tokens(settings: Settings, document: Any) -> tuple[int, ...] | None:
    """How many tokens the server says it read; servers of a dialect may leave that out."""
    if settings.tokens is None:
        return None
    try:
        found = _flat(_pick(document, settings.tokens))
    except (ValueError, LookupError, TypeError):
        return None
    return found if all(found) else None


def _number(value: Any) -> float:
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, list):
        raise PessimalError(
            "endpoint_vectors",
            f"The endpoint gives {len(value)} values for one reply, such as hidden states or"
            " class probabilities; a reward is one number.",
            "Serve the model as a classifier with one label (vLLM: --runner pooling and a "
            "ForSequenceClassification model; SGLang: --is-embedding).",
        )
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Malformed(f"{show_text(value, 40)} is not a score")
    return float(value)


def _pick(document: Any, path: str) -> Any:
    """The value at a path; a list of values where the path holds ``[]``."""
    steps = re.findall(r"[^.\[\]]+|\[\d*\]", path)

    def walk(value: Any, at: int) -> Any:
        if at == len(steps):
            return value
        step = steps[at]
        if step == "[]":
            if not isinstance(value, list):
                raise LookupError(step)
            return [walk(entry, at + 1) for entry in value]
        if step.startswith("["):
            return walk(value[int(step[1:-1])], at + 1)
        return walk(value[step], at + 1)

    return walk(document, 0)


def _flat(value: Any) -> tuple[int, ...]:
    return tuple(int(one) for one in (value if isinstance(value, list) else [value]))


def _mentions(value: Any, names: Sequence[str]) -> bool:
    if isinstance(value, dict):
        return any(_mentions(one, names) for one in value.values())
    if isinstance(value, list):
        return any(_mentions(one, names) for one in value)
    return value in names if isinstance(value, str) else False


def _fill(value: Any, filled: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {
            key: _fill(one, filled) for key, one in value.items()
            if not (one == "$model" and filled["$model"] is None)
        }  # fmt: skip
    if isinstance(value, list):
        return [_fill(one, filled) for one in value]
    return filled.get(value, value) if isinstance(value, str) else value
