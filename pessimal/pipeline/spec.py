"""Pipelines: what runs, on which prompts, with which budget; read from YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pessimal.audit import Prompt, suggest
from pessimal.errors import UsageError

PROMPTS_FILE = "prompts.yaml"
ALL_COMBINATIONS = "factorial"

Positive = Annotated[int, Field(gt=0, strict=True)]
PromptNames = str | list[str]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class VocabularyStep(_Strict):
    """Score the vocabulary, or a seeded sample of it, under some prompts."""

    tokens: Literal["all"] | Positive
    """``all``, or how many tokens to draw."""
    prompts: PromptNames
    """Prompt ids or groups."""


class PromptsStep(_Strict):
    """Score something else under some prompts."""

    prompts: PromptNames
    """Prompt ids or groups."""


class SearchStep(_Strict):
    """Search for longer replies."""

    prompts: PromptNames
    lengths: list[Positive]
    directions: list[Literal["optimal", "pessimal"]]
    seeds: Positive
    seconds: Positive
    """Of all searches together with their baselines; looked at after every step."""
    budget: Positive | None = None
    """Forward tokens of each search instead: the same ones on every machine."""
    preset: str = "default"
    """Settings: a file of ``pipelines/presets/``, else a packaged one."""


class Pipeline(_Strict):
    """One pipeline."""

    name: str
    description: str
    vocabulary: VocabularyStep
    words: PromptsStep | None = None
    as_text: VocabularyStep | None = None
    human: PromptsStep | None = None
    searches: SearchStep | None = None
    audits: list[str] = []
    """Audits that are expected; one that isn't collected is NOT_RUN. Every collected one runs."""


class _Entry(_Strict):
    framing: Literal["positive", "negative"]
    text: str


class _Factorial(_Strict):
    adjectives: dict[str, _Entry]
    superlatives: dict[str, str]
    styles: dict[str, str]


class _PromptFile(_Strict):
    prompts: dict[str, _Entry]
    factorial: _Factorial | None = None
    groups: dict[str, list[str]] = {}


class PromptBook:
    """Every known prompt by id, and the named groups of ids."""

    def __init__(self, prompts: dict[str, Prompt], groups: dict[str, list[str]]) -> None:
        self.prompts = prompts
        self.groups = groups

    def select(self, names: PromptNames) -> list[Prompt]:
        """The prompts of ids and groups, each once, in the order named.

        Raises:
            UsageError: a name is neither a prompt nor a group.
        """
        chosen: dict[str, Prompt] = {}
        for name in [names] if isinstance(names, str) else names:
            ids = self.groups.get(name, [name])
            for prompt_id in ids:
                if prompt_id not in self.prompts:
                    raise UsageError(
                        "prompt_unknown", f"There is no prompt or group {prompt_id!r}.",
                        suggest(prompt_id, [*self.prompts, *self.groups]),
                    )  # fmt: skip
                chosen[prompt_id] = self.prompts[prompt_id]
        return list(chosen.values())


def list_pipelines(folder: Path) -> dict[str, Path]:
    """The pipelines of a folder by name: every YAML file but the prompts'."""
    return {path.stem: path for path in sorted(folder.glob("*.yaml")) if path.name != PROMPTS_FILE}


def load_pipeline(name: str, folder: Path) -> Pipeline:
    """Load a pipeline by its name in `folder`, or by the path of a YAML file.

    Raises:
        UsageError: no such pipeline, or a file that doesn't say what a pipeline says.
    """
    known = list_pipelines(folder)
    path = known.get(name)
    if path is None and name.endswith((".yaml", ".yml")):
        path = Path(name)
    if path is None or not path.is_file():
        raise UsageError(
            "pipeline_unknown", f"There is no pipeline {name!r} in {folder}.",
            suggest(name, list(known)),
        )  # fmt: skip
    return _parse(Pipeline, path, {"name": path.stem})


def load_prompts(folder: Path) -> PromptBook:
    """Load ``prompts.yaml``: the named prompts, and every combination of the factorial.

    Raises:
        UsageError: the file is missing or doesn't say what it should.
    """
    file = _parse(_PromptFile, folder / PROMPTS_FILE, {})
    prompts = {
        key: Prompt(id=key, text=entry.text, framing=entry.framing)
        for key, entry in file.prompts.items()
    }
    groups = dict(file.groups)
    if file.factorial is not None:
        made = _combine(file.factorial)
        groups[ALL_COMBINATIONS] = [prompt.id for prompt in made]
        prompts.update({prompt.id: prompt for prompt in made})
    return PromptBook(prompts, groups)


def _combine(factorial: _Factorial) -> list[Prompt]:
    return [
        Prompt(
            id=f"{adjective}_{superlative}_{style}",
            text=template.format(adjective=entry.text, superlative=words),
            framing=entry.framing,
        )
        for adjective, entry in factorial.adjectives.items()
        for superlative, words in factorial.superlatives.items()
        for style, template in factorial.styles.items()
    ]


Record = TypeVar("Record", bound=BaseModel)


def _parse(record: type[Record], path: Path, extra: dict[str, Any]) -> Record:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(
            "content_invalid", f"{path} can't be read: {error}.", "Mend the file."
        ) from error
    if not isinstance(data, dict):
        raise UsageError("content_invalid", f"{path} is not a mapping.", "See the packaged ones.")
    try:
        return record.model_validate(extra | data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            "content_invalid", f"{path}: {where}: {first['msg']}.",
            f"Mend it; the keys are {', '.join(record.model_fields)}.",
        ) from error  # fmt: skip
