"""Finds what must be known of a model behind a server: its tokenizer, its template, its URL."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit, urlunsplit

from pessimal.errors import UsageError
from pessimal.models.checkpoint import read_json
from pessimal.models.endpoints.client import KEY
from pessimal.models.endpoints.dialects import DIALECTS, Settings, read_settings
from pessimal.models.families import ENDPOINT
from pessimal.models.places import find_place
from pessimal.models.records import ModelRequest, ModelSource
from pessimal.models.slot import PROBE_PROMPT, find_slot
from pessimal.models.templates import open_tokenizer, pin_date, read_template


def is_url(name: str) -> bool:
    """Whether a model's name is a URL."""
    return name.startswith(("http://", "https://"))


def open_endpoint(request: ModelRequest) -> ModelSource:
    """Read the tokenizer and the template of a model behind a server; nothing is asked yet.

    Raises:
        UsageError: the URL or a flag can't be used.
        PessimalError: the tokenizer or the template is refused.
    """
    settings = settings_of(request)
    url = _checked_url(request.model, settings)
    if request.tokenizer is None:
        raise UsageError(
            "endpoint_tokenizer",
            "Without the model's tokenizer nobody can say which tokens there are to score.",
            "Name its folder or hub id: --tokenizer MODEL.",
        )
    folder = find_place(request.tokenizer, request.revision).folder
    tokenizer = open_tokenizer(folder, trust=False)
    template = read_template(request, None, tokenizer)
    raw = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    known = max(tokenizer.get_vocab().values()) + 1
    source = ModelSource(
        request=request, id=url, revision=None, folder=folder, weight_files=(), adapter=None,
        base={}, family=ENDPOINT, head_key="", head_shape=(),
        config=SimpleNamespace(max_position_embeddings=raw.get("max_position_embeddings")),
        embedding_rows=min(known, int(raw.get("vocab_size") or known)),
        tokenizer=tokenizer, tokenizer_folder=folder, template=template,
        template_kwargs=pin_date(tokenizer, template), parts=_parts(request),
    )  # fmt: skip
    find_slot(source, PROBE_PROMPT)
    return replace(source, notes=_notes(url))


def settings_of(request: ModelRequest) -> Settings:
    """The settings that ``--endpoint`` names.

    Raises:
        UsageError: it is missing, or can't be used.
    """
    if request.endpoint is None:
        raise UsageError(
            "endpoint_dialect",
            f"{request.model} is a URL, and what is spoken there isn't known.",
            f"Name it: --endpoint {'|'.join(DIALECTS)}, or a JSON file of settings.",
        )
    return read_settings(request.endpoint)


def _parts(request: ModelRequest) -> dict[str, tuple[Path, ...]]:
    file = Path(str(request.endpoint)).expanduser()
    return {"endpoint": (file,)} if request.endpoint not in DIALECTS else {}


def _checked_url(name: str, settings: Settings) -> str:
    try:
        parts = urlsplit(name)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        host = None
    if not host:
        raise UsageError(
            "endpoint_url", "The model's URL names no host.", "Write http://host:port/path."
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            "endpoint_url",
            "The model's URL holds a user name, a password or a query, which would be recorded "
            "with every run.",
            f"Leave them out; set {KEY} to a key that is sent as a bearer token.",
        )
    path = parts.path if parts.path.strip("/") else settings.path
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _notes(url: str) -> tuple[str, ...]:
    parts = urlsplit(url)
    host = str(parts.hostname)
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if parts.scheme == "https" or loopback:
        return ()
    return (
        f"Warning: {host} is asked over plain http, so prompts, scores and a key can be read and "
        "changed on the way.",
    )
