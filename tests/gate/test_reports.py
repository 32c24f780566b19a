"""The writers: they agree with each other, and hostile text stays inert in each."""

from __future__ import annotations

import datetime
import html
import io
import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from pessimal.audit import Bound
from pessimal.gate import (
    Judgement,
    RuleVerdict,
    Skipped,
    print_verdict,
    render_junit,
    render_markdown,
    render_sarif,
)
from tests.gate.builders import changed, policy, rule, run
from tests.gate.test_waivers import TODAY, WAIVER

HOSTILE = (
    "@everyone ![x](http://evil/x.png) [click](javascript:alert(1)) <script>alert(1)</script> "
    "</testcase> ]]> | # h ```sh\n::error file=a::b\r\n##[error]c ##vso[x] \x1b[31mred\x1b[0m "
    "\x00\x08\ufffe\udc80 \u202eevil https://evil.example [bold red]x[/bold red] :smile: &amp;"
)


def line(verdict: str, number: int, **fields: object) -> RuleVerdict:
    made = RuleVerdict(
        f"identity.m{number}", "all", Bound(min=-0.1), "critical", verdict,  # type: ignore[arg-type]
        f"Reason {number}.", source=f"expectations/mine.yaml:{number}", why="because",
    )  # fmt: skip
    return replace(made, **fields)  # type: ignore[arg-type]


EVERY = Judgement(
    "ERROR", 3,
    (
        line("ERROR", 1), line("FAIL", 2), line("INCONCLUSIVE", 3), line("WARN", 4),
        line("PASS", 5), line("FAIL", 6, waived=True), line("WARN", 7, severity="warning"),
        line("ERROR", 8, bound=None, kind="audit", metric="numerics"),
    ),
    "org/model", "a" * 40, "mine", "0" * 64,
    (Skipped("frequency.zipf_slope", "all", "expectations/mine.yaml:9", "no words"),),
)  # fmt: skip

NASTY = Judgement(
    "FAIL", 1,
    (
        line("FAIL", 1, slice=f"term={HOSTILE}", reason=HOSTILE, why=HOSTILE),
        line("PASS", 2, reason=HOSTILE),
        line("WARN", 3, reason="x " * 40 + "::error::y " * 30),
    ),
    HOSTILE, HOSTILE, "mine", "0" * 64,
    (Skipped("a.b", f"term={HOSTILE}", "p.yaml:1", HOSTILE),),
)  # fmt: skip


def terminal(judgement: Judgement, width: int | None = 80) -> str:
    file = io.StringIO()
    print_verdict(judgement.document(), file, width)
    return file.getvalue()


def labels_of_terminal(judgement: Judgement) -> list[str]:
    words = "ERROR|FAIL|INCONCLUSIVE|WARN|PASS|WAIVED"
    table = terminal(judgement).split("Not judged")[0]
    # The reasons below the table have a colon after the rule.
    return re.findall(rf"^({words}) +(?![^:\n]+: )\w", table, re.MULTILINE)


def labels_of_junit(judgement: Judgement) -> list[str]:
    found = []
    for case in ElementTree.fromstring(render_junit(judgement)).iter("testcase"):
        children = [child for child in case if child.tag != "system-out"]
        if children:
            found.append(children[0].get("type", ""))
        else:
            found.append((case.findtext("system-out") or "").split(":")[0])
    return found


def labels_of_sarif(judgement: Judgement) -> list[str]:
    results = json.loads(render_sarif(judgement))["runs"][0]["results"]
    return ["WAIVED" if "suppressions" in one else one["properties"]["verdict"] for one in results]


def labels_of_markdown(judgement: Judgement) -> list[str]:
    return re.findall(r"^\| \*\*(\w+)\*\* \|", render_markdown(judgement), re.MULTILINE)


def real() -> Judgement:
    """A judgement as runs make them: a waived failure, an open question, a skipped rule."""
    metrics = changed("identity.gap", value=-0.3, ci_low=-0.4, ci_high=-0.2)
    rules = policy(
        rule(), rule(slice="axis=age", min=-0.13), rule("vocabulary.mean", max=0.0),
        rule("vocabulary.quantile_skew", severity="warning", abs_max=0.01),
    )  # fmt: skip
    return run(rules, metrics, waivers=[WAIVER], today=TODAY)


@pytest.mark.parametrize("judgement", [EVERY, real], ids=["every", "real"])
def test_all_reports_agree(judgement: Judgement) -> None:
    if callable(judgement):
        judgement = judgement()
    expected = [one.label for one in judgement.rules]
    assert labels_of_terminal(judgement) == expected
    assert labels_of_junit(judgement) == expected
    assert labels_of_sarif(judgement) == expected
    assert sorted(labels_of_markdown(judgement)) == sorted(expected)
    assert terminal(judgement, 200).rstrip().splitlines()[-1].startswith(judgement.verdict)
    suite = ElementTree.fromstring(render_junit(judgement)).find("testsuite")
    assert suite is not None
    properties = {one.get("name"): one.get("value") for one in suite.iter("property")}
    assert properties["verdict"] == judgement.verdict
    assert properties["exit_code"] == str(judgement.exit_code)
    sarif = json.loads(render_sarif(judgement))["runs"][0]["properties"]
    assert (sarif["verdict"], sarif["exitCode"]) == (judgement.verdict, judgement.exit_code)
    heading = render_markdown(judgement).splitlines()[0]
    assert heading == f"## Reward model audit: {judgement.verdict}"


