"""Turn parsed flags into what the pipeline takes. Imported only when a command runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pessimal.cli.options import MODEL_FIELDS
from pessimal.models.records import ModelRequest
from pessimal.pipeline.session import Say
from pessimal.project import ContentRoot, find_content
from pessimal.scores.store import default_cache
from pessimal.sweep.runner import SweepOptions
from pessimal.text import show_text

Flags = Mapping[str, Any]


def model_request(flags: Flags) -> ModelRequest:
    """The model flags as a request."""
    return ModelRequest(**{name: flags[name] for name in MODEL_FIELDS})


def content_root(flags: Flags) -> ContentRoot:
    """The content root that ``--project`` names, or that is found."""
    return find_content(flags["project"])


def cache_folder(flags: Flags) -> Path:
    """The folder that ``--cache`` names, or the default."""
    cache: Path = flags["cache"] or default_cache()
    return cache


def sweep_options(flags: Flags) -> SweepOptions:
    """Batch rows and shard."""
    return SweepOptions(batch_rows=flags["batch_size"], shard=flags["shard"])


@contextmanager
def engine_options(flags: Flags) -> Iterator[SweepOptions]:
    """Batch rows, shard, and an engine of other processes, which is closed in the end."""
    options = sweep_options(flags)
    if flags["engine"] == "local":
        yield options
        return
    from pessimal.engines.ray import RayEngine

    with closing(RayEngine(flags["workers"])) as engine:
        yield replace(options, engine=engine)


def speaker(flags: Flags) -> Say:
    """Says what is happening, to stderr, so that stdout holds results only; silent if quiet."""
    if flags["quiet"]:
        return lambda text: None

    def say(text: str) -> None:
        sys.stderr.write(show_text(text) + "\n")
        sys.stderr.flush()

    return say
