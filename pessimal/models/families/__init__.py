"""The families of reward models: one row says how a kind is recognised and read.

A family is recognised by its config and its weights, never by a model's name.
"""

from pessimal.models.families.others import REFUSED, UNVERIFIED
from pessimal.models.families.own import OWN
from pessimal.models.families.published import PUBLISHED
from pessimal.models.families.recognise import by_class, recognise, refuse, stock_family
from pessimal.models.families.records import Family, Golden, Kind, Pooled, Published, Status
from pessimal.models.families.scale import known_scores, scale_notes
from pessimal.models.families.stock import (
    ENDPOINT,
    IMPLICIT,
    JUDGE,
    REMOTE,
    STOCK,
    family_of,
)

FAMILIES: tuple[Family, ...] = (
    *STOCK,
    *OWN,
    IMPLICIT,
    JUDGE,
    ENDPOINT,
    REMOTE,
    *UNVERIFIED,
    *REFUSED,
)

__all__ = [
    "ENDPOINT",
    "FAMILIES",
    "PUBLISHED",
    "REMOTE",
    "STOCK",
    "Family",
    "Golden",
    "Kind",
    "Pooled",
    "Published",
    "Status",
    "by_class",
    "family_of",
    "known_scores",
    "recognise",
    "refuse",
    "scale_notes",
    "stock_family",
]
