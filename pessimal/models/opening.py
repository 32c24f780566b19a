"""Opens whatever scores the replies of a model: its weights here, or what stands in for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pessimal.models.records import ModelSource

if TYPE_CHECKING:
    from pessimal.models.protocol import ReplyScorer


def open_scorer(source: ModelSource, cache: Path) -> ReplyScorer:
    """Load a model, or reach it, and give what scores its replies.

    Args:
        source: what was found by `pessimal.models.source.open_source`.
        cache: Pessimal's cache folder.

    Raises:
        PessimalError: the model is refused; the code and the message say why.
    """
    from pessimal.models.loader import load_model
    from pessimal.models.scorer import Scorer

    return Scorer(load_model(source))
