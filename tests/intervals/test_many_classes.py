"""Intervals of many classes: the same moments without k matrices, and about the same intervals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kdey import EMQ, PACC
from kdey.intervals import analytic, compute
from kdey.intervals.many_classes import (
    directed_intervals,
    many_bag_moments,
    many_training_moments,
)
from kdey.intervals.moments import (
    ClassRows,
    MomentEquations,
    Moments,
    bag_moments,
    projected_moments,
    training_moments,
)

K = 6


def scores(labels: np.ndarray, k: int, rng: np.random.Generator, scale: float = 2.0) -> np.ndarray:
    raw = rng.normal(size=(len(labels), k))
    raw[np.arange(len(labels)), labels] += scale
    raw = np.exp(1.5 * raw)
    return raw / raw.sum(axis=1, keepdims=True)


def class_rows(clusters: bool = False) -> ClassRows:
    rng = np.random.default_rng(0)
    counts = np.array([30, 40, 8, 25, 2, 60])
    labels = np.repeat(np.arange(K), counts)
    weights = rng.uniform(0.5, 2.0, len(labels))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    weights /= np.add.reduceat(weights, offsets[:-1])[labels]
    codes = rng.integers(12, size=len(labels)) if clusters else None
    thin = np.flatnonzero(rng.random(len(labels)) < 0.8)
    thin = np.union1d(thin, offsets[:-1])
    return ClassRows(
        scores(labels, K, rng).astype(np.float32), offsets, weights.astype(np.float32), thin, codes
    )


def pairs() -> Iterator[tuple[Moments, Moments]]:
    rows, rng = class_rows(), np.random.default_rng(1)
    prevalence, projection = rng.dirichlet(np.ones(K)), rng.normal(size=(K, K))
    bag = scores(rng.integers(K, size=300), K, rng)
    weights = rng.random(300)
    weights /= weights.sum()
    yield training_moments(rows, None), many_training_moments(rows, None)
    yield training_moments(rows, prevalence), many_training_moments(rows, prevalence)
    yield projected_moments(rows, projection), many_training_moments(rows, None, projection)
    yield bag_moments(bag, weights, prevalence), many_bag_moments(bag, weights, prevalence)


@pytest.mark.parametrize(("few", "many"), list(pairs()))
def test_all_that_follows_from_moments_is_the_same(few: Moments, many: Moments) -> None:
    mix = np.random.default_rng(2).dirichlet(np.ones(K))
    for name in ("matrix", "sizes", "freedom", "spread", "template_spread", "bias"):
        expected, found = getattr(few, name), getattr(many, name)
        scale = max(1e-3, np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8 * scale, err_msg=name)
    expected = few.covariance(mix / 50.0, mix)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(many.covariance(mix / 50.0, mix), expected, atol=1e-8 * scale)
    np.testing.assert_allclose(many.inversion_bias(mix), few.inversion_bias(mix), atol=1e-9)


def test_clusters_leave_fewer_instances() -> None:
    alone = many_training_moments(class_rows(), None)
    together = many_training_moments(class_rows(clusters=True), None)
    worth = training_moments(class_rows(clusters=True), None).worth
    np.testing.assert_allclose(together.sizes, worth, rtol=1e-3)
    assert (together.sizes <= alone.sizes + 1e-9).all()
    assert (together.sizes < alone.sizes).any()


@pytest.fixture
def only_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (analytic, compute):
        monkeypatch.setattr(module, "MOST_CLASSES", 0)


@pytest.mark.parametrize("make", [PACC, lambda: EMQ(calibration="bcts")])
@pytest.mark.parametrize("target", ["population", "bag"])
def test_intervals_are_about_those_of_the_profile(
    make, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    k, rng = 12, np.random.default_rng(3)
    labels, shares = np.arange(k * 60) % k, rng.dirichlet(np.ones(k))
    training, bag = scores(labels, k, rng), scores(rng.choice(k, 800, p=shares), k, rng)
    given = {"check_fit": False, "target": target}
    few = make().fit_posteriors(training, labels).estimate_posteriors(bag, **given)
    for module in (analytic, compute):
        monkeypatch.setattr(module, "MOST_CLASSES", 0)
    many = make().fit_posteriors(training, labels).estimate_posteriors(bag, **given)
    np.testing.assert_array_equal(many.estimate, few.estimate)
    ratio = (many.high - many.low) / (few.high - few.low)
    assert 0.95 < ratio.mean() < 1.05
    assert ratio.min() > 0.8
    assert any("12 classes are too many" in note for note in many.notes)
    np.testing.assert_allclose(many.corrected, few.corrected, atol=1e-6)
    np.testing.assert_allclose(many.covariance, few.covariance, atol=2e-2 * few.covariance.max())


def test_intervals_cover(only_many: None) -> None:
    k, covered = 8, []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        labels, shares = np.arange(k * 30) % k, rng.dirichlet(np.ones(k))
        q = PACC().fit_posteriors(scores(labels, k, rng, 1.5), labels)
        bag = scores(rng.choice(k, 300, p=shares), k, rng, 1.5)
        found = q.estimate_posteriors(bag, check_fit=False)
        covered.append((found.low <= shares) & (shares <= found.high))
    assert 0.93 < np.mean(covered) <= 0.995


def test_a_bag_of_one_class(only_many: None) -> None:
    k, rng = 8, np.random.default_rng(0)
    labels = np.arange(k * 30) % k
    q = PACC().fit_posteriors(scores(labels, k, rng), labels)
    bag = scores(np.full(200, 3), k, rng)
    found = q.estimate_posteriors(bag, check_fit=False)
    assert found.high[3] == 1.0
    assert 0.7 < found.low[3] < 1.0
    assert (found.low[np.arange(k) != 3] == 0.0).all()
    assert (found.high[np.arange(k) != 3] > 0.0).all()


def test_bags_weights_and_clusters(only_many: None) -> None:
    k, rng = 8, np.random.default_rng(0)
    labels = np.arange(k * 30) % k
    q = PACC().fit_posteriors(scores(labels, k, rng), labels)
    bag = scores(rng.integers(k, size=240), k, rng)
    plain = q.estimate_posteriors(bag, check_fit=False)
    clustered = q.estimate_posteriors(
        np.repeat(bag, 2, axis=0), clusters=np.repeat(np.arange(240), 2), check_fit=False
    )
    np.testing.assert_allclose(clustered.low, plain.low, atol=0.01)
    np.testing.assert_allclose(clustered.high, plain.high, atol=0.01)


def test_many_equations_are_one_by_one() -> None:
    rows, rng = class_rows(), np.random.default_rng(1)
    moments = many_training_moments(rows, None)
    q = moments.matrix @ rng.dirichlet(np.ones(K), size=3).T
    sizes = np.array([100.0, 50.0, 200.0])
    given = MomentEquations(
        q.T,
        np.full((3, K), 1 / K),
        sizes,
        np.tile(sizes[:, None], K),
        np.full(3, np.inf),
        [moments],
    )
    together = directed_intervals(given, 0.025, np.ones(3))
    alone = directed_intervals(
        MomentEquations(
            q.T[1:2], given.estimates[1:2], sizes[1:2], given.bag_sizes[1:2], given.units[1:2],
            [moments],
        ),
        0.025,
        np.ones(1),
    )  # fmt: skip
    for several, one in zip(together, alone, strict=True):
        np.testing.assert_array_equal(several[1], one[0])
