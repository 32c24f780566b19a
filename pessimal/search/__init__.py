"""The search for a model's best and worst replies. Importing this loads no torch."""

from pessimal.search.records import (
    DIRECTIONS,
    METHODS,
    Point,
    SearchConfig,
    SearchResult,
    Settings,
    Space,
)

__all__ = ["DIRECTIONS", "METHODS", "Point", "SearchConfig", "SearchResult", "Settings", "Space"]
