"""Measures the search beside its baselines and published rules, at equal forward tokens.

A cell is a prompt, a length, a direction and a seed; every method gets the same budget, counted the
same way: random hill climbing and the beam share the cache as ours does, nanoGCG's rule shares the
prompt, the fork's rule shares nothing, as described. Ours and the beam start from the prompt's
single-token scores, which an audit has anyway (`--cold` leaves them out). Scores and searches are
kept in Pessimal's cache: a run that was stopped goes on. The table holds, for each method, in how
many cells ours ended at least as high, paired differences with their standard errors, and the
share of the method's forward tokens that ours took to reach its final reward.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from pessimal.audit import Prompt
from pessimal.models.records import ModelRequest
from pessimal.pipeline.scoring import score_vocabulary
from pessimal.pipeline.search import search_prompt, token_space
from pessimal.pipeline.searches import space_of
from pessimal.pipeline.session import Session, open_session
from pessimal.scores.store import default_cache
from pessimal.search import DIRECTIONS, SearchConfig, SearchResult, Space
from pessimal.sweep.runner import SweepOptions

OURS = "gcg"
OTHERS = ("random", "plain", "beam", "fork")
NAMES = {"plain": "nanoGCG's rule", "fork": "the fork's rule", "random": "random hill climbing",
         "beam": "beam over single tokens"}  # fmt: skip
SHARE_WANTED = {"fork": 0.1}
CELLS_WANTED, TOKENS_WANTED = 0.9, 0.5
PROMPTS = (
    "What is the most valuable thing a person can own?",
    "Describe your day in a few words.",
    "What should a good friend never do?",
    "How would you sum up the last century?",
)
"""No variant of the search was chosen on these."""


def cells(options: argparse.Namespace) -> Iterator[tuple[int, int, str, int]]:
    """Every prompt's number, length, direction and seed."""
    yield from product(range(options.prompts), options.lengths, DIRECTIONS, range(options.seeds))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run every cell with every method; returns the document that ``--json`` prints."""
    prompts = [Prompt(f"p{n}", text, "positive") for n, text in enumerate(PROMPTS)]
    request = ModelRequest(model=options.model)

    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    session = open_session(request, options.cache, prompts[0], SweepOptions(), say)
    spaces = [_space(session, prompt, options) for prompt in prompts[: options.prompts]]
    rows = []
    for number, length, direction, seed in cells(options):
        space, sd = spaces[number]
        found = {}
        for method in (OURS, *OTHERS):
            config = SearchConfig(
                length, direction, budget=options.budget, seed=seed, method=method,  # type: ignore[arg-type]
            )  # fmt: skip
            slot = session.slot(prompts[number])
            found[method] = search_prompt(session, slot, config, space, options.cache)
        rows += list(_rows(number, found, sd))
        ended = {method: round(result.reward, 3) for method, result in found.items()}
        say(f"{prompts[number].id} length {length} {direction} seed {seed}: {ended}")
    return {
        "schema": "pessimal.benchmark.search/1", "model": options.model,
        "budget": options.budget, "singles": options.singles, "prompts": options.prompts,
        "lengths": options.lengths, "seeds": options.seeds, "rows": rows,
        "methods": [summary(method, rows) for method in OTHERS],
    }  # fmt: skip


def _space(session: Session, prompt: Prompt, options: argparse.Namespace) -> tuple[Space, float]:
    """The allowed tokens with their single scores, and the SD of these."""
    ids = session.planned_ids(options.singles or "all")
    table, _ = score_vocabulary(session, [prompt], ids, quiet=False)
    space = token_space(session) if options.cold else space_of(session, table.frame, prompt)
    return space, float(table.frame[f"score:{prompt.id}"].to_numpy(float).std())


def _rows(number: int, found: dict[str, SearchResult], sd: float) -> Iterator[dict[str, Any]]:
    ours = found[OURS]
    sign = ours.config.sign
    for method in OTHERS:
        other = found[method]
        gained = sign * (ours.reward - other.reward) / sd
        reached = [
            point.forward_tokens for point in ours.trajectory
            if sign * point.reward >= sign * other.reward
        ]  # fmt: skip
        yield {
            "prompt": number, "length": ours.config.length, "direction": ours.config.direction,
            "seed": ours.config.seed, "method": method, "difference_sd": gained,
            "reached_share": reached[0] / other.forward_tokens if reached else None,
        }  # fmt: skip


def summary(method: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How ours did against one method, both directions together and apart."""
    mine = [row for row in rows if row["method"] == method]
    # Cells in which ours never gets there count as infinitely dear.
    shares = [row["reached_share"] or np.inf for row in mine]
    share = statistics.median(shares)
    apart = {}
    for direction in DIRECTIONS:
        values = [row["difference_sd"] for row in mine if row["direction"] == direction]
        error = float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else None
        apart[direction] = {
            "difference_sd": float(np.mean(values)), "standard_error": error,
            "lost": sum(value < -1e-6 for value in values), "cells": len(values),
        }  # fmt: skip
    at_least = sum(row["difference_sd"] >= -1e-6 for row in mine) / len(mine)
    wanted = SHARE_WANTED.get(method, TOKENS_WANTED)
    return {
        "method": method, "cells": len(mine), "at_least_as_good": at_least,
        "median_share_of_tokens": share if np.isfinite(share) else None, "wanted_share": wanted,
        "met": bool(at_least >= CELLS_WANTED and share <= wanted), **apart,
    }  # fmt: skip


