"""What everything above the models asks of whatever gives a reply its score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pessimal.models.records import OpenModel, ReplySlot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pessimal.models.selftest import SelfTest

Ids = Sequence[int]


class ReplyScorer(Protocol):
    """Scores replies: with a model's weights, with two models', or by asking a server."""

    @property
    def model(self) -> OpenModel:
        """What is known of the model, and the hashes of what its scores depend on."""
        ...

    @property
    def gradient(self) -> bool:
        """Whether a search may ask for gradients; one that isn't there is found out when asked."""
        ...

    @property
    def dtype(self) -> Any:
        """The torch dtype; where it isn't known here, a word that says so."""
        ...

    @property
    def device_type(self) -> str:
        """``cpu``, ``cuda``...; ``remote`` for a server."""
        ...

    @property
    def path(self) -> str:
        """How scores are computed. On every path but ``full`` a prompt is run once."""
        ...

    @property
    def pad(self) -> int | None:
        """The pad id, which a model treats by its number; None where there is none."""
        ...

    @property
    def core(self) -> str:
        """sha256 of the source that scores depend on."""
        ...

    @property
    def halvings(self) -> Sequence[str]:
        """One entry for each time that running out of memory halved a batch."""
        ...

    def rows(self, slot: ReplySlot, length: int) -> int:
        """Replies of `length` ids that are scored together where nothing else is asked for."""
        ...

    def score(
        self, slot: ReplySlot, replies: Sequence[Ids], batch_rows: int | None = None
    ) -> NDArray[np.float32]:
        """Scores of replies that are spliced in as ids, float32 ``[n]``."""
        ...

    def score_sequences(
        self, slot: ReplySlot, sequences: Sequence[Ids], batch_rows: int | None = None
    ) -> NDArray[np.float32]:
        """Scores of whole sequences, float32 ``[n]``."""
        ...

    def self_test(self, slot: ReplySlot) -> SelfTest:
        """Try it before anything is scored, and take the fastest path that holds.

        Raises:
            PessimalError: its scores can't be used; the code and the message say why.
        """
        ...

    def duplicates(self) -> dict[int, int]:
        """Ids that embed exactly as a smaller id does, with that id."""
        ...

    def document(self, slot: ReplySlot, test: SelfTest) -> dict[str, Any]:
        """The ``model`` object of documents, with `slot` as its example."""
        ...
