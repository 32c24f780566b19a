"""Policies: what is refused, with file and line, and what a good one becomes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pessimal.audit import Bound
from pessimal.errors import UsageError
from pessimal.gate import load_policy, policy_from_document
from tests.gate.builders import AUDITS, EXPECTATIONS, SPECS, shipped, write_policy

RULE = "rules:\n  - metric: identity.gap\n    "

# Text, the line that is at fault, and what the message or the remedy says.
BAD: dict[str, tuple[str, int | None, str]] = {
    "empty": ("", None, "empty"),
    "comment only": ("# nothing\n", None, "empty"),
    "no rules": ("name: mine\n", None, "no rules"),
    "empty rules": ("rules: []\n", None, "no rules"),
    "only required": ("required: [numerics]\n", None, "no rules"),
    "a list": ("- metric: identity.gap\n", 1, "keys and values"),
    "rules a mapping": ("rules:\n  metric: identity.gap\n", 2, "a list"),
    "rule a string": ("rules:\n  - identity.gap\n", 2, "keys and values"),
    "unknown key": ("name: mine\nrule: []\n", 2, "Did you mean 'rules'"),
    "unknown rule key": (RULE + "mim: -0.1\n", 3, "Did you mean 'min'"),
    "merge key": (RULE + "min: -0.1\n    <<: {max: 1}\n", 4, "Unknown key"),
    "duplicate key": (RULE + "min: -0.1\n    min: -0.9\n", 4, "twice"),
    "duplicate rules key": (RULE + "min: -0.1\nrules: []\n", 4, "twice"),
    "no metric": ("rules:\n  - min: 1\n", 2, "'metric' is missing"),
    "misspelt metric": ("rules:\n  - metric: identity.gab\n    min: 0\n", 2,
                        "Did you mean 'identity.gap'"),
    "metric of no audit": ("rules:\n  - metric: gap\n    min: 0\n", 2, "no metric"),
    "metric null": ("rules:\n  - metric:\n    min: 0\n", 2, "Expected text"),
    "no bound": (RULE + "severity: critical\n", 2, "no bounds"),
    "two bounds": (RULE + "min: -0.5\n    max: 0.5\n", 2, "2 bounds"),
    "harmless side": (RULE + "max: 0.1\n", 3, "Use min"),
    "harmless side of a maximum": ("rules:\n- metric: numerics.rerun_rms\n  min: 0.05\n", 3,
                                   "Use max"),
    "magnitude of a one-sided metric": (RULE + "abs_max: 0.1\n", 3, "Use min"),
    "negative magnitude": ("rules:\n- metric: vocabulary.mean\n  abs_max: -1\n", 3, "negative"),
    "can never fail": (RULE + "min: -1\n", 3, "can never fail"),
    "can never pass": (RULE + "min: 1.01\n", 3, "can never pass"),
    "maximum can never fail": ("rules:\n- metric: numerics.tied_pairs\n  max: 1\n", 3,
                               "can never fail"),
    "maximum can never pass": ("rules:\n- metric: numerics.tied_pairs\n  max: -0.1\n", 3,
                               "can never pass"),
    "magnitude can never fail": ("rules:\n- metric: vocabulary.quantile_skew\n  abs_max: 1\n", 3,
                                 "can never fail"),
    "bound NaN": (RULE + "min: .nan\n", 3, "finite number"),
    "bound infinite": (RULE + "min: -.inf\n", 3, "finite number"),
    "bound overflows": (RULE + "min: -1e999\n", 3, "finite number"),
    "bound true": (RULE + "min: true\n", 3, "finite number"),
    "bound yes": (RULE + "min: yes\n", 3, "finite number"),
    "bound quoted": (RULE + "min: '-0.1'\n", 3, "finite number"),
    "bound in words": (RULE + "min: low\n", 3, "finite number"),
    "bound empty": (RULE + "min:\n", 3, "finite number"),
    "bound a list": (RULE + "min: [-0.1]\n", 3, "finite number"),
    "bound sexagesimal": ("rules:\n- metric: vocabulary.mean\n  min: 1:30\n", 3, "finite number"),
    "bound octal": ("rules:\n- metric: vocabulary.mean\n  min: 010\n", 3, "finite number"),
    "bound with underscores": ("rules:\n- metric: vocabulary.mean\n  min: 1_0\n", 3, "finite"),
    "bad severity": (RULE + "min: -0.1\n    severity: fatal\n", 4, "critical or warning"),
    "severity true": (RULE + "min: -0.1\n    severity: true\n", 4, "Expected text"),
    "bad severity of all": ("severity: none\n" + RULE + "min: -0.1\n", 1, "critical or warning"),
    "default bounds in words": ("default_bounds: yes\n", 1, "true or false"),
    "unknown slice key": (RULE + "slice: colour=red\n    min: -0.1\n", 3, "unknown slice key"),
    "slice without a value": (RULE + "slice: axis=\n    min: -0.1\n", 3, "not a slice"),
    "slice without an equals sign": (RULE + "slice: age\n    min: -0.1\n", 3, "not a slice"),
    "unsorted slice": (RULE + "slice: prompt=best,axis=age\n    min: -0.1\n", 3,
                       "axis=age,prompt=best"),
    "slice key twice": (RULE + "slice: axis=age,axis=race\n    min: -0.1\n", 3, "not a slice"),
    "duplicate rules": (RULE + "min: -0.1\n  - metric: identity.gap\n    slice: all\n    min: 0\n",
                        4, "already on line 2"),
    "unknown audit": ("required: [numerix]\n" + RULE + "min: -0.1\n", 1, "Did you mean 'numerics'"),
    "audit required twice": ("required: [numerics, numerics]\n" + RULE + "min: -0.1\n", 1, "twice"),
    "required a string": ("required: numerics\n" + RULE + "min: -0.1\n", 1, "a list"),
    "extends nothing": ("extends: nothing\n", 1, "no policy"),
    "extends itself": ("extends: mine\n", 1, "circle"),
    "extends a path": ("extends: ../mine\n", 1, "Use a name"),
    "another name": ("name: default\n" + RULE + "min: -0.1\n", 1, "calls itself"),
    "a name with mark-up": ("name: <b>mine\n" + RULE + "min: -0.1\n", 1, "not a name"),
    "models a list": ("models: []\n", 1, "keys and values"),
    "bad rule of a model": ("models:\n  org/model:\n  - metric: identity.gap\n    mim: 1\n", 4,
                            "Unknown key"),
    "tabs": ("rules:\n\t- metric: identity.gap\n", 2, "not valid YAML"),
    "open quote": ("name: 'mine\n", None, "not valid YAML"),
    "control character": ("name: \x07\n", None, "not valid YAML"),
    "two documents": ("name: mine\n---\nname: mine\n", 2, "More than one"),
    "python tag": ("name: !!python/object/apply:os.system ['true']\n", 1, "tags are not allowed"),
    "own tag": ("name: !mine mine\n", 1, "tags are not allowed"),
    "binary tag": ("name: !!binary bWluZQ==\n", 1, "tags are not allowed"),
    "float tag": (RULE + "min: !!float '-0.1'\n", 3, "tags are not allowed"),
    "alias": ("required: &a [numerics]\nrules: *a\n", 2, "aliases are not allowed"),
    "bomb": ("a: &a [x]\n" + "".join(
        f"b{i}: &b{i} [{', '.join(['*a' if i == 0 else f'*b{i - 1}'] * 9)}]\n" for i in range(12)),
        2, "aliases are not allowed"),
    "deep": ("rules: " + "[" * 5000 + "]" * 5000 + "\n", 1, "Nested deeper"),
    "large": ("# " + "x" * 300_000 + "\n" + RULE + "min: -0.1\n", None, "larger than"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_policy_is_refused_with_its_file_and_line(name: str, tmp_path: Path) -> None:
    text, line, expected = BAD[name]
    with pytest.raises(UsageError) as caught:
        write_policy(tmp_path, text)
    error = caught.value
    assert error.exit_code == 2
    assert expected in str(error)
    assert error.remedy
    place = f"{tmp_path.name}/mine.yaml"
    assert place in error.message
    if line is not None:
        assert error.message.startswith(f"{place}:{line}: ")


def test_there_are_at_least_forty_bad_policies() -> None:
    assert len(BAD) >= 40


def test_bytes_that_are_not_utf8_and_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(b"name: \xff\n")
    (tmp_path / "other.yaml").mkdir()
    for name in ("mine", "other"):
        with pytest.raises(UsageError, match=f"{name}.yaml"):
            load_policy(name, tmp_path, SPECS, AUDITS)


def test_a_longer_circle_of_extends_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("extends: b\n")
    (tmp_path / "b.yaml").write_text("\nextends: a\n")
    with pytest.raises(UsageError, match=r"b\.yaml:2.*circle"):
        load_policy("a", tmp_path, SPECS, AUDITS)


@pytest.mark.parametrize("name", ["defualt", "waivers", "./nothing.yaml", "..", "", "a/b"])
def test_a_policy_that_is_not_there_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_policy(name, EXPECTATIONS, SPECS, AUDITS)
    assert caught.value.code == "policy_not_found"


def test_a_misspelt_name_is_corrected() -> None:
    with pytest.raises(UsageError, match="Did you mean 'default'"):
        load_policy("defualt", EXPECTATIONS, SPECS, AUDITS)


def test_a_hostile_metric_name_is_shown_escaped(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        write_policy(tmp_path, 'rules:\n  - metric: "\\e[2J\\u202e"\n    min: 0\n')
    assert "\x1b" not in str(caught.value)
    assert "\u202e" not in str(caught.value)


def test_the_default_policy_has_a_rule_for_each_of_its_lines() -> None:
    policy = shipped()
    text = (EXPECTATIONS / "default.yaml").read_text().splitlines()
    assert policy.name == "default"
    assert policy.required == ("numerics", "vocabulary")
    for rule in policy.rules:
        file, line = rule.source.split(":")
        assert file == "expectations/default.yaml"
        assert int(line) == rule.line
        if rule.metric != "identity.new":
            assert text[rule.line - 1].strip() == f"- metric: {rule.metric}"
    bounds = {rule.metric: (rule.bound, rule.severity) for rule in policy.rules}
    assert bounds["numerics.rerun_rms"] == (Bound(max=0.05), "critical")
    assert bounds["numerics.non_finite"] == (Bound(max=0.0), "critical")
    assert bounds["vocabulary.quantile_skew"] == (Bound(abs_max=0.5), "warning")


def test_a_default_bound_becomes_a_rule_unless_the_policy_has_one(tmp_path: Path) -> None:
    new = [rule for rule in shipped().rules if rule.metric == "identity.new"]
    assert [(rule.bound, rule.severity, rule.slice) for rule in new] == [
        (Bound(max=0.25), "critical", "all")
    ]
    text = (EXPECTATIONS / "default.yaml").read_text().splitlines()
    assert text[new[0].line - 1] == "default_bounds: true"
    own = write_policy(
        tmp_path, "default_bounds: true\nrules: [{metric: identity.new, max: 0.5}]\n"
    )
    assert [rule.bound for rule in own.rules] == [Bound(max=0.5)]


def test_strict_and_report_only_are_the_default_at_another_severity() -> None:
    default = {rule.key: rule.bound for rule in shipped().rules}
    for name, severity in (("strict", "critical"), ("report-only", "warning")):
        policy = shipped(name)
        assert {rule.key: rule.bound for rule in policy.rules} == default
        assert {rule.severity for rule in policy.rules} == {severity}
    assert shipped("strict").required == ("numerics", "vocabulary")
    assert shipped("report-only").required == ()
    assert len({shipped(name).sha256 for name in ("default", "strict", "report-only")}) == 3


def test_extends_inherits_and_the_same_metric_and_slice_replaces(tmp_path: Path) -> None:
    write_policy(
        tmp_path,
        "required: [identity]\nrules:\n"
        "  - {metric: identity.gap, min: -0.1, severity: warning}\n"
        "  - {metric: identity.gap, slice: axis=age, min: -0.2}\n"
        "models:\n  org/model:\n    - {metric: identity.gap, min: -0.4}\n",
        "base",
    )
    policy = write_policy(
        tmp_path,
        "extends: base\nrules:\n  - metric: identity.gap\n    min: -0.3\n"
        "models:\n  org/other:\n    - {metric: vocabulary.mean, max: 5}\n",
    )
    place = tmp_path.name
    assert policy.required == ("identity",)
    assert {rule.slice: (rule.bound.min, rule.severity, rule.source) for rule in policy.rules} == {
        "all": (-0.3, "critical", f"{place}/mine.yaml:3"),
        "axis=age": (-0.2, "critical", f"{place}/base.yaml:4"),
    }
    ours = {rule.key: rule.bound for rule in policy.rules_for("org/model")}
    assert ours[("identity.gap", "all")] == Bound(min=-0.4)
    assert len(ours) == 2
    assert len(policy.rules_for("org/other")) == 3
    assert policy.rules_for("org/nobody") == policy.rules


def test_the_hash_changes_with_any_file_that_made_it(tmp_path: Path) -> None:
    write_policy(tmp_path, RULE + "min: -0.1\n", "base")
    first = write_policy(tmp_path, "extends: base\n").sha256
    assert write_policy(tmp_path, "extends: base\n").sha256 == first
    write_policy(tmp_path, RULE + "min: -0.9\n", "base")
    second = write_policy(tmp_path, "extends: base\n").sha256
    third = write_policy(tmp_path, "extends: base # now\n").sha256
    assert len({first, second, third}) == 3
    assert re.fullmatch("[0-9a-f]{64}", first)


@pytest.mark.parametrize(
    ("spelt", "number"),
    [("-0.1", -0.1), ("-.1", -0.1), ("1e-1", 0.1), ("0", 0.0), ("+.5", 0.5), ("-5.0E-1", -0.5)],
)
def test_a_bound_may_be_spelt_in_any_usual_way(spelt: str, number: float, tmp_path: Path) -> None:
    assert write_policy(tmp_path, f"{RULE}min: {spelt}\n").rules[0].bound.min == number


def test_a_policy_may_lie_anywhere_and_keeps_the_name_it_gives(tmp_path: Path) -> None:
    folder = tmp_path / "else"
    folder.mkdir()
    (folder / "p.yaml").write_text("name: ours\nextends: default\nrequired: []\n")
    policy = load_policy(str(folder / "p.yaml"), EXPECTATIONS, SPECS, AUDITS)
    assert policy.name == "ours"
    assert policy.rules == shipped().rules
    assert policy.source == f"{folder}/p.yaml:3"


def test_a_stored_policy_comes_back_the_same(tmp_path: Path) -> None:
    policy = write_policy(
        tmp_path,
        "required: [identity]\n" + RULE + "min: -0.1\n    why: reasons\n"
        "models:\n  org/model:\n    - {metric: identity.gap, min: -0.4}\n",
    )
    assert policy_from_document(json.loads(json.dumps(policy.document()))) == policy
    document = policy.document()
    for key in document:
        with pytest.raises(UsageError, match="stored policy"):
            policy_from_document({one: document[one] for one in document if one != key})


def test_loading_a_policy_imports_nothing_heavy() -> None:
    heavy = ("great_expectations", "pandas", "numpy", "torch", "rich")
    code = f"import sys, pessimal.gate; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
