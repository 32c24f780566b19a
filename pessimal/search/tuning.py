"""Tuning the search's settings with Optuna; the only module that imports it.

A trial runs every case (a prompt, a length, a direction) with one seed and a fixed budget, and
reports each case's value, so that bad trials stop early. The best of noisy trials is luck: the best
few are run again on cases that no trial saw, and what is chosen there is set beside the defaults on
further seeds.
"""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pessimal.errors import PessimalError
from pessimal.search.records import Settings
from pessimal.statistics.bootstrap import percentile_interval, resample_counts

if TYPE_CHECKING:
    import optuna

Evaluate = Callable[[str, Settings, int], float]
"""Value of a case with settings and a seed, higher is better, in SD of single tokens."""
STARTUP_TRIALS = 10
IMPORTANCE_TRIALS = 6
"""Complete trials below which importance would be guessed."""
BEST = 3
"""Trials that are run again on held-out cases."""
FRESH_SEEDS = 3
"""Seeds of each of the two held-out rounds."""
FIRST_FRESH_SEED = 1000


@dataclass(frozen=True)
class Trial:
    """One finished trial."""

    number: int
    """Its number in the study."""
    state: str
    """``complete``, ``pruned`` or ``failed``."""
    settings: Settings
    """What it ran with."""
    values: tuple[float, ...]
    """The value of each case that it ran, in the order of the cases."""
    value: float | None
    """Their mean, where it ran all."""


@dataclass(frozen=True)
class HeldOut:
    """The chosen settings beside the defaults, on cases and seeds that nothing was chosen on."""

    settings: Settings
    """The best of the candidates on the first held-out round."""
    difference: float
    """Mean of tuned less untuned over cases and seeds of the second round, in SD."""
    ci_low: float
    """Lower end of its 95 % bootstrap interval over cases."""
    ci_high: float
    """Upper end."""
    cases: int
    """How many cases there are."""
    seeds: int
    """Seeds a case."""
    candidates: tuple[tuple[int, float], ...]
    """Each candidate trial's number and its mean in the first round; -1 are the defaults."""

    @property
    def better(self) -> bool:
        """Whether tuning helped: the whole interval is above zero."""
        return self.ci_low > 0


@dataclass(frozen=True)
class Study:
    """What a study found."""

    name: str
    """Its name in the storage."""
    trials: tuple[Trial, ...]
    """Every finished trial."""
    requeued: int
    """Trials that a killed process had left running."""
    importance: Mapping[str, float]
    """Share of the trials' variance that each setting explains; empty for few trials."""


def open_storage(storage: str | None, journal: Path) -> Any:
    """An Optuna storage: a URL's, else a journal file, which one host may share.

    Raises:
        PessimalError: ``storage_unusable``.
    """
    import optuna
    from optuna.storages.journal import JournalFileBackend

    try:
        if storage is None:
            journal.parent.mkdir(parents=True, exist_ok=True)
            return optuna.storages.JournalStorage(JournalFileBackend(str(journal)))
        return optuna.storages.get_storage(storage)
    except Exception as error:
        # The message may hold the URL's password.
        raise PessimalError(
            "storage_unusable",
            f"Optuna can't use this storage ({type(error).__name__}).",
            "Name a URL that Optuna knows, such as sqlite:///study.db, and its driver installed.",
        ) from None


