"""Traps on the way from a prompt to ids, each with what happens when its guard is taken out.

Numbers are those of the list that the design keeps: 5 ids and embeddings, 6 soft-cap, 7 BOS,
8 lossy text, 9 hidden text.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pessimal.models import checks, loader, slot, source
from pessimal.models.scorer import Scorer
from pessimal.models.slot import encode_as_text, find_slot
from pessimal.models.vocabulary import vocabulary
from pessimal.sweep.as_text import difference
from tests.builders import CHATML, build_model
from tests.models.opening import loaded, opened, refusal, write_template
from tests.models.traps import (
    PROMPT,
    apart,
    nothing,
    our_scores,
    plain,
    true_scores,
    whole,
)

TEMPLATE = CHATML.replace("{{ bos }}", "{{ bos_token }}")
END = 4
"""Id of ``<|im_end|>``, the template's last token."""


pytestmark = pytest.mark.usefixtures("one_thread")


# 5. Ids and embeddings give one score: the search's gradient belongs to what is scored.


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt2", "deberta-v2"])
def test_05_the_gradient_is_taken_at_the_score_of_the_ids(tmp_path: Path, family: str) -> None:
    from pessimal.search import gradient
    from pessimal.search.model import TorchReplyModel

    model = loaded(build_model(tmp_path, family))
    place, reply = find_slot(model.source, PROMPT), (40, 41)
    subject = TorchReplyModel(Scorer(model), place, np.arange(300))
    found, seen = subject.gradient(reply), []
    forward = gradient.Gradients._forward

    def watched(self: Any, ids: Any) -> Any:
        score = forward(self, ids)
        seen.append(float(score.detach()))
        return score

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradient.Gradients, "_forward", watched)
        assert np.allclose(subject.gradient(reply), found)
    # The embeddings that were swapped in score what the ids score.
    score = Scorer(model).reference(place, reply)
    assert seen[0] == pytest.approx(score, abs=1e-4)


def test_05_given_embeddings_instead_of_ids_the_library_pools_elsewhere(tmp_path: Path) -> None:
    model = loaded(build_model(tmp_path, "llama"))
    write_template(tmp_path, TEMPLATE.replace("+ '<|im_end|>'", ""))
    place = find_slot(opened(tmp_path), PROMPT)
    ids = whole(place, (40, 0))
    with torch.no_grad():
        embedded = model.module.get_input_embeddings()(ids)
        wrong = float(model.module(inputs_embeds=embedded).logits[0, 0])
        expected = float(plain(tmp_path)(ids).logits[0, 0])
    right = float(Scorer(model).score(place, [(40, 0)])[0])
    assert right == pytest.approx(expected, abs=1e-4)
    assert abs(wrong - right) > 1e-2


# 6. Gemma 2's attention keeps its soft-cap.


def test_06_the_soft_cap_is_in_every_score(tmp_path: Path) -> None:
    model = loaded(build_model(tmp_path, "gemma2"))
    assert apart(our_scores(model), true_scores(tmp_path, model)) <= 1e-4
    without = true_scores(tmp_path, model, attn_logit_softcapping=None)
    assert apart(our_scores(model), without) > 0.1


def test_06_without_its_guards_a_lost_cap_changes_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capped = our_scores(loaded(build_model(tmp_path, "gemma2")))
    source_ = opened(tmp_path)
    source_.config.attn_logit_softcapping = None
    assert refusal(loader.load_model, source_).code == "softcap_missing"
    monkeypatch.setattr(loader, "check_softcap", nothing)
    assert apart(our_scores(loader.load_model(source_)), capped) > 0.1
    assert checks.check_softcap is not loader.check_softcap


# 7. One BOS, as many as the family was trained with, or two on request.


@pytest.mark.parametrize(("template", "bos"), [(TEMPLATE, "once"), (CHATML[9:], "once")])
def test_07_inputs_begin_with_one_bos(tmp_path: Path, template: str, bos: Any) -> None:
    build_model(tmp_path, "llama")
    write_template(tmp_path, template.replace("{{ bos }}", ""))
    found = opened(tmp_path, bos=bos)
    ids = find_slot(found, PROMPT).prefix_ids
    assert ids[0] == found.tokenizer.bos_token_id
    assert ids.count(found.tokenizer.bos_token_id) == 1


def test_07_without_its_guard_a_template_without_bos_would_lose_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_model(tmp_path, "llama")
    right = our_scores(loaded(tmp_path))
    write_template(tmp_path, CHATML.replace("{{ bos }}", ""))
    assert np.array_equal(our_scores(loaded(tmp_path)), right)
    monkeypatch.setattr(slot, "_with_bos", lambda _, ids: (ids, 0))
    assert apart(our_scores(loaded(tmp_path)), right) > 0.1


