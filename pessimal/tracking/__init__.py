"""MLflow runs: the only package that imports MLflow, and only when it is used."""

from pessimal.lexicons import list_digest
from pessimal.tracking.registry import Standing, find_aliased, register, registered_name
from pessimal.tracking.run import RunHandle, document_text, hash_file
from pessimal.tracking.store import AUDITS, COMPARISONS, show_uri
from pessimal.tracking.tracker import Tracker
from pessimal.tracking.ui import serve_ui

__all__ = [
    "AUDITS",
    "COMPARISONS",
    "RunHandle",
    "Standing",
    "Tracker",
    "document_text",
    "find_aliased",
    "hash_file",
    "list_digest",
    "register",
    "registered_name",
    "serve_ui",
    "show_uri",
]
