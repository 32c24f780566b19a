"""One search: a configuration in, a result out. It knows no platform, file name or command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from pessimal.errors import PessimalError, UsageError
from pessimal.search import methods, peers
from pessimal.search.certify import certify
from pessimal.search.ledger import Ledger, Progress, Spent
from pessimal.search.log import SearchLog
from pessimal.search.records import SearchConfig, SearchResult, Space

if TYPE_CHECKING:
    from pessimal.search.model import ReplyModel

STRATEGIES: Final[dict[str, methods.Strategy]] = {
    "gcg": methods.gcg,
    "coordinate": methods.coordinate,
    "random": methods.random,
    "beam": methods.beam,
    "exhaustive": methods.exhaustive,
    "plain": peers.plain,
    "fork": peers.fork,
}


def search(
    model: ReplyModel,
    config: SearchConfig,
    space: Space,
    *,
    folder: Path | None = None,
    progress: Progress | None = None,
    step_down: bool = True,
) -> SearchResult:
    """Search for the reply of highest or lowest reward.

    The same configuration, space and model give the same result, whether it ran through or was
    killed and run again.

    Args:
        model: scores replies and gives gradients.
        config: what to search for, and how long.
        space: the tokens that replies may hold.
        folder: where the model's answers are kept for a later run of the same search; the caller
            sees to it that a folder never meets another model, prompt or configuration.
        progress: is told of every step.
        step_down: search without gradients where the model gives none, and say so in `notes`.

    Raises:
        UsageError: ``no_token_allowed``, ``budget_too_small``, ``space_too_large``.
        PessimalError: ``no_gradient`` without `step_down`; ``nothing_scored``, every reply scored
            NaN or infinite; what scoring refuses.
    """
    if len(space.allowed) == 0:
        raise UsageError(
            "no_token_allowed",
            "No token is left that a reply may hold.",
            "Allow more of them: --allow all.",
        )
    ledger = Ledger(model, config, space, SearchLog(folder), progress)
    notes: tuple[str, ...] = ()
    stopped = _run(ledger, config)
    if stopped == "no_gradient":
        if not step_down:
            raise PessimalError(
                "no_gradient",
                f"The model gives no gradient, which the method {config.method} needs.",
                "Search without one: --method coordinate, beam or random.",
            )
        notes = (f"the model gives no gradient: {config.method} gave way to exact coordinates",)
        config = replace(config, method="coordinate")
        stopped = _run(ledger, config)
    if not ledger.best:
        raise PessimalError(
            "nothing_scored",
            f"None of {len(ledger.values)} replies has a finite reward.",
            "Search in float32 (--dtype float32), and check the checkpoint's weights for NaN.",
        )
    rewards = {reply: config.sign * value for reply, value in ledger.values.items()}
    certificate = None
    if config.certify:
        log = SearchLog(None if folder is None else folder / "certificate")
        certificate = certify(model, config, space, ledger.best, rewards, log)
    return SearchResult(
        config=config,
        token_ids=ledger.best,
        reward=rewards[ledger.best],
        trajectory=tuple(ledger.trajectory),
        seconds=ledger.seconds,
        stopped=stopped,  # type: ignore[arg-type]
        scored=rewards,
        notes=notes,
        certificate=certificate,
    )


def _run(ledger: Ledger, config: SearchConfig) -> str:
    """Run the method to its end; returns what ended it."""
    stopped = "done"
    try:
        STRATEGIES[config.method](ledger, config.settings, np.random.default_rng(config.seed))
    except Spent as end:
        stopped = end.why
    try:
        ledger.step()
    except Spent as end:
        stopped = end.why
    return stopped
