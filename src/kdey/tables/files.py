"""Tables in files: read from CSV (also gzipped) and Parquet, whole or in batches, and written.

pyarrow reads; CSV, JSON and Parquet are written.
"""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdey.tables.formats import csv_text

if TYPE_CHECKING:
    from kdey.tables.layout import Frame

#: Formats that tables are written in.
FORMATS = ("csv", "json", "parquet")
#: Rows of a batch of a Parquet file.
BATCH = 1 << 17
#: What separates columns, the most frequent in the first line.
_SEPARATORS = (",", ";", "\t")


class TableError(ValueError):
    """A table that cannot be read, or not used; the message begins with its name."""


@dataclass(frozen=True)
class TableFile:
    """A table in a file, or on standard input ("-").

    Attributes
    ----------
    name : what messages call it
    source : path, or the bytes of standard input
    kind : {"csv", "gzip", "parquet"}
    """

    name: str
    source: Path | bytes
    kind: str

    @classmethod
    def open(cls, path: str) -> TableFile:
        """Return the table at ``path``; its first bytes say of which kind it is."""
        if path == "-":
            data = sys.stdin.buffer.read()
            return cls("standard input", data, _kind("standard input", data[:4096]))
        where = Path(path)
        try:
            with where.open("rb") as stream:
                return cls(path, where, _kind(path, stream.read(4096)))
        except OSError as error:
            raise TableError(f"{path}: {error.strerror or error}") from error

    def read(self, texts: Sequence[str] = ()) -> Frame:
        """Return the whole table as a narwhals frame; ``texts`` are columns to keep as texts."""
        import narwhals as nw

        arrow = _arrow()
        try:
            table = self._parquet().read() if self.kind == "parquet" else self._csv(texts)
            names = table.column_names  # decoded here: arrow itself takes any bytes for a name
        except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise TableError(f"{self.name}: {_one_line(error)}") from error
        self._check(names)
        if table.num_rows == 0:
            raise TableError(f"{self.name}: the table has no rows")
        frame: Frame = nw.from_native(table, eager_only=True)
        return frame

    def batches(
        self, columns: Sequence[str] | None = None, texts: Sequence[str] = ()
    ) -> Iterator[Frame]:
        """Iterate over the table as narwhals frames; only ``columns`` that it has are read.

        A Parquet file is read batch by batch, a CSV file at once.
        """
        import narwhals as nw

        if self.kind != "parquet":
            yield self.read(texts)
            return
        arrow, rows = _arrow(), 0
        try:
            file = self._parquet()
            self._check(file.schema_arrow.names)
            known = set(file.schema_arrow.names)
            read = None if columns is None else [name for name in columns if name in known]
            for batch in file.iter_batches(BATCH, columns=read):
                rows += batch.num_rows
                yield nw.from_native(arrow.Table.from_batches([batch]), eager_only=True)
        except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise TableError(f"{self.name}: {_one_line(error)}") from error
        if rows == 0:
            raise TableError(f"{self.name}: the table has no rows")

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where it is known without reading them."""
        try:
            return int(self._parquet().metadata.num_rows) if self.kind == "parquet" else None
        except (_arrow().ArrowException, OSError) as error:
            raise TableError(f"{self.name}: {_one_line(error)}") from error

    def _parquet(self) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetFile(
            io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source
        )

    def _csv(self, texts: Sequence[str]) -> Any:
        arrow = _arrow()
        from pyarrow import csv

        options = csv.ConvertOptions(column_types=dict.fromkeys(texts, arrow.string()))
        try:
            threads = csv.ReadOptions(use_threads=True)
            return csv.read_csv(self._stream(), threads, self._parse_options(), options)
        except arrow.ArrowInvalid:
            # Only a reader of one thread knows at which line it stands.
            single = csv.ReadOptions(use_threads=False)
            return csv.read_csv(self._stream(), single, self._parse_options(), options)

    def _parse_options(self) -> Any:
        from pyarrow import csv

        with self._stream() as stream:
            line = stream.read(65536).split(b"\n", 1)[0].decode("utf-8", "replace")
        best = max(_SEPARATORS, key=line.count)
        return csv.ParseOptions(delimiter=best, newlines_in_values=True)

    def _stream(self) -> Any:
        arrow = _arrow()
        raw = io.BytesIO(self.source) if isinstance(self.source, bytes) else str(self.source)
        return arrow.input_stream(raw, compression="gzip" if self.kind == "gzip" else None)

    def _check(self, names: Sequence[str]) -> None:
        repeated = sorted({name for name in names if list(names).count(name) > 1})
        if repeated:
            raise TableError(f"{self.name}: the column {repeated[0]!r} is there twice: rename one")


def _kind(name: str, head: bytes) -> str:
    if head[:4] == b"PAR1":
        return "parquet"
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    if not head.strip():
        raise TableError(f"{name}: the file is empty; a CSV table with a header line is needed")
    if b"\0" in head or head[:2] == b"PK":
        raise TableError(f"{name}: neither CSV nor Parquet; export the table as one of them")
    return "csv"


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError("reading tables needs pyarrow: pip install 'kdey[table]'") from None
    return pyarrow


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def format_of(path: str | None, default: str = "csv") -> str:
    """Return the format that the ending of a file's name stands for; other endings are errors."""
    suffix = "" if path is None else Path(path).suffix.lower().removeprefix(".")
    if suffix and suffix not in FORMATS and suffix != "txt":
        raise ValueError(
            f"{path}: no format is known by the ending .{suffix}: use .csv, .json or .parquet, or "
            "name one with --format"
        )
    return suffix if suffix in FORMATS else default


def table_bytes(table: Any, format: str) -> bytes:
    """Return a pyarrow table in one of ``FORMATS``; JSON is a list of one object per row."""
    if format == "parquet":
        import pyarrow.parquet as pq

        stream = io.BytesIO()
        pq.write_table(table, stream)
        return stream.getvalue()
    columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]
    rows = zip(*columns, strict=True)
    if format == "json":
        names = table.column_names
        lines = (json.dumps(dict(zip(names, row, strict=True)), allow_nan=False) for row in rows)
        return "[\n{}\n]\n".format(",\n".join(lines)).encode()
    return csv_text(table.column_names, rows).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
