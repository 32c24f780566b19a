"""The commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pessimal import __version__
from pessimal.cli.compare import compare
from pessimal.cli.doctor import doctor
from pessimal.cli.gate import gate, report_options
from pessimal.cli.models import models
from pessimal.cli.options import (
    MODEL_FIELDS,
    engine_flags,
    model_options,
    output_options,
    tracking_options,
)
from pessimal.cli.output import print_document
from pessimal.cli.search import search, tune
from pessimal.cli.show import show


class _Group(click.Group):
    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            from pessimal.audit.collect import suggest

            hint = suggest(args[0], list(self.commands))
            raise click.UsageError(f"There is no command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_examples(
        "pessimal audit                                  audit the demo reward model",
        "pessimal audit --model org/name@COMMIT          audit a model of the hub",
        "pessimal gate latest --policy strict            judge a finished run again",
        "pessimal ui                                     look at all runs in MLflow",
    ),
)
@click.version_option(__version__, prog_name="pessimal")
def app() -> None:
    """Audit a reward model before it is deployed.

    Exit codes: 0 PASS or WARN, 1 FAIL, 2 usage, 3 ERROR (could not evaluate), 4 INCONCLUSIVE.
    """


@app.command(
    epilog=_examples(
        "pessimal audit --model ./my-reward-model",
        "pessimal audit --model org/name@COMMIT --pipeline standard --policy strict",
        "pessimal audit --pipeline smoke --json > audit.json",
    )
)
@click.option("--pipeline", default="quick", show_default=True, metavar="P", help="What to run.")
@click.option(
    "--policy", default="default", show_default=True, metavar="Q", help="What is acceptable."
)
@click.option("--base-model", metavar="B",
              help="Language model to set beside it: a folder, a hub id or demo-base.")  # fmt: skip
@click.option("--human", type=click.Path(path_type=Path), metavar="CSV",
              help="Human ranking to score and compare with: name, score, matches.")  # fmt: skip
@click.option("--categories", type=click.Path(path_type=Path), metavar="FILE",
              help="Word categories to compare: .dicx, or CSV with word, category.")  # fmt: skip
@engine_flags
@report_options
@model_options
@tracking_options
@output_options
def audit(**flags: Any) -> int:
    """Score, measure, record and judge a reward model.

    The same command goes on where an interrupted one stopped, and re-uses every score there is.
    """
    from pessimal.cli.commands import run_audit

    return run_audit(flags)


@app.command(
    epilog=_examples(
        "pessimal plan --model org/name@COMMIT --pipeline paper",
        "pessimal plan --model ./my-reward-model --calibrate",
    )
)
@click.option("--pipeline", default="quick", show_default=True, metavar="P", help="What would run.")
@click.option(
    "--calibrate", is_flag=True, help="Load the model and try it: its own rates, not a matmul's."
)
@model_options
@output_options
def plan(**flags: Any) -> int:
    """Tell what an audit would cost, without loading any weights.

    Of a model whose weights aren't here, only what describes it is fetched, and the cost on named
    GPUs is estimated.
    """
    from pessimal.cli.commands import run_plan

    return run_plan(flags)


@app.command(
    epilog=_examples(
        'pessimal score --prompt "What is the best thing ever?" --out scores.parquet',
        "pessimal score --model ./rm --prompt Why? --tokens words.txt --out words.parquet",
        "pessimal score --prompt Why? --tokens 500 --as-text --out as-text.parquet",
    )
)
@click.option("--prompt", required=True, metavar="TEXT", help="What the user asks.")
@click.option("--tokens", default="all", show_default=True, metavar="all|N|FILE",
              help="The vocabulary, a sample, or a file with a word a line.")  # fmt: skip
@click.option("--as-text", is_flag=True,
              help="Score each token as text through the template too.")  # fmt: skip
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="F.parquet",
              help="Where the table goes.")  # fmt: skip
@engine_flags
@model_options
@output_options
def score(**flags: Any) -> int:
    """Score the vocabulary, or a list of words, under one prompt. Nothing is tracked."""
    from pessimal.cli.commands import run_score

    return run_score(flags)


app.add_command(doctor)
app.add_command(models)
app.add_command(compare)
app.add_command(search)
app.add_command(tune)
app.add_command(gate)
app.add_command(show)


@app.command(
    name="import",
    epilog=_examples(
        "pessimal import --format elo 'What is the greatest thing ever.csv'",
        "pessimal import --format words scores/*.csv --prompts prompts.yaml --categories mine.dicx",
    ),
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path),
                metavar="FILE...")  # fmt: skip
@click.option("--format", "layout", required=True, type=click.Choice(["elo", "words"]),
              help="elo: name, score, matches, then a column a model; the file's name is the"
              " prompt. words: response, then a column a prompt; the file's name is the"
              " model.")  # fmt: skip
@click.option("--prompts", type=click.Path(path_type=Path), metavar="YAML",
              help="Prompts by id; the project's own stay known.")  # fmt: skip
@click.option("--categories", type=click.Path(path_type=Path), metavar="FILE",
              help="Word categories to compare: .dicx, or CSV with word, category.")  # fmt: skip
@click.option("--valence", default="vader", show_default=True, metavar="NAME|CSV",
              help="Valence lexicon: vader, afinn (AFINN-111), opinion, or a CSV file with"
              " word, valence.")  # fmt: skip
@click.option(
    "--policy", default="report-only", show_default=True, metavar="Q", help="What is acceptable."
)
@tracking_options
@output_options
def import_scores(**flags: Any) -> int:
    """Audit published score tables, with no model at all: one run a model.

    Audits that need a model to score with do not run.
    """
    from pessimal.cli.commands import run_import

    return run_import(flags)


@app.command(epilog=_examples("pessimal report latest --out report.html"))
@click.argument("run")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="F.html",
              help="Where the report goes.")  # fmt: skip
@tracking_options
@output_options
def report(**flags: Any) -> int:
    """Write the report of a finished run: one HTML file that needs nothing else."""
    from pessimal.cli.commands import run_report

    return run_report(flags)


@app.command(name="list")
@output_options
def list_content(project: Path | None, quiet: bool, as_json: bool) -> int:
    """List the audits, pipelines, policies and metrics at hand."""
    from pessimal.cli.listing import content_document, print_content

    document = content_document(project)
    print_document(document) if as_json else print_content(document)
    return 0


@app.command(epilog=_examples("pessimal ui", "pessimal ui --port 5001"))
@click.option("--port", type=click.IntRange(1, 65535), default=5000, show_default=True)
@tracking_options
@output_options
def ui(**flags: Any) -> int:
    """Open MLflow on the recorded runs."""
    from pessimal.cli.commands import run_ui

    return run_ui(flags)


@app.command(epilog=_examples("pessimal init my-audits"))
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@output_options
def init(folder: Path, project: Path | None, quiet: bool, as_json: bool) -> int:
    """Make a project of your own: a copy of the audits, pipelines and policies to edit."""
    from pessimal.cli.scaffold import make_project

    made = make_project(folder)
    if as_json:
        print_document({"schema": "pessimal.init/1", "folder": str(made)})
    elif not quiet:
        click.echo(f"Made {made}. Edit what is in it, then run pessimal audit from there.")
    return 0


__all__ = ["MODEL_FIELDS", "app"]
