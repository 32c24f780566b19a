"""Flags that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pessimal.errors import UsageError
from pessimal.sweep.blocks import parse_shard

Command = TypeVar("Command", bound=Callable[..., Any])


class Shard(click.ParamType[tuple[int, int]]):
    """``i/N``: the i-th of N shares, counted from one."""

    name = "i/N"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        """Read ``i/N`` into (i, N)."""
        if isinstance(value, tuple):
            return value[0], value[1]
        try:
            return parse_shard(str(value))
        except UsageError:
            self.fail(f"{value!r} is not a share such as 1/2, with i from 1 to N", param, ctx)


def output_options(command: Command) -> Command:
    """``--json``, ``--quiet`` and ``--project``."""
    for option in (
        click.option("--project", type=click.Path(path_type=Path), metavar="DIR",
                     help="Folder with audits/, pipelines/ and expectations/."),
        click.option("--quiet", is_flag=True, help="Print results only."),
        click.option("--json", "as_json", is_flag=True,
                     help="Print one JSON document to stdout, all else to stderr."),
    ):  # fmt: skip
        command = option(command)
    return command


def tracking_options(command: Command) -> Command:
    """``--tracking-uri``."""
    return click.option(
        "--tracking-uri", metavar="URI",
        help="MLflow tracking server; MLFLOW_TRACKING_URI, else mlruns/ in the project.",
    )(command)  # fmt: skip


def engine_flags(command: Command) -> Command:
    """``--engine`` and ``--workers``."""
    for option in (
        click.option("--workers", type=click.IntRange(min=1), metavar="N",
                     help="Workers of --engine ray; by default one a GPU, or one a CPU."),
        click.option("--engine", type=click.Choice(["local", "ray"]), default="local",
                     show_default=True,
                     help="Where the scoring runs: here, or on the workers of a Ray cluster."),
    ):  # fmt: skip
        command = option(command)
    return command


def model_options(command: Command) -> Command:
    """The flags that say which model to load and how."""
    for option in (
        click.option("--cache", type=click.Path(path_type=Path), metavar="DIR",
                     help="Folder for scores and converted models, else PESSIMAL_CACHE."),
        click.option("--shard", type=Shard(), help="Score only the i-th of N shares of the work."),
        click.option("--batch-size", type=click.IntRange(min=1), metavar="ROWS",
                     help="Replies a batch; chosen by length and memory when left out."),
        click.option("--bos", type=click.Choice(["once", "double"]), default="once",
                     show_default=True,
                     help="double puts a second BOS in front, as the paper's code did."),
        click.option("--device", default="auto", show_default=True,
                     help="auto, cpu, cuda, cuda:1, mps; auto-map: layers on all GPUs."),
        click.option("--dtype", type=click.Choice(["float32", "bfloat16", "float16"]),
                     default="float32", show_default=True, help="Precision of the forward pass."),
        click.option("--allow-pickle", is_flag=True,
                     help="Load weights that aren't safetensors, though they can run code."),
        click.option("--trust-remote-code", is_flag=True,
                     help="Run the model's own Python code; needs --revision with 40 digits."),
        click.option("--adapter", metavar="DIR", help="PEFT adapter to put on the model."),
        click.option("--template", type=click.Path(path_type=Path), metavar="FILE",
                     help="Chat template (jinja) to use instead of the tokenizer's own."),
        click.option("--calibrate-with", metavar="M",
                     help="The weights behind an endpoint, to compare its scores with."),
        click.option("--endpoint", metavar="DIALECT",
                     help="What the server at --model URL speaks: openrlhf, sglang, vllm-classify,"
                     " vllm-pooling, or a JSON file (docs/endpoints.md)."),
        click.option("--judge-template", type=click.Path(path_type=Path), metavar="FILE",
                     help="The question that --kind judge is asked, in jinja."),
        click.option("--with-suffix", is_flag=True,
                     help="Count what the template writes after a reply, in --kind implicit."),
        click.option("--beta", type=float, default=0.1, show_default=True,
                     help="The factor of --kind implicit."),
        click.option("--reference", metavar="M", help="The reference model of --kind implicit."),
        click.option("--kind", type=click.Choice(["reward", "implicit", "judge"]),
                     default="reward", show_default=True,
                     help="A reward model's head; a policy against its --reference; or any"
                     " instruct model's Yes less its No."),
        click.option("--tokenizer", metavar="DIR", help="Tokenizer other than the model's own."),
        click.option("--revision", metavar="COMMIT", help="Revision of a hub id."),
        click.option("--model", default="demo", show_default=True, metavar="M",
                     help="A folder, a hub id (org/name@revision), demo or demo-biased; or the URL"
                     " of an --endpoint."),
    ):  # fmt: skip
        command = option(command)
    return command


MODEL_FIELDS = (
    "model", "revision", "tokenizer", "template", "adapter", "trust_remote_code", "allow_pickle",
    "dtype", "device", "bos", "kind", "reference", "beta", "with_suffix", "judge_template",
    "endpoint", "calibrate_with",
)  # fmt: skip
