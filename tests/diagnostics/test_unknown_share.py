"""The lower bound on the share of an unknown class holds, and says something."""

from __future__ import annotations

import numpy as np
import pytest

from kdey.diagnostics import unknown_share_bound

TRAINING = np.array([[0.75, 0.2, 0.04, 0.01], [0.1, 0.3, 0.55, 0.05]])


def bounds(share: float, where: np.ndarray, n: int, m: int, repetitions: int) -> np.ndarray:
    made = []
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, n, m])
        training = np.array([rng.multinomial(n, row) for row in TRAINING])
        known = rng.dirichlet(np.ones(2)) @ TRAINING
        bag = rng.multinomial(m, (1 - share) * known + share * where)
        made.append(unknown_share_bound([(training, bag)]))
    return np.array(made)


LAST = np.array([0.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize("n", [25, 400])
def test_nothing_unknown_is_not_called_unknown(n: int) -> None:
    assert (bounds(0.0, LAST, n, 500, 60) == 0).mean() >= 0.95


def test_the_bound_holds_and_says_something() -> None:
    made = bounds(0.2, LAST, 400, 500, 60)
    assert (made <= 0.2).mean() >= 0.98
    assert 0.08 < np.median(made) < 0.2


def test_an_unknown_class_that_looks_like_a_known_one_is_not_seen() -> None:
    assert bounds(0.5, TRAINING[0], 400, 500, 20).max() == 0


def test_several_histograms_are_one_programme() -> None:
    """What a second histogram shows counts; a useless one costs a little and adds nothing."""
    useful = (np.array([[180, 20, 0], [30, 170, 0]]), np.array([70, 70, 60]))
    useless = (np.array([[100, 100], [100, 100]]), np.array([100, 100]))
    alone, both = unknown_share_bound([useful]), unknown_share_bound([useful, useless])
    assert unknown_share_bound([useless]) == 0
    assert 0 < both <= alone
    assert unknown_share_bound([useless, useful]) == pytest.approx(both)


def test_bad_histograms_are_refused() -> None:
    for bad in ([], [([[1, 2]], [1, 2, 3])], [([[0, 0]], [1, 1])], [([[1, -1]], [1, 1])]):
        with pytest.raises(ValueError, match="histogram"):
            unknown_share_bound(bad)
    with pytest.raises(ValueError, match="histograms must be"):
        unknown_share_bound([([[1, 1]], [1, 1]), ([[1, 1], [1, 1]], [1, 1])])
