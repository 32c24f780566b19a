"""A judgement as Markdown, for a pull request or a model card."""

from __future__ import annotations

from pessimal.gate.plain import bound_text, inert, title
from pessimal.gate.records import Judgement


def render_markdown(judgement: Judgement, heading: str = "Reward model audit") -> str:
    """A heading, the verdict, a table of the lines that did not pass, and the others folded away.

    Args:
        judgement: the judgement.
        heading: the section's heading.
    """
    revision = "" if judgement.revision is None else f" at {inert(judgement.revision)}"
    parts = [
        f"## {inert(heading)}: {judgement.verdict}",
        f"{inert(judgement.model)}{revision}. {inert(judgement.summary())}.",
    ]
    shown = [line for line in judgement.rules if line.label != "PASS"]
    passed = [line for line in judgement.rules if line.label == "PASS"]
    for lines, folded in ((shown, False), (passed, True)):
        if not lines:
            continue
        table = ["| verdict | rule | bound | why |", "|---|---|---|---|"]
        for line in lines:
            bound = inert(bound_text(line)) + (", warning" if line.severity == "warning" else "")
            cells = (f"**{line.label}**", inert(title(line)), bound, inert(line.reason))
            table.append(f"| {' | '.join(cells)} |")
        text = "\n".join(table)
        if folded:
            summary = f"<summary>{len(lines)} passed</summary>"
            text = f"<details>{summary}\n\n{text}\n\n</details>"
        parts.append(text)
    if judgement.skipped:
        parts.append(
            "\n".join(
                f"- Not judged: {inert(title(one))}: {inert(one.reason)}"
                for one in judgement.skipped
            )
        )
    policy = f"Policy {inert(judgement.policy)}, sha256 {judgement.policy_sha256[:16]}."
    return "\n\n".join([*parts, policy]) + "\n"
