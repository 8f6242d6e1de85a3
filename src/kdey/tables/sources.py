"""Sources of tables: files of every kind, one or many, and whatever hands out batches of Arrow.

:func:`open_source` is the one door for all of them. It finds out what a source is and which columns
it has, and :class:`TableSource` reads it, whole or in batches, as narwhals frames.

The columns of a text file are text, whatever they look like: a role gives them a type later
(``columns.py``). Columns of Parquet, of Arrow and of JSON, and cells of Excel, have types of their
own and keep them. A column of a sheet that mixes types becomes text (``excel.py``).

Several files are one table. The first one settles how text is written and which columns of which
types there are, and the others are held against it.
"""

from __future__ import annotations

import codecs
import glob
import io
import json
import logging
import os
import re
import shutil
import stat
import sys
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from kdey.tables import distinct_texts, parse_number
from kdey.tables.dialect import WIDE_MARKS, ReadOptions, find_dialect, wide_encoding
from kdey.tables.excel import ARCHIVE, COMPOUND, read_sheet

if TYPE_CHECKING:
    from kdey.tables import Frame

logger = logging.getLogger(__name__)

#: Opens the bytes of a file at their beginning.
Opener: TypeAlias = Callable[[], Any]
#: From the columns that are wanted (None: all) to record batches of pyarrow.
ReadBatches: TypeAlias = Callable[[list[str] | None], Iterable[Any]]

