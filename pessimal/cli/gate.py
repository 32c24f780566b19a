"""The command ``gate``, and the report flags that it shares with ``audit``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from pessimal.cli.options import output_options, tracking_options

Command = TypeVar("Command", bound=Callable[..., Any])
REPORTS = {
    "junit": ("gate/junit.xml", "Write JUnit XML: a test case a rule."),
    "sarif": ("gate/gate.sarif", "Write SARIF, which points at the policy's lines."),
    "markdown": ("gate/gate.md", "Write Markdown for a pull request."),
    "model_card": ("gate/model_card.md", "Write a section for the model's card."),
}
"""Where each report lies in a run, and what its flag does."""


def report_options(command: Command) -> Command:
    """``--junit``, ``--sarif``, ``--markdown``, ``--model-card`` and ``--baseline``."""
    for name, (_, text) in reversed(REPORTS.items()):
        flag = f"--{name.replace('_', '-')}"
        command = click.option(flag, type=click.Path(path_type=Path), metavar="F", help=text)(
            command
        )
    return click.option(
        "--baseline", metavar="RUN",
        help="Earlier run to measure changes from: a run, or an alias such as audited.",
    )(command)  # fmt: skip


@click.command(
    epilog="\b\nExamples:\n"
    "  pessimal gate latest\n"
    "  pessimal gate 3f2a9c --policy strict --junit gate.xml --sarif gate.sarif\n"
    "  pessimal gate latest --baseline audited --verify\n"
)
@click.argument("run")
@click.option(
    "--policy", metavar="Q", help="What is acceptable; the run's own policy when left out."
)
@click.option("--verify", is_flag=True,
              help="First check that no artifact, input or code has changed since.")  # fmt: skip
@report_options
@tracking_options
@output_options
def gate(**flags: Any) -> int:
    """Judge a finished run again. RUN is a run id, the beginning of one, or latest.

    The verdict is tagged onto the model's registered version; any but PASS takes its alias away.
    """
    from pessimal.cli.commands import run_gate

    return run_gate(flags)


def write_reports(flags: Mapping[str, Any], texts: Mapping[str, str]) -> None:
    """Write the reports that flags ask for.

    Args:
        flags: the command's flags.
        texts: the reports by their path in a run.
    """
    from pessimal.scores.files import write_file

    for name, (place, _) in REPORTS.items():
        if flags[name] is not None:
            write_file(
                flags[name], texts[place].encode("utf-8"), code="file_not_writable",
                remedy="Name a place that can be written.",
            )  # fmt: skip
