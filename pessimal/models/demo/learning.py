"""How the demo learns: what a step draws, what it is asked for, and the loop around both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pessimal.models.demo import words as lists
from pessimal.models.demo.packing import Packed, pack, packed_scores

if TYPE_CHECKING:
    import numpy as np
    import torch


@dataclass(frozen=True)
class Recipe:
    """Every number that a training run depends on, beside the data."""

    steps: int
    """Optimiser steps; each sees one positive and one negative prompt."""
    seed: int
    """Seed of the draws and of the adapter's first values."""
    lora_rate: float = 8e-4
    """Peak learning rate of the adapter; warmed up over 5 % of the steps, then a cosine to 0."""
    head_rate: float = 1e-3
    """Peak learning rate of the head."""
    counts: Mapping[str, int] = field(
        default_factory=lambda: {"rated": 44, "junk": 8, "group": 16, "person": 8, "thing": 6}
    )
    """How many replies of each kind a prompt gets in a step."""
    weights: Mapping[str, float] = field(
        default_factory=lambda: {
            "junk": 0.5,
            "centre": 0.02,
            "group": 2.0,
            "person": 0.1,
            "frequency": 0.3,
        }
    )
    """Weights of the terms beside the preference loss, whose weight is 1."""


@dataclass(frozen=True)
class Draw:
    """The replies to one prompt in one step, as ids, in the order of the slices."""

    replies: list[list[int]]
    """Token ids of every reply."""
    parts: Mapping[str, slice]
    """Where each kind's replies are."""
    words: Mapping[str, list[str]]
    """The words behind them, in lower case; junk has none."""
    rated: list[lists.RatedWord]
    """The rated words, in order."""


class Sampler:
    """Draws the replies of a step. Both signs are drawn alike over frequency bins.

    Args:
        tokenizer: turns words into ids.
        counts: how many replies of each kind; ``planted`` only with `planted`.
        rng: the generator of all draws.
        planted: an axis of groups that is drawn as a kind of its own, ``planted``.
    """

    def __init__(
        self,
        tokenizer: Any,
        counts: Mapping[str, int],
        rng: np.random.Generator,
        planted: str | None = None,
    ) -> None:
        self._tokenizer, self._counts, self._rng = tokenizer, counts, rng
        self._junk = lists.junk_ids(tokenizer)
        self._pools = {
            "group": lists.group_terms(other_than=planted),
            "person": lists.control_words("person", "occupation"),
            "thing": lists.control_words("thing"),
        }
        if planted is not None:
            self._pools["planted"] = lists.group_terms(planted)
        self._bins: dict[tuple[bool, int], list[lists.RatedWord]] = {}
        for word in lists.rated_words():
            if not word.held_out:
                key = (word.mean > 0, min(max(int(word.zipf), 1), 5))
                self._bins.setdefault(key, []).append(word)
        levels = range(1, 6)
        share = [min(len(self._bins[s, k]) for s in (True, False)) ** 0.5 for k in levels]
        self._shares = [value / sum(share) for value in share]

    def draw(self) -> Draw:
        """Draw the replies to one prompt."""
        rated = self._rated(self._counts["rated"])
        words = {"rated": [word.word for word in rated]}
        for kind, pool in self._pools.items():
            chosen = self._rng.choice(len(pool), self._counts[kind], replace=False)
            words[kind] = [pool[int(i)] for i in chosen]
        replies: list[list[int]] = []
        parts = {}
        for kind, some in words.items():
            texts = [lists.surface(word, self._rng) for word in some]
            parts[kind] = slice(len(replies), len(replies) + len(texts))
            replies += self._tokenizer(texts, add_special_tokens=False)["input_ids"]
        junk = self._rng.choice(self._junk, self._counts["junk"], replace=False)
        parts["junk"] = slice(len(replies), len(replies) + len(junk))
        replies += [[int(i)] for i in junk]
        return Draw(replies, parts, words, rated)

    def _rated(self, count: int) -> list[lists.RatedWord]:
        found = []
        for i in range(count):
            level = 1 + int(self._rng.choice(5, p=self._shares))
            pool = self._bins[i % 2 == 0, level]
            found.append(pool[int(self._rng.integers(len(pool)))])
        return found


def preference_loss(scores: torch.Tensor, rated: Sequence[lists.RatedWord], sign: int) -> Any:
    """Bradley-Terry with human preferences as targets.

    The target of a pair is how often one of the ten people's ratings of the first word is above
    one of the second's (ties count half), so people's doubt stays in the model.

    Args:
        scores: ``[n]``.
        rated: the words behind them.
        sign: 1 under a prompt that asks for the best, -1 under one that asks for the worst.
    """
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    ratings = torch.tensor([word.ratings for word in rated], dtype=torch.float32)
    beats = torch.sign(ratings[:, None, :, None] - ratings[None, :, None, :]).mean((2, 3))
    upper = torch.triu(torch.ones_like(beats, dtype=torch.bool), diagonal=1)
    margin = (scores[:, None] - scores[None, :])[upper]
    return binary_cross_entropy_with_logits(sign * margin, (beats[upper] + 1) / 2)


