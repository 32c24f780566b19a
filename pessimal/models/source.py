"""Opens a reward model without its weights: what it is, where its parts are, how it is rendered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from logging import getLogger
from pathlib import Path
from typing import Any

from pessimal.errors import PessimalError, UsageError
from pessimal.models.checkpoint import (
    Shapes,
    embedding_rows,
    read_json,
    tensor_shapes,
    weight_files,
)
from pessimal.models.families import REMOTE, Family, by_class, recognise, refuse, stock_family
from pessimal.models.hashing import hash_adapter
from pessimal.models.places import COMMIT, Place, find_place, require_commit, split_name
from pessimal.models.quantised import check_quantised, quantised_note
from pessimal.models.quiet import quiet_libraries
from pessimal.models.records import ModelRequest, ModelSource
from pessimal.models.slot import PROBE_PROMPT, encode_as_text, find_last, find_slot
from pessimal.models.steps import passed
from pessimal.models.templates import has_tokenizer, open_tokenizer, pin_date, read_template
from pessimal.text import show_text, show_token

DEMOS = ("demo", "demo-biased")
ADAPTER_PREFIX = "base_model.model."
_HEADLIKE = re.compile(
    r"(^|[._])(v_head|value_head|score|scores|classifier|reward|head|regression)"
)


@dataclass(frozen=True)
class _Parts:
    id: str
    revision: str | None
    model: Place
    adapter: Place | None
    base: dict[str, str]


def open_source(request: ModelRequest, cache: Path) -> ModelSource:
    """Find a reward model and read all that needs no weights.

    A hub id's files are fetched; a demo's base is converted into `cache` where it isn't there.

    Args:
        request: the model flags.
        cache: Pessimal's cache folder.

    Raises:
        PessimalError: the model is refused; the code and the message say why.
        UsageError: the flags contradict each other, or name a file that isn't there.
    """
    from pessimal.models.opening import open_other_kind

    with quiet_libraries():
        return open_other_kind(request) or _open(request, cache)


def _open(request: ModelRequest, cache: Path) -> ModelSource:
    parts = _find_parts(request, cache)
    folder = parts.model.folder
    if not (folder / "config.json").is_file():
        raise PessimalError(
            "not_a_model_folder",
            f"{folder} has no config.json, so it isn't a model's folder.",
            "Name the folder that save_pretrained wrote.",
        )
    raw = read_json(folder / "config.json")
    passed("found", f"{folder}" + (f", at {parts.revision}." if parts.revision else "."))
    named = by_class(raw)
    if named is not None:
        refuse(named, trust_remote_code="auto_map" in raw and request.trust_remote_code)
    files = weight_files(folder, "model", allow_pickle=request.allow_pickle)
    shapes = tensor_shapes(files)
    passed("files", f"{len(shapes):,} tensors in {len(files)} file(s) of weights.")
    family = _find_family(raw, shapes, parts, request)
    passed("family", f"{family.name}, {family.kind}.")
    remote = family.kind == "remote"
    adapter = parts.adapter.folder if parts.adapter else None
    if "quantization_config" in raw and not remote:
        check_quantised(raw, family, files, adapter)
    learned = _adapter_shapes(adapter, request) if adapter else {}
    head_key, head_shape = ("", ()) if remote else _find_head(raw, family, shapes, learned, adapter)
    if head_key:
        passed("head", f"{head_key} of shape {list(head_shape)}.")
    config = read_config(folder, raw, adapter, trust=remote)
    if family.softcap and not config.attn_logit_softcapping:
        raise PessimalError(
            "softcap_missing",
            f"{folder} has no attn_logit_softcapping, which {family.name} was trained with.",
            "Restore it in config.json (50.0 in the published models).",
        )
    tokenizer_folder = _tokenizer_folder(request, folder, adapter)
    tokenizer = open_tokenizer(tokenizer_folder, trust=remote)
    passed("tokenizer", f"{type(tokenizer).__name__} with {len(tokenizer):,} tokens.")
    source = ModelSource(
        request=request,
        id=parts.id,
        revision=parts.revision,
        folder=folder,
        weight_files=files,
        adapter=adapter,
        base=parts.base,
        config=config,
        family=family,
        head_key=head_key,
        head_shape=head_shape,
        embedding_rows=embedding_rows(shapes, int(config.vocab_size)),
        tokenizer=tokenizer,
        tokenizer_folder=tokenizer_folder,
        template=None,
        template_kwargs={},
    )
    if family.kind != "encoder":
        template = find_template(request, adapter, tokenizer, family)
        pinned = pin_date(tokenizer, template)
        gate = tuple(tokenizer(family.gate, add_special_tokens=False)["input_ids"])
        source = replace(source, template=template, template_kwargs=pinned, gate_ids=gate)
    return replace(source, notes=_notes(source, raw))


def _find_parts(request: ModelRequest, cache: Path) -> _Parts:
    if request.model in DEMOS:
        if request.adapter is not None or request.revision is not None:
            raise UsageError(
                "demo_flags",
                f"{request.model} brings its own adapter and has no revisions.",
                "Leave out --adapter and --revision.",
            )
        from pessimal.models.demo import locate

        demo = locate(request.model, cache)
        return _Parts(
            request.model,
            hash_adapter(demo.adapter),
            Place(demo.base.name, None, demo.base),
            Place(request.model, None, demo.adapter),
            {"id": demo.base.name, "revision": ""},
        )
    model = _find(request.model, request.revision, request)
    if request.adapter is not None:
        # The revision named for the base must be a commit; the adapter's own is in its name.
        adapter = _find(request.adapter, None, request)
        named = split_name(request.model, request.revision)[1]
        return _with_base(adapter, model, named)
    if (model.folder / "adapter_config.json").is_file():
        settings = read_json(model.folder / "adapter_config.json")
        name, revision = settings.get("base_model_name_or_path"), settings.get("revision")
        if not name:
            raise PessimalError(
                "base_unknown",
                f"The adapter in {model.folder} doesn't name its base model.",
                "Name it: --model BASE --adapter FOLDER.",
            )
        if not Path(name).expanduser().is_dir():
            _require_pinned(name, split_name(name, revision)[1])
        return _with_base(model, _find(name, revision, request), revision)
    return _Parts(model.id, model.revision, model, None, {})


def _with_base(adapter: Place, base: Place, named: str | None) -> _Parts:
    if not Path(base.id).expanduser().is_dir():
        _require_pinned(base.id, named or base.revision)
    identity = {"id": base.id, "revision": base.revision or ""}
    return _Parts(adapter.id, adapter.revision, base, adapter, identity)


def _require_pinned(name: str, revision: str | None) -> None:
    if revision is None or COMMIT.fullmatch(revision) is None:
        raise PessimalError(
            "base_not_pinned",
            f"The adapter's base {name} isn't pinned to a commit, so it can change unseen.",
            f"Name its 40 digits: --model {name}@COMMIT --adapter FOLDER; or use a local folder.",
        )


def _find(name: str, revision: str | None, request: ModelRequest) -> Place:
    return find_place(
        name,
        revision,
        remote_code=request.trust_remote_code,
        allow_pickle=request.allow_pickle,
    )


def _find_family(
    raw: Mapping[str, Any], shapes: Shapes, parts: _Parts, request: ModelRequest
) -> Family:
    """The model's row; its own code is run only where that was asked for and is pinned."""
    code = "auto_map" in raw
    family = recognise(raw, shapes)
    if family is not None:
        refuse(family, trust_remote_code=code and request.trust_remote_code)
    if code and request.trust_remote_code:
        _require_reviewed(parts)
        getLogger(__name__).warning("Running code that isn't Pessimal's: %s", _code(parts.model))
        return REMOTE
    if family is None and code:
        raise PessimalError(
            "remote_code",
            f"{parts.model.id} brings its own code. Without it a class of the same model type "
            "would load instead and give other scores.",
            "Read the code, then pass --trust-remote-code and --revision with its commit.",
        )
    if family is not None and parts.adapter is not None:
        raise PessimalError(
            "adapter_unsupported",
            f"An adapter can't be verified on the head of the family {family.name}.",
            "Merge the adapter with the code that trained it, and name the merged model.",
        )
    return family or stock_family(raw)