def test_07_tokenising_the_templates_text_as_usual_would_double_it(tmp_path: Path) -> None:
    found = opened(build_model(tmp_path, "llama"))
    place = find_slot(found, PROMPT)
    usual = found.tokenizer(place.rendered.split("<reply>")[0])["input_ids"]
    assert usual == [1, *place.prefix_ids]
    assert tuple(usual) == find_slot(opened(tmp_path, bos="double"), PROMPT).prefix_ids


# 8. A token's text is not the token.


def test_08_ids_stay_apart_where_texts_collide(tmp_path: Path) -> None:
    build_model(tmp_path, "llama", vocabulary=1000)
    trimming = TEMPLATE.replace("message['content']", "(message['content'] | trim)")
    write_template(tmp_path, trimming)
    model = loaded(tmp_path)
    words, place = vocabulary(model.source), find_slot(model.source, PROMPT)

    def encode(text: str) -> tuple[int, ...]:
        return encode_as_text(model.source, PROMPT, text)

    reasons, inputs = {}, {}
    for index, text, special in zip(words.ids.tolist(), words.texts, words.special, strict=True):
        kind = "special" if special else "bytes" if "\ufffd" in text else "word"
        spliced = (*place.prefix_ids, index, *place.suffix_ids)
        reasons[index] = difference(spliced, encode(text), text, kind, encode)
        inputs.setdefault(encode(text), []).append(index)
    counts = {reason: list(reasons.values()).count(reason) for reason in set(reasons.values())}
    collided = sum(len(ids) - 1 for ids in inputs.values())
    assert sum(counts.values()) == len(words.ids)
    assert min(counts["same"], counts["trimmed"], counts["invalid_utf8"], collided) > 0
    # A control token's text becomes the control token again.
    assert [reasons[index] for index in np.flatnonzero(words.special)] == ["same"] * 5
    by_name = {text: index for index, text in zip(words.ids.tolist(), words.texts, strict=True)}
    pair = next((word, " " + word) for word in by_name if word.isalpha() and " " + word in by_name)
    assert encode(pair[0]) == encode(pair[1])
    scores = Scorer(model).score(place, [(by_name[word],) for word in pair])
    assert scores[0] != scores[1]


def test_08_given_as_text_the_two_would_score_alike(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    trimming = TEMPLATE.replace("message['content']", "(message['content'] | trim)")
    write_template(tmp_path, trimming)
    model = loaded(tmp_path)
    place, subject = find_slot(model.source, PROMPT), Scorer(model)
    sequences = [encode_as_text(model.source, PROMPT, text) for text in ("love", " love")]
    first, second = subject.score_sequences(place, sequences)
    assert first == second
    assert any("White space" in note for note in model.notes)


# 9. What a template writes by itself: dates, think blocks, no system role.

DATED = "Today: {{ date_string if date_string is defined else strftime_now('%d %b %Y') }}\n"


def at(monkeypatch: pytest.MonkeyPatch, year: int) -> None:
    from transformers.utils import chat_template_utils

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return cls(year, 1, 2, tzinfo=tz)

    monkeypatch.setattr(chat_template_utils, "datetime", Clock)


def ids_in(monkeypatch: pytest.MonkeyPatch, year: int, folder: Path) -> tuple[int, ...]:
    at(monkeypatch, year)
    return find_slot(opened(folder), PROMPT).prefix_ids


def test_09_the_date_changes_no_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_model(tmp_path, "llama")
    write_template(tmp_path, DATED + CHATML.replace("{{ bos }}", ""))
    assert ids_in(monkeypatch, 2025, tmp_path) == ids_in(monkeypatch, 2031, tmp_path)
    write_template(tmp_path, "{{ strftime_now('%Y') }}" + CHATML.replace("{{ bos }}", ""))
    assert refusal(opened, tmp_path).code == "template_date"


def test_09_without_its_guard_tomorrows_input_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_model(tmp_path, "llama")
    write_template(tmp_path, DATED + CHATML.replace("{{ bos }}", ""))
    monkeypatch.setattr(source, "pin_date", lambda *_: {})
    assert ids_in(monkeypatch, 2025, tmp_path) != ids_in(monkeypatch, 2031, tmp_path)


def test_09_a_think_block_stands_before_the_reply(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    thinking = "('<think>\n\n</think>\n\n' if message['role'] == 'assistant' else '')"
    write_template(
        tmp_path, TEMPLATE.replace("+ message['content']", f"+ {thinking} + message['content']")
    )
    place = find_slot(opened(tmp_path), PROMPT)
    assert place.rendered.endswith("<think>\n\n</think>\n\n<reply><|im_end|>")


def test_09_a_template_that_takes_no_system_role_gets_none(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    strict = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('none') }}{% endif %}"
        "{% for message in messages %}"
        "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('alternate') }}{% endif %}{% endfor %}"
    )
    write_template(tmp_path, strict + TEMPLATE)
    assert find_slot(opened(tmp_path), PROMPT).rendered.count("<|im_start|>") == 2
