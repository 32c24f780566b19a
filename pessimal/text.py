"""Show hostile text safely: tokens, prompts and model names are data and never mark-up.

Every function returns text that is legal in XML, holds no control, bidirectional or surrogate
character, and is safe on one line.
"""

from __future__ import annotations

import html
import re
import unicodedata
from typing import Final

MARKS_SHOWN: Final = 2
"""How many combining marks in a row are shown before the rest is counted."""

# Letters, marks and symbols by category that a font draws as nothing at all.
_INVISIBLE: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u2800\u3164\uffa0"
)
# Characters that stand for something else here, so that the text itself must not hold them.
_OWN: Final = frozenset("␣⟨")
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_MARK_CATEGORIES: Final = frozenset({"Mn", "Mc", "Me"})
_ESCAPES: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"}

# What Markdown reads as mark-up or as a table cell's end; what starts a block, or is a command to a
# CI system, at the start of a line only.
_MARKDOWN: Final = re.compile(
    r"[\\`*_\[\]<>&#|~:@$]|(?<=www)\.|\A[-+=]|(?:(?<=\A\d)|(?<=\A\d\d))\.", re.IGNORECASE
)


def show_token(text: str | bytes, limit: int = 80) -> str:
    r"""Make a token visible: different short texts without combining marks never look the same.

    A space is ``␣``; newline, tab, carriage return and backslash are ``\n \t \r \\``; a byte that
    is not valid UTF-8 is ``\xNN``; other spaces, control, format, bidirectional, private and
    unassigned characters are ``⟨U+XXXX⟩``; of a run of combining marks the first two are shown.

    Args:
        text: a token's text; bytes, or the surrogates that stand for them, are shown as hex.
        limit: characters of `text` that are shown before an ellipsis.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", errors="surrogateescape")
    if len(text) <= limit and text.isascii() and text.isprintable() and "\\" not in text:
        return text.replace(" ", "␣")
    return _visible(text, limit, spaces=True)


def show_text(text: object, limit: int = 2000) -> str:
    """Make prose safe to print on one line: as `show_token`, but spaces and backslashes stay."""
    prose = str(text)
    if len(prose) <= limit and prose.isascii() and prose.isprintable():
        return prose
    return _visible(prose, limit, spaces=False)


def escape_html(text: object) -> str:
    """Prose for HTML or XML: text and attribute values alike."""
    return html.escape(show_text(text), quote=True)


def escape_markdown(text: object) -> str:
    """Prose for Markdown: no mention, image, link, table cell, heading or CI command survives.

    A zero-width space after ``@`` and ``#`` keeps mentions and references from being found in the
    rendered text; every other mark becomes a character reference.
    """

    def replace(match: re.Match[str]) -> str:
        mark = match.group()
        return f"&#{ord(mark)};" + ("&#8203;" if mark in "@#" else "")

    return _MARKDOWN.sub(replace, show_text(text))


def _visible(text: str, limit: int, *, spaces: bool) -> str:
    shown: list[str] = []
    marks = 0
    for position, character in enumerate(text):
        if position == limit:
            break
        category = unicodedata.category(character)
        if category in _MARK_CATEGORIES and character not in _INVISIBLE:
            marks += 1
            if marks <= MARKS_SHOWN:
                # A mark with nothing before it would land on whatever stands beside the token.
                shown.append(f"◌{character}" if not shown else character)
            continue
        if marks > MARKS_SHOWN:
            shown.append(f"⟨+{marks - MARKS_SHOWN} marks⟩")
        marks = 0
        shown.append(_visible_character(character, category, spaces))
    if marks > MARKS_SHOWN:
        shown.append(f"⟨+{marks - MARKS_SHOWN} marks⟩")
    if len(text) > limit:
        shown.append(f"…⟨+{len(text) - limit}⟩")
    return "".join(shown)


def _visible_character(character: str, category: str, spaces: bool) -> str:
    if character == " ":
        return "␣" if spaces else " "
    if character in _ESCAPES:
        return "\\" if character == "\\" and not spaces else _ESCAPES[character]
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02X}"
    if category in _HIDDEN_CATEGORIES or character in _INVISIBLE:
        return f"⟨U+{ord(character):04X}⟩"
    if spaces and character in _OWN:
        return f"⟨U+{ord(character):04X}⟩"
    return character
