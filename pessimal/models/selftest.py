"""The self-test: a scoring path against the model's own forward, before anything is scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pessimal.errors import PessimalError
from pessimal.models.families import scale_notes
from pessimal.models.quantised import rounds_activations
from pessimal.models.records import OpenModel, ReplySlot, ScoringPath

TOLERANCE_SD = {"float16": 0.0625, "bfloat16": 0.5}
"""Largest difference from the reference, in SD of its scores, for 16-bit models: two forwards
that sum in another order differ by their rounding; these still tell a wrong path from rounding."""
FLOAT32_TOLERANCE_SD = 1e-4
"""The same for every other dtype."""
FIRST_CHECK = 64
"""Random tokens that must not all score alike."""
NEXT_PATH: dict[ScoringPath, ScoringPath] = {"shared": "copied", "copied": "full"}


class Tested(Protocol):
    """A scorer of weights that are here."""

    path: ScoringPath
    """The path that it is on."""

    @property
    def model(self) -> OpenModel:
        """Its model."""
        ...

    @property
    def dtype(self) -> Any:
        """Its torch dtype."""
        ...

    def use(self, path: ScoringPath) -> None:
        """Take another path."""
        ...

    def score(self, slot: ReplySlot, replies: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Scores of replies by its path."""
        ...

    def reference(self, slot: ReplySlot, reply: Sequence[int]) -> float:
        """The score by the model's own forward."""
        ...


@dataclass(frozen=True)
class SelfTest:
    """How a path compared with the reference."""

    path: ScoringPath
    """The path that passed."""
    max_difference_sd: float
    """Largest difference from the reference, in SD of the reference's scores."""
    sd: float
    """That SD."""
    n: int
    """Tokens compared."""
    tolerance_sd: float
    """What `max_difference_sd` was held to."""
    steps: tuple[str, ...] = ()
    """Why each faster path was given up; empty when the first one passed."""
    compared_with: str = "the model's own forward"
    """What the scores were set beside."""
    notes: tuple[str, ...] = ()
    """What a reader should know."""

    @property
    def subject(self) -> str:
        """What was tested, as a sentence begins."""
        return f"The {self.path} path"

    @property
    def step_notes(self) -> tuple[str, ...]:
        """The faster paths that were given up, a note each."""
        return tuple(f"stepped down from the faster path {step}" for step in self.steps)


def run_self_test(
    scorer: Tested, slot: ReplySlot, random_tokens: int, max_special: int, seed: int
) -> SelfTest:
    """See `Scorer.self_test`."""
    rows = scorer.model.embedding_rows
    rng = np.random.default_rng(seed)
    drawn = rng.choice(rows, min(FIRST_CHECK, rows), replace=False).tolist()
    special = special_ids(scorer.model)[:max_special]
    compared = [(token,) for token in dict.fromkeys([*drawn[:random_tokens], *special])]
    others = [(token,) for token in drawn[random_tokens:]]
    expected = np.array([scorer.reference(slot, reply) for reply in compared])
    refuse_degenerate(expected)
    sd = float(expected.std())
    dtype = str(scorer.dtype).removeprefix("torch.")
    rough = "bfloat16" if rounds_activations(scorer.model.source.config) else dtype
    tolerance = TOLERANCE_SD.get(rough, FLOAT32_TOLERANCE_SD)
    steps: list[str] = []
    while True:
        try:
            scores = scorer.score(slot, [*compared, *others])
        except (ValueError, TypeError, RuntimeError, AttributeError, LookupError) as error:
            steps.append(f"{scorer.path}: {type(error).__name__}: {error}")
        else:
            difference = float(np.abs(scores[: len(compared)] - expected).max()) / sd
            if difference <= tolerance:
                refuse_degenerate(scores)
                return SelfTest(
                    scorer.path, difference, sd, len(compared), tolerance, tuple(steps),
                    notes=scale_notes(scorer.model.id, scorer.model.family, scores),
                )  # fmt: skip
            steps.append(f"{scorer.path}: {difference:.2g} SD from the model's own forward")
        if scorer.path not in NEXT_PATH:
            raise PessimalError(
                "self_test_failed",
                "No scoring path agrees with the model's own forward: " + "; ".join(steps) + ".",
                "Check that the model gives the same score twice in eval mode.",
            )
        scorer.use(NEXT_PATH[scorer.path])


def special_ids(model: OpenModel) -> list[int]:
    """The tokenizer's special ids that have an embedding row, ascending."""
    ids = set(model.tokenizer.all_special_ids)
    added = getattr(model.tokenizer, "added_tokens_decoder", {})
    ids |= {index for index, token in added.items() if token.special}
    return sorted(index for index in ids if 0 <= index < model.embedding_rows)


def refuse_degenerate(scores: NDArray[np.floating]) -> None:
    """Refuse scores of different replies that can't be ranked.

    Args:
        scores: scores of different replies, shape ``[n]``, n at least 2.

    Raises:
        PessimalError: ``scores_not_finite``, ``scores_constant``.
    """
    bad = int((~np.isfinite(scores)).sum())
    if bad:
        raise PessimalError(
            "scores_not_finite",
            f"{bad} of the first {len(scores)} scores are NaN or infinite.",
            "Score in float32 (--dtype float32), and check the checkpoint's weights for NaN.",
        )
    # Differences of a few units in the last place are rounding, not scores.
    rounding = 8 * np.finfo(np.float32).eps * float(np.abs(scores).max())
    if float(np.ptp(scores)) <= rounding:
        raise PessimalError(
            "scores_constant",
            f"The first {len(scores)} replies all score {float(scores[0]):g}.",
            "Check that the head was trained and loaded, and that the reply reaches the model.",
        )
