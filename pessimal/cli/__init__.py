"""The command line. Heavy imports happen inside commands, so ``--help`` answers at once."""

from __future__ import annotations

import os
import sys
import traceback

import click

from pessimal.cli.app import app
from pessimal.cli.output import escape_unknown, print_error
from pessimal.errors import PessimalError, UsageError

__all__ = ["app", "main"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with Pessimal's own codes."""
    arguments = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in arguments
    escape_unknown()
    try:
        code = app.main(arguments, prog_name="pessimal", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = 2
    except click.ClickException as error:
        where = (
            error.ctx.command_path
            if isinstance(error, click.UsageError) and error.ctx
            else "pessimal"
        )
        usage = UsageError("usage", error.format_message(), f"See: {where} --help")
        print_error(usage, as_json)
        code = usage.exit_code
    except PessimalError as error:
        print_error(error, as_json)
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        sys.stderr.write("pessimal: interrupted; the same command goes on where it stopped\n")
        code = 130
    except BrokenPipeError:
        # The reader has gone; say nothing more to it, at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except Exception as error:
        if os.environ.get("PESSIMAL_DEBUG"):
            traceback.print_exc()
        print_error(
            PessimalError(
                "internal", f"Something unforeseen went wrong: {type(error).__name__}: {error}",
                "Set PESSIMAL_DEBUG=1 for the traceback, and please report it.",
            ), as_json,
        )  # fmt: skip
        code = 3
    sys.exit(code if isinstance(code, int) else 0)
