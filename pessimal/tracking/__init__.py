"""MLflow runs: the only package that imports MLflow, and only when it is used."""

from pessimal.tracking.run import RunHandle, list_digest
from pessimal.tracking.store import AUDITS, COMPARISONS, show_uri
from pessimal.tracking.tracker import Tracker
from pessimal.tracking.ui import serve_ui

__all__ = [
    "AUDITS",
    "COMPARISONS",
    "RunHandle",
    "Tracker",
    "list_digest",
    "serve_ui",
    "show_uri",
]
