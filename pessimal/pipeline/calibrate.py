"""How fast this machine scores one model: measured with the model itself, in some seconds."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pessimal.audit import Prompt
from pessimal.models.records import ModelRequest
from pessimal.pipeline.session import Session, open_session
from pessimal.sweep.runner import SweepOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pessimal.pipeline.spec import SearchStep

SAMPLE_S = 0.7
"""Seconds that each kind of scoring is measured for."""
SINGLES, WORDS, WHOLE, TEXTS = 512, 400, 16, 50
"""Replies of a measurement."""
SEARCH_S = 1.0
"""Seconds of the search that is tried."""


@dataclass(frozen=True)
class Rates:
    """Seconds on this machine."""

    load_s: float
    """Loading the model, and reading its vocabulary."""
    singles_s: float
    """A forward token of one-token replies."""
    words_s: float
    """A forward token of words and phrases."""
    encode_s: float
    """Rendering and encoding one reply as text."""
    whole_s: float
    """A token of whole sequences, as reruns score them with padding."""
    half_s: float
    """The same in bfloat16."""
    search_s: float | None = None
    """Searching with all baselines, for each second of the search itself; None where none was
    tried: without searches, and where a model without gradients may need long for one step."""
    search_token_s: float | None = None
    """The same for each of the search's own forward tokens."""


def calibrate(
    request: ModelRequest, cache: Path, prompt: Prompt, words: Sequence[str],
    step: SearchStep | None,
) -> Rates:  # fmt: skip
    """Load the model and time some of the work that an audit will do with it.

    Args:
        request: which model, and how.
        cache: Pessimal's cache folder; nothing that is measured here is kept there.
        prompt: one of the pipeline's prompts.
        words: the pipeline's words and phrases.
        step: its searches, or None.

    Raises:
        PessimalError: the model is refused.
    """
    from pessimal.models.slot import encode_as_text

    began = time.perf_counter()
    session = open_session(request, cache, prompt, SweepOptions(), lambda text: None)
    # An audit tells the kinds of all tokens too, which takes its time.
    _ = session.kinds
    load_s = time.perf_counter() - began
    slot, scorer = session.slot(prompt), session.scorer
    suffix = len(slot.suffix_ids)
    singles = [(token,) for token in session.planned_ids(SINGLES)]
    chosen = [words[place] for place in range(0, len(words), max(1, len(words) // WORDS))]
    phrases = session.encode(prompt, chosen)
    scores = scorer.score(slot, singles)
    singles_s = seconds_per_run(lambda: scorer.score(slot, singles), SAMPLE_S) / (
        len(singles) * (1 + suffix)
    )
    own = sum(len(ids) + suffix for ids in phrases)
    words_s = (
        seconds_per_run(lambda: scorer.score(slot, phrases), SAMPLE_S) / own if own else singles_s
    )
    texts = session.vocabulary.texts[:TEXTS]
    encode_s = seconds_per_run(
        lambda: [encode_as_text(session.source, slot.prompt, t) for t in texts], 0
    )
    whole_s, half_s = (_whole(session, prompt, variant) for variant in ("padding", "bfloat16"))
    rates = Rates(
        load_s, singles_s, words_s, encode_s / len(texts), whole_s or singles_s,
        half_s or singles_s,
    )  # fmt: skip
    if step is None or not scorer.gradient:
        return rates
    return _with_search(rates, session, prompt, step, singles, scores)


def seconds_per_run(run: Callable[[], object], seconds: float) -> float:
    """Seconds of a run: the mean of as many as fit, at least one."""
    began, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - began < seconds:
        run()
        count += 1
    return (time.perf_counter() - began) / count


def _whole(session: Session, prompt: Prompt, variant: str) -> float | None:
    """Seconds a token of whole sequences; None where the model has no forward of its own."""
    from pessimal.models.rescoring import RescoringScorer

    slot = session.slot(prompt)
    again = RescoringScorer(session.scorer, {prompt.id: slot})
    replies = [(token,) for token in session.planned_ids(WHOLE)]
    began = time.perf_counter()
    if again.rescore(prompt.id, replies, variant=variant) is None:  # type: ignore[arg-type]
        return None
    length = len(slot.prefix_ids) + 1 + len(slot.suffix_ids)
    return (time.perf_counter() - began) / (len(replies) * length)


def _with_search(
    rates: Rates, session: Session, prompt: Prompt, step: SearchStep,
    singles: list[tuple[int]], scores: NDArray[np.float32],
) -> Rates:  # fmt: skip
    """Try one short search with its baselines, as an audit runs them."""
    from dataclasses import replace

    from pessimal.pipeline.search import token_space
    from pessimal.pipeline.searches import search_all
    from pessimal.search.records import SearchConfig

    known = dict(zip((reply[0] for reply in singles), scores.tolist(), strict=True))
    space = token_space(session, singles=known)
    config = SearchConfig(step.lengths[0], step.directions[0], seconds=SEARCH_S)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = [
            result
            for result, _ in search_all(
                session, prompt, config, space, Path(folder), lambda text: None
            )
        ]
    took = time.perf_counter() - began
    ours = found[0]
    return replace(
        rates, search_s=took / max(ours.seconds, SEARCH_S),
        search_token_s=took / max(1, ours.forward_tokens),
    )  # fmt: skip
