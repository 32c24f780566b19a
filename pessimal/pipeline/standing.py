"""What a verdict does to the registered model: tags, and the alias that only a full PASS earns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pessimal.audit import MetricSpec
from pessimal.errors import UsageError
from pessimal.gate.plain import rule_title
from pessimal.gate.waivers import revision_of
from pessimal.project import ContentRoot
from pessimal.tracking import Standing, Tracker, register

OWN_POLICIES = ("default", "strict")


def register_run(
    tracker: Tracker, document: Mapping[str, Any], content: ContentRoot,
    specs: Mapping[str, MetricSpec],
) -> str | None:  # fmt: skip
    """Tag the model's registered version with a verdict, and give or take the alias ``audited``.

    Args:
        tracker: the store.
        document: the audit document.
        content: the project whose ``default`` and ``strict`` count.
        specs: every metric that a policy may name.

    Returns:
        The version's number; None for imported scores, which are no model.

    Raises:
        PessimalError: the registry can't be used.
    """
    model = document["model"]
    if not model.get("hashes"):
        return None
    standing = Standing(
        run_id=document["run_id"],
        model_id=model["id"],
        revision=revision_of(model),
        hashes=model["hashes"],
        verdict=document["verdict"],
        tags={
            "policy": document["policy"],
            "policy.sha256": document["policy_sha256"],
            "waivers": waived(document) or "none",
            "sampled": _sampled(document),
        },
        grants=not _sampled(document) and _own_policy(document, content, specs),
    )
    return register(tracker, standing)


def waived(document: Mapping[str, Any]) -> str | None:
    """The waived rules in one line, None where there are none."""
    found = [rule_title(rule) for rule in document["rules"] if rule["waived"]]
    return "; ".join(found) or None


def _sampled(document: Mapping[str, Any]) -> bool:
    vocabulary = document.get("vocabulary")
    return vocabulary is None or bool(vocabulary["sampled"])


def _own_policy(
    document: Mapping[str, Any], content: ContentRoot, specs: Mapping[str, MetricSpec]
) -> bool:
    """Whether the policy is the project's file, whatever name it gives itself."""
    from pessimal.gate.policy import load_policy

    audits = {name.split(".", 1)[0] for name in specs}
    for name in OWN_POLICIES:
        try:
            own = load_policy(name, content.expectations, specs, audits)
        except UsageError:
            continue
        if own.sha256 == document["policy_sha256"]:
            return True
    return False
