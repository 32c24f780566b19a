"""Score tables: one row a token, or one a word, and a float32 column a prompt; kept as parquet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pessimal.errors import PessimalError, UsageError
from pessimal.scores.files import write_file
from pessimal.scores.kinds import KINDS

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

SCORE = "score:"
_METADATA = "pessimal."


@dataclass(frozen=True)
class TableMetadata:
    """Where a table's scores come from; stored as JSON values under ``pessimal.<field>``."""

    model: str
    """The model's id."""
    revision: str | None = None
    """Its revision."""
    template_sha256: str | None = None
    """sha256 of the chat template."""
    dtype: str | None = None
    """``float32``, ``bfloat16`` or ``float16``."""
    attention: str | None = None
    """Attention implementation, e.g. ``shared_prefix``."""
    path: str | None = None
    """Scoring path: ``shared``, ``copied`` or ``full``."""
    mode: Literal["ids", "as_text"] = "ids"
    """Whether replies were spliced in as ids or given as text."""
    sampled: bool = False
    """Whether the rows are a sample of the vocabulary."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of pessimal, torch, transformers."""


@dataclass(frozen=True)
class _Table:
    frame: pd.DataFrame
    """The rows, columns in the order they are stored in."""
    metadata: TableMetadata
    """Where the scores come from."""

    schema: ClassVar[str]
    columns: ClassVar[tuple[tuple[str, str], ...]]
    unique: ClassVar[tuple[str, ...]]

    @property
    def prompts(self) -> tuple[str, ...]:
        """Ids of the prompts there are scores for, in the table's order."""
        names = (str(column) for column in self.frame.columns)
        return tuple(name.removeprefix(SCORE) for name in names if name.startswith(SCORE))

    def write(self, path: Path) -> None:
        """Write the table as parquet, by rename. The same table gives the same bytes.

        Args:
            path: the file; its folder is made.

        Raises:
            PessimalError: ``table_not_writable`` or ``disk_full``.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = _arrow(self.frame, self.columns)
        metadata = {f"{_METADATA}schema": json.dumps(self.schema)}
        for entry in fields(self.metadata):
            value = getattr(self.metadata, entry.name)
            plain = dict(value) if isinstance(value, Mapping) else value
            metadata[_METADATA + entry.name] = json.dumps(plain, sort_keys=True)
        sink = pa.BufferOutputStream()
        pq.write_table(
            table.replace_schema_metadata(metadata),
            sink,
            compression="zstd",
            # A dictionary over nearly distinct floats only adds bytes.
            use_dictionary=["kind"] if "kind" in table.column_names else ["list"],
        )
        write_file(
            path,
            sink.getvalue().to_pybytes(),
            code="table_not_writable",
            remedy="Name a place that can be written.",
        )

    @classmethod
    def _read(cls, path: Path) -> tuple[pd.DataFrame, TableMetadata]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not path.is_file():
            raise UsageError("table_missing", f"There is no file {path}.", "Check the path.")
        try:
            table = pq.ParquetFile(path).read()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise PessimalError(
                "table_corrupt",
                f"{path} can't be read as parquet: {str(error).splitlines()[0]}.",
                "Make the table again.",
            ) from error
        metadata = _read_metadata(table, cls.schema, path)
        _check_schema(table, cls.columns, path)
        frame = table.to_pandas()
        _check_values(frame, cls.unique, path)
        return frame, metadata


@dataclass(frozen=True)
class ScoreTable(_Table):
    """Scores of single tokens.

    Columns: ``token_id`` int32, ``token`` (as the tokenizer names it), ``text`` (decoded), ``kind``
    (see `pessimal.scores.kinds`), ``roundtrips`` bool, then a float32 ``score:<prompt id>`` a
    prompt. Further columns may follow.
    """

    schema = "pessimal.scores/1"
    columns = (
        ("token_id", "int32"),
        ("token", "string"),
        ("text", "string"),
        ("kind", "string"),
        ("roundtrips", "bool"),
    )
    unique = ("token_id",)

    @classmethod
    def build(
        cls,
        *,
        token_ids: Sequence[int] | NDArray[np.integer],
        tokens: Sequence[str],
        texts: Sequence[str],
        kinds: Sequence[str],
        roundtrips: Sequence[bool] | NDArray[np.bool_],
        scores: Mapping[str, NDArray[np.float32]],
        metadata: TableMetadata,
    ) -> ScoreTable:
        r"""Make a table of columns of equal length.

        Text that isn't valid Unicode (lone surrogates) is stored with those characters escaped,
        as in ``\ud83d``.

        Args:
            token_ids: ids, ``[n]``.
            tokens: the tokens as the tokenizer names them, ``[n]``.
            texts: the tokens decoded, ``[n]``.
            kinds: the tokens' kinds, ``[n]``.
            roundtrips: whether decoding and encoding gives the token back, ``[n]``.
            scores: float32 scores ``[n]`` by prompt id.
            metadata: where the scores come from.

        Raises:
            ValueError: columns of different lengths.
        """
        import numpy as np
        import pandas as pd

        data: dict[str, object] = {
            "token_id": np.asarray(token_ids, dtype=np.int32),
            "token": storable(tokens),
            "text": storable(texts),
            "kind": list(kinds),
            "roundtrips": np.asarray(roundtrips, dtype=np.bool_),
        }
        return cls(pd.DataFrame(data | _score_columns(scores)), metadata)

    @classmethod
    def read(cls, path: Path) -> ScoreTable:
        """Read and check a table.

        Raises:
            UsageError: ``table_missing``.
            PessimalError: ``table_corrupt``, or ``table_schema`` naming the column at fault.
        """
        frame, metadata = cls._read(path)
        unknown = sorted(set(frame["kind"]) - set(KINDS))
        if unknown:
            raise _schema_error(path, f"column kind holds {unknown[0]!r}, which is no kind")
        return cls(frame, metadata)


@dataclass(frozen=True)
class WordTable(_Table):
    """Scores of words and phrases.

    Columns: ``word``, ``list`` (which word list it is of), ``ids`` list of int32, then a float32
    ``score:<prompt id>`` a prompt.
    """

    schema = "pessimal.words/1"
    columns = (("word", "string"), ("list", "string"), ("ids", "list<int32>"))
    unique = ("list", "word")

    @classmethod
    def build(
        cls,
        *,
        words: Sequence[str],
        lists: Sequence[str],
        ids: Sequence[Sequence[int]],
        scores: Mapping[str, NDArray[np.float32]],
        metadata: TableMetadata,
    ) -> WordTable:
        """Make a table of columns of equal length.

        Args:
            words: words or phrases, ``[n]``.
            lists: the list that each is of, ``[n]``.
            ids: token ids of each, ``[n]`` of any length.
            scores: float32 scores ``[n]`` by prompt id.
            metadata: where the scores come from.

        Raises:
            ValueError: columns of different lengths.
        """
        import numpy as np
        import pandas as pd

        data: dict[str, object] = {
            "word": storable(words),
            "list": list(lists),
            "ids": [np.asarray(row, dtype=np.int32) for row in ids],
        }
        return cls(pd.DataFrame(data | _score_columns(scores)), metadata)

    @classmethod
    def read(cls, path: Path) -> WordTable:
        """Read and check a table.

        Raises:
            UsageError: ``table_missing``.
            PessimalError: ``table_corrupt``, or ``table_schema`` naming the column at fault.
        """
        return cls(*cls._read(path))


def storable(texts: Sequence[str]) -> list[str]:
    r"""The texts with lone surrogates, which UTF-8 can't hold, escaped as in ``\ud83d``."""
    return [text.encode("utf-8", "backslashreplace").decode("utf-8") for text in texts]


