"""The probability simplex: checks, projection, uniform sampling, and the counts behind shares.

A *prevalence* is a point of the simplex, shape (k,); *posteriors* are rows of points of it,
shape (m, k).
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey import native
from kdey.arrays import for_numpy, in_class_order
from kdey.validation import check_share

Array = NDArray[np.float64]
#: Largest accepted distance of a row sum from one. Wide enough for float32 classifiers and for
#: scores written with four decimals, narrow enough to refuse unnormalised scores.
SUM_TOLERANCE = 1e-3
#: Below this distance a row sum is accepted by the native core, which may round sums in another way
#: than NumPy; closer to the tolerance NumPy decides.
CLEAR_TOLERANCE = 0.999 * SUM_TOLERANCE
#: Uniform prevalences whose roughness bounds that of smooth ones.
_ROUGHNESS_DRAWS = 10_000
#: A study of this size leaves no uncertainty that matters.
_LARGEST = 1e7
#: Negative entries down to this are rounding noise and become zero; below it they are an error.
NEGATIVE_TOLERANCE = 1e-8


def check_posteriors(
    posteriors: ArrayLike,
    n_classes: int | None = None,
    *,
    name: str = "posteriors",
    classes: ArrayLike | None = None,
) -> NDArray[np.floating]:
    """Return ``posteriors`` as a float array of shape (m, k), or raise an error that says why not.

    float32 stays float32 (no copy); everything else becomes float64.

    Parameters
    ----------
    posteriors : array-like or data frame of shape (m, k)
        Rows on the simplex; the sum of a row may differ from one by ``SUM_TOLERANCE``. The columns
        of a data frame are matched with the classes by their names
        (``kdey.arrays.in_class_order``).
    n_classes : int, optional
        Expected number of columns; by default the number of ``classes``, if they are given.
    name : str
        What to call the argument in messages.
    classes : array-like of shape (k,), optional
        The labels in the order that the columns are to have. A data frame with named columns is
        refused without them.

    Raises
    ------
    ValueError
        If the array is empty, masked, has another shape or columns of other classes, or if a row
        is not on the simplex.
    """
    p = _as_float(in_class_order(posteriors, classes, name), name)
    if n_classes is None and classes is not None:
        n_classes = len(np.asarray(classes))
    if p.ndim != 2:
        raise ValueError(f"{name} must have shape (n_instances, n_classes), got shape {p.shape}")
    if p.shape[0] == 0:
        raise ValueError(f"{name} is empty: a bag needs at least one instance")
    if n_classes is not None and p.shape[1] != n_classes:
        raise ValueError(f"{name} has {p.shape[1]} columns, expected one per class: {n_classes}")
    return p if on_simplex(p) else _clipped(p, name)


def on_simplex(posteriors: NDArray[np.floating]) -> bool:
    """Return whether rows of floats, shape (m, k), are known to be on the simplex as they are.

    False says nothing: the rows are then checked by NumPy, which tells what is wrong with them.
    """
    m, k = posteriors.shape
    if not (m and k and posteriors.flags.c_contiguous and native.available()):
        return False
    found = np.empty(2)
    native.call(
        "kdey_check_posteriors", posteriors, int(posteriors.dtype == np.float64), m, k, found
    )
    low, deviation = found.tolist()
    return bool(low >= 0 and deviation < CLEAR_TOLERANCE)


def _clipped(p: NDArray[np.floating], name: str) -> NDArray[np.floating]:
    """Return the rows with negative rounding noise set to zero, or raise ValueError."""
    low = p.min(initial=0.0)
    with np.errstate(invalid="ignore"):  # inf - inf is reported below, with its row
        sums = p.sum(axis=1, dtype=np.float64)
    bad = ~np.isfinite(sums)
    if bad.any():
        raise ValueError(f"{name} contains NaN or infinity (first in row {int(np.argmax(bad))})")
    if low < -NEGATIVE_TOLERANCE:
        row = int(np.argmin(p.min(axis=1)))
        raise ValueError(f"{name} contains negative values (row {row} has {low:.3g})")
    off = np.abs(sums - 1.0)
    if off.max() > SUM_TOLERANCE:
        row = int(np.argmax(off))
        raise ValueError(
            f"{name} must have rows that sum to one (tolerance {SUM_TOLERANCE}); "
            f"row {row} sums to {sums[row]:.6g}"
        )
    return p if low >= 0 else np.maximum(p, 0)


def check_prevalence(
    prevalence: ArrayLike,
    n_classes: int | None = None,
    *,
    name: str = "prevalence",
    classes: ArrayLike | None = None,
) -> Array:
    """Return ``prevalence`` as a float64 vector on the simplex, or raise.

    A series of pandas is matched with the classes by its index, as the columns of a data frame are
    by :func:`check_posteriors`.
    """
    if n_classes is None and classes is not None:
        n_classes = len(np.asarray(classes))
    v = _as_float(in_class_order(prevalence, classes, name), name).astype(np.float64)
    if v.ndim != 1:
        raise ValueError(f"{name} must be a vector, got shape {v.shape}")
    return np.asarray(check_posteriors(v[None, :], n_classes, name=name)[0], dtype=np.float64)


def row_sums(values: Array) -> Array:
    """Return the sum of each row of an array (m, k), shape (m, 1).

    Each row is added by itself, so that a sum does not depend on the other rows, in a third of the
    time that ``values.sum(axis=1)`` takes where rows are short. The order of additions follows the
    memory, which must therefore not be that of the caller: a data frame has its columns together.
    """
    return np.asarray(np.einsum("ij->i", np.ascontiguousarray(values)))[:, None]


def softmax_rows(logits: Array) -> Array:
    """Return the softmax of each row of finite logits (m, k), shape (m, k)."""
    p: Array = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= row_sums(p)
    return p


def project(points: ArrayLike) -> Array:
    """Return the Euclidean projection of each row of ``points`` onto the simplex.

    Sort-based algorithm of Held, Wolfe and Crowder (1974), vectorised over rows; ``points`` has
    shape (k,) or (m, k).

    Examples
    --------
    >>> from kdey.simplex import project
    >>> project([0.9, 0.6])
    array([0.65, 0.35])
    """
    v = _as_float(points, "points").astype(np.float64)
    if v.size == 0 or not np.isfinite(v).all():
        raise ValueError("points must be finite and not empty")
    # Moving a row along (1, ..., 1) does not move its projection, and keeps "- 1" below exact
    # enough for rows of any size.
    v -= v.max(axis=-1, keepdims=True)
    u = -np.sort(-v, axis=-1)
    excess = np.cumsum(u, axis=-1) - 1.0
    rank = np.arange(1, v.shape[-1] + 1)
    support = np.count_nonzero(u * rank > excess, axis=-1)
    threshold = np.take_along_axis(excess, np.expand_dims(support - 1, -1), axis=-1)
    return np.asarray(np.maximum(v - threshold / np.expand_dims(support, -1), 0.0))


def sample_uniform(n_classes: int, size: int, random_state: np.random.Generator) -> Array:
    """Draw ``size`` prevalences uniformly from the simplex (Kraemer), shape (size, n_classes).

    The gaps between sorted uniform numbers are uniform on the simplex (Smith and Tromble, 2004).
    """
    cuts = np.sort(random_state.random((size, n_classes - 1)), axis=1)
    return np.diff(cuts, axis=1, prepend=0.0, append=1.0)


def sample_smooth(
    n_classes: int, size: int, random_state: np.random.Generator, share: float
) -> Array:
    """Draw prevalences of ordered classes, uniform among the smoothest ``share`` of the simplex.

    The roughness of a prevalence is the sum of its squared second differences (APP-OQ of Bunse et
    al., 2022). The bound that a ``share`` of uniform prevalences stays below is computed from
    draws that depend on ``n_classes`` alone; candidates above it are drawn again. Fewer than three
    classes have no second difference, and all prevalences are equally smooth.

    Parameters
    ----------
    n_classes : int
    size : int
    random_state : Generator
    share : float
        In (0, 1]; one is the whole simplex.

    Returns
    -------
    array of shape (size, n_classes)
    """
    if n_classes < 3 or share >= 1.0:
        return sample_uniform(n_classes, size, random_state)
    bound = _roughness_bound(n_classes, share)
    kept: list[Array] = []
    while sum(map(len, kept)) < size:
        draws = sample_uniform(n_classes, size, random_state)
        kept.append(draws[_roughness(draws) <= bound])
    return np.concatenate(kept)[:size]


@functools.lru_cache(maxsize=64)
def _roughness_bound(n_classes: int, share: float) -> float:
    """Return the roughness that a share of uniform prevalences stays below."""
    reference = sample_uniform(n_classes, _ROUGHNESS_DRAWS, np.random.default_rng(0))
    return float(np.quantile(_roughness(reference), share))


def _roughness(prevalences: Array) -> Array:
    return np.asarray((np.diff(prevalences, n=2, axis=1) ** 2).sum(axis=1))


def _as_float(values: ArrayLike, name: str) -> NDArray[np.floating]:
    try:
        array = np.asarray(for_numpy(values, name))
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from error
    if array.dtype in (np.float32, np.float64):
        return array
    if array.dtype.kind not in "biufO":  # text that looks like numbers, dates, complex numbers
        raise ValueError(f"{name} must be real numbers, got dtype {array.dtype}")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, got dtype {array.dtype}: {error}") from error


def round_counts(prevalence: ArrayLike, size: int) -> NDArray[np.int64]:
    """Return integer class counts that sum to ``size``, by the method of largest remainders.

    Every class gets the floor of ``prevalence * size``. The remaining instances go, one each, to
    the classes with the largest fractional parts (the first of them on ties). Every count differs
    by less than one from ``prevalence * size``, and a prevalence that is a multiple of 1 / size is
    met exactly.

    Parameters
    ----------
    prevalence : array-like of shape (..., k)
    size : int

    Returns
    -------
    int64 array of shape (..., k)
    """
    p = np.asarray(prevalence, dtype=np.float64)
    share = p / p.sum(axis=-1, keepdims=True) * size
    counts = np.floor(share).astype(np.int64)
    order = np.argsort(counts - share, axis=-1, kind="stable")
    rank = np.argsort(order, axis=-1, kind="stable")
    remaining = size - counts.sum(axis=-1, keepdims=True)
    return np.asarray(counts + (rank < remaining), dtype=np.int64)


def counts_from_limits(
    rate: float, low: float, high: float, confidence: float = 0.95, name: str = "rate"
) -> tuple[float, float]:
    """Return successes and failures of a study whose Wilson limits are as wide as those given.

    Parameters
    ----------
    rate : float
        The share of successes.
    low, high : float
        Its published limits.
    confidence : float
        The confidence of these limits.
    name : str
        What to call the rate in messages.

    Returns
    -------
    successes, failures : float
        They need not be whole numbers.

    Raises
    ------
    ValueError
        If the rate is not strictly between 0 and 1 and within its limits.
    """
    from scipy.optimize import brentq  # slow to import
    from scipy.special import ndtri

    check_share(confidence, "confidence")
    if not (0.0 < rate < 1.0 and 0.0 <= low <= rate <= high <= 1.0 and low < high):
        raise ValueError(
            f"{name} needs 0 <= low <= rate <= high <= 1 with low below high and a rate strictly "
            f"between 0 and 1, got rate {rate!r} with limits {low!r} and {high!r}"
        )
    z = float(ndtri(0.5 + 0.5 * confidence))

    def excess(log_size: float) -> float:
        n = float(np.exp(log_size))
        half = z * np.sqrt(rate * (1.0 - rate) / n + z**2 / (4.0 * n**2)) / (1.0 + z**2 / n)
        return float(2.0 * half - (high - low))

    first, last = np.log(1e-3), np.log(_LARGEST)
    if excess(last) > 0:
        size = _LARGEST
    elif excess(first) < 0:
        size = 1e-3
    else:
        size = float(np.exp(brentq(excess, first, last)))
    return size * rate, size * (1.0 - rate)
