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
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from kdey.bags import Array
from kdey.options import Options
from kdey.simplex import project

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
        source = _Source.of(plain, merged, members, self)
        lower, upper = self.functions(members, is_bound=source.is_blind)
        shares = members @ project(self.matrix @ source.apparent)
        low = np.clip(source.end(lower, -1.0), 0.0, 1.0)
        high = np.clip(source.end(upper, 1.0), 0.0, 1.0)
        spread = np.maximum((upper - lower) @ plain.estimate, 0.0) / 2.0
        return NoisyShares(
            shares,
            np.minimum(low, shares),
            np.maximum(high, shares),
            members @ self.matrix,
            (lower + upper) / 2.0,
            spread,
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


@dataclass(frozen=True, eq=False)
class _Source:
    """The apparent shares of one bag, and the intervals of sums of them.

    Attributes
    ----------
    members : array of shape (g, k)
    shares, low, high : arrays of shape (g,)
        Of sums of labels.
    apparent : array of shape (k,)
        Apparent shares of labels. They may be negative where rates are known.
    covariance : array of shape (k, k)
        NaN where it is not known.
    quantile : float
    is_border : bool
        Whether a label may be absent, so that distances to ends are too short.
    is_blind : bool
        Whether it is not known how far beyond the border the apparent shares are.
    """

    members: Array
    shares: Array
    low: Array
    high: Array
    apparent: Array
    covariance: Array
    quantile: float
    is_border: bool
    is_blind: bool

    @classmethod
    def of(cls, plain: Estimate, merged: Estimate, members: Array, noise: NoiseRates) -> _Source:
        apparent, inner = plain.estimate, plain.uncertainty
        is_border = noise.is_known and bool((plain.low <= 0.0).any())
        centre = inner.centre() if is_border else None
        covariance = np.asarray(inner.covariance())
        if centre is not None and (centre < 0.0).any():
            apparent = centre
        tail = (1.0 - plain.confidence) / 2.0
        tail /= len(members) if plain.simultaneous else 1
        freedom = inner.freedom()
        quantile = float(-ndtri(tail) if np.isinf(freedom) else -stdtrit(freedom, tail))
        return cls(
            members,
            merged.estimate,
            merged.low,
            merged.high,
            apparent,
            covariance,
            quantile,
            is_border and centre is not None,
            is_border and centre is None,
        )

    def end(self, function: Array, side: float) -> Array:
        """Return the lower (side -1) or upper (side 1) end of functions (g, k), shape (g,)."""
        inside, outside = _mean_coefficients(function, self.members, self.apparent)
        rest = function - self.members * inside - (1.0 - self.members) * outside
        reach = self.high - self.shares if side > 0 else self.shares - self.low
        value = function @ self.apparent
        if not np.isfinite(self.covariance).all():
            unknown = np.abs(rest).max(axis=1) > 1e-12
            moved = value + side * (inside - outside)[:, 0] * reach
            return np.where(unknown, 0.5 + 0.5 * side, moved)
        variance = _quadratic(self.members, self.covariance, self.members)
        if self.is_border:
            reach = np.maximum(reach, self.quantile * np.sqrt(variance))
        x = (inside - outside)[:, 0] * np.maximum(reach, 0.0)
        spread = _quadratic(rest, self.covariance, rest)
        y, both = self.quantile * np.sqrt(spread), np.sqrt(variance * spread)
        common = _quadratic(self.members, self.covariance, rest, floor=-np.inf)
        rho = np.clip(common / np.where(both > 0, both, 1.0), -1.0, 1.0)
        return np.asarray(value + side * np.sqrt(np.maximum(x**2 + y**2 + 2 * rho * x * y, 0.0)))


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