def run_study(
    name: str,
    storage: Any,
    cases: Sequence[str],
    evaluate: Evaluate,
    trials: int,
    *,
    seconds: float | None = None,
    seed: int = 0,
    done: Callable[[Trial], None] | None = None,
) -> Study:
    """Run trials until there are so many, the earlier ones of the same study counted in.

    Args:
        name: the study; a later run with its name and storage goes on with it.
        storage: see `open_storage`.
        cases: what each trial is valued on.
        evaluate: the value of a case.
        trials: how many finished trials there shall be.
        seconds: start no further trial after this time.
        seed: seed of the sampler, and of every trial's searches.
        done: told of every trial that this call finishes.
    """
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        # Which trials there are decides what a resumed sampler draws.
        study = optuna.create_study(
            study_name=name, storage=storage, direction="maximize", load_if_exists=True,
            sampler=optuna.samplers.TPESampler(n_startup_trials=STARTUP_TRIALS, seed=seed),
            pruner=_pruner(),
        )  # fmt: skip
        if not study.get_trials(deepcopy=False):
            study.enqueue_trial(_as_params(Settings()))
        requeued = _requeue(study)

        def objective(trial: optuna.Trial) -> float:
            for key, mark in _owner().items():
                trial.set_user_attr(key, mark)
            settings = _suggest(trial)
            values: list[float] = []
            for step, case in enumerate(cases):
                values.append(evaluate(case, settings, seed))
                trial.report(values[-1], step)
                if step + 1 < len(cases) and trial.should_prune():
                    raise optuna.TrialPruned
            return float(np.mean(values))

        def tell(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
            if done is not None:
                done(_trial(trial))

        finished = len(_finished(study))
        if finished < trials:
            study.optimize(objective, trials - finished, timeout=seconds, callbacks=[tell])
        found = tuple(_trial(trial) for trial in _finished(study))
        return Study(name, found, requeued, _importance(study))
    finally:
        optuna.logging.set_verbosity(verbosity)


def hold_out(study: Study, cases: Sequence[str], evaluate: Evaluate, *, seed: int = 0) -> HeldOut:
    """Run the best trials on held-out cases, and the best of those beside the defaults.

    Args:
        study: the finished study.
        cases: cases that no trial saw.
        evaluate: the value of a case.
        seed: of the bootstrap.

    Raises:
        PessimalError: ``no_trial``, none was completed.
    """
    complete = [trial for trial in study.trials if trial.value is not None]
    if not complete:
        raise PessimalError(
            "no_trial", "No trial of the study was completed.", "Run more --trials, or longer."
        )
    ranked = sorted(complete, key=lambda trial: -(trial.value or 0.0))
    options = {trial.number: trial.settings for trial in ranked[:BEST]}
    options[-1] = Settings()
    first = range(FIRST_FRESH_SEED, FIRST_FRESH_SEED + FRESH_SEEDS)
    means = {
        number: float(np.mean([evaluate(case, one, s) for case in cases for s in first]))
        for number, one in options.items()
    }
    chosen = max((number for number in options if number >= 0), key=means.__getitem__)
    second = range(first.stop, first.stop + FRESH_SEEDS)
    differences = np.array([
        [evaluate(case, options[chosen], s) - evaluate(case, options[-1], s) for s in second]
        for case in cases
    ])  # fmt: skip
    by_case = differences.mean(axis=1)
    counts = resample_counts(np.random.default_rng(seed), len(cases))
    low, high = percentile_interval(counts @ by_case / len(cases))
    return HeldOut(
        settings=options[chosen], difference=float(by_case.mean()), ci_low=low, ci_high=high,
        cases=len(cases), seeds=FRESH_SEEDS, candidates=tuple(means.items()),
    )  # fmt: skip


def held_out_evaluations(study: Study, cases: Sequence[str]) -> int:
    """How many times `hold_out` asks for a case's value."""
    complete = sum(trial.value is not None for trial in study.trials)
    # The best and the defaults in the first round, the chosen and the defaults in the second.
    return (min(complete, BEST) + 1 + 2) * len(cases) * FRESH_SEEDS


def _pruner() -> optuna.pruners.BasePruner:
    """Stops a trial whose cases are worse than the best one's by a signed-rank test."""
    import optuna

    with warnings.catch_warnings():
        # It may change with Optuna, whose major version is bounded.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.pruners.WilcoxonPruner(p_threshold=0.1, n_startup_steps=3)


def _suggest(trial: optuna.Trial) -> Settings:
    return replace(
        Settings(),
        width=trial.suggest_int("width", 16, 256, log=True),
        top_k=trial.suggest_int("top_k", 16, 1024, log=True),
        pull=trial.suggest_float("pull", 0.0, 1.0),
        momentum=trial.suggest_float("momentum", 0.0, 0.9),
        prior_share=trial.suggest_float("prior_share", 0.0, 0.8),
        uniform_share=trial.suggest_float("uniform_share", 0.0, 0.2),
        merge=trial.suggest_int("merge", 0, 32),
        patience=trial.suggest_int("patience", 1, 8),
        leaps=trial.suggest_int("leaps", 0, 32),
    )


def _as_params(settings: Settings) -> dict[str, Any]:
    return {name: value for name, value in asdict(settings).items() if name != "start_share"}


def _owner() -> dict[str, Any]:
    return {"host": platform.node(), "pid": os.getpid()}


def _requeue(study: optuna.Study) -> int:
    """Fail trials whose process is gone, and queue their settings again."""
    from optuna.trial import TrialState

    left = [
        trial for trial in study.get_trials(states=(TrialState.RUNNING,))
        if trial.user_attrs.get("host") == platform.node() and not _lives(trial.user_attrs["pid"])
    ]  # fmt: skip
    for trial in left:
        study.tell(trial.number, state=TrialState.FAIL)
        if trial.params:
            study.enqueue_trial(trial.params)
    return len(left)


def _lives(pid: int) -> bool:
    if pid == os.getpid():
        return False
    import psutil  # type: ignore[import-untyped]

    return bool(psutil.pid_exists(pid))


def _finished(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    from optuna.trial import TrialState

    return study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))


def _trial(trial: optuna.trial.FrozenTrial) -> Trial:
    reported = sorted(trial.intermediate_values.items())
    names = {"COMPLETE": "complete", "PRUNED": "pruned"}
    complete = trial.state.name == "COMPLETE"
    return Trial(
        trial.number, names.get(trial.state.name, "failed"), Settings.read(trial.params),
        tuple(value for _, value in reported), trial.value if complete else None,
    )  # fmt: skip


def _importance(study: optuna.Study) -> dict[str, float]:
    import optuna

    complete = [trial for trial in _finished(study) if trial.state.name == "COMPLETE"]
    if len(complete) < IMPORTANCE_TRIALS or len({trial.value for trial in complete}) < 2:
        return {}
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    return dict(optuna.importance.get_param_importances(study, evaluator=evaluator))
