"""Great Expectations' own page of a validation, made safe and readable without a network."""

from __future__ import annotations

import html
import re
import warnings
from collections.abc import Mapping
from typing import Any

from pessimal.errors import PessimalError

# Nothing is loaded from anywhere and no script runs, whatever a token in a slice says.
HEAD = """<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body { font: 14px/1.4 sans-serif; margin: 2em; max-width: 70em }
table { border-collapse: collapse } td, th { border: 1px solid #ccc; padding: .3em .6em }
.fa-check-circle::before { content: "pass"; color: #060 }
.fa-times::before { content: "FAIL"; color: #900; font-weight: bold }
</style>
"""
_SCRIPTS = re.compile(r"<script\b.*?</script\s*>|<style\b.*?</style\s*>", re.DOTALL | re.IGNORECASE)
_LOADED = re.compile(r"<(?:link|img|meta|iframe)\b[^>]*>", re.IGNORECASE)
_LINKS = re.compile(r"\bhref=\"(?!#)[^\"]*\"", re.IGNORECASE)


def render_data_docs(validation: Mapping[str, Any]) -> str:
    """The Data Docs page of a validation result.

    Args:
        validation: the validation result as JSON, as `Judgement.validation` holds it.

    Raises:
        PessimalError: Great Expectations can't render it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            from great_expectations.core.expectation_validation_result import (
                expectationSuiteValidationResultSchema as schema,
            )
            from great_expectations.render.renderer.page_renderer import (
                ValidationResultsPageRenderer,
            )
            from great_expectations.render.view.view import DefaultJinjaPageView

            # The renderer escapes nothing: what it is given must be inert already.
            result = schema.load(_escaped(validation))
            renderer: Any = ValidationResultsPageRenderer()
            view: Any = DefaultJinjaPageView()
            page: str = view.render(renderer.render(result))
    except Exception as error:
        raise PessimalError(
            "gate_broken", f"Great Expectations can't show a result: {type(error).__name__}.",
            "Check the installed great-expectations.",
        ) from error  # fmt: skip
    bare = _LINKS.sub("", _LOADED.sub("", _SCRIPTS.sub("", page)))
    return bare.replace("<head>", f"<head>\n{HEAD}", 1)


def _escaped(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _escaped(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_escaped(one) for one in value]
    return html.escape(value) if isinstance(value, str) else value
