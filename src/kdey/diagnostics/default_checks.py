"""The checks that estimates, groups and reports make without being asked.

They never raise because a method cannot be checked: the result then says that the bag was not
checked, and why. What they need of training is computed once per fit and kept with the model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey._display import muted
from kdey.bags import Array, Bags
from kdey.diagnostics.fold_models import one_model_each
from kdey.diagnostics.score_check import DEFAULT_CHECK_LEVEL, FitCheck, FitChecker, sample_bags
from kdey.intervals import Estimates
from kdey.intervals.checks import NotChecked
from kdey.model import Fitted, Model, model_of
from kdey.validation import on_host, take_rows


def unchecked_reason(quantifier: Fitted) -> str | None:
    """Return why bags of this quantifier cannot be checked, in a few words; None if they can."""
    model = model_of(quantifier)
    if not model.takes_posteriors:
        return "the method works on features"
    if not isinstance(model, Model):
        return "the method combines several quantifiers"
    if model.training is None or model.training.posteriors is None:
        return "the method keeps no training posteriors"
    return None


def default_checker(
    quantifier: Fitted, held: bool, most_references: int | None = None, *, n_threads: int = 1
) -> FitChecker:
    """Return the checker of a quantifier that can be checked, made once per fit.

    Parameters
    ----------
    quantifier : fitted quantifier
    held : bool
        Whether fold models that the quantifier keeps score the bags.
    most_references : int, optional
        See :meth:`FitChecker.fit`.
    n_threads : int

    Returns
    -------
    FitChecker
    """
    model = model_of(quantifier)
    by_folds = held and model.fold_models is not None

    def compute() -> FitChecker:
        with muted(UserWarning):  # the estimates have notes about classes of one instance
            return FitChecker.fit(
                model, n_jobs=n_threads, held=by_folds, most_references=most_references
            )

    return model.derived(f"fit checker {(n_threads, by_folds, most_references)}", compute)


def full_check(
    quantifier: Fitted,
    posteriors: NDArray[np.floating],
    weights: Array | None = None,
    *,
    by_folds: bool = False,
    hashes: NDArray[np.uint64] | None = None,
) -> FitCheck:
    """Return the full check of a bag at the level of default checks, as reports show it.

    Parameters
    ----------
    quantifier : fitted quantifier that can be checked
    posteriors : array of shape (m, k)
    weights : array of shape (m,), optional
    by_folds : bool
        Whether fold models that the quantifier keeps gave the posteriors.
    hashes : uint64 array of shape (m,), optional
        As for :meth:`FitChecker.screen`.

    Returns
    -------
    FitCheck
    """
    checker = default_checker(quantifier, held=by_folds)
    rng, points = np.random.default_rng(0), posteriors
    if by_folds and hashes is not None:
        whole = np.array([0, len(hashes)], dtype=np.int64)
        points = one_model_each(posteriors, hashes, whole, checker.densities.n_classes)
    return checker.check_points(points, weights, rng, level=DEFAULT_CHECK_LEVEL)


def with_fit_checks(
    quantifier: Fitted,
    estimates: Estimates,
    posteriors: NDArray[np.floating],
    bags: Bags,
    X: Any = None,
    *,
    n_threads: int = 1,
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
    details = fit_details(quantifier, posteriors, bags, X, seed, n_threads=n_threads)
    return replace(estimates, details=details)


def fit_details(
    quantifier: Fitted,
    posteriors: NDArray[np.floating],
    bags: Bags,
    X: Any = None,
    seed: int = 0,
    *,
    n_threads: int = 1,
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
    reason = unchecked_reason(quantifier)
    if reason is not None:
        return [{"fit": NotChecked(reason).summary()} for _ in range(len(bags))]
    checker = default_checker(quantifier, held=X is not None, n_threads=n_threads)
    sampled, points = sample_bags(bags, checker.most_instances, seed), on_host(posteriors)
    if checker.models is not None:  # they score the instances that are checked, and no others
        used, indices = np.unique(sampled.indices, return_inverse=True)
        points = checker.models.posteriors(take_rows(X, used), seed)
        sampled = Bags(indices.astype(np.int64), sampled.offsets, len(used), sampled.weights)
    verdicts = checker.screen(points, sampled, sizes=bags.sizes, seed=seed)
    return [{"fit": verdict.summary()} for verdict in verdicts]
