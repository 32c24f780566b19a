"""The report says what the audit found, reads without scripts and holds hostile text as text."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pessimal.errors import PessimalError
from pessimal.reports import describe, render_report, write_report
from pessimal.reports.intervals import draw_interval
from pessimal.reports.tokens import json_for_html, pack_vocabulary, prompt_tokens
from pessimal.text import show_token
from tests.reports.hostile import HOSTILE


class Page(HTMLParser):
    """Elements, attributes and text of a page, apart."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self._in: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._in.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self._in.append("")

    def handle_data(self, data: str) -> None:
        (self.scripts if self._in and self._in[-1] == "script" else self.text).append(data)


def test_hostile_text_adds_no_element_and_no_handler(
    document: dict[str, Any], vocabulary: pd.DataFrame, as_text: pd.DataFrame
) -> None:
    tables = {f"vocabulary/{HOSTILE[1]}": vocabulary.head(40)}
    hostile = Page(render_report(document, tables, vocabulary, {}, as_text=as_text))
    text = json.dumps(document)
    for bad in HOSTILE:
        text = text.replace(json.dumps(bad)[1:-1], "calm")
    tame = json.loads(text)
    calm = vocabulary.assign(text="calm", token="calm", kind="word")
    plain = Page(render_report(tame, {"calm": calm.head(40)}, calm, {}, as_text=as_text))
    assert set(hostile.tags) == set(plain.tags)
    assert hostile.tags.count("script") == plain.tags.count("script") == 5
    assert "img" not in hostile.tags
    assert not [name for name, _ in hostile.attributes if name.startswith("on")]
    assert not [
        value for name, value in hostile.attributes if name in ("href", "src") and value[0] != "#"
    ]


def test_the_page_runs_only_its_own_script_and_loads_nothing(
    document: dict[str, Any], vocabulary: pd.DataFrame
) -> None:
    text = render_report(document, {}, vocabulary, {})
    page = Page(text)
    digest = base64.b64encode(hashlib.sha256(page.scripts[-1].encode()).digest()).decode()
    policy = next(value for name, value in page.attributes if "default-src" in value)
    assert policy.startswith("default-src 'none'")
    assert f"script-src 'sha256-{digest}'" in policy
    assert "http://" not in text.replace("http://www.w3.org/", "")
    assert "https://" not in text


def test_the_report_says_what_was_found(
    document: dict[str, Any], vocabulary: pd.DataFrame, as_text: pd.DataFrame
) -> None:
    figure = '<svg xmlns="http://www.w3.org/2000/svg"><text>A question</text></svg>'
    raw = render_report(document, {}, vocabulary, {"one": figure}, as_text=as_text)
    page = Page(raw)
    text = " ".join(" ".join(page.text).split())
    for needed in (
        "✕ FAIL", "At least one rule fails", "identity.gap", "-0.3", "-0.4 to -0.2", "n = 64",
        "≥ -0.1", "expectations/default.yaml:9", "LlamaForSequenceClassification", "score.weight",
        "Content warning", "599 tokens", "no ranking", "NOT RUN", "10 of 20 sampled tokens",
        "Optimal: the 20 best", "Pessimal: the 20 worst",
            "RMS change", "A question", "pessimal audit --model", "cd" * 32, "noise floor",
    ):  # fmt: skip
        assert needed in text, needed
    assert text.index("identity.gap") < text.index("numerics.rerun_rms"), "the worst rule first"
    assert "<mark>reply</mark>&lt;|end|&gt;" in raw, "where the reply goes"
    assert show_token(HOSTILE[0]) in text


def test_pessimal_lists_are_folded_and_so_is_what_a_negative_prompt_likes(
    document: dict[str, Any], vocabulary: pd.DataFrame
) -> None:
    text = render_report(document, {}, vocabulary, {})
    unfolded = re.sub(r"<details.*?</details>", "", text, flags=re.DOTALL)
    lists = re.findall(r'<tr><td class="num">([\d,]+)</td><td><bdi class="token"', unfolded)
    assert lists == [str(rank) for rank in range(1, 21)], "only the best of the positive prompt"


def test_a_waived_failure_is_not_counted_as_one(document: dict[str, Any]) -> None:
    document["rules"][1]["waived"] = True
    text = " ".join(Page(render_report(document, {}, None, {})).text)
    assert "1 waived" in text
    assert "1 FAIL" not in text


def test_a_sample_and_what_was_not_counted_are_said(
    document: dict[str, Any], vocabulary: pd.DataFrame
) -> None:
    whole = render_report(document, {}, vocabulary, {})
    assert "sample of the" not in whole
    assert "Not counted" not in whole
    document["vocabulary"] = {"sampled": True, "ids_without_row": [1, 2, 3]}
    document["skipped"] = [{"metric": "human.tau", "slice": "all", "reason": "no <b>ranking</b>"}]
    text = render_report(document, {}, vocabulary, {})
    assert "A random sample of the tokens was scored" in text
    assert "3 ids of the tokenizer have no embedding row" in text
    assert "Not counted: 1 rule" in text
    assert "no &lt;b&gt;ranking&lt;/b&gt;" in text


