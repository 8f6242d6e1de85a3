"""Parameters of any type are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kdey


def _data(k: int = 2, n: int = 40) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % k
    p = rng.dirichlet(np.ones(k), n) + np.eye(k)[y]
    return p / 2, y


@pytest.mark.parametrize("bad", [np.zeros(0), ["x"], {}, 1j, None, float("nan")])
def test_parameters_of_any_type_are_refused_by_name(bad: Any) -> None:
    p, y = _data()
    for quantifier, name in (
        (kdey.EMQ(solver=bad), "solver"),
        (kdey.MM(criterion=bad), "criterion"),
        (kdey.DM(divergence=bad, n_bins=3), "divergence"),
        (kdey.DyS(dissimilarity=bad), "dissimilarity"),
    ):
        with pytest.raises(ValueError, match=name):
            quantifier.fit_posteriors(p, y)
    if bad is not None:
        with pytest.raises(ValueError, match="n_jobs"):
            kdey.CC(n_jobs=bad).fit_posteriors(p, y)
    estimate = kdey.PACC().fit_posteriors(p, y).estimate_posteriors(p[:9])
    with pytest.raises(TypeError, match="second must be an Estimate"):
        kdey.difference(estimate, bad)
    with pytest.raises(ValueError, match="concentration"):
        kdey.evaluation.DirichletProtocol(concentration=bad)
