"""What is compared: a finished run of each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pessimal.compare.covariates import Covariates
from pessimal.scores.table import storable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Entry:
    """One model's finished audit."""

    document: Mapping[str, Any]
    """Its audit document."""
    vocabulary: pd.DataFrame | None
    """Its score table; None where only words were scored."""
    words: pd.DataFrame | None
    """Its word table."""
    covariates: Covariates
    """What is known of the model."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.document["run_id"])

    @property
    def id(self) -> str:
        """The model's id, as text that any file can hold."""
        return storable([str(self.document["model"]["id"])])[0]

    @property
    def revision(self) -> str | None:
        """The model's revision, or the hash of its weights; None where neither is known."""
        from pessimal.gate.waivers import revision_of

        revision = revision_of(self.document["model"])
        return None if revision is None else storable([revision])[0]

    @property
    def finished(self) -> str:
        """When the run was finished: ISO 8601."""
        return str(self.document.get("finished") or "")

    def summary(self, label: str) -> dict[str, Any]:
        """The model as it stands in the document."""
        sampled = (self.document.get("vocabulary") or {}).get("sampled")
        return {
            "run_id": self.run_id, "id": self.id, "revision": self.revision, "label": label,
            "pipeline": self.document.get("pipeline"), "policy": self.document.get("policy"),
            "verdict": self.document.get("verdict"), "finished": self.finished or None,
            "tokens": None if self.vocabulary is None else len(self.vocabulary),
            "words": None if self.words is None else len(self.words), "sampled": bool(sampled),
            "covariates": self.covariates.document(),
        }  # fmt: skip


def label_models(entries: Sequence[Entry]) -> list[str]:
    """A short name a model, each once: its id's last part, with as much more as it takes."""

    def short(entry: Entry) -> str:
        return entry.id.rstrip("/").rpartition("/")[2]

    ways = (
        short,
        lambda entry: entry.id,
        lambda entry: f"{short(entry)}@{(entry.revision or 'unknown').rpartition(':')[2][:7]}",
        lambda entry: f"{short(entry)} ({entry.run_id[:6]})",
        lambda entry: f"{short(entry)} ({entry.run_id})",
    )
    labels = [short(entry) for entry in entries]
    for way in ways:
        doubled = {label for label in labels if labels.count(label) > 1}
        labels = [
            way(entry) if label in doubled else label
            for label, entry in zip(labels, entries, strict=True)
        ]
    return labels
