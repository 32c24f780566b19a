"""Finds the folder behind a model's name: a local folder, or a hub id at a commit."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pessimal.errors import PessimalError, UsageError

HUB_ID = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
COMMIT = re.compile(r"[0-9a-f]{40}")
DESCRIBING = ("*.json", "*.model", "*.jinja", "vocab.txt", "merges.txt")
ALWAYS = ("*.safetensors", *DESCRIBING)
PICKLES = ("*.bin", "*.pt", "*.pth")
NEVER = ("original/*", "onnx/*", "openvino/*", "optimizer*", "training_args*", "checkpoint-*")


@dataclass(frozen=True)
class Place:
    """Where a model, an adapter or a tokenizer lies."""

    id: str
    """The hub id, or the folder's path as the user wrote it."""
    revision: str | None
    """The resolved commit of a hub id, or the revision declared for a folder."""
    folder: Path
    """The folder, or the hub's snapshot in the local cache."""


def split_name(name: str, revision: str | None) -> tuple[str, str | None]:
    """Split ``org/name@revision``; a local path keeps its ``@``.

    Raises:
        UsageError: two different revisions are named.
    """
    if Path(name).expanduser().exists() or "@" not in name:
        return name, revision
    head, _, named = name.rpartition("@")
    if revision is not None and named != revision:
        raise UsageError(
            "revision_twice",
            f"{name} names the revision {named}, and --revision names {revision}.",
            "Name one of them.",
        )
    return head, named


def is_hub_id(name: str) -> bool:
    """Whether a model's name can only be a hub id, with or without ``@revision``."""
    plain = split_name(name, None)[0]
    return HUB_ID.fullmatch(plain) is not None and not Path(plain).expanduser().exists()


def find_place(
    name: str,
    revision: str | None,
    *,
    remote_code: bool = False,
    allow_pickle: bool = False,
    weights: bool = True,
) -> Place:
    """Find the folder of a model's name, fetching a hub id's files into the hub's own cache.

    Args:
        name: a folder, or a hub id with or without ``@revision``.
        revision: revision of a hub id; of a folder, the one its author declares.
        remote_code: whether the model's Python files are wanted.
        allow_pickle: whether weights that aren't safetensors are wanted.
        weights: whether any weights are wanted.

    Raises:
        PessimalError: the path is missing, or the hub doesn't give the files.
    """
    name, revision = split_name(name, revision)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return Place(name, revision, folder)
    if folder.exists():
        raise PessimalError(
            "not_a_model_folder",
            f"{name} is a file, not a model's folder.",
            "Name the folder that holds config.json.",
        )
    if name.startswith((".", "/", "~")) or HUB_ID.fullmatch(name) is None:
        raise PessimalError(
            "path_missing",
            f"There is no folder {name}.",
            "Name a folder with config.json, a hub id such as org/name, or demo.",
        )
    patterns = [*ALWAYS, *(["*.py"] if remote_code else []), *(PICKLES if allow_pickle else [])]
    snapshot = _fetch(name, revision, patterns if weights else list(DESCRIBING))
    return Place(name, snapshot.name if COMMIT.fullmatch(snapshot.name) else revision, snapshot)


def require_commit(name: str, revision: str | None) -> None:
    """Refuse remote code whose revision isn't a whole commit.

    Raises:
        PessimalError: ``revision_not_pinned``.
    """
    if revision is None or COMMIT.fullmatch(revision) is None:
        raise PessimalError(
            "revision_not_pinned",
            f"{name} brings its own code, and no revision of 40 digits says which.",
            "Read the code, then name its commit: --trust-remote-code --revision COMMIT.",
        )


def _fetch(name: str, revision: str | None, patterns: list[str]) -> Path:
    # The messages are written here and never quote the library's, which can hold request headers.
    import huggingface_hub
    from huggingface_hub import errors

    try:
        return Path(
            huggingface_hub.snapshot_download(
                name, revision=revision, allow_patterns=patterns, ignore_patterns=list(NEVER)
            )
        )
    except errors.GatedRepoError:
        raise PessimalError(
            "gated",
            f"{name} is gated: its owner grants access one by one.",
            f"Ask for access at https://huggingface.co/{name}, then set HF_TOKEN.",
        ) from None
    except errors.RevisionNotFoundError:
        raise PessimalError(
            "revision_unknown",
            f"{name} has no revision {revision}.",
            "Name a branch, a tag or a commit of that repository.",
        ) from None
    except errors.RepositoryNotFoundError:
        known = "is set" if os.environ.get("HF_TOKEN") else "isn't set"
        raise PessimalError(
            "repository_unknown",
            f"There is no folder {name}, and the hub has no model of that name that it shows you.",
            f"Check the spelling; for a private model set HF_TOKEN (it {known}).",
        ) from None
    except (errors.HfHubHTTPError, OSError, ValueError) as error:
        # To older hub libraries a file that was never fetched is an answer of the hub as well.
        missing = isinstance(error, errors.LocalEntryNotFoundError)
        if isinstance(error, errors.HfHubHTTPError) and not missing:
            status = getattr(error.response, "status_code", "no")
            raise PessimalError(
                "hub_failed",
                f"The hub answered a request for {name} with status {status}.",
                "Try again later, or name a local folder.",
            ) from None
        raise PessimalError(
            "hub_unreachable",
            f"There is no folder {name}, and the hub can't be reached ({type(error).__name__}).",
            "Name a local folder, or check the network (and HF_HUB_OFFLINE).",
        ) from None
