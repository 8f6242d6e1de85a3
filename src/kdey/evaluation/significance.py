"""Whether one method is better than another, or whether it is chance.

Methods are tested bag by bag on one data set or on all (Wilcoxon), with a correction for many tests
(Holm), or compared many at once over many data sets (Friedman, Nemenyi).
:class:`kdey.plots.CriticalDifferenceDisplay` draws that comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from kdey.intervals.differences import holm
from kdey.simplex import Array
from kdey.validation import as_numbers

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
    :func:`kdey.evaluation.significance.friedman` counts every data set the same.

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
    correction: Literal["holm"] | None = None,
) -> BestComparison:
    """Compare every method on one data set with the best there, as the paper's tables do.

    Parameters
    ----------
    errors : mapping of name to errors of shape (n_bags,), or array-like (n_methods, n_bags)
    names : sequence of str, optional
        Names of the rows of an array.
    correction : "holm" or None
        Whether the p-values are adjusted for there being several; the paper's are not.
    """
    rows, methods = method_rows(errors, names)
    if correction not in (None, "holm"):
        raise ValueError(f'correction must be "holm" or None, got {correction!r}')
    means = rows.mean(axis=1)
    best = int(np.argmin(means))
    others: NDArray[np.intp] = np.delete(np.arange(len(rows)), best)
    raw = np.array([wilcoxon(rows[i], rows[best]).p_value for i in others])
    p_values = np.ones(len(rows))
    p_values[others] = holm(raw) if correction else raw
    marks = [_mark(p) for p in p_values]
    marks[best] = ""
    return BestComparison(methods, means, best, p_values, marks)


def _mark(p_value: float) -> str:
    wide, narrow = LEVELS
    return "‡" if p_value >= wide else "†" if p_value > narrow else ""


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


def _check_names(names: Sequence[str] | None, n_methods: int) -> list[str]:
    checked = [str(number) for number in range(n_methods)] if names is None else list(names)
    if len(checked) != n_methods or len(set(checked)) != n_methods:
        raise ValueError(f"names must be {n_methods} distinct names, got {checked}")
    return checked


@dataclass(frozen=True, eq=False)
class FriedmanTest:
    """Whether any of the methods differ.

    Attributes
    ----------
    names : list of str
    ranks : array of shape (n_methods,)
        Average ranks.
    statistic, p_value : float
        Friedman's chi-square with n_methods - 1 degrees of freedom, corrected for ties.
    f_statistic, f_p_value : float
        Iman and Davenport's less conservative F on the same ranks; infinite where all data sets
        rank the methods the same, and 0 with p = 1 for a single data set.
    """

    names: list[str]
    ranks: Array
    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float


@dataclass(frozen=True, eq=False)
class CriticalDifference:
    """Which methods differ: what a critical-difference diagram shows.

    Attributes
    ----------
    names : list of str
    ranks : array of shape (n_methods,)
        Average ranks.
    critical_difference : float
        Two methods differ at ``level`` where their average ranks are at least this far apart.
    level : float
    p_values : array of shape (n_methods, n_methods)
        Of every pair, adjusted for there being many; 1 on the diagonal.
    groups : list of lists of str
        The largest sets of methods that cannot be told apart, best first: the bars of the
        diagram. Methods that differ from all others are in none.
    """

    names: list[str]
    ranks: Array
    critical_difference: float
    level: float
    p_values: Array
    groups: list[list[str]]


def average_ranks(errors: Errors, names: Sequence[str] | None = None) -> dict[str, float]:
    """Return the average rank of each method over the data sets, by name.

    Parameters
    ----------
    errors : array-like of shape (n_datasets, n_methods), or mapping of method to n_datasets
    names : sequence of str, optional
        Names of the methods of an array.
    """
    table, methods = _by_dataset(errors, names)
    means = stats.rankdata(table, axis=1).mean(axis=0)
    return dict(zip(methods, means.tolist(), strict=True))


def friedman(errors: Errors, names: Sequence[str] | None = None) -> FriedmanTest:
    r"""Test whether all methods have the same ranks.

    With N data sets, k methods and average ranks :math:`R_j`,

    .. math:: \chi^2=\frac{12N}{k(k+1)}\sum_j\Bigl(R_j-\frac{k+1}2\Bigr)^2\Big/
              \Bigl(1-\frac{\sum(t^3-t)}{Nk(k^2-1)}\Bigr),\qquad
              F=\frac{(N-1)\chi^2}{N(k-1)-\chi^2},

    t running over the sizes of tied sets. Where every data set ties all methods, p = 1.
    Parameters as in :func:`average_ranks`; at least two methods.
    """
    table, methods = _by_dataset(errors, names)
    n, k = _check_size(table)
    ranks = stats.rankdata(table, axis=1)
    means = ranks.mean(axis=0)
    # The variance of the ranks within data sets, which is what the tie correction amounts to.
    spread = float(((ranks - (k + 1) / 2) ** 2).sum()) / (n * (k - 1))
    chi = n * float(((means - (k + 1) / 2) ** 2).sum()) / spread if spread > 0 else 0.0
    remainder = n * (k - 1) - chi
    f = (n - 1) * chi / remainder if remainder > 1e-9 else (np.inf if n > 1 else 0.0)
    p_value = float(stats.chi2.sf(chi, k - 1))
    f_p_value = float(stats.f.sf(f, k - 1, (k - 1) * (n - 1))) if n > 1 else 1.0
    return FriedmanTest(methods, means, chi, p_value, float(f), f_p_value)


def nemenyi(
    errors: Errors, names: Sequence[str] | None = None, *, level: float = 0.05
) -> CriticalDifference:
    r"""Compare all pairs of methods by their average ranks.

    The critical difference is :math:`q\sqrt{k(k+1)/(6N)}`, with q the upper ``level`` point of
    the studentised range of k values over :math:`\sqrt2`. Other parameters as in
    :func:`average_ranks`; at least two methods.

    Examples
    --------
    >>> import numpy as np
    >>> from kdey.evaluation.significance import nemenyi
    >>> errors = np.array([[0.1, 0.2, 0.3]] * 8)  # 8 data sets, 3 methods
    >>> found = nemenyi(errors)
    >>> found.ranks
    array([1., 2., 3.])
    >>> round(float(found.critical_difference), 2)
    1.17
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    table, methods = _by_dataset(errors, names)
    n, k = _check_size(table)
    means = stats.rankdata(table, axis=1).mean(axis=0)
    scale = np.sqrt(k * (k + 1) / (6 * n))
    critical = scale * float(stats.studentized_range.isf(level, k, np.inf)) / np.sqrt(2)
    apart = np.abs(means[:, None] - means[None, :])
    p_values = _range_tail(apart / scale * np.sqrt(2), k)
    groups = [[methods[i] for i in group] for group in _groups(means, critical)]
    return CriticalDifference(methods, means, float(critical), level, p_values, groups)


