"""What goes to stdout and what to stderr, and how errors leave the process."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from typing import Any

from pessimal.errors import PessimalError


def print_document(document: Mapping[str, Any]) -> None:
    """Print one JSON document to stdout. NaN and infinity are refused: they aren't JSON."""
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    text = json.dumps(document, ensure_ascii=ascii_only, allow_nan=False, indent=1)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def escape_unknown() -> None:
    """Have stdout write what its encoding doesn't know as escapes: tokens are of every script."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def print_error(error: PessimalError, as_json: bool) -> None:
    """Print an error: to stderr for people, as a document to stdout where JSON was asked for."""
    if as_json:
        print_document(error.document())
    sys.stderr.write(f"pessimal: {error.message}\n")
    if error.remedy:
        sys.stderr.write(f"  {error.remedy}\n")
