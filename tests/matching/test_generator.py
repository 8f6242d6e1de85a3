"""Divergence generators: closed forms, exact limits, normal form."""

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from kdey.matching.divergence import GENERATORS, resolve_generator

FORMULAS = {
    "hellinger": lambda p, q: p + q - 2 * np.sqrt(p * q),
    "topsoe": lambda p, q: p * np.log(2 * p / (p + q)) + q * np.log(2 * q / (p + q)),
    "jensen-shannon": lambda p, q: (
        0.5 * (p * np.log(2 * p / (p + q)) + q * np.log(2 * q / (p + q)))
    ),
    "kl": lambda p, q: q * np.log(q / p) - q + p,
    "reverse-kl": lambda p, q: p * np.log(p / q) - p + q,
    "chi2": lambda p, q: (p - q) ** 2 / (p + q),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_value_follows_its_formula(name):
    rng = np.random.default_rng(0)
    p, q = rng.random(50), rng.random(50)
    np.testing.assert_allclose(
        GENERATORS[name].value(p, q), FORMULAS[name](p, q), rtol=1e-8, atol=1e-15
    )


@pytest.mark.parametrize("name", GENERATORS)
def test_zero_value_and_slope_where_p_is_q(name):
    q = np.array([1e-200, 1e-3, 1.0, 1e10])
    np.testing.assert_allclose(GENERATORS[name].value(q, q), 0, atol=1e-15)
    np.testing.assert_allclose(GENERATORS[name].first(q, q), 0, atol=1e-15)


@pytest.mark.parametrize("name", GENERATORS)
def test_homogeneous_of_degree_one(name):
    # phi(cp, cq) = c phi(p, q): what makes a sum independent of the scale at a point.
    p, q = np.array([0.3, 2.0]), np.array([1.1, 0.2])
    g = GENERATORS[name]
    np.testing.assert_allclose(g.value(1e30 * p, 1e30 * q), 1e30 * g.value(p, q))
    np.testing.assert_allclose(g.first(1e30 * p, 1e30 * q), g.first(p, q))


@pytest.mark.parametrize(
    ("name", "at_q_zero", "slope_q_zero", "at_p_zero", "slope_p_zero"),
    [
        ("hellinger", 2.0, 1.0, 3.0, -np.inf),
        ("topsoe", 2 * np.log(2), np.log(2), 3 * np.log(2), -np.inf),
        ("jensen-shannon", np.log(2), np.log(2) / 2, 1.5 * np.log(2), -np.inf),
        ("kl", 2.0, 1.0, np.inf, -np.inf),
        ("reverse-kl", np.inf, np.inf, 3.0, -np.inf),
        ("chi2", 2.0, 1.0, 3.0, -3.0),
    ],
)
def test_limits_are_exact(name, at_q_zero, slope_q_zero, at_p_zero, slope_p_zero):
    g = GENERATORS[name]
    p, q = np.array([2.0, 0.0]), np.array([0.0, 3.0])
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(g.value(p, q), [at_q_zero, at_p_zero])
        np.testing.assert_allclose(g.first(p, q), [slope_q_zero, slope_p_zero])
        assert g.value(np.zeros(1), np.zeros(1)) == 0


def test_jensen_shannon_agrees_with_scipy():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(8))
    ours = GENERATORS["jensen-shannon"].value(p, q).sum()
    np.testing.assert_allclose(ours, jensenshannon(p, q) ** 2)


def test_unknown_name_is_refused():
    with pytest.raises(ValueError, match="divergence must be one of"):
        resolve_generator("euclid")
