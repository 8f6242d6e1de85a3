"""Cells: what one method gave on one data set under one split, by one metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from kdey.bags import Array
from kdey.experiments.arrays import decode_array, encode_array


class CellKey(NamedTuple):
    """What a cell is asked for by."""

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
    validation : float
        Mean validation error of the choice.
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
    validation: float
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
        given = {f.name: record[f.name] for f in fields(cls) if f.name not in ("key", "errors")}
        given["on_edge"] = tuple(given["on_edge"])
        return cls(key=key, errors=decode_array(record["errors"]), **given)


@dataclass(frozen=True, eq=False)
class BagsRecord:
    """The test bags of one data set and split, once for all methods.

    Attributes
    ----------
    experiment, dataset, seed : see :class:`CellKey`
    shift : array of shape (n_bags,)
        Absolute error between the prevalence of a bag and that of the development data.
    n_classes, n_development, bag_size : int
    source : str
    notes : tuple of str
        What was done to the data.
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

    def to_record(self) -> dict[str, Any]:
        """Return it as a line of a results file."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {"kind": "bags", **plain, "shift": encode_array(self.shift)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> BagsRecord:
        """Return it from a line."""
        given = {f.name: record[f.name] for f in fields(cls)}
        given["shift"] = decode_array(record["shift"])
        given["notes"] = tuple(record["notes"])
        return cls(**given)


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

    def to_record(self) -> dict[str, Any]:
        """Return it as a line of a results file."""
        return {"kind": "curve", **{f.name: getattr(self, f.name) for f in fields(self)}}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Curve:
        """Return it from a line."""
        given = {f.name: record[f.name] for f in fields(cls)}
        return cls(**given | {"values": tuple(given["values"]), "means": tuple(given["means"])})


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
