"""Tune the search's settings on one model: a study, a held-out check, a preset, one MLflow run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.audit import Figure, Prompt
from pessimal.errors import UsageError
from pessimal.models.records import ModelRequest
from pessimal.pipeline.scoring import score_vocabulary
from pessimal.pipeline.search import search_prompt
from pessimal.pipeline.searches import space_of
from pessimal.pipeline.session import Say, Session, open_session
from pessimal.pipeline.spec import load_prompts
from pessimal.project import ContentRoot
from pessimal.search import DIRECTIONS, SearchConfig, Settings, Space
from pessimal.search.presets import Preset, load_preset, store_preset
from pessimal.sweep.progress import SweepProgress
from pessimal.sweep.runner import SweepOptions

if TYPE_CHECKING:
    from pessimal.search.tuning import Evaluate, HeldOut, Study, Trial
    from pessimal.tracking import RunHandle

SCHEMA = "pessimal.tune/1"
PROMPTS = "nine_and_nine"
"""The group of prompts that cases are taken from: every second one is held out."""
SINGLES = 2000
"""Single tokens scored under each prompt, as a search's start."""
PRESET = "default"


@dataclass(frozen=True)
class TuneRequest:
    """What the user asked for."""

    model: ModelRequest
    """Which model, and how to load it."""
    content: ContentRoot
    """Where prompts are, and where the preset goes."""
    cache: Path
    """Where scores, searches and the journal are kept."""
    trials: int
    """How many finished trials the study shall have."""
    budget: int
    """Forward tokens of each search."""
    length: int = 3
    """Tokens of the replies."""
    prompts: int = 4
    """Prompts to tune on, and as many held out."""
    seconds: float | None = None
    """Start no further trial after this time."""
    storage: str | None = None
    """An Optuna URL; a journal file in the cache by default."""
    tracking_uri: str | None = None
    """Where to record it."""
    options: SweepOptions = field(default_factory=SweepOptions)
    """Batch rows."""
    quiet: bool = False
    """No progress bars."""


@dataclass(frozen=True)
class _Case:
    prompt: Prompt
    direction: str
    space: Space
    mean: float
    sd: float


def run_tune(request: TuneRequest, say: Say) -> dict[str, Any]:
    """Run a study or go on with one, check its best on held-out prompts, and keep what helps.

    Returns:
        The ``pessimal.tune/1`` document.

    Raises:
        UsageError: too few prompts, or the budget is below one step.
        PessimalError: the model or the storage is refused, or the work could not be done.
    """
    from pessimal.search.tuning import open_storage, run_study
    from pessimal.tracking import Tracker, show_uri
    from pessimal.tracking.store import TUNING

    tuned_on, held_out = _prompts(request)
    tracker = Tracker(request.tracking_uri, request.content.home)
    session = open_session(request.model, request.cache, tuned_on[0], request.options, say)
    key = _key(session, request, [*tuned_on, *held_out])
    storage = open_storage(request.storage, request.cache / "studies" / f"{key}.log")
    cases = _cases(session, request, [*tuned_on, *held_out], say)
    names = {
        group: [name for name, case in cases.items() if case.prompt in prompts]
        for group, prompts in (("tuning", tuned_on), ("held out", held_out))
    }

    def evaluate(name: str, settings: Settings, seed: int) -> float:
        case = cases[name]
        config = SearchConfig(
            request.length, case.direction, budget=request.budget, seed=seed, settings=settings,  # type: ignore[arg-type]
        )  # fmt: skip
        slot = session.slot(case.prompt)
        found = search_prompt(session, slot, config, case.space, request.cache)
        return config.sign * (found.reward - case.mean) / case.sd

    with tracker.start(
        f"tune {session.source.id}", {"model": session.source.id}, key, TUNING
    ) as run:
        say(f"Recording run {run.run_id}")

        def done(trial: Trial) -> None:
            value = "pruned" if trial.value is None else f"{trial.value:.3f} SD"
            say(f"Trial {trial.number}: {value}")
            _log_trial(run, session, trial, names["tuning"])

        study = run_study(
            f"search-{key[:12]}", storage, names["tuning"], evaluate, request.trials,
            seconds=request.seconds, done=done,
        )  # fmt: skip
        say(f"Checking the best of {len(study.trials)} trials on {len(held_out)} other prompts")
        outcome = _hold_out(study, names["held out"], evaluate, quiet=request.quiet)
        preset, place = _adopt(request, session, outcome)
        document = _document(request, session, study, outcome, preset)
        document["study"]["storage"] = (
            "journal" if request.storage is None else show_uri(request.storage)
        )
        document["study"]["run_id"] = run.run_id
        document["preset_file"] = None if place is None else str(place)
        _log_study(run, session, request, document, study)
    return document


def _hold_out(study: Study, cases: list[str], evaluate: Evaluate, *, quiet: bool) -> HeldOut:
    from pessimal.search.tuning import held_out_evaluations, hold_out

    total = held_out_evaluations(study, cases)
    with SweepProgress(total, "Held-out searches", quiet=quiet) as progress:

        def held_out(name: str, settings: Settings, seed: int) -> float:
            value = evaluate(name, settings, seed)
            progress.advance(1)
            return value

        return hold_out(study, cases, held_out)


def _prompts(request: TuneRequest) -> tuple[list[Prompt], list[Prompt]]:
    """Prompts to tune on and prompts held out, both framings in each."""
    book = load_prompts(request.content.pipelines)
    chosen = book.select(PROMPTS)
    sides = [[p for p in chosen if p.framing == side] for side in ("positive", "negative")]
    mixed = [prompt for pair in zip(*sides, strict=False) for prompt in pair]
    if len(mixed) < 2 * request.prompts:
        raise UsageError(
            "too_few_prompts",
            f"There are {len(mixed)} prompts in the group {PROMPTS}, not {2 * request.prompts}.",
            f"Choose --prompts of at most {len(mixed) // 2}.",
        )
    return mixed[: request.prompts], mixed[request.prompts : 2 * request.prompts]


