"""The search's view of a model against plain forwards: scores, gradients, brute force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pessimal.models.records import LoadedModel, ReplySlot
from pessimal.models.scorer import Scorer
from pessimal.models.slot import find_slot
from pessimal.models.vocabulary import identical_rows, vocabulary
from pessimal.search import DIRECTIONS, SearchConfig, Space
from pessimal.search.allowed import choose_tokens
from pessimal.search.model import Floats, ReplyModel, Sharing, TorchReplyModel
from pessimal.search.run import search
from tests.builders import build_model
from tests.models.opening import loaded

PROMPT = "What, in one word, is the greatest thing ever?"
DECODERS = ("llama", "qwen3", "gemma2", "mistral", "gpt2")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Any:
    @cache
    def model(family: str, seed: int = 0, vocabulary: int = 300) -> LoadedModel:
        folder = tmp_path_factory.mktemp(family)
        return loaded(build_model(folder, family, seed=seed, vocabulary=vocabulary))

    return model


def reply_model(
    model: LoadedModel, sharing: Sharing | None = None, **slot: Any
) -> tuple[TorchReplyModel, Scorer, ReplySlot]:
    scorer = Scorer(model)
    found = replace(find_slot(model.source, PROMPT), **slot)
    allowed = np.arange(5, model.embedding_rows)
    return TorchReplyModel(scorer, found, allowed, sharing), scorer, found


@pytest.mark.parametrize("family", DECODERS)
def test_candidates_score_as_the_models_own_forward(models: Any, family: str) -> None:
    subject, scorer, slot = reply_model(models(family))
    assert subject.sharing == "tokens"
    rng = np.random.default_rng(0)
    spread = np.std([scorer.reference(slot, (token,)) for token in range(5, 60)])
    for length in (1, 2, 3, 5, 8):
        base = tuple(rng.integers(5, 300, length).tolist())
        for shared in reversed(range(length)):
            tails = rng.integers(5, 300, (6, length - shared)).tolist()
            replies = [(*base[:shared], *tail) for tail in tails]
            scores = subject.score(replies, shared)
            expected = [scorer.reference(slot, reply) for reply in replies]
            assert np.abs(scores - expected).max() <= 1e-4 * spread, (length, shared)


@pytest.mark.parametrize("sharing", ["tokens", "prompt", "nothing"])
def test_sharing_changes_no_score(models: Any, sharing: Sharing) -> None:
    model = models("gemma2")
    subject, scorer, slot = reply_model(model, sharing)
    assert subject.sharing == sharing
    replies = [(9, 8, token) for token in range(5, 30)]
    expected = [scorer.reference(slot, reply) for reply in replies]
    np.testing.assert_allclose(subject.score(replies, 2), expected, atol=1e-5)


def test_where_the_pad_ends_a_sequence_nothing_is_shared(models: Any) -> None:
    model = models("llama")
    subject, scorer, slot = reply_model(model, suffix_ids=())
    assert subject.sharing == "tokens"
    padded = TorchReplyModel(scorer, slot, np.arange(300))
    assert padded.sharing != "tokens"
    reply = (9, 7, 0)
    assert padded.score([reply], 2)[0] == pytest.approx(scorer.reference(slot, reply), abs=1e-5)


@pytest.mark.parametrize("pull", [0.0, 0.5])
@pytest.mark.parametrize("family", [*DECODERS, "bert", "deberta-v2", "roberta"])
def test_gradients_are_finite_differences_in_embedding_space(
    models: Any, family: str, pull: float
) -> None:
    """Each slope is what moving a token's embedding towards another's changes, by own forwards."""
    model = models(family)
    subject, _, slot = reply_model(model)
    assert subject.sharing == ("tokens" if family in DECODERS else "nothing")
    reply = (40, 41, 42)
    slopes = subject.slopes(subject.gradient(reply, pull))
    assert slopes.shape == (3, 295)
    embedding = model.module.get_input_embeddings()
    with torch.no_grad():
        mean = embedding(torch.arange(5, 300)).mean(0)
    before = len(slot.prefix_ids)
    ids = torch.tensor([[*slot.prefix_ids, *reply, *slot.suffix_ids]])

    def reward(position: int, direction: Tensor, size: float) -> float:
        def move(module: Any, args: Any, output: Tensor) -> Tensor:
            moved = output.clone()
            own = moved[0, before : before + 3]
            own += pull * (mean - own)
            own[position] += size * direction
            return moved

        handle = embedding.register_forward_hook(move)
        try:
            with torch.no_grad():
                return float(Scorer(model).own_forward(slot, ids, module=model.module)[0])
        finally:
            handle.remove()

    step = 1e-3
    for position, token in ((0, 77), (1, 200), (2, 9)):
        with torch.no_grad():
            own, other = embedding(torch.tensor([reply[position], token]))
        difference = reward(position, other - own, step) - reward(position, other - own, -step)
        expected = slopes[position, token - 5] - slopes[position, reply[position] - 5]
        scale = float(np.abs(slopes[position] - slopes[position, reply[position] - 5]).max())
        assert difference / (2 * step) == pytest.approx(expected, abs=0.02 * scale)


def test_gemmas_embedding_scale_matters_here(models: Any) -> None:
    subject, *_ = reply_model(models("gemma2"))
    weight = models("gemma2").module.get_input_embeddings().weight[5:].numpy()
    gradient = subject.gradient((40, 41, 42))
    bare = gradient @ weight.T
    np.testing.assert_allclose(subject.slopes(gradient), bare * 32**0.5, rtol=1e-4, atol=1e-4)


def test_a_gradient_leaves_the_model_as_it_was(models: Any) -> None:
    model = models("llama")
    subject, *_ = reply_model(model)
    before = subject.score([(9, 8)], 0)
    subject.gradient((9, 8))
    assert np.array_equal(subject.score([(9, 8)], 0), before)
    assert model.module.config._attn_implementation == "eager"
    assert not any(part._forward_hooks for part in model.module.modules())
    assert all(p.grad is None and not p.requires_grad for p in model.module.parameters())


def pairs_model(models: Any, family: str, seed: int, vocabulary: int) -> TorchReplyModel:
    model = models(family, seed, vocabulary)
    tokens = np.arange(model.embedding_rows)
    return TorchReplyModel(Scorer(model), find_slot(model.source, PROMPT), tokens)


def every_pair(subject: ReplyModel, count: int) -> tuple[Floats, int]:
    """Rewards of all replies of two tokens, ``[V, V]``, and the forward tokens that they take."""
    rows = [subject.score([(a, b) for b in range(count)], 1) for a in range(count)]
    cost = subject.prompt_tokens + count * (1 + count * (1 + subject.suffix_tokens))
    return np.stack(rows), cost


class Remembered:
    """A model whose rewards of two tokens are looked up: a search asks for some of them again."""

    def __init__(self, subject: TorchReplyModel, rewards: Floats) -> None:
        self.subject, self.rewards = subject, rewards
        self.prompt_tokens, self.suffix_tokens = subject.prompt_tokens, subject.suffix_tokens
        self.sharing = subject.sharing
        self.gradient, self.slopes = subject.gradient, subject.slopes

    def score(self, replies: Sequence[tuple[int, ...]], shared: int) -> Floats:
        if len(replies[0]) != 2:
            return self.subject.score(replies, shared)
        return self.rewards[tuple(np.array(replies).T)]


def finds(
    model: ReplyModel, rewards: Floats, cost: int, method: str, direction: str, seed: int = 0
) -> bool:
    """Whether the global optimum is found within 5 % of the cost; the certificate must be right."""
    asked = SearchConfig(
        2, direction, budget=cost // 20, method=method, seed=seed, certify=True,  # type: ignore[arg-type]
    )  # fmt: skip
    result = search(model, asked, Space(np.arange(len(rewards))))
    assert result.forward_tokens <= cost // 20
    assert result.certificate is not None
    best = rewards.max() if direction == "optimal" else rewards.min()
    right = bool(abs(result.reward - best) <= 1e-4 * rewards.std())
    said = result.certificate["global_optimum"]
    assert said is None or said == right
    assert result.certificate["coordinate_optimal"] or not right
    return right


@pytest.mark.parametrize(("method", "family"), [("gcg", "gemma2"), ("coordinate", "gpt2")])
def test_the_global_optimum_is_found(models: Any, method: str, family: str) -> None:
    subject = pairs_model(models, family, 1, 270)
    rewards, cost = every_pair(subject, 270)
    assert all(finds(subject, rewards, cost, method, direction) for direction in DIRECTIONS)


def test_an_exhaustive_search_scores_every_pair(models: Any) -> None:
    subject = pairs_model(models, "llama", 0, 270)
    rewards, cost = every_pair(subject, 270)
    asked = SearchConfig(2, "pessimal", budget=10**9, method="exhaustive")
    found = search(subject, asked, Space(np.arange(270)))
    assert found.forward_tokens == cost
    assert len([reply for reply in found.scored if len(reply) == 2]) == 270**2
    assert found.reward == pytest.approx(rewards.min(), abs=1e-5)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_global_optimum_is_found_in_nine_of_ten_cases(models: Any) -> None:
    outcomes: dict[str, list[bool]] = {"gcg": [], "coordinate": []}
    sizes = list(enumerate((300, 300, 350, 400, 500)))
    for family, (model_seed, size) in product(("llama", "gemma2", "gpt2"), sizes):
        subject = pairs_model(models, family, model_seed, size)
        rewards, cost = every_pair(subject, size)
        model = Remembered(subject, rewards)
        for direction in DIRECTIONS:
            outcomes["coordinate"].append(finds(model, rewards, cost, "coordinate", direction))
            outcomes["gcg"] += [
                finds(model, rewards, cost, "gcg", direction, seed) for seed in range(3)
            ]
    # 84 and 26 were found; docs/search.md says where that stands.
    assert [len(found) for found in outcomes.values()] == [90, 30]
    assert sum(outcomes["gcg"]) >= 81
    assert sum(outcomes["coordinate"]) >= 25


def test_allowed_tokens_and_their_counts(models: Any) -> None:
    model = models("llama")
    words = vocabulary(model.source)
    everything = choose_tokens(model.source, words, identical_rows(model), allow="all")
    assert len(everything.allowed) == model.embedding_rows
    assert everything.excluded == {}
    usual = choose_tokens(model.source, words, identical_rows(model))
    assert len(usual.allowed) + sum(usual.excluded.values()) == model.embedding_rows
    assert usual.excluded["special"] == 5
    tokenizer = model.tokenizer
    for token in usual.allowed.tolist():
        text = tokenizer.decode([token])
        assert tokenizer(text, add_special_tokens=False)["input_ids"] == [token]
    more = choose_tokens(model.source, words, identical_rows(model), include=["unstable"])
    assert len(more.allowed) == len(usual.allowed) + usual.excluded["unstable"]


def test_rows_without_a_token_and_twins_are_left_out(tmp_path_factory: Any) -> None:
    folder = build_model(tmp_path_factory.mktemp("padded"), "llama", vocab_size=320)
    model = loaded(folder)
    model.module.get_input_embeddings().weight.data[60] = (
        model.module.get_input_embeddings().weight.data[50]
    )
    twins = identical_rows(model)
    usual = choose_tokens(model.source, vocabulary(model.source), twins, singles={50: 1.5, 60: 2.0})
    assert usual.excluded["padded"] == 20
    assert usual.excluded["unused"] == len(twins) >= 1
    assert {50, 60} & set(usual.allowed.tolist()) <= {50}
    assert usual.singles is not None
    known = usual.allowed[np.isfinite(usual.singles)]
    assert set(known.tolist()) <= {50}
