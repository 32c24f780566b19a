"""What an audit is to do, read and checked before any model is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pessimal.audit import Audit, MetricSpec, Prompt, collect_audits, metric_specs
from pessimal.models.records import ModelRequest
from pessimal.pipeline.spec import Pipeline, load_pipeline, load_prompts
from pessimal.project import ContentRoot
from pessimal.sweep.runner import SweepOptions

if TYPE_CHECKING:
    from pessimal.gate.policy import Policy
    from pessimal.gate.waivers import Waiver

WAIVERS = "waivers.yaml"


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
    quiet: bool = False
    """No progress bars."""
    command: str = ""
    """The command line that makes this audit again."""


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
    """The prompts of each scoring step: ``vocabulary``; ``words``, ``as_text`` if planned."""
    lists: Mapping[str, list[str]]
    """The word lists by name; none without the step ``words``."""

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
        UsageError: one of them is missing or says what it can't.
    """
    from pessimal.gate.policy import load_policy
    from pessimal.gate.waivers import load_waivers
    from pessimal.lexicons import word_lists

    content = request.content
    audits = collect_audits(content.audits)
    specs = metric_specs(audits)
    pipeline = load_pipeline(request.pipeline, content.pipelines)
    book = load_prompts(content.pipelines)
    planned = {
        "vocabulary": pipeline.vocabulary,
        "words": pipeline.words,
        "as_text": pipeline.as_text,
    }
    return Work(
        request=request,
        audits=audits,
        pipeline=pipeline,
        policy=load_policy(request.policy, content.expectations, specs, audits),
        waivers=load_waivers(content.expectations / WAIVERS, specs),
        steps={name: book.select(step.prompts) for name, step in planned.items() if step},
        lists=word_lists() if pipeline.words else {},
    )