def test_an_audit_without_a_vocabulary_still_has_a_report() -> None:
    text = render_report({"schema": "pessimal.audit/1", "verdict": "ERROR"}, {}, None, {})
    assert "The audit could not judge this model" in text
    assert "No rule was judged" in text
    assert 'id="vocabulary-data"' not in text


def test_optimal_and_pessimal_tokens_are_the_ends_of_the_ranking(vocabulary: pd.DataFrame) -> None:
    [greatest, _] = prompt_tokens(vocabulary, [], 3)
    scores = vocabulary["score:greatest"].to_numpy(dtype=float)
    assert [row.token_id for row in greatest.optimal] == [0, 1, 2]
    assert [row.rank for row in greatest.pessimal] == [599, 598, 597]
    assert greatest.n == 599
    assert greatest.mean == pytest.approx(np.nanmean(scores))
    assert greatest.optimal[0].z == pytest.approx(
        (scores[0] - np.nanmean(scores)) / np.nanstd(scores)
    )


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_tiny_tables_have_no_token_in_both_lists(vocabulary: pd.DataFrame, rows: int) -> None:
    for prompt in prompt_tokens(vocabulary.head(rows), []):
        both = {row.token_id for row in prompt.optimal} & {row.token_id for row in prompt.pessimal}
        assert not both
    render_report({}, {}, vocabulary.head(rows), {})


def test_the_packed_vocabulary_is_the_table(vocabulary: pd.DataFrame) -> None:
    meta, data = pack_vocabulary(vocabulary, prompt_tokens(vocabulary, []))
    raw = gzip.decompress(base64.b64decode(data))
    texts = raw[: meta["text_bytes"]].decode("utf-8").split("\n")[:-1]
    assert texts == [show_token(text) for text in vocabulary["text"]]
    at = meta["text_bytes"]
    ids = np.frombuffer(raw, "<i4", 600, at)
    np.testing.assert_array_equal(ids, vocabulary["token_id"])
    at += 2400
    kinds = [meta["kinds"][place] for place in raw[at : at + 600]]
    assert kinds == list(vocabulary["kind"])
    scores = np.frombuffer(raw, "<f4", 1200, at + 1200).reshape(2, 600)
    np.testing.assert_array_equal(scores[1], vocabulary["score:worst"])
    assert len(raw) == at + 1200 + 4800


def test_prompts_beyond_the_room_are_named(
    vocabulary: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pessimal.reports.tokens.SCORES_EMBEDDED", 700)
    meta, _ = pack_vocabulary(vocabulary, prompt_tokens(vocabulary, []))
    assert [prompt["id"] for prompt in meta["prompts"]] == ["greatest"]
    assert meta["left_out"] == ["worst"]
    assert "Left out: worst" in render_report({}, {}, vocabulary, {})


def test_json_in_a_page_stays_in_its_script() -> None:
    value = {"a": "</script><!--&\u2028"}
    text = json_for_html(value)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == value


def test_the_file_appears_whole_and_a_bad_place_is_a_named_error(
    document: dict[str, Any], vocabulary: pd.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "new" / "report.html"
    write_report(document, {}, vocabulary, {}, path)
    write_report(document, {}, vocabulary, {}, path)
    assert path.read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    with pytest.raises(PessimalError) as caught:
        write_report(document, {}, vocabulary, {}, path / "under" / "a file.html")
    assert caught.value.code == "report_not_written"


def test_a_rule_is_pictured_with_the_side_that_is_not_acceptable() -> None:
    rule = {"value": -0.3, "ci_low": -0.4, "ci_high": -0.2, "bound": {"min": -0.1, "max": None}}
    [start, width] = re.findall(
        r'<rect class="beyond" x="([\d.]+)" width="([\d.]+)"', draw_interval(rule)
    )[0]
    [dot] = re.findall(r'cx="([\d.]+)"', draw_interval(rule))
    assert float(start) < float(dot) < float(start) + float(width), "the value is beyond the bound"
    both = draw_interval({"value": 0.0, "bound": {"abs_max": 0.5}})
    assert both.count('class="beyond"') == 2
    assert 'class="ci"' not in both
    assert draw_interval({"value": None, "bound": {"min": 0}}) == ""


def test_the_description_is_short_and_holds_no_mark_up_of_the_audit(
    document: dict[str, Any],
) -> None:
    text = describe(document)
    assert text.startswith("## ✕ FAIL")
    rows = [line for line in text.split("\n") if line.startswith("|")]
    assert len(rows) == 4
    assert all(row.count("|") == 9 for row in rows)
    assert "identity" in rows[2], "the worst rule first"
    assert "<img" not in text
    assert "@all" not in text
    assert "no ranking" in text
    document["rules"] *= 200
    many = describe(document)
    assert len(many) <= 4_800
    assert re.search(r"\d+ more rules are in the report", many)
