"""Pipelines and prompts as files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pessimal.errors import UsageError
from pessimal.pipeline.spec import list_pipelines, load_pipeline, load_prompts
from pessimal.project import find_content

PIPELINES = find_content(start=Path(__file__).parent).pipelines


def test_every_pipeline_loads_and_names_known_prompts() -> None:
    book = load_prompts(PIPELINES)
    names = list_pipelines(PIPELINES)
    assert set(names) == {"smoke", "quick", "standard", "paper"}
    for name in names:
        pipeline = load_pipeline(name, PIPELINES)
        for step in (pipeline.vocabulary, pipeline.words, pipeline.as_text, pipeline.human):
            assert step is not None
            assert book.select(step.prompts)


def test_the_eighteen_prompts_are_balanced() -> None:
    book = load_prompts(PIPELINES)
    chosen = book.select("nine_and_nine")
    assert Counter(prompt.framing for prompt in chosen) == {"positive": 9, "negative": 9}
    for framing in ("positive", "negative"):
        parts = [prompt.id.split("_") for prompt in chosen if prompt.framing == framing]
        for place in range(3):
            assert set(Counter(part[place] for part in parts).values()) == {3}
        assert len({(part[1], part[2]) for part in parts}) == 9


def test_the_factorial_has_fifty_four_prompts() -> None:
    book = load_prompts(PIPELINES)
    chosen = book.select("factorial")
    assert len({prompt.text for prompt in chosen}) == 54
    texts = {prompt.id: prompt.text for prompt in chosen}
    assert texts["good_time_please"] == (
        "What is the most good thing of all time? Please answer in one word only."
    )
    assert texts["greatest_ever_one"] == book.prompts["greatest"].text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("description: x\nvocabulary: {tokens: all, prompts: three}\ntypo: 1", "typo"),
        ("description: x\nvocabulary: {tokens: 0, prompts: three}", "vocabulary"),
        ("description: x\nvocabulary: {tokens: some, prompts: three}", "vocabulary"),
        ("description: x\nvocabulary: {tokens: true, prompts: three}", "vocabulary"),
        ("description: x", "vocabulary"),
        ("- a list", "not a mapping"),
        ("{", "can't be read"),
        ("description: !!python/object:os.system x\nvocabulary: 1", "can't be read"),
    ],
)
def test_a_bad_pipeline_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_pipeline("mine", tmp_path)
    assert "mine.yaml" in str(caught.value)
    assert message in str(caught.value)


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(UsageError, match="'quick'"):
        load_pipeline("quik", PIPELINES)
    with pytest.raises(UsageError, match="'greatest'"):
        load_prompts(PIPELINES).select("gratest")
