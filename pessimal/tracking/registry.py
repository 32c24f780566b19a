"""Registered model versions: a verdict that travels with the model.

A model's registered name is its id with ``/`` and ``:`` as ``--``; a version stands for one
revision with one set of hashes. The alias ``audited`` points at a version whose last verdict was a
PASS that the project's own policy gave it over the whole vocabulary. The registry keeps no history
of aliases: the run's record does.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pessimal.errors import PessimalError
from pessimal.tracking.run import tag_values
from pessimal.tracking.store import import_mlflow
from pessimal.tracking.tracker import Tracker

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

ALIAS = "audited"
ID_TAG = "pessimal.model"
EARNED_TAG = "audited.run"
IDENTITY_TAG = "pessimal.identity"


@dataclass(frozen=True)
class Standing:
    """What a run says about a model."""

    run_id: str
    """The run."""
    model_id: str
    """The model's id."""
    revision: str | None
    """Its revision."""
    hashes: Mapping[str, str]
    """sha256 of its parts, by name."""
    verdict: str
    """The run's verdict."""
    tags: Mapping[str, object]
    """Further tags for the version: policy, waivers."""
    grants: bool
    """Whether a PASS of this run earns the alias: own policy, whole vocabulary."""


def registered_name(model_id: str) -> str:
    """The registered model's name: names can hold neither ``/`` nor ``:``, filters no quotes.

    Nor can they be ``.`` or begin with ``..``, as the path of a folder may.
    """
    name = re.sub(r"[\x00-\x1f'\"`\\]", "_", model_id.replace("/", "--").replace(":", "--"))
    return re.sub(r"^\.(?=\.|$)", "_", name)


def register(tracker: Tracker, standing: Standing) -> str:
    """Tag the model's version and give or take the alias ``audited``.

    A PASS that grants gives it; a PASS that doesn't (another policy, a sample) leaves it where it
    is; any other verdict takes it from this version.

    Returns:
        The version's number.

    Raises:
        PessimalError: the registry can't be used.
    """
    mlflow = import_mlflow()
    try:
        return _register(tracker, standing)
    except (mlflow.MlflowException, OSError) as error:
        raise PessimalError(
            "registry_failed",
            f"The model can't be registered in {tracker.shown_uri}: "
            f"{str(error).splitlines()[0][:200]}.",
            "Use a tracking store with a model registry: sqlite or a server with a database.",
        ) from error


def find_aliased(tracker: Tracker, model_id: str, alias: str) -> str | None:
    """The run of the model's version that an alias points at; None where there is none.

    For ``audited`` it is the run that earned the alias, else the version's last one.
    """
    mlflow = import_mlflow()
    try:
        version = tracker.client.get_model_version_by_alias(registered_name(model_id), alias)
    except mlflow.MlflowException:
        return None
    earned = version.tags.get(EARNED_TAG) if alias == ALIAS else None
    return earned or version.tags.get("run") or version.run_id or None


def _register(tracker: Tracker, standing: Standing) -> str:
    client, name = tracker.client, registered_name(standing.model_id)
    version = _find_version(tracker, name, standing) or _create_version(tracker, name, standing)
    tags = {
        "verdict": standing.verdict, "run": standing.run_id, "revision": standing.revision,
        **standing.tags,
    }  # fmt: skip
    for key, value in tag_values(tags).items():
        client.set_model_version_tag(name, version.version, key, value)
    holder = client.get_registered_model(name).aliases.get(ALIAS)
    held = holder is not None and str(holder) == str(version.version)
    if standing.verdict == "PASS" and standing.grants:
        client.set_model_version_tag(name, version.version, EARNED_TAG, standing.run_id)
        client.set_registered_model_alias(name, ALIAS, version.version)
    elif standing.verdict != "PASS" and held:
        client.delete_registered_model_alias(name, ALIAS)
    return str(version.version)


def _find_version(tracker: Tracker, name: str, standing: Standing) -> ModelVersion | None:
    for version in tracker.client.search_model_versions(f"name='{name}'"):
        if version.name == name and version.tags.get(IDENTITY_TAG) == _identity(standing):
            found: ModelVersion = version
            return found
    return None


def _create_version(tracker: Tracker, name: str, standing: Standing) -> ModelVersion:
    mlflow = import_mlflow()
    client = tracker.client
    try:
        client.create_registered_model(name, tags={ID_TAG: standing.model_id})
    except mlflow.MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    source = f"runs:/{standing.run_id}/record.json"
    made: Any = client.create_model_version(
        name, source=source, run_id=standing.run_id, tags={IDENTITY_TAG: _identity(standing)}
    )
    found: ModelVersion = made
    return found


def _identity(standing: Standing) -> str:
    parts = [standing.revision, sorted(standing.hashes.items())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
