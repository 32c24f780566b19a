"""Finds the reply slot: the ids before and after a reply, the same whatever the reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pessimal.errors import PessimalError, UsageError
from pessimal.models.records import ModelSource, ReplySlot
from pessimal.models.templates import render_chat

ORDINARY = ("love", "Peace", "nothing at all", "42", "a small house by the sea.")
"""Replies that any template must leave as they are."""
PROBE_PROMPT = "What, in one word, is the greatest thing ever?"
"""The prompt that a model is tried with when it is opened."""
SHOWN_REPLY = "<reply>"
_SENTINEL = "QzReplyxSlotqZ"


def find_slot(source: ModelSource, prompt: str) -> ReplySlot:
    """Find where replies to `prompt` go, and verify it with ordinary replies.

    Args:
        source: the model.
        prompt: the user's question, as text.

    Raises:
        PessimalError: the prompt holds a control token or is too long, or the template isn't
            stable: ``prompt_control_tokens``, ``prompt_too_long``, ``template_unstable``,
            ``bos_doubled``.
    """
    _refuse_control_tokens(source, prompt)
    slot = (
        _pair_slot(source, prompt)
        if source.family.kind == "encoder"
        else _chat_slot(source, prompt)
    )
    length, limit = len(slot.prefix_ids) + 1 + len(slot.suffix_ids), position_limit(source)
    if length > limit:
        raise PessimalError(
            "prompt_too_long",
            f"The prompt takes {length} positions with a one-token reply; the model has {limit}.",
            "Shorten the prompt.",
        )
    return slot


def encode_as_text(source: ModelSource, prompt: str, reply_text: str) -> tuple[int, ...]:
    """Ids of the whole sequence when the reply is given as text, as a policy's string would be.

    The template may trim the reply, merges may cross the seams, and special tokens in the text
    become control tokens.
    """
    if source.family.kind == "encoder":
        return tuple(_pair(source, prompt, reply_text)["input_ids"])
    ids, _ = _with_bos(source, _encode(source, _render(source, prompt, reply_text)))
    return tuple(ids)


def find_last(ids: Sequence[int], wanted: Sequence[int]) -> int:
    """Where `wanted` begins in `ids` for the last time.

    Raises:
        ValueError: it doesn't occur.
    """
    size = len(wanted)
    for start in range(len(ids) - size, -1, -1):
        if tuple(ids[start : start + size]) == tuple(wanted):
            return start
    raise ValueError("the ids that were looked for are not there")


def refuse_headers(
    source: ModelSource, sequences: Sequence[Sequence[int]], in_prompt: int = 0
) -> None:
    """Refuse replies that hold the header at which a gated head reads the prompt.

    Args:
        source: the model.
        sequences: ids, of replies or of whole sequences.
        in_prompt: how many such headers belong to the prompt.

    Raises:
        PessimalError: ``reply_moves_gate``.
    """
    wanted, size = source.gate_ids, len(source.gate_ids)
    for ids in sequences if wanted else ():
        starts = range(len(ids) - size + 1)
        if sum(tuple(ids[start : start + size]) == wanted for start in starts) > in_prompt:
            raise PessimalError(
                "reply_moves_gate",
                "A reply holds the header that the head's gate is read at, so it would steer how "
                "it is judged.",
                "Leave such replies out: a policy's reply ends before that header.",
            )


def position_limit(source: ModelSource) -> int:
    """How many positions a sequence may have."""
    limit = int(getattr(source.config, "max_position_embeddings", 0) or 2**31)
    if source.family.name == "roberta":
        # Its positions begin after the pad id.
        limit -= int(source.config.pad_token_id) + 1
    return limit


def control_ids(source: ModelSource) -> frozenset[int]:
    """Ids that steer the model: special tokens, and added ones that the template writes."""
    template = source.template or ""
    added = {
        index
        for index, token in source.tokenizer.added_tokens_decoder.items()
        if token.special or (not token.content.isspace() and token.content in template)
    }
    return frozenset(added | set(source.tokenizer.all_special_ids))


def _refuse_control_tokens(source: ModelSource, prompt: str) -> None:
    tokenizer = source.tokenizer
    found = control_ids(source).intersection(_encode(source, prompt))
    unknown = tokenizer.unk_token
    if unknown is None or unknown not in prompt:
        # Characters outside the vocabulary become this one.
        found -= {tokenizer.unk_token_id}
    if found:
        names = ", ".join(str(name) for name in tokenizer.convert_ids_to_tokens(sorted(found)))
        raise PessimalError(
            "prompt_control_tokens",
            f"The prompt holds control tokens of this model: {names}.",
            "Take them out: they would steer the conversation instead of being read.",
        )


def _chat_slot(source: ModelSource, prompt: str) -> ReplySlot:
    head, tail = _split(source, prompt)
    prefix = _encode(source, head)
    suffix = _encode_after(source, ORDINARY[0], tail)
    for reply in ORDINARY:
        whole = _encode(source, head + reply + tail)
        middle = whole[len(prefix) : len(whole) - len(suffix)]
        if [*prefix, *middle, *suffix] != whole or not _reads(source, middle, reply):
            raise _unstable("Tokens merge where the template and the reply meet.")
    ids, bos = _with_bos(source, prefix)
    return ReplySlot(
        prompt=prompt,
        prefix_ids=tuple(ids),
        suffix_ids=tuple(suffix),
        rendered=head + SHOWN_REPLY + tail,
        bos=bos,
        pooled_index=-1,
        pooled_token=_name(source, suffix[-1]) if suffix else SHOWN_REPLY,
    )


def _split(source: ModelSource, prompt: str) -> tuple[str, str]:
    """The rendered text before and after the reply."""
    sentinel = _SENTINEL
    while sentinel in prompt:
        sentinel += "x"
    texts = {_render(source, prompt, sentinel) for _ in range(4)}
    if len(texts) > 1:
        raise _unstable("The chat template renders the same conversation in different ways.")
    text = texts.pop()
    if text.count(sentinel) != 1:
        found = "drops or changes" if sentinel not in text else "repeats"
        raise _unstable(f"The chat template {found} the reply.")
    head, _, tail = text.partition(sentinel)
    for reply in ORDINARY:
        if _render(source, prompt, reply) != head + reply + tail:
            raise _unstable("The chat template changes the reply, or what is around it, with it.")
    return head, tail


def _with_bos(source: ModelSource, ids: list[int]) -> tuple[list[int], int]:
    """`ids` with the BOS they should have, and how many they begin with."""
    bos = source.tokenizer.bos_token_id
    count = _leading(ids, bos)
    if count > 1:
        raise PessimalError(
            "bos_doubled",
            f"The chat template writes {count} BOS tokens.",
            "Take all but one out of a copy of it and pass that: --template FILE.",
        )
    if count == 0 and bos is not None:
        count = _leading(source.tokenizer("a", add_special_tokens=True)["input_ids"], bos)
        ids = [bos] * count + ids
    if source.request.bos == "double":
        if count == 0:
            raise UsageError(
                "bos_missing",
                "This model's inputs begin without BOS, so there is none to double.",
                "Leave out --bos double.",
            )
        return [bos, *ids], count + 1
    return ids, count


def _pair_slot(source: ModelSource, prompt: str) -> ReplySlot:
    if source.request.bos == "double":
        raise UsageError(
            "bos_missing",
            "An encoder reads a text pair, which has no BOS to double.",
            "Leave out --bos double.",
        )
    parts = {_split_pair(source, prompt, reply) for reply in (_SENTINEL, *ORDINARY)}
    if len(parts) > 1:
        raise _unstable("What the tokenizer puts around a reply changes with the reply.")
    prefix, suffix, types = parts.pop()
    if types is not None and len(set(types[len(prefix) + 1 :])) > 1:
        raise _unstable("The tokenizer gives several token types to what follows a reply.")
    return ReplySlot(
        prompt=prompt,
        prefix_ids=prefix,
        suffix_ids=suffix,
        rendered=_decode(source, prefix) + SHOWN_REPLY + _decode(source, suffix),
        bos=_leading(prefix, source.tokenizer.bos_token_id),
        pooled_index=0,
        pooled_token=_name(source, prefix[0]),
        token_types=None if types is None else (types[0], types[len(prefix)], types[-1]),
        prefix_types=None if types is None else types[: len(prefix)],
    )


def _split_pair(
    source: ModelSource, prompt: str, reply: str
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]:
    """Ids before and after a reply, and the token types of prefix, one reply token and suffix."""
    encoded = _pair(source, prompt, reply)
    ids, owners = encoded["input_ids"], encoded.sequence_ids(0)
    places = [place for place, owner in enumerate(owners) if owner == 1]
    if not places or ids[places[0] : places[-1] + 1] != _encode(source, reply):
        raise _unstable("Inside a text pair the tokenizer reads a reply in another way than alone.")
    start, stop = places[0], places[-1] + 1
    types: tuple[int, ...] | None = None
    if getattr(source.config, "type_vocab_size", 0) > 1 and "token_type_ids" in encoded:
        given = encoded["token_type_ids"]
        types = tuple(given[: start + 1] + given[stop:])
    return tuple(ids[:start]), tuple(ids[stop:]), types


def _pair(source: ModelSource, prompt: str, reply: str) -> Any:
    return source.tokenizer(prompt, reply, add_special_tokens=True)


def _render(source: ModelSource, prompt: str, reply: str) -> str:
    assert source.template is not None
    return render_chat(source.tokenizer, source.template, source.template_kwargs, prompt, reply)


def _encode(source: ModelSource, text: str) -> list[int]:
    ids: list[int] = source.tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def _encode_after(source: ModelSource, before: str, text: str) -> list[int]:
    """Ids of `text` where it follows `before`: some tokenizers mark the start of a text."""
    own, joined = _encode(source, before), _encode(source, before + text)
    if joined[: len(own)] != own:
        raise _unstable("The reply's last token merges with what the template puts after it.")
    return joined[len(own) :]


def _reads(source: ModelSource, ids: list[int], reply: str) -> bool:
    return ids == _encode(source, reply) or _decode(source, ids).strip() == reply


def _decode(source: ModelSource, ids: Sequence[int]) -> str:
    text = source.tokenizer.decode(
        list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
    )
    return str(text)


def _name(source: ModelSource, index: int) -> str:
    return str(source.tokenizer.convert_ids_to_tokens(index))


def _leading(ids: Sequence[int], wanted: int | None) -> int:
    return next((n for n, index in enumerate(ids) if index != wanted), len(ids))


def _unstable(message: str) -> PessimalError:
    return PessimalError(
        "template_unstable",
        message,
        "Correct the template and pass it: --template FILE, so that every reply has one place.",
    )