#: Rows of a batch.
BATCH = 1 << 17
#: Bytes of a batch of a text file; no record may be longer.
BLOCK = 1 << 24
#: What can be read, for messages.
READABLE = (
    "the path of a CSV, JSON, Parquet, Arrow or Excel file, of several in a list or a folder, or "
    "what has __arrow_c_stream__, such as a relation of DuckDB"
)
#: First bytes of compressed files, and what pyarrow calls the compression.
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
#: Methods by which tables of other libraries hand out something of pyarrow: Delta Lake, scans of
#: Iceberg, cursors of ADBC, scanners of pyarrow.
_TO_ARROW = ("to_pyarrow_dataset", "to_arrow_batch_reader", "fetch_record_batch", "to_reader")
#: What a hive calls the folder of rows without a value.
_HIVE_MISSING = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)
#: How an object of JSON, or a list of them, begins.
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{\s*[\"}]")


class TableError(ValueError):
    """A table that cannot be read, or not used; the message begins with its name."""


@dataclass(frozen=True, eq=False)
class TableSource:
    """A table that can be read, made by :func:`open_source`.

    Attributes
    ----------
    name : what messages call it
    schema : pyarrow schema
        Names and types of the columns.
    read_batches : callable
        From the columns that are wanted (None: all) to record batches of pyarrow.
    options : ReadOptions
        What the user said; of text also what was found.
    n_rows : int or None
        Number of rows, where it is known without reading them.
    first_row : int
        The number of the first record, for messages. The header of a text file is row 1, a sheet of
        Excel numbers its rows itself, and the rows of several files are counted through.
    notes : tuple of str
        What was assumed without a proof, one sentence each.
    read_all : callable, optional
        Gives the whole table of pyarrow at once, where that is quicker.
    mixed_cells : mapping from columns to cells
        Of columns whose cells are of several types, and became text.
    reads_once : bool
        Whether it is a stream that is used up by reading it.
    """

    name: str
    schema: Any
    read_batches: ReadBatches
    options: ReadOptions = field(default_factory=ReadOptions)
    n_rows: int | None = None
    first_row: int = 1
    notes: tuple[str, ...] = ()
    read_all: Callable[[], Any] | None = None
    mixed_cells: Mapping[str, list[Any]] = field(default_factory=dict)
    reads_once: bool = False

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    @property
    def decimal(self) -> str:
        """The decimal mark of numbers that are written as text."""
        return "." if self.options.decimal == "auto" else self.options.decimal

    def read(self, keys: Sequence[str] = ()) -> Frame:
        """Return the whole table as a narwhals frame.

        Parameters
        ----------
        keys : names of columns whose texts are never taken for missing values
        """
        import narwhals as nw

        self._check_keys(keys)
        with naming_errors(self.name):
            table = (
                _arrow().Table.from_batches(self.read_batches(None), self.schema)
                if self.read_all is None
                else self.read_all()
            )
        if table.num_rows == 0:
            raise TableError(f"{self.name}: the table has no rows")
        frame: Frame = nw.from_native(self._without_missing(table, keys), eager_only=True)
        return frame

    def batches(
        self, columns: Sequence[str] | None = None, keys: Sequence[str] = ()
    ) -> Iterator[Frame]:
        """Iterate over the table as narwhals frames, of which one is held at a time.

        Parameters
        ----------
        columns : names of columns, optional
            Only those of them that the table has are read. By default all.
        keys : names of columns whose texts are never taken for missing values
        """
        import narwhals as nw

        self._check_keys(keys)
        arrow, rows, known = _arrow(), 0, set(self.columns)
        wanted = None if columns is None else [name for name in columns if name in known]
        with naming_errors(self.name):
            for batch in self.read_batches(wanted):
                for start in range(0, batch.num_rows, BATCH):
                    part = batch.slice(start, BATCH)
                    rows += part.num_rows
                    table = arrow.Table.from_batches([part])
                    yield nw.from_native(self._without_missing(table, keys), eager_only=True)
        if rows == 0:
            raise TableError(f"{self.name}: the table has no rows")

    def repeatable(self) -> TableSource:
        """Return a source that can be read twice: a stream becomes a table in memory."""
        if not self.reads_once:
            return self
        with naming_errors(self.name):
            table = _arrow().Table.from_batches(self.read_batches(None), self.schema)
        return replace(_held(self.name, table, self.options), notes=self.notes)

    def _check_keys(self, keys: Sequence[str]) -> None:
        """Raise where two different cells of a key have one text."""
        for name in keys:
            cells = dict.fromkeys((type(cell), cell) for cell in self.mixed_cells.get(name, ()))
            try:
                distinct_texts([cell for _, cell in cells], name)
            except ValueError as error:
                raise TableError(f"{self.name}: {error}") from error

    def _without_missing(self, table: Any, keys: Sequence[str]) -> Any:
        """Return a table in which values that mean a missing one are null, but for keys.

        A number means so however it is written: -999 is -999.0 too, and a cell of Parquet or Excel.
        """
        if not self.options.missing_values:
            return table
        arrow = _arrow()
        from pyarrow import compute

        meant = self.options.missing_values
        pattern = rf"\A(?:{'|'.join(map(_spellings, meant))})\z"
        spelt = [parse_number(text.replace(",", ".")) for text in meant]
        numbers = arrow.array([n for n in spelt if n is not None and n == n], arrow.float64())
        for position, column in enumerate(table.schema):
            values, kind = table.column(position), column.type
            if column.name in keys:
                continue
            if arrow.types.is_string(kind) or arrow.types.is_large_string(kind):
                trimmed = compute.utf8_trim_whitespace(values)
                is_missing = compute.match_substring_regex(trimmed, pattern)
            elif len(numbers) and (arrow.types.is_integer(kind) or arrow.types.is_floating(kind)):
                floats = values.cast(arrow.float64(), safe=False)
                is_missing = compute.is_in(floats, value_set=numbers)
            else:
                continue
            cleared = compute.if_else(is_missing, arrow.scalar(None, kind), values)
            table = table.set_column(position, column.name, cleared)
        return table


def _spellings(text: str) -> str:
    """Return a pattern of a text that means a missing value; a number may have further zeros."""
    number = re.fullmatch(r"([+-]?\d+)(?:[.,](\d*?)0*)?", text, re.ASCII)
    if number is None:
        return re.escape(text)
    whole, fraction = re.escape(number[1]), number[2]
    return rf"{whole}[.,]{fraction}0*" if fraction else rf"{whole}(?:[.,]0*)?"


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError("reading tables needs pyarrow: pip install 'kdey[table]'") from None
    return pyarrow


@contextmanager
def naming_errors(name: str) -> Iterator[None]:
    """Turn what pyarrow and the system raise, and ValueErrors, into errors that name the table."""
    arrow = _arrow()
    try:
        yield
    except TableError:
        raise
    except OSError as error:
        raise TableError(f"{name}: {error.strerror or _one_line(error)}") from error
    except (arrow.ArrowException, ValueError) as error:
        raise TableError(f"{name}: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def is_frame(source: Any) -> bool:
    """Return whether a source is a data frame in memory, which needs no reading."""
    import narwhals as nw

    return bool(nw.dependencies.is_into_dataframe(source))


def open_source(source: Any, options: ReadOptions | None = None) -> TableSource:
    """Return a table that can be read, from whatever holds one.

    Parameters
    ----------
    source : path, list of paths, or object
        A path, or an address such as ``s3://bucket/folder`` or ``https://host/table.csv``, of a
        file, a folder or a pattern (``sales/*.csv``); "-" is standard input. A lazy frame of
        polars; a dataset of pyarrow; a table of Delta Lake or Iceberg; anything else that hands out
        record batches of Arrow.
    options : ReadOptions, optional
        How text and sheets are to be read. By default everything is found in the files.

    Returns
    -------
    TableSource

    Raises
    ------
    TableError
        If it cannot be read; the message begins with its name.
    TypeError
        If it is no source of a table.

    Notes
    -----
    A connection is opened only for an address, and only to the place that it names.
    """
    asked = ReadOptions() if options is None else options
    if isinstance(source, TableSource):
        return source
    if isinstance(source, str | os.PathLike):
        opened = _open_path(os.fspath(source), asked)
    elif isinstance(source, list | tuple) and source and all(map(_is_path, source)):
        name = f"{source[0]} and {len(source) - 1} more" if len(source) > 1 else str(source[0])
        opened = _joined(
            name, [(partial(_open_path, os.fspath(path)), {}) for path in source], asked
        )
    else:
        opened = _open_object(source, asked)
    names = Counter(opened.columns)
    repeated = sorted(name for name, count in names.items() if count > 1)
    if repeated:
        raise TableError(f"{opened.name}: the column {repeated[0]!r} is there twice: rename one")
    return opened


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


# ------------------------------------------------------------------------------------ paths


def _open_path(path: str, options: ReadOptions) -> TableSource:
    """Return the table at a path or address, of which folders and patterns have several files."""
    if path == "-":
        return _open_bytes("standard input", sys.stdin.buffer.read(), options)
    if "://" in path:
        return _open_address(path, options)
    is_pattern = _is_pattern(path)
    if not is_pattern and not os.path.isdir(path):
        return _open_file(path, path, options)
    parts = _parts(local_files(path), path, is_pattern)
    return _joined(path, [(partial(_open_file, f, f), values) for f, values in parts], options)


def _is_pattern(path: str) -> bool:
    return glob.has_magic(path) and not os.path.exists(path)


def local_files(path: str) -> list[str]:
    """Return the files of a folder or a pattern of this machine; none for anything else."""
    if "://" in path:
        return []
    if _is_pattern(path):
        return [found for found in glob.glob(path, recursive=True) if os.path.isfile(found)]
    return [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]


def _open_address(path: str, options: ReadOptions) -> TableSource:
    """Return the table at an address that fsspec knows a file system for."""
    try:
        import fsspec.core

        logger.info("%s: opening a connection", path)
        with _remote_errors(path):
            system, place = fsspec.core.url_to_fs(path)
            if path.startswith(("http://", "https://")):  # where ? begins a query
                return _open_file(path, place, options, system)
            is_pattern = glob.has_magic(place)
            if is_pattern:
                files = [str(found) for found in system.glob(place)]
            elif system.isdir(place):
                files = [str(found) for found in system.find(place)]
            else:
                return _open_file(path, place, options, system)
    except ImportError as error:
        raise TableError(
            f"{path}: reading it needs a package that is not here ({_one_line(error)}); install "
            "fsspec and the one for this kind of address (s3://: s3fs, gs://: gcsfs, https://: "
            "aiohttp), or copy the file to this machine"
        ) from error
    parts = [
        (partial(_open_file, str(system.unstrip_protocol(file)), file, system=system), values)
        for file, values in _parts(files, place, is_pattern)
    ]
    return _joined(path, parts, options)


@contextmanager
def _remote_errors(name: str) -> Iterator[None]:
    """Name the address in whatever a file system of fsspec raises, each of which has its own."""
    try:
        yield
    except (TableError, ImportError):
        raise
    except Exception as error:
        reason = _one_line(error) or type(error).__name__
        raise TableError(f"{name}: cannot be opened: {reason}") from error


def _parts(files: list[str], root: str, is_pattern: bool) -> list[tuple[str, dict[str, str]]]:
    """Return the files of a folder or pattern, each with the values that its folders name.

    Files and folders that begin with a dot or an underscore are not of the table.
    """
    root = root.replace(os.sep, "/").rstrip("/")
    found = []
    for file in sorted(files):
        path = file.replace(os.sep, "/")
        inside = path if is_pattern else path.removeprefix(root)
        folders = [part for part in inside.split("/") if part]
        if any(part == "_delta_log" for part in folders):
            raise TableError(
                f"{root}: is a table of Delta Lake, some files of which may be out of date: give "
                f"deltalake.DeltaTable({root!r})"
            )
        if folders[-1].endswith(".metadata.json"):
            raise TableError(
                f"{root}: is a table of Iceberg, some files of which may be out of date: give the "
                "table of its catalogue (pyiceberg)"
            )
        if not is_pattern and any(part.startswith((".", "_")) for part in folders):
            continue
        pairs = [part.partition("=") for part in folders[:-1]]
        values = {name: unquote(value) for name, equal, value in pairs if equal}
        found.append((file, {n: "" if v == _HIVE_MISSING else v for n, v in values.items()}))
    if not found:
        raise TableError(f"{root}: no file is there")
    return found


def _open_file(name: str, place: str, options: ReadOptions, system: Any = None) -> TableSource:
    """Return the table in a file of this machine, or of a file system of fsspec."""
    if system is None:
        with naming_errors(name):
            mode = os.stat(place).st_mode
            if stat.S_ISFIFO(mode):  # which can be read only once
                return _open_bytes(name, Path(place).read_bytes(), options)
        if not stat.S_ISREG(mode):
            raise TableError(f"{name}: is neither a file, nor a folder, nor a pipe")
        return _identified(name, partial(_arrow().OSFile, place), options)
    with _remote_errors(name), system.open(place, "rb") as stream:
        is_parquet = stream.read(4) == b"PAR1"
    if is_parquet:  # of which only the columns that are wanted are fetched
        return _identified(name, partial(system.open, place, "rb"), options)
    with _remote_errors(name):
        return _identified(name, _fetched(system, place), options)


def _fetched(system: Any, place: str) -> Opener:
    """Copy a file to this machine, as long as somebody may read it; text is read several times."""
    descriptor, copy = tempfile.mkstemp(prefix="kdey-")
    opener = partial(_arrow().OSFile, copy)
    weakref.finalize(opener, Path(copy).unlink, missing_ok=True)
    with open(descriptor, "wb") as target, system.open(place, "rb") as stream:
        shutil.copyfileobj(stream, target)
    return opener


def _open_bytes(name: str, data: bytes, options: ReadOptions) -> TableSource:
    return _identified(name, partial(io.BytesIO, data), options)


def _identified(name: str, opener: Opener, options: ReadOptions) -> TableSource:
    """Return the table of a file; its first bytes say of which kind it is."""
    with naming_errors(name):
        opener = _decompressed(opener)
        with opener() as stream:
            head = stream.read(4096)
        return _with_plain_types(_reader(head)(name, opener, options))


def _decompressed(opener: Opener) -> Opener:
    with opener() as stream:
        head = stream.read(4)
    for mark, compression in _COMPRESSIONS.items():
        if head.startswith(mark):
            return lambda: _arrow().CompressedInputStream(opener(), compression)
    return opener


def _reader(head: bytes) -> Callable[[str, Opener, ReadOptions], TableSource]:
    """Return what reads a file that begins with these bytes."""
    if head[:4] == b"PAR1":
        return _open_parquet
    if head[:6] == b"ARROW1" or head[:4] == b"\xff\xff\xff\xff":
        return _open_arrow
    if not head.strip():
        raise ValueError("the file is empty; a CSV table with a header line is needed")
    if head.startswith((ARCHIVE, COMPOUND)):
        return _open_excel
    if head[:4] == b"FEA1":
        raise ValueError("is the first version of Feather: write it as the second, or as Parquet")
    if _JSON.match(head):
        return _open_json
    zeros = b"\0" in head and not head.startswith(WIDE_MARKS) and wide_encoding(head) is None
    if zeros or head[:2] == b"PK":
        raise ValueError(
            "is neither CSV nor JSON, Parquet, Arrow or Excel: export it as one of them"
        )
    return _open_text


# ------------------------------------------------------------------------------------ files


def _open_text(name: str, opener: Opener, options: ReadOptions) -> TableSource:
    from pyarrow import csv

    encoding, separator, decimal, skipped_lines, notes = find_dialect(opener, options)

    def formats(**reading: Any) -> tuple[Any, Any]:
        # Arrow passes over the mark of UTF-8 by itself.
        known = "utf8" if encoding.startswith("utf-8") else encoding
        return (
            csv.ReadOptions(encoding=known, skip_rows=skipped_lines, **reading),
            csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        )

    with csv.open_csv(opener(), *formats(use_threads=False)) as reader:
        names = reader.schema.names
    schema = _arrow().schema([(column, _arrow().string()) for column in names])

    def as_texts(columns: Sequence[str]) -> Any:
        """Every column holds texts, and an empty cell nothing."""
        return csv.ConvertOptions(
            column_types=dict.fromkeys(names, _arrow().string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            include_columns=columns,
        )

    def read_batches(wanted: list[str] | None) -> Iterator[Any]:
        reading = formats(use_threads=False, block_size=BLOCK)
        yield from csv.open_csv(opener(), *reading, as_texts(names if wanted is None else wanted))

    def read_all() -> Any:
        try:
            return csv.read_csv(opener(), *formats(use_threads=True), as_texts(()))
        except _arrow().ArrowInvalid:
            # Only a reader of one thread knows at which line it stands.
            return csv.read_csv(opener(), *formats(use_threads=False), as_texts(()))

    return TableSource(
        name,
        schema,
        read_batches,
        replace(options, separator=separator, decimal=decimal),
        first_row=2 + skipped_lines,
        notes=notes,
        read_all=read_all,
    )


def _open_parquet(name: str, opener: Opener, options: ReadOptions) -> TableSource:
    import pyarrow.parquet as pq

    with pq.ParquetFile(opener()) as file:
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
    return TableSource(
        name,
        schema,
        lambda wanted: pq.ParquetFile(opener()).iter_batches(BATCH, columns=wanted),
        options,
        n_rows=n_rows,
        read_all=lambda: pq.ParquetFile(opener()).read(),
    )


def _open_arrow(name: str, opener: Opener, options: ReadOptions) -> TableSource:
    """Return the table of a file of Arrow (Feather), or of a stream of Arrow in a file."""
    ipc = _arrow().ipc
    with opener() as stream:
        is_file = stream.read(6) == b"ARROW1"

    def read_batches(wanted: list[str] | None) -> Iterator[Any]:
        with opener() as stream:
            if is_file:
                reader = ipc.open_file(stream)
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                batches = ipc.open_stream(stream)
            for batch in batches:
                yield batch if wanted is None else batch.select(wanted)

    with opener() as stream:
        schema = (ipc.open_file if is_file else ipc.open_stream)(stream).schema
    return TableSource(name, schema, read_batches, options)


def _open_json(name: str, opener: Opener, options: ReadOptions) -> TableSource:
    """Return the table of lines with an object each, or of one list of objects."""
    from pyarrow import json as arrow_json

    with opener() as stream:
        data = stream.read().removeprefix(codecs.BOM_UTF8).lstrip()
    if data.startswith(b"["):
        data = "\n".join(map(json.dumps, json.loads(data))).encode()
    try:
        table = arrow_json.read_json(
            io.BytesIO(data), read_options=arrow_json.ReadOptions(block_size=BLOCK)
        )
    except _arrow().ArrowInvalid as error:
        raise ValueError(f"is no JSON with an object in each line: {_one_line(error)}") from None
    return _held(name, table, options)


def _open_excel(name: str, opener: Opener, options: ReadOptions) -> TableSource:
    decimal = "." if options.decimal == "auto" else options.decimal
    table, mixed, first_row = read_sheet(opener, options.sheet, decimal)
    return replace(_held(name, table, options), first_row=first_row, mixed_cells=mixed)


def _held(name: str, table: Any, options: ReadOptions) -> TableSource:
    """Return a table of pyarrow, which is in memory, as a source."""
    return TableSource(
        name,
        table.schema,
        lambda wanted: (table if wanted is None else table.select(wanted)).to_batches(BATCH),
        options,
        n_rows=table.num_rows,
        read_all=lambda: table,
    )


def _with_plain_types(source: TableSource) -> TableSource:
    """Return a table whose columns have types that the functions of pyarrow know."""
    schema = _arrow().schema([(field_.name, _plain_type(field_.type)) for field_ in source.schema])
    if schema == source.schema:
        return source
    return replace(
        source, schema=schema, read_batches=partial(_cast, source, schema), read_all=None
    )


def _plain_type(kind: Any) -> Any:
    """Return what another program's type is stored as (NUMERIC of PostgreSQL: text)."""
    arrow = _arrow()
    if isinstance(kind, arrow.BaseExtensionType):
        return _plain_type(kind.storage_type)
    # polars writes texts so, and few functions of pyarrow take them.
    return arrow.large_string() if arrow.types.is_string_view(kind) else kind


def _cast(source: TableSource, schema: Any, wanted: list[str] | None) -> Iterator[Any]:
    """Iterate over the batches of a table with the types of a schema, in its order of columns."""
    names = schema.names if wanted is None else wanted
    types = _arrow().schema([schema.field(column) for column in names])
    for batch in source.read_batches(names):
        columns = [batch.column(f.name).cast(f.type) for f in types]
        yield _arrow().RecordBatch.from_arrays(columns, schema=types)


# ------------------------------------------------------------------------------ several files


#: Opens a file by the options for it; the values that its folders name.
_Part: TypeAlias = tuple[Callable[[ReadOptions], TableSource], dict[str, str]]


def _joined(name: str, parts: Sequence[_Part], options: ReadOptions) -> TableSource:
    """Return several files as one table; the first one settles what the others must be like."""
    whole = {
        column
        for column in {column for _, values in parts for column in values}
        if all(map(_INTEGER.fullmatch, filter(None, (v.get(column) for _, v in parts))))
    }
    opened: list[TableSource] = []
    for open_part, values in parts:
        part = open_part(opened[0].options if opened else options)
        opened.append(_with_values(part, values, whole) if values else part)
    first = opened[0]
    schema = first.schema
    for part in opened[1:]:
        schema = _common_schema(schema, first.name, part)

    def read_batches(wanted: list[str] | None) -> Iterator[Any]:
        for part in opened:
            with naming_errors(part.name):
                yield from _cast(part, schema, wanted)

    notes = [f"{part.name}: {note}" for part in opened for note in part.notes]
    mixed: dict[str, list[Any]] = {}
    for part in opened:
        for column, cells in part.mixed_cells.items():
            mixed.setdefault(column, []).extend(cells)
    sizes = [part.n_rows for part in opened]
    return TableSource(
        name,
        schema,
        read_batches,
        first.options,
        n_rows=None if None in sizes else sum(size or 0 for size in sizes),
        notes=tuple(notes),
        mixed_cells=mixed,
        reads_once=any(part.reads_once for part in opened),
    )


def _with_values(source: TableSource, values: dict[str, str], whole: set[str]) -> TableSource:
    """Return a file with columns of the values that its folders name; ``whole`` are integers."""
    arrow = _arrow()
    twice = sorted(set(values) & set(source.columns))
    if twice:
        raise TableError(
            f"{source.name}: the column {twice[0]!r} is in the file, and in the name of its folder"
        )
    types = {name: arrow.int64() if name in whole else arrow.string() for name in values}
    cells = {
        name: arrow.scalar(
            None if not value else int(value) if name in whole else value, types[name]
        )
        for name, value in values.items()
    }
    schema = arrow.schema([*source.schema, *types.items()])

    def read_batches(wanted: list[str] | None) -> Iterator[Any]:
        names = schema.names if wanted is None else wanted
        # Without any column of the file nobody would know how many rows it has.
        own = [name for name in names if name not in values] or source.columns[:1]
        for batch in source.read_batches(own):
            columns = [
                arrow.repeat(cells[name], batch.num_rows) if name in cells else batch.column(name)
                for name in names
            ]
            yield arrow.RecordBatch.from_arrays(columns, names=list(names))

    return replace(source, schema=schema, read_batches=read_batches, read_all=None)


def _common_schema(schema: Any, name: str, other: TableSource) -> Any:
    """Return the types that two files have together; raises where their columns differ."""
    known, present = set(schema.names), set(other.columns)
    for column in (*schema.names, *other.columns):
        if column not in present:
            shown = ", ".join(other.columns[:10])
            raise TableError(
                f"{other.name}: no column {column!r}, which {name} has; the file has {shown}"
            )
        if column not in known:
            raise TableError(f"{other.name}: has a column {column!r}, which {name} lacks")
    fields = []
    for field_ in schema:
        own = other.schema.field(field_.name).type
        common = _common_type(field_.type, own)
        if common is None:
            raise TableError(
                f"{other.name}: column {field_.name!r} holds values of type {own}, but "
                f"{field_.type} in {name}: write it alike in all files"
            )
        fields.append((field_.name, common))
    return _arrow().schema(fields)


def _common_type(first: Any, second: Any) -> Any:
    """Return a type that holds the values of both without loss; None if there is none."""
    arrow = _arrow()
    types = arrow.types
    if first == second or types.is_null(second):
        return first
    if types.is_null(first):
        return second
    both = (first, second)
    if all(types.is_integer(kind) for kind in both):
        return arrow.int64()
    if all(types.is_integer(kind) or types.is_floating(kind) for kind in both):
        return arrow.float64()
    texts = (types.is_string, types.is_large_string, types.is_dictionary)
    return arrow.large_string() if all(any(is_(k) for is_ in texts) for k in both) else None


# ----------------------------------------------------------------------------------- objects


def _open_object(source: Any, options: ReadOptions) -> TableSource:
    """Return the table of an object of another library."""
    import narwhals as nw

    arrow = _arrow()
    from pyarrow import dataset

    native = nw.to_native(source, pass_through=True)
    name = f"the {type(native).__name__}"
    if nw.dependencies.is_polars_lazyframe(native):
        return _open_lazy(name, native, options)
    if type(native).__module__.startswith("pyiceberg."):
        native = native.scan() if hasattr(native, "scan") else native
    with naming_errors(name):
        for method in _TO_ARROW:
            if hasattr(native, method) and not hasattr(native, "__arrow_c_stream__"):
                native = getattr(native, method)()
        if isinstance(native, dataset.Dataset):
            found = native
            return _with_plain_types(
                TableSource(
                    name,
                    found.schema,
                    lambda wanted: found.to_batches(columns=wanted, batch_size=BATCH),
                    options,
                )
            )
        if isinstance(native, arrow.RecordBatch):
            native = arrow.Table.from_batches([native])
        no_stream = not hasattr(native, "__arrow_c_stream__")
        if no_stream or nw.dependencies.is_into_series(native):
            raise TypeError(
                f"a data frame of pandas, polars or pyarrow is needed, or another table "
                f"({READABLE}), got {type(source).__name__}"
            )
        left = [arrow.RecordBatchReader.from_stream(native)]
        schema = left[0].schema

    def read_batches(wanted: list[str] | None) -> Iterator[Any]:
        if not left:
            raise TableError(f"{name}: was read before, and a stream can be read only once")
        for batch in left.pop():
            yield batch if wanted is None else batch.select(wanted)

    return _with_plain_types(TableSource(name, schema, read_batches, options, reads_once=True))


def _open_lazy(name: str, frame: Any, options: ReadOptions) -> TableSource:
    """Return the table of a lazy frame of polars, which its own engine reads in batches."""

    def read_batches(wanted: list[str] | None) -> Iterator[Any]:
        chosen = frame if wanted is None else frame.select(wanted)
        if hasattr(chosen, "collect_batches"):
            parts = chosen.collect_batches(chunk_size=BATCH, maintain_order=True)
        else:
            parts = chosen.collect().iter_slices(BATCH)
        for part in parts:
            yield from part.to_arrow().to_batches()

    return TableSource(name, frame.head(0).collect().to_arrow().schema, read_batches, options)
