"""Text files with something the matter that a reader must not pass over in silence.

A damage is done to the bytes of a table as text. The file that it leaves may be refused, or
answered with a note or a warning; an answer without a word is a fault.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable

import numpy as np

from fuzz.campaigns.table_doors import TextDialect, cell_text
from fuzz.campaigns.table_rows import SCORES, RandomTable

Records = list[list[str]]
#: The dialect of a table that is damaged afterwards.
DIALECT = TextDialect()
#: Characters that nobody sees.
UNSEEN = ("\u200b", "\u200e", "\ufeff", "\u00ad", "\u2060")


def _records(table: RandomTable) -> Records:
    """Return the table with its keys last, as a quote that is left open in a text column may be."""
    columns = dict(reversed(table.columns.items()))
    rows = zip(*columns.values(), strict=True)
    return [list(columns), *([cell_text(value, DIALECT) for value in row] for row in rows)]


def _line(cells: list[str]) -> str:
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\n").writerow(cells)
    return stream.getvalue()


def _text(records: Records) -> str:
    return "".join(map(_line, records))


def _row(records: Records, rng: np.random.Generator) -> int:
    """Return the position of a row in the middle, so that there are others after it."""
    return int(rng.integers(1, len(records) - 1))


def unclosed_quote(table: RandomTable, rng: np.random.Generator) -> bytes:
    """Return a file with a cell that opens a quote and does not close it."""
    records = _records(table)
    row = _row(records, rng)
    cells = [_line([cell]).rstrip("\n") for cell in records[row]]
    place = int(rng.integers(len(cells))) if rng.random() < 0.5 else -1
    cells[place] = '"' + cells[place].strip('"')
    lines = [*map(_line, records[:row]), ",".join(cells) + "\n", *map(_line, records[row + 1 :])]
    return "".join(lines).encode()


def mixed_encodings(table: RandomTable, rng: np.random.Generator) -> bytes:
    """Return a file in which one line is UTF-8 and another one Windows-1252."""
    records = _records(table)
    first, second = sorted(rng.choice(np.arange(1, len(records)), 2, replace=False).tolist())
    for row in (first, second):
        records[row][-1] = "café"
    lines = [_line(cells).encode() for cells in records]
    odd = int(rng.choice([first, second]))
    lines[odd] = _line(records[odd]).encode().replace("é".encode(), "é".encode("cp1252"))
    return b"".join(lines)


def unseen_character(table: RandomTable, rng: np.random.Generator) -> bytes:
    """Return a file in which one of several equal keys has a character that nobody sees."""
    records = _records(table)
    row = _row(records, rng)
    other = row + 1
    records[row][-1] = records[other][-1] = "plain"
    at = int(rng.integers(0, 6))
    records[row][-1] = f"plain{rng.choice(UNSEEN)}" if at == 5 else f"pla{rng.choice(UNSEEN)}in"
    return _text(records).encode()


def extra_cell(table: RandomTable, rng: np.random.Generator) -> bytes:
    """Return a file with one cell more, or one less, in some row."""
    records = _records(table)
    row = _row(records, rng)
    records[row] = [*records[row], "1"] if rng.random() < 0.5 else records[row][:-1]
    return _text(records).encode()


def written_twice(table: RandomTable, rng: np.random.Generator) -> bytes:
    """Return a file that holds the table twice, the header in the middle."""
    records = _records(table)
    return _text(records + records).encode()


def odd_number(table: RandomTable, rng: np.random.Generator) -> bytes:
    """Return a file in which a score is written as no number is."""
    records = _records(table)
    row = _row(records, rng)
    odd = ("unknown", "??", "0,5", "1_0", "0x1p-1", "٣", "1e", "--")
    records[row][records[0].index(str(rng.choice(SCORES)))] = str(rng.choice(odd))
    return _text(records).encode()


def cut_archive(table: RandomTable, rng: np.random.Generator) -> bytes:
    """Return a gzipped file whose end is missing."""
    packed = gzip.compress(_text(_records(table)).encode())
    return packed[: int(rng.integers(20, len(packed) - 1))]


def zero_bytes(table: RandomTable, rng: np.random.Generator) -> bytes:
    """Return a file with a zero byte in a cell."""
    records = _records(table)
    row = _row(records, rng)
    records[row][0] += "\0"
    return _text(records).encode()


DAMAGES: dict[str, Callable[[RandomTable, np.random.Generator], bytes]] = {
    "unclosed quote": unclosed_quote,
    "mixed encodings": mixed_encodings,
    "unseen character": unseen_character,
    "extra cell": extra_cell,
    "written twice": written_twice,
    "odd number": odd_number,
    "cut archive": cut_archive,
    "zero bytes": zero_bytes,
}
