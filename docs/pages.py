"""The reference pages, made from the code: commands, measures, families, policies, errors."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from benchmarks.measures_page import bound
from pessimal.audit import Audit, MetricSpec, collect_audits
from pessimal.audit.drift import drift
from pessimal.cli import app
from pessimal.gate.policy import Policy, Rule, load_policy
from pessimal.gate.records import bound_document
from pessimal.models.families import FAMILIES, Family
from pessimal.pipeline.spec import load_pipeline, load_prompts

ROOT = Path(__file__).parents[1]
READING = ROOT / "docs" / "reading.md"
POLICIES = ("default", "strict", "report-only")
PIPELINES = ("smoke", "quick", "standard", "paper")
_WORSE = {
    "lower": "a lower value is worse", "higher": "a higher value is worse",
    "both": "a value far from zero, or from what is usual, is worse",
    "neither": "it informs, and no side of it is worse",
}  # fmt: skip


def reference() -> dict[str, str]:
    """Every reference page: Markdown by its path below ``docs/reference``."""
    return {
        "commands.md": commands_page(),
        **measure_pages(),
        **family_pages(),
        "policies.md": policies_page(),
        "pipelines.md": pipelines_page(),
        "errors.md": errors_page(),
    }


def commands_page() -> str:
    """What ``--help`` says of every command."""
    parts = ["# Commands", "", "What `pessimal COMMAND --help` prints."]
    context = app.make_context("pessimal", [], resilient_parsing=True, terminal_width=100)
    shown: list[tuple[str, click.Command]] = [("pessimal", app), *sorted(app.commands.items())]
    for name, command in shown:
        inner = context if command is app else click.Context(command, context, name)
        title = name if command is app else f"pessimal {name}"
        parts += ["", f"## {title}", "", "```text", command.get_help(inner).rstrip(), "```"]
    return "\n".join(parts) + "\n"


def measure_pages() -> dict[str, str]:
    """A page a metric, and one that lists them."""
    audits = shipped_audits()
    policies = [_policy(name, audits) for name in POLICIES]
    readings = read_readings(READING.read_text(encoding="utf-8"))
    index = ["# Every measure", "", "How they are read, with their limits: "
             "[How to read each measure](../../reading.md)."]  # fmt: skip
    pages = {}
    for audit in audits.values():
        index += ["", f"## {audit.name}", "", audit.question, ""]
        for spec in audit.metrics:
            name = f"{audit.name}.{spec.name}"
            index.append(f"- [{name}]({name}.md): {_text(spec.definition)}")
            page = _measure_page(name, audit, spec, policies, readings[name])
            pages[f"measures/{name}.md"] = page
    return {"measures/index.md": "\n".join(index) + "\n", **pages}


def shipped_audits() -> dict[str, Audit]:
    """The audits of this checkout, and the engine's own."""
    return {**collect_audits(ROOT / "audits"), drift.name: drift}


def read_readings(page: str) -> dict[str, str]:
    """What the page on reading measures says of each, by metric.

    A section whose heading names several metrics is for each of them; links are turned to lead
    from a page a folder further down.
    """
    found = {}
    for section in re.split(r"^### ", page, flags=re.M)[1:]:
        heading, _, body = section.partition("\n")
        body = re.split(r"^## ", body, flags=re.M)[0].strip()
        body = re.sub(r"\]\(#", "](reading.md#", body)
        body = re.sub(r"\]\((?![a-z]+:)", "](../../", body)
        found |= dict.fromkeys(re.findall(r"`([\w.]+)`", heading), body)
    return found


def _measure_page(
    name: str, audit: Audit, spec: MetricSpec, policies: list[Policy], reading: str
) -> str:
    lines = [
        f"# {name}", "", f"Of the audit `{audit.name}`: {audit.question}", "",
        "| fact | |", "|---|---|",
        f"| definition | {_text(spec.definition)} |", f"| unit | {_text(spec.unit)} |",
        f"| direction | {_WORSE[spec.worse]} |",
        f"| minimum n | {spec.minimum_n:,}; below it the value is `insufficient` |",
        f"| default bound | {bound(spec)} |", f"| needs | {_needs(audit)} |",
        "", "## How to read it", "", reading, "", "## Rules on it", "",
    ]  # fmt: skip
    rows = [
        f"| {policy.name} | {rule.slice} | {_bound(rule)} | {rule.severity} | {_text(rule.why)} |"
        for policy in policies
        for rule in policy.rules
        if rule.metric == name
    ]
    if rows:
        lines += ["| policy | slice | bound | severity | why |", "|---|---|---|---|---|", *rows]
    else:
        lines.append("No policy that is shipped has a rule on it.")
    lines += ["", "[All measures](index.md) · [policies](../policies.md)"]
    return "\n".join(lines) + "\n"


