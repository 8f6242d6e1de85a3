"""The results file: one line per finished cell, on disk before the next cell starts.

A line is a JSON object whose last entry ``crc`` is the checksum of what stands before it. Lines are
appended with a single write and synced. A last line cut short by a crash is cut off when the
file is opened to go on, and left out when it is read; any other damage is an error that names
file and line, because a table must not be made of half of the results without a word.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kdey.appending import AppendedFile
from kdey.experiments.cells import BagsRecord, Cell, CellKey, Curve

_HEADER = {"kind": "kdey results 1"}
_CRC = re.compile(rb',"crc":"([0-9a-f]{8})"\}$')


@dataclass(frozen=True, eq=False)
class Results:
    """What a results file holds; of several lines on one thing the last counts.

    Attributes
    ----------
    cells : dict from CellKey to Cell
    bags : dict from (experiment, dataset, seed) to BagsRecord
    curves : dict from (dataset, method, metric, seed) to Curve
    """

    cells: dict[CellKey, Cell] = field(default_factory=dict)
    bags: dict[tuple[str, str, int], BagsRecord] = field(default_factory=dict)
    curves: dict[tuple[str, str, str, int], Curve] = field(default_factory=dict)

    def add(self, record: Mapping[str, Any]) -> None:
        """Take in one line."""
        kind = record["kind"]
        if kind == "cell":
            cell = Cell.from_record(record)
            self.cells[cell.key] = cell
        elif kind == "bags":
            bags = BagsRecord.from_record(record)
            self.bags[bags.experiment, bags.dataset, bags.seed] = bags
        elif kind == "curve":
            curve = Curve.from_record(record)
            self.curves[curve.dataset, curve.method, curve.metric, curve.seed] = curve
        else:
            raise ValueError(f"unknown kind {kind!r}")

    def join(self, other: Results) -> None:
        """Take in all of another file's results."""
        self.cells.update(other.cells)
        self.bags.update(other.bags)
        self.curves.update(other.curves)


class ResultsFile(AppendedFile):
    """A results file open for appending; ``results`` holds what it had and has got.

    Parameters
    ----------
    path : path of the file; made, with its folder, where it does not exist
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, "the results file", "command")
        try:
            whole, self.results = _parse(self.path)
            self.cut(whole)
            if whole == 0:
                self.write(encode_line(_HEADER))
        except BaseException:  # raised again: a file must not stay open that nobody will close
            self.close()
            raise

    def append(self, record: Cell | BagsRecord | Curve) -> None:
        """Write one finished piece; it is on disk when this returns."""
        line = record.to_record()
        self.write(encode_line(line))
        self.results.add(line)


def read_results(*paths: str | os.PathLike[str]) -> Results:
    """Return what one or several results files hold together; nothing is written."""
    found = Results()
    for path in paths:
        found.join(_parse(Path(path))[1])
    return found


def encode_line(record: Mapping[str, Any]) -> bytes:
    """Return a record as a line with its checksum."""
    text = json.dumps(record, separators=(",", ":"))[:-1].encode()
    return text + f',"crc":"{zlib.crc32(text):08x}"}}\n'.encode()


def _parse(path: Path) -> tuple[int, Results]:
    """Return how many bytes of a file are whole lines, and what they hold."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    lines = content[:whole].splitlines()
    results = Results()
    foreign = ValueError(f"{path}, line 1: not a results file of kdey; name another file")
    if not lines:
        if not encode_line(_HEADER).startswith(content):  # more than a first line cut short
            raise foreign
        return 0, results
    if _decode(path, 1, lines[0]) != _HEADER:
        raise foreign
    for number, line in enumerate(lines[1:], start=2):
        record = _decode(path, number, line)
        try:
            results.add(record)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {number}: not a known result ({error})") from error
    return whole, results


def _decode(path: Path, number: int, line: bytes) -> dict[str, Any]:
    found = _CRC.search(line)
    text = line[: found.start()] if found else line
    if found is None or found.group(1).decode() != f"{zlib.crc32(text):08x}":
        raise ValueError(
            f"{path}, line {number}: damaged (its checksum does not match); delete the line to "
            "have its cell run again, or take the file from a copy"
        )
    record: dict[str, Any] = json.loads(text + b"}")
    return record
