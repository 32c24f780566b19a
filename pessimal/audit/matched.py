"""Identity terms against matched controls: percentiles, gaps and their resamples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from pessimal.audit.words import WordScores
    from pessimal.lexicons import IdentityTerm
    from pessimal.statistics.matching import Matches

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MatchedGaps:
    """Terms against their matched controls under the prompts of one framing."""

    terms: tuple[IdentityTerm, ...]
    """The t terms that were scored."""
    controls: tuple[str, ...]
    """The c controls."""
    prompts: int
    """k, the number of prompts."""
    percentile: Floats
    """Percentile of each term among the controls, shape ``[t, k]``."""
    control_percentile: Floats
    """The same of each control, shape ``[c, k]``."""
    matches: Matches
    """Each term's nearest controls."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to compare: no term, no control or no prompt."""
        return 0 in (*self.matches.indices.shape, self.prompts)

    @property
    def gap(self) -> Floats:
        """Percentile of each term minus the mean of its controls', shape ``[t, k]``.

        Not for an empty comparison.
        """
        mean: Floats = self.control_percentile[self.matches.indices].mean(axis=1)
        return self.percentile - mean

    def draws(self, rng: np.random.Generator, b: int) -> Floats:
        """Gaps, mean over prompts, when controls (and nine prompts or more) are resampled.

        The controls' distribution itself is held: both sides of a gap are read from it, so what
        moves it all but cancels.

        Args:
            rng: seeded generator.
            b: resamples.

        Returns:
            Shape ``[b, t]``.
        """
        import numpy as np

        from pessimal.statistics.bootstrap import CROSSED_PROMPTS, prompt_weights, resample_counts

        chosen = np.zeros((len(self.controls), len(self.terms)))
        np.put_along_axis(chosen, self.matches.indices.T, 1.0, axis=0)
        counts = resample_counts(rng, len(self.controls), b)
        drawn = np.maximum(counts @ chosen, 1e-9)
        own, controls = self.percentile, self.control_percentile
        if self.prompts < CROSSED_PROMPTS:
            # These aren't resampled: one mean over them stands for all.
            own, controls = (one.mean(axis=1, keepdims=True) for one in (own, controls))
        weights = prompt_weights(rng, own.shape[1], b)
        total = np.zeros(drawn.shape)
        for k in range(own.shape[1]):
            matched = counts @ (chosen * controls[:, k : k + 1]) / drawn
            total += weights[:, k : k + 1] * (own[:, k] - matched)
        return total


def match_words(
    left: WordScores,
    right: WordScores,
    known: tuple[Mapping[str, Floats], Mapping[str, Floats]],
    terms: Sequence[IdentityTerm],
) -> MatchedGaps:
    """Match terms with controls under the prompts that both were scored under.

    Args:
        left: scores of the terms.
        right: scores of the controls.
        known: covariates of both, by name.
        terms: what each word of `left` is.
    """
    import numpy as np

    from pessimal.statistics.matching import match_controls

    prompts = [prompt for prompt in left.prompts if prompt in right.prompts]
    a = left.scores[:, [left.prompts.index(prompt) for prompt in prompts]]
    b = right.scores[:, [right.prompts.index(prompt) for prompt in prompts]]
    places = [
        np.array([percentile_among(side[:, k], b[:, k]) for k in range(len(prompts))])
        for side in (a, b)
    ]
    return MatchedGaps(
        terms=tuple(terms),
        controls=right.words,
        prompts=len(prompts),
        percentile=places[0].reshape(len(prompts), len(a)).T,
        control_percentile=places[1].reshape(len(prompts), len(b)).T,
        matches=match_controls(*known, names=(left.words, right.words)),
    )


def percentile_among(values: Floats, controls: Floats) -> Floats:
    """Average-rank percentile of each value among the controls: share below plus half of ties.

    Args:
        values: finite numbers, shape ``[n]``.
        controls: finite numbers, shape ``[c]``.
    """
    import numpy as np

    ordered = np.sort(controls)
    below = np.searchsorted(ordered, values, side="left")
    up_to = np.searchsorted(ordered, values, side="right")
    found: Floats = (below + up_to) / 2 / max(len(ordered), 1)
    return found
