"""Candidates of a search, the data they are judged on, their scores, and the log of a search.

Settings are checked when candidates are created, before any expensive work. Data and candidates
have fingerprints, which are the keys of the cache and of the log.

A line of the log is ``<checksum> <json>``; the first line contains the fingerprint of the search.
Each line is appended with a single write and synced before the search continues. When the log is
opened again, a line that a crash cut short is removed, and a damaged line is ignored with a
warning, so that its candidate is scored again.
"""

from __future__ import annotations

import json
import os
import warnings
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from kdey._caching import fingerprint
from kdey._io import AppendedFile
from kdey._parallel import as_tensor, import_torch
from kdey.arrays import for_numpy, is_tensor, take_rows
from kdey.bags import Array
from kdey.classifiers import make_splits
from kdey.evaluation.bag_drawing import BagProtocol, LabelledBags
from kdey.quantifiers.composed import QuantifierLike, as_quantifier
from kdey.validation import check_positive, training_labels


@dataclass(frozen=True, eq=False)
class Training:
    """The data on which candidates are fitted.

    Attributes
    ----------
    X : training instances
    codes : int64 array of shape (n,)
        Class codes of the instances.
    classes : array of shape (k,)
    weights : array of shape (n,) or None
    key : str
        Fingerprint of all of these.
    """

    X: Any
    codes: NDArray[np.int64]
    classes: NDArray[Any]
    weights: Array | None
    key: str

    @classmethod
    def of(
        cls, X: Any, codes: NDArray[np.int64], classes: NDArray[Any], weights: Array | None
    ) -> Training:
        """Return the training data with its fingerprint."""
        return cls(X, codes, classes, weights, fingerprint(X, codes, classes, weights))


@dataclass(frozen=True, eq=False)
class Validation:
    """The data on which candidates are scored.

    Attributes
    ----------
    X : instances of the pool
    labelled : LabelledBags
        Bags over the pool with their true prevalences.
    pool_key, bags_key : str
        Fingerprints of the pool and of the bags.
    """

    X: Any
    labelled: LabelledBags
    pool_key: str
    bags_key: str

    @classmethod
    def of(cls, X: Any, labelled: LabelledBags) -> Validation:
        """Return the validation data with its fingerprints."""
        bags = labelled.bags
        bags_key = fingerprint(bags.indices, bags.offsets, bags.weights, labelled.prevalences)
        return cls(X, labelled, fingerprint(X), bags_key)


@dataclass(frozen=True)
class Score:
    """The score of one candidate; the log stores it under these names.

    Attributes
    ----------
    means, stds : mapping from the name of a metric to a float
        Mean error over the bags, and its standard deviation.
    not_converged : int
        Number of bags whose solution did not reach the solver's tolerance.
    fit_time, score_time : float
        Seconds. The fit of a classifier stage counts for each of its candidates.
    error : str
        The reason why there is no score; empty if there is one.
    """

    means: Mapping[str, float]
    stds: Mapping[str, float]
    not_converged: int = 0
    fit_time: float = 0.0
    score_time: float = 0.0
    error: str = ""


#: The reason why a candidate has no score if the time of the search was over before its turn.
NOT_TRIED = "not tried: the time limit had passed"


class TimeOverError(Exception):
    """The time of a search is over; raised after a candidate was scored."""


@dataclass(frozen=True)
class TimeLimit:
    """The time that a search may take.

    Attributes
    ----------
    seconds : float or None
        None: no limit.
    start : float
        Reading of the clock at the start of the search.
    """

    seconds: float | None = None
    start: float = 0.0

    @classmethod
    def from_now(cls, seconds: float | None) -> TimeLimit:
        """Return a limit that begins now; raises ValueError unless it is positive or None."""
        if seconds is not None:
            check_positive(seconds, "time_limit")
        return cls(seconds, monotonic())

    def passed(self) -> bool:
        """Return whether the time is over."""
        return self.seconds is not None and monotonic() - self.start > self.seconds


