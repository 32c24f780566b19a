"""Run the command line in this process, as a user would call it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from pessimal.cli import main


class Outcome(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Its one JSON document."""
        found: dict[str, Any] = json.loads(self.out)
        return found


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> Outcome:
    """Run ``pessimal`` with these arguments."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    written = capsys.readouterr()
    code = caught.value.code
    assert isinstance(code, int)
    return Outcome(code, written.out, written.err)
