"""The families of reward models: one row says how a kind is recognised and read.

A family is recognised by its config and its weights, never by a model's name.
"""

from pessimal.models.families.records import Family, Golden, Kind, Published, Status
from pessimal.models.families.stock import REMOTE, STOCK

__all__ = ["FAMILIES", "REMOTE", "Family", "Golden", "Kind", "Published", "Status", "family_of"]

FAMILIES: tuple[Family, ...] = STOCK


def family_of(model_type: str) -> Family | None:
    """The stock family of a config's ``model_type``, or None."""
    return next((row for row in STOCK if model_type in row.model_types), None)
