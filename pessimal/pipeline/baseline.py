"""An earlier run to hold a run against: of the same words under the same prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pessimal.audit import Context, Metric, Prompt
from pessimal.audit.drift import drift
from pessimal.errors import PessimalError, UsageError
from pessimal.pipeline.audits import AuditOutcome, run_audits
from pessimal.pipeline.session import SEED
from pessimal.pipeline.stored import open_document, read_frame
from pessimal.text import show_text
from pessimal.tracking import Tracker, find_aliased

if TYPE_CHECKING:
    import pandas as pd

HUMAN = "human"


@dataclass(frozen=True)
class Baseline:
    """An earlier run's word scores."""

    run_id: str
    """The run."""
    document: Mapping[str, Any]
    """What documents say of it: ``run_id model revision verdict``."""
    words: pd.DataFrame
    """Its word table."""


def open_baseline(
    tracker: Tracker, reference: str, model_id: str, prompts: Mapping[str, str],
    lists: Mapping[str, str],
) -> Baseline:  # fmt: skip
    """Find a baseline and check that it can be one.

    Args:
        tracker: the store.
        reference: a run id, the beginning of one, ``latest``, an alias of this model's registered
            versions, or ``ID@ALIAS`` for another model's.
        model_id: this run's model.
        prompts: texts of the prompts that this run's words are scored under, by id.
        lists: sha256 of this run's word lists, by name; a human ranking's needn't agree.

    Raises:
        UsageError: no such run, or ``baseline_mismatch``: other prompts or other words.
        PessimalError: the run holds no words.
    """
    run_id = _find(tracker, reference, model_id)
    document = open_document(tracker, run_id)
    place = document["artifacts"].get("words")
    if place is None:
        raise PessimalError(
            "baseline_without_words", f"The baseline {run_id} holds no word scores.",
            "Name a run of a pipeline that scores the word lists.",
        )  # fmt: skip
    words = read_frame(tracker, run_id, place)
    texts = {one["id"]: one["text"] for one in document["prompts"]}
    scored = {name for name in texts if f"score:{name}" in words.columns}
    theirs = {one["name"]: one["sha256"] for one in document["word_lists"]}
    differ = [
        f"the prompt {show_text(name, 60)}"
        for name, text in prompts.items()
        if name not in scored or texts[name] != text
    ]
    differ += [
        f"the word list {show_text(name, 60)}"
        for name in sorted((lists.keys() | theirs.keys()) - {HUMAN})
        if lists.get(name) != theirs.get(name)
    ]
    if differ:
        more = f" and {len(differ) - 3} more" if len(differ) > 3 else ""
        raise UsageError(
            "baseline_mismatch",
            f"The baseline {run_id} differs in {', '.join(differ[:3])}{more}.",
            "Compare runs of the same pipeline and version; audit the earlier model again.",
        )
    model = document["model"]
    about = {
        "run_id": run_id, "model": model["id"], "revision": model["revision"],
        "verdict": document["verdict"],
    }  # fmt: skip
    return Baseline(run_id, about, words)


def measure_drift(
    tracker: Tracker, document: Mapping[str, Any], reference: str
) -> tuple[AuditOutcome, list[Metric], Baseline]:
    """Hold a finished run against an earlier one, from what both hold.

    Args:
        tracker: the store.
        document: the finished run's audit document.
        reference: the baseline, as for `open_baseline`.

    Raises:
        UsageError: see `open_baseline`, and ``baseline_is_run`` for a run against itself.
        PessimalError: one of the two holds no words.
    """
    run_id = document["run_id"]
    place = document["artifacts"].get("words")
    if place is None:
        raise PessimalError(
            "baseline_without_words", f"Run {run_id} holds no word scores.",
            "Name a run of a pipeline that scores the word lists.",
        )  # fmt: skip
    words = read_frame(tracker, run_id, place)
    prompts = {
        one["id"]: Prompt(**one)
        for one in document["prompts"] if f"score:{one['id']}" in words.columns
    }  # fmt: skip
    baseline = open_baseline(
        tracker, reference, document["model"]["id"],
        {name: prompt.text for name, prompt in prompts.items() if _general(words, name)},
        {one["name"]: one["sha256"] for one in document["word_lists"]},
    )  # fmt: skip
    if baseline.run_id == run_id:
        raise UsageError(
            "baseline_is_run", f"Run {run_id} can't be its own baseline.", "Name an earlier run."
        )
    context = Context(prompts=prompts, seed=SEED, words=words, baseline=baseline.words)
    [outcome] = run_audits({drift.name: drift}, context, [])
    metrics = list(outcome.result.metrics) if outcome.result else []
    return outcome, metrics, baseline


def _general(words: pd.DataFrame, prompt: str) -> bool:
    """Whether any word but a human ranking's has a score under a prompt."""
    return bool(words.loc[words["list"] != HUMAN, f"score:{prompt}"].notna().any())


def _find(tracker: Tracker, reference: str, model_id: str) -> str:
    name, _, alias = reference.rpartition("@")
    found = find_aliased(tracker, name or model_id, alias)
    if found is not None:
        return found
    try:
        return tracker.find_run(reference)
    except UsageError as error:
        raise UsageError(
            "baseline_unknown", f"{error.message} Nor is it an alias of a registered version.",
            "Name a run by its id, the beginning of it, latest, or an alias such as audited.",
        ) from error  # fmt: skip
