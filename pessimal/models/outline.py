"""Opens a model whose weights aren't here, as far as its config and tokenizer tell."""

from __future__ import annotations

from pathlib import Path

from pessimal.errors import PessimalError
from pessimal.models.checkpoint import read_json, weight_files
from pessimal.models.families import by_class, stock_family
from pessimal.models.places import Place, find_place, is_hub_id
from pessimal.models.quiet import quiet_libraries
from pessimal.models.records import ModelRequest, ModelSource
from pessimal.models.source import find_template, open_source, read_config
from pessimal.models.templates import open_tokenizer, pin_date


def open_outline(request: ModelRequest, cache: Path) -> ModelSource:
    """A model to plan with: `open_source`, or where its weights aren't here, what is known of it.

    Of a hub id only what isn't weights is fetched. A source without ``weight_files`` can be
    rendered and counted, never scored, and its head and hashes are unknown.

    Raises:
        PessimalError: as `open_source`, but for weights that aren't here.
    """
    plain = request.kind == "reward" and request.adapter is None
    if plain and is_hub_id(request.model):
        place = find_place(request.model, request.revision, weights=False)
        adapter = (place.folder / "adapter_config.json").is_file()
        if not adapter and not _has_weights(place.folder):
            return _outline(request, place)
    try:
        return open_source(request, cache)
    except PessimalError as error:
        if not plain or error.code != "weights_missing":
            raise
    return _outline(request, find_place(request.model, request.revision, weights=False))


def _has_weights(folder: Path) -> bool:
    try:
        return bool(weight_files(folder, "model", allow_pickle=False))
    except PessimalError:
        return False


def _outline(request: ModelRequest, place: Place) -> ModelSource:
    raw = read_json(place.folder / "config.json")
    family = by_class(raw) or stock_family(raw)
    with quiet_libraries():
        config = read_config(place.folder, raw, None, trust=False)
        folder = place.folder
        if request.tokenizer is not None:
            folder = find_place(request.tokenizer, None, weights=False).folder
        tokenizer = open_tokenizer(folder, trust=False)
        template = None
        if family.kind != "encoder":
            template = find_template(request, None, tokenizer, family)
    return ModelSource(
        request=request,
        id=place.id,
        revision=place.revision,
        folder=place.folder,
        weight_files=(),
        adapter=None,
        base={},
        config=config,
        family=family,
        head_key="",
        head_shape=(),
        embedding_rows=int(config.vocab_size),
        tokenizer=tokenizer,
        tokenizer_folder=folder,
        template=template,
        template_kwargs={} if template is None else pin_date(tokenizer, template),
    )
