"""A judgement as SARIF 2.1.0, whose locations point at the policy's line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from pessimal import __version__
from pessimal.gate.plain import bound_text, plain, split_source, title
from pessimal.gate.records import Judgement, RuleVerdict, Verdict

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

# SARIF's kind and level; any kind but "fail" must have the level "none".
KINDS: Mapping[Verdict, tuple[str, str]] = {
    "ERROR": ("fail", "error"), "FAIL": ("fail", "error"), "WARN": ("fail", "warning"),
    "INCONCLUSIVE": ("open", "none"), "PASS": ("pass", "none"),
}  # fmt: skip


def render_sarif(judgement: Judgement) -> str:
    """SARIF with one result a line; a waived failure carries a suppression."""
    driver = {
        "name": "pessimal",
        "semanticVersion": __version__,
        "rules": list({_rule_id(line): _rule(line) for line in judgement.rules}.values()),
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(line) for line in judgement.rules],
        "properties": {
            "verdict": judgement.verdict,
            "exitCode": judgement.exit_code,
            "model": plain(judgement.model),
            "revision": None if judgement.revision is None else plain(judgement.revision),
            "policy": plain(judgement.policy),
            "policySha256": judgement.policy_sha256,
            "notJudged": [
                {"rule": plain(title(one)), "reason": plain(one.reason)}
                for one in judgement.skipped
            ],
        },
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _rule_id(line: RuleVerdict) -> str:
    return plain(title(line))


def _rule(line: RuleVerdict) -> dict[str, Any]:
    text = f"{title(line)} {bound_text(line)}".strip()
    return {
        "id": _rule_id(line),
        "shortDescription": {"text": plain(text)},
        "fullDescription": {"text": plain(line.why or text)},
    }


def _result(line: RuleVerdict) -> dict[str, Any]:
    kind, level = KINDS[line.verdict]
    result: dict[str, Any] = {
        "ruleId": _rule_id(line),
        "kind": kind,
        "level": level,
        "message": {"text": f"{line.label}: {plain(line.reason)}"},
        "locations": [_location(line.source)],
        "properties": {"verdict": line.verdict, "waived": line.waived, "severity": line.severity},
    }
    if line.waived:
        result["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": plain(line.reason)}
        ]
    return result


def _location(source: str) -> dict[str, Any]:
    file, number = split_source(source)
    path = PurePath(file)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": uri or "."},
            "region": {"startLine": number},
        }
    }
