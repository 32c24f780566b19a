"""Waivers: what is refused, and what a good one does to a failing run."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pytest

from pessimal.errors import UsageError
from pessimal.gate import Waiver, load_waivers
from tests.gate.builders import EXPECTATIONS, MODEL, REVISION, SPECS, changed, policy, rule, run

FIELDS = {
    "metric": "identity.gap", "slice": "all", "model": MODEL, "revision": REVISION,
    "reason": "known, mended in the next version", "owner": "ada", "expires": "2030-06-30",
}  # fmt: skip
TODAY = datetime.date(2030, 6, 30)
WAIVER = Waiver(
    "identity.gap", "all", MODEL, REVISION, "known", "ada", TODAY, "expectations/waivers.yaml:2"
)
FAILING = changed("identity.gap", value=-0.3, ci_low=-0.4, ci_high=-0.2)
RULES = policy(rule(), rule("vocabulary.mean", max=0.0))


def text(**changes: str | None) -> str:
    fields = {key: value for key, value in {**FIELDS, **changes}.items() if value is not None}
    lines = [f"{key}: {value}" for key, value in fields.items()]
    return "- " + "\n  ".join(lines) + "\n"


def load(folder: Path, content: str) -> tuple[Waiver, ...]:
    (folder / "waivers.yaml").write_text(content, encoding="utf-8")
    return load_waivers(folder / "waivers.yaml", SPECS)


BAD = {
    **{f"without {key}": (text(**{key: None}), f"'{key}' is missing") for key in FIELDS},
    **{f"empty {key}": (text(**{key: ""}), "Expected text") for key in FIELDS},
    **{f"blank {key}": (text(**{key: "' '"}), "") for key in FIELDS},
    "unknown key": (text(ower="ada"), "Did you mean 'owner'"),
    "misspelt metric": (text(metric="identity.gab"), "Did you mean 'identity.gap'"),
    "numerics": (text(metric="numerics.rerun_rms"), "can't be waived"),
    "expires in words": (text(expires="never"), "YYYY-MM-DD"),
    "expires with a time": (text(expires="2030-06-30T10:00:00"), "YYYY-MM-DD"),
    "no such day": (text(expires="2030-02-30"), "YYYY-MM-DD"),
    "expires as a number": (text(expires="20300630"), "YYYY-MM-DD"),
    "owner true": (text(owner="true"), "Expected text"),
    "reason null": (text(reason="null"), "Expected text"),
    "reason a list": (text(reason="[known]"), "Expected text"),
    "twice": (text() + text(expires="2031-01-01"), "the same failure"),
    "a mapping": ("waivers: []\n", "a list"),
    "a string": ("identity.gap\n", "a list"),
    "item a string": ("- identity.gap\n", "keys and values"),
    "tag": (text(owner="!!python/name:os.system x"), "tags are not allowed"),
    "alias": ("- &a {metric: b}\n- *a\n", "aliases are not allowed"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_waiver_is_refused_with_its_file_and_line(name: str, tmp_path: Path) -> None:
    content, expected = BAD[name]
    with pytest.raises(UsageError) as caught:
        load(tmp_path, content)
    assert caught.value.exit_code == 2
    assert expected in str(caught.value)
    assert f"{tmp_path.name}/waivers.yaml:" in caught.value.message


def test_good_waivers_are_read_whole(tmp_path: Path) -> None:
    first, second = load(tmp_path, text() + text(revision="0123", slice="axis=age"))
    assert first == Waiver(
        **{**FIELDS, "expires": datetime.date(2030, 6, 30)},
        source=f"{tmp_path.name}/waivers.yaml:1",
    )
    assert second.revision == "0123"  # digits stay as they are spelt
    assert second.source.endswith(":8")
    assert load(tmp_path, "") == load_waivers(tmp_path / "nothing.yaml", SPECS) == ()


def test_the_shipped_waivers_waive_nothing() -> None:
    assert load_waivers(EXPECTATIONS / "waivers.yaml", SPECS) == ()


def test_without_a_waiver_the_run_fails() -> None:
    judgement = run(RULES, FAILING, today=TODAY)
    assert (judgement.verdict, judgement.exit_code) == ("FAIL", 1)
    assert not any(line.waived for line in judgement.rules)


def test_a_waived_failure_is_shown_and_never_a_pass() -> None:
    judgement = run(RULES, FAILING, waivers=[WAIVER], today=TODAY)
    line = judgement.rules[0]
    assert (judgement.verdict, judgement.exit_code) == ("WARN", 0)
    assert (line.verdict, line.waived, line.label) == ("FAIL", True, "WAIVED")
    assert "ada" in line.reason
    assert "2030-06-30" in line.reason
    assert len(judgement.rules) == 2


def test_an_expired_waiver_is_an_error_even_when_nothing_fails() -> None:
    tomorrow = TODAY + datetime.timedelta(days=1)
    for metrics in (FAILING, changed("identity.gap")):
        judgement = run(RULES, metrics, waivers=[WAIVER], today=tomorrow)
        assert (judgement.verdict, judgement.exit_code) == ("ERROR", 3)
        line = next(line for line in judgement.rules if line.kind == "waiver")
        assert "expired on 2030-06-30" in line.reason
        assert line.source == WAIVER.source
    assert not any(line.waived for line in judgement.rules)


def test_a_matching_unused_waiver_is_a_warning() -> None:
    passing = run(RULES, waivers=[WAIVER], today=TODAY)
    assert (passing.verdict, passing.exit_code) == ("WARN", 0)
    assert [line.verdict for line in passing.rules if line.kind == "waiver"] == ["WARN"]
    other_slice = run(RULES, FAILING, waivers=[replace(WAIVER, slice="axis=age")], today=TODAY)
    assert (other_slice.verdict, other_slice.exit_code) == ("FAIL", 1)


@pytest.mark.parametrize(
    "other", [{"model": "org/other"}, {"revision": "b" * 40}, {"revision": REVISION[:7]}]
)
def test_a_waiver_of_another_model_or_revision_is_ignored(other: dict[str, str]) -> None:
    waivers = [replace(WAIVER, **other)]
    assert run(RULES, FAILING, waivers=waivers, today=TODAY).verdict == "FAIL"
    expired = TODAY + datetime.timedelta(days=400)
    assert run(RULES, waivers=waivers, today=expired).verdict == "PASS"


def test_a_model_without_a_revision_matches_no_waiver() -> None:
    judgement = run(RULES, FAILING, waivers=[WAIVER], today=TODAY, revision=None)
    assert judgement.verdict == "FAIL"


def test_a_waiver_covers_failures_and_nothing_else() -> None:
    open_question = changed("identity.gap", value=-0.15, ci_low=-0.3, ci_high=-0.05)
    judgement = run(RULES, open_question, waivers=[WAIVER], today=TODAY)
    assert (judgement.verdict, judgement.exit_code) == ("INCONCLUSIVE", 4)
    broken = changed("identity.gap", value=None, ci_low=None, ci_high=None, status="failed")
    assert run(RULES, broken, waivers=[WAIVER], today=TODAY).exit_code == 3


def test_a_failing_warning_can_be_waived_too() -> None:
    judgement = run(policy(rule(severity="warning")), FAILING, waivers=[WAIVER], today=TODAY)
    assert [line.label for line in judgement.rules] == ["WAIVED"]
    assert judgement.verdict == "WARN"
