"""Sample weights of the classes beside each other."""

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


@pytest.mark.parametrize("make", [kdey.KDEyML, kdey.KDEyCS, kdey.KDEyL2])
@pytest.mark.parametrize("factor", [1e-9, 1e-200])
def test_weights_of_a_class_count_within_it_alone(make: Any, factor: float) -> None:
    """A class of little weight lost its kernel sums beside a heavy one: a Gram matrix of zeros."""
    p, y = _data()
    weights = np.random.default_rng(1).random(len(y)) + 0.5
    plain = make(bandwidth=0.05, kernel="gaussian").fit_posteriors(p, y, weights)
    light = make(bandwidth=0.05, kernel="gaussian").fit_posteriors(
        p, y, np.where(y == 0, factor * weights, weights)
    )
    np.testing.assert_allclose(light.aggregate(p[:7]), plain.aggregate(p[:7]), atol=1e-6)
