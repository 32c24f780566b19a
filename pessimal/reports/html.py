"""Write an audit as one HTML file that needs nothing else and runs nothing but its own script."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pessimal.errors import PessimalError
from pessimal.reports.intervals import draw_interval
from pessimal.reports.svg import Embedded, embed
from pessimal.reports.tokens import json_for_html, kinds_chart, pack_vocabulary, prompt_tokens
from pessimal.reports.view import (
    as_text_summary,
    flatten,
    group_metrics,
    join_rules,
    number,
    reply_parts,
    summarise,
    table_preview,
    word_lists,
)
from pessimal.text import show_text, show_token

if TYPE_CHECKING:
    import jinja2
    import pandas as pd

TEMPLATES: Final = Path(__file__).parent / "templates"
TOKENS_LISTED: Final = 20


def write_report(
    document: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame],
    vocabulary: pd.DataFrame | None,
    figures: Mapping[str, str],
    path: Path,
    *,
    words: pd.DataFrame | None = None,
    as_text: pd.DataFrame | None = None,
    charts: Mapping[str, str] | None = None,
) -> None:
    """Write the report of one audit.

    Args:
        document: the audit document. Beside what every document has, the report shows ``prompts``
            (``id text framing``), ``word_lists`` (``name items sha256``), ``command`` and ``notes``
            where they are there.
        tables: the audits' tables, most telling rows first, by ``<audit>/<table>``.
        vocabulary: the score table, or None when none was made.
        figures: SVG documents by name, in the order to show them.
        path: the file to write; it appears whole or not at all.
        words: the word table.
        as_text: the sample scored as text: ``token_id prompt score text_score reason``.
        charts: charts by the name of the figure that they stand in for.

    Raises:
        PessimalError: the file can't be written.
    """
    page = render_report(
        document, tables, vocabulary, figures, words=words, as_text=as_text, charts=charts
    )
    write_page(path, page)


def render_report(
    document: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame],
    vocabulary: pd.DataFrame | None,
    figures: Mapping[str, str],
    *,
    words: pd.DataFrame | None = None,
    as_text: pd.DataFrame | None = None,
    charts: Mapping[str, str] | None = None,
) -> str:
    """The report as text; see `write_report`."""
    from markupsafe import Markup

    model: Mapping[str, Any] = document.get("model") or {}
    prompts: Sequence[Mapping[str, Any]] = document.get("prompts") or []
    tokens = [] if vocabulary is None else prompt_tokens(vocabulary, prompts, TOKENS_LISTED)
    drawn = embed_figures(figures, charts or {})
    kinds: dict[str, Any] | None = None
    packed = None
    if vocabulary is not None and tokens:
        meta, data = pack_vocabulary(vocabulary, tokens)
        packed = {"meta": Markup(json_for_html(meta)), "data": Markup(data), **meta}
        kinds = kinds_chart(vocabulary, tokens)
    return (
        page_environment()
        .get_template("report.html.j2")
        .render(
            **page_parts(drawn, kinds),
            document=document,
            model=model,
            summary=summarise(document),
            rules=join_rules(document, tables),
            draw_interval=lambda rule: Markup(draw_interval(rule)),
            audits=document.get("audits") or [],
            metrics=group_metrics(document),
            loaded=flatten(model, skip=("rendered", "notes")),
            rendered=reply_parts(str(model.get("rendered") or "")),
            notes=[*(model.get("notes") or []), *(document.get("notes") or [])],
            tokens=tokens,
            packed=packed,
            kinds=kinds is not None,
            searches=document.get("searches") or [],
            as_text=as_text_summary(as_text, vocabulary),
            words=word_lists(document, words),
            tables={name: table_preview(table) for name, table in tables.items()},
            facts=flatten({k: document.get(k) or {} for k in ("versions", "timings", "artifacts")}),
        )
    )


def embed_figures(
    figures: Mapping[str, str], charts: Mapping[str, str]
) -> list[tuple[Embedded, Any]]:
    """Every figure with its chart, None where there is none or it shows nothing.

    Args:
        figures: SVG documents by name.
        charts: charts, JSON, by the same names.

    Raises:
        PessimalError: one is not what it should be.
    """
    return [
        (embed(name, svg), _checked(name, charts[name]) if name in charts else None)
        for name, svg in figures.items()
    ]


def page_parts(drawn: Sequence[tuple[Embedded, Any]], first: Any = None) -> dict[str, Any]:
    """What every page with figures is made with.

    Args:
        drawn: its figures with their charts.
        first: a chart that is no figure's.

    Returns:
        ``style``, ``script``, ``allowed`` (hashes of what may run), ``figures`` (each with its
        mark-up and the place of its chart), and the packed ``charts`` and ``plotly``: None for a
        page without charts. Place 0 is that of `first`.
    """
    from markupsafe import Markup

    script = "".join(
        (TEMPLATES / name).read_text(encoding="utf-8") for name in ("charts.js", "report.js")
    )
    hashes = [_hash(script)]
    charts = [first, *(chart for _, chart in drawn)]
    plotly = packed = None
    if any(chart is not None for chart in charts):
        plotly, digest = _library()
        hashes.append(digest)
        packed = _pack(json.dumps(charts, allow_nan=False, separators=(",", ":")))
    # Safe by construction: our own files, hashes, base64, and SVG that `embed` has rebuilt.
    return {
        "style": Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),
        "script": Markup(script),
        "allowed": Markup(" ".join(f"'sha256-{digest}'" for digest in hashes)),
        "figures": [
            (figure, Markup(figure.markup), place if chart is not None else None)
            for place, (figure, chart) in enumerate(drawn, 1)
        ],
        "charts": None if packed is None else Markup(packed),
        "plotly": None if plotly is None else Markup(plotly),
    }


@cache
def _library() -> tuple[str, str]:
    """plotly.js, gzip in base64, and its hash for the page's policy."""
    # Found without importing it: only its script is used.
    found = find_spec("plotly")
    assert found is not None
    assert found.origin is not None
    file = Path(found.origin).parent / "package_data" / "plotly.min.js"
    text = file.read_text(encoding="utf-8")
    return _pack(text), _hash(text)


def _pack(text: str) -> str:
    """Gzip in base64, for the page's script to unpack."""
    return base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii")


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def _checked(name: str, chart: str) -> dict[str, Any] | None:
    try:
        found = json.loads(chart)
        if not isinstance(found, dict) or not isinstance(found.get("views"), list):
            raise ValueError("it has no views")
    except ValueError as error:
        raise PessimalError(
            "figure_invalid", f"The chart {name!r} can't be read: {error}.",
            "Make the run's figures again by auditing again.",
        ) from error  # fmt: skip
    return found if found["views"] else None


def page_environment() -> jinja2.Environment:
    """Templates that escape every value, and make what is text safe to show."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters.update(number=number, token=show_token)
    return environment


def _finalize(value: object) -> object:
    """Every value of the template: text is made safe to show, absent ones are a dash."""
    from markupsafe import Markup

    if isinstance(value, Markup):
        return value
    if value is None:
        return "–"
    return show_text(value, 4000) if isinstance(value, str) else value


def write_page(path: Path, page: str) -> None:
    """Write a report, by rename.

    Raises:
        PessimalError: the file can't be written.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            temporary = Path(file.name)
            file.write(page)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise PessimalError(
            "report_not_written", f"The report {path} can't be written: {error.strerror}.",
            "Name another file, or make room.",
        ) from error  # fmt: skip
