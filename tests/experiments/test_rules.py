"""Bandwidths by the rules of density estimation, against slow versions and known densities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from experiments.sensitivity import _cross_validation, _squared_laplacian, rule_bandwidths

LINE = np.array([[1.0, -1.0]]) / np.sqrt(2)


def _on_the_simplex(positions: np.ndarray) -> np.ndarray:
    """Return posteriors of two classes at these positions along the simplex."""
    return 0.5 + positions[:, None] * LINE


def test_criterion_of_cross_validation_is_the_integral() -> None:
    x, h = np.random.default_rng(0).normal(0.0, 0.1, 12), 0.05

    def density(at: float, left_out: int = -1) -> float:
        return float(norm.pdf(at, np.delete(x, left_out) if left_out >= 0 else x, h).mean())

    square = quad(lambda at: density(at) ** 2, -1, 1, limit=500)[0]
    others = np.mean([density(at, number) for number, at in enumerate(x)])
    squares = (x[:, None] - x) ** 2
    assert _cross_validation(squares, h, 1) == pytest.approx(square - 2 * others, rel=1e-6)


def test_integral_of_the_squared_second_derivative() -> None:
    x, h = np.random.default_rng(1).normal(0.0, 0.1, 9), 0.07

    def second(at: float) -> float:
        z = (at - x) / h
        return float(((z * z - 1) * norm.pdf(z)).mean() / h**3)

    exact = quad(lambda at: second(at) ** 2, -1, 1, limit=500)[0]
    assert _squared_laplacian((x[:, None] - x) ** 2, h, 1) == pytest.approx(exact, rel=1e-6)


def test_rules_agree_on_normal_densities() -> None:
    rng = np.random.default_rng(2)
    labels = np.repeat([0, 1], 1000)
    posteriors = _on_the_simplex(rng.normal(np.where(labels, 0.2, -0.2), 0.1))
    best = 1.06 * 0.1 * 1000 ** (-0.2)
    silverman, scott, woodroofe = rule_bandwidths(posteriors, labels)
    assert silverman == pytest.approx(best, rel=0.05)
    assert woodroofe == pytest.approx(best, rel=0.15)
    assert scott == pytest.approx(best, abs=0.011)
