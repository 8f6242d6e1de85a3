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
    quantifier: Any, estimates: Estimates, posteriors: NDArray[np.floating], bags: Bags
) -> Estimates:
    """Return the estimates with ``diagnostics["fit"]``, by the quantifier's own classifier.

    Parameters
    ----------
    quantifier : fitted quantifier on posteriors
    estimates : Estimates
        Of these bags.
    posteriors : array of shape (pool_size, k)
    bags : Bags
    """
    checker = FitChecker.fit(quantifier, n_jobs=getattr(quantifier, "n_jobs", None))
    seed, found = estimates.options.random_state, []
    for number, where in enumerate(bags):
        weights = None if bags.weights is None else bags.bag_weights(number)
        made = checker.check(posteriors=posteriors[where], sample_weight=weights, random_state=seed)
        found.append({"fit": made.summary()})
    return replace(estimates, details=found)
