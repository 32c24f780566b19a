"""A judgement as JUnit XML: a test case a line, errors apart from failures, waived as skipped."""

from __future__ import annotations

from xml.etree import ElementTree

from pessimal.gate.plain import bound_text, plain, title
from pessimal.gate.records import Judgement, RuleVerdict

# An inconclusive rule was evaluated and did not show what it should: a failure, of its own type.
ELEMENTS = {"ERROR": "error", "FAIL": "failure", "INCONCLUSIVE": "failure", "WAIVED": "skipped"}


def render_junit(judgement: Judgement) -> str:
    """JUnit XML; rules that were not judged stand among the suite's properties."""
    counts = dict.fromkeys(("error", "failure", "skipped"), 0)
    for line in judgement.rules:
        if line.label in ELEMENTS:
            counts[ELEMENTS[line.label]] += 1
    suite = ElementTree.Element(
        "testsuite", name=plain(f"pessimal {judgement.model} {judgement.policy}"),
        tests=str(len(judgement.rules)), failures=str(counts["failure"]),
        errors=str(counts["error"]), skipped=str(counts["skipped"]), time="0",
    )  # fmt: skip
    properties = ElementTree.SubElement(suite, "properties")
    facts = {
        "verdict": judgement.verdict, "exit_code": judgement.exit_code, "model": judgement.model,
        "revision": judgement.revision or "", "policy": judgement.policy,
        "policy_sha256": judgement.policy_sha256,
    }  # fmt: skip
    facts |= {f"not judged: {title(one)}": one.reason for one in judgement.skipped}
    for name, value in facts.items():
        ElementTree.SubElement(properties, "property", name=plain(name), value=plain(value))
    for line in judgement.rules:
        _add_case(suite, line)
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    declaration = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return declaration + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_case(suite: ElementTree.Element, line: RuleVerdict) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=plain(f"pessimal.{line.metric.split('.', 1)[0]}"),
        name=plain(f"{title(line)} {bound_text(line)}".strip()), time="0",
    )  # fmt: skip
    reason = plain(line.reason)
    where = f"{plain(line.source)} {plain(line.why)}".strip()
    if line.label in ELEMENTS:
        found = ElementTree.SubElement(case, ELEMENTS[line.label], type=line.label, message=reason)
        found.text = where
    else:
        ElementTree.SubElement(case, "system-out").text = f"{line.label}: {reason} {where}".strip()
