"""Whole numbers where the native core takes a double, and the other way round."""

import numpy as np

from kdey.bags import Bags
from kdey.matching.divergence import Divergence, solve_divergence
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture


def test_a_whole_number_as_tolerance_is_a_number(path):
    """It went to the native core as an integer, took the place of a pointer, and crashed."""
    problem = MixtureLikelihood(np.random.default_rng(0).random((20, 3)), Bags.whole(20))
    for options in ({"tol": 1}, {"tol": np.int64(1)}, {"tol": 1e-8, "max_iter": 30.0}):
        assert solve_mixture(problem, **options).converged.all()
    profile = Divergence(np.eye(3), [[0.2, 0.3, 0.5]], "hellinger")
    assert solve_divergence(profile, tol=1).converged.all()