def split_off(
    X: Any,
    training: Training,
    fraction: float,
    protocol: BagProtocol,
    random_state: Any,
) -> tuple[Training, Validation]:
    """Return training and validation data, with a fraction of each class in the latter.

    Parameters
    ----------
    X : instances
    training : Training
        The data to split.
    fraction : float in (0, 1)
    protocol : protocol
        Draws the validation bags.
    random_state : int
        Seed of the split.

    Returns
    -------
    training : Training
    validation : Validation

    Raises
    ------
    ValueError
        If the fraction is not allowed, or a class has a single instance.
    """
    if isinstance(fraction, bool) or not isinstance(fraction, float) or not 0 < fraction < 1:
        raise ValueError(f"validation must be a fraction in (0, 1), got {fraction!r}")
    codes, classes, weights = training.codes, training.classes, training.weights
    if int(np.bincount(codes).min()) < 2:
        rare = classes[int(np.bincount(codes).argmin())]
        raise ValueError(
            f"class {rare!r} has one instance, too few to split off validation data; "
            "pass X_val and y_val"
        )
    (train, test), *_ = make_splits(fraction, X, codes, classes, random_state=random_state)
    labelled = protocol.bags(classes[codes[test]], classes)
    train_weights = None if weights is None else weights[train]
    return (
        Training.of(take_rows(X, train), codes[train], classes, train_weights),
        Validation.of(take_rows(X, test), labelled),
    )


def joined(training: Training, X_val: Any, y_val: ArrayLike | None) -> Training:
    """Return training and validation data together; without labels, only the training data.

    Validation instances get weight one if the training data have weights.
    """
    if y_val is None:
        return training
    y = np.asarray(for_numpy(y_val, "y_val"))
    labels = np.concatenate([training.classes[training.codes], y])
    codes, classes = training_labels(labels, training.classes)
    weights: Array | None = None
    if training.weights is not None:
        weights = np.concatenate([training.weights, np.ones(len(y))])
    return Training.of(_stack(training.X, X_val), codes, classes, weights)


def _stack(above: Any, below: Any) -> Any:
    """Return the instances of two pools, one below the other, in the type of the first."""
    if sp.issparse(above) or sp.issparse(below):
        return sp.vstack([above, below], format="csr")
    if hasattr(above, "columns"):
        import narwhals as nw

        frames = [nw.from_native(part, eager_only=True) for part in (above, below)]
        return nw.concat(frames, how="vertical").to_native()
    if isinstance(above, list):
        return [*above, *below]
    if is_tensor(above):
        return import_torch("X").cat([above, as_tensor(below, above.device)])
    stacked: NDArray[Any] = np.concatenate([np.asarray(above), np.asarray(below)])
    return stacked


@dataclass(frozen=True, eq=False)
class Candidate:
    """One setting of the quantifier.

    Attributes
    ----------
    number : int
        Position in the search, from 0.
    params : mapping from parameter names to values
    quantifier : quantifier
        Unfitted clone with these parameters.
    key : str
        Fingerprint of the parameters.
    """

    number: int
    params: Mapping[str, Any]
    quantifier: QuantifierLike
    key: str


def make_candidates(
    quantifier: QuantifierLike, settings: Iterable[Mapping[str, Any]], first: int = 0
) -> list[Candidate]:
    """Return one candidate for each setting.

    Parameters
    ----------
    quantifier : quantifier
        Cloned for each candidate.
    settings : iterable of mappings from parameter names to values
    first : int
        Number of the first candidate.

    Returns
    -------
    list of Candidate

    Raises
    ------
    ValueError
        If the quantifier has no parameter of a name.
    """
    all_params = [dict(setting) for setting in settings]
    check_names(quantifier, {name: None for params in all_params for name in params})
    return [
        Candidate(number, params, _with_params(quantifier, params), fingerprint(params))
        for number, params in enumerate(all_params, start=first)
    ]


def check_names(quantifier: QuantifierLike, names: Iterable[str]) -> None:
    """Raise ValueError for a parameter that the quantifier does not have."""
    known = quantifier.get_params(deep=True)
    inner = known.get("classifier")
    for name in names:
        head, _, rest = name.partition("__")
        unset = head == "classifier" and rest and "classifier" in known and inner is None
        if name in known or (unset and rest in _default_classifier(quantifier).get_params()):
            continue
        raise ValueError(
            f"parameter {name!r} is unknown to {type(quantifier).__name__}; it has "
            f"{', '.join(sorted(known))}"
        )


