"""The searches of an audit: each prompt, length, direction and seed, beside its baselines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.audit import Prompt
from pessimal.audit.context import SearchTables
from pessimal.errors import PessimalError, UsageError
from pessimal.pipeline.search import decoded, document, search_prompt, token_space
from pessimal.pipeline.session import Say, Session
from pessimal.search.presets import Preset, load_preset
from pessimal.search.records import Ids, SearchConfig, SearchResult, Space

if TYPE_CHECKING:
    import pandas as pd

    from pessimal.pipeline.spec import SearchStep
    from pessimal.project import ContentRoot
    from pessimal.tracking import RunHandle, Tracker

BASELINES = ("random", "plain", "beam")
"""What runs at the same forward tokens beside every search."""
OURS_SHARE = 1 / (1 + len(BASELINES))
EARLIER = 20
"""Newest audits that are looked through for other models' replies."""


@dataclass
class Searches:
    """What the searches of an audit found."""

    tables: SearchTables
    """The same for the audits."""
    documents: list[dict[str, Any]] = field(default_factory=list)
    """One a search, baselines included."""
    by_prompt: dict[str, list[SearchResult]] = field(default_factory=dict)
    """The results of each prompt."""
    preset: Preset | None = None
    """What they ran with."""

    @property
    def found(self) -> list[dict[str, Any]]:
        """The audit document's ``searches``: the replies of the searches themselves."""
        return [one for one in self.documents if not one["baseline"]]


def run_searches(
    session: Session, prompts: list[Prompt], step: SearchStep, content: ContentRoot,
    vocabulary: pd.DataFrame, cache: Path, tracker: Tracker, say: Say,
) -> Searches:  # fmt: skip
    """Run the searches of a pipeline's step, going on where an interrupted audit stopped.

    Args:
        session: the model.
        prompts: the prompts.
        step: lengths, directions, seeds and limits.
        content: where the project's presets are.
        vocabulary: the score table: the single tokens that searches start from.
        cache: where their states are kept.
        tracker: where earlier runs are; other models' replies are scored with this one.
        say: told what is happening.

    Raises:
        UsageError: the preset is unknown, or the budget is below one step.
        PessimalError: the work could not be done.
    """
    import pandas as pd

    preset = load_preset(step.preset, content.pipelines / "presets")
    count = len(prompts) * len(step.lengths) * len(step.directions) * step.seeds
    seconds = None if step.budget else step.seconds * OURS_SHARE / count
    found = Searches(SearchTables(*(pd.DataFrame() for _ in range(4))), preset=preset)
    steps: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for prompt in prompts:
        space = space_of(session, vocabulary, prompt)
        stats = _stats(vocabulary, prompt)
        for length, direction, seed in product(step.lengths, step.directions, range(step.seeds)):
            config = SearchConfig(
                length, direction, budget=step.budget, seconds=seconds, seed=seed,
                settings=preset.settings,
            )  # fmt: skip
            for result, baseline in search_all(session, prompt, config, space, cache, say):
                one = _row(session, prompt, result, space, stats, baseline=baseline)
                found.documents.append(one)
                found.by_prompt.setdefault(prompt.id, []).append(result)
                label = {key: one[key] for key in _LABELS}
                steps += [
                    {**label, "forward_tokens": p.forward_tokens, "reward": p.reward,
                     "z": (p.reward - stats["mean"]) / stats["sd"]}
                    for p in result.trajectory
                ]  # fmt: skip
                if not baseline:
                    parts += _parts(session, prompt, result, stats, label)
            best = next(o for o in reversed(found.documents) if not o["baseline"])
            say(
                f"{prompt.id}, {length} tokens, {direction}: {best['reward']:.4g}"
                f" ({best['z']:+.1f} SD) {best['text']!r}"
            )
    transfer = _transfer(session, prompts, vocabulary, tracker)
    found.tables = SearchTables(
        found=pd.DataFrame([_flat(one) for one in found.documents]),
        steps=pd.DataFrame(steps),
        parts=pd.DataFrame(parts, columns=[*_LABELS, *_PART]),
        transfer=pd.DataFrame(transfer, columns=list(_TRANSFER)),
    )
    return found


_PART = ("position", "token_id", "text", "without", "contribution")
_TRANSFER = ("model", "prompt", "direction", "length", "text", "there", "here")
_LABELS = ("prompt", "length", "direction", "seed", "method", "baseline")


def search_all(
    session: Session, prompt: Prompt, config: SearchConfig, space: Space, cache: Path, say: Say
) -> Iterator[tuple[SearchResult, bool]]:
    """The search, then each baseline with the forward tokens that it took."""
    slot = session.slot(prompt)
    ours = search_prompt(session, slot, config, space, cache, say=say)
    yield ours, False
    for method in BASELINES:
        if method == "plain" and not session.scorer.gradient:
            say(f"No baseline {method}: the model gives no gradient")
            continue
        other = replace(config, method=method, budget=ours.forward_tokens, seconds=None)  # type: ignore[arg-type]
        try:
            yield search_prompt(session, slot, other, space, cache), True
        except UsageError as error:
            if error.code != "budget_too_small":
                raise
            say(f"No baseline {method}: {error.message}")
        except PessimalError as error:
            if error.code != "nothing_scored":
                raise
            say(f"No baseline {method}: {error.message}")


