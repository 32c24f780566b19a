"""The comparison's report and description say what was found, and hold hostile text as text."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pessimal.compare import Comparison, compare_models
from pessimal.reports import draw
from pessimal.reports.comparison import describe_comparison, render_comparison
from tests.compare.simulate import entry, metric, word_table
from tests.reports.hostile import HOSTILE
from tests.reports.test_html import Page

CALM = tuple(f"calm {i}" for i in range(len(HOSTILE)))


def compared(texts: tuple[str, ...]) -> Comparison:
    """A comparison in which every name, prompt and disputed word is one of `texts`."""
    rng = np.random.default_rng(0)
    words = [f"{text} {i}" for i, text in enumerate(texts)]
    words += [f"plain {i}" for i in range(1100 - len(words))]
    x = rng.normal(size=1100)
    runs = []
    for place in range(4):
        scores = x + 0.3 * rng.normal(size=1100)
        scores[: len(texts)] = 9 * (-1) ** place + rng.normal(size=len(texts))
        run = entry(
            "same" if place < 2 else f"org/{texts[place]}", word_table(words, {"p": scores}),
            revision=texts[place], texts={"p": f"What is {texts[4]}?"}, run=f"{place}" * 32,
            metrics=[metric("framing.d_pos", place / 2), metric("human.tau", place, unit=texts[1])],
        )  # fmt: skip
        runs.append(run)
    return compare_models(runs)


def page(texts: tuple[str, ...]) -> str:
    found = compared(texts)
    drawings = [draw(one, found.tables) for one in found.figures]
    return render_comparison(
        found.document | {"command": texts[2]}, {one.name: one.svg for one in drawings},
        {one.name: one.chart for one in drawings},
    )  # fmt: skip


def test_hostile_text_adds_no_element_and_no_handler() -> None:
    hostile, calm = Page(page(HOSTILE)), Page(page(CALM))
    assert set(hostile.tags) <= set(calm.tags)
    assert hostile.tags.count("script") == calm.tags.count("script") == 3
    assert not [name for name, _ in hostile.attributes if name.startswith("on")]
    links = [value for name, value in hostile.attributes if name in ("href", "src", "xlink:href")]
    assert links
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert not any(mark in "".join(hostile.text) for mark in "\u202e\0\ud800")


def test_the_report_shows_what_was_found_and_loads_nothing() -> None:
    found = compared(CALM)
    shown = Page(page(CALM))
    text = " ".join(" ".join(shown.text).split())
    document = found.document
    assert f"{document['off_diagonal_mean']['tau']['p']:.4g}" in text
    assert "4 reward models" in text
    assert document["rsa"]["reason"] in text
    assert document["drift"][0]["reason"] in text
    assert document["disagreement"]["p"]["most"][0]["word"].split()[0] in text
    assert shown.tags.count("figure") == len(found.figures) >= 4
    assert "://" not in page(CALM).replace("http://www.w3.org/", "")


def test_lists_of_words_are_folded() -> None:
    text = page(CALM)
    folded = [part.split("</details>")[0] for part in text.split('<details class="more fold">')[1:]]
    assert sum(part.count("calm 5␣5") for part in folded) == text.count("calm 5␣5") == 0
    shown = "calm␣5␣5"
    assert sum(part.count(shown) for part in folded) == text.count(shown) > 0


def test_the_description_holds_on_any_store() -> None:
    found = compared(HOSTILE)
    text = describe_comparison(found.document)
    assert len(text) <= 4800
    assert "<script" not in text
    assert f"{found.document['off_diagonal_mean']['tau']['p']:.4g}" in text
    many = json.loads(json.dumps(found.document))
    many["models"] *= 100
    assert len(describe_comparison(many)) <= 4800


@pytest.mark.parametrize("name", ["tau-1", "tails-1", "map"])
def test_figures_hold_their_numbers_and_names(name: str) -> None:
    found = compared(CALM)
    figures = {one.name: one for one in found.figures}
    svg = draw(figures[name], found.tables).svg
    for label in ("calm 2", "calm 3"):
        assert label in svg
    if name == "tau-1":
        for cell in np.array(found.document["tau"]["p"]).ravel():
            assert f">{cell:.2f}<" in svg