def table(document: dict[str, Any]) -> str:
    """The document as a Markdown table."""
    lines = [
        "| against | cells | ours at least as good | median share of its tokens | optimal, SD |"
        " pessimal, SD | target |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in document["methods"]:
        share = one["median_share_of_tokens"]
        sides = [
            f"{side['difference_sd']:+.2f} ± {side['standard_error'] or 0:.2f},"
            f" lost {side['lost']} of {side['cells']}"
            for side in (one[name] for name in DIRECTIONS)
        ]
        lines.append(
            f"| {NAMES[one['method']]} | {one['cells']} | {one['at_least_as_good']:.0%} |"
            f" {'never' if share is None else f'{share:.2f}'} | {' | '.join(sides)} |"
            f" {'met' if one['met'] else 'missed'} |"
        )
    lost = [row for row in document["rows"] if row["difference_sd"] < -1e-6]
    lines += ["", f"Cells in which ours ended lower ({len(lost)} of {len(document['rows'])}):", ""]
    lines += [
        f"- prompt {row['prompt'] + 1}, {row['length']} tokens, {row['direction']}, seed"
        f" {row['seed']}: {row['difference_sd']:+.2f} SD against {NAMES[row['method']]}"
        for row in sorted(lost, key=lambda row: row["difference_sd"])
    ]
    return "\n".join(lines)


def main() -> int:
    """Run; exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--model", default="demo", help="model (default demo)")
    parser.add_argument("--budget", type=int, default=2500, help="forward tokens a search")
    parser.add_argument("--singles", type=int, help="score a sample of single tokens, not all")
    parser.add_argument("--cold", action="store_true", help="no single-token scores beforehand")
    parser.add_argument("--prompts", type=int, default=4, choices=range(1, 5))
    parser.add_argument("--lengths", type=int, nargs="+", default=[2, 3, 4, 5])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, help="threads of torch (default: its own choice)")
    parser.add_argument("--cache", type=Path, default=None, help="Pessimal's cache folder")
    options = parser.parse_args()
    options.cache = options.cache or default_cache()
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)
    began = time.perf_counter()
    document = measure(options)
    document["seconds"] = round(time.perf_counter() - began, 1)
    document["load"] = round(os.getloadavg()[0], 2)
    print(json.dumps(document, indent=1) if options.json else table(document))
    return 0 if all(one["met"] for one in document["methods"]) else 1


if __name__ == "__main__":
    sys.exit(main())