def _groups(ranks: Array, critical: float) -> list[NDArray[np.intp]]:
    """Return the maximal runs, along the ranking, that are narrower than ``critical``."""
    order = np.argsort(ranks, kind="stable")
    sorted_ranks = ranks[order]
    groups: list[NDArray[np.intp]] = []
    reached = 0
    for start in range(len(order)):
        stop = int(np.searchsorted(sorted_ranks, sorted_ranks[start] + critical, side="left"))
        if stop > reached and stop - start > 1:
            groups.append(order[start:stop])
        reached = max(reached, stop)
    return groups


def _range_tail(statistic: Array, n_methods: int) -> Array:
    """Return upper tails of the studentised range, one (slow) call per distinct value."""
    distinct, inverse = np.unique(statistic, return_inverse=True)
    tails = [
        float(stats.studentized_range.sf(q, n_methods, np.inf)) if q else 1.0 for q in distinct
    ]
    spread = np.array(tails, dtype=np.float64)[inverse].reshape(statistic.shape)
    return np.asarray(np.clip(spread, 0.0, 1.0), dtype=np.float64)


def _by_dataset(errors: Errors, names: Sequence[str] | None) -> tuple[Array, list[str]]:
    if isinstance(errors, Mapping):
        rows, methods = method_rows(errors, names)
    else:
        rows, methods = method_rows(np.transpose(as_numbers(errors, "errors")), names)
    return rows.T, methods


def _check_size(table: Array) -> tuple[int, int]:
    if table.shape[1] < 2:
        raise ValueError("errors must hold at least two methods")
    return table.shape[0], table.shape[1]
