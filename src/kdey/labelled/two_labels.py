"""How often labels are wrong, from two labels of the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.bags import Array
from kdey.intervals.profile import wilson
from kdey.validation import check_share, make_frame


@dataclass(frozen=True, eq=False)
class LabelNoise:
    """How often labels are wrong, and what the rows belong to instead.

    Attributes
    ----------
    classes : array of shape (k,)
        All that occur among the labels, sorted.
    n : int64 array of shape (k,)
        Number of rows with each first label.
    rates : array of shape (k,)
        Share of them with another second label; NaN where there is no row.
    low, high : arrays of shape (k,)
        Interval of the share of rows with this label that belong to another class.
    confusion : array of shape (k, k)
        Entry (i, j) is the share of rows with first label j whose second label is i; a label
        without a row counts as right.
    confidence : float
    """

    classes: NDArray[Any]
    n: NDArray[np.int64]
    rates: Array
    low: Array
    high: Array
    confusion: Array
    confidence: float

    @property
    def bound(self) -> dict[Any, float]:
        """The upper ends by class, for ``Options(label_noise_bound=...)``.

        Raises
        ------
        ValueError
            If an upper end is not below one half: too few rows have two labels, or too many differ.
        """
        wide = [str(name) for name in self.classes[~(self.high < 0.5)]]
        if wide:
            raise ValueError(
                f"up to half of the labels of {', '.join(wide)} may be wrong, which bounds no "
                "share: compare more rows with these labels"
            )
        return dict(zip(self.classes.tolist(), self.high.tolist(), strict=True))

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a data frame of the classes: ``class``, ``n``, ``rate``, ``low`` and ``high``.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.
        """
        columns = {"class": list(self.classes), "n": self.n, "rate": self.rates}
        return make_frame({**columns, "low": self.low, "high": self.high}, backend)


def estimate_label_noise(
    first: ArrayLike,
    second: ArrayLike,
    *,
    second_error: float = 0.0,
    confidence: float = 0.95,
) -> LabelNoise:
    """Return how often first labels are wrong, from second labels of the same rows.

    The rows must be a random draw of those with each first label. With ``second_error=0`` second
    labels are the truth, and rates and intervals are those of wrong first labels. Otherwise the
    second labels may be wrong, too, independently of the first within each class. Then the share
    that differs is at least ``1 - second_error`` times the rate of wrong first labels, and ``high``
    is an upper end of this rate; nothing bounds it from below.

    Parameters
    ----------
    first : array-like of shape (n,)
        Labels like those of the training data.
    second : array-like of shape (n,)
        Labels of the same rows by somebody else.
    second_error : float
        The largest share of the rows outside of a class that get its label as their second, below
        one: 0 for the truth, 0.5 for anybody better than a coin.
    confidence : float
        Of the intervals, each with half of the rest on either side.

    Returns
    -------
    LabelNoise

    Raises
    ------
    ValueError
        If labels are missing or do not fit each other, or a share is none.

    See Also
    --------
    kdey.Options : Its ``label_noise`` and ``label_noise_bound`` take the result.

    Examples
    --------
    >>> from kdey.labelled import estimate_label_noise
    >>> noise = estimate_label_noise(["a"] * 100 + ["b"] * 100, ["a"] * 90 + ["b"] * 110)
    >>> noise.rates
    array([0.1, 0. ])
    >>> {name: round(rate, 3) for name, rate in noise.bound.items()}
    {'a': 0.174, 'b': 0.037}
    """
    check_share(confidence, "confidence")
    if not 0.0 <= second_error < 1.0:
        raise ValueError(f"second_error must be a share from 0 to below 1, got {second_error!r}")
    labels = [_labels(values, name) for values, name in ((first, "first"), (second, "second"))]
    if len(labels[0]) != len(labels[1]):
        raise ValueError(
            f"first and second must be labels of the same rows, got {len(labels[0])} and "
            f"{len(labels[1])}"
        )
    try:
        classes, codes = np.unique(np.concatenate(labels), return_inverse=True)
    except TypeError:
        raise ValueError("first and second must be labels of one type") from None
    k, m = len(classes), len(labels[0])
    counts = np.zeros((k, k))
    np.add.at(counts, (codes[m:], codes[:m]), 1.0)
    n = counts.sum(axis=0)
    confusion = np.where(n > 0, counts / np.maximum(n, 1.0), np.eye(k))
    rates = 1.0 - np.diag(confusion)
    low, high = wilson(rates, np.maximum(n, 1e-9), (1.0 - confidence) / 2.0)
    low = np.where(n > 0, low, 0.0) if second_error == 0.0 else np.zeros(k)
    high = np.where(n > 0, np.minimum(high / (1.0 - second_error), 1.0), 1.0)
    rates = np.where(n > 0, rates, np.nan)
    return LabelNoise(classes, n.astype(np.int64), rates, low, high, confusion, confidence)


def _labels(values: ArrayLike, name: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"{name} must be a vector of labels, got shape {array.shape}")
    missing = [v is None or v != v for v in array.tolist()]
    if any(missing):
        raise ValueError(
            f"{name} has {sum(missing)} missing label(s), the first in row {missing.index(True)}: "
            "leave these rows out of both"
        )
    return array