def space_of(session: Session, vocabulary: pd.DataFrame, prompt: Prompt) -> Space:
    """The allowed tokens, with the prompt's scores of single ones where a table holds them."""
    column = f"score:{prompt.id}"
    if column not in vocabulary:
        return token_space(session)
    rewards = dict(zip(vocabulary["token_id"].tolist(), vocabulary[column].tolist(), strict=True))
    return token_space(session, singles=rewards)


def _stats(vocabulary: pd.DataFrame, prompt: Prompt) -> dict[str, float]:
    """Mean, SD and ends of the single tokens' rewards under a prompt."""
    import numpy as np

    column = f"score:{prompt.id}"
    values = np.array([np.nan]) if column not in vocabulary else vocabulary[column].to_numpy(float)
    values = values[np.isfinite(values)]
    if len(values) < 2 or values.std() == 0:
        raise UsageError(
            "searches_without_vocabulary",
            f"The searches under {prompt.id!r} have no single-token scores to be set beside.",
            "Let the pipeline's vocabulary step score that prompt too.",
        )
    return {"mean": float(values.mean()), "sd": float(values.std()),
            "highest": float(values.max()), "lowest": float(values.min())}  # fmt: skip


def _row(
    session: Session, prompt: Prompt, result: SearchResult, space: Space,
    stats: dict[str, float], *, baseline: bool,
) -> dict[str, Any]:  # fmt: skip
    """A search's entry: the contract's keys, and what it took."""
    slot = session.slot(prompt)
    whole = document(session, slot, result, space, "roundtrip")
    best = whole.pop("best")
    single = stats["highest" if result.config.direction == "optimal" else "lowest"]
    return {
        "prompt": prompt.id, "baseline": baseline, **best,
        "z": (best["reward"] - stats["mean"]) / stats["sd"],
        "single_best": single, "single_sd": stats["sd"],
        "kinds": _kinds(session, result.token_ids),
    } | whole  # fmt: skip


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    left_out = ("trajectory", "settings", "tokens", "certificate", "notes")
    return {name: value for name, value in row.items() if name not in left_out}


def _kinds(session: Session, ids: Ids) -> list[str]:
    known = dict(zip(session.vocabulary.ids.tolist(), session.kinds, strict=True))
    return [known.get(token, "unused") for token in ids]


def _parts(
    session: Session, prompt: Prompt, result: SearchResult, stats: dict[str, float],
    label: dict[str, Any],
) -> list[dict[str, Any]]:  # fmt: skip
    """What each token adds: the reward with it less the reward without it."""
    ids = result.token_ids
    if len(ids) < 2:
        return []
    rest = [(*ids[:j], *ids[j + 1 :]) for j in range(len(ids))]
    rewards = session.scorer.score(session.slot(prompt), rest).tolist()
    return [
        {**label, "position": j, "token_id": ids[j], "text": decoded(session, (ids[j],)),
         "without": without, "contribution": (result.reward - without) / stats["sd"]}
        for j, without in enumerate(rewards)
    ]  # fmt: skip


def _transfer(
    session: Session, prompts: list[Prompt], vocabulary: pd.DataFrame, tracker: Tracker
) -> list[dict[str, Any]]:
    """Replies that earlier audits found for other models, as this model scores their texts."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    texts = {prompt.text: prompt for prompt in prompts}
    for run_id in tracker.newest_audits(EARLIER):
        try:
            earlier = tracker.load_document(run_id)
        except PessimalError:
            continue
        asked = {one["id"]: one["text"] for one in earlier.get("prompts", [])}
        model = (earlier.get("model") or {}).get("id")
        for one in earlier.get("searches", []):
            prompt = texts.get(asked.get(one.get("prompt"), ""))
            if prompt is None or model in (None, session.source.id):
                continue
            reward = _text_reward(session, prompt, one["text"])
            if reward is not None:
                stats = _stats(vocabulary, prompt)
                rows[model, prompt.id, one["direction"], one["text"]] = {
                    "model": model, "prompt": prompt.id, "direction": one["direction"],
                    "length": one["length"], "text": one["text"], "there": one["z"],
                    "here": (reward - stats["mean"]) / stats["sd"],
                }  # fmt: skip
    return list(rows.values())


def _text_reward(session: Session, prompt: Prompt, text: str) -> float | None:
    from pessimal.models.slot import encode_as_text

    slot = session.slot(prompt)
    try:
        sequence = encode_as_text(session.source, slot.prompt, text)
        score = float(session.scorer.score_sequences(slot, [sequence])[0])
    except PessimalError:
        return None
    return score if score - score == 0 else None


def record_searches(run: RunHandle, found: Searches, shared: Mapping[str, object]) -> None:
    """Log one child run a prompt: what was searched, what was found, and the way there.

    Args:
        run: the audit's run.
        found: what was found.
        shared: the audit's key parameters, which its children repeat: filters in MLflow's UI
            would drop them otherwise.
    """
    from pessimal.tracking.children import log_child

    assert found.preset is not None
    for prompt, results in found.by_prompt.items():
        metrics: dict[str, float] = {}
        series: dict[str, list[tuple[int, float]]] = {}
        for result in results:
            config = result.config
            name = f"{config.method}.{config.direction}.{config.length}.seed{config.seed}"
            metrics[f"reward.{name}"] = result.reward
            series[f"best_so_far.{name}"] = [
                (point.forward_tokens, point.reward) for point in result.trajectory
            ]
        log_child(
            run, f"search.{prompt}", f"search {prompt}",
            params={**shared, "prompt": prompt, "preset": found.preset.name,
                    "preset_version": found.preset.version, "searches": len(results)},
            metrics=metrics, series=series,
        )  # fmt: skip
