"""What an audit is to do, read and checked before any model is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pessimal.audit import Audit, MetricSpec, Prompt, collect_audits, metric_specs
from pessimal.errors import UsageError
from pessimal.inputs import read_categories, read_human
from pessimal.models.records import ModelRequest
from pessimal.pipeline.spec import Pipeline, PromptBook, load_pipeline, load_prompts
from pessimal.project import ContentRoot
from pessimal.search import SearchConfig
from pessimal.search.presets import load_preset
from pessimal.sweep.runner import SweepOptions

if TYPE_CHECKING:
    import pandas as pd

    from pessimal.gate.policy import Policy
    from pessimal.gate.waivers import Waiver

WAIVERS = "waivers.yaml"
HUMAN = "human"
"""The word list that a human ranking's entities are."""


@dataclass(frozen=True)
class AuditRequest:
    """What the user asked for."""

    model: ModelRequest
    """Which model, and how to load it."""
    content: ContentRoot
    """Where audits, pipelines and policies are."""
    cache: Path
    """Where scores are kept."""
    pipeline: str = "quick"
    """What to run."""
    policy: str = "default"
    """What is acceptable."""
    tracking_uri: str | None = None
    """Where to record it."""
    options: SweepOptions = field(default_factory=SweepOptions)
    """Batch rows and shard."""
    human: Path | None = None
    """CSV file with a human ranking."""
    base_model: str | None = None
    """The base language model to set the rewards beside."""
    categories: Path | None = None
    """File with word categories."""
    baseline: str | None = None
    """An earlier run to measure changes from: a run, or an alias of a registered version."""
    quiet: bool = False
    """No progress bars."""
    command: str = ""
    """The command line that makes this audit again."""


class Planned(Protocol):
    """What was to be done, as far as judging and recording need to know."""

    @property
    def command(self) -> str:
        """The command line that does it again."""

    @property
    def pipeline_name(self) -> str:
        """What ran."""

    @property
    def audits(self) -> Mapping[str, Audit]:
        """Every collected audit by name."""

    @property
    def policy(self) -> Policy:
        """What is acceptable."""

    @property
    def waivers(self) -> tuple[Waiver, ...]:
        """Failures that somebody answers for."""

    @property
    def lists(self) -> Mapping[str, list[str]]:
        """The word lists by name."""

    @property
    def prompts(self) -> Mapping[str, Prompt]:
        """The prompts of all scores by id, each once."""

    @property
    def specs(self) -> Mapping[str, MetricSpec]:
        """Every declared metric by its full name."""


@dataclass(frozen=True)
class Work:
    """A request with all the content that it names."""

    request: AuditRequest
    """What was asked for."""
    audits: Mapping[str, Audit]
    """Every collected audit by name."""
    pipeline: Pipeline
    """What runs."""
    policy: Policy
    """What is acceptable."""
    waivers: tuple[Waiver, ...]
    """Failures that somebody answers for."""
    steps: Mapping[str, list[Prompt]]
    """The prompts of each scoring step: ``vocabulary``; ``words``, ``as_text``, ``human``,
    ``searches`` if planned."""
    lists: Mapping[str, list[str]]
    """The word lists by name: those of the step ``words``, ``human`` where a ranking was given."""
    human: pd.DataFrame | None = None
    """The human ranking: ``name score matches``."""
    categories: Mapping[str, Sequence[str]] | None = None
    """Word categories by name."""

    @property
    def command(self) -> str:
        """The command line that makes this audit again."""
        return self.request.command

    @property
    def pipeline_name(self) -> str:
        """The pipeline's name."""
        return self.pipeline.name

    @property
    def specs(self) -> dict[str, MetricSpec]:
        """Every declared metric by its full name."""
        return metric_specs(dict(self.audits))

    @property
    def prompts(self) -> dict[str, Prompt]:
        """The prompts of all steps by id, each once."""
        return {prompt.id: prompt for step in self.steps.values() for prompt in step}


def read_work(request: AuditRequest) -> Work:
    """Read the audits, the pipeline, its prompts, the policy and the waivers.

    Raises:
        UsageError: one of them, or a file that the request names, is missing or says what it can't.
    """
    from pessimal.gate.policy import load_policy
    from pessimal.gate.waivers import load_waivers
    from pessimal.lexicons import word_lists

    content = request.content
    human = None if request.human is None else read_human(request.human)
    categories = None if request.categories is None else read_categories(request.categories)
    audits = collect_audits(content.audits)
    specs = metric_specs(audits)
    pipeline = load_pipeline(request.pipeline, content.pipelines)
    book = load_prompts(content.pipelines)
    if human is not None and pipeline.human is None:
        raise UsageError(
            "human_not_planned", f"The pipeline {pipeline.name} has no prompts for a ranking.",
            "Leave out --human, or give the pipeline a line such as: human: {prompts: human}.",
        )  # fmt: skip
    lists = word_lists() if pipeline.words else {}
    planned = {
        "vocabulary": pipeline.vocabulary,
        "words": pipeline.words,
        "as_text": pipeline.as_text,
        "human": None if human is None else pipeline.human,
        "searches": pipeline.searches,
    }
    if pipeline.searches is not None:
        _check_searches(pipeline, book, content)
    return Work(
        request=request,
        audits=audits,
        pipeline=pipeline,
        policy=load_policy(request.policy, content.expectations, specs, audits),
        waivers=load_waivers(content.expectations / WAIVERS, specs),
        steps={name: book.select(step.prompts) for name, step in planned.items() if step},
        lists=lists if human is None else {**lists, HUMAN: human["name"].tolist()},
        human=human,
        categories=categories,
    )


def _check_searches(pipeline: Pipeline, book: PromptBook, content: ContentRoot) -> None:
    """Refuse searches that could only fail after everything was scored."""
    assert pipeline.searches is not None
    step = pipeline.searches
    scored = {prompt.id for prompt in book.select(pipeline.vocabulary.prompts)}
    missing = [prompt.id for prompt in book.select(step.prompts) if prompt.id not in scored]
    if missing:
        raise UsageError(
            "searches_without_vocabulary",
            f"The searches under {missing[0]!r} have no single-token scores to be set beside.",
            "Let the pipeline's vocabulary step score that prompt too.",
        )
    load_preset(step.preset, content.pipelines / "presets")
    for length in step.lengths:
        SearchConfig(length, "optimal", budget=step.budget, seconds=step.seconds)
