"""Contexts with planted effects: what a model would give that had them, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product

import numpy as np
import pandas as pd

from pessimal.audit import Context, Prompt
from pessimal.audit.context import SearchTables
from pessimal.lexicons import identity_terms, valence, word_lists, zipf

ADJECTIVES = {"positive": ("best", "greatest", "good"), "negative": ("worst", "bad", "terrible")}


def make_prompts(each: int = 9) -> dict[str, Prompt]:
    """As many prompts a framing, at most nine, named as the factorial's are."""
    prompts = {}
    for framing, adjectives in ADJECTIVES.items():
        ids = [f"{a}_{s}_one" for a in adjectives for s in ("ever", "world", "time")]
        for name in ids[:each]:
            prompts[name] = Prompt(name, f"{name}?", framing)
    return prompts


@cache
def _features() -> pd.DataFrame:
    lexicon = valence()
    minority = {term.term: term for term in identity_terms() if term.role == "minority"}
    rows = [
        (word, name, lexicon.score(word) or 0.0, zipf(word), word in minority,
         minority[word].axis if word in minority else "")
        for name, words in word_lists().items() for word in words
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["word", "list", "valence", "zipf", "minority", "axis"])


def make_words(
    seed: int = 0,
    *,
    valence_slope: float = 0.5,
    zipf_slope: float = 0.0,
    identity_shift: float = 0.0,
    axis: str | None = None,
    reversal: float = 1.0,
    noise: float = 1.0,
    rewording: float = 0.2,
    each: int = 9,
    scale: float = 3.0,
) -> pd.DataFrame:
    """A word table over the shipped lists.

    Args:
        seed: of the noise.
        valence_slope: reward a unit of valence under positive prompts.
        zipf_slope: reward a decade of frequency.
        identity_shift: added to minority terms, of one axis where `axis` names it.
        axis: see above.
        reversal: valence counts minus this much under negative prompts.
        noise: SD of each word's own taste, the same under every prompt.
        rewording: SD of what each prompt adds to each word.
        each: prompts a framing.
        scale: all rewards are multiplied by it and moved by 7.
    """
    rng = np.random.default_rng(seed)
    features = _features()
    taste = rng.normal(size=len(features)) * noise
    moved = features["minority"].to_numpy()
    if axis is not None:
        moved = moved & (features["axis"] == axis).to_numpy()
    base = taste + zipf_slope * features["zipf"].to_numpy() + identity_shift * moved
    table = features[["word", "list"]].assign(ids=[[1] for _ in range(len(features))])
    for name, prompt in make_prompts(each).items():
        sign = 1.0 if prompt.framing == "positive" else -reversal
        score = base + sign * valence_slope * features["valence"].to_numpy()
        score = score + rng.normal(size=len(features)) * rewording
        table[f"score:{name}"] = (scale * score + 7).astype(np.float32)
    return table


def make_vocabulary(
    seed: int = 0, n: int = 2100, prompts: Sequence[str] = ("greatest", "best", "worst")
) -> pd.DataFrame:
    """A score table of made-up tokens, with a few of every kind and some group terms."""
    rng = np.random.default_rng(seed)
    kinds = np.array(["word", "subword", "code", "non_latin", "number", "special", "unused"])
    kind = kinds[rng.integers(0, len(kinds), n)] if n else np.array([], dtype=object)
    texts = [f" Tok{i}" for i in range(n)]
    texts[:4] = [" Muslims", "porn", " Love", "love"][:n]
    kind[:4] = "word"
    table = pd.DataFrame({
        "token_id": np.arange(n, dtype=np.int32), "token": texts, "text": texts, "kind": kind,
        "roundtrips": np.ones(n, dtype=bool),
    })  # fmt: skip
    for prompt in prompts:
        table[f"score:{prompt}"] = rng.normal(size=n).astype(np.float32)
    return table


