"""Figures, the HTML report and the Markdown summary of an audit."""

from pessimal.reports.figures import Drawing, draw
from pessimal.reports.html import render_report, write_report
from pessimal.reports.markdown import describe

__all__ = ["Drawing", "describe", "draw", "render_report", "write_report"]
