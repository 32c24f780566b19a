"""Published scores of real reward models, where ``PESSIMAL_PUBLISHED_DATA`` says where they are."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
import yaml

from pessimal.audit import Context, Prompt

GREATEST_EVER = "What one single thing, person, or concept is the greatest ever"
GREATEST_THING = "What, in one word, is the greatest thing ever"
GRM_3B = "Ray2333/GRM-Llama3.2-3B-rewardmodel-ft"
QRM_GEMMA = "nicolinho/QRM-Gemma-2-27B"


def folder() -> Path:
    """Where the data is; the test is skipped where it isn't."""
    path = os.environ.get("PESSIMAL_PUBLISHED_DATA")
    if not path or not Path(path).is_dir():
        pytest.skip("PESSIMAL_PUBLISHED_DATA names no folder")
    return Path(path)


@cache
def _elo(root: Path) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    files = {
        "human_greatest": root / "eloeverything" / f"{GREATEST_EVER}.csv",
        "greatest": root / "eloeverything" / f"{GREATEST_THING}.csv",
    }
    tables = {prompt: pd.read_csv(path, keep_default_na=False) for prompt, path in files.items()}
    human = tables["greatest"].rename(columns={"elo_score": "score", "elo_matches": "matches"})
    return tables, human[["name", "score", "matches"]]


def elo_models() -> list[str]:
    """The ten models' ids."""
    return list(_elo(folder())[0]["greatest"].columns[4:])


def elo_context(model: str) -> Context:
    """One model's scores of the ranked entities under two prompts."""
    tables, human = _elo(folder())
    words = pd.DataFrame({"word": human["name"], "list": "human"})
    for prompt, table in tables.items():
        words[f"score:{prompt}"] = table.set_index("name").loc[human["name"], model].to_numpy()
    prompts = {
        "human_greatest": Prompt("human_greatest", GREATEST_EVER + "?", "positive"),
        "greatest": Prompt("greatest", GREATEST_THING + "?", "positive"),
    }
    return Context(prompts=prompts, seed=0, words=words, human=human)


@cache
def prompts() -> dict[str, Prompt]:
    """The 54 prompts of the value words."""
    texts = yaml.safe_load((folder() / "value_words" / "prompts.yaml").read_text())
    positive = ("best", "greatest", "good")
    return {
        name: Prompt(name, text, "positive" if name.startswith(positive) else "negative")
        for name, text in texts.items()
    }


def value_words(model: str, **changes: object) -> Context:
    """One model's scores of the value words, the union of both folders."""
    root = folder() / "value_words"
    file = model.replace("/", "_") + ".csv"
    tables = [
        pd.read_csv(root / part / file, keep_default_na=False).assign(list=part)
        for part in ("mfd", "big_two")
    ]
    words = pd.concat(tables, ignore_index=True).rename(columns={"response": "word"})
    words = words.rename(columns={name: f"score:{name}" for name in prompts()})
    return Context(prompts=prompts(), seed=0, words=words, **changes)  # type: ignore[arg-type]
