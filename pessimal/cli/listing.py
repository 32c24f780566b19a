"""What is at hand: audits, pipelines, policies and metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pessimal.audit import collect_audits
from pessimal.project import find_content

WAIVERS_FILE = "waivers.yaml"


def content_document(project: Path | None) -> dict[str, Any]:
    """List the content as a ``pessimal.list/1`` document. Loads no heavy library."""
    root = find_content(project)
    audits = collect_audits(root.audits)
    return {
        "schema": "pessimal.list/1",
        "project": str(root.path),
        "audits": [
            {"name": audit.name, "question": audit.question, "needs": list(audit.needs)}
            for audit in audits.values()
        ],
        "pipelines": [
            {"name": path.stem, "description": _first_comment(path)}
            for path in sorted(root.pipelines.glob("*.yaml"))
            if path.name != "prompts.yaml"
        ],
        "policies": [
            {"name": path.stem, "description": _first_comment(path)}
            for path in sorted(root.expectations.glob("*.yaml"))
            if path.name != WAIVERS_FILE
        ],
        "metrics": [
            {
                "name": f"{audit.name}.{spec.name}", "unit": spec.unit, "worse": spec.worse,
                "minimum_n": spec.minimum_n, "definition": spec.definition,
                "bound": None if spec.bound is None
                else {key: value for key, value in vars(spec.bound).items() if value is not None},
                "severity": None if spec.bound is None else spec.severity,
            }
            for audit in audits.values() for spec in audit.metrics
        ],
    }  # fmt: skip


def print_content(document: dict[str, Any]) -> None:
    """Print the listing for people, in 80 columns."""
    import textwrap

    import click

    click.echo(f"Content of {document['project']}")
    for kind in ("audits", "pipelines", "policies"):
        click.echo(f"\n{kind}")
        for item in document[kind]:
            said = f"{item['name']:<12} {item.get('question') or item.get('description') or ''}"
            click.echo(
                textwrap.fill(said, 80, initial_indent="  ", subsequent_indent=" " * 15).rstrip()
            )
    click.echo("\nmetrics")
    for metric in document["metrics"]:
        bound = metric["bound"]
        shown = " ".join(f"{key} {value:g}" for key, value in bound.items()) if bound else ""
        severity = metric["severity"] or ""
        click.echo(f"  {metric['name']:<32} {metric['unit']:<11} {shown:<12} {severity}".rstrip())


def _first_comment(path: Path) -> str:
    """The comment at the head of a YAML file, which says what it is for."""
    with path.open(encoding="utf-8", errors="replace") as file:
        line = file.readline()
    return line.lstrip("# ").strip() if line.startswith("#") else ""
