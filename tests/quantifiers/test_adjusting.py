"""ACC and PACC from rates alone, against hand computation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kdey import ACC, PACC


@pytest.mark.parametrize(
    ("sensitivity", "specificity", "positive", "expected"),
    [
        (0.9, 0.8, 0.41, 0.3),  # (0.41 + 0.8 - 1) / (0.9 + 0.8 - 1)
        (1.0, 1.0, 0.37, 0.37),
        (0.9, 0.8, 0.1, 0.0),  # fewer positives than a healthy population gives: clipped
        (0.9, 0.8, 0.95, 1.0),
        (0.2, 0.1, 0.55, 0.5),  # worse than chance, still invertible
    ],
)
def test_rogan_and_gladen(
    sensitivity: float, specificity: float, positive: float, expected: float
) -> None:
    q = ACC.from_rates(sensitivity, specificity)
    np.testing.assert_allclose(q.adjust([1 - positive, positive]), [1 - expected, expected])


def test_from_rates_reads_decisions_of_a_bag() -> None:
    q = ACC.from_rates(0.9, 0.8, classes=["healthy", "ill"])
    assert list(q.classes_) == ["healthy", "ill"]
    decisions = np.repeat([[1.0, 0.0], [0.3, 0.7]], [59, 41], axis=0)
    np.testing.assert_allclose(q.aggregate(decisions), [0.7, 0.3])


def test_misclassification_matrix_is_inverted() -> None:
    matrix = np.array([[0.8, 0.1, 0.2], [0.1, 0.7, 0.1], [0.1, 0.2, 0.7]])
    truth = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])
    q = PACC.from_misclassification(matrix)
    np.testing.assert_allclose(q.adjust(truth @ matrix.T), truth, atol=1e-8)
    np.testing.assert_allclose(q.adjust(truth[0] @ matrix.T), truth[0], atol=1e-8)


def test_the_matrix_that_fit_finds_gives_what_fit_gives() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(200) % 3
    p = rng.dirichlet(np.ones(3), 200) + np.eye(3)[y]
    p /= p.sum(axis=1, keepdims=True)
    for make in (ACC, PACC):
        learnt = make().fit_posteriors(p, y)
        given = make.from_misclassification(learnt.row_map_.templates)
        np.testing.assert_allclose(given.aggregate(p[:50]), learnt.aggregate(p[:50]), atol=1e-12)


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
@pytest.mark.parametrize("name", ["sensitivity", "specificity"])
def test_rates_are_checked(name: str, rate: float) -> None:
    rates = {"sensitivity": 0.9, "specificity": 0.9} | {name: rate}
    with pytest.raises(ValueError, match=f"{name} must be in \\[0, 1\\]"):
        ACC.from_rates(**rates)


@pytest.mark.parametrize(
    ("matrix", "classes", "message"),
    [
        ([[0.9, 0.2], [0.2, 0.8]], None, "matrix columns must have rows that sum to one"),
        ([[1.0, 0.5, 0.2], [0.0, 0.5, 0.8]], None, "matrix must be square"),
        ([[np.nan, 0.2], [0.2, 0.8]], None, "matrix columns contains NaN"),
        ([[1.2, 0.2], [-0.2, 0.8]], None, "matrix columns contains negative values"),
        ([[1.0]], None, "at least 2 classes"),
        ([[0.9, 0.2], [0.1, 0.8]], ["a"], r"classes must have shape \(2,\)"),
    ],
)
def test_matrices_are_checked(matrix: Any, classes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ACC.from_misclassification(matrix, classes)


@pytest.mark.parametrize("observed", [[0.5, 0.6], [0.2, 0.3, 0.5], [np.nan, 1.0], [-0.1, 1.1]])
def test_observed_shares_are_checked(observed: Any) -> None:
    with pytest.raises(ValueError, match="observed"):
        ACC.from_rates(0.9, 0.9).adjust(observed)


def test_a_classifier_that_knows_nothing_is_not_silently_trusted() -> None:
    """Equal columns: every prevalence explains the bag, and the gap says that ours does too."""
    q = ACC.from_rates(0.5, 0.5)
    found = q.solve_posteriors(np.eye(2))
    assert found.gap[0] <= 1e-8
    np.testing.assert_allclose(found.prevalence.sum(), 1)
