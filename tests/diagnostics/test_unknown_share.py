"""The lower bound on the share of an unknown class holds, and says something."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kdey
from kdey.diagnostics import score_histogram, unknown_share_bound

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


@pytest.fixture(scope="module")
def model() -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=800)
    X = np.column_stack([rng.normal(size=800) + 2 * y, rng.normal(size=800)])
    return kdey.EMQ(calibration="bcts", random_state=0).fit(X, y), X


def with_unknown(X: np.ndarray, share: float, seed: int = 1) -> np.ndarray:
    """Return instances of which some lie where no score can show that they are unknown."""
    rng, odd = np.random.default_rng(seed), X.copy()
    odd[rng.random(len(X)) < share, 1] += 8.0
    return odd[rng.permutation(len(X))[:400]]


def test_the_checks_of_an_estimate_say_what_is_unknown(model: tuple[Any, np.ndarray]) -> None:
    q, X = model
    checks = q.estimate(with_unknown(X, 0.3)).checks
    assert 0.15 < checks.unknown_share <= 0.3 + 0.05
    assert "come from no class as training knew it" in checks.verdict
    # What fits is not asked; scores alone cannot see it here.
    assert q.estimate(X[::2]).checks.unknown_share is None
    assert kdey.check_fit(q, with_unknown(X, 0.3), random_state=0).unknown_share < 0.05


def test_groups_and_bags_have_the_bound_of_their_rows(model: tuple[Any, np.ndarray]) -> None:
    pd = pytest.importorskip("pandas")
    _, X = model
    names = ["a", "b"]
    labels = (X[:, 0] > 1).astype(int)
    q = kdey.EMQ(calibration="bcts", random_state=0).fit(pd.DataFrame(X, columns=names), labels)
    table = pd.DataFrame(np.vstack([with_unknown(X, 0.4), with_unknown(X, 0.0)]), columns=names)
    table["shop"] = ["odd"] * 400 + ["plain"] * 400
    odd, plain = (g.checks.unknown_share for g in q.predict_groups(table, "shop"))
    alone = q.estimate(table[names][:400]).checks.unknown_share
    assert alone > 0.2
    assert plain is None
    assert odd == pytest.approx(alone, abs=0.02)


def test_weights_of_training_count_as_many_instances_as_they_are_worth() -> None:
    rng = np.random.default_rng(0)
    P, labels = rng.dirichlet(np.ones(2), size=60), np.arange(60) % 2
    plain = score_histogram(P, labels, P)[0]
    equal = score_histogram(P, labels, P, training_weights=np.full(60, 7.0))[0]
    np.testing.assert_allclose(equal, plain)
    uneven = score_histogram(P, labels, P, training_weights=rng.random(60))[0]
    assert (uneven.sum(axis=1) < 30).all()


def test_clusters_of_training_count_as_many_instances_as_they_are_worth() -> None:
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 240)
    y, times = np.arange(240) % 3, np.repeat(np.arange(240), 5)
    once, own = score_histogram(P, y, P[:50])
    again, _ = score_histogram(P[times], y[times], P[:50], training_clusters=times)
    shares = [each / each.sum(axis=1, keepdims=True) for each in (again, once)]
    np.testing.assert_allclose(*shares)
    assert (again.sum(axis=1) < 1.2 * once.sum(axis=1)).all()
    assert (again.sum(axis=1) > 0.5 * once.sum(axis=1)).all()
    assert own.sum() == 50
