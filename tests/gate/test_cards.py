"""The model card's section and Data Docs: what they say, and that hostile text stays inert."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from pessimal.audit import Metric
from pessimal.gate import Judgement, render_model_card
from pessimal.gate.data_docs import render_data_docs
from tests.gate.builders import METRICS, policy, rule, run
from tests.gate.test_reports import EVERY, HOSTILE, NASTY, real

DOCUMENT = {
    "run_id": "f" * 32, "pipeline": "quick", "finished": "2030-06-01T00:00:00+00:00",
    "versions": {"pessimal": "1.2.3"}, "vocabulary": {"rows": 2000, "sampled": True},
    "metrics": [one.document() for one in METRICS],
}  # fmt: skip


@pytest.mark.parametrize("judgement", [EVERY, NASTY, real], ids=["every", "nasty", "real"])
def test_the_card_has_a_row_a_rule_and_agrees(judgement: Judgement) -> None:
    if callable(judgement):
        judgement = judgement()
    text = render_model_card(judgement, DOCUMENT)
    assert text.splitlines()[0] == f"## Reward model audit: {judgement.verdict}"
    found = re.findall(r"^\| \*\*(\w+)\*\* \|", text, re.MULTILINE)
    assert found == [line.label for line in judgement.rules]
    assert "Only 2,000 tokens" in text
    for one in judgement.skipped:
        assert one.metric in html.unescape(text) or one.metric == "a.b"


def test_the_card_shows_values_and_waivers() -> None:
    text = html.unescape(render_model_card(real(), DOCUMENT))
    assert "| -0.05 |" in text
    assert "-0.08 to -0.02" in text
    assert "### Waived" in text
    assert "ada" in text.split("### Waived")[1]


def test_the_card_keeps_hostile_text_inert() -> None:
    hostile = {**DOCUMENT, "pipeline": HOSTILE, "run_id": HOSTILE, "finished": HOSTILE}
    text = render_model_card(NASTY, hostile)
    for mark in ("@everyone", "![", "](", "<script", "```", "https://", "javascript:", "::", "##["):
        assert mark not in text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e\ufffe\ud800-\udfff]", text)


def test_data_docs_name_every_rule_and_load_nothing() -> None:
    nasty = "term=<script>alert(1)</script><img src=http://evil/x.png onerror=alert(2)>"
    metrics = (*METRICS, Metric("identity.gap", -0.3, 60, slice=nasty))
    rules = policy(rule(), replace(rule(), slice=nasty, why=f"<b>because</b> $metric {HOSTILE}"))
    judgement = run(rules, metrics)
    assert judgement.verdict == "FAIL"
    page = render_data_docs(judgement.validation)
    assert "identity.gap" in page
    assert "pass" in page
    assert "FAIL" in page
    assert "default-src 'none'" in page
    for tag in re.findall(r"<[a-zA-Z][^>]*>", page):
        assert not tag.lower().startswith(("<script", "<img", "<link", "<iframe", "<b>"))
        assert not re.search(r"(src|href)=.http", tag)
        assert "onerror" not in tag