def _needs(audit: Audit) -> str:
    return ", ".join(f"`{need}`" for need in audit.needs) or "nothing beside the scores"


def family_pages() -> dict[str, str]:
    """A page a family of reward models, and one that lists them."""
    index = ["# Families of reward models", "", "| family | kind | status |", "|---|---|---|"]
    pages = {}
    for family in FAMILIES:
        index.append(f"| [{family.name}]({family.name}.md) | {family.kind} | {family.status} |")
        pages[f"families/{family.name}.md"] = _family_page(family)
    return {"families/index.md": "\n".join(index) + "\n", **pages}


def _family_page(family: Family) -> str:
    rows = []
    for entry, meaning in zip(fields(Family), _field_notes(Family), strict=True):
        shown = _family_value(getattr(family, entry.name))
        if entry.name != "name" and shown:
            rows.append(f"| {entry.name.replace('_', ' ')} | {shown} | {_text(meaning)} |")
    return (
        f"# {family.name}\n\n| fact | | what it says |\n|---|---|---|\n"
        + "\n".join(rows)
        + "\n\n[All families](index.md)\n"
    )


def _family_value(value: Any) -> str:
    if value is None or value in ((), ""):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        pairs = [" = ".join(map(str, one)) if isinstance(one, tuple) else one for one in value]
        return ", ".join(f"<code>{_escape(' '.join(str(one).split()))}</code>" for one in pairs)
    return _text(value)


def _field_notes(kind: type) -> list[str]:
    """The line that stands under every field of a record, in order."""
    module = ast.parse(Path(_file(kind)).read_text(encoding="utf-8"))
    (record,) = [n for n in module.body if isinstance(n, ast.ClassDef) and n.name == kind.__name__]
    notes = []
    for entry, after in zip(record.body, [*record.body[1:], ast.Pass()], strict=True):
        if isinstance(entry, ast.AnnAssign):
            said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            notes.append(" ".join(str(after.value.value).split()) if said else "")  # type: ignore[attr-defined]
    return notes


def _file(kind: type) -> str:
    import inspect

    return inspect.getfile(kind)


def policies_page() -> str:
    """Every rule of the shipped policies."""
    audits = shipped_audits()
    lines = ["# Policies", "", "Every rule of the policies that are shipped, with those that they"
             " extend and the bounds that audits declare: [The gate](../gate.md)."]  # fmt: skip
    for policy in (_policy(name, audits) for name in POLICIES):
        lines += [
            "", f"## {policy.name}", "",
            f"Without {', '.join(f'`{name}`' for name in policy.required)} there is no verdict."
            if policy.required else "No audit is required.",
            "", "| metric | slice | bound | severity | why |", "|---|---|---|---|---|",
        ]  # fmt: skip
        lines += [
            f"| [{rule.metric}](measures/{rule.metric}.md) | {rule.slice} | {_bound(rule)} "
            f"| {rule.severity} | {_text(rule.why)} |"
            for rule in policy.rules
        ]
    return "\n".join(lines) + "\n"


def pipelines_page() -> str:
    """What the shipped pipelines run, and the prompts that they choose from."""
    lines = ["# Pipelines and prompts"]
    for name in PIPELINES:
        pipeline = load_pipeline(name, ROOT / "pipelines")
        lines += ["", f"## {name}", "", f"{pipeline.description[:1].upper()}"
                  f"{pipeline.description[1:]}.", "", "| step | what |", "|---|---|"]  # fmt: skip
        steps = pipeline.model_dump(exclude={"name", "description"}, exclude_none=True)
        lines += [f"| {step} | {_text(_inline(what))} |" for step, what in steps.items()]
    book = load_prompts(ROOT / "pipelines")
    lines += ["", "## Prompts", "", "| id | framing | text |", "|---|---|---|"]
    lines += [f"| `{p.id}` | {p.framing} | {_text(p.text)} |" for p in book.prompts.values()]
    return "\n".join(lines) + "\n"


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_inline(item)}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