def _score_columns(scores: Mapping[str, NDArray[np.float32]]) -> dict[str, object]:
    import numpy as np

    return {SCORE + prompt: np.asarray(column, np.float32) for prompt, column in scores.items()}


def _arrow(frame: pd.DataFrame, columns: tuple[tuple[str, str], ...]) -> pa.Table:
    import pyarrow as pa

    types = {"int32": pa.int32(), "string": pa.string(), "bool": pa.bool_(),
             "list<int32>": pa.list_(pa.int32())}  # fmt: skip
    declared = dict(columns)
    arrays = {}
    for name in map(str, frame.columns):
        wanted = pa.float32() if name.startswith(SCORE) else types.get(declared.get(name, ""))
        # Out of a pandas column a NaN score would become a null: the two must stay apart.
        column = frame[name].to_numpy() if name.startswith(SCORE) else frame[name]
        arrays[name] = pa.array(column, type=wanted)
    return pa.table(arrays)


def _read_metadata(table: pa.Table, schema: str, path: Path) -> TableMetadata:
    known = {entry.name for entry in fields(TableMetadata)}
    values = {}
    try:
        for key, value in (table.schema.metadata or {}).items():
            name = key.decode("utf-8")
            if name.startswith(_METADATA):
                values[name.removeprefix(_METADATA)] = json.loads(value)
    except ValueError as error:
        raise _schema_error(path, "its metadata is not JSON") from error
    if values.pop("schema", None) != schema:
        raise _schema_error(path, f"its metadata doesn't say {schema}")
    if not isinstance(values.get("model"), str):
        raise _schema_error(path, "its metadata names no model")
    return TableMetadata(**{name: value for name, value in values.items() if name in known})


def _check_schema(table: pa.Table, columns: tuple[tuple[str, str], ...], path: Path) -> None:
    found = {entry.name: str(entry.type) for entry in table.schema}
    scores = {name: "float" for name in found if name.startswith(SCORE)}
    if len(found) != len(table.schema):
        raise _schema_error(path, "two columns have one name")
    if not scores:
        raise _schema_error(path, f"it has no column {SCORE}<prompt id>")
    for name, wanted in (*columns, *scores.items()):
        if name not in found:
            raise _schema_error(path, f"column {name} is missing")
        actual = found[name].replace("<element: ", "<").replace("<item: ", "<")
        if actual.replace("large_", "") != wanted:
            raise _schema_error(path, f"column {name} is {found[name]} and not {wanted}")
        if table[name].null_count:
            raise _schema_error(path, f"column {name} has empty cells")


def _check_values(frame: pd.DataFrame, unique: tuple[str, ...], path: Path) -> None:
    doubled = frame[frame.duplicated(list(unique))]
    if len(doubled):
        which = ", ".join(f"{name} {doubled.iloc[0][name]!s}" for name in unique)
        raise _schema_error(path, f"two rows have {which}")


def _schema_error(path: Path, problem: str) -> PessimalError:
    return PessimalError(
        "table_schema", f"{path} is not a score table: {problem}.", "Make the table again."
    )
