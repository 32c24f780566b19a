"""Audits: what they declare, what they see and how they are found."""

from pessimal.audit.collect import collect_audits, metric_specs, suggest
from pessimal.audit.context import AuditScorer, Context, Prompt
from pessimal.audit.spec import (
    Audit,
    AuditResult,
    Bound,
    Figure,
    Metric,
    MetricSpec,
    audit,
    slice_name,
)

__all__ = [
    "Audit",
    "AuditResult",
    "AuditScorer",
    "Bound",
    "Context",
    "Figure",
    "Metric",
    "MetricSpec",
    "Prompt",
    "audit",
    "collect_audits",
    "metric_specs",
    "slice_name",
    "suggest",
]