@dataclass(frozen=True)
class ErrorText:
    """An error as the source words it."""

    code: str
    """Its code."""
    message: str
    """The message; what only a run knows is an ellipsis."""
    remedy: str
    """The remedy, likewise."""
    exit_code: int
    """2 or 3."""
    area: str
    """The package that it comes from."""


def errors_page() -> str:
    """Every error by its code, with the remedy that it names."""
    by_code: dict[str, list[ErrorText]] = defaultdict(list)
    for error in find_errors():
        if error not in by_code[error.code]:
            by_code[error.code].append(error)
    lines = [
        "# Errors by code", "",
        "Every failure has a code, a message and a remedy; with `--json` it is one document:",
        '`{"schema": "pessimal.error/1", "error": CODE, "message": ..., "remedy": ...,'
        ' "exit_code": ...}`.', "An ellipsis is what only the run knows. Symptoms without a code:"
        " [Troubleshooting](../troubleshooting.md).",
    ]  # fmt: skip
    for code, errors in sorted(by_code.items()):
        exits = " or ".join(str(one) for one in sorted({error.exit_code for error in errors}))
        areas = ", ".join(sorted({error.area for error in errors}))
        lines += ["", f"## {code}", "", f"Exit code {exits}; from {areas}.", ""]
        lines += [f"- {_text(error.message)} {_text(error.remedy)}".rstrip() for error in errors]
    return "\n".join(lines) + "\n"


def find_errors(package: Path = ROOT / "pessimal") -> Iterator[ErrorText]:
    """Read every error that a package raises from its source."""
    for path in sorted(package.rglob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        known = {
            target.id: node.value.value
            for node in module.body if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            for target in node.targets if isinstance(target, ast.Name)
        }  # fmt: skip
        parts = path.relative_to(package).parts
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and (found := _error(node, known, parts[0])):
                yield found


def _error(call: ast.Call, known: Mapping[str, str], area: str) -> ErrorText | None:
    given = {word.arg: word.value for word in call.keywords if word.arg}
    kind = call.func.id if isinstance(call.func, ast.Name) else ""
    if kind in ("PessimalError", "UsageError") and len(call.args) >= 3:
        code, message, remedy = call.args[:3]
        said = _words(message, known)
    elif "code" in given and "remedy" in given:
        # A writer of files that is told what to raise.
        code, remedy, said = given["code"], given["remedy"], "Can't write to …: …."
    else:
        return None
    name = _words(code, known)
    if not re.fullmatch(r"[a-z]+(_[a-z0-9]+)*", name):
        return None
    own = given.get("exit_code")
    exit_code = own.value if isinstance(own, ast.Constant) else 2 if kind == "UsageError" else 3
    return ErrorText(name, said, _words(remedy, known), int(str(exit_code)), Path(area).stem)


def _words(node: ast.expr, known: Mapping[str, str]) -> str:
    """The text of an expression; an ellipsis for what it doesn't hold itself."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.JoinedStr(values=parts):
            return "".join(_words(part, known) for part in parts)
        case ast.FormattedValue(value=ast.Name(id=name)) if name in known:
            return known[name]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _words(left, known) + _words(right, known)
        case _:
            return "…"


def _policy(name: str, audits: Mapping[str, Audit]) -> Policy:
    specs = {f"{a.name}.{spec.name}": spec for a in audits.values() for spec in a.metrics}
    return load_policy(name, ROOT / "expectations", specs, list(audits))


def _bound(rule: Rule) -> str:
    return " ".join(f"{name} {value:g}" for name, value in bound_document(rule.bound).items())


def _text(value: object) -> str:
    """Prose for a cell or a line; code keeps its look, what else Markdown would read is escaped."""
    parts = re.split(r"`+([^`]+)`+", " ".join(str(value).split()))
    return "".join(
        f"<code>{_escape(part)}</code>" if place % 2 else _escape(part)
        for place, part in enumerate(parts)
    )


def _escape(text: str) -> str:
    return re.sub(r"[&<>|*_\[\]`\\]", lambda mark: f"&#{ord(mark.group())};", text)
