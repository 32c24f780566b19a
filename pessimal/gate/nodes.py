"""Read YAML that people wrote: every value keeps its line, and nothing is guessed or executed.

Aliases, tags, several documents, deep nesting and duplicate keys are refused, so neither a bomb nor
a tag that runs code gets past the scanner, and a number is a number only if it is spelt as one.
"""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from pessimal.audit.collect import suggest
from pessimal.errors import UsageError
from pessimal.text import show_text

MAX_BYTES = 256 * 1024
MAX_DEPTH = 8
# PyYAML alone would read 1e-3 and -.5 as text, 1:30 as ninety and 010 as eight.
NUMBER = re.compile(r"[-+]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
NULL = "tag:yaml.org,2002:null"
BOOL = "tag:yaml.org,2002:bool"
STRING = "tag:yaml.org,2002:str"


@dataclass(frozen=True)
class Node:
    """A YAML node, the file it stands in as it is shown, and the code of errors about it."""

    yaml: yaml.Node
    source: str
    code: str

    @property
    def line(self) -> int:
        """The node's line, from 1."""
        mark = self.yaml.start_mark
        return 1 if mark is None else int(mark.line) + 1

    @property
    def place(self) -> str:
        """``expectations/default.yaml:12``."""
        return f"{self.source}:{self.line}"

    def fault(self, message: str, remedy: str) -> UsageError:
        """An error about this node, with its file and line."""
        return UsageError(self.code, f"{self.place}: {message}", remedy)

    def mapping(self, allowed: tuple[str, ...], needed: tuple[str, ...] = ()) -> dict[str, Node]:
        """The values by key.

        Raises:
            UsageError: not a mapping, or a key that is unknown, missing or there twice.
        """
        found = self.entries()
        for key, (at, _) in found.items():
            if key not in allowed:
                raise at.fault(f"Unknown key {brief(key)}.", suggest(key, list(allowed)))
        for key in needed:
            if key not in found:
                raise self.fault(f"The key {key!r} is missing.", f"Give {', '.join(needed)}.")
        return {key: value for key, (_, value) in found.items()}

    def entries(self) -> dict[str, tuple[Node, Node]]:
        """Key and value nodes by key, whatever the keys are.

        Raises:
            UsageError: not a mapping, or a key that is not text or there twice.
        """
        if not isinstance(self.yaml, yaml.MappingNode):
            raise self.fault(
                f"Expected keys and values, found {self._kind()}.", "Write key: value."
            )
        found: dict[str, tuple[Node, Node]] = {}
        for key_node, value_node in self.yaml.value:
            key, value = (Node(node, self.source, self.code) for node in (key_node, value_node))
            name = key.text()
            if name in found:
                raise key.fault(f"The key {brief(name)} is there twice.", "Remove one of the two.")
            found[name] = (key, value)
        return found

    def items(self) -> list[Node]:
        """The items of a list.

        Raises:
            UsageError: not a list.
        """
        if not isinstance(self.yaml, yaml.SequenceNode):
            raise self.fault(
                f"Expected a list, found {self._kind()}.", "Begin each item with '- '."
            )
        return [Node(node, self.source, self.code) for node in self.yaml.value]

    def text(self) -> str:
        """Text, as it is spelt: a number stays the digits that were written.

        Raises:
            UsageError: not a scalar; empty, null, true or false.
        """
        node = self.yaml
        if not isinstance(node, yaml.ScalarNode) or node.tag in (NULL, BOOL) or not node.value:
            raise self.fault(
                f"Expected text, found {self._kind()}.", "Write text, quoted if need be."
            )
        return str(node.value)

    def choice(self, *choices: str) -> str:
        """One of `choices`.

        Raises:
            UsageError: anything else.
        """
        text = self.text()
        if text not in choices:
            raise self.fault(f"{brief(text)} is not a choice here.", f"Use {' or '.join(choices)}.")
        return text

    def flag(self) -> bool:
        """True or false.

        Raises:
            UsageError: anything else, quoted words among it.
        """
        if not isinstance(self.yaml, yaml.ScalarNode) or self.yaml.value not in ("true", "false"):
            raise self.fault(
                f"Expected true or false, found {self._kind()}.", "Write true or false."
            )
        return bool(self.yaml.value == "true")

    def number(self) -> float:
        """A finite number.

        Raises:
            UsageError: anything else: quoted digits, true, .nan, .inf, 1_000, 0x10, 1:30.
        """
        node = self.yaml
        plain = isinstance(node, yaml.ScalarNode) and getattr(node, "style", None) is None
        if plain and NUMBER.fullmatch(node.value):
            number = float(node.value)
            if math.isfinite(number):
                return number
        raise self.fault(
            f"Expected a finite number, found {self._kind()}.",
            "Write it like 0.05, without quotes.",
        )

    def date(self) -> datetime.date:
        """A calendar date.

        Raises:
            UsageError: anything but YYYY-MM-DD.
        """
        text = self.text()
        try:
            if len(text) == len("YYYY-MM-DD"):
                return datetime.date.fromisoformat(text)
        except ValueError:
            pass
        raise self.fault(f"{brief(text)} is not a date.", "Write it as YYYY-MM-DD.")

    def _kind(self) -> str:
        if isinstance(self.yaml, yaml.MappingNode):
            return "keys and values"
        if isinstance(self.yaml, yaml.SequenceNode):
            return "a list"
        if not self.yaml.value:
            return "nothing"
        text = brief(str(self.yaml.value))
        quoted = getattr(self.yaml, "style", None) is not None
        return f"the text {text}" if quoted or self.yaml.tag == STRING else text


def brief(text: str) -> str:
    """Hostile text in quotes, short enough for an error message."""
    return f"'{show_text(text, 60)}'"


def read_node(path: Path, source: str, code: str) -> tuple[Node | None, bytes]:
    """Read a YAML file.

    Args:
        path: the file.
        source: how the file is named in messages.
        code: the code of errors about it.

    Returns:
        Its root node (None for a file without content) and the bytes that were read.

    Raises:
        UsageError: the file can't be read or is not plain YAML.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(
            code, f"{source} can't be read: {error.strerror}.", "Name a file that can be read."
        ) from error
    if len(data) > MAX_BYTES:
        raise UsageError(code, f"{source} is larger than {MAX_BYTES:,} bytes.", "Make it shorter.")
    try:
        text = data.decode("utf-8")
        _scan(text, source, code)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise UsageError(code, f"{source} is not UTF-8.", "Save it as UTF-8.") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = source if mark is None else f"{source}:{mark.line + 1}"
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "bad syntax"
        raise UsageError(
            code, f"{place}: not valid YAML: {show_text(problem)}.", "Mend the syntax there."
        ) from error
    return None if root is None else Node(root, source, code), data


def _scan(text: str, source: str, code: str) -> None:
    # Looks at the events, before any node is built: an alias bomb never gets to expand.
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        mark = event.start_mark
        place = source if mark is None else f"{source}:{mark.line + 1}"
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        refused = None
        if documents > 1:
            refused = "More than one YAML document."
        elif isinstance(event, yaml.AliasEvent):
            refused = "YAML aliases are not allowed."
        elif getattr(event, "tag", None) is not None:
            refused = "YAML tags are not allowed."
        elif depth > MAX_DEPTH:
            refused = f"Nested deeper than {MAX_DEPTH} levels."
        if refused:
            raise UsageError(code, f"{place}: {refused}", "Write plain keys, lists and values.")
