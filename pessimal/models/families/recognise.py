"""Finds a model's row: by its config and the names of its weights, never by its own name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from pessimal.errors import PessimalError
from pessimal.models.families.others import REFUSED, UNVERIFIED
from pessimal.models.families.own import OWN
from pessimal.models.families.records import Family
from pessimal.models.families.stock import STOCK, family_of
from pessimal.text import show_text

_CAUSAL = ("ForCausalLM", "LMHeadModel")


def by_class(raw: Mapping[str, Any]) -> Family | None:
    """The row of a class that isn't scored here, whatever weights there are."""
    names, kind = class_names(raw), str(raw.get("model_type"))
    return next(
        (
            row
            for row in (*UNVERIFIED, *REFUSED)
            if names.intersection(row.classes) and (not row.model_types or kind in row.model_types)
        ),
        None,
    )


def recognise(raw: Mapping[str, Any], keys: Collection[str]) -> Family | None:
    """The row of a model whose head isn't that of transformers' own classifiers.

    Args:
        raw: its config.json.
        keys: names of its weights.

    Returns:
        The row, an own head's with its backbone's parts filled in; None where none says
        anything of it.

    Raises:
        PessimalError: ``head_missing``: its class is known, and the weights of its head aren't
            there.
    """
    names = class_names(raw)
    kind = str(raw.get("model_type"))
    likely = [
        row
        for row in (*OWN, *UNVERIFIED)
        if (names.intersection(row.classes) if row.classes else row.keys and _holds(row, keys))
        and (not row.model_types or kind in row.model_types)
    ]
    told = [row for row in likely if all(raw.get(name) == value for name, value in row.settings)]
    if likely and not told:
        field = likely[0].settings[0][0]
        known = " or ".join(repr(row.settings[0][1]) for row in likely)
        raise PessimalError(
            "family_unverified",
            f"config.json has no {field} of {known}, so whether a higher score is better isn't "
            "known.",
            f"Write the model's own {field} into config.json.",
        )
    whole = [row for row in told if _holds(row, keys)]
    if told and not whole:
        lacking = [key for key in told[-1].keys if not _begins(key, keys)]
        raise PessimalError(
            "head_missing",
            f"The class is that of {told[-1].name}, and the checkpoint holds no {lacking[0]}: its "
            "head would be random.",
            "Name the whole reward model, with every weight of its head.",
        )
    if not whole:
        return None
    return _with_backbone(whole[0], kind) if whole[0].own_head else whole[0]


def refuse(family: Family, *, trust_remote_code: bool) -> None:
    """Refuse a row that can't be scored.

    Args:
        family: a row.
        trust_remote_code: whether its own code may be run.

    Raises:
        PessimalError: the row's own code, or ``family_unverified``.
    """
    if family.status == "refused":
        why, _, instead = family.notes.rpartition(". ")
        raise PessimalError(family.code, f"This is a model of the family {family.name}. {why}.",
                            instead)  # fmt: skip
    if family.status == "unverified" and not trust_remote_code:
        raise PessimalError(
            "family_unverified",
            f"How models of the family {family.name} get their score can't be verified here; "
            f"{family.notes}.",
            "Read its code, then pass --trust-remote-code and --revision with its commit."
            if family.remote_code
            else "Serve it with its own code and audit the endpoint.",
        )


def stock_family(raw: Mapping[str, Any]) -> Family:
    """The row of one of transformers' own classifiers.

    Raises:
        PessimalError: ``architecture_unknown``, ``process_reward_model`` or ``class_unknown``.
    """
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as CLASSES,
    )

    kind = str(raw.get("model_type"))
    family = family_of(kind)
    if family is None:
        known = ", ".join(sorted(name for row in STOCK for name in row.model_types))
        raise PessimalError(
            "architecture_unknown",
            f"Reward models of type {show_text(kind)} aren't known here.",
            f"Known types: {known}. pessimal models lists the families.",
        )
    name = str((raw.get("architectures") or [""])[0])
    if name.endswith("ForTokenClassification"):
        refuse(next(row for row in REFUSED if row.name == "process-rm"), trust_remote_code=False)
    stock = CLASSES.get(kind)
    plain = ("", stock) if isinstance(stock, str) else ("", *(stock or ()))
    if name not in plain and not name.endswith((*_CAUSAL, "Model")):
        raise PessimalError(
            "class_unknown",
            f"The model was saved by the class {show_text(name)}, whose way to a score isn't "
            "known here: it may compare pairs, give several scores, or turn the sign.",
            f"Name a model of class {stock}, or save it as one. pessimal models lists the "
            "families.",
        )
    return family


def class_names(raw: Mapping[str, Any]) -> set[str]:
    """Every class that a config names, in ``architectures`` or ``auto_map``."""
    mapped = raw.get("auto_map")
    values = mapped.values() if isinstance(mapped, Mapping) else ()
    named = [value for value in values if isinstance(value, str)]
    return {str(name) for name in raw.get("architectures") or ()} | {
        value.rpartition(".")[2] for value in named
    }


def _holds(row: Family, keys: Collection[str]) -> bool:
    return all(_begins(key, keys) for key in row.keys)


def _begins(start: str, keys: Collection[str]) -> bool:
    return start in keys or any(key.startswith(start) for key in keys)


def _with_backbone(row: Family, model_type: str) -> Family:
    """An own head on transformers' backbone of `model_type`."""
    stock = family_of(model_type)
    assert stock is not None
    return replace(row, layers=stock.layers, norm=stock.norm, softcap=stock.softcap)
