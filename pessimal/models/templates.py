"""Opens tokenizers and chat templates, and renders one user turn with its reply."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.errors import PessimalError, UsageError
from pessimal.models.checkpoint import read_json
from pessimal.models.records import ModelRequest

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PINNED_DATE = "26 Jul 2024"
"""The date that Llama 3.1's template falls back to."""
_PROBE_DATES = ("01 Feb 2003", "13 Nov 2031")


def has_tokenizer(folder: Path) -> bool:
    """Whether `folder` holds a tokenizer's files."""
    return any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json"))


def open_tokenizer(folder: Path, *, trust: bool) -> PreTrainedTokenizerBase:
    """Load a folder's tokenizer; it never cuts or pads.

    Args:
        folder: the tokenizer's folder.
        trust: run its own code if it brings some.

    Raises:
        PessimalError: it brings code and `trust` is off, or it can't be loaded.
    """
    from transformers import AutoTokenizer

    settings = folder / "tokenizer_config.json"
    if settings.is_file() and "auto_map" in read_json(settings) and not trust:
        raise PessimalError(
            "remote_code",
            f"The tokenizer in {folder} brings its own code.",
            "Read it, then pass --trust-remote-code and --revision with the commit.",
        )
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trust
        )
    except Exception as error:
        raise PessimalError(
            "tokenizer_missing",
            f"{folder} has no tokenizer that can be loaded ({type(error).__name__}).",
            "Save the tokenizer beside the model, or pass --tokenizer FOLDER.",
        ) from None
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        # A saved tokenizer can carry both, and direct calls of the backend would obey them.
        backend.no_truncation()
        backend.no_padding()
    tokenizer.model_max_length = int(1e30)
    return tokenizer


def read_template(
    request: ModelRequest, adapter: Path | None, tokenizer: PreTrainedTokenizerBase
) -> str:
    """The chat template's text: the user's file, the adapter's, else the tokenizer's own.

    Raises:
        UsageError: the user's file can't be read.
        PessimalError: there is none.
    """
    if request.template is not None:
        try:
            return request.template.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UsageError(
                "template_unreadable",
                f"The template {request.template} can't be read: {error}.",
                "Name a UTF-8 text file with a jinja chat template.",
            ) from None
    if adapter is not None:
        demo = adapter / "demo.json"
        name = read_json(demo).get("template") if demo.is_file() else None
        for file in (adapter / str(name), adapter / "chat_template.jinja"):
            if file.is_file():
                return file.read_text(encoding="utf-8")
    own: Any = tokenizer.chat_template
    if isinstance(own, dict):
        own = own.get("default")
    if not own:
        raise PessimalError(
            "template_missing",
            "The tokenizer has no chat template, so nobody can say what the model was trained on.",
            "Pass the template it was trained with: --template FILE.",
        )
    return str(own)


def render_chat(
    tokenizer: PreTrainedTokenizerBase,
    template: str,
    template_kwargs: dict[str, Any],
    prompt: str,
    reply: str,
) -> str:
    """Render a user's prompt and an assistant's reply.

    Raises:
        PessimalError: ``template_failed``: the template isn't valid, or refuses the conversation.
    """
    turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply}]
    try:
        text = tokenizer.apply_chat_template(
            turns, chat_template=template, tokenize=False, **template_kwargs
        )
    except Exception as error:  # a template is a program of somebody else's
        reason = " ".join(str(error).split())[:200]
        raise PessimalError(
            "template_failed",
            f"The chat template doesn't render a prompt and its reply: {reason}.",
            "Correct it, or pass another: --template FILE.",
        ) from None
    return str(text)


def pin_date(tokenizer: PreTrainedTokenizerBase, template: str) -> dict[str, Any]:
    """What must be passed to `template` so that it renders the same on every day.

    The template is rendered under two dates: a macro of its own name hides the clock.

    Returns:
        Nothing, or the pinned ``date_string``.

    Raises:
        PessimalError: ``template_date``: the date can't be pinned.
    """
    if "strftime_now" not in template:
        return {}
    choices: tuple[dict[str, Any], ...] = ({}, {"date_string": PINNED_DATE})
    for passed in choices:
        first, second = (
            render_chat(
                tokenizer,
                "{% macro strftime_now(format) %}" + date + "{% endmacro %}" + template,
                passed,
                "prompt",
                "reply",
            )
            for date in _PROBE_DATES
        )
        if first == second:
            return passed
    raise PessimalError(
        "template_date",
        "The chat template writes today's date, so scores would change from day to day.",
        "Write a fixed date into a copy of it and pass that: --template FILE.",
    )