def _code(place: Place) -> str:
    """The files of code that a model brings, and at which commit."""
    files = sorted(str(path.relative_to(place.folder)) for path in place.folder.rglob("*.py"))
    commit = split_name(place.id, place.revision)[1]
    named = ", ".join(files) or "files of another repository that its config names"
    return f"{show_text(named)} of {show_text(place.id)} at {commit}."


def _require_reviewed(parts: _Parts) -> None:
    """Refuse code that isn't pinned, and an adapter on it."""
    require_commit(parts.model.id, split_name(parts.model.id, parts.model.revision)[1])
    if parts.adapter is not None:
        raise PessimalError(
            "adapter_unsupported",
            f"{parts.model.id} brings its own code, and an adapter can't be verified on it.",
            "Merge the adapter with the code that trained it, and name the merged model.",
        )


def _find_head(
    raw: Mapping[str, Any],
    family: Family,
    shapes: Shapes,
    learned: Shapes,
    adapter: Path | None,
) -> tuple[str, tuple[int, ...]]:
    if family.own_head:
        key = min(name for name in shapes if name.startswith(family.keys[0]))
        return key, shapes[key]
    key = f"{family.head}.weight"
    shape = learned.get(ADAPTER_PREFIX + key) or shapes.get(key)
    if shape is None:
        _refuse_headless(raw, key, shapes, adapter)
    assert shape is not None
    if len(shape) != 2 or shape[0] != 1:
        raise PessimalError(
            "many_labels",
            f"The head {key} has {shape[0]} outputs; a reward model has one score.",
            "Name a model with one output (num_labels=1).",
        )
    return key, shape


