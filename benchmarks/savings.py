"""Counts what tries would save: over prompts with a common beginning, and over word lists.

An exact count of forward tokens on the shipped pipelines with the demo's tokenizer; nothing is
timed. A trie is the best case: every id sequence that several prompts or replies begin with is run
once. Searches are left out of the total, which makes the shares larger than they are. A score must
not depend on its neighbours, so a trie over word lists would have to cut every longer reply after
its first id whether or not another shares it; what that pushes through the model, with batches
filled up as they are, stands beside.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pessimal.models.batches import ROW_STEP
from pessimal.models.records import ModelRequest, ModelSource
from pessimal.models.source import open_source
from pessimal.models.vocabulary import vocabulary
from pessimal.pipeline.plan import count_steps, word_ids
from pessimal.pipeline.spec import Pipeline, PromptBook, load_pipeline, load_prompts
from pessimal.project import find_content
from pessimal.scores.store import default_cache

PIPELINES = ("quick", "standard", "paper")
WORTH_IT = 0.05
Ids = tuple[int, ...]


def nodes(sequences: Iterable[Ids]) -> int:
    """Nodes of the trie of some id sequences: how many ids are run when beginnings are shared."""
    return len({ids[:end] for ids in sequences for end in range(1, len(ids) + 1)})


def pushed(words: Sequence[Ids], suffix: int, *, cut: bool) -> int:
    """Tokens that scoring replies pushes through the model, rows that fill up a batch included.

    Args:
        words: the replies.
        suffix: ids after a reply.
        cut: whether a longer reply's first id is part of its prefix, run once a first id.
    """
    longer = [ids for ids in words if cut and len(ids) > 1]
    groups = Counter((ids[0], len(ids) - 1) for ids in longer)
    groups += Counter((None, len(ids)) for ids in words if not (cut and len(ids) > 1))
    rows = sum(-(-n // ROW_STEP) * ROW_STEP * (own + suffix) for (_, own), n in groups.items())
    return rows + len({ids[0] for ids in longer})


def count(source: ModelSource, pipeline: Pipeline, book: PromptBook) -> dict[str, Any]:
    """Forward tokens of one pipeline's steps, and what each trie takes off them."""
    planned = count_steps(source, pipeline, book, len(vocabulary(source).ids), 0)
    slots = {step.name: step.slots for step in planned}
    tokens = {step.name: step.plan.forward_tokens for step in planned}
    total, words_total = sum(tokens.values()), tokens.get("words", 0)
    recorded = [slot.prefix_ids for each in slots.values() for slot in each]
    prefixes = sum(map(len, recorded))
    prompts_saved = prefixes - nodes(recorded)
    words = sorted(word_ids(source, pipeline)) if words_total else []
    words_saved = len(slots.get("words", ())) * (sum(map(len, words)) - nodes(words))
    suffix = len(planned[0].slots[0].suffix_ids)
    return {
        "pipeline": pipeline.name, "forward_tokens": total, "prompt_tokens": prefixes,
        "words_forward_tokens": words_total,
        "prompts_saved": prompts_saved, "prompts_share": prompts_saved / total,
        "words_saved": words_saved, "words_share": words_saved / total,
        "words_share_of_step": words_saved / words_total if words_total else 0.0,
        "pushed_now": pushed(words, suffix, cut=False),
        "pushed_when_cut": pushed(words, suffix, cut=True),
    }  # fmt: skip


def measure() -> dict[str, Any]:
    """All pipelines; returns the document that ``--json`` prints."""
    source = open_source(ModelRequest(model="demo"), default_cache())
    content = find_content(Path(__file__).parents[1])
    book = load_prompts(content.pipelines)
    rows = [count(source, load_pipeline(name, content.pipelines), book) for name in PIPELINES]
    return {"schema": "pessimal.benchmark.savings/1", "worth_it": WORTH_IT, "pipelines": rows}


def table(document: dict[str, Any]) -> str:
    """The document as Markdown."""
    lines = [
        "| pipeline | forward tokens | a trie over prompts saves | a trie over word lists saves |"
        " of the words step |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| `{row['pipeline']}` | {row['forward_tokens']:,} | {row['prompts_saved']:,}"
        f" ({row['prompts_share']:.2%}) | {row['words_saved']:,} ({row['words_share']:.1%}) |"
        f" {row['words_share_of_step']:.1%} |"
        for row in document["pipelines"]
    ]
    now, cut = (document["pipelines"][0][name] for name in ("pushed_now", "pushed_when_cut"))
    lines += [
        "",
        f"Under one prompt the word lists push {now:,} tokens through the model, rows that fill up"
        f" a batch included; cut after the first id, {cut:,} ({cut / now:.1f} times).",
    ]
    return "\n".join(lines)


def main() -> int:
    """Count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    document = measure()
    print(json.dumps(document) if options.json else table(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
