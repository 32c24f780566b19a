"""What goes into a search and what comes out of it: plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from pessimal.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Ids = tuple[int, ...]
Direction = Literal["optimal", "pessimal"]
Method = Literal["gcg", "coordinate", "random", "beam", "plain", "fork", "exhaustive"]
METHODS: tuple[str, ...] = get_args(Method)
DIRECTIONS: tuple[str, ...] = get_args(Direction)
LONGEST = 8
Allow = Literal["roundtrip", "all"]
ALLOW: tuple[Allow, ...] = get_args(Allow)
"""Which tokens a reply may hold: those without a reason to leave them out, or all."""
Reason = Literal["special", "added", "unused", "padded", "unstable"]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""Why an id is left out: a control token; another added token; its embedding row equals another's;
a row that no token belongs to; decoded and encoded it isn't itself any more."""


@dataclass(frozen=True)
class Settings:
    """Hyperparameters; what `pessimal tune` tunes."""

    width: int = 64
    """Candidates a step."""
    top_k: int = 128
    """Tokens a position that the gradient's picks are drawn from."""
    pull: float = 0.5
    """How far a reply's embeddings are drawn to the mean one before its gradient is taken."""
    momentum: float = 0.5
    """Share of the last step's slopes that stays in the next one's."""
    prior_share: float = 0.35
    """Share of the picks that all scores so far, those of single tokens included, speak for."""
    uniform_share: float = 0.05
    """Share of the picks drawn from all allowed tokens."""
    merge: int = 8
    """Sequences a step that join the best single changes of that step."""
    patience: int = 2
    """Steps without a better sequence before the walk restarts from another."""
    leaps: int = 8
    """Whole replies a step that all scores so far speak for."""
    start_share: float = 0.1
    """Share of the budget for sampling single tokens where no sweep is at hand."""

    def __post_init__(self) -> None:
        """Refuse numbers that no search can run with."""
        shares = (self.momentum, self.prior_share, self.uniform_share, self.start_share)
        whole = (self.width, self.top_k, self.patience)
        if (
            min(whole) < 1
            or min(self.merge, self.leaps) < 0
            or not all(0 <= share < 1 for share in shares)
            or self.prior_share + self.uniform_share > 1
            or not 0 <= self.pull <= 1
        ):
            raise UsageError(
                "settings_invalid",
                f"The search can't run with {asdict(self)}.",
                "Widths and patience are at least 1, shares from 0 to below 1.",
            )

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Settings:
        """Settings of a mapping; what it leaves out keeps its default.

        Raises:
            UsageError: ``settings_invalid``: an unknown name, or a value of another type.
        """
        known = {entry.name: type(entry.default) for entry in fields(cls)}
        for name, value in values.items():
            wanted = known.get(name)
            good = isinstance(value, int) or (wanted is float and isinstance(value, float))
            if wanted is None or not good or isinstance(value, bool):
                raise UsageError(
                    "settings_invalid",
                    f"{name}: {value!r} is no setting of a search.",
                    f"The settings are: {', '.join(known)}.",
                )
        return cls(**values)


@dataclass(frozen=True)
class SearchConfig:
    """One search."""

    length: int
    """Tokens of the reply, 1 to 8."""
    direction: Direction
    """``optimal`` seeks the highest reward, ``pessimal`` the lowest."""
    budget: int | None = None
    """Forward tokens, a backward pass counted as two forwards; None where `seconds` ends it."""
    seconds: float | None = None
    """Wall-clock limit, looked at after every step."""
    seed: int = 0
    """Seed of every random draw."""
    method: Method = "gcg"
    """How candidates are proposed."""
    settings: Settings = field(default_factory=Settings)
    """Its hyperparameters."""
    certify: bool = False
    """Check afterwards, outside the budget, what can be proved of the best reply."""

    def __post_init__(self) -> None:
        """Refuse what is no search.

        Raises:
            UsageError: ``length_invalid``, ``direction_invalid``, ``method_unknown``,
                ``budget_invalid``.
        """
        if not 1 <= self.length <= LONGEST:
            raise UsageError(
                "length_invalid",
                f"A reply of {self.length} tokens can't be searched for.",
                f"Choose a --length from 1 to {LONGEST}.",
            )
        if self.direction not in DIRECTIONS:
            raise UsageError(
                "direction_invalid",
                f"{self.direction!r} is no direction.",
                "Choose --direction optimal or pessimal.",
            )
        if self.method not in METHODS:
            raise UsageError(
                "method_unknown",
                f"There is no method {self.method!r}.",
                f"The methods are: {', '.join(METHODS)}.",
            )
        limits = (self.budget, self.seconds)
        if limits == (None, None) or any(limit is not None and limit <= 0 for limit in limits):
            raise UsageError(
                "budget_invalid",
                "A search needs a budget of more than nothing.",
                "Name forward tokens with --budget, or --seconds.",
            )

    @property
    def sign(self) -> float:
        """1 where higher rewards are sought, -1 where lower ones are."""
        return 1.0 if self.direction == "optimal" else -1.0


@dataclass(frozen=True)
class Space:
    """The tokens that replies may hold."""

    allowed: NDArray[np.int64]
    """Their ids, ``[A]``, ascending."""
    singles: NDArray[np.float32] | None = None
    """The reward of each as a reply of its own, ``[A]``, where a sweep was made; NaN: unknown."""
    excluded: Mapping[str, int] = field(default_factory=dict)
    """How many ids were left out, by reason; each counts once."""


@dataclass(frozen=True)
class Point:
    """Where a search stood after a step."""

    forward_tokens: int
    """Tokens pushed through the model so far, a backward pass counted as two forwards."""
    evaluations: int
    """Different replies scored so far."""
    backward_passes: int
    """Gradients taken so far."""
    reward: float
    """The best reward so far."""


@dataclass(frozen=True)
class SearchResult:
    """What a search found, and what it took."""

    config: SearchConfig
    """What was asked for; its method is the one that ran."""
    token_ids: Ids
    """The best reply."""
    reward: float
    """Its reward, by ids."""
    trajectory: tuple[Point, ...]
    """One point a step."""
    seconds: float
    """Wall-clock time, that of an interrupted part included."""
    stopped: Literal["budget", "seconds", "done"]
    """What ended it; ``done``: nothing was left to try."""
    scored: Mapping[Ids, float]
    """Every reply that was scored, with its reward."""
    notes: tuple[str, ...] = ()
    """What a reader should know, e.g. that there was no gradient."""
    certificate: Mapping[str, Any] | None = None
    """See `certify`."""

    @property
    def forward_tokens(self) -> int:
        """Tokens pushed through the model."""
        return self.trajectory[-1].forward_tokens

    @property
    def evaluations(self) -> int:
        """Different replies scored."""
        return self.trajectory[-1].evaluations
