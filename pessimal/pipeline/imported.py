"""Audits of published score tables: no model is loaded, one run a model."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pessimal.audit import Audit, Context, MetricSpec, Prompt, collect_audits, metric_specs
from pessimal.errors import UsageError
from pessimal.inputs import read_categories, read_valence
from pessimal.pipeline.audits import metrics_of, run_audits
from pessimal.pipeline.conclude import Timings, conclude, timed
from pessimal.pipeline.published import Published, publish_elo, publish_words
from pessimal.pipeline.rankings import median_gaps
from pessimal.pipeline.record import Findings
from pessimal.pipeline.scoring import Tables
from pessimal.pipeline.session import SEED, Say, versions
from pessimal.pipeline.spec import PromptBook, load_prompts
from pessimal.pipeline.work import WAIVERS
from pessimal.project import ContentRoot
from pessimal.text import show_text

if TYPE_CHECKING:
    from pessimal.gate.policy import Policy
    from pessimal.gate.waivers import Waiver
    from pessimal.lexicons import ValenceLexicon

PIPELINE = "import"
_UNKNOWN = (
    "revision", "family", "class", "head", "pooled", "template_sha256", "rendered", "bos", "pad",
    "dtype", "device", "attention", "path", "self_test_max_difference", "hashes",
)  # fmt: skip


@dataclass(frozen=True)
class ImportRequest:
    """What the user asked for."""

    files: tuple[Path, ...]
    """The score tables."""
    layout: Literal["elo", "words"]
    """How they are laid out."""
    content: ContentRoot
    """Where audits, prompts and policies are."""
    prompts: Path | None = None
    """YAML file with prompts by id."""
    categories: Path | None = None
    """File with word categories."""
    valence: str = "vader"
    """A valence lexicon's name, or a CSV file of words and valence."""
    policy: str = "report-only"
    """What is acceptable."""
    tracking_uri: str | None = None
    """Where to record it."""
    command: str = ""
    """The command line that makes this import again."""


@dataclass(frozen=True)
class ImportWork:
    """What was to be done for one model."""

    command: str
    """The command line that does it again."""
    audits: Mapping[str, Audit]
    """Every collected audit by name."""
    policy: Policy
    """What is acceptable."""
    waivers: tuple[Waiver, ...]
    """Failures that somebody answers for."""
    lists: Mapping[str, list[str]]
    """The words by list."""
    prompts: Mapping[str, Prompt]
    """The prompts of the scores by id."""
    pipeline_name: str = PIPELINE
    """What ran."""

    @property
    def specs(self) -> dict[str, MetricSpec]:
        """Every declared metric by its full name."""
        return metric_specs(dict(self.audits))


def run_import(request: ImportRequest, say: Say) -> dict[str, Any]:
    """Audit published scores. Every file is read and checked before anything is recorded.

    Returns:
        The ``pessimal.import/1`` document: ``runs`` holds an audit document a model, ``exit_code``
        the worst run's; ``rank_gaps`` the models' median against the human ranking, by prompt,
        where more than one model was scored on one.

    Raises:
        UsageError: a file or a flag is wrong; the message names the file and the row.
        PessimalError: a lexicon is missing, or the runs can't be recorded.
    """
    from pessimal.gate.policy import load_policy
    from pessimal.gate.records import EXIT_CODES, worst
    from pessimal.gate.waivers import load_waivers
    from pessimal.tracking import Tracker

    book = load_prompts(request.content.pipelines)
    if request.prompts is not None:
        book = extend(book, request.prompts)
    publish = publish_elo if request.layout == "elo" else publish_words
    models = publish(request.files, book)
    categories = None if request.categories is None else read_categories(request.categories)
    lexicon = _lexicon(request.valence)
    audits = collect_audits(request.content.audits)
    specs = metric_specs(audits)
    policy = load_policy(request.policy, request.content.expectations, specs, audits)
    waivers = load_waivers(request.content.expectations / WAIVERS, specs)
    tracker = Tracker(request.tracking_uri, request.content.home)
    runs = []
    for model in models:
        say(f"Auditing the scores of {model.id}")
        work = ImportWork(request.command, audits, policy, waivers, model.lists, model.prompts)
        context = Context(
            prompts=model.prompts, seed=SEED, words=model.words.frame, human=model.human,
            categories=categories, lexicons={"valence": lexicon},
        )  # fmt: skip
        runs.append(_audit(tracker, work, model, context, lexicon, say))
    verdict = worst(run["verdict"] for run in runs)
    return {
        "schema": "pessimal.import/1",
        "verdict": verdict,
        "exit_code": EXIT_CODES[verdict],
        "runs": runs,
        "rank_gaps": median_gaps(models),
    }


def extend(book: PromptBook, file: Path) -> PromptBook:
    """The book with a user's prompts on top.

    A prompt whose framing the file doesn't say has that of the book's prompt with the same text.

    Raises:
        UsageError: ``framing_unknown``: neither says it.
    """
    from pessimal.inputs import read_prompts

    framings = {prompt.text: prompt.framing for prompt in book.prompts.values()}
    own = {}
    for key, entry in read_prompts(file).items():
        framing = entry.framing or framings.get(entry.text)
        if framing is None:
            raise UsageError(
                "framing_unknown",
                f"{file}, prompt {show_text(key, 60)!r}: it doesn't say whether it asks for the"
                " best or the worst.",
                f"Write: {show_text(key, 60)}: {{framing: positive, text: ...}}, or negative.",
            )
        own[key] = Prompt(key, entry.text, framing)
    return PromptBook(
        {**own, **{k: v for k, v in book.prompts.items() if k not in own}}, book.groups
    )


def _audit(
    tracker: Any, work: ImportWork, model: Published, context: Context, lexicon: ValenceLexicon,
    say: Say,
) -> dict[str, Any]:  # fmt: skip
    timings: Timings = {}
    with timed(timings, "audits_s"):
        outcomes = run_audits(work.audits, context, list(work.audits))
    notes = [*model.notes, f"The valence lexicon is {lexicon.name}."]
    findings = Findings(
        work=work,
        model={"id": model.id} | dict.fromkeys(_UNKNOWN) | {"notes": notes},
        tables=Tables(None, [], [], model.words),
        outcomes=outcomes,
        metrics=metrics_of(outcomes),
        timings=timings,
        extra={"imported": model.sources, "reruns": model.reruns},
    )
    tags = {"model": model.id, "pipeline": PIPELINE}
    with tracker.start(f"{model.id} {PIPELINE}", tags, _key(work, model, context, lexicon)) as run:
        say(f"Recording run {run.run_id}")
        return conclude(run, findings)


def _lexicon(name: str) -> ValenceLexicon:
    from pessimal.lexicons import ValenceLexicon, valence

    if re.fullmatch(r"[a-z]+", name) and not Path(name).exists():
        # Words that somebody's table holds are looked up as they are, slurs included.
        return valence(name, slurs=True)
    path = Path(name)
    return ValenceLexicon(path.name, read_valence(path))


def _key(work: ImportWork, model: Published, context: Context, lexicon: ValenceLexicon) -> str:
    """What makes two imports the same work."""
    parts: Sequence[object] = (
        model.id, model.sources, work.policy.sha256, work.command, versions(),
        [vars(prompt) for prompt in work.prompts.values()], context.categories, lexicon.scores,
    )  # fmt: skip
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