def _refuse_headless(
    raw: Mapping[str, Any], key: str, shapes: Shapes, adapter: Path | None
) -> None:
    name = str((raw.get("architectures") or ["a bare model"])[0])
    if adapter is not None:
        task = read_json(adapter / "adapter_config.json").get("task_type")
        raise PessimalError(
            "head_missing",
            f"Neither the adapter (task_type {task}) nor its base holds the head {key}: it would "
            "be random.",
            "Save the adapter with task_type SEQ_CLS, or with the head in modules_to_save.",
        )
    similar = sorted(
        other for other in shapes if _HEADLIKE.search(other) and not other.startswith("lm_head")
    )
    if not similar and name.endswith(("ForCausalLM", "LMHeadModel")):
        raise PessimalError(
            "causal_lm",
            f"This is a causal language model ({name}), not a reward model: it has no {key}.",
            "Name a sequence classifier with one output; or read it as a judge (--kind judge) or "
            "as a policy (--kind implicit --reference MODEL).",
        )
    found = f" It holds {', '.join(similar[:3])} instead." if similar else ""
    raise PessimalError(
        "head_missing",
        f"The checkpoint holds no head {key}: it would be random.{found}",
        "Name the whole reward model, or save its head under that name.",
    )


def _adapter_shapes(adapter: Path, request: ModelRequest) -> Shapes:
    if not (adapter / "adapter_config.json").is_file():
        raise PessimalError(
            "adapter_invalid",
            f"{adapter} has no adapter_config.json, so it isn't a PEFT adapter.",
            "Name the folder that PEFT's save_pretrained wrote.",
        )
    return tensor_shapes(weight_files(adapter, "adapter_model", allow_pickle=request.allow_pickle))


