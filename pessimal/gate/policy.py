"""Policies: YAML files that say which values of which metrics are acceptable."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pessimal.audit.collect import suggest
from pessimal.audit.spec import Bound, MetricSpec, Severity, slice_name
from pessimal.errors import UsageError
from pessimal.gate.nodes import Node, brief, read_node
from pessimal.gate.records import bound_document
from pessimal.text import show_text

CODE = "policy_invalid"
BOUNDS = ("min", "max", "abs_max")
POLICY_KEYS = ("name", "extends", "required", "severity", "default_bounds", "rules", "models")
RULE_KEYS = ("metric", "slice", *BOUNDS, "severity", "why")
# Which bounds fence off the harmful side; an informational metric has no such side.
FENCES: Mapping[str, tuple[str, ...]] = {
    "lower": ("min",), "higher": ("max",), "both": BOUNDS, "neither": BOUNDS,
}  # fmt: skip
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Rule:
    """One bound on one slice of one metric."""

    metric: str
    """``<audit>.<metric>``."""
    slice: str
    """``all``, or ``key=value`` pairs as `pessimal.audit.slice_name` writes them."""
    bound: Bound
    """Exactly one of its three is set."""
    severity: Severity
    """``warning`` rules are never worse than WARN."""
    why: str
    """Why the rule exists."""
    source: str
    """File and line: ``expectations/default.yaml:12``."""
    line: int
    """The line alone."""

    @property
    def key(self) -> tuple[str, str]:
        """Metric and slice: a policy has one rule for each."""
        return self.metric, self.slice

    @property
    def audit(self) -> str:
        """Name of the audit that measures the metric."""
        return self.metric.split(".", 1)[0]


@dataclass(frozen=True)
class Policy:
    """Rules, with what `extends` brought in and what applies to single models."""

    name: str
    """Its name."""
    path: Path
    """The file that was named."""
    sha256: str
    """Hash of the bytes of every file that made it, the named one first."""
    required: tuple[str, ...]
    """Audits without which a run is an ERROR."""
    rules: tuple[Rule, ...]
    """The rules for any model."""
    source: str
    """File and line of `required`, or of the named file's beginning."""
    models: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)
    """Rules by model id, that replace or add to `rules`."""

    def rules_for(self, model_id: str) -> tuple[Rule, ...]:
        """The rules for one model: its own replace those for the same metric and slice."""
        return _merge(self.rules, self.models.get(model_id, ()))

    def document(self) -> dict[str, Any]:
        """The policy as plain JSON, which `policy_from_document` reads back."""
        return {
            "name": self.name, "path": self.path.as_posix(), "sha256": self.sha256,
            "required": list(self.required), "source": self.source,
            "rules": list(map(_rule_document, self.rules)),
            "models": {
                model: list(map(_rule_document, rules)) for model, rules in self.models.items()
            },
        }  # fmt: skip


def policy_from_document(document: Mapping[str, Any]) -> Policy:
    """The policy that a run stored with `Policy.document`.

    Raises:
        UsageError: it is not such a document.
    """

    def rule(stored: Mapping[str, Any]) -> Rule:
        return Rule(**{**stored, "bound": Bound(**stored["bound"])})

    try:
        return Policy(
            name=document["name"], path=Path(document["path"]), sha256=document["sha256"],
            required=tuple(document["required"]), rules=tuple(map(rule, document["rules"])),
            source=document["source"],
            models={model: tuple(map(rule, own)) for model, own in document["models"].items()},
        )  # fmt: skip
    except (AttributeError, KeyError, TypeError) as error:
        raise UsageError(
            CODE, "The run's stored policy can't be read.", "Name a policy with --policy."
        ) from error


def load_policy(
    name_or_path: str, expectations: Path, specs: Mapping[str, MetricSpec], audits: Iterable[str]
) -> Policy:
    """Load a policy and everything it extends.

    Args:
        name_or_path: a name in `expectations`, or a path that ends in .yaml or holds a slash.
        expectations: the folder of policies.
        specs: every declared metric by its full name.
        audits: names of the audits that there are.

    Raises:
        UsageError: no such policy, or anything in it that could make a rule idle: the message has
            file and line.
    """
    path = _find(name_or_path, expectations)
    reader = _Reader(expectations, specs, sorted(audits))
    policy = reader.load(path, _named(path, expectations), ())
    if not policy.rules and not any(policy.models.values()):
        raise UsageError(
            CODE, f"{_shown(path, expectations)} has no rules.", "Add one, or extends."
        )
    return policy


