"""The project's own policies, over its own audits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pessimal.audit import Context, collect_audits, metric_specs
from pessimal.gate import AuditStatus, Judgement, judge, load_policy, load_waivers
from pessimal.lexicons import identity_terms
from pessimal.pipeline.audits import AuditOutcome, metrics_of, run_audits
from tests.audits.simulate import make_context, make_words

ROOT = Path(__file__).parents[2]
AUDITS = collect_audits(ROOT / "audits")
SPECS = metric_specs(AUDITS)
POLICIES = ("default", "strict", "report-only")


def measured(context: Context) -> list[AuditOutcome]:
    return run_audits(AUDITS, context, list(AUDITS))


def judged(name: str, outcomes: list[AuditOutcome]) -> Judgement:
    return judge(
        load_policy(name, ROOT / "expectations", SPECS, AUDITS), metrics_of(outcomes),
        [AuditStatus(one.name, one.status, one.reason) for one in outcomes], SPECS,
        model_id="simulated", revision="0" * 64,
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole() -> list[AuditOutcome]:
    return measured(make_context())


@pytest.fixture(scope="module")
def fair() -> Context:
    """What a model without the faults that the policy asks about would give."""
    words = make_words(0, rewording=0.05)
    return make_context(words=words, baseline=words.copy(), human=None)


@pytest.fixture(scope="module")
def fair_outcomes(fair: Context) -> list[AuditOutcome]:
    return measured(fair)


@pytest.mark.parametrize("name", POLICIES)
def test_every_rule_finds_its_row(name: str, whole: list[AuditOutcome]) -> None:
    # A rule without a row would be an ERROR, whatever the model.
    judgement = judged(name, whole)
    assert judgement.skipped == ()
    assert [line for line in judgement.rules if line.verdict == "ERROR"] == []
    assert len(judgement.rules) == len(
        load_policy(name, ROOT / "expectations", SPECS, AUDITS).rules
    )


def test_a_fair_model_is_let_through(fair_outcomes: list[AuditOutcome]) -> None:
    judgement = judged("default", fair_outcomes)
    # With a dozen random terms an axis can't be wholly within its bound: WARN, and no worse.
    assert judgement.exit_code == 0, judgement.rules
    assert {line.metric for line in judgement.rules if line.verdict != "PASS"} <= {"identity.gap"}
    assert {one.metric for one in judgement.skipped} == {"human.tau"}


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        ({"valence_slope": -0.5}, {"framing.d_pos"}),
        ({"identity_shift": -25.0}, {"identity.gap"}),
    ],
)
def test_a_planted_fault_fails(fair: Context, change: dict[str, float], failed: set[str]) -> None:
    settings = {"rewording": 0.05, **change}
    broken = replace(fair, words=make_words(0, **settings), baseline=None)  # type: ignore[arg-type]
    judgement = judged("default", measured(broken))
    found = {line.metric for line in judgement.rules if line.verdict == "FAIL"}
    assert (judgement.verdict, found) == ("FAIL", failed)


@pytest.mark.parametrize("audit", ["numerics", "vocabulary", "framing", "identity"])
def test_the_default_policy_wants_its_audits(fair_outcomes: list[AuditOutcome], audit: str) -> None:
    outcomes = [
        replace(one, status="NOT_RUN", result=None) if one.name == audit else one
        for one in fair_outcomes
    ]
    judgement = judged("default", outcomes)
    assert judgement.verdict == "ERROR"
    assert audit in {line.metric for line in judgement.rules if line.kind == "audit"}


def test_report_only_judges_scores_without_a_model() -> None:
    words = make_words(each=1).head(900)
    context = make_context(
        words=words, scorer=None, vocabulary=None, as_text=None, baseline=None, human=None,
        base_logprobs=None, categories=None,
    )  # fmt: skip
    judgement = judged("report-only", measured(context))
    assert judgement.verdict in ("PASS", "WARN"), judgement.rules
    assert any(one.metric.startswith("numerics.") for one in judgement.skipped)


def test_strict_makes_every_rule_critical() -> None:
    rules = {
        name: load_policy(name, ROOT / "expectations", SPECS, AUDITS).rules for name in POLICIES
    }
    assert {rule.key: rule.bound for rule in rules["strict"]} == {
        rule.key: rule.bound for rule in rules["default"]
    }
    assert {rule.severity for rule in rules["strict"]} == {"critical"}
    assert {rule.severity for rule in rules["report-only"]} == {"warning"}
    assert all(rule.why for rule in rules["default"])


def test_every_axis_has_its_rule() -> None:
    rules = load_policy("default", ROOT / "expectations", SPECS, AUDITS).rules
    axes = {rule.slice for rule in rules if rule.metric == "identity.gap"}
    assert axes == {"all", *(f"axis={term.axis}" for term in identity_terms())}


def test_no_failure_is_waived_by_the_project() -> None:
    assert load_waivers(ROOT / "expectations" / "waivers.yaml", SPECS) == ()
