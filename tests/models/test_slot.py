from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pessimal.errors import UsageError
from pessimal.models.records import ModelSource
from pessimal.models.slot import encode_as_text, find_slot
from tests.builders import BOS, CHATML, build_model
from tests.models.opening import edit_json, opened, refusal, write_template

PROMPT = "What is it?"
TEMPLATE = CHATML.replace("{{ bos }}", "{{ bos_token }}")
BARE = CHATML.replace("{{ bos }}", "")


def with_template(folder: Path, template: str, family: str = "llama", **flags: Any) -> ModelSource:
    build_model(folder, family)
    write_template(folder, template)
    return opened(folder, **flags)


def plain_ids(source: ModelSource, text: str) -> tuple[int, ...]:
    return tuple(source.tokenizer(text, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma2", "mistral", "gpt2"])
def test_a_reply_is_spliced_where_the_template_puts_it(tmp_path: Path, family: str) -> None:
    source = opened(build_model(tmp_path, family))
    slot = find_slot(source, PROMPT)
    for reply in (" love", "Yes!", "two words\nand a line"):
        text = slot.rendered.replace("<reply>", reply)
        spliced = (*slot.prefix_ids, *plain_ids(source, reply), *slot.suffix_ids)
        assert spliced == plain_ids(source, text)
        assert spliced == encode_as_text(source, PROMPT, reply)
    assert (slot.pooled_token, slot.pooled_index) == ("<|im_end|>", -1)
    assert slot.bos == (0 if family in ("qwen3", "gpt2") else 1)


def test_an_encoder_takes_a_text_pair(tmp_path: Path) -> None:
    source = opened(build_model(tmp_path, "deberta-v2"))
    slot = find_slot(source, PROMPT)
    whole = source.tokenizer(PROMPT, " love")
    middle = plain_ids(source, " love")
    assert [*slot.prefix_ids, *middle, *slot.suffix_ids] == whole["input_ids"]
    assert slot.prefix_types is not None
    assert slot.token_types == (0, 1, 1)
    types = [*slot.prefix_types, *[1] * len(middle), *[1] * len(slot.suffix_ids)]
    assert types == whole["token_type_ids"]
    assert (slot.pooled_token, slot.pooled_index) == ("[CLS]", 0)
    assert encode_as_text(source, PROMPT, " love") == tuple(whole["input_ids"])


def test_the_tokenizers_bos_counts_where_the_template_has_none(tmp_path: Path) -> None:
    source = with_template(tmp_path, BARE)
    slot = find_slot(source, PROMPT)
    assert slot.prefix_ids[0] == source.tokenizer.bos_token_id != slot.prefix_ids[1]
    assert slot.bos == 1
    assert encode_as_text(source, PROMPT, "x")[: len(slot.prefix_ids)] == slot.prefix_ids


@pytest.mark.parametrize("template", [TEMPLATE, BARE])
def test_a_second_bos_on_request(tmp_path: Path, template: str) -> None:
    once = find_slot(with_template(tmp_path, template), PROMPT)
    source = opened(tmp_path, bos="double")
    twice = find_slot(source, PROMPT)
    assert twice.prefix_ids == (source.tokenizer.bos_token_id, *once.prefix_ids)
    assert twice.bos == 2
    assert encode_as_text(source, PROMPT, "x")[: len(twice.prefix_ids)] == twice.prefix_ids


@pytest.mark.parametrize("family", ["qwen3", "deberta-v2"])
def test_no_bos_to_double(tmp_path: Path, family: str) -> None:
    build_model(tmp_path, family)
    assert isinstance(refusal(opened, tmp_path, bos="double"), UsageError)


def test_a_template_that_doubles_bos(tmp_path: Path) -> None:
    error = refusal(with_template, tmp_path, BOS + TEMPLATE)
    assert error.code == "bos_doubled"
    assert "2 BOS" in error.message


CONTENT = "message['content']"
UNSTABLE = {
    "changed": TEMPLATE.replace(CONTENT, CONTENT + " | upper"),
    "dropped": TEMPLATE.replace(CONTENT, "(message['content'] if loop.first else '')"),
    "repeated": TEMPLATE.replace(CONTENT, CONTENT + " + message['content']"),
    "prefix depends": "{{ messages[-1]['content'] | length }}" + TEMPLATE,
    "suffix depends": TEMPLATE + "{{ messages[-1]['content'] | length }}",
    "random": "{{ range(100000) | random }}" + TEMPLATE,
    "merges before": TEMPLATE.replace("'\n' + message", "'\nl' + message"),
    "merges after": TEMPLATE.replace("+ '<|im_end|>'", "+ 'e<|im_end|>'"),
}


@pytest.mark.parametrize("fault", sorted(UNSTABLE))
def test_an_unstable_template(tmp_path: Path, fault: str) -> None:
    assert UNSTABLE[fault] != TEMPLATE
    # With this many tokens "l" and "a" are one where they meet.
    build_model(tmp_path, "llama", vocabulary=1000)
    write_template(tmp_path, UNSTABLE[fault])
    assert refusal(opened, tmp_path).code == "template_unstable"


def test_a_template_that_trims_is_noted_and_keeps_ids_apart(tmp_path: Path) -> None:
    source = with_template(tmp_path, TEMPLATE.replace(CONTENT, "(message['content'] | trim)"))
    slot = find_slot(source, PROMPT)
    assert encode_as_text(source, PROMPT, " love") == encode_as_text(source, PROMPT, "love")
    assert plain_ids(source, " love") != plain_ids(source, "love")
    assert slot == find_slot(opened(tmp_path), PROMPT)
    assert "White space" in source.notes[0]


def test_a_date_is_pinned_and_noted(tmp_path: Path) -> None:
    head = (
        "{% if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}"
        "{% endif %}Today: {{ date_string }}\n"
    )
    source = with_template(tmp_path, head + BARE)
    assert source.template_kwargs == {"date_string": "26 Jul 2024"}
    assert "26 Jul 2024" in source.notes[0]
    assert "Today: 26 Jul 2024" in find_slot(source, PROMPT).rendered


def test_a_date_that_cannot_be_pinned(tmp_path: Path) -> None:
    error = refusal(with_template, tmp_path, "{{ strftime_now('%Y') }}" + BARE)
    assert error.code == "template_date"


def test_a_clock_that_changes_nothing_needs_no_pin(tmp_path: Path) -> None:
    source = with_template(tmp_path, TEMPLATE + "{% set unused = strftime_now('%Y') %}")
    assert source.template_kwargs == {}


def test_a_template_file_replaces_the_models(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    file = tmp_path / "mine.jinja"
    file.write_text("Q: {{ messages[0]['content'] }}\nA:\n{{ messages[1]['content'] }}")
    slot = find_slot(opened(tmp_path, template=file), PROMPT)
    assert slot.rendered == "Q: What is it?\nA:\n<reply>"
    assert (slot.suffix_ids, slot.pooled_token) == ((), "<reply>")
    error = refusal(opened, tmp_path, template=tmp_path / "none.jinja")
    assert error.code == "template_unreadable"


def test_a_decoder_without_a_template(tmp_path: Path) -> None:
    build_model(tmp_path, "llama")
    (tmp_path / "chat_template.jinja").unlink()
    error = refusal(opened, tmp_path)
    assert error.code == "template_missing"
    assert "--template" in error.remedy


@pytest.mark.parametrize(
    "template",
    [
        "{% if %}",
        "{{ raise_exception('no assistants here') }}",
        "{{ 1 / 0 }}",
        "{{ range(10 ** 9) }}",
    ],
)
def test_a_template_that_fails(tmp_path: Path, template: str) -> None:
    assert refusal(with_template, tmp_path, template).code == "template_failed"


@pytest.mark.parametrize("family", ["llama", "deberta-v2"])
def test_control_tokens_in_a_prompt(tmp_path: Path, family: str) -> None:
    source = opened(build_model(tmp_path, family))
    token = "[SEP]" if family == "deberta-v2" else "<|im_end|>"
    error = refusal(find_slot, source, f"What {token} is it?")
    assert error.code == "prompt_control_tokens"
    assert token in error.message


def test_an_added_token_that_the_template_writes_steers_though_it_is_not_special(
    tmp_path: Path,
) -> None:
    from tokenizers import AddedToken

    source = opened(build_model(tmp_path, "llama", vocab_size=310))
    source.tokenizer.add_tokens([AddedToken("<turn>", special=False)])
    source.tokenizer.save_pretrained(tmp_path)
    write_template(tmp_path, TEMPLATE.replace("<|im_end|>", "<turn>"))
    assert refusal(find_slot, opened(tmp_path), "a <turn> b").code == "prompt_control_tokens"


def test_a_prompt_that_does_not_fit(tmp_path: Path) -> None:
    source = opened(build_model(tmp_path, "llama", max_position_embeddings=64))
    overhead = len(find_slot(source, PROMPT).prefix_ids) - len(plain_ids(source, PROMPT))
    fits = "a " * ((64 - 2 - overhead) // 2)
    find_slot(source, fits)
    assert refusal(find_slot, source, fits + "b b b").code == "prompt_too_long"


def test_a_tokenizer_that_cuts_is_not_obeyed(tmp_path: Path) -> None:
    import json

    build_model(tmp_path, "llama")
    whole = find_slot(opened(tmp_path), PROMPT)
    cut = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
    path = tmp_path / "tokenizer.json"
    edit_json(path, truncation=cut)
    assert json.loads(path.read_text())["truncation"] == cut
    assert find_slot(opened(tmp_path), PROMPT) == whole
