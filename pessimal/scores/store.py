"""A content-addressed store of scores: a killed sweep goes on, changed bytes never meet old scores.

A block is a few hundred scores under one key. Its file is one line of JSON (schema, key, number of
scores, sha256 of the payload, how often memory ran out) and the payload, little-endian float32.
A file that doesn't say what it should is treated as missing and written again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pessimal.scores.files import remove_stale, write_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK_SCHEMA = "pessimal.block/1"
Mode = Literal["ids", "as_text"]
_REMEDY = "Name a folder that can be written with --cache or PESSIMAL_CACHE."


def default_cache() -> Path:
    """The cache folder: ``PESSIMAL_CACHE``, else the user's cache folder of this system."""
    named = os.environ.get("PESSIMAL_CACHE")
    if named:
        return Path(named).expanduser()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("pessimal", appauthor=False))


@dataclass(frozen=True)
class BlockContext:
    """All that a block's scores depend on, beside the replies themselves."""

    parts: Mapping[str, str]
    """sha256 by part: weights, adapter, head, config, tokenizer, template."""
    prefix_ids: tuple[int, ...]
    """Ids before the reply."""
    suffix_ids: tuple[int, ...]
    """Ids after the reply."""
    token_types: tuple[int, ...] | None
    """Token type ids of prefix, reply and suffix, or None."""
    prefix_types: tuple[int, ...] | None
    """Token type id of each prefix position, or None."""
    pooled_index: int
    """Position that the head reads."""
    mode: Mode
    """``ids``: replies are spliced in as ids. ``as_text``: whole sequences that a text gave."""
    dtype: str
    """``float32``, ``bfloat16`` or ``float16``."""
    device_type: str
    """``cpu``, ``cuda``..."""
    path: str
    """Scoring path: ``shared``, ``copied`` or ``full``."""
    versions: Mapping[str, str]
    """Versions of torch and transformers."""
    core: str
    """sha256 of the scoring core's source."""

    def key(self, replies: Sequence[Sequence[int]]) -> str:
        """sha256 over the canonical JSON of this context and the replies' ids, in order."""
        return canonical_sha256(
            {"schema": BLOCK_SCHEMA, "context": asdict(self), "replies": [list(r) for r in replies]}
        )


@dataclass(frozen=True)
class Block:
    """Scores of one block."""

    scores: NDArray[np.float32]
    """float32, ``[n]``, in the order of the replies that the key was made of."""
    halvings: int
    """How often running out of memory halved the batch while it was computed."""
    sha256: str
    """sha256 of the scores' bytes."""


class BlockStore:
    """Blocks and manifests under a folder; any number of processes may use it at once.

    Args:
        folder: the cache folder; it is made by the first write.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "scores"

    def block_path(self, key: str) -> Path:
        """The file of a block."""
        return self.folder / "blocks" / key[:2] / key

    def get(self, key: str, rows: int) -> Block | None:
        """Read a block; None where it is missing, truncated, corrupt or of another size.

        Args:
            key: the block's key.
            rows: how many scores it must hold.
        """
        import numpy as np

        try:
            content = self.block_path(key).read_bytes()
        except OSError:
            return None
        line, _, payload = content.partition(b"\n")
        try:
            header = json.loads(line)
        except ValueError:
            return None
        digest = hashlib.sha256(payload).hexdigest()
        expected = {"schema": BLOCK_SCHEMA, "key": key, "rows": rows, "sha256": digest}
        if not isinstance(header, dict) or len(payload) != 4 * rows:
            return None
        halvings = header.pop("halvings", None)
        if header != expected or not isinstance(halvings, int):
            return None
        return Block(np.frombuffer(payload, dtype="<f4").astype(np.float32), halvings, digest)

    def put(self, key: str, scores: NDArray[np.float32], halvings: int = 0) -> Block:
        """Write a block.

        Args:
            key: the block's key.
            scores: float32, ``[n]``.
            halvings: how often memory ran out while it was computed.

        Raises:
            PessimalError: ``disk_full`` or ``cache_not_writable``.
        """
        payload = scores.astype("<f4").tobytes()
        digest = hashlib.sha256(payload).hexdigest()
        header = {
            "schema": BLOCK_SCHEMA,
            "key": key,
            "rows": len(scores),
            "sha256": digest,
            "halvings": halvings,
        }
        content = json.dumps(header, sort_keys=True).encode() + b"\n" + payload
        write_file(self.block_path(key), content, code="cache_not_writable", remedy=_REMEDY)
        return Block(scores, halvings, digest)

    def manifest_path(self, prompt_id: str, keys: Sequence[str]) -> Path:
        """The manifest's file of a sweep under a prompt whose blocks have these keys."""
        name = canonical_sha256({"prompt_id": prompt_id, "keys": list(keys)})
        return self.folder / "manifests" / f"{name}.json"

    def put_manifest(self, path: Path, manifest: Mapping[str, object]) -> None:
        """Write the manifest of a finished sweep, after its last block.

        Args:
            path: its `manifest_path`.
            manifest: plain JSON.

        Raises:
            PessimalError: ``disk_full`` or ``cache_not_writable``.
        """
        content = json.dumps(manifest, sort_keys=True, indent=1).encode() + b"\n"
        write_file(path, content, code="cache_not_writable", remedy=_REMEDY)
        remove_stale(self.folder / "blocks", "*/")
        remove_stale(self.folder / "manifests")


def canonical_sha256(value: object) -> str:
    """sha256 of a value's canonical JSON: sorted keys, no spaces, ASCII."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
