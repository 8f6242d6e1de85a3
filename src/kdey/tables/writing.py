"""Tables to CSV, JSON and Parquet; a file is written whole or not at all."""

from __future__ import annotations

import io
import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

FORMATS = ("csv", "json", "parquet")


def format_of(path: str | None, default: str = "csv") -> str:
    """Return the format that a file's name asks for."""
    suffix = "" if path is None else Path(path).suffix.lower().removeprefix(".")
    return suffix if suffix in FORMATS else default


def table_bytes(table: Any, format: str) -> bytes:
    """Return a pyarrow table in one of ``FORMATS``; JSON is a list of one object per row."""
    if format == "json":
        rows = [{key: _plain(value) for key, value in row.items()} for row in table.to_pylist()]
        lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
        return f"[\n{lines}\n]\n".encode()
    stream = io.BytesIO()
    if format == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, stream)
    else:
        from pyarrow import csv

        csv.write_csv(_without_nan(table), stream, csv.WriteOptions(quoting_style="needed"))
    return stream.getvalue()


def write_whole(path: str, data: bytes) -> None:
    """Write a file by another name first, so that a failure leaves nothing half-written."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)  # as an ordinary new file
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from None


def check_writable(path: str) -> None:
    """Raise where ``path`` cannot be written, before the work whose result goes there."""
    target = Path(path)
    if target.is_dir():
        raise OSError(f"cannot write {path}: it is a folder")
    if not target.parent.is_dir():
        raise OSError(f"cannot write {path}: there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK):
        raise OSError(f"cannot write {path}: the folder {target.parent} is not writable")


def _without_nan(table: Any) -> Any:
    """Return a table with empty cells in the place of NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for i, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            column = table.column(i)
            empty = pa.scalar(None, field.type)
            table = table.set_column(i, field, pc.if_else(pc.is_nan(column), empty, column))
    return table


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
