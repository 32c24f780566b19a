"""Put SVG documents into a page: rebuilt from what is known to be harmless."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

from pessimal.errors import PessimalError
from pessimal.text import escape_html

_SVG: Final = "{http://www.w3.org/2000/svg}"
_XLINK: Final = "{http://www.w3.org/1999/xlink}href"
_ELEMENTS: Final = frozenset(
    f"{_SVG}{name}"
    for name in ("svg", "g", "path", "rect", "circle", "line", "text", "tspan", "defs", "use",
                 "clipPath", "image")
)  # fmt: skip
_LOCAL: Final = re.compile(r"url\(#([^)]*)\)")


@dataclass(frozen=True)
class Embedded:
    """A figure that a page can hold."""

    label: str
    """What it shows, for those who can't see it."""
    names_tokens: bool
    """Whether tokens are written in it."""
    markup: str
    """The inline SVG."""


def embed(name: str, svg: str) -> Embedded:
    """A figure as an inline SVG with ids of its own.

    Elements that don't draw (scripts, styles, links, foreign objects) are dropped, and so are
    event handlers and references to anything outside the figure.

    Raises:
        PessimalError: it is not SVG.
    """
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise PessimalError(
            "figure_invalid", f"The figure {name!r} is not SVG: {error}.",
            "Make the run's figures again by auditing again.",
        ) from error  # fmt: skip
    prefix = re.sub(r"\W", "-", name)
    label = root.findtext(f"{_SVG}title") or name
    _clean(root, prefix)
    for attribute in ("width", "height"):
        root.attrib.pop(attribute, None)
    # Without its namespace prefix the mark-up is what an HTML parser expects.
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        if _XLINK in element.attrib:
            element.set("href", element.attrib.pop(_XLINK))
    root.set("role", "img")
    text = ElementTree.tostring(root, encoding="unicode")
    text = text.replace("<svg ", f'<svg aria-label="{escape_html(label)}" ', 1)
    return Embedded(label, root.get("class") == "tokens", text)


def _clean(element: ElementTree.Element, prefix: str) -> None:
    for child in list(element):
        if child.tag in _ELEMENTS:
            _clean(child, prefix)
        else:
            element.remove(child)
    for key, value in list(element.attrib.items()):
        name = key.rpartition("}")[2].lower()
        outside = name == "href" and not _harmless(value)
        if name.startswith("on") or outside or "url(" in _LOCAL.sub("", value):
            del element.attrib[key]
        elif name == "id":
            element.set(key, f"{prefix}-{value}")
        elif name == "href" and value.startswith("#"):
            element.set(key, f"#{prefix}-{value[1:]}")
        else:
            element.set(key, _LOCAL.sub(rf"url(#{prefix}-\1)", value))


def _harmless(reference: str) -> bool:
    return reference.startswith(("#", "data:image/png;base64,"))
