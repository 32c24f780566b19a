"""What a report says of a document: plain values for its template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pessimal.text import show_text, show_token

if TYPE_CHECKING:
    import pandas as pd

WORST_FIRST: Final = ("ERROR", "FAIL", "INCONCLUSIVE", "WARN", "PASS")
_MEANING: Final = {
    "PASS": "Every rule of the policy holds, with its whole interval on the acceptable side.",
    "WARN": "No rule fails, and some deserve a look before this model is used.",
    "FAIL": "At least one rule fails: by this policy the model should not be released as it is.",
    "INCONCLUSIVE": "The evidence does not decide: more words or prompts are needed.",
    "ERROR": "The audit could not judge this model; nothing below counts as a pass.",
}
_PREVIEW_ROWS: Final = 30


def number(value: object) -> str:
    """A number to read: four significant digits, a dash when there is none."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return show_text(value, 200)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def bound_text(bound: Mapping[str, Any] | None) -> str:
    """A bound as readers write it."""
    bound = {key: value for key, value in (bound or {}).items() if value is not None}
    signs = {"min": "≥", "max": "≤", "abs_max": "|·| ≤"}
    return " and ".join(f"{signs.get(k, k)} {number(v)}" for k, v in bound.items()) or "–"


def summarise(document: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict, what it means, and how many rules there are of each, waived ones apart."""
    verdict = str(document.get("verdict") or "ERROR")
    rules = document.get("rules") or []
    waived = sum(bool(rule.get("waived")) for rule in rules)
    counts = Counter(str(rule.get("verdict")) for rule in rules if not rule.get("waived"))
    return {
        "verdict": verdict,
        "meaning": _MEANING.get(verdict, ""),
        "rules": len(rules),
        "counts": [(name, counts[name]) for name in WORST_FIRST if counts[name]],
        "waived": waived,
    }


def join_rules(
    document: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]
) -> list[dict[str, Any]]:
    """Every rule with the metric it judges and the terms that carry it, worst verdict first."""
    metrics = {(m.get("name"), m.get("slice")): m for m in document.get("metrics") or []}
    joined = []
    for rule in document.get("rules") or []:
        metric = metrics.get((rule.get("metric"), rule.get("slice")), {})
        kept = ("value", "ci_low", "ci_high", "n", "noise_floor", "unit")
        row = dict.fromkeys(("reason", "severity", "source", "why"))
        row |= {key: metric.get(key) for key in kept} | dict(rule)
        row["carried_by"] = carried_by(row, tables.get("identity/terms"))
        joined.append(row | {"bound_text": bound_text(rule.get("bound"))})
    order = {verdict: place for place, verdict in enumerate(WORST_FIRST)}
    return sorted(joined, key=lambda rule: order.get(str(rule.get("verdict")), 0))


def carried_by(rule: Mapping[str, Any], terms: pd.DataFrame | None) -> str | None:
    """Which identity terms carry a rule's value: those without which it crosses its bound.

    Args:
        rule: a row of `join_rules`.
        terms: the audit's table of terms, ``term axis gap``.

    Returns:
        A sentence, or None for rules that do not rest on terms, and for a PASS that none carries.
    """
    limit, value = (rule.get("bound") or {}).get("min"), rule.get("value")
    key, _, axis = str(rule.get("slice")).partition("=")
    if rule.get("metric") != "identity.gap" or key not in ("all", "axis"):
        return None
    if terms is None or limit is None or value is None:
        return None
    part = terms if key == "all" else terms[terms["axis"] == axis]
    if len(part) < 2:
        return None
    part = part.assign(without=(part["gap"].sum() - part["gap"]) / (len(part) - 1))
    crossing = part[(part["without"] < limit) != (value < limit)]
    if len(crossing):
        names = [f"{show_text(row.term)} ({row.without:.3f})" for row in crossing.itertuples()]
        return f"Carried by single terms, without which it crosses the bound: {', '.join(names)}."
    if rule.get("verdict") == "PASS":
        return None
    lowest = ", ".join(show_text(term) for term in part.sort_values("gap")["term"].head(3))
    return f"No single term carries it; the lowest are {lowest}."


def group_metrics(document: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """The metrics by audit, in the document's order."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for metric in document.get("metrics") or []:
        row = dict.fromkeys(("value", "ci_low", "ci_high", "n", "noise_floor", "unit", "reason"))
        groups.setdefault(str(metric.get("name")).partition(".")[0], []).append(row | dict(metric))
    return groups


def flatten(values: Mapping[str, Any], skip: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Nested values as lines ``a.b``, without those that are absent or empty."""
    left_out = set(skip)
    lines: list[tuple[str, str]] = []
    for key, value in values.items():
        if key in left_out or value is None or value == {} or value == []:
            continue
        if isinstance(value, Mapping):
            lines += [(f"{show_text(key)}.{name}", text) for name, text in flatten(value)]
        else:
            lines.append((show_text(key), _value_text(value)))
    return lines


def reply_parts(rendered: str) -> list[list[str]]:
    """A rendered prompt as lines; each line in parts between which the reply stands."""
    # show_token makes what the template adds visible; a line's own end is its end here.
    return [
        [show_text(part, 4000) for part in line.split("<reply>")] for line in rendered.split("\n")
    ]


def word_lists(document: Mapping[str, Any], words: pd.DataFrame | None) -> list[Mapping[str, Any]]:
    """The word lists: as the document names them, else counted from the word table."""
    listed: Sequence[Mapping[str, Any]] = document.get("word_lists") or []
    if listed or words is None:
        return [{"sha256": None, "items": None} | dict(entry) for entry in listed]
    counts = words["list"].value_counts(sort=False)
    return [{"name": name, "items": int(n), "sha256": None} for name, n in counts.items()]


def as_text_summary(
    as_text: pd.DataFrame | None, vocabulary: pd.DataFrame | None
) -> list[dict[str, Any]]:
    """For each prompt: how far scores move when replies go through the template as text."""
    if as_text is None or as_text.empty:
        return []
    import numpy as np

    texts: dict[int, str] = {}
    if vocabulary is not None:
        wanted = vocabulary[vocabulary["token_id"].isin(as_text["token_id"])]
        # Token by token: pandas' own text columns can't hold a lone surrogate.
        texts = {int(i): str(t) for i, t in zip(wanted["token_id"], wanted["text"], strict=True)}
    found = []
    for prompt, part in as_text.groupby("prompt", sort=False):
        change = (part["text_score"] - part["score"]).to_numpy(dtype=np.float64)
        sd = float(np.nanstd(part["score"].to_numpy(dtype=np.float64))) or 1.0
        finite = np.flatnonzero(np.isfinite(change))
        largest = finite[np.argsort(-np.abs(change[finite]), kind="stable")][:10]
        rows = [
            {
                "token_id": int(row["token_id"]),
                "shown": show_token(texts.get(int(row["token_id"]), "")),
                "score": float(row["score"]),
                "text_score": float(row["text_score"]),
                "change": float(change[place]) / sd,
                "reason": row["reason"],
            }
            for place, row in ((p, part.iloc[p]) for p in largest)
        ]
        different = part["reason"][part["reason"].fillna("") != ""]
        found.append(
            {
                "prompt": prompt,
                "n": len(part),
                "different": len(different),
                "reasons": list(different.value_counts().items()),
                "rms": float(np.sqrt(np.mean((change[finite] / sd) ** 2))) if len(finite) else None,
                "rows": rows,
            }
        )
    return found


def table_preview(table: pd.DataFrame) -> dict[str, Any]:
    """The first rows of a table, each cell as text."""
    head = table.head(_PREVIEW_ROWS)
    visible = {"token", "text"}
    rows = [
        [
            show_token(value) if str(column) in visible and isinstance(value, str)
            else _value_text(value)
            for column, value in zip(head.columns, row, strict=True)
        ]
        for row in head.itertuples(index=False, name=None)
    ]  # fmt: skip
    return {
        "columns": [show_text(column, 80) for column in head.columns],
        # An empty table's columns have no type to go by.
        "numeric": [len(head) > 0 and head[c].dtype.kind in "iuf" for c in head.columns],
        "rows": rows,
        "total": len(table),
    }


def _value_text(value: object) -> str:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return ", ".join(_value_text(item) for item in value[:20])
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return number(value) if isinstance(value, float) or value is None else show_text(value, 500)