def _find(name_or_path: str, expectations: Path) -> Path:
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path or "\\" in name_or_path:
        path = Path(name_or_path)
        if not path.is_file():
            raise UsageError(
                "policy_not_found", f"There is no policy file {brief(name_or_path)}.",
                "Check the path.",
            )  # fmt: skip
        return path
    known = sorted(file.stem for file in expectations.glob("*.yaml") if file.stem != "waivers")
    if name_or_path not in known:
        raise UsageError(
            "policy_not_found",
            f"There is no policy {brief(name_or_path)} in {expectations.name}/.",
            suggest(name_or_path, known),
        )
    return expectations / f"{name_or_path}.yaml"


def _shown(path: Path, expectations: Path) -> str:
    # Reports and SARIF need paths that mean the same on every machine.
    if path.resolve().parent == expectations.resolve():
        return f"{expectations.name}/{path.name}"
    return show_text(path.as_posix())


def _named(path: Path, expectations: Path) -> bool:
    return path.resolve().parent == expectations.resolve()


def _merge(rules: tuple[Rule, ...], newer: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple({rule.key: rule for rule in (*rules, *newer)}.values())


def _rule_document(rule: Rule) -> dict[str, Any]:
    return {**vars(rule), "bound": bound_document(rule.bound)}


@dataclass(frozen=True)
class _Reader:
    expectations: Path
    specs: Mapping[str, MetricSpec]
    audits: list[str]

    def load(self, path: Path, named: bool, below: tuple[Path, ...]) -> Policy:
        """Read a file on top of what it extends; `below` are the files that extend it."""
        root, data = read_node(path, _shown(path, self.expectations), CODE)
        if root is None:
            raise UsageError(
                CODE, f"{_shown(path, self.expectations)} is empty.", "Write rules or extends."
            )
        keys = root.mapping(POLICY_KEYS)
        name = self._name(keys.get("name"), path, named)
        base = self._base(keys.get("extends"), (*below, path.resolve()))
        digest = hashlib.sha256(data).hexdigest()
        rules, models = (base.rules, dict(base.models)) if base else ((), {})
        own = keys.get("severity")
        severity = _severity(own) if own else None
        if severity:
            rules = tuple(replace(rule, severity=severity) for rule in rules)
            models = {
                model: tuple(replace(rule, severity=severity) for rule in inherited)
                for model, inherited in models.items()
            }
        if "rules" in keys:
            rules = _merge(rules, self._rules(keys["rules"], severity))
        if "models" in keys:
            for model, (_, node) in keys["models"].entries().items():
                models[model] = _merge(models.get(model, ()), self._rules(node, severity))
        if "default_bounds" in keys and keys["default_bounds"].flag():
            rules = self._with_default_bounds(rules, keys["default_bounds"], severity)
        required: tuple[str, ...] = ()
        source = root.place
        if "required" in keys:
            required, source = self._required(keys["required"]), keys["required"].place
        elif base:
            required, source = base.required, base.source
        if base:
            digest = hashlib.sha256(f"{digest} {base.sha256}".encode()).hexdigest()
        return Policy(name, path, digest, required, rules, source, models)

    def _name(self, node: Node | None, path: Path, named: bool) -> str:
        if node is None:
            return show_text(path.stem, 64)
        name = node.text()
        if not NAME.fullmatch(name):
            raise node.fault(
                f"{brief(name)} is not a name.", "Use letters, digits, dots, dashes, underscores."
            )
        if named and name != path.stem:
            raise node.fault(
                f"{path.name} calls itself {brief(name)}.", f"Write name: {path.stem}."
            )
        return name

    def _base(self, node: Node | None, chain: tuple[Path, ...]) -> Policy | None:
        if node is None:
            return None
        name = node.text()
        if not NAME.fullmatch(name):
            raise node.fault(f"{brief(name)} is not a policy's name.", "Use a name, not a path.")
        path = self.expectations / f"{name}.yaml"
        if not path.is_file():
            known = sorted(file.stem for file in self.expectations.glob("*.yaml"))
            raise node.fault(f"There is no policy {brief(name)}.", suggest(name, known))
        if path.resolve() in chain:
            raise node.fault(
                f"extends {brief(name)} leads back to itself.", "Break the circle of extends."
            )
        return self.load(path, True, chain)

    def _required(self, node: Node) -> tuple[str, ...]:
        names: list[str] = []
        for item in node.items():
            name = item.text()
            if name not in self.audits:
                raise item.fault(f"There is no audit {brief(name)}.", suggest(name, self.audits))
            if name in names:
                raise item.fault(f"{brief(name)} is required twice.", "Remove one of the two.")
            names.append(name)
        return tuple(names)

    def _rules(self, node: Node, severity: Severity | None) -> tuple[Rule, ...]:
        found: dict[tuple[str, str], Rule] = {}
        for item in node.items():
            rule = self._rule(item, severity)
            if rule.key in found:
                raise item.fault(
                    f"A rule for {rule.metric} [{show_text(rule.slice)}] is already on line "
                    f"{found[rule.key].line}.",
                    "Keep one of the two.",
                )
            found[rule.key] = rule
        return tuple(found.values())

    def _rule(self, node: Node, severity: Severity | None) -> Rule:
        keys = node.mapping(RULE_KEYS, needed=("metric",))
        metric = keys["metric"].text()
        if metric not in self.specs:
            raise keys["metric"].fault(
                f"There is no metric {brief(metric)}.", suggest(metric, sorted(self.specs))
            )
        own = keys.get("severity")
        return Rule(
            metric=metric,
            slice=_slice(keys["slice"]) if "slice" in keys else "all",
            bound=_bound(node, keys, metric, self.specs[metric]),
            severity=_severity(own) if own else severity or "critical",
            why=show_text(keys["why"].text()) if "why" in keys else "",
            source=node.place,
            line=node.line,
        )

    def _with_default_bounds(
        self, rules: tuple[Rule, ...], node: Node, severity: Severity | None
    ) -> tuple[Rule, ...]:
        ruled = {rule.metric for rule in rules}
        declared = [
            Rule(
                metric, "all", spec.bound, severity or spec.severity,
                f"the audit's own default bound: {spec.definition}", node.place, node.line,
            )
            for metric, spec in self.specs.items() if spec.bound and metric not in ruled
        ]  # fmt: skip
        return (*rules, *declared)


def _severity(node: Node) -> Severity:
    choice: Literal["critical", "warning"] = (
        "critical" if node.choice("critical", "warning") == "critical" else "warning"
    )
    return choice


def _slice(node: Node) -> str:
    text = node.text()
    if text == "all":
        return text
    remedy = "Write all, or key=value pairs sorted by key and joined by commas."
    parts = [part.split("=", 1) for part in text.split(",")]
    if any(len(part) != 2 or not part[1] for part in parts):
        raise node.fault(f"{brief(text)} is not a slice.", remedy)
    try:
        name = slice_name(**{part[0]: part[1] for part in parts})
    except ValueError as error:
        raise node.fault(f"{brief(text)} is not a slice: {show_text(error)}.", remedy) from error
    if name != text:
        raise node.fault(f"{brief(text)} is not a slice's name.", f"Write {brief(name)}.")
    return name


def _bound(node: Node, keys: Mapping[str, Node], metric: str, spec: MetricSpec) -> Bound:
    given = [name for name in BOUNDS if name in keys]
    if len(given) != 1:
        raise node.fault(
            f"The rule for {metric} has {len(given) or 'no'} bounds.",
            "Give exactly one of min, max and abs_max.",
        )
    name = given[0]
    number = keys[name].number()
    if name not in FENCES[spec.worse]:
        raise keys[name].fault(
            f"{name} does not bound the harmful side of {metric}, where {spec.worse} is worse.",
            f"Use {' or '.join(FENCES[spec.worse])}.",
        )
    idle = _idle(name, number, spec.low, spec.high)
    if idle:
        between = f"{metric} lies between {_end(spec.low)} and {_end(spec.high)}."
        raise keys[name].fault(f"{name}: {number:g} {idle}.", between)
    return Bound(**{name: number})


def _end(number: float | None) -> str:
    return "no limit" if number is None else f"{number:g}"


def _idle(name: str, bound: float, low: float | None, high: float | None) -> str | None:
    """Why a bound can't tell one value of the metric's range from another, or None."""
    if name == "abs_max":
        if bound < 0:
            return "is negative, which no magnitude is"
        ends = None if low is None or high is None else max(abs(low), abs(high))
        return "can never fail" if ends is not None and bound >= ends else None
    if name == "max":  # the mirror image of min
        bound, low, high = -bound, None if high is None else -high, None if low is None else -low
    if low is not None and bound <= low:
        return "can never fail"
    if high is not None and bound > high:
        return "can never pass"
    return None
