"""Estimates with the fit check of every bag among their diagnostics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Bags
from kdey.diagnostics.check import FitChecker
from kdey.inference import Estimates


def with_fit_checks(
    quantifier: Any,
    estimates: Estimates,
    posteriors: NDArray[np.floating],
    bags: Bags,
    X: Any = None,
) -> Estimates:
    """Return the estimates with ``diagnostics["fit"]``.

    Parameters
    ----------
    quantifier : fitted quantifier on posteriors
    estimates : Estimates
        Of these bags.
    posteriors : array of shape (pool_size, k)
    bags : Bags
    X : instances of the pool, optional
        For the fold models, where the quantifier holds them.
    """
    n_jobs = getattr(quantifier, "n_jobs", None)
    checker = FitChecker.fit(quantifier, n_jobs=n_jobs, held=X is not None)
    seed, found = estimates.options.random_state, []
    points = posteriors if checker.models is None else checker.models.posteriors(X, seed)
    for number, where in enumerate(bags):
        weights = None if bags.weights is None else bags.bag_weights(number)
        rng = np.random.default_rng(seed)
        made = checker.check_points(points[where], weights, rng=rng)
        found.append({"fit": made.summary()})
    return replace(estimates, details=found)