def _cases(
    session: Session, request: TuneRequest, prompts: list[Prompt], say: Say
) -> dict[str, _Case]:
    ids = session.planned_ids(SINGLES)
    say(f"Scoring {len(ids):,} single tokens under {len(prompts)} prompts")
    table, _ = score_vocabulary(session, prompts, ids, quiet=request.quiet)
    cases = {}
    for prompt, direction in product(prompts, DIRECTIONS):
        rewards = table.frame[f"score:{prompt.id}"].to_numpy(float)
        cases[f"{prompt.id} {direction}"] = _Case(
            prompt, direction, space_of(session, table.frame, prompt),
            float(rewards.mean()), float(rewards.std()),
        )  # fmt: skip
    return cases


def _adopt(
    request: TuneRequest, session: Session, outcome: HeldOut
) -> tuple[Preset | None, Path | None]:
    """The preset that the study leads to, and its file; none where tuning didn't help."""
    if not outcome.better:
        return None, None
    folder = request.content.pipelines / "presets"
    current = load_preset(PRESET, folder)
    preset = Preset(PRESET, current.version + 1, outcome.settings)
    if request.content.packaged:
        return preset, None
    comment = (
        f"Tuned on {session.source.id}: {outcome.difference:+.3f} SD against the defaults on"
        f" held-out prompts (95 % CI {outcome.ci_low:.3f} to {outcome.ci_high:.3f})."
    )
    return preset, store_preset(preset, folder, comment)


def _document(
    request: TuneRequest, session: Session, study: Study, outcome: HeldOut, preset: Preset | None
) -> dict[str, Any]:
    states = [trial.state for trial in study.trials]
    said = (
        "the tuned settings beat the defaults on held-out prompts"
        if outcome.better
        else "tuning did not beat the defaults on held-out prompts: the defaults stay"
    )
    return {
        "schema": SCHEMA,
        "model": session.document(),
        "study": {
            "name": study.name, "complete": states.count("complete"),
            "pruned": states.count("pruned"), "requeued": study.requeued,
            "budget": request.budget, "length": request.length, "prompts": request.prompts,
            "importance": dict(study.importance),
        },
        "best": {
            "settings": asdict(outcome.settings), "adopted": outcome.better, "verdict": said,
            "preset": None if preset is None else preset.document(),
        },
        "trials": [asdict(trial) for trial in study.trials],
        "held_out": {
            "difference": outcome.difference, "ci_low": outcome.ci_low, "ci_high": outcome.ci_high,
            "cases": outcome.cases, "seeds": outcome.seeds, "unit": "SD",
            "candidates": [
                {"trial": None if number < 0 else number, "mean": mean}
                for number, mean in outcome.candidates
            ],
        },
    }  # fmt: skip


def _log_trial(run: RunHandle, session: Session, trial: Trial, cases: list[str]) -> None:
    from pessimal.tracking.children import log_child

    metrics = {
        f"value.{case.replace(' ', '.')}": value
        for case, value in zip(cases, trial.values, strict=False)
    }
    if trial.value is not None:
        metrics["value"] = trial.value
    shown: Mapping[str, object] = {"model": session.source.id, "trial": trial.number}
    log_child(
        run, f"trial.{trial.number}", f"trial {trial.number}",
        params={**shown, **asdict(trial.settings)}, metrics=metrics,
        status="FINISHED" if trial.value is not None else "KILLED",
    )  # fmt: skip


def _log_study(
    run: RunHandle, session: Session, request: TuneRequest, document: dict[str, Any], study: Study
) -> None:
    """Parameters, the document, and the two plots: how trials went, and what mattered."""
    import pandas as pd

    from pessimal.reports.figures import draw

    run.log_params({"model": session.source.id, "revision": session.source.revision,
                    "trials": len(study.trials), "budget": request.budget,
                    "length": request.length})  # fmt: skip
    run.set_tags({"adopted": document["best"]["adopted"]})
    values = [trial.value for trial in study.trials if trial.value is not None]
    numbers = [trial.number for trial in study.trials if trial.value is not None]
    tables = {
        "history": pd.DataFrame({
            "trial": numbers * 2, "value": values + pd.Series(values).cummax().tolist(),
            "line": ["trial"] * len(values) + ["best so far"] * len(values),
        }),
        "importance": pd.DataFrame(
            study.importance.items(), columns=["setting", "importance"]
        ).astype({"importance": float}),
    }  # fmt: skip
    figures = [
        Figure("history", "How did the trials go?", "lines", "history", x="trial", y="value",
               group="line", x_label="trial", y_label="SD above the mean single token",
               caption=f"{len(values)} complete trials."),
    ]  # fmt: skip
    if study.importance:
        figures.append(
            Figure("importance", "Which settings mattered?", "bars", "importance", x="importance",
                   y="setting", x_label="share of variance", caption="fANOVA over the trials.")
        )  # fmt: skip
    for figure in figures:
        drawing = draw(figure, tables)
        run.log_bytes(drawing.png, f"figures/{figure.name}.png")
        run.log_text(drawing.svg, f"figures/{figure.name}.svg")
    run.log_text(json.dumps(document, indent=1, allow_nan=False, default=str), "tune.json")


def _key(session: Session, request: TuneRequest, prompts: list[Prompt]) -> str:
    """What makes two studies the same, so that one goes on with what the other left."""
    parts = {
        "model": session.model.hashes.items(), "budget": request.budget,
        "length": request.length, "prompts": [prompt.text for prompt in prompts],
    }  # fmt: skip
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
