r"""Score intervals: limits in closed form, from a variance that depends on the prevalence itself.

For class i let c be the moment estimate and v(t) its variance if the class had prevalence t and the
others shared the rest as estimated:

.. math::
   v(t) = \frac{\mu\, t (1 - t)}{m} + \Bigl(\frac{t}{m} + \frac{t^2}{n_i}\Bigr) g_{ii}
   + \sum_{l \ne i} \Bigl(\frac{b_l (1 - t)}{m} + \frac{b_l^2 (1 - t)^2}{n_l}\Bigr) g_{il}

with g the spreads within classes, m the size of the bag, n_l of the training classes, b the mix of
the others and :math:`\mu` = 1 for the population, 0 for the bag. The interval is the set of t with
:math:`(t - c)^2 \le q^2 v(t)`, the roots of a quadratic. With perfect classes it is Wilson's score
interval; with the template term alone it is Fieller's, and [0, 1] where Fieller's is unbounded.

The last two functions correct limits of any source, bootstrap included:
:func:`ensure_minimum_width` makes them at least as wide as Wilson's, and :func:`widen_unsupported`
sets them to 0 and 1 where there is too little data.
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
        Prevalences without zeros, which determine b.
    spread : array of shape (k, k) or (n_bags, k, k)
        The variances g within classes.
    bag_sizes : array of shape (n_bags, k)
        The size m of the bag, for each class because design effects differ between classes.
    template_sizes : array of shape (k,)
        Training instances n_l of each class.
    quantile : array of shape (n_bags, k)
        The quantile q of Student's t.
    population : bool
        Whether the target is the population; otherwise it is the bag.

    Returns
    -------
    low, high : arrays of shape (n_bags, k)
    """
    inverse = 1.0 / template_sizes
    diagonal = np.diagonal(spread, axis1=-2, axis2=-1)
    rest = np.maximum(1.0 - mix, 1e-12)
    linear = (sum_over_classes(spread, mix) - mix * diagonal) / rest / bag_sizes
    square = (sum_over_classes(spread, mix**2 * inverse) - mix**2 * inverse * diagonal) / rest**2
    mu = (1.0 if population else 0.0) / bag_sizes
    q2 = quantile**2
    a = 1.0 - q2 * (-mu + diagonal * inverse + square)
    b = -2.0 * centre - q2 * (mu + diagonal / bag_sizes - linear - 2.0 * square)
    c = centre**2 - q2 * (linear + square)
    return _roots(a, b, c)


def variance(
    mix: Array, spread: Array, bag_sizes: Array, template_sizes: Array, population: bool
) -> Array:
    """Return v at the mix itself, shape (n_bags, k); parameters as in :func:`score_interval`."""
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
    """Return the degrees of freedom of a variance by Satterthwaite's formula, shape (n_bags, k).

    Parameters
    ----------
    mix, spread, bag_sizes, template_sizes : arrays
        As in :func:`score_interval`.
    class_freedom : array of shape (k, k) or (n_bags, k, k)
        Degrees of freedom of each entry of ``spread``.
    total : array of shape (n_bags, k)
        The variance, as :func:`variance` returns it.

    Returns
    -------
    array of shape (n_bags, k)
    """
    squares, ratio = spread**2 / class_freedom, mix / template_sizes
    bottom = (
        sum_over_classes(squares, mix**2) / bag_sizes**2
        + sum_over_classes(squares, mix**2 * ratio) * 2.0 / bag_sizes
        + sum_over_classes(squares, (mix * ratio) ** 2)
    )
    return np.asarray(total**2 / np.maximum(bottom, np.finfo(np.float64).tiny))


def t_quantile(tail: float, freedom: Array) -> Array:
    """Return the upper quantile of Student's t at a tail probability, in the shape of ``freedom``.

    From 60 degrees of freedom the Cornish-Fisher expansion is accurate enough, and faster.
    """
    z = float(-ndtri(tail))
    f = np.maximum(freedom, 1.0)
    out = z + (z**3 + z) / (4 * f) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * f * f)
    few = f < 60.0
    if few.any():
        out[few] = -stdtrit(f[few], tail)
    return np.asarray(out)


def wilson(prevalence: Array, sizes: Array, tail: float) -> tuple[Array, Array]:
    """Return Wilson's limits for shares of error-free labels, in the shape of ``prevalence``.

    Parameters
    ----------
    prevalence : array of shape (n_bags, k)
    sizes : array of shape (n_bags, 1) or (n_bags, k)
    tail : float
        Probability outside each end.

    Returns
    -------
    low, high : arrays of shape (n_bags, k)
    """
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
    """Return the ends of {t in [0, 1] : a t^2 + b t + c <= 0}; 0 and 1 if it is unbounded."""
    under = b * b - 4.0 * a * c
    unbounded = ~(a > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(np.maximum(under, 0.0))
        low, high = (-b - root) / (2.0 * a), (-b + root) / (2.0 * a)
    low, high = np.where(unbounded, 0.0, low), np.where(unbounded, 1.0, high)
    return _clip(low), _clip(high)


def _clip(limit: NDArray[np.floating]) -> Array:
    return np.asarray(np.clip(np.nan_to_num(limit, nan=0.0), 0.0, 1.0))


def ensure_minimum_width(
    estimates: Array, low: Array, high: Array, bags: SampledBags, options: IntervalOptions
) -> tuple[Array, Array]:
    """Return limits that contain the estimate and are no tighter than those of labelled data.

    The interval of the population must contain the one that error-free labels of the bag would
    give, Wilson's interval at the estimate.

    Parameters
    ----------
    estimates, low, high : arrays of shape (n_bags, k)
    bags : SampledBags
    options : IntervalOptions

    Returns
    -------
    low, high : arrays of shape (n_bags, k)
    """
    low, high = np.minimum(low, estimates), np.maximum(high, estimates)
    if options.target == "population":
        sizes = np.minimum(bags.effective_sizes, bags.n_units)[:, None]
        first, last = wilson(estimates, sizes, options.tail(estimates.shape[1]))
        low, high = np.minimum(low, first), np.maximum(high, last)
    return low, high


def widen_unsupported(
    low: Array, high: Array, bags: SampledBags, rare: NDArray[np.bool_]
) -> list[list[str]]:
    """Set limits without enough data to 0 and 1, in place, and return notes for each bag.

    Parameters
    ----------
    low, high : arrays of shape (n_bags, k)
        Changed in place.
    bags : SampledBags
    rare : bool array of shape (k,)
        Classes with fewer than two training instances.

    Returns
    -------
    list of n_bags lists of str

    Warns
    -----
    IntervalWarning
        If any limits were set.
    """
    notes: list[list[str]] = [[] for _ in range(len(bags))]
    single = np.flatnonzero(bags.n_units < 2).tolist()
    for number in single:
        low[number], high[number] = 0.0, 1.0
        notes[number].append(
            "the bag has one instance or cluster, which says almost nothing: limits are 0 and 1"
        )
    if single:
        _warn(f"{len(single)} bag(s) have a single instance or cluster; their limits are 0 and 1")
    if rare.any():
        low[:, rare], high[:, rare] = 0.0, 1.0
        remark = "a class with one training instance has limits 0 and 1"
        notes = [[*texts, remark] for texts in notes]
        _warn(
            f"{int(rare.sum())} class(es) have a single training instance, whose spread is "
            "unknown: their limits are 0 and 1, and those of the other classes are rough"
        )
    return notes


def _warn(message: str) -> None:
    warn(message, IntervalWarning, stacklevel=6)
