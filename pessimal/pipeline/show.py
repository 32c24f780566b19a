"""Read a run as it is stored, to show it. Nothing of any folder is run, and nothing is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pessimal.errors import UsageError
from pessimal.pipeline.stored import AUDIT_SCHEMA, open_document, read_frame, read_json
from pessimal.project import ContentRoot
from pessimal.tracking import Tracker

if TYPE_CHECKING:
    import pandas as pd

    from pessimal.reports.tokens import PromptTokens

AUDIT: Final = "audit.json"
OTHERS: Final = ("comparison.json", "tune.json")
"""The documents of runs that are no audits."""


def read_run(reference: str, content: ContentRoot, tracking_uri: str | None) -> dict[str, Any]:
    """The document that a finished run holds: an audit's, a comparison's or a study's.

    Args:
        reference: a run id, the beginning of one, or ``latest``.
        content: where runs are, unless `tracking_uri` says.
        tracking_uri: where runs are.

    Raises:
        UsageError: no such run.
        PessimalError: the run hasn't finished, or what it holds can't be read.
    """
    tracker = Tracker(tracking_uri, content.home)
    run_id = tracker.find_run(reference)
    held = set(tracker.artifacts(run_id))
    for name in OTHERS:
        if name in held and AUDIT not in held:
            return read_json(tracker.download(run_id, name))
    return open_document(tracker, run_id)


def read_ends(
    document: dict[str, Any], content: ContentRoot, tracking_uri: str | None, count: int
) -> list[PromptTokens]:
    """The best and worst `count` tokens of an audit under every prompt; words where it has none.

    Raises:
        UsageError: ``not_an_audit``: a comparison or a study holds no scores.
        PessimalError: the run's scores can't be read.
    """
    from pessimal.reports.tokens import prompt_tokens

    if document.get("schema") != AUDIT_SCHEMA:
        raise UsageError(
            "not_an_audit", "This run holds no scores of tokens.", "Name an audit's run."
        )
    artifacts, prompts = document["artifacts"], document.get("prompts") or []
    tracker = Tracker(tracking_uri, content.home)
    if "scores" in artifacts:
        table = read_frame(tracker, document["run_id"], artifacts["scores"])
    elif "words" in artifacts:
        table = _as_tokens(read_frame(tracker, document["run_id"], artifacts["words"]))
    else:
        return []
    return prompt_tokens(table, prompts, count)


def _as_tokens(words: pd.DataFrame) -> pd.DataFrame:
    """A word table with the columns of a score table: imported runs have no tokens."""
    return words.rename(columns={"list": "kind"}).assign(
        token_id=range(len(words)), token=words["word"], text=words["word"], roundtrips=True
    )
