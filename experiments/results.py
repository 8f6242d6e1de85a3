"""Results of the experiments and the file that keeps them.

A cell holds the errors of one method on one data set under one split, by one metric. A results
file has one line per finished cell, which is on disk before the next cell starts.

A line is a JSON object whose last entry ``crc`` is the checksum of what precedes it. Lines are
appended with a single write and synced. A last line that a crash cut short is removed when the
file is opened to continue, and ignored when it is read; any other damage is an error that names
file and line, because a table must not silently be made from half of the results. Errors are
stored as short text: 1,000 of them take about 3 KB.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kdey._io import AppendedFile
from kdey.bags import Array

_HEADER = {"kind": "kdey results 1"}
_CRC = re.compile(rb',"crc":"([0-9a-f]{8})"\}$')
#: Bits of a float32 that are kept: a relative precision of 2**-16, far below the spread of errors.
_KEPT = np.uint32(0xFFFFFF00)


class CellKey(NamedTuple):
    """What identifies a cell."""

    experiment: str
    dataset: str
    method: str
    metric: str
    seed: int

    def __str__(self) -> str:
        return f"{self.dataset}, {self.method}, {self.metric}, seed {self.seed}"


@dataclass(frozen=True, eq=False)
class Cell:
    """A finished cell.

    Attributes
    ----------
    key : CellKey
    config, data : str
        Fingerprints of method, grids and protocol, and of the data.
    errors : array of shape (n_bags,)
        Of every test bag, in the order in which all methods met them.
    params : mapping from names to the chosen values
    validation : float or None
        Mean validation error of the choice; None for automatic methods.
    candidates, failed : int
    on_edge : tuple of str
    seconds : mapping
        "search" (one for all metrics), "fit" and "test"; a classifier counts for the method
        that first needed it.
    not_converged : int
        Test bags whose solution carries no certificate of the solver's tolerance.
    version, source : str
        Of kdey, and of the data.
    """

    key: CellKey
    config: str
    data: str
    errors: Array
    params: Mapping[str, Any]
    validation: float | None
    candidates: int
    failed: int
    on_edge: tuple[str, ...]
    seconds: Mapping[str, float]
    not_converged: int
    version: str
    source: str

    @property
    def mean(self) -> float:
        """Mean error over the test bags."""
        return float(self.errors.mean())

    def to_record(self) -> dict[str, Any]:
        """Return the cell as a line of a results file."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        del plain["key"], plain["errors"]
        rounded = {name: round(float(s), 3) for name, s in self.seconds.items()}
        return {
            "kind": "cell",
            **self.key._asdict(),
            "mean": self.mean,
            **plain,
            "params": {name: _plain(value) for name, value in self.params.items()},
            "seconds": rounded,
            "errors": encode_array(self.errors),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Cell:
        """Return the cell of a line."""
        key = CellKey(*(record[name] for name in CellKey._fields))
        values = {f.name: record[f.name] for f in fields(cls) if f.name not in ("key", "errors")}
        values["on_edge"] = tuple(values["on_edge"])
        return cls(key=key, errors=decode_array(record["errors"]), **values)


@dataclass(frozen=True, eq=False)
class BagsRecord:
    """The test bags of one data set and split, once for all methods.

    Attributes
    ----------
    experiment, dataset, seed : see :class:`CellKey`
    shift : array of shape (n_bags,)
        Absolute error between the prevalence of a bag and that of the development data.
    n_classes, n_development : int
    bag_size : int
        Number of instances of a bag; the mean, rounded, where bags differ.
    source : str
    notes : tuple of str
        What was done to the data.
    bag_sizes : tuple of int
        The size of every bag where they differ; otherwise empty.
    """

    experiment: str
    dataset: str
    seed: int
    shift: Array
    n_classes: int
    n_development: int
    bag_size: int
    source: str
    notes: tuple[str, ...] = ()
    bag_sizes: tuple[int, ...] = ()

    def to_record(self) -> dict[str, Any]:
        """Return it as a line of a results file."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        if not self.bag_sizes:
            del plain["bag_sizes"]
        return {"kind": "bags", **plain, "shift": encode_array(self.shift)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> BagsRecord:
        """Return it from a line."""
        values = {f.name: record[f.name] for f in fields(cls) if f.name != "bag_sizes"}
        values["shift"] = decode_array(record["shift"])
        values["notes"] = tuple(record["notes"])
        return cls(**values, bag_sizes=tuple(record.get("bag_sizes", ())))


@dataclass(frozen=True, eq=False)
class Curve:
    """Mean test errors of one method over the values of one parameter.

    Attributes
    ----------
    dataset, method, metric, seed : see :class:`CellKey`
    config : str
    parameter : str
    values, means : tuples of equal length
    source : str
    experiment : str
        The setting whose data sets these are.
    """

    dataset: str
    method: str
    metric: str
    seed: int
    config: str
    parameter: str
    values: tuple[float, ...]
    means: tuple[float, ...]
    source: str = ""
    experiment: str = "multi"

    def to_record(self) -> dict[str, Any]:
        """Return it as a line of a results file."""
        return {"kind": "curve", **{f.name: getattr(self, f.name) for f in fields(self)}}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Curve:
        """Return it from a line."""
        values = {f.name: record[f.name] for f in fields(cls) if f.name in record}
        return cls(**values | {"values": tuple(values["values"]), "means": tuple(values["means"])})


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


@dataclass(frozen=True, eq=False)
class Results:
    """The content of a results file; of several lines on the same thing the last counts.

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
        """Add one line."""
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
        """Add all results of another file."""
        self.cells.update(other.cells)
        self.bags.update(other.bags)
        self.curves.update(other.curves)


class ResultsFile(AppendedFile):
    """A results file open for appending; ``results`` has all its lines, old and new.

    Parameters
    ----------
    path : path of the file; it is created, with its folder, if it does not exist
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, "the results file", "command")
        try:
            n_bytes, self.results = _parse(self.path)
            self.cut(n_bytes)
            if n_bytes == 0:
                self.write(encode_line(_HEADER))
        except BaseException:  # raised again: nobody else could close the file
            self.close()
            raise

    def append(self, record: Cell | BagsRecord | Curve) -> None:
        """Write one record; it is on disk when this returns."""
        line = record.to_record()
        self.write(encode_line(line))
        self.results.add(line)


def read_results(*paths: str | os.PathLike[str]) -> Results:
    """Return the joint content of one or several results files; nothing is written."""
    results = Results()
    for path in paths:
        results.join(_parse(Path(path))[1])
    return results


def encode_line(record: Mapping[str, Any]) -> bytes:
    """Return a record as a line with its checksum."""
    text = json.dumps(record, separators=(",", ":"))[:-1].encode()
    return text + f',"crc":"{zlib.crc32(text):08x}"}}\n'.encode()


def _parse(path: Path) -> tuple[int, Results]:
    """Return how many bytes of a file are complete lines, and the content of these lines."""
    content = path.read_bytes()
    n_bytes = content.rfind(b"\n") + 1
    lines = content[:n_bytes].splitlines()
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
    return n_bytes, results


def _decode(path: Path, number: int, line: bytes) -> dict[str, Any]:
    checksum = _CRC.search(line)
    text = line[: checksum.start()] if checksum else line
    if checksum is None or checksum.group(1).decode() != f"{zlib.crc32(text):08x}":
        raise ValueError(
            f"{path}, line {number}: damaged (its checksum does not match); delete the line to "
            "have its cell run again, or take the file from a copy"
        )
    record: dict[str, Any] = json.loads(text + b"}")
    return record


def encode_array(values: ArrayLike) -> str:
    """Return a vector as text, rounded to a relative precision of 1.6e-5.

    float32, low byte cleared, bytes of equal weight together, zlib, base85 (whose alphabet needs
    no escape in JSON).
    """
    floats = np.asarray(values, dtype="<f4")
    if floats.ndim != 1:
        raise ValueError(f"values must be a vector, got shape {floats.shape}")
    # Half of the cleared part is added first: this rounds, where clearing alone would truncate.
    bits = (floats.view("<u4") + np.uint32(0x80)) & _KEPT
    planes = bits.view(np.uint8).reshape(-1, 4).T
    return base64.b85encode(zlib.compress(planes.tobytes(), 9)).decode()


def decode_array(text: str) -> Array:
    """Return the vector of :func:`encode_array` as float64."""
    try:
        planes = np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype=np.uint8)
    except (ValueError, zlib.error, binascii.Error) as error:
        raise ValueError(f"not an encoded array: {error}") from error
    if len(planes) % 4:
        raise ValueError("not an encoded array: its length is not a multiple of four bytes")
    floats = np.ascontiguousarray(planes.reshape(4, -1).T).view("<f4")
    return floats.ravel().astype(np.float64)
