"""``pytest --pessimal-run RUN``: one test a rule of a finished run.

Installed as a plugin of every pytest run: without the option it imports nothing and does nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pessimal.gate.records import RuleVerdict


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("pessimal", "reward model audits")
    group.addoption(
        "--pessimal-run", metavar="RUN",
        help="collect one test a rule of this finished audit: a run id, its beginning, or latest;"
        " the project's own tests only where paths are named",
    )  # fmt: skip
    group.addoption(
        "--pessimal-policy", metavar="Q", help="policy to judge it by; the run's own by default"
    )
    group.addoption(
        "--pessimal-tracking-uri", metavar="URI",
        help="MLflow store; MLFLOW_TRACKING_URI, else the project's mlruns/, by default",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Leave a project's own tests out, unless they are asked for."""
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    if config.getoption("pessimal_run") is not None and not named:
        config.args = []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Add the rules; first, so that -k and other selections see them."""
    run = session.config.getoption("pessimal_run")
    if run is not None:
        judged = JudgedRun.from_parent(session, name=str(run), nodeid="pessimal")
        items.extend(judged.collect())


class JudgedRun(pytest.Collector):
    """A finished audit."""

    def collect(self) -> Iterator[RuleItem]:
        """Judge the run and give an item a line of the judgement.

        Raises:
            pytest.UsageError: the run, the policy or a waiver can't be used.
        """
        from pessimal.errors import PessimalError
        from pessimal.gate.plain import bound_text, plain, title

        try:
            judgement = self._judge()
        except PessimalError as error:
            raise pytest.UsageError(f"{error.message} {error.remedy}") from None
        for line in judgement.rules:
            name = plain(f"{title(line)} {bound_text(line)}".strip())
            yield RuleItem.from_parent(self, name=name, line=line)

    def _judge(self) -> Any:
        from pessimal.pipeline.finished import judge_run
        from pessimal.project import find_content

        options = self.config.option
        content = find_content(start=self.config.invocation_params.dir)
        with warnings.catch_warnings():
            # MLflow's and its own libraries' are not the business of somebody's test suite.
            warnings.simplefilter("ignore")
            return judge_run(
                options.pessimal_run, options.pessimal_policy, content,
                options.pessimal_tracking_uri,
            )[1]  # fmt: skip


class RuleItem(pytest.Item):
    """One line of a judgement: ERROR errs in its set-up, WARN passes with a note."""

    def __init__(self, *, line: RuleVerdict, **settings: Any) -> None:
        super().__init__(**settings)
        self.line = line
        self.user_properties.append(("verdict", line.label))

    def setup(self) -> None:
        """Skip what is waived; err on what could not be evaluated."""
        if self.line.label == "WAIVED":
            pytest.skip(self.evidence())
        if self.line.verdict == "ERROR":
            raise RuleFailure(self.evidence())

    def runtest(self) -> None:
        """Fail on FAIL and INCONCLUSIVE."""
        if self.line.verdict in ("FAIL", "INCONCLUSIVE"):
            raise RuleFailure(self.evidence())
        if self.line.verdict == "WARN":
            self.add_report_section("call", "pessimal", self.evidence())

    def evidence(self) -> str:
        """The verdict, its reason, the policy's line and why the rule exists."""
        from pessimal.gate.plain import plain

        line = self.line
        where = f" ({line.source}: {line.why})" if line.why else f" ({line.source})"
        return plain(f"{line.label}: {line.reason}{where}")

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The evidence alone, without a traceback."""
        if isinstance(excinfo.value, RuleFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[str, int | None, str]:
        """The policy's file and line."""
        from pessimal.gate.plain import plain, split_source

        file, number = split_source(self.line.source)
        return plain(file), number - 1, self.name


class RuleFailure(Exception):
    """A rule that did not pass."""
