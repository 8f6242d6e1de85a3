r"""Shares where training labels are wrong: what is left to know of them, and with which intervals.

Of the training rows with label j let a share :math:`C_{ij}` belong to class i. If wrong labels do
not depend on the features within a class, the rows with label j look as
:math:`\tilde T_j = \sum_i C_{ij} T_i` does, and the shares :math:`a'` of the labels that a bag
seems to have give its true ones by

.. math:: a = C a'

C has a non-negative entry for each pair, and its columns sum to one. We know it (known rates), or
only that at most a share :math:`\eta_j` of the rows with label j is wrong (a bound). For a set S of
classes the share then lies between two linear functions of :math:`a'`, and both ends are reached:

.. math:: \sum_{i \in S} (1 - \eta_i) a'_i \;\le\; \sum_{i \in S} a_i \;\le\;
          \sum_{i \in S} a'_i + \sum_{j \notin S} \eta_j a'_j

The interval goes from the lower end of an interval of the first to the upper end of one of the
second: for each C that is possible it covers the share as often as the interval of :math:`a'` does.
Known rates of more than two classes leave open where the wrong labels belong, and give intervals
over all ways. With equal rates of the classes outside S both functions are increasing ones of the
share of S alone, whose interval they move; what is left otherwise is added as in Zou and Donner
(``differences.py``).

The apparent shares may leave the simplex, :math:`C^{-1} a` with a class that is absent, and
estimates may not. Where rates are known we therefore go on from the moment estimate, which may
leave it, too. A bootstrap has none: its intervals at the border are those of the bound.

How often labels are wrong follows from two labels of the same rows (:func:`estimate_label_noise`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.bags import Array
from kdey.intervals.profile import upper_quantile, wilson
from kdey.options import Options, interval_tail
from kdey.simplex import project
from kdey.validation import check_share, make_frame

if TYPE_CHECKING:
    from kdey.intervals.estimate import Estimate

#: Labels of which half are wrong say nothing.
MOST_NOISE = 0.5


@dataclass(frozen=True, eq=False)
class NoiseRates:
    """What is known of wrong training labels.

    Attributes
    ----------
    least, most : arrays of shape (k,)
        The share of the rows with each label that belongs to another class is between them.
    matrix : array of shape (k, k)
        The C by which shares are estimated: entry (i, j) is the share of rows with label j that
        belong to class i.
    is_exact : bool
        Whether C is known, and not only its diagonal or bounds of this.
    """

    least: Array
    most: Array
    matrix: Array
    is_exact: bool

    @classmethod
    def of(cls, options: Options, classes: NDArray[Any]) -> NoiseRates | None:
        """Return what options say about label noise; None if there is none.

        Raises
        ------
        ValueError
            If a rate is no share below one half, or is that of a class that does not exist.
        """
        k, names = len(classes), np.asarray(classes).tolist()
        if options.label_noise_bound is not None:
            most = _rates(options.label_noise_bound, names, "label_noise_bound")
            if not most.any():
                return None
            return cls(np.zeros(k), most, np.eye(k), False)
        if options.label_noise is None:
            return None
        given = options.label_noise
        if not isinstance(given, Mapping) and np.ndim(given) == 2:
            matrix = _confusion(given, k)
            rates, is_exact = 1.0 - np.diag(matrix), True
        else:
            rates, is_exact = _rates(given, names, "label_noise"), k == 2
            matrix = np.diag(1.0 - rates) + (1.0 - np.eye(k)) * rates / (k - 1)
        return cls(rates, rates, matrix, is_exact) if rates.any() else None

    @property
    def is_known(self) -> bool:
        """Whether the rates are known, so that shares are corrected."""
        return bool((self.least == self.most).all())

    @property
    def note(self) -> str:
        """A sentence about the result."""
        worst = float(self.most.max())
        if self.is_known:
            return (
                f"shares are corrected for training labels of which up to {worst:.3g} of a class "
                "are known to be wrong"
            )
        return (
            f"intervals hold for any training labels of which at most {worst:.3g} of a class are "
            "wrong; the estimate takes them as right"
        )

    def functions(self, members: Array, is_bound: bool = False) -> tuple[Array, Array]:
        """Return the smallest and largest share of sums of classes, by the apparent shares.

        Parameters
        ----------
        members : array of shape (g, k)
            Entry (s, i) is one if sum s has class i, otherwise zero; no sum has all classes.
        is_bound : bool
            Whether to take the rates as bounds, even if they are known.

        Returns
        -------
        low, high : arrays of shape (g, k)
            Coefficients of the apparent shares.
        """
        if self.is_exact and not is_bound:
            return members @ self.matrix, members @ self.matrix
        least = np.zeros_like(self.least) if is_bound else self.least
        inside, outside = members, 1.0 - members
        only_in = inside.sum(axis=1, keepdims=True) == 1  # whose wrong labels must leave the sum
        only_out = outside.sum(axis=1, keepdims=True) == 1  # whose wrong labels must be of the sum
        low = inside * (1.0 - self.most) + outside * np.where(only_out, least, 0.0)
        high = inside * (1.0 - np.where(only_in, least, 0.0)) + outside * self.most
        return low, high

    def corrected(self, plain: Estimate, merged: Estimate, members: Array) -> NoisyShares:
        """Return the shares of sums of true classes, and their intervals.

        Parameters
        ----------
        plain : Estimate
            Of the labels, as they are.
        merged : Estimate
            Of the same sums (g,) of labels.
        members : array of shape (g, k)
        """
        apparent, inner = plain.estimate, plain.uncertainty
        # Distances to ends are too short where a label may be absent.
        is_border = self.is_known and bool((plain.low <= 0.0).any())
        centre = inner.centre() if is_border else None
        if centre is not None and (centre < 0.0).any():
            apparent = centre  # how far beyond the border; otherwise nothing is known of that
        lower, upper = self.functions(members, is_bound=is_border and centre is None)
        covariance = np.asarray(inner.covariance())
        quantile = upper_quantile(
            interval_tail(plain.confidence, plain.simultaneous, len(members)), inner.freedom()
        )

        def end(function: Array, side: float) -> Array:
            """Return the lower (side -1) or upper (side 1) end of functions (g, k), (g,)."""
            inside, outside = _mean_coefficients(function, members, apparent)
            rest = function - members * inside - (1.0 - members) * outside
            reach = merged.high - merged.estimate if side > 0 else merged.estimate - merged.low
            value = function @ apparent
            if not np.isfinite(covariance).all():
                unknown = np.abs(rest).max(axis=1) > 1e-12
                moved = value + side * (inside - outside)[:, 0] * reach
                return np.where(unknown, 0.5 + 0.5 * side, moved)
            variance = _quadratic(members, covariance, members)
            if centre is not None:
                reach = np.maximum(reach, quantile * np.sqrt(variance))
            x = (inside - outside)[:, 0] * np.maximum(reach, 0.0)
            spread = _quadratic(rest, covariance, rest)
            y, both = quantile * np.sqrt(spread), np.sqrt(variance * spread)
            common = _quadratic(members, covariance, rest, floor=-np.inf)
            rho = np.clip(common / np.where(both > 0, both, 1.0), -1.0, 1.0)
            length = np.sqrt(np.maximum(x**2 + y**2 + 2 * rho * x * y, 0.0))
            return np.asarray(value + side * length)

        shares = members @ project(self.matrix @ apparent)
        return NoisyShares(
            shares,
            np.minimum(np.clip(end(lower, -1.0), 0.0, 1.0), shares),
            np.maximum(np.clip(end(upper, 1.0), 0.0, 1.0), shares),
            members @ self.matrix,
            (lower + upper) / 2.0,
            np.maximum((upper - lower) @ plain.estimate, 0.0) / 2.0,
        )


@dataclass(frozen=True, eq=False)
class NoisyShares:
    """Sums of shares of true classes, with what their joint uncertainty needs.

    Attributes
    ----------
    estimate, low, high : arrays of shape (g,)
    matrix, middle : arrays of shape (g, k)
        Coefficients of the apparent shares in the estimate, and in the middle between the two
        linear functions.
    spread : array of shape (g,)
        Half the distance of the functions; zero where C is known.
    """

    estimate: Array
    low: Array
    high: Array
    matrix: Array
    middle: Array
    spread: Array


def _mean_coefficients(function: Array, members: Array, shares: Array) -> tuple[Array, Array]:
    """Return the mean coefficients of the classes inside and outside of sums, (g, 1) each."""
    means = []
    for part in (members, 1.0 - members):
        weights = part * (np.maximum(shares, 0.0) + 1e-12)
        means.append((function * weights).sum(axis=1) / weights.sum(axis=1))
    return means[0][:, None], means[1][:, None]


def _quadratic(left: Array, matrix: Array, right: Array, floor: float = 0.0) -> Array:
    return np.asarray(np.maximum(((left @ matrix) * right).sum(axis=1), floor))


def _rates(given: Any, names: list[Any], option: str) -> Array:
    """Return the rate of each class, shape (k,)."""
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(f"{option} has rates of {unknown[:5]}, which are no classes")
        rates = np.array([given.get(name, 0.0) for name in names], dtype=np.float64)
    else:
        rates = np.asarray(given, dtype=np.float64)
        if rates.ndim == 0:
            rates = np.full(len(names), float(rates))
    if rates.shape != (len(names),):
        raise ValueError(
            f"{option} must be one rate, or one for each of the {len(names)} classes, got "
            f"{given!r:.80}"
        )
    if not ((rates >= 0.0) & (rates < MOST_NOISE)).all():
        raise ValueError(
            f"{option} must hold shares of wrong labels from 0 to below 0.5, got {given!r:.80}: "
            "labels of which half are wrong tell the classes apart no more"
        )
    return rates


def _confusion(given: Any, k: int) -> Array:
    """Return a known C, shape (k, k)."""
    matrix = np.asarray(given, dtype=np.float64)
    fits = matrix.shape == (k, k) and bool((matrix >= 0).all())
    if not (fits and np.allclose(matrix.sum(axis=0), 1.0, atol=1e-6)):
        raise ValueError(
            f"label_noise as a matrix must have shape ({k}, {k}), no negative number and columns "
            "that sum to one: entry (i, j) is the share of rows with label j that belong to class i"
        )
    if not (np.diag(matrix) > 1.0 - MOST_NOISE).all():
        raise ValueError(
            "label_noise says of a label that half of its rows belong to other classes: such "
            "labels tell the classes apart no more"
        )
    return np.asarray(matrix / matrix.sum(axis=0))


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
