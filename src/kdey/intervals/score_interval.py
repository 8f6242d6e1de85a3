r"""Limits in closed form from a variance that depends on the prevalence itself.

For class i let c be the moment estimate and v(t) its variance if the class had prevalence t and the
others shared the rest as estimated:

.. math::
   v(t) = \frac{\mu\, t (1 - t)}{m} + \Bigl(\frac{t}{m} + \frac{t^2}{n_i}\Bigr) g_{ii}
   + \sum_{l \ne i} \Bigl(\frac{b_l (1 - t)}{m} + \frac{b_l^2 (1 - t)^2}{n_l}\Bigr) g_{il}

with g the spreads within classes, m the size of the bag, n_l of the training classes, b the mix of
the others and :math:`\mu` = 1 for the population, 0 for the bag. The interval is the set of t with
:math:`(t - c)^2 \le q^2 v(t)`, the roots of a quadratic. With perfect classes it is Wilson's score
interval; with the template term alone it is Fieller's, and [0, 1] where Fieller's is unbounded.

The last step to every interval: what holds whichever way the limits were made.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from kdey._support.warnings import warn
from kdey.bags import Array
from kdey.intervals.options import IntervalOptions, IntervalWarning
from kdey.intervals.sampled_bags import SampledBags


def score_interval(
    centre: Array,
    mix: Array,
    spread: Array,
    bag_sizes: Array,
    template_sizes: Array,
    quantile: Array,
    population: bool,
) -> tuple[Array, Array]:
    """Return the limits of each class, two arrays of shape (n_bags, k), within [0, 1].

    Parameters
    ----------
    centre : array of shape (n_bags, k)
        Moment estimates c.
    mix : array of shape (n_bags, k)
        Prevalences without zeros, from which b is taken.
    spread : array of shape (k, k) or (n_bags, k, k)
        g.
    bag_sizes : array of shape (n_bags, k)
        m, per class where a design effect differs between them.
    template_sizes : array of shape (k,)
    quantile : array of shape (n_bags, k)
    population : bool
    """
    inverse = 1.0 / template_sizes
    own = np.diagonal(spread, axis1=-2, axis2=-1)
    rest = np.maximum(1.0 - mix, 1e-12)
    linear = (sum_over_classes(spread, mix) - mix * own) / rest / bag_sizes
    square = (sum_over_classes(spread, mix**2 * inverse) - mix**2 * inverse * own) / rest**2
    mu = (1.0 if population else 0.0) / bag_sizes
    q2 = quantile**2
    a = 1.0 - q2 * (-mu + own * inverse + square)
    b = -2.0 * centre - q2 * (mu + own / bag_sizes - linear - 2.0 * square)
    c = centre**2 - q2 * (linear + square)
    return _roots(a, b, c)


def variance(
    mix: Array, spread: Array, bag_sizes: Array, template_sizes: Array, population: bool
) -> Array:
    """Return v at the mix itself, shape (n_bags, k)."""
    measured = sum_over_classes(spread, mix) / bag_sizes + sum_over_classes(
        spread, mix**2 / template_sizes
    )
    multinomial = mix * (1.0 - mix) / bag_sizes
    return np.asarray(measured + multinomial if population else measured)


def freedom(
    mix: Array,
    spread: Array,
    bag_sizes: Array,
    template_sizes: Array,
    class_freedom: Array,
    total: Array,
) -> Array:
    """Return Satterthwaite's degrees of freedom of the variance ``total``, shape (n_bags, k).

    The spread (i, l) is known with ``class_freedom[..., i, l]`` degrees of freedom.
    """
    squares, ratio = spread**2 / class_freedom, mix / template_sizes
    bottom = (
        sum_over_classes(squares, mix**2) / bag_sizes**2
        + sum_over_classes(squares, mix**2 * ratio) * 2.0 / bag_sizes
        + sum_over_classes(squares, (mix * ratio) ** 2)
    )
    return np.asarray(total**2 / np.maximum(bottom, np.finfo(np.float64).tiny))


def t_quantile(tail: float, freedom: Array) -> Array:
    """Return the upper quantile of Student's t; Cornish-Fisher where it is exact enough."""
    z = float(-ndtri(tail))
    f = np.maximum(freedom, 1.0)
    out = z + (z**3 + z) / (4 * f) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * f * f)
    few = f < 60.0
    if few.any():
        out[few] = -stdtrit(f[few], tail)
    return np.asarray(out)


def wilson(prevalence: Array, sizes: Array, tail: float) -> tuple[Array, Array]:
    """Return Wilson's limits for shares of perfect labels, of the shape of ``prevalence``."""
    q2 = float(ndtri(tail)) ** 2
    n = sizes + q2
    middle = (sizes * prevalence + q2 / 2.0) / n
    half = np.sqrt(q2 * (sizes * prevalence * (1.0 - prevalence) + q2 / 4.0)) / n
    return np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)


def sum_over_classes(spread: Array, shares: Array) -> Array:
    """Return sum_l spread[..., i, l] shares[..., l], shape (n_bags, k)."""
    if spread.ndim == 2:
        return np.asarray(shares @ spread.T)
    return np.asarray((spread @ shares[..., None])[..., 0])


def _roots(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """Return where a t^2 + b t + c <= 0 within [0, 1]; all of it where that is unbounded."""
    under = b * b - 4.0 * a * c
    unbounded = ~(a > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(np.maximum(under, 0.0))
        low, high = (-b - root) / (2.0 * a), (-b + root) / (2.0 * a)
    low, high = np.where(unbounded, 0.0, low), np.where(unbounded, 1.0, high)
    return _clip(low), _clip(high)


def _clip(limit: NDArray[np.floating]) -> Array:
    return np.asarray(np.clip(np.nan_to_num(limit, nan=0.0), 0.0, 1.0))


def settle(
    estimates: Array, low: Array, high: Array, bags: SampledBags, options: IntervalOptions
) -> tuple[Array, Array]:
    """Return limits (n_bags, k) that contain the estimate and claim no more than labels could.

    An interval for the population is never inside the one that perfect labels of the bag would
    give, Wilson's at the estimate.
    """
    low, high = np.minimum(low, estimates), np.maximum(high, estimates)
    if options.target == "population":
        sizes = np.minimum(bags.effective_sizes, bags.n_units)[:, None]
        first, last = wilson(estimates, sizes, options.tail(estimates.shape[1]))
        low, high = np.minimum(low, first), np.maximum(high, last)
    return low, high


def give_up(low: Array, high: Array, bags: SampledBags, rare: NDArray[np.bool_]) -> list[list[str]]:
    """Widen, in place, limits that nothing supports to [0, 1]; return what to say of each bag.

    ``rare`` marks classes with a single training instance, shape (k,).
    """
    notes: list[list[str]] = [[] for _ in range(len(bags))]
    single = np.flatnonzero(bags.n_units < 2).tolist()
    for number in single:
        low[number], high[number] = 0.0, 1.0
        notes[number].append("one instance or cluster says next to nothing: limits are 0 and 1")
    if single:
        _warn(f"{len(single)} bag(s) have a single instance or cluster; their limits are 0 and 1")
    if rare.any():
        low[:, rare], high[:, rare] = 0.0, 1.0
        told = "a class with one training instance has limits 0 and 1"
        notes = [[*own, told] for own in notes]
        _warn(
            f"{int(rare.sum())} class(es) have a single training instance, whose spread is "
            "unknown: their limits are 0 and 1, and those of the other classes are rough"
        )
    return notes


def _warn(message: str) -> None:
    warn(message, IntervalWarning, stacklevel=6)
