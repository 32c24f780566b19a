"""Time and memory of every audit on simulated scores: a large vocabulary, many prompts."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.machine import Watch, describe, exit_code, target, verdicts
from pessimal.audit import Context, collect_audits
from pessimal.lexicons import valence, word_lists, zipf
from pessimal.pipeline.audits import AuditOutcome, run_audits
from pessimal.pipeline.spec import load_prompts
from pessimal.project import find_content

SECONDS, GIB = 90.0, 4.0
ENTITIES = 7_500


class Again:
    """Scores replies again as the model did, up to rounding."""

    def __init__(self, scores: dict[str, np.ndarray]) -> None:
        self._scores = scores

    def rescore(self, prompt: str, replies: list[tuple[int, ...]], *, variant: str) -> np.ndarray:
        """float32 scores of single tokens, moved by a rounding error."""
        found = self._scores[prompt][[reply[0] for reply in replies]]
        rng = np.random.default_rng(len(variant))
        return (found + rng.normal(scale=1e-5, size=len(found))).astype(np.float32)


def simulate(tokens: int) -> Context:
    """Scores that follow valence and frequency, under nine positive and nine negative prompts."""
    rng = np.random.default_rng(0)
    content = find_content(Path(__file__).parents[1])
    book = load_prompts(content.pipelines)
    prompts = {prompt.id: prompt for prompt in book.select("nine_and_nine")}
    lists = word_lists()
    known = list(dict.fromkeys(word for words in lists.values() for word in words))
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    made = ["".join(row) for row in rng.choice(letters, (tokens, 7))]
    texts = [*known, *made][:tokens]
    kinds = rng.choice(["word", "subword", "code", "non_latin", "bytes"], tokens)
    kinds[: len(known)] = "word"

    def scores(words: list[str]) -> dict[str, np.ndarray]:
        lexicon = valence().scores
        value = np.array([lexicon.get(word, 0.0) for word in words])
        common = np.array([zipf(word) if i < len(known) else 0.0 for i, word in enumerate(words)])
        own = rng.normal(size=len(words))
        return {
            f"score:{name}": (
                (1 if prompt.framing == "positive" else -0.6) * value + 0.1 * common + own
                + 0.5 * rng.normal(size=len(words))
            ).astype(np.float32)
            for name, prompt in prompts.items()
        }  # fmt: skip

    columns = scores(texts)
    vocabulary = pd.DataFrame({
        "token_id": np.arange(tokens, dtype=np.int32), "token": texts, "text": texts,
        "kind": kinds, "roundtrips": True,
    } | columns)  # fmt: skip
    rows = [(word, name) for name, words in lists.items() for word in words]
    entities = [f"entity {i}" for i in range(ENTITIES)]
    rows += [(entity, "human") for entity in entities]
    words = pd.DataFrame({
        "word": [word for word, _ in rows], "list": [name for _, name in rows],
        "ids": [(1,)] * len(rows),
    } | scores([word for word, _ in rows]))  # fmt: skip
    human = pd.DataFrame({
        "name": entities, "score": np.round(rng.normal(1500, 100, ENTITIES)),
        "matches": rng.integers(1, 2000, ENTITIES).astype(float),
    })  # fmt: skip
    base = pd.DataFrame({"token_id": vocabulary["token_id"]} | {
        f"logprob:{name}": rng.normal(-10, 2, tokens).astype(np.float32) for name in prompts
    })  # fmt: skip
    plain = {name: columns[f"score:{name}"] for name in prompts}
    nouns = lists["controls"]
    return Context(
        prompts=prompts, seed=0, vocabulary=vocabulary, vocabulary_planned=tokens * len(prompts),
        words=words, scorer=Again(plain), human=human, base_logprobs=base,  # type: ignore[arg-type]
        categories={"first": nouns[::2], "second": nouns[1::2]},
    )  # fmt: skip


def main() -> int:
    """Print each audit's seconds and the peak memory; 1 where they are beyond the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--tokens", type=int, default=256_000)
    options = parser.parse_args()
    context = simulate(options.tokens)
    audits = collect_audits(Path(__file__).parents[1] / "audits")
    watch, rows = Watch(), []
    with watch.round():
        for name, audit in audits.items():
            began = time.perf_counter()
            outcomes: list[AuditOutcome] = run_audits({name: audit}, context, [name])
            seconds = time.perf_counter() - began
            (outcome,) = [one for one in outcomes if one.name == name]
            rows.append({"audit": name, "seconds": seconds, "status": outcome.status,
                         "reason": outcome.reason})  # fmt: skip
    total = sum(row["seconds"] for row in rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    document = {
        "schema": "pessimal.benchmark.measures/1", "machine": describe(),
        "tokens": options.tokens, "prompts": len(context.prompts), "audits": rows,
        "targets": [
            target("all audits' measuring", total, most=SECONDS, unit=" s"),
            target("peak memory of measuring", peak, most=GIB, unit=" GiB"),
        ],
        **watch.document(),
    }  # fmt: skip
    if options.json:
        print(json.dumps(document))
    else:
        for row in rows:
            print(f"{row['audit']:<12} {row['seconds']:7.2f} s  {row['status']}"
                  f" {row['reason'] or ''}")  # fmt: skip
        print(f"{options.tokens:,} tokens x {len(context.prompts)} prompts")
        print("\n".join(verdicts(document)))
    return exit_code(document)


if __name__ == "__main__":
    sys.exit(main())
