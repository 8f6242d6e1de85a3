"""Tables to CSV, JSON and Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

FORMATS = ("csv", "json", "parquet")


def format_of(path: str | None, default: str = "csv") -> str:
    """Return the format that a file's name asks for."""
    suffix = "" if path is None else Path(path).suffix.lower().removeprefix(".")
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
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")  # an empty cell where there is no value
    writer.writerow(table.column_names)
    writer.writerows(rows)
    return text.getvalue().encode()


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
