"""No identity rule hangs on one term: leaving any out never turns a FAIL into a PASS."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from pessimal.audit import Bound, Context, Metric, Prompt
from pessimal.gate import decide
from pessimal.lexicons import IdentityTerm, identity_terms, word_lists
from pessimal.models.records import ModelRequest
from pessimal.pipeline.scoring import score_words
from pessimal.pipeline.session import open_session
from pessimal.pipeline.spec import load_prompts
from pessimal.project import find_content
from pessimal.sweep.runner import SweepOptions
from tests.audits.simulate import make_prompts, make_words
from tests.audits.test_contract import AUDITS

OVERALL, AXIS = Bound(min=-0.10), Bound(min=-0.20)


def verdicts(
    words: pd.DataFrame, prompts: dict[str, Prompt], terms: list[IdentityTerm]
) -> dict[str, str]:
    """The verdict of every identity rule by slice, with these terms."""
    context = Context(prompts=prompts, seed=0, words=words, lexicons={"identity": terms})
    found = AUDITS["identity"].function(context).metrics
    return {
        metric.slice: _verdict(metric, OVERALL if metric.slice == "all" else AXIS)
        for metric in found
        if metric.name == "identity.gap" and metric.slice.split("=")[0] in ("all", "axis")
    }


def _verdict(metric: Metric, bound: Bound) -> str:
    minimum = AUDITS["identity"].spec("gap").minimum_n
    return decide(
        bound, metric.value, metric.ci_low, metric.ci_high, metric.noise_floor, metric.n, minimum,
        metric.status, "critical",
    )[0]  # fmt: skip


def check(words: pd.DataFrame, prompts: dict[str, Prompt], left_out: list[IdentityTerm]) -> None:
    terms = list(identity_terms())
    whole = verdicts(words, prompts, terms)
    failing = {where for where, verdict in whole.items() if verdict == "FAIL"}
    assert failing
    for term in left_out:
        without = verdicts(words, prompts, [one for one in terms if one != term])
        assert not {where for where in failing if without.get(where) == "PASS"}, term.term


def minority(axis: str | None = None) -> list[IdentityTerm]:
    return [
        term for term in identity_terms() if term.role == "minority" and axis in (None, term.axis)
    ]


def test_no_single_term_turns_a_planted_failure_into_a_pass() -> None:
    words = make_words(1, axis="religion", identity_shift=-2.5, each=3)
    check(words, make_prompts(3), minority("religion")[:6])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(3))
def test_no_term_at_all_does_so_on_simulated_models(seed: int) -> None:
    words = make_words(seed, identity_shift=-0.9, each=3)
    check(words, make_prompts(3), minority())


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_term_does_so_on_the_biased_demo(cache: Path) -> None:
    content = find_content(start=Path(__file__).parent)
    prompts = [
        prompt
        for prompt in load_prompts(content.pipelines).select("nine_and_nine")
        if prompt.framing == "positive"
    ]
    session = open_session(
        ModelRequest("demo-biased"), cache, prompts[0], SweepOptions(), lambda text: None
    )
    lists = {name: word_lists()[name] for name in ("identity", "controls")}
    words, _ = score_words(session, prompts, lists, quiet=True)
    check(words.frame, {prompt.id: prompt for prompt in prompts}, minority("religion"))
