"""What is asked for groups beyond the intervals.

The answers for groups, as columns of a table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Indices
from kdey.intervals import IntervalOptions


@dataclass(frozen=True)
class GroupSettings:
    """How groups are estimated and judged.

    Parameters
    ----------
    options : IntervalOptions
    min_size : int
        Groups with fewer usable instances are estimated too, but their status is "too small".
    check_fit : bool
        Whether to ask of every group if it looks like a mixture of the training classes
        (:func:`kdey.check_fit`); some 0.15 s a group of 1,000.
    level : float in (0, 1)
        Fit p-values up to it make the status "poor fit".
    n_null : int
        Null bags of the fit check.
    seed : int
        Of the fit check. Every group starts from it, so none depends on the others.
    """

    options: IntervalOptions = field(default_factory=IntervalOptions)
    min_size: int = 10
    check_fit: bool = False
    level: float = 0.01
    n_null: int = 300
    seed: int = 0

    def __post_init__(self) -> None:
        size: Any = self.min_size
        level: Any = self.level
        if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
            raise ValueError(f"min_size must be a positive integer, got {size!r}")
        if not isinstance(level, Real) or not 0.0 < float(level) < 1.0:
            raise ValueError(f"level must be strictly between 0 and 1, got {level!r}")


#: Names of the columns beside the keys; a key must have another name.
COLUMNS = (
    *("class", "n", "n_missing", "estimate", "low", "high", "classify_and_count"),
    *("training_prevalence", "fit_p_value", "status"),
)
_PER_CLASS = ("estimate", "low", "high", "classify_and_count")


@dataclass(frozen=True, eq=False)
class GroupAnswers:
    """Estimates of G groups.

    Attributes
    ----------
    classes : array of shape (k,)
    sizes : int64 array of shape (G,)
        Usable instances of each group.
    missing : int64 array of shape (G,)
        Instances left out because a score or feature was missing.
    estimate, low, high : arrays of shape (G, k)
        NaN where a group has no usable instance.
    classify_and_count : array of shape (G, k)
        Share of the classifier's decisions, the naive answer; NaN where there is no classifier.
    training_prevalence : array of shape (k,)
    fit_p_value : array of shape (G,)
        NaN where no fit check was asked for, or a group is too small for one.
    status : list of G texts
        "ok", or what is the matter, parted by "; ": "empty", "too small", "poor fit",
        "missing values", "not converged".
    """

    classes: NDArray[Any]
    sizes: Indices
    missing: Indices
    estimate: Array
    low: Array
    high: Array
    classify_and_count: Array
    training_prevalence: Array
    fit_p_value: Array
    status: list[str]

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.sizes)

    @property
    def misfits(self) -> int:
        """Number of groups that the training classes do not fit."""
        return sum("poor fit" in one for one in self.status)

    def columns(self, order: Indices | None = None, *, wide: bool = False) -> dict[str, Any]:
        """Return named columns: one row per group and class, or per group where ``wide``.

        Parameters
        ----------
        order : int array, optional
            Groups in the order wanted; by default as they are.
        wide : bool
            One row per group, with ``estimate[c]``, ``low[c]``, ... for every class c.
        """
        rows = np.arange(len(self)) if order is None else order
        return self._wide(rows) if wide else self._long(rows)

    def _long(self, rows: Indices) -> dict[str, Any]:
        k, n = len(self.classes), len(rows)
        made: dict[str, Any] = {"class": np.tile(self.classes, n)}
        made |= {name: np.repeat(values, k) for name, values in self._sizes(rows).items()}
        made |= {name: getattr(self, name)[rows].ravel() for name in _PER_CLASS}
        made["training_prevalence"] = np.tile(self.training_prevalence, n)
        made["fit_p_value"] = np.repeat(self.fit_p_value[rows], k)
        made["status"] = np.repeat(self._status(rows), k)
        return made

    def _wide(self, rows: Indices) -> dict[str, Any]:
        made: dict[str, Any] = self._sizes(rows)
        for name in _PER_CLASS:
            values = getattr(self, name)[rows]
            made |= {f"{name}[{c}]": values[:, i] for i, c in enumerate(self.classes.tolist())}
        for i, c in enumerate(self.classes.tolist()):
            made[f"training_prevalence[{c}]"] = np.full(len(rows), self.training_prevalence[i])
        return made | {"fit_p_value": self.fit_p_value[rows], "status": self._status(rows)}

    def _sizes(self, rows: Indices) -> dict[str, Any]:
        return {"n": self.sizes[rows], "n_missing": self.missing[rows]}

    def _status(self, rows: Indices) -> NDArray[Any]:
        return np.array(self.status, dtype=object)[rows]
