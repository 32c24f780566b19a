"""Named settings of searches, with a version: YAML files, packaged or of a project."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from pessimal.errors import UsageError
from pessimal.scores.files import write_file
from pessimal.search.records import Settings

SCHEMA = "pessimal.preset/1"
PACKAGED = Path(__file__).parent


@dataclass(frozen=True)
class Preset:
    """Settings with a name and a version."""

    name: str
    """Its name."""
    version: int
    """Goes up with every change."""
    settings: Settings
    """What searches run with."""

    def document(self) -> dict[str, Any]:
        """The preset as it stands in its file."""
        return {
            "schema": SCHEMA, "name": self.name, "version": self.version,
            "settings": asdict(self.settings),
        }  # fmt: skip


def load_preset(name: str, folder: Path | None = None) -> Preset:
    """Load a preset: a project's own, else the packaged one of that name.

    Args:
        name: its name.
        folder: the project's folder of presets.

    Raises:
        UsageError: ``preset_unknown``, ``preset_invalid`` or ``settings_invalid``.
    """
    places = [place / f"{name}.yaml" for place in (folder, PACKAGED) if place is not None]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        known = sorted({file.stem for place in places for file in place.parent.glob("*.yaml")})
        raise UsageError(
            "preset_unknown", f"There is no preset {name!r}.", f"Known: {', '.join(known)}."
        )
    try:
        stored = yaml.safe_load(path.read_text(encoding="utf-8"))
        good = stored["schema"] == SCHEMA and isinstance(stored["version"], int)
        settings = Settings.read(stored["settings"])
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError) as error:
        raise UsageError(
            "preset_invalid", f"{path} is no preset: {error}.", "See the packaged ones."
        ) from error
    if not good:
        raise UsageError(
            "preset_invalid", f"{path} is not of {SCHEMA}, or has no version.",
            "See the packaged ones.",
        )  # fmt: skip
    return Preset(str(stored.get("name", name)), stored["version"], settings)


def store_preset(preset: Preset, folder: Path, comment: str) -> Path:
    """Write a preset into a project's folder, by rename.

    Args:
        preset: what to write.
        folder: where to; it is made.
        comment: why it is what it is; one line or more.

    Raises:
        PessimalError: ``preset_not_writable`` or ``disk_full``.
    """
    path = folder / f"{preset.name}.yaml"
    lines = "".join(f"# {line}\n" for line in comment.splitlines())
    text = lines + yaml.safe_dump(preset.document(), sort_keys=False)
    write_file(
        path, text.encode("utf-8"), code="preset_not_writable",
        remedy="Name a project whose folder can be written, with --project.",
    )  # fmt: skip
    return path
