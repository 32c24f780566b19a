from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pessimal.models import scorer, trunk
from pessimal.models.prefix import SharedPrefixBackbone
from pessimal.models.records import LoadedModel, ReplySlot, ScoringPath
from pessimal.models.scorer import Scorer
from pessimal.models.slot import find_slot
from tests.builders import build_model
from tests.models.opening import loaded, refusal

PROMPT = "What, in one word, is the greatest thing ever?"
OTHER_PROMPT = "What is the worst thing that humans ever did, in a word, please?"
DECODERS = ("llama", "qwen3", "gemma2", "mistral", "gpt2")
FAMILIES = (*DECODERS, "deberta-v2")


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Saves a tiny model of a family, once."""

    @cache
    def folder(family: str) -> Path:
        return build_model(tmp_path_factory.mktemp(family), family)

    return folder


@pytest.fixture(scope="module")
def models(folders: Any) -> Any:
    """A loaded tiny model of a family; not to be changed."""

    @cache
    def model(family: str) -> LoadedModel:
        return loaded(folders(family))

    return model


@pytest.fixture
def llama(folders: Any) -> LoadedModel:
    """A model that a test may change."""
    return loaded(folders("llama"))


def slot_of(model: LoadedModel, prompt: str = PROMPT) -> ReplySlot:
    return find_slot(model.source, prompt)


def replies_of(model: LoadedModel) -> list[tuple[int, ...]]:
    """200 random tokens, every special token, and random replies of two to five tokens."""
    rng = np.random.default_rng(3)
    rows = model.embedding_rows
    tokens = {*rng.permutation(rows)[:200].tolist(), *model.tokenizer.all_special_ids}
    longer = [tuple(rng.integers(0, rows, 2 + n % 4).tolist()) for n in range(40)]
    return [*((token,) for token in sorted(tokens)), *longer]


def plain_scores(
    folder: Path, slot: ReplySlot, replies: Sequence[tuple[int, ...]], **config: Any
) -> NDArray[np.float64]:
    """One unbatched float32 forward a reply, with transformers alone."""
    from transformers import AutoConfig, AutoModelForSequenceClassification

    settings = AutoConfig.from_pretrained(folder, **config)
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, config=settings, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    scores = []
    for reply in replies:
        ids = [*slot.prefix_ids, *reply, *slot.suffix_ids]
        given = {"input_ids": torch.tensor([ids])}
        if slot.prefix_types is not None:
            after = [1] * (len(ids) - len(slot.prefix_ids))
            given["token_type_ids"] = torch.tensor([[*slot.prefix_types, *after]])
        with torch.no_grad():
            scores.append(float(model(**given).logits[0, 0]))
    return np.array(scores)


def difference_sd(scores: NDArray[Any], expected: NDArray[np.float64]) -> float:
    return float(np.abs(scores - expected).max() / expected.std())


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_equal_plain_forwards_on_every_path(models: Any, folders: Any, family: str) -> None:
    model = models(family)
    slot, replies = slot_of(model), replies_of(model)
    expected = plain_scores(folders(family), slot, replies)
    paths: list[ScoringPath] = ["shared", "copied", "full"] if family in DECODERS else ["full"]
    assert Scorer(model).path == paths[0]
    for path in paths:
        scores = Scorer(model, path).score(slot, replies)
        assert scores.dtype == np.float32
        assert difference_sd(scores, expected) <= 1e-4, path
    reference = [Scorer(model).reference(slot, reply) for reply in replies[:20]]
    assert difference_sd(np.array(reference), expected[:20]) <= 1e-6


@pytest.mark.parametrize(
    ("family", "change"),
    [
        ("gemma2", {"attn_logit_softcapping": None}),
        ("gemma2", {"sliding_window": 500}),
        ("mistral", {"sliding_window": None}),
    ],
)
def test_the_cap_and_the_windows_matter_in_these_models(
    models: Any, folders: Any, family: str, change: dict[str, Any]
) -> None:
    model = models(family)
    slot, replies = slot_of(model), replies_of(model)[:20]
    assert len(slot.prefix_ids) > model.module.config.sliding_window
    without = plain_scores(folders(family), slot, replies, **change)
    assert difference_sd(Scorer(model).score(slot, replies), without) > 0.1


@pytest.mark.parametrize("family", DECODERS)
def test_bits_do_not_depend_on_batches_order_company_or_threads(models: Any, family: str) -> None:
    model = models(family)
    slot, replies, subject = slot_of(model), replies_of(model), Scorer(model)
    scores = subject.score(slot, replies)
    for rows in (1, 16, 33, 64, 512):
        assert np.array_equal(subject.score(slot, replies, batch_rows=rows), scores)
    assert np.array_equal(subject.score(slot, replies[::-1])[::-1], scores)
    assert np.array_equal(subject.score(slot, replies[7:8]), scores[7:8])
    torch.set_num_threads(2)
    assert np.array_equal(subject.score(slot, replies), scores)


def test_two_threads_with_two_prompts_and_paths_do_not_meet(models: Any) -> None:
    model = models("gemma2")
    replies, shared, copied = replies_of(model), Scorer(model), Scorer(model, "copied")
    jobs = [(s, slot_of(model, p)) for s in (shared, copied) for p in (PROMPT, OTHER_PROMPT)]
    expected = [subject.score(slot, replies) for subject, slot in jobs]
    found: list[list[NDArray[np.float32]]] = [[] for _ in jobs]

    def work(index: int) -> None:
        subject, slot = jobs[index]
        for _ in range(4):
            found[index].append(subject.score(slot, replies))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, scores in enumerate(expected):
        assert len(found[index]) == 4
        assert all(np.array_equal(again, scores) for again in found[index])


@pytest.fixture
def dropping(tmp_path: Path) -> LoadedModel:
    """A GPT-2 whose dropout changes every score in training mode."""
    return loaded(build_model(tmp_path, "gpt2", resid_pdrop=0.5, embd_pdrop=0.5))


def test_a_model_left_in_training_mode_scores_as_in_eval_mode(dropping: LoadedModel) -> None:
    slot, replies = slot_of(dropping), replies_of(dropping)
    expected = Scorer(dropping).score(slot, replies)
    dropping.module.train()
    for path in ("shared", "copied", "full"):
        subject = Scorer(dropping, path)  # type: ignore[arg-type]
        assert difference_sd(subject.score(slot, replies), expected.astype(float)) <= 1e-4
    assert Scorer(dropping).reference(slot, replies[0]) == pytest.approx(expected[0], abs=1e-4)
    assert dropping.module.training


def test_an_error_inside_a_forward_leaves_model_and_scorer_as_they_were(
    llama: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot, replies, subject = slot_of(llama), replies_of(llama), Scorer(llama)
    before = [(name, type(part)) for name, part in llama.module.named_modules()]
    expected = subject.score(slot, replies)
    kind = type(llama.module.model.layers[1].mlp)
    forward = kind.forward

    def broken(*_: Any) -> Any:
        raise KeyError("broken")

    monkeypatch.setattr(kind, "forward", broken)
    with pytest.raises(KeyError, match="broken"):
        subject.score(slot, replies)
    monkeypatch.setattr(kind, "forward", forward)
    assert np.array_equal(subject.score(slot, replies), expected)
    assert llama.module.config._attn_implementation == "eager"
    assert [(name, type(part)) for name, part in llama.module.named_modules()] == before
    for part in llama.module.modules():
        assert not part._forward_hooks
        assert not part._forward_pre_hooks


def test_the_copies_share_the_weights(llama: LoadedModel) -> None:
    copied = trunk.headless(llama)
    own = {id(p) for p in llama.module.parameters()}
    assert {id(p) for p in copied.parameters()} < own
    assert copied.config is not llama.module.config


@pytest.mark.parametrize("family", FAMILIES)
def test_the_self_test_passes_on_the_first_path(models: Any, family: str) -> None:
    model = models(family)
    subject = Scorer(model)
    result = subject.self_test(slot_of(model))
    assert result.path == subject.path == ("shared" if family in DECODERS else "full")
    assert result.steps == ()
    assert 32 <= result.n <= 32 + len(model.tokenizer.all_special_ids)
    assert 0 <= result.max_difference_sd <= result.tolerance_sd == 1e-4
    assert result.sd > 0


def wrong(*_: Any) -> Any:
    raise RuntimeError("this path is broken")


def test_the_self_test_steps_down_and_says_why(
    llama: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = slot_of(llama)
    expected = Scorer(llama, "full").score(slot, replies_of(llama))
    monkeypatch.setattr(SharedPrefixBackbone, "record", wrong)
    subject = Scorer(llama)
    result = subject.self_test(slot)
    assert result.path == subject.path == "copied"
    assert len(result.steps) == 1
    assert result.steps[0].startswith("shared: ")
    assert "this path is broken" in result.steps[0]
    assert difference_sd(subject.score(slot, replies_of(llama)), expected.astype(float)) <= 1e-4

    monkeypatch.setattr(trunk.CopiedCacheBackbone, "last_hidden", _with_noise)
    result = Scorer(llama).self_test(slot)
    assert result.path == "full"
    assert [step.split(":")[0] for step in result.steps] == ["shared", "copied"]
    assert "SD from the model's own forward" in result.steps[1]

    monkeypatch.setattr(trunk.FullBackbone, "last_hidden", wrong)
    error = refusal(Scorer(llama).self_test, slot)
    assert error.code == "self_test_failed"
    assert "this path is broken" in error.message


def _with_noise(self: trunk.CopiedCacheBackbone, prefix: Any, tails: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(len(tails), 32, generator=generator)


@pytest.mark.parametrize(
    ("weight", "code"), [(0.0, "scores_constant"), (float("nan"), "scores_not_finite")]
)
def test_scores_that_rank_nothing_are_refused(llama: LoadedModel, weight: float, code: str) -> None:
    llama.head.weight.data.fill_(weight)
    assert refusal(Scorer(llama).self_test, slot_of(llama)).code == code


def test_whole_sequences_score_as_they_are(models: Any, folders: Any) -> None:
    model = models("gemma2")
    slot = slot_of(model)
    rng = np.random.default_rng(0)
    sharing = [(*slot.prefix_ids, *reply, *slot.suffix_ids) for reply in replies_of(model)[-30:]]
    others = [(*rng.integers(0, 300, 9).tolist(), 4) for _ in range(5)]
    sequences = [*sharing[:15], *others, *sharing[15:], slot.prefix_ids, slot.prefix_ids[:7]]
    scores = Scorer(model).score_sequences(slot, sequences)
    bare = replace(slot, prefix_ids=(), suffix_ids=())
    expected = plain_scores(folders("gemma2"), bare, sequences)
    assert difference_sd(scores, expected) <= 1e-4


def test_whole_pairs_keep_their_token_types(models: Any) -> None:
    model = models("deberta-v2")
    slot, subject = slot_of(model), Scorer(models("deberta-v2"))
    replies = replies_of(model)[-10:]
    sequences = [(*slot.prefix_ids, *reply, *slot.suffix_ids) for reply in replies]
    scores = subject.score_sequences(slot, sequences)
    assert np.allclose(scores, subject.score(slot, replies), atol=1e-6)
    error = refusal(subject.score_sequences, slot, [(1, 2, 3)])
    assert error.code == "sequence_unsplit"


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_reply_that_ends_in_the_pad_is_pooled_where_the_model_pools(
    models: Any, folders: Any, family: str
) -> None:
    model = models(family)
    slot = replace(slot_of(model), suffix_ids=())
    replies = [(7,), (0,), (9, 0), (0, 9), (8, 9), (0, 0)]
    expected = plain_scores(folders(family), slot, replies)
    assert difference_sd(Scorer(model).score(slot, replies), expected) <= 1e-4
    # Read at the end, it would be another score.
    assert abs(expected[1] - expected[5]) < 1e-4 * expected.std()


def test_a_model_without_a_pad_is_scored(tmp_path: Path) -> None:
    folder = build_model(tmp_path, "llama", pad_token_id=None)
    model = loaded(folder)
    slot, replies = slot_of(model), replies_of(model)
    expected = plain_scores(folder, slot, replies)
    assert difference_sd(Scorer(model).score(slot, replies), expected) <= 1e-4


def test_replies_that_cannot_be_scored_are_refused(models: Any) -> None:
    model = models("llama")
    slot, subject = slot_of(model), Scorer(models("llama"))
    for token in (-1, 300, 10**9):
        error = refusal(subject.score, slot, [(5,), (token,)])
        assert error.code == "token_out_of_range"
        assert str(token) in error.message
    assert refusal(subject.score, slot, [[5] * 512]).code == "reply_too_long"
    assert refusal(subject.reference, slot, [5] * 512).code == "reply_too_long"
    bare = replace(slot, suffix_ids=())
    assert refusal(subject.score, bare, [(5,), ()]).code == "reply_empty"
    assert subject.score(slot, []).shape == (0,)
    assert subject.score(slot, [()])[0] == pytest.approx(subject.reference(slot, ()), abs=1e-4)


def test_a_16_bit_model_is_held_to_a_tolerance_of_its_own(folders: Any) -> None:
    model = loaded(folders("llama"), dtype="bfloat16")
    subject = Scorer(model)
    result = subject.self_test(slot_of(model))
    assert result.tolerance_sd == 0.5
    assert 0 < result.max_difference_sd <= 0.5
    assert subject.score(slot_of(model), [(5,), (6,)]).dtype == np.float32


def test_only_the_full_path_is_open_to_encoders(models: Any) -> None:
    assert refusal(Scorer, models("deberta-v2"), "shared").code == "path_unavailable"


def test_the_core_has_one_hash_over_all_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(scorer.__file__).parent
    first = scorer.core_sha256()
    assert len(first) == 64
    for name in scorer.CORE_FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((home / name).read_bytes())
    monkeypatch.setattr(scorer, "__file__", str(tmp_path / "scorer.py"))
    assert scorer.core_sha256() == first
    for name in scorer.CORE_FILES:
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content + b"#")
        assert scorer.core_sha256() != first
        (tmp_path / name).write_bytes(content)
