"""Tokens that try to run, to break out or to hide."""

from __future__ import annotations

HOSTILE = (
    "<script>window.hit=1</script>", "</style><b>", "</script><script>window.hit=1</script>",
    "javascript:window.hit=1", "\"'`><img src=x onerror=window.hit=1>", "\u202egnp.exe", "a\0b",
    "a" + "\u0301" * 10_000, " love", "\n\n", "<!--", "\ud800", "爱", "{{ 7*7 }}", "&lt;b&gt;",
)  # fmt: skip
