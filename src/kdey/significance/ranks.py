"""Ranks of methods over data sets: averages, Friedman's test and Nemenyi's critical difference.

After Demsar, "Statistical comparisons of classifiers over multiple data sets" (JMLR, 2006).
Errors come as one row per data set and one column per method, or as a mapping of method to its
errors by data set; rank 1 is the lowest error and equal errors share the mean of their ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from kdey.significance.pairs import Errors, as_numbers, method_rows
from kdey.simplex import Array


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
    >>> from kdey.significance import nemenyi
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
