"""The fit check that estimates, groups and reports make without being asked.

It never raises because a method cannot be checked: the result then says that the bag was not
checked, and why. The checker is made once per fit and kept with the quantifier.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey._support.frames import take_rows
from kdey._support.threads import thread_count
from kdey._support.warnings import muted
from kdey.bags import Array, Bags
from kdey.diagnostics.fit_check import FitCheck, FitVerdict, NotChecked
from kdey.diagnostics.fit_checker import DEFAULT_CHECK_LEVEL, FitChecker, sample_bags
from kdey.fitted import FittedQuantifier
from kdey.intervals import Estimates
from kdey.tensors import on_host


def unchecked_reason(quantifier: FittedQuantifier) -> str | None:
    """Return why bags of this quantifier cannot be checked, in a few words; None if they can."""
    if not quantifier.takes_posteriors:
        return "the method works on features"
    model = quantifier.interval_model()
    if model is None:
        return "the method combines several quantifiers"
    if model.training is None or model.training.posteriors is None:
        return "the method keeps no training posteriors"
    return None


def default_checker(
    quantifier: FittedQuantifier, held: bool, most_references: int | None = None
) -> FitChecker:
    """Return the checker of a quantifier that can be checked, made once per fit.

    Parameters
    ----------
    quantifier : fitted quantifier
    held : bool
        Whether fold models that the quantifier keeps score the bags.
    most_references : int, optional
        See :meth:`FitChecker.fit`.

    Returns
    -------
    FitChecker
    """
    by_folds = held and quantifier.fold_classifiers is not None

    def compute() -> FitChecker:
        with muted(UserWarning):  # the estimates have notes about classes of one instance
            return FitChecker.fit(
                quantifier,
                n_jobs=quantifier.n_jobs,
                held=by_folds,
                most_references=most_references,
            )

    parts = (thread_count(quantifier.n_jobs), by_folds, most_references)
    return quantifier.once_per_fit(f"fit checker {parts}", compute)


def full_check(
    quantifier: FittedQuantifier,
    posteriors: NDArray[np.floating],
    weights: Array | None = None,
    *,
    by_folds: bool = False,
    seed: int = 0,
) -> FitCheck:
    """Return the full check of a bag at the level of default checks, as reports show it.

    Parameters
    ----------
    quantifier : fitted quantifier that can be checked
    posteriors : array of shape (m, k)
    weights : array of shape (m,), optional
    by_folds : bool
        Whether fold models that the quantifier keeps gave the posteriors.
    seed : int

    Returns
    -------
    FitCheck
    """
    checker = default_checker(quantifier, held=by_folds)
    rng = np.random.default_rng(seed)
    return checker.check_points(posteriors, weights, rng, level=DEFAULT_CHECK_LEVEL)


def with_fit_checks(
    quantifier: FittedQuantifier,
    estimates: Estimates,
    posteriors: NDArray[np.floating],
    bags: Bags,
    X: Any = None,
) -> Estimates:
    """Return the estimates with the verdict on the fit of every bag as ``diagnostics["fit"]``.

    Parameters
    ----------
    quantifier : fitted quantifier
    estimates : Estimates
        Estimates of these bags.
    posteriors : array of shape (pool_size, k)
        Not used if the quantifier cannot be checked.
    bags : Bags
    X : instances of the pool, optional
        Scored by the fold models if the quantifier keeps them.

    Returns
    -------
    Estimates
    """
    seed = estimates.options.random_state
    return replace(estimates, details=fit_details(quantifier, posteriors, bags, X, seed))


def fit_details(
    quantifier: FittedQuantifier,
    posteriors: NDArray[np.floating],
    bags: Bags,
    X: Any = None,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Return what the fit check adds to the diagnostics of every bag.

    Parameters
    ----------
    quantifier, posteriors, bags, X
        As for :func:`with_fit_checks`.
    seed : int

    Returns
    -------
    list of n_bags dicts
        With the verdict on the fit as ``fit``.
    """
    verdicts: list[FitVerdict] | list[NotChecked]
    reason = unchecked_reason(quantifier)
    if reason is None:
        verdicts = _verdicts(quantifier, posteriors, bags, X, seed)
    else:
        verdicts = [NotChecked(reason)] * len(bags)
    return [{"fit": verdict.summary()} for verdict in verdicts]


def _verdicts(
    quantifier: FittedQuantifier, posteriors: NDArray[np.floating], bags: Bags, X: Any, seed: int
) -> list[FitVerdict]:
    checker = default_checker(quantifier, held=X is not None)
    sampled = sample_bags(bags, checker.most_instances, seed)
    if checker.models is None:
        return checker.screen(on_host(posteriors), sampled, sizes=bags.sizes, seed=seed)
    # The fold models score the instances that are checked, and no others.
    used, indices = np.unique(sampled.indices, return_inverse=True)
    points = checker.models.posteriors(take_rows(X, used), seed)
    own = Bags(indices.astype(np.int64), sampled.offsets, len(used), sampled.weights)
    return checker.screen(points, own, sizes=bags.sizes, seed=seed)