def _default_classifier(quantifier: QuantifierLike) -> Any:
    return as_quantifier(quantifier).inner_estimator()


def _with_params(quantifier: QuantifierLike, params: Mapping[str, Any]) -> Any:
    """Return a clone with the parameters set, with an explicit default classifier if needed."""
    copy = clone(quantifier)
    nested = any(name.startswith("classifier__") for name in params)
    if nested and "classifier" not in params and copy.get_params()["classifier"] is None:
        copy.set_params(classifier=_default_classifier(copy))
    # Values that are estimators are cloned, because candidates must not share fitted objects.
    return copy.set_params(**{name: clone(v, safe=False) for name, v in params.items()})


def grid_dicts(param_grid: Any) -> list[dict[str, list[Any]]]:
    """Return a grid (a mapping, or several) as a list of dicts from names to lists of values."""
    grids = [param_grid] if isinstance(param_grid, Mapping) else list(param_grid)
    return [{name: list(values) for name, values in grid.items()} for grid in grids]


def summary_line(params: Mapping[str, Any]) -> str:
    """Return parameters as a text for messages."""
    return ", ".join(f"{name}={value!r}" for name, value in params.items()) or "no parameters"


def numbers_of(values: Sequence[Any]) -> list[Any] | None:
    """Return the distinct values in rising order if all are numbers, else None."""
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in _plain(values)):
        return None
    return sorted(set(_plain(values)))


def _plain(values: Sequence[Any]) -> list[Any]:
    """Return values with NumPy scalars converted to Python numbers."""
    return [v.item() if hasattr(v, "item") and getattr(v, "ndim", 1) == 0 else v for v in values]


_KIND = "kdey search log 1"


class SearchLog(AppendedFile):
    """An append-only log of scores, open for one search.

    Parameters
    ----------
    path : path-like
        The file, which is created if it does not exist.
    fingerprint : str
        Fingerprint of data, parameters and seed.

    Attributes
    ----------
    scores : dict from the key of a candidate to its Score

    Raises
    ------
    ValueError
        If the file is not a log, or the log of another search.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        super().__init__(path, "the log", "search")
        self.scores = dict[str, Score]()
        try:
            self._read(fingerprint)
        except BaseException:  # Nobody else could close the file, as there will be no object.
            self.close()
            raise

    def append(self, key: str, score: Score) -> None:
        """Write the score of a candidate, which is on disk when this method returns."""
        self.write(_encode({"candidate": key, **asdict(score)}))
        self.scores[key] = score

    def _read(self, fingerprint: str) -> None:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        lines = content[:whole].splitlines()
        if not lines:
            self._write_header(content, _encode({"kind": _KIND, "search": fingerprint}))
            return
        self._check_header(_decode(lines[0]), fingerprint)
        self.cut(whole)  # only after the check that the file is a log
        damaged = 0
        for line in lines[1:]:
            record = _decode(line)
            if record is None:
                damaged += 1
            else:
                key = record.pop("candidate")
                self.scores[key] = Score(**record)
        if damaged:
            warnings.warn(
                f"log {self.path}: {damaged} damaged line(s) ignored; their candidates are "
                "scored again",
                UserWarning,
                stacklevel=4,
            )

    def _write_header(self, content: bytes, header: bytes) -> None:
        """Write the first line, over an incomplete copy of the same line if there is one."""
        if not header.startswith(content):
            self._check_header(None, "")
        self.cut(0)
        self.write(header)

    def _check_header(self, header: Mapping[str, Any] | None, fingerprint: str) -> None:
        if header is None or header.get("kind") != _KIND:
            raise ValueError(f"log {self.path} is not the log of a search; use another file")
        if header["search"] != fingerprint:
            raise ValueError(
                f"log {self.path} belongs to another search (its data, parameters or seed "
                "differ); use another file, or delete it to start from the beginning"
            )


def _encode(record: Mapping[str, Any]) -> bytes:
    text = json.dumps(record, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x} {text}\n".encode()


def _decode(line: bytes) -> dict[str, Any] | None:
    """Return the record of a line, or None if the line is damaged."""
    checksum, _, text = line.partition(b" ")
    if checksum != f"{zlib.crc32(text):08x}".encode():
        return None
    record: dict[str, Any] = json.loads(text)
    return record
