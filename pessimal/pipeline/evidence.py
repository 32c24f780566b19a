"""What makes a verdict checkable later: its reports, and a record with the hash of every input."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pessimal.audit import Audit
from pessimal.audit.collect import COLLECTED
from pessimal.pipeline.work import Planned

if TYPE_CHECKING:
    from pessimal.gate.records import Judgement
    from pessimal.gate.waivers import Waiver
    from pessimal.models.records import ModelSource
    from pessimal.tracking import RunHandle

RECORD = "record.json"
RECORD_SCHEMA = "pessimal.record/1"
RECORD_TAG = "record.sha256"
SUITE, VALIDATION = "gate/suite.json", "gate/validation.json"
JUNIT, SARIF = "gate/junit.xml", "gate/gate.sarif"
MARKDOWN, MODEL_CARD = "gate/gate.md", "gate/model_card.md"
DATA_DOCS, WAIVERS_USED = "gate/data_docs.html", "gate/waivers.json"
REPORTS = (JUNIT, SARIF, MARKDOWN, MODEL_CARD)
GATE = (*REPORTS, DATA_DOCS, WAIVERS_USED, SUITE, VALIDATION)
MODULE = "module:"
CODE_SUFFIXES = frozenset({".py", ".txt", ".tsv", ".j2", ".js", ".css"})


def render_reports(judgement: Judgement, document: Mapping[str, Any]) -> dict[str, str]:
    """The reports for machines and people, by their path in the run."""
    from pessimal.gate import render_junit, render_markdown, render_model_card, render_sarif

    return {
        JUNIT: render_junit(judgement),
        SARIF: render_sarif(judgement),
        MARKDOWN: render_markdown(judgement),
        MODEL_CARD: render_model_card(judgement, document),
    }


def log_gate(
    run: RunHandle, judgement: Judgement, document: Mapping[str, Any], waivers: Sequence[Waiver]
) -> None:
    """Log the judgement's reports, the suite, the validation with Data Docs, and the waivers."""
    from pessimal.gate.data_docs import render_data_docs

    for place, text in render_reports(judgement, document).items():
        run.log_text(text, place)
    run.log_text(dumps(judgement.suite), SUITE)
    run.log_text(dumps(judgement.validation), VALIDATION)
    run.log_text(render_data_docs(judgement.validation) if judgement.validation else "", DATA_DOCS)
    run.log_text(dumps(waivers_of(waivers, document["model"])), WAIVERS_USED)


def waivers_of(waivers: Sequence[Waiver], model: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The waivers of one model at its revision, as plain JSON; those of others are no input.

    Args:
        waivers: all waivers.
        model: the ``model`` object of an audit document.
    """
    from pessimal.gate.waivers import revision_of

    named = (model["id"], revision_of(model))
    return [
        {key: str(value) for key, value in vars(one).items() if key != "source"}
        for one in waivers if (one.model, one.revision) == named
    ]  # fmt: skip


def log_record(
    run: RunHandle, work: Planned, document: Mapping[str, Any], files: Mapping[str, Sequence[Path]]
) -> None:
    """Log ``record.json``: sha256 of every input and of every artifact but the record itself.

    Args:
        run: the run, with everything logged but the document.
        work: what was done.
        document: the audit document, which is logged last.
        files: the files that the model was read from, by part.
    """
    from pessimal.tracking import document_text, list_digest

    code = code_hashes(work.audits)
    text = document_text(document)
    record = {
        "schema": RECORD_SCHEMA,
        "run_id": run.run_id,
        "model": {
            "id": document["model"]["id"],
            "revision": document["model"]["revision"],
            "hashes": document["model"]["hashes"],
            "files": {
                part: {"paths": [str(path.absolute()) for path in paths],
                       "sha256": _part_hash(part, paths, document["model"]["hashes"])}
                for part, paths in files.items()
            },
        },
        "policy": {
            "name": work.policy.name,
            "path": str(work.policy.path.absolute()),
            "sha256": work.policy.sha256,
        },
        "waivers": text_hash(dumps(waivers_of(work.waivers, document["model"]))),
        "prompts": {one.id: text_hash(one.text) for one in work.prompts.values()},
        "word_lists": {name: list_digest(words) for name, words in work.lists.items()},
        "code": {"sha256": combined(code), "files": code},
        "versions": document["versions"],
        "artifacts": {**run.hashes, "audit.json": text_hash(text)},
    }  # fmt: skip
    run.log_text(dumps(record), RECORD)
    run.set_tags({RECORD_TAG: run.hashes[RECORD]})


def model_files(source: ModelSource) -> dict[str, list[Path]]:
    """The files that a model is read from, by part: weights, config, tokenizer, template..."""
    from pessimal.models.hashing import source_files, template_files

    found = source_files(source) | {"template": template_files(source)}
    return {part: paths for part, paths in found.items() if paths}


def code_files(audits: Path | None = None) -> dict[str, Path]:
    """Source and data files of the engine by ``pessimal/...``, and a folder's by ``audits/...``."""
    import pessimal

    engine = Path(pessimal.__file__).parent
    found = {
        f"pessimal/{path.relative_to(engine).as_posix()}": path
        for path in engine.rglob("*")
        if path.suffix in CODE_SUFFIXES and "content" not in path.relative_to(engine).parts[:1]
    }
    if audits is not None:
        found |= {f"audits/{path.name}": path for path in audits.glob("*.py")}
    return found


def code_hashes(audits: Mapping[str, Audit]) -> dict[str, str]:
    """sha256 by name of the engine's files and of the files that the audits stand in."""
    from pessimal.tracking import hash_file

    found = code_files()
    engine = {path.resolve() for path in found.values()}
    for audit in audits.values():
        path = Path(audit.source).resolve()
        module = audit.function.__module__
        # An audit of another package is known by its module: it lies in no folder of audits.
        own = module.startswith(COLLECTED)
        if path not in engine:
            found[f"audits/{path.name}" if own else f"{MODULE}{module}"] = path
    return {name: hash_file(path) for name, path in sorted(found.items())}


def combined(hashes: Mapping[str, str]) -> str:
    """One sha256 of many, by name."""
    return text_hash("".join(f"{name} {value}\n" for name, value in sorted(hashes.items())))


def text_hash(text: str) -> str:
    """sha256 of text as `RunHandle.log_text` writes it."""
    return hashlib.sha256(text.encode("utf-8", errors="backslashreplace")).hexdigest()


def dumps(value: object) -> str:
    """JSON in a fixed order."""
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False, default=str)


def _part_hash(part: str, paths: Sequence[Path], hashes: Mapping[str, str] | None) -> str:
    from pessimal.models.hashing import hash_files

    # The template's own hash is of its text; here it is of the files that hold it.
    known = None if part == "template" else (hashes or {}).get(part)
    return known or hash_files(paths)
