"""Hostile text is shown, and never becomes mark-up."""

from __future__ import annotations

import unicodedata
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pessimal.text import escape_html, escape_markdown, show_text, show_token

HOSTILE = (
    "<script>alert(1)</script>", "</style>", "</script>", "<!--", "]]>", "javascript:alert(1)",
    "\"'`", "\u202egnp.exe", "a\0b", "a" + "\u0301" * 10_000, "\ud800", "\ufffe", "::error::boom",
    "@channel ![x](http://example.invalid/x.png) [y](http://example.invalid)", "\u2028", "\x1b[31m",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" love", "␣love"),
        ("\n\t\r", "\\n\\t\\r"),
        ("\\n", "\\\\n"),
        ("\u202eabc", "⟨U+202E⟩abc"),
        ("a\0b", "a⟨U+0000⟩b"),
        ("\u00a0", "⟨U+00A0⟩"),
        ("␣", "⟨U+2423⟩"),
        ("\u0301a", "◌\u0301a"),
        ("爱", "爱"),
        (b"\xe2\x28", "\\xE2("),
        ("\udce2", "\\xE2"),
        ("", ""),
    ],
)
def test_a_token_is_made_visible(text: str | bytes, shown: str) -> None:
    assert show_token(text) == shown


def test_a_pile_of_combining_marks_is_cut_and_counted() -> None:
    shown = show_token("a" + "\u0301" * 10_000)
    assert sum(unicodedata.combining(c) > 0 for c in shown) == 2
    assert "marks" in shown
    assert len(shown) < 60


def test_a_long_token_is_cut_and_says_by_how_much() -> None:
    assert show_token("x" * 100, limit=10) == "x" * 10 + "…⟨+90⟩"


@given(st.text(max_size=6), st.text(max_size=6))
def test_two_tokens_never_look_the_same(one: str, other: str) -> None:
    combining = sum(unicodedata.category(c).startswith("M") for c in one + other)
    if one != other and combining == 0:
        assert show_token(one) != show_token(other)


@given(st.text(alphabet=st.characters(), max_size=50))
def test_what_is_shown_is_legal_xml_on_one_line(text: str) -> None:
    for shown in (show_token(text), show_text(text)):
        assert not any(unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in shown)
    ElementTree.fromstring(f"<t a='{escape_html(text)}'>{escape_html(text)}</t>")


@pytest.mark.parametrize("text", HOSTILE)
def test_html_holds_no_tag_of_the_text(text: str) -> None:
    seen: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.append(tag)

    Parser().feed(f'<p title="{escape_html(text)}">{escape_html(text)}</p>')
    assert seen == ["p"]


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_holds_no_mark_up_of_the_text(text: str) -> None:
    escaped = escape_markdown(text)
    assert not set("<>[]|`*_@") & set(escaped)
    assert not escaped.startswith("::")
    assert "://" not in escaped


def test_markdown_stays_readable() -> None:
    assert (
        escape_markdown("identity gap -0.05 is above -0.10") == "identity gap -0.05 is above -0.10"
    )
    assert escape_markdown("1. first") == "1&#46; first"
    assert escape_markdown("@all #12") == "&#64;&#8203;all &#35;&#8203;12"
    assert escape_markdown("- item") == "&#45; item"
