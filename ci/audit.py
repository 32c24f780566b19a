"""One audit in CI: runs it, and leaves what a job uploads, comments and ends with.

Reads ``PESSIMAL_MODEL PESSIMAL_REVISION PESSIMAL_PIPELINE PESSIMAL_POLICY PESSIMAL_BASELINE
PESSIMAL_ARGUMENTS`` (empty ones are left out) and ``PESSIMAL_REPORTS``, the folder for the reports.
Ends with the audit's own exit code: 0 PASS or WARN, 1 FAIL, 2 usage, 3 ERROR, 4 INCONCLUSIVE.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pessimal.gate.plain import inert, plain

FLAGS = ("model", "revision", "pipeline", "policy", "baseline")
LONGEST_COMMENT = 60_000
"""Characters; the platform refuses comments of more than 65,536."""


def main() -> int:
    """Run the audit and write the reports."""
    folder = Path(os.environ.get("PESSIMAL_REPORTS") or "pessimal-reports")
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "--junit": folder / "junit.xml", "--sarif": folder / "gate.sarif",
        "--markdown": folder / "gate.md", "--model-card": folder / "model_card.md",
    }  # fmt: skip
    for file in (*files.values(), folder / "report.html"):
        file.unlink(missing_ok=True)  # what an earlier job left would look like this one's
    command = ["audit", "--json", *_arguments()]
    for flag, file in files.items():
        command += [flag, str(file)]
    done = _pessimal(*command)
    (folder / "audit.json").write_text(done.stdout, encoding="utf-8")
    document = _document(done.stdout)
    if "verdict" in document:
        where = _where(command)
        _pessimal("report", document["run_id"], "--out", str(folder / "report.html"), *where)
    else:
        _write_error(document, done.returncode, files["--junit"], files["--markdown"])
    comment = _short(files["--markdown"].read_text(encoding="utf-8"))
    (folder / "comment.md").write_text(comment, encoding="utf-8")
    _append("GITHUB_STEP_SUMMARY", comment)
    _append("GITHUB_OUTPUT", f"verdict={plain(document.get('verdict', 'ERROR'))}\n")
    _append("GITHUB_OUTPUT", f"run-id={plain(document.get('run_id', ''))}\n")
    return done.returncode


def _arguments() -> list[str]:
    found = []
    for name in FLAGS:
        value = os.environ.get(f"PESSIMAL_{name.upper()}")
        if value:
            found.append(f"--{name}={value}")
    return found + shlex.split(os.environ.get("PESSIMAL_ARGUMENTS", ""))


def _where(command: list[str]) -> list[str]:
    """The flags that say where runs are, for a second command about the same run."""
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--project")
    parser.add_argument("--tracking-uri")
    known = vars(parser.parse_known_args(command)[0])
    return [f"--{name.replace('_', '-')}={value}" for name, value in known.items() if value]


def _pessimal(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pessimal", *arguments], stdout=subprocess.PIPE, encoding="utf-8",
        check=False,
    )  # fmt: skip


def _document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _write_error(document: dict[str, Any], code: int, junit: Path, markdown: Path) -> None:
    """Reports of an audit that gave no verdict, so that the job doesn't look empty."""
    message = document.get("message") or f"The audit ended with code {code} and no verdict."
    remedy = document.get("remedy") or "See the job's log."
    markdown.write_text(
        f"## Reward model audit: ERROR\n\n{inert(message)}\n\n{inert(remedy)}\n", encoding="utf-8"
    )
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        root, "testsuite", name="pessimal", tests="1", failures="0", errors="1", skipped="0"
    )
    case = ElementTree.SubElement(suite, "testcase", classname="pessimal", name="audit")
    ElementTree.SubElement(case, "error", type="ERROR", message=plain(message)).text = plain(remedy)
    ElementTree.ElementTree(root).write(junit, encoding="utf-8", xml_declaration=True)


def _short(text: str) -> str:
    """A comment that the platform takes: without the folded rules first, then cut by lines."""
    if len(text) > LONGEST_COMMENT:
        text = text.split("<details>")[0]
    if len(text) > LONGEST_COMMENT:
        text = text[:LONGEST_COMMENT].rsplit("\n", 1)[0] + "\n\nThe rest is in the job's reports.\n"
    return text


def _append(variable: str, text: str) -> None:
    path = os.environ.get(variable)
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    sys.exit(main())
