r"""Separable losses, sum_j v_j phi(p_j, q_j) with p = R alpha, and their generators phi.

The mixture likelihood and the divergences have this form; :class:`SeparableLoss` is the arithmetic
that they share. A generator phi(p, q) is convex in p and zero at p = q, and it comes with its
derivatives in p. Each divergence is written with d/dp phi(q, q) = 0, so that sums over
importance-sampled points stay non-negative and unbiased (an f-divergence generator with f'(1) = 0).
All limits at p = 0 and q = 0 are exact: no epsilon is added anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

Array = NDArray[np.float64]
Function = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Generator:
    """One divergence generator phi(p, q), vectorised over arrays of equal shape.

    Attributes
    ----------
    name : str
    code : int
        Number of the generator in the native solver (``separable_kernels.hpp``).
    value, first, second : callable
        phi and its first two derivatives in p. At p = 0 < q a derivative may be infinite, which
        is its limit; at p = q = 0 it is the limit p -> 0 of phi(., 0).
    """

    name: str
    code: int
    value: Function
    first: Function
    second: Function


@dataclass(frozen=True, eq=False)
class SeparableLoss:
    """sum_j v_j phi(R_j . alpha, q_j) for one bag.

    Attributes
    ----------
    rows : array of shape (n, k), R >= 0
    weights : array of shape (n,), v >= 0
    targets : array of shape (n,), q >= 0
    generator : Generator
    """

    rows: Array
    weights: Array
    targets: Array
    generator: Generator

    def value(self, prevalence: Array) -> float:
        """Return the loss; inf if a limit of phi is infinite."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            terms = self.weights * self.generator.value(self.rows @ prevalence, self.targets)
        return float(np.sum(np.where(self.weights > 0, terms, 0.0)))

    def gradient(self, prevalence: Array) -> Array:
        """Return R' (v phi'), shape (k,); entries may be infinite at the border."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slope = self.weights * self.generator.first(self.rows @ prevalence, self.targets)
        slope[self.weights == 0] = 0.0
        steep = np.flatnonzero(~np.isfinite(slope))
        if len(steep) == 0:
            return np.asarray(slope @ self.rows, dtype=np.float64)
        # An infinite slope counts only for the classes present in that row (0 * inf is 0).
        infinite = (np.where(self.rows[steep] > 0, slope[steep, None], 0.0)).sum(axis=0)
        slope[steep] = 0.0
        return np.asarray(slope @ self.rows + infinite, dtype=np.float64)

    def hessian(self, prevalence: Array) -> Array:
        """Return R' diag(v phi'') R, shape (k, k)."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            curve = self.weights * self.generator.second(self.rows @ prevalence, self.targets)
        curve[(self.weights == 0) | ~np.isfinite(curve)] = 0.0
        scaled = self.rows * np.sqrt(curve)[:, None]
        return np.asarray(scaled.T @ scaled, dtype=np.float64)


def resolve_generator(generator: str | Generator) -> Generator:
    """Return the generator of that name, or ``generator`` itself; raises ValueError otherwise."""
    if isinstance(generator, Generator):
        return generator
    if not isinstance(generator, str) or generator not in GENERATORS:
        raise ValueError(f"divergence must be one of {sorted(GENERATORS)}, got {generator!r}")
    return GENERATORS[generator]


def _hellinger() -> Generator:
    return Generator(
        "hellinger",
        1,
        lambda p, q: (np.sqrt(p) - np.sqrt(q)) ** 2,
        lambda p, q: 1.0 - _ratio(np.sqrt(q), np.sqrt(p)),
        lambda p, q: 0.5 * _ratio(np.sqrt(q), p * np.sqrt(p)),
    )


def _topsoe() -> Generator:
    return Generator("topsoe", 2, _topsoe_value, _topsoe_first, _topsoe_second)


def _jensen_shannon() -> Generator:
    return Generator(
        "jensen-shannon",
        3,
        lambda p, q: 0.5 * _topsoe_value(p, q),
        lambda p, q: 0.5 * _topsoe_first(p, q),
        lambda p, q: 0.5 * _topsoe_second(p, q),
    )


def _kl() -> Generator:
    return Generator(
        "kl",
        4,
        lambda p, q: np.asarray(_entropy(q, p) - q + p, dtype=np.float64),
        lambda p, q: 1.0 - _ratio(q, p),
        lambda p, q: _ratio(q, p * p),
    )


def _reverse_kl() -> Generator:
    return Generator(
        "reverse-kl",
        5,
        lambda p, q: np.asarray(_entropy(p, q) - p + q, dtype=np.float64),
        lambda p, q: np.log(np.where(q > 0, _ratio(p, q), np.inf)),
        lambda p, q: np.where(q > 0, 1.0 / p, 0.0),
    )


def _chi2() -> Generator:
    return Generator(
        "chi2",
        6,
        lambda p, q: _ratio((p - q) ** 2, p + q),
        lambda p, q: 1.0 - 4.0 * _ratio(q, p + q) ** 2,
        lambda p, q: 8.0 * _ratio(q * q, (p + q) ** 3),
    )


def _negative_log() -> Generator:
    return Generator(
        "negative-log",
        0,
        lambda p, q: -np.log(p),
        lambda p, q: -1.0 / p,
        lambda p, q: 1.0 / (p * p),
    )


def _topsoe_value(p: Array, q: Array) -> Array:
    # Both arguments are doubled, because half of the smallest positive number would be zero.
    total = p + q
    return np.asarray((_entropy(2 * p, total) + _entropy(2 * q, total)) / 2, dtype=np.float64)


def _topsoe_first(p: Array, q: Array) -> Array:
    # log(2p / (p + q)); the ratio is 2 if q = 0, for any p.
    return np.log(np.where(q > 0, _ratio(2 * p, p + q), 2.0))


def _topsoe_second(p: Array, q: Array) -> Array:
    return _ratio(q, p * (p + q))


def _entropy(above: Array, below: Array) -> Array:
    """Return above log(above / below), with 0 log 0 = 0 and infinity if only below is zero."""
    value = np.asarray(rel_entr(above, below), dtype=np.float64)
    wrong = np.isneginf(value)  # some versions of SciPy take the log of an underflow
    if wrong.any():
        above, below = np.broadcast_arrays(above, below)
        value[wrong] = above[wrong] * (np.log(above[wrong]) - np.log(below[wrong]))
    return value


def _ratio(above: Array, below: Array) -> Array:
    """Return above / below, with 0 / 0 = 0."""
    return np.where(above > 0, above / np.where((above > 0) | (below > 0), below, 1.0), 0.0)


#: Divergences between densities or histograms, by name: ``hellinger`` is (sqrt p - sqrt q)^2 (on
#: distributions twice 1 - sum sqrt(pq)); ``topsoe`` p log 2p/(p+q) + q log 2q/(p+q);
#: ``jensen-shannon`` half of it; ``kl`` q log q/p - q + p (the bag against the mixture);
#: ``reverse-kl`` p log p/q - p + q; ``chi2`` the symmetric (p-q)^2/(p+q).
GENERATORS: dict[str, Generator] = {
    g.name: g for g in (_hellinger(), _topsoe(), _jensen_shannon(), _kl(), _reverse_kl(), _chi2())
}
#: -log p: the loss of the mixture likelihood (not a divergence, since it ignores q).
NEGATIVE_LOG = _negative_log()
