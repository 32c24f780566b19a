"""Where a sweep's time goes, by the profiler's own time of each operation."""

from __future__ import annotations

from collections.abc import Callable

KINDS = {
    "the layers' matmuls": ("mm", "addmm", "linear", "matmul"),
    "attention to the prompt": ("bmm", "baddbmm", "_softmax", "softmax"),
    "copies and views": ("copy_", "cat", "clone", "contiguous", "empty", "index_select"),
}
REST = "norms, rotary embedding, activations, a reply's own keys"


def shares(run: Callable[[], object]) -> dict[str, float]:
    """Share of each kind of work in the CPU time of one run, largest first."""
    from torch.profiler import ProfilerActivity, profile

    run()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run()
    kind_of = {name: kind for kind, names in KINDS.items() for name in names}
    found = dict.fromkeys((*KINDS, REST), 0.0)
    for event in profiler.key_averages():
        kind = kind_of.get(event.key.removeprefix("aten::"), REST)
        found[kind] += event.self_cpu_time_total
    total = sum(found.values())
    ordered = sorted(found.items(), key=lambda pair: -pair[1])
    return {kind: time / total for kind, time in ordered}
