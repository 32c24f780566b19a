"""A comma-separated file, read strictly: every row has every column, every number is one."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pessimal.errors import UsageError
from pessimal.text import show_text

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
LARGEST = 3.4028234e38
"""The largest number that a float32 score can be."""
_SHOWN = 40


@dataclass(frozen=True)
class Sheet:
    """The cells of a file, trimmed of white space."""

    path: Path
    """The file."""
    header: tuple[str, ...]
    """The columns' headings, each once."""
    rows: tuple[tuple[str, ...], ...]
    """The rows, each as long as the header; empty lines are left out."""
    lines: tuple[int, ...]
    """The line of the file that each row ends on, counted from one."""

    def find(self, *headings: str) -> int | None:
        """Place of the first of `headings` that is there, whatever its case; else None."""
        places = {heading.lower(): place for place, heading in enumerate(self.header)}
        return next((places[name] for name in headings if name in places), None)

    def column(self, *headings: str) -> int:
        """Place of the first of `headings` that is there.

        Raises:
            UsageError: ``csv_columns``, naming the headings that there are.
        """
        place = self.find(*headings)
        if place is None:
            shown = ", ".join(show_text(name, _SHOWN) for name in self.header[:8])
            wanted = " or ".join(headings)
            raise UsageError(
                "csv_columns", f"{self.path}, row 1: there is no column {wanted}; it has {shown}.",
                f"Name a column {headings[0]} in the first row.",
            )  # fmt: skip
        return place

    def texts(self, place: int) -> list[str]:
        """A column of texts that are neither empty nor doubled.

        Raises:
            UsageError: ``csv_empty_cell``, or ``csv_duplicate`` naming both rows.
        """
        seen: dict[str, int] = {}
        for line, row in zip(self.lines, self.rows, strict=True):
            text = row[place]
            if not text:
                raise UsageError(
                    "csv_empty_cell",
                    f"{self.path}, row {line}: the column {self._name(place)} is empty.",
                    "Fill the cell, or remove the row.",
                )
            if text in seen:
                raise UsageError(
                    "csv_duplicate",
                    f"{self.path}, rows {seen[text]} and {line}: {show_text(text, _SHOWN)!r} stands"
                    f" twice in the column {self._name(place)}.",
                    "Keep one of the rows.",
                )
            seen[text] = line
        return list(seen)

    def numbers(self, place: int, *, least: float = -LARGEST) -> list[float]:
        """A column of finite numbers.

        Raises:
            UsageError: ``csv_number``, naming the row.
        """
        found = []
        for line, row in zip(self.lines, self.rows, strict=True):
            value = _number(row[place])
            if not least <= value <= LARGEST:
                above = "" if least == -LARGEST else f" of {least:g} or more"
                raise UsageError(
                    "csv_number",
                    f"{self.path}, row {line}: {show_text(row[place], _SHOWN)!r} in the column"
                    f" {self._name(place)} is not a finite number{above}.",
                    "Write numbers such as -1.25, with a point and without units.",
                )
            found.append(value)
        return found

    def _name(self, place: int) -> str:
        return show_text(self.header[place], _SHOWN)


def read_sheet(path: Path) -> Sheet:
    """Read a CSV file: UTF-8 (a byte order mark is skipped), commas, a header, any line ends.

    Raises:
        UsageError: it is missing or empty, not UTF-8, has another separator, no rows, a heading
            that is empty or doubled, an open quote, or a row of another length than the header.
    """
    text = read_text(path)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: tuple[str, ...] = ()
    rows, lines = [], []
    try:
        for cells in reader:
            row = tuple(cell.strip() for cell in cells)
            if not any(row):
                continue
            if not header:
                header = _check_header(path, row, reader.line_num)
            elif len(row) != len(header):
                raise UsageError(
                    "csv_row",
                    f"{path}, row {reader.line_num}: there are {len(row)} cells and"
                    f" {len(header)} columns.",
                    "Give every row a cell for each column, and quote texts that hold a comma.",
                )
            else:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise UsageError(
            "csv_row", f"{path}, row {reader.line_num}: it can't be read as CSV ({error}).",
            'Close every quote, and write a quote inside a quoted text twice: "".',
        ) from error  # fmt: skip
    if not rows:
        raise UsageError(
            "csv_empty", f"{path}, row 1: there is no row under the header.",
            "Name a file with a row of headings and at least one row of values.",
        )  # fmt: skip
    return Sheet(path, header, tuple(rows), tuple(lines))


def read_text(path: Path) -> str:
    """The text of a UTF-8 file that isn't empty, without its byte order mark.

    Raises:
        UsageError: ``file_unreadable``, ``file_not_utf8`` or ``file_empty``.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(
            "file_unreadable", f"{path} can't be read: {reason}.", "Check the path."
        ) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = data[: error.start].count(b"\n") + 1
        raise UsageError(
            "file_not_utf8", f"{path}, row {row}: the bytes are not UTF-8.",
            "Save the file as UTF-8.",
        ) from error  # fmt: skip
    if not text.strip():
        raise UsageError("file_empty", f"{path} is empty: it has no row 1.", "Name another file.")
    if "\0" in text:
        row = text[: text.index("\0")].count("\n") + 1
        raise UsageError(
            "file_not_text", f"{path}, row {row}: there is a zero byte, so it is not a text file.",
            "Save it as plain text in UTF-8.",
        )  # fmt: skip
    return text


def _check_header(path: Path, header: tuple[str, ...], line: int) -> tuple[str, ...]:
    if len(header) == 1:
        for mark, name in SEPARATORS.items():
            if mark in header[0]:
                raise UsageError(
                    "csv_separator", f"{path}, row {line}: the columns are separated by {name}.",
                    "Save the file with commas between the columns.",
                )  # fmt: skip
    for place, name in enumerate(header):
        if not name:
            problem = f"the heading of column {place + 1} is empty"
        elif name in header[:place]:
            problem = f"two columns have the heading {show_text(name, _SHOWN)!r}"
        else:
            continue
        raise UsageError(
            "csv_columns", f"{path}, row {line}: {problem}.", "Give each column its own heading."
        )
    return header


def _number(text: str) -> float:
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


def columns_but(sheet: Sheet, *known: int | None) -> Sequence[int]:
    """Places of the columns that are not among `known`."""
    return [place for place in range(len(sheet.header)) if place not in known]