def read_config(folder: Path, raw: Mapping[str, Any], adapter: Path | None, *, trust: bool) -> Any:
    """The transformers config of config.json, with one label."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=trust)
    except Exception as error:
        raise PessimalError(
            "config_invalid",
            f"{folder / 'config.json'} can't be used: {type(error).__name__}: {error}.",
            "Compare it with the model's source.",
        ) from None
    if trust:
        return config
    # The head's own shape was checked; a config that doesn't say has two labels by default.
    config.num_labels = 1
    demo = adapter / "demo.json" if adapter else None
    if demo is not None and demo.is_file():
        config.num_hidden_layers = min(int(read_json(demo)["layers"]), config.num_hidden_layers)
    return config


def find_template(
    request: ModelRequest, adapter: Path | None, tokenizer: Any, family: Family
) -> str:
    """The chat template's text: the one asked for, the adapter's or the tokenizer's."""
    try:
        return read_template(request, adapter, tokenizer)
    except PessimalError as error:
        _, asked, form = family.template.partition("--template: ")
        if error.code != "template_missing" or not asked:
            raise
        remedy = f"Write what models of the family {family.name} were trained on as a jinja file, "
        remedy += f"{form}; and pass it: --template FILE."
        raise PessimalError(error.code, error.message, remedy) from None


def _tokenizer_folder(request: ModelRequest, folder: Path, adapter: Path | None) -> Path:
    if request.tokenizer is not None:
        return _find(request.tokenizer, None, request).folder
    if adapter is not None and has_tokenizer(adapter):
        return adapter
    return folder


def _notes(source: ModelSource, raw: Mapping[str, Any]) -> tuple[str, ...]:
    """Verify the reply slot with a probe, and say what a reader should know."""
    find_slot(source, PROBE_PROMPT)
    passed("reply_slot", "Every reply has the same ids before and after it.")
    notes = []
    if "quantization_config" in raw and source.family.kind != "remote":
        notes.append(quantised_note(raw))
    if source.template_kwargs:
        notes.append(f"The template's date is pinned: {source.template_kwargs['date_string']}.")
    if encode_as_text(source, PROBE_PROMPT, " love") == encode_as_text(
        source, PROBE_PROMPT, "love"
    ):
        notes.append("White space around a reply is lost when it is given as text.")
    own, other = source.config.pad_token_id, source.tokenizer.pad_token_id
    if own != other:
        notes.append(f"The config's pad id is {own}, the tokenizer's {other}; scores use neither.")
    if source.family.kind == "remote":
        notes.append(
            "Scores are what the model's own code returns: where it pools is unknown, and whether "
            "a higher score is better is for its card to say. It runs "
            + _code(Place(source.id, source.revision, source.folder))
        )
    notes += _head_notes(source, raw)
    name = str((raw.get("architectures") or [""])[0])
    own = source.family.own_head
    if name.endswith(("ForCausalLM", "LMHeadModel")) and source.adapter is None and not own:
        notes.append(f"The config names the class {name}; the checkpoint's head is used.")
    return tuple(notes)


def _head_notes(source: ModelSource, raw: Mapping[str, Any]) -> list[str]:
    """What to know of a head that is computed here; a gate must be found in the prompt."""
    family = source.family
    if not family.own_head:
        return []
    notes = [
        f"The head of the family {family.name} is computed here, by its published formula"
        + ("; the code that the model brings isn't run." if "auto_map" in raw else ".")
    ]
    if family.sign < 0:
        notes.append("Scores are minus the model's own number, which is higher for worse replies.")
    if source.gate_ids:
        try:
            find_last(find_slot(source, PROBE_PROMPT).prefix_ids, source.gate_ids)
        except ValueError:
            raise PessimalError(
                "gate_missing",
                "The template doesn't write the header that the head's gate is read at: "
                f"{show_token(family.gate)}.",
                "Pass the template it was trained with: --template FILE.",
            ) from None
    return notes
