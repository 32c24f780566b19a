"""What MLflow's UI shows of an experiment: what it is for, and a view with the telling columns.

The UI keeps a view that is shared by a link in a tag of the experiment, as JSON, and opens it by
its key in the address.
"""

from __future__ import annotations

import json
from typing import Final

from pessimal.tracking.store import AUDITS, COMPARISONS, TUNING

VIEW: Final = "pessimal"
"""The key of the view in an experiment's address."""
KIND_TAG: Final = "mlflow.experimentKind"
_VIEW_TAG: Final = f"mlflow.sharedViewState.{VIEW}"
_NOTE_TAG: Final = "mlflow.note.content"

_PURPOSES: Final = {
    AUDITS: "Audits of reward models: a run an audit, its searches under it. The tag "
    "`verdict` is what its policy says; `tags.verdict = 'FAIL'` finds what must not be released. "
    "Each run's whole report is its artifact report.html.",
    COMPARISONS: "Reward models side by side: a run a comparison. Its tags `source.1`, "
    "`source.2`, ... name the audits that were compared.",
    TUNING: "Studies of the search's settings: a run a study, its trials under it.",
}
_COLUMNS: Final = {
    AUDITS: (
        "tags.`verdict`", "params.`model`", "metrics.`identity.gap`", "metrics.`framing.d_pos`",
        "metrics.`frequency.zipf_slope`", "metrics.`robustness.paraphrase_tau`",
        "params.`pipeline`", "params.`policy`", "attributes.`Created`",
    ),
    COMPARISONS: (
        "params.`models`", "params.`prompts`", "metrics.`compare.tau`", "metrics.`compare.rbo`",
        "metrics.`compare.tail_overlap`", "metrics.`compare.stress`", "attributes.`Created`",
    ),
    TUNING: (
        "params.`model`", "params.`trials`", "params.`budget`", "tags.`adopted`",
        "attributes.`Created`",
    ),
}  # fmt: skip


def experiment_tags(name: str) -> dict[str, str]:
    """The tags that a Pessimal experiment has in the UI's sight."""
    columns = _COLUMNS[name]
    return {
        # Else the UI takes a new experiment for one of prompts and traces, and shows no runs.
        KIND_TAG: "custom_model_development",
        _NOTE_TAG: _PURPOSES[name],
        _VIEW_TAG: json.dumps({"selectedColumns": columns, "columnOrder": columns}),
    }
