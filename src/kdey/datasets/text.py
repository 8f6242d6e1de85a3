"""Reading a text file, compressed or not, with errors that name it."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 text file; ``.gz`` is unpacked.

    Raises
    ------
    ValueError
        Where the file is no text, or its compression is broken or cut short.
    """
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: not a whole gzip file ({error}); get it again") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text ({error})") from error
    # splitlines() would also break lines at form feeds and other odd characters inside cells.
    lines = text.replace("\r\n", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return lines
