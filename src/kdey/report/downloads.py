"""Files inside the page: CSV and JSON as data addresses."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Download:
    """A file that the page carries.

    Attributes
    ----------
    name : str
    kind : str
        Media type.
    data : bytes
    """

    name: str
    kind: str
    data: bytes

    @property
    def address(self) -> str:
        """The file as a data address."""
        return f"data:{self.kind};base64,{base64.b64encode(self.data).decode('ascii')}"


def csv_download(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Download:
    """Return a table as CSV (RFC 4180); None is an empty field."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(columns)
    writer.writerows(rows)
    return Download(name, "text/csv;charset=utf-8", stream.getvalue().encode("utf-8", "replace"))


def json_download(name: str, value: Any) -> Download:
    """Return plain values as JSON."""
    text = json.dumps(value, allow_nan=False, default=str, ensure_ascii=False)
    return Download(name, "application/json", text.encode("utf-8", "replace"))
