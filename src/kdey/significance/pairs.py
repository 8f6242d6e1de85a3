"""Wilcoxon signed-rank tests between methods that met the same bags, and Holm's correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from kdey.simplex import Array

#: Errors by method name, or an array with one method per row (or per column, as the function says).
Errors: TypeAlias = "Mapping[str, ArrayLike] | ArrayLike"
#: The paper's marks: "†" for 0.005 < p < 0.05, "‡" for p >= 0.05.
LEVELS = (0.05, 0.005)


@dataclass(frozen=True)
class PairTest:
    """Two-sided Wilcoxon signed-rank test of paired errors.

    Attributes
    ----------
    p_value : float
    difference : float
        Mean of ``first - second``; negative where the first errs less.
    wins, losses, ties : int
        Bags on which the first errs less, more, the same.
    """

    p_value: float
    difference: float
    wins: int
    losses: int
    ties: int


@dataclass(frozen=True, eq=False)
class BestComparison:
    """Every method against the one with the lowest mean error.

    Attributes
    ----------
    names : list of str
    means : array of shape (n_methods,)
        Mean error of each method.
    best : int
        Position of the method with the lowest mean (the first of equals).
    p_values : array of shape (n_methods,)
        Of each method against the best; 1 for the best itself.
    marks : list of str
        "‡" where a method does not differ from the best at the wider level, "†" where it does at
        the wider but not at the narrower, "" where it is worse at both, and for the best.
    """

    names: list[str]
    means: Array
    best: int
    p_values: Array
    marks: list[str]


def wilcoxon(first: ArrayLike, second: ArrayLike) -> PairTest:
    """Test whether two methods err alike on the same bags.

    Bags on which both err exactly the same carry no information and are left out (Wilcoxon's own
    rule); where all are such, p = 1. The distribution is exact for few bags and normal beyond, as
    :func:`scipy.stats.wilcoxon` decides.

    Parameters
    ----------
    first, second : array-like of shape (n_bags,)
        Errors on the same bags in the same order.
    """
    a, b = check_errors(first, 1, "first"), check_errors(second, 1, "second")
    if len(a) != len(b):
        raise ValueError(f"first and second must be paired, got {len(a)} and {len(b)} errors")
    difference = a - b
    ties = int(np.count_nonzero(difference == 0))
    wins = int(np.count_nonzero(difference < 0))
    kept = difference[difference != 0]
    p_value = float(stats.wilcoxon(kept).pvalue) if len(kept) else 1.0
    return PairTest(p_value, float(difference.mean()), wins, len(a) - wins - ties, ties)


def pooled_wilcoxon(first: Mapping[str, ArrayLike], second: Mapping[str, ArrayLike]) -> PairTest:
    """Test two methods over the bags of all data sets together.

    This is how the paper compares its pairs of methods (EMQ and KDEy-ML, say). Differences are
    ranked across data sets, so sets with larger errors or more bags weigh more;
    :func:`kdey.significance.friedman` counts every data set the same.

    Parameters
    ----------
    first, second : mapping of data set to errors of shape (n_bags,)
    """
    if set(first) != set(second):
        unpaired = sorted(map(str, set(first) ^ set(second)))
        raise ValueError(f"first and second must name the same data sets; not in both: {unpaired}")
    if not first:
        raise ValueError("first and second are empty: at least one data set is needed")
    for name in first:
        if np.shape(first[name]) != np.shape(second[name]):
            raise ValueError(
                f"first and second must be paired, got {np.shape(first[name])} and "
                f"{np.shape(second[name])} errors on {name!r}"
            )
    order = list(first)
    return wilcoxon(
        np.concatenate([check_errors(first[name], 1, f"first[{name!r}]") for name in order]),
        np.concatenate([check_errors(second[name], 1, f"second[{name!r}]") for name in order]),
    )


def compare_to_best(
    errors: Errors,
    names: Sequence[str] | None = None,
    *,
    levels: tuple[float, float] = LEVELS,
    correction: Literal["holm"] | None = None,
) -> BestComparison:
    """Compare every method on one data set with the best there, as the paper's tables do.

    Parameters
    ----------
    errors : mapping of name to errors of shape (n_bags,), or array-like (n_methods, n_bags)
    names : sequence of str, optional
        Names of the rows of an array.
    levels : (float, float)
        The wider and the narrower level.
    correction : "holm" or None
        Whether the p-values are adjusted for there being several; the paper's are not.
    """
    rows, methods = method_rows(errors, names)
    _check_levels(levels)
    if correction not in (None, "holm"):
        raise ValueError(f'correction must be "holm" or None, got {correction!r}')
    means = rows.mean(axis=1)
    best = int(np.argmin(means))
    others: NDArray[np.intp] = np.delete(np.arange(len(rows)), best)
    raw = np.array([wilcoxon(rows[i], rows[best]).p_value for i in others])
    p_values = np.ones(len(rows))
    p_values[others] = holm(raw) if correction else raw
    marks = [_mark(p, levels) for p in p_values]
    marks[best] = ""
    return BestComparison(methods, means, best, p_values, marks)


def _mark(p_value: float, levels: tuple[float, float]) -> str:
    wide, narrow = levels
    if p_value >= wide:
        return "‡"
    return "†" if p_value > narrow else ""


def _check_levels(levels: tuple[float, float]) -> None:
    if len(levels) != 2 or not 0 < levels[1] < levels[0] < 1:
        raise ValueError(f"levels must be a wider and a narrower level, got {levels!r}")


def method_rows(errors: Errors, names: Sequence[str] | None = None) -> tuple[Array, list[str]]:
    """Return errors as (n_methods, n) with the methods' names.

    Parameters
    ----------
    errors : mapping of name to n errors, or array-like of shape (n_methods, n)
    names : sequence of str, optional
        Names of the rows of an array; by default "0", "1", ...
    """
    if not isinstance(errors, Mapping):
        rows = check_errors(errors, 2, "errors")
        return rows, _check_names(names, len(rows))
    if names is not None:
        raise ValueError("names must not be given with a mapping, which has names of its own")
    if not errors:
        raise ValueError("errors is empty: at least one method is needed")
    parts = {name: check_errors(part, 1, f"errors[{name!r}]") for name, part in errors.items()}
    lengths = {name: len(part) for name, part in parts.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"errors must have one entry per bag for every method, got {lengths}")
    return np.stack(list(parts.values())), [str(name) for name in parts]


def check_errors(values: ArrayLike, ndim: int, name: str) -> Array:
    """Return a non-empty float64 array of ``ndim`` axes without NaN or infinity, or raise."""
    array = as_numbers(values, name)
    if array.ndim != ndim or array.size == 0:
        raise ValueError(f"{name} must be a non-empty array of {ndim} axes, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity")
    return array


def as_numbers(values: ArrayLike, name: str) -> Array:
    """Return ``values`` as a float64 array, or raise naming the parameter."""
    try:
        array = np.asarray(values)
        if not np.iscomplexobj(array):
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from error
    raise ValueError(f"{name} must be real numbers, got dtype {array.dtype}")


def _check_names(names: Sequence[str] | None, n_methods: int) -> list[str]:
    checked = [str(number) for number in range(n_methods)] if names is None else list(names)
    if len(checked) != n_methods or len(set(checked)) != n_methods:
        raise ValueError(f"names must be {n_methods} distinct names, got {checked}")
    return checked


def holm(p_values: ArrayLike) -> Array:
    r"""Return p-values adjusted by Holm's step-down method, in the given order.

    With :math:`p_{(1)}\le\dots\le p_{(m)}` the adjusted values are
    :math:`\max_{j\le i}\min(1,(m-j+1)\,p_{(j)})`. Rejecting where they are at most a level keeps
    the chance of any false rejection among the m tests below it, whatever their dependence
    (Holm, "A simple sequentially rejective multiple test procedure", 1979).

    Parameters
    ----------
    p_values : array-like of shape (m,)
        An empty one gives an empty result.

    Examples
    --------
    >>> from kdey.significance import holm
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = as_numbers(p_values, "p_values")
    if p.ndim != 1:
        raise ValueError(f"p_values must be a vector, got shape {p.shape}")
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p_values must lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    steps = np.minimum(p[order] * np.arange(len(p), 0, -1), 1.0)
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted
