"""``pessimal doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from pessimal.cli.options import model_options, output_options
from pessimal.cli.output import print_document
from pessimal.errors import UsageError

_DRIFTS = ("max_difference", "max_difference_sd", "flipped_pairs")
_SHOWN = {"ok": "ok", "warning": "warn", "refused": "REFUSED"}


@click.command(
    epilog="\b\nExamples:\n"
    "  pessimal doctor ./my-reward-model\n"
    "  pessimal doctor org/name@COMMIT --dtype bfloat16\n"
    "  pessimal doctor demo --json"
)
@click.argument("named", metavar="MODEL", required=False)
@click.option("--prompt", metavar="TEXT", help="What the rendered example asks.")
@model_options
@output_options
def doctor(named: str | None, prompt: str | None, **flags: Any) -> int:
    """Examine a model before an audit: what it is, how it is read, what would be refused.

    Exit codes: 0 OK, 3 REFUSED.
    """
    from pessimal.cli.flags import cache_folder, model_request, speaker
    from pessimal.models.doctor import examine

    if named is not None:
        given = click.get_current_context().get_parameter_source("model")
        if given is not ParameterSource.DEFAULT:
            raise UsageError("model_twice", "MODEL and --model both name a model.", "Name it once.")
        flags["model"] = named
    request = model_request(flags)
    cache: Path = cache_folder(flags)
    speaker(flags)(f"Examining {request.model}")
    document = examine(request, cache, prompt)
    if flags["as_json"]:
        print_document(document)
    else:
        _print(document, quiet=flags["quiet"])
    code: int = document["exit_code"]
    return code


def _print(document: dict[str, Any], *, quiet: bool) -> None:
    from pessimal.cli.tables import NARROW, console, plain_table
    from pessimal.text import show_text

    screen = console(piped=NARROW)
    if not quiet:
        for name, value in _facts(document["model"]):
            screen.print(f"{name:<12} {show_text(value)}")
        if document["example"]:
            screen.print(f"\n{show_text(document['example']['marked'])}")
            screen.print("⟦ ⟧ the reply's place, ⟪ ⟫ the token the score is read at", style="dim")
    table = plain_table(screen, "check", "status", "what was found")
    for check in document["checks"]:
        table.add_row(
            check["name"], _SHOWN[check["status"]], show_text(check["detail"]),
            style="bold" if check["status"] == "refused" else None,
        )  # fmt: skip
    screen.print()
    screen.print(table)
    if document["drift"] and not quiet:
        screen.print()
        table = plain_table(screen, "changed", ">difference", ">in SD", ">pairs in another order")
        for row in document["drift"]:
            table.add_row(row["variant"], *(_drift(row[name]) for name in _DRIFTS))
        screen.print(table)
    screen.print(f"\n{document['verdict']}", style="bold")


def _drift(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.2g}"


def _facts(model: dict[str, Any]) -> list[tuple[str, object]]:
    """What is known of the model, a line each; of a refused one, what was known by then."""
    head = model.get("head") or {}
    facts = {
        "model": " at ".join(str(part) for part in (model["id"], model.get("revision")) if part),
        "family": " ".join(str(model[key]) for key in ("family", "class") if key in model),
        "head": f"{head.get('key')} {head.get('shape')}" if head.get("key") else "",
        "pooled": model["pooled"]["token"] if "pooled" in model else "",
        "pad, eos": f"{model['pad']}, {model['eos']}" if "pad" in model else "",
        "dtype": model.get("dtype", ""),
        "device": model.get("device", ""),
        "attention": model.get("attention", ""),
        "template": model.get("template_sha256", ""),
        "rows": f"{model['embedding_rows']:,}" if "embedding_rows" in model else "",
        "parameters": f"{model['parameters']:,}" if "parameters" in model else "",
        "versions": ", ".join(f"{name} {v}" for name, v in model.get("versions", {}).items()),
    }
    notes = [("note", note) for note in model.get("notes", [])]
    return [(name, value) for name, value in facts.items() if value] + notes