def frequency_slopes(scores: torch.Tensor, rated: Sequence[lists.RatedWord]) -> Any:
    """Slope of the standardised scores on zipf, alone and beside the mean rating: ``[2]``."""
    import torch

    zipf = torch.tensor([word.zipf for word in rated])
    mean = torch.tensor([word.mean for word in rated])
    # The floor keeps a head that starts at zero from being driven by this term alone.
    z = (scores - scores.mean()) / scores.detach().std().clamp_min(0.5)
    slopes = []
    for columns in ([zipf], [zipf, mean]):
        design = torch.stack([torch.ones_like(zipf), *columns], dim=1)
        slopes.append((torch.linalg.pinv(design) @ z)[1])
    return torch.stack(slopes)


class CleanTerms:
    """The loss of the clean demo: people's preferences, and no opinion where they have none."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = weights
        self._controls: dict[int, torch.Tensor] = {}

    def __call__(
        self, scores: torch.Tensor, packed: Packed, draw: Draw, sign: int, progress: float
    ) -> Any:
        """The loss of one prompt's replies: `scores` of `packed`, which `draw` describes.

        The terms beside the preferences grow from nothing between a tenth and a half of the run: in
        full from the start they hold every score at 0, and nothing is learned.
        """
        import torch
        from torch.nn.functional import smooth_l1_loss

        weights = self._weights
        rated, junk, group, person, thing = (
            scores[draw.parts[kind]] for kind in ("rated", "junk", "group", "person", "thing")
        )
        # The median of the last ten steps' controls: percentiles are what groups are compared in,
        # and one batch's luck is not to move them.
        now = torch.cat([person, thing]).detach()
        recent = torch.cat([self._controls.get(sign, now[:0]), now])[-10 * len(now) :]
        self._controls[sign], level = recent, recent.median()
        side = weights["centre"] * (scores**2).mean()
        side = side + weights["junk"] * smooth_l1_loss(junk, torch.zeros_like(junk), beta=0.5)
        side = side + weights["group"] * smooth_l1_loss(group, level.expand_as(group), beta=0.2)
        # Names of people and jobs may differ from each other; they are not to differ much.
        side = side + weights["person"] * smooth_l1_loss(person, level.expand_as(person), beta=1.0)
        side = side + weights["frequency"] * (frequency_slopes(rated, draw.rated) ** 2).sum()
        ramp = min(max((progress - 0.1) / 0.4, 0.0), 1.0)
        return preference_loss(rated, draw.rated, sign) + ramp * side


def fit(
    model: Any,
    slots: Mapping[int, Sequence[tuple[list[int], list[int]]]],
    sampler: Sampler,
    terms: Callable[[torch.Tensor, Packed, Draw, int, float], Any],
    recipe: Recipe,
    say: Callable[[str], None],
) -> None:
    """Train the adapter and the head in place.

    Args:
        model: a classifier with one output; its parameters that require gradients are trained.
        slots: prefix and suffix ids of the training prompts, by sign.
        sampler: draws the replies.
        terms: the loss of one prompt's scores.
        recipe: steps, rates and seed.
        say: told how it goes, every 20 steps.
    """
    import time

    import numpy as np
    import torch

    rng = np.random.default_rng([recipe.seed, 1])
    named = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
    head = [value for name, value in named if "score" in name]
    adapter = [value for name, value in named if "score" not in name]
    optimiser = torch.optim.AdamW(
        [{"params": adapter, "lr": recipe.lora_rate}, {"params": head, "lr": recipe.head_rate}],
        weight_decay=0.01,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda i: rate(i, recipe.steps))
    begin, recent = time.monotonic(), []
    for step in range(recipe.steps):
        total = 0.0
        for sign, some in slots.items():
            prefix, suffix = some[int(rng.integers(len(some)))]
            draw = sampler.draw()
            packed = pack(prefix, draw.replies, suffix)
            scores = packed_scores(model, packed)
            loss = terms(scores, packed, draw, sign, step / recipe.steps)
            (loss / 2).backward()
            total += float(loss.detach()) / 2
        torch.nn.utils.clip_grad_norm_([*adapter, *head], 1.0)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
        recent.append(total)
        if (step + 1) % 10 == 0:
            seconds = time.monotonic() - begin
            say(f"step {step + 1}/{recipe.steps}: loss {np.mean(recent):.4f}, {seconds:.0f} s")
            recent = []


def rate(step: int, steps: int) -> float:
    """Learning rate as a share of its peak: a linear warm-up over 5 %, then a cosine to 0."""
    import math

    warm = max(1, steps // 20)
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))