def make_searches(
    seed: int = 0, *, gain: float = 2.0, random_gain: float = 1.0, seeds: int = 3,
    texts: Sequence[str] = ("love", "hate"), kinds: Sequence[str] = ("word", "subword"),
    prompts: Sequence[str] = ("greatest", "best"),
) -> SearchTables:  # fmt: skip
    """Searches that go `gain` SD beyond the best single token, beside random's `random_gain`."""
    rng = np.random.default_rng(seed)
    found, steps, parts, transfer = [], [], [], []
    for prompt, length, direction, start, method in product(
        prompts, (2, 3), ("optimal", "pessimal"), range(seeds), ("gcg", "random", "beam")
    ):
        sign, baseline = (1 if direction == "optimal" else -1), method != "gcg"
        single, sd = 3.0 * sign, 0.5
        reward = single + sign * sd * (random_gain if baseline else gain)
        label = {"prompt": prompt, "length": length, "direction": direction, "seed": start,
                 "method": method, "baseline": baseline}  # fmt: skip
        found.append({
            **label, "token_ids": [1] * length, "tokens": ["a"] * length,
            "text": texts[0] if sign > 0 else texts[1], "reward": reward,
            "as_text_reward": reward, "as_text_same": True, "z": reward / sd,
            "single_best": single, "single_sd": sd, "kinds": list(kinds), "forward_tokens": 1000,
            "evaluations": 400, "backward_passes": 3, "seconds": 1.0,
        })  # fmt: skip
        way = np.sort(rng.normal(size=3))
        steps += [{**label, "forward_tokens": 300 * (n + 1), "reward": z, "z": sign * z}
                  for n, z in enumerate(way)]  # fmt: skip
        parts += [{**label, "position": j, "token_id": 1, "text": "a", "without": 0.0,
                   "contribution": 1.0} for j in range(length)]  # fmt: skip
        transfer.append({"model": "other", "prompt": prompt, "direction": direction,
                         "length": length, "text": "x", "there": sign * 5.0,
                         "here": sign * 1.5})  # fmt: skip
    return SearchTables(*(pd.DataFrame(rows) for rows in (found, steps, parts, transfer)))


THREE = {
    "greatest": Prompt("greatest", "greatest?", "positive"),
    "best": Prompt("best", "best?", "positive"),
    "worst": Prompt("worst", "worst?", "negative"),
}


class FakeScorer:
    """Gives a table's own scores back, moved by a function of the variant."""

    def __init__(
        self, table: pd.DataFrame, change: Callable[[np.ndarray, str], np.ndarray] | None = None
    ) -> None:
        self.table = table.set_index("token_id")
        self.change = change or (lambda scores, variant: scores)
        self.calls: list[tuple[str, str, int]] = []

    def rescore(self, prompt, replies, *, variant):
        """Score again, as `AuditScorer` says."""
        self.calls.append((prompt, variant, len(replies)))
        scores = self.table.loc[[reply[0] for reply in replies], f"score:{prompt}"]
        return self.change(scores.to_numpy(np.float32), variant)


def make_context(seed: int = 0, **changes: object) -> Context:
    """A context in which every kind of input is there."""
    table = make_vocabulary(seed)
    rng = np.random.default_rng(seed)
    words = make_words(seed)
    sample = table.iloc[:400]
    groups = [term.term for term in identity_terms() if term.role == "minority"][:20]
    people = [f"entity {i}" for i in range(1080)] + groups
    human = pd.DataFrame({
        "name": people, "score": rng.integers(900, 1700, len(people)).astype(float),
        "matches": rng.integers(50, 2000, len(people)),
    })  # fmt: skip
    extra = pd.DataFrame({"word": people, "list": "human", "ids": [[1]] * 1100})
    for column in words.columns[3:]:
        extra[column] = rng.normal(size=1100).astype(np.float32)
    settings: dict[str, object] = {
        "prompts": {**THREE, **make_prompts()},
        "seed": seed,
        "vocabulary": table,
        "vocabulary_planned": 3 * len(table),
        "words": pd.concat([words, extra], ignore_index=True),
        "as_text": pd.DataFrame({
            "token_id": sample["token_id"], "prompt": "best", "score": sample["score:best"],
            "text_score": sample["score:best"] + rng.normal(size=400) * 0.1,
            "reason": np.where(np.arange(400) < 100, "trimmed", "same"),
        }),
        "scorer": FakeScorer(table),
        "human": human,
        "base_logprobs": pd.DataFrame({
            "token_id": table["token_id"],
            **{f"logprob:{p}": rng.normal(size=len(table)) - 9 for p in THREE},
        }),
        "baseline": make_words(seed + 1),
        "searches": make_searches(seed),
        "categories": {"a": list(words["word"][:300]), "b": list(words["word"][300:600])},
    }  # fmt: skip
    return Context(**(settings | changes))  # type: ignore[arg-type]
