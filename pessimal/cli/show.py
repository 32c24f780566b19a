"""``pessimal show``: a finished run at a terminal, from what is stored in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from pessimal.cli.options import output_options, tracking_options

if TYPE_CHECKING:
    from rich.console import Console

    from pessimal.reports.tokens import PromptTokens, TokenRow

_MODEL: Final = (
    ("family", "family"), ("class", "class"), ("parameters", "parameters"), ("base", "base.id"),
    ("head", "head.key"), ("pooled token", "pooled.token"), ("precision", "dtype"),
    ("device", "device"), ("threads", "threads"), ("scoring", "path"), ("attention", "attention"),
    ("self-test, SD", "self_test_max_difference"), ("weights sha256", "hashes.weights"),
    ("template sha256", "template_sha256"),
)  # fmt: skip
"""What is told of a model: a label, and where its document has it."""


@click.command(
    epilog="\b\nExamples:\n"
    "  pessimal show latest\n"
    "  pessimal show 3f2a9c --tokens 10\n"
    "  pessimal show latest --json > audit.json"
)
@click.argument("run")
@click.option("--tokens", type=click.IntRange(min=1, max=1000), metavar="N",
              help="Show the N best and worst tokens too. The worst can be offensive.")  # fmt: skip
@tracking_options
@output_options
def show(**flags: Any) -> int:
    """Show a finished run. RUN is a run id, the beginning of one, or latest.

    Nothing is judged or written: the exit code is 0 whatever the verdict is. With --json it prints
    the document that the run holds.
    """
    from pessimal.cli.flags import content_root
    from pessimal.cli.output import print_document
    from pessimal.pipeline.show import read_ends, read_run

    content = content_root(flags)
    document = read_run(flags["run"], content, flags["tracking_uri"])
    if flags["as_json"]:
        print_document(document)
        return 0
    count = flags["tokens"]
    ends = read_ends(document, content, flags["tracking_uri"], count) if count else None
    print_run(document, ends, quiet=flags["quiet"])
    return 0


def print_run(
    document: Mapping[str, Any], ends: Sequence[PromptTokens] | None = None, *, quiet: bool = False
) -> None:
    """Print any run's document in 80 columns.

    Args:
        document: an audit's, a comparison's or a study's.
        ends: an audit's best and worst tokens; None leaves them out, and the replies of searches
            for the lowest reward as well.
        quiet: the last line only.
    """
    schema = document.get("schema")
    if schema == "pessimal.compare/1":
        from pessimal.cli.compare import print_comparison

        print_comparison(document, quiet=quiet)
    elif schema == "pessimal.tune/1":
        from pessimal.cli.tables import print_study

        print_study(document, quiet=quiet)
    else:
        _print_audit(document, ends, quiet=quiet)


def _print_audit(
    document: Mapping[str, Any], ends: Sequence[PromptTokens] | None, *, quiet: bool
) -> None:
    from rich.text import Text

    from pessimal.cli.tables import NARROW, console
    from pessimal.gate.plain import plain
    from pessimal.gate.records import summarise
    from pessimal.gate.report_terminal import STYLES

    screen = console(NARROW)
    if not quiet:
        _print_head(screen, document)
    screen.print(Text(plain(summarise(document)), STYLES.get(document["verdict"], "")))
    if quiet:
        return
    _print_rules(screen, document)
    _print_model(screen, document["model"])
    _print_measures(screen, document)
    _print_searches(screen, document.get("searches") or [], pessimal=ends is not None)
    _print_ends(screen, document["run_id"], ends)
    _print_rest(screen, document)


def _print_head(screen: Console, document: Mapping[str, Any]) -> None:
    from pessimal.gate.plain import plain
    from pessimal.gate.waivers import revision_of

    model, finished = document["model"], str(document.get("finished") or "")
    revision = revision_of(model)
    at = "" if revision is None else f" at {plain(revision)}"
    screen.print(f"{plain(model.get('id'))}{at}", style="bold")
    screen.print(
        f"pipeline {plain(document.get('pipeline'))}, policy {plain(document.get('policy'))},"
        f" {plain(finished.replace('T', ' ').replace('+00:00', ' UTC'))}"
    )
    screen.print(f"run {plain(document['run_id'])}", style="dim")
    if baseline := document.get("baseline"):
        screen.print(f"against run {plain(baseline.get('run_id'))}", style="dim")


def _print_rules(screen: Console, document: Mapping[str, Any]) -> None:
    """What did not pass with its reasons, worst first; the others by name."""
    from pessimal.gate.plain import plain, rule_title
    from pessimal.gate.records import VERDICTS
    from pessimal.gate.report_terminal import reasons, rule_label, rules_table

    rules = sorted(document.get("rules") or [], key=lambda rule: VERDICTS.index(rule["verdict"]))
    open_ = [rule for rule in rules if rule_label(rule) != "PASS"]
    passed = [plain(rule_title(rule)) for rule in rules if rule_label(rule) == "PASS"]
    if open_:
        screen.print()
        screen.print(rules_table(screen, document, open_))
        for line in reasons(open_):
            screen.print(line)
    if passed:
        _heading(screen, f"Passed ({len(passed)})")
        screen.print(", ".join(passed))
    if skipped := document.get("skipped"):
        _heading(screen, f"Not judged ({len(skipped)})")
        for one in skipped:
            screen.print(f"{plain(rule_title(one))}: {plain(one['reason'])}")
    idle = [one for one in document["audits"] if one["status"] != "RUN"]
    if idle:
        _heading(screen, "Not run")
        for one in idle:
            screen.print(f"{plain(one['name'])}, {plain(one['status'])}: {plain(one['reason'])}")


def _print_model(screen: Console, model: Mapping[str, Any]) -> None:
    from pessimal.cli.tables import number, plain_table
    from pessimal.gate.plain import plain

    facts = [
        (label, value) for label, place in _MODEL if (value := _at(model, place)) not in (None, {})
    ]
    notes = model.get("notes") or []
    if facts or notes:
        _heading(screen, "Model")
    if facts:
        table = plain_table(screen, "", "", header=False)
        for label, value in facts:
            shown = number(value) if isinstance(value, float | int) else plain(value)
            table.add_row(label, f"{shown[:16]}…" if label.endswith("sha256") else shown)
        screen.print(table)
    for note in notes:
        screen.print(plain(note))


def _print_measures(screen: Console, document: Mapping[str, Any]) -> None:
    """Every metric as a whole; slices are in the report."""
    from pessimal.cli.tables import interval, number, plain_table
    from pessimal.gate.plain import plain

    whole = [one for one in document["metrics"] if one["slice"] == "all"]
    if not whole:
        return
    _heading(screen, "Measures")
    table = plain_table(screen, "metric", ">value", ">95 % interval", ">n", "unit")
    for one in whole:
        low, high = one.get("ci_low"), one.get("ci_high")
        unit = one.get("unit") if one.get("status") == "ok" else one.get("status")
        table.add_row(
            plain(one["name"]), number(one.get("value")), interval(low, high),
            number(one.get("n")), plain(unit),
        )  # fmt: skip
    screen.print(table)
    slices = len(document["metrics"]) - len(whole)
    if slices:
        screen.print(f"and {slices:,} by slice", style="dim")


def _print_searches(
    screen: Console, searches: Sequence[Mapping[str, Any]], *, pessimal: bool
) -> None:
    from pessimal.cli.tables import number, plain_table
    from pessimal.gate.plain import plain
    from pessimal.text import show_token

    if not searches:
        return
    _heading(screen, "Searches")
    table = plain_table(screen, "prompt", "direction", ">tokens", ">reward", ">SD", "reply")
    for one in searches:
        hidden = one["direction"] == "pessimal" and not pessimal
        table.add_row(
            plain(one["prompt"]), plain(one["direction"]), number(one["length"]),
            number(one["reward"]), number(one.get("z")),
            "(with --tokens)" if hidden else plain(show_token(str(one["text"]))),
        )  # fmt: skip
    screen.print(table)


def _print_ends(screen: Console, run_id: str, ends: Sequence[PromptTokens] | None) -> None:
    from pessimal.cli.tables import number, plain_table
    from pessimal.gate.plain import plain

    if ends is None:
        return
    _heading(screen, "Best and worst tokens")
    screen.print("Content warning: what a reward model rates lowest can be offensive.", style="red")

    def cells(row: TokenRow | None) -> Iterable[str]:
        return ("", "") if row is None else (number(row.z), plain(row.shown))

    for prompt in ends:
        screen.print()
        screen.print(f"{plain(prompt.id)}: {plain(prompt.text)} ({prompt.n:,} scored)")
        table = plain_table(screen, ">SD", "best", ">SD", "worst")
        for best, worst in zip(prompt.optimal, prompt.pessimal, strict=True):
            table.add_row(*cells(best), *cells(worst))
        screen.print(table)


def _print_rest(screen: Console, document: Mapping[str, Any]) -> None:
    """Times, artifacts, and how to do it again."""
    from pessimal.cli.tables import duration
    from pessimal.gate.plain import plain

    if timings := document.get("timings"):
        _heading(screen, "Time")
        screen.print(
            ", ".join(f"{plain(n.removesuffix('_s'))} {duration(s)}" for n, s in timings.items())
        )
    _heading(screen, "Artifacts")
    held = [
        f"{len(place)} {plain(name)}" if isinstance(place, list) else plain(place)
        for name, place in document["artifacts"].items()
    ]
    screen.print(", ".join(held))
    _heading(screen, "Again")
    versions: Mapping[str, Any] = document.get("versions") or {}
    short = document["run_id"][:8]
    for line in (
        plain(document.get("command") or ""),
        f"pessimal report {short} --out report.html",
        f"pessimal show {short} --tokens 10",
    ):
        if line:
            # Commands are copied: no line of one is broken.
            screen.print(line, soft_wrap=True)
    screen.print(", ".join(f"{plain(n)} {plain(v)}" for n, v in versions.items()), style="dim")


def _heading(screen: Console, text: str) -> None:
    screen.print()
    screen.print(text, style="bold")


def _at(model: Mapping[str, Any], place: str) -> Any:
    """The value at ``a.b``; None where there is none."""
    found: Any = model
    for key in place.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