def test_the_real_judgement_shows_what_it_should() -> None:
    assert [one.label for one in real().rules] == ["WAIVED", "INCONCLUSIVE", "PASS", "WARN"]


def test_junit_tells_errors_from_failures_and_waived_from_both() -> None:
    root = ElementTree.fromstring(render_junit(EVERY))
    suite = root.find("testsuite")
    assert suite is not None
    counts = {key: suite.get(key) for key in ("tests", "errors", "failures", "skipped")}
    assert counts == {"tests": "8", "errors": "2", "failures": "2", "skipped": "1"}
    for tag, key in (("error", "errors"), ("failure", "failures"), ("skipped", "skipped")):
        assert str(len(list(root.iter(tag)))) == counts[key]
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(set(names)) == 8


def test_sarif_points_at_the_policys_line() -> None:
    run_document = json.loads(render_sarif(EVERY))["runs"][0]
    for number, result in enumerate(run_document["results"], start=1):
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "expectations/mine.yaml"
        assert place["region"]["startLine"] == number
        assert result["level"] == "none" or result["kind"] == "fail"
    ids = [one["id"] for one in run_document["tool"]["driver"]["rules"]]
    assert len(set(ids)) == len(ids) == 8
    assert {one["ruleId"] for one in run_document["results"]} == set(ids)


@pytest.mark.parametrize(
    ("source", "uri", "number"),
    [
        ("a b/ü.yaml:3", "a%20b/%C3%BC.yaml", 3),
        ("/policies/p.yaml:4", "file:///policies/p.yaml", 4),
        ("p.yaml", "p.yaml", 1),
        ("", ".", 1),
    ],
)
def test_sarif_locations_are_uris(source: str, uri: str, number: int) -> None:
    judgement = replace(EVERY, rules=(line("FAIL", 1, source=source),))
    result = json.loads(render_sarif(judgement))["runs"][0]["results"][0]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == (uri, number)


def test_what_was_not_judged_is_named_everywhere() -> None:
    for text in (terminal(EVERY), render_junit(EVERY), render_sarif(EVERY)):
        assert "frequency.zipf_slope" in text
        assert "no words" in text
    assert "frequency.zipf_slope" in html.unescape(render_markdown(EVERY))


@pytest.mark.parametrize("render", [terminal, render_junit, render_sarif, render_markdown])
@pytest.mark.parametrize("judgement", [EVERY, NASTY], ids=["every", "nasty"])
def test_no_report_holds_a_command_or_a_control_character(
    render: object, judgement: Judgement
) -> None:
    assert callable(render)
    text = render(judgement)
    for row in text.splitlines():
        assert "::" not in row
        assert "##[" not in row
        assert "##vso" not in row
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e\ufffe\ud800-\udfff]", text)
    text.encode("utf-8")


@pytest.mark.parametrize("judgement", [EVERY, NASTY], ids=["every", "nasty"])
def test_the_table_fits_eighty_columns_and_is_plain_when_piped(judgement: Judgement) -> None:
    text = terminal(judgement)
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert "x[/bold red]" in terminal(NASTY, 4000)


def test_markdown_keeps_hostile_text_inert() -> None:
    text = render_markdown(NASTY)
    for mark in ("@everyone", "![", "](", "<script", "```", "https://", "javascript:", ":smile:"):
        assert mark not in text
    rows = [row for row in text.splitlines() if row.startswith("| **")]
    assert len(rows) == len(NASTY.rules)
    for row in rows:
        assert row.count("|") == 5
    assert set(re.findall(r"<(/?\w+)", text)) == {"details", "summary", "/summary", "/details"}


def test_junit_survives_hostile_text_and_keeps_its_cases() -> None:
    root = ElementTree.fromstring(render_junit(NASTY).encode("utf-8"))
    assert len(list(root.iter("testcase"))) == len(NASTY.rules)
    failure = next(root.iter("failure"))
    assert "<script>" in (failure.get("message") or "")


def test_a_waiver_shows_its_owner_and_day_in_every_report() -> None:
    judgement = real()
    assert datetime.date(2030, 6, 30) == TODAY
    for text in (terminal(judgement, 400), render_junit(judgement), render_sarif(judgement),
                 html.unescape(render_markdown(judgement))):  # fmt: skip
        assert "Waived by ada until 2030-06-30" in text
