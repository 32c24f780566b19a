"""Opens whatever scores the replies of a model: a head, two language models, a judge, a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pessimal.errors import UsageError
from pessimal.models.records import ModelRequest, ModelSource

if TYPE_CHECKING:
    from pessimal.models.protocol import ReplyScorer


def open_other_kind(request: ModelRequest) -> ModelSource | None:
    """Find a model that isn't a reward model with a head; None for one that is.

    Raises:
        UsageError: flags that don't belong to the kind that is asked for.
        PessimalError: the model is refused.
    """
    from pessimal.models.endpoints.source import is_url, open_endpoint

    url = is_url(request.model)
    _refuse_strays(request, url=url)
    if url:
        return open_endpoint(request)
    if request.kind == "implicit":
        from pessimal.models.implicit import open_implicit

        return open_implicit(request)
    if request.kind == "judge":
        from pessimal.models.judge import open_judge

        return open_judge(request)
    return None


def open_scorer(source: ModelSource, cache: Path) -> ReplyScorer:
    """Load a model, or reach it, and give what scores its replies.

    Args:
        source: what was found by `pessimal.models.source.open_source`.
        cache: Pessimal's cache folder.

    Raises:
        PessimalError: the model is refused; the code and the message say why.
    """
    from pessimal.models.endpoints.source import is_url, settings_of

    if is_url(source.request.model):
        from pessimal.models.endpoints.scorer import EndpointScorer

        return EndpointScorer(source, settings_of(source.request), cache)
    if source.request.kind == "implicit":
        from pessimal.models.implicit import open_implicit_scorer

        return open_implicit_scorer(source)
    if source.request.kind == "judge":
        from pessimal.models.judge import open_judge_scorer

        return open_judge_scorer(source)
    from pessimal.models.loader import load_model
    from pessimal.models.scorer import Scorer

    return Scorer(load_model(source))


def _refuse_strays(request: ModelRequest, *, url: bool) -> None:
    """Refuse flags that would be ignored."""
    strays = {
        "--reference": (request.reference is not None, request.kind == "implicit"),
        "--with-suffix": (request.with_suffix, request.kind == "implicit"),
        "--judge-template": (request.judge_template is not None, request.kind == "judge"),
        "--endpoint": (request.endpoint is not None, url),
        "--calibrate-with": (request.calibrate_with is not None, url),
        "--kind": (request.kind != "reward", not url),
        "--adapter": (request.adapter is not None, not url),
    }
    for flag, (given, fits) in strays.items():
        if given and not fits:
            raise UsageError(
                "kind_flags",
                f"{flag} has no meaning for {request.model}, scored as it is asked for here.",
                "Leave it out. --reference, --beta and --with-suffix go with --kind implicit, "
                "--judge-template with --kind judge, --endpoint and --calibrate-with with a URL.",
            )
