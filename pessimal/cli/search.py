"""``pessimal search`` and ``pessimal tune``."""

from __future__ import annotations

from typing import Any

import click

from pessimal.cli.options import model_options, output_options, tracking_options
from pessimal.cli.output import print_document
from pessimal.search.records import ALLOW, DIRECTIONS, LONGEST, METHODS, REASONS

DEFAULT_BUDGET = 20_000


@click.command(
    epilog="\b\nExamples:\n"
    '  pessimal search --prompt "What is the best thing ever?" --length 3\n'
    "  pessimal search --model ./rm --prompt Why? --length 2 --direction pessimal --certify\n"
    "  pessimal search --prompt Why? --method coordinate --budget 500000 --json"
)
@click.option("--prompt", required=True, metavar="TEXT", help="What the user asks.")
@click.option(
    "--length",
    type=int,
    default=3,
    show_default=True,
    metavar="N",
    help=f"Tokens of the reply, 1 to {LONGEST}.",
)
@click.option(
    "--direction",
    type=click.Choice(DIRECTIONS),
    default="optimal",
    show_default=True,
    help="Highest or lowest reward.",
)
@click.option(
    "--budget",
    type=int,
    metavar="K",
    help="Forward tokens, a backward pass counted as two forwards;"
    f" {DEFAULT_BUDGET:,} when --seconds is left out too.",
)
@click.option("--seconds", type=float, metavar="S", help="Wall-clock limit.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of every random draw.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    help="How candidates are proposed; gcg, or coordinate where there is no gradient.",
)
@click.option(
    "--allow",
    type=click.Choice(ALLOW),
    default="roundtrip",
    show_default=True,
    help="Tokens a reply may hold: those that survive decoding and encoding, or all.",
)
@click.option(
    "--include",
    type=click.Choice(REASONS),
    multiple=True,
    help="Let this kind of token in too; may be repeated.",
)
@click.option(
    "--certify",
    is_flag=True,
    help="Check every single change of the best reply afterwards, outside the budget.",
)
@model_options
@output_options
def search(**flags: Any) -> int:
    """Search for the reply of one prompt that scores highest, or lowest.

    The same command goes on where an interrupted one stopped, and ends in the same result.
    """
    from pessimal.cli.flags import cache_folder, model_request, speaker, sweep_options
    from pessimal.pipeline.search import SearchRequest, run_search
    from pessimal.search.records import SearchConfig

    budget = flags["budget"]
    if budget is None and flags["seconds"] is None:
        budget = DEFAULT_BUDGET
    config = SearchConfig(
        length=flags["length"], direction=flags["direction"], budget=budget,
        seconds=flags["seconds"], seed=flags["seed"], method=flags["method"] or "gcg",
        certify=flags["certify"],
    )  # fmt: skip
    request = SearchRequest(
        model=model_request(flags), cache=cache_folder(flags), prompt=flags["prompt"],
        config=config,
        allow=flags["allow"], include=flags["include"], step_down=flags["method"] is None,
        options=sweep_options(flags),
    )  # fmt: skip
    document = run_search(request, speaker(flags))
    if flags["as_json"]:
        print_document(document)
    else:
        from pessimal.cli.tables import print_search

        print_search(document, quiet=flags["quiet"])
    return 0


@click.command(
    epilog="\b\nExamples:\n"
    "  pessimal tune --trials 30\n"
    "  pessimal tune --model ./rm --trials 100 --storage sqlite:///study.db --budget 10000"
)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    required=True,
    metavar="N",
    help="How many trials the study shall have; earlier ones count.",
)
@click.option(
    "--storage", metavar="URL", help="Optuna storage; a journal file in the cache when left out."
)
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    default=4000,
    show_default=True,
    metavar="K",
    help="Forward tokens of each search.",
)
@click.option(
    "--length",
    type=int,
    default=3,
    show_default=True,
    metavar="N",
    help=f"Tokens of the replies, 1 to {LONGEST}.",
)
@click.option(
    "--prompts",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    metavar="N",
    help="Prompts to tune on; as many others are held out.",
)
@click.option("--seconds", type=float, metavar="S", help="Start no further trial after this time.")
@model_options
@tracking_options
@output_options
def tune(**flags: Any) -> int:
    """Tune the search's settings with Optuna, and keep them if they help on held-out prompts.

    The same command goes on with a study that was interrupted.
    """
    from pessimal.cli.flags import cache_folder, content_root, model_request, speaker, sweep_options
    from pessimal.pipeline.tune import TuneRequest, run_tune
    from pessimal.search.records import SearchConfig

    # What no search can be is refused before a model is loaded.
    SearchConfig(flags["length"], "optimal", budget=flags["budget"])
    request = TuneRequest(
        model=model_request(flags), content=content_root(flags), cache=cache_folder(flags),
        trials=flags["trials"], budget=flags["budget"], length=flags["length"],
        prompts=flags["prompts"], seconds=flags["seconds"], storage=flags["storage"],
        tracking_uri=flags["tracking_uri"], options=sweep_options(flags), quiet=flags["quiet"],
    )  # fmt: skip
    document = run_tune(request, speaker(flags))
    if flags["as_json"]:
        print_document(document)
        return 0
    from pessimal.cli.tables import print_study

    print_study(document, quiet=flags["quiet"])
    return 0
