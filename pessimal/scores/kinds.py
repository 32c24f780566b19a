r"""What kind of thing a token is, by a written rule.

The first line that fits decides; spaces around the token's text don't count.

1. ``unused``: its embedding row is identical to another's (the caller says so), or its name says
   that it was never trained: ``<unused7>``, ``[unused7]``, ``<|reserved_special_token_7|>``.
2. ``special``: the tokenizer calls it a control token.
3. ``bytes``: it isn't valid UTF-8 alone: its text holds U+FFFD (unless it is that very character)
   or a lone surrogate.
4. ``non_latin``: it has a letter, or a mark of a script, that isn't Latin.
5. Without letters:
   ``code`` if it has a digit and one of the operator signs ``{}[]<>=\|^~_#&*;@()``;
   ``number`` if it has another digit;
   ``code`` if it is two or more signs, one of them among ``{}[]<>=\|^~_#&*@$/+%``, or ``()``;
   ``punctuation`` otherwise: signs, symbols, emoji, spaces, control characters.
6. ``number``: it begins with a digit (``2nd``, ``3D``, ``0xFF``).
7. ``word``: letters only, known to wordfreq's English list in lower case.
8. ``code``: it has a digit, one of ``{}[]<>=\|^~_#&*@$/+%;()``, a dot or a colon before its first
   letter, or a capital after a small letter (``getName``).
9. ``subword``: the rest: letters, perhaps with apostrophes, hyphens, full stops.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from typing import Literal, get_args

Kind = Literal[
    "word", "subword", "bytes", "number", "punctuation", "code", "non_latin", "special", "unused"
]
KINDS: tuple[str, ...] = get_args(Kind)

_UNUSED_NAME = re.compile(r"[<\[]\|?(unused|reserved(_special)?(_token)?)[_ -]?\d+\|?[>\]]", re.I)
_SURROGATE = re.compile("[\ud800-\udfff]")
# Byte-level tokenizers spell the three bytes of U+FFFD with these characters.
_REPLACEMENT_NAMES = ("\u00ef\u00bf\u00bd", "\ufffd")
_OPERATOR_BY_DIGIT = re.compile(r"[{}\[\]<>=\\|^~_#&*;@()]")
_OPERATOR = re.compile(r"[{}\[\]<>=\\|^~_#&*@$/+%]|\(\)")
_CODE_SIGN = re.compile(r"[{}\[\]<>=\\|^~_#&*@$/+%;()]")
_LEADING_ACCESS = re.compile(r"[^\w]*[.:]\w")
_CAMEL = re.compile(r"[a-z][A-Z]")
_NO_SCRIPT = ("LATIN", "COMBINING", "MODIFIER", "ORDINAL", "MICRO SIGN", "VARIATION SELECTOR")


def token_kinds(
    names: Sequence[str],
    texts: Sequence[str],
    *,
    special: Sequence[bool],
    unused: Collection[int] = (),
) -> list[Kind]:
    """Name the kind of every token by the rule at the top of this module.

    Args:
        names: the tokens as the tokenizer names them, ``[n]``.
        texts: the same tokens decoded, one at a time, ``[n]``.
        special: whether the tokenizer calls the token a control token, ``[n]``.
        unused: positions (0 to n-1) of tokens whose embedding row is identical to another's.

    Raises:
        ValueError: `names`, `texts` and `special` have different lengths.
    """
    if not len(names) == len(texts) == len(special):
        raise ValueError("names, texts and special need one entry a token")
    from wordfreq import get_frequency_dict

    known = get_frequency_dict("en", wordlist="best")
    unused = frozenset(unused)
    classes: dict[str, str] = {}
    return [
        _kind(name, text, is_special, position in unused, known, classes)
        for position, (name, text, is_special) in enumerate(zip(names, texts, special, strict=True))
    ]


def _kind(
    name: str,
    text: str,
    special: bool,
    unused: bool,
    known: Collection[str],
    classes: dict[str, str],
) -> Kind:
    if unused or _UNUSED_NAME.fullmatch(name.strip()):
        return "unused"
    if special:
        return "special"
    if _not_utf8(name, text):
        return "bytes"
    core = text.strip()
    shape = {_character_class(character, classes) for character in core}
    if "other_script" in shape:
        return "non_latin"
    if "letter" not in shape:
        return _without_letters(core, shape)
    if _character_class(core[0], classes) == "digit":
        return "number"
    if shape == {"letter"} and core.lower() in known:
        return "word"
    if (
        "digit" in shape
        or _CODE_SIGN.search(core)
        or _LEADING_ACCESS.match(core)
        or _CAMEL.search(core)
    ):
        return "code"
    return "subword"


def _not_utf8(name: str, text: str) -> bool:
    if _SURROGATE.search(text):
        return True
    return "\ufffd" in text and not any(spelt in name for spelt in _REPLACEMENT_NAMES)


def _without_letters(core: str, shape: set[str]) -> Kind:
    if "digit" in shape:
        return "code" if _OPERATOR_BY_DIGIT.search(core) else "number"
    return "code" if len(core) > 1 and _OPERATOR.search(core) else "punctuation"


def _character_class(character: str, classes: dict[str, str]) -> str:
    """One of letter, other_script, digit, sign; `classes` remembers what was looked up."""
    found = classes.get(character)
    if found is None:
        found = classes[character] = _look_up_class(character)
    return found


def _look_up_class(character: str) -> str:
    category = unicodedata.category(character)
    if category[0] in "LM":
        name = unicodedata.name(character, "")
        if any(part in name for part in _NO_SCRIPT):
            return "letter" if category[0] == "L" else "sign"
        return "other_script"
    return "digit" if category[0] == "N" else "sign"
