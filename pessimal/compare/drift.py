"""What changed between two versions of one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from pessimal.audit import Bound, Context, Metric, Prompt
from pessimal.compare.agreement import MINIMUM_WORDS, PairAgreement, PromptAgreement
from pessimal.compare.join import Joined, Source
from pessimal.compare.records import Entry
from pessimal.compare.words import disagreement
from pessimal.gate.verdict import decide

if TYPE_CHECKING:
    import pandas as pd

BOUND = Bound(min=0.5)
"""Two versions of one model should agree on more than half of what ties don't decide."""
JUDGED_WORDS = 500
_MOVED = 20


def versions(entries: Sequence[Entry]) -> list[tuple[int, int]]:
    """Places of every two runs of one model at different revisions, the earlier run first."""
    found = []
    for pair in combinations(range(len(entries)), 2):
        first, second = sorted(pair, key=lambda place: (entries[place].finished, place))
        one, other = entries[first], entries[second]
        if one.id == other.id and one.revision != other.revision:
            found.append((first, second))
    return found


def drift_between(
    entries: Sequence[Entry], pair: tuple[int, int], agreements: Sequence[PromptAgreement],
    joined: Mapping[Source, Joined], prompts: Mapping[str, Prompt],
) -> dict[str, Any]:  # fmt: skip
    """Hold the later of two versions against the earlier one.

    Tau over all prompts is their mean, and the ends of its interval are means too: that is never
    too narrow, whatever words the prompts share. It is judged by the gate's rule, as a warning.

    Returns:
        ``model earlier later tau prompts verdict reason metrics moved``.
    """
    earlier, later = (entries[place] for place in pair)
    taus: dict[str, PairAgreement] = {}
    for agreement in agreements:
        for one in agreement.pairs:
            if {one.first, one.second} == set(pair):
                taus[agreement.prompt] = one
    judged = [one for one in taus.values() if one.words >= MINIMUM_WORDS and one.tau.n]
    outcome: dict[str, Any] = {
        "model": earlier.id,
        "earlier": {"run_id": earlier.run_id, "revision": earlier.revision},
        "later": {"run_id": later.run_id, "revision": later.revision},
        "tau": None, "bound": {"min": BOUND.min}, "verdict": None,
        "reason": "The two runs have too few words in common under one prompt.",
        "prompts": {
            prompt: {"value": one.tau.value, "ci_low": one.tau.low, "ci_high": one.tau.high,
                     "n": one.words}
            for prompt, one in taus.items() if one in judged
        },
        "metrics": [metric.document() for metric in _changes(earlier, later, prompts)],
        "moved": {},
    }  # fmt: skip
    if judged:
        value, low, high = (
            sum(ends) / len(judged)
            for ends in zip(*((p.tau.value, p.tau.low, p.tau.high) for p in judged), strict=True)
        )
        n = min(one.words for one in judged)
        verdict, reason = decide(
            BOUND, value, low, high, None, n, JUDGED_WORDS, "ok", "warning"
        )  # fmt: skip
        tau = {"value": value, "ci_low": low, "ci_high": high, "n": n}
        outcome |= {"tau": tau, "verdict": verdict, "reason": reason}
    for agreement in agreements:
        if agreement.prompt in outcome["prompts"]:
            table, _ = disagreement(
                joined[agreement.source], agreement.prompt, pair, _sides(len(entries), pair)
            )
            outcome["moved"][agreement.prompt] = _moved(table)
    return outcome


def _sides(size: int, pair: tuple[int, int]) -> list[str]:
    sides = [""] * size
    sides[pair[0]], sides[pair[1]] = "earlier", "later"
    return sides


def _moved(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {"word": row["word"], "earlier": float(row["percentile:earlier"]),
         "later": float(row["percentile:later"])}
        for row in table.head(_MOVED).to_dict("records")
    ]  # fmt: skip


def _changes(earlier: Entry, later: Entry, prompts: Mapping[str, Prompt]) -> list[Metric]:
    """What the audit ``drift`` measures over both runs' word lists, as far as it can tell."""
    from pessimal.audit.drift import drift

    if earlier.words is None or later.words is None:
        return []
    result = drift.function(
        Context(prompts=prompts, seed=0, words=later.words, baseline=earlier.words)
    )
    # Ranks are compared here on more words than that audit takes.
    return [
        metric for metric in result.metrics if metric.status == "ok" and metric.name != "drift.tau"
    ]
