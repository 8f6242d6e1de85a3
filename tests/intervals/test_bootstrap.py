"""Bootstrap by reweighting: against bags and fits made again, and against the analytic way."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from kdey import ACC, CC, DM, EMQ, PACC, KDEyCS, KDEyML, Options
from kdey.bags import Bags, SampledBag, sampled_bags
from kdey.intervals.bootstrap import (
    EstimatedBag,
    TrainingReplicates,
    bag_counts,
    bag_generator,
    bootstrap_interval,
    drawn_shares,
    replicate_solver,
    replicated_bags,
)
from kdey.posteriors import TrainingPosteriors

from .cases import bag, separated, training

TRUTH = (0.2, 0.3, 0.5)


def replicates(quantifier, points, n: int = 6):
    """Return the bag, its counts, and what is needed to solve them."""
    model = quantifier.model_
    one = sampled_bags(Bags.whole(len(points)), None)[0]
    estimate = quantifier.aggregate(points)
    given = EstimatedBag(one, points, model.row_map(points), estimate)
    return model, given, bag_counts(one, n, np.random.default_rng(0))


@pytest.mark.parametrize(
    "quantifier",
    [KDEyML(bandwidth=0.1), PACC(), ACC(), EMQ(), KDEyCS(bandwidth=0.1), DM(n_bins=8)],
    ids=lambda q: type(q).__name__,
)
def test_bag_replicates_equal_bags_drawn_again(quantifier) -> None:
    rng = np.random.default_rng(0)
    P, y = training(90, rng)
    points, _ = bag(60, TRUTH, rng)
    model, given, counts = replicates(quantifier.fit_posteriors(P, y), points)
    made = replicate_solver(model, given, False, 0)(counts, 0)
    for b, times in enumerate(counts):
        again = quantifier.aggregate(np.repeat(points, times, axis=0))
        np.testing.assert_allclose(made[b], again, atol=2e-4)


@pytest.mark.parametrize(
    "quantifier",
    [KDEyML(bandwidth=0.1), PACC(), ACC(), KDEyCS(bandwidth=0.1), DM(n_bins=8)],
    ids=lambda q: type(q).__name__,
)
def test_template_replicates_equal_fits_made_again(quantifier) -> None:
    rng = np.random.default_rng(1)
    P, y = training(90, rng)
    points, _ = bag(60, TRUTH, rng)
    model, given, counts = replicates(quantifier.fit_posteriors(P, y), points, 4)
    made = replicate_solver(model, given, True, 5)(counts, 2)
    for b, times in enumerate(counts):
        weights = TrainingReplicates(TrainingPosteriors(P, y), 5)(2 + b)
        again = clone(quantifier).fit_posteriors(P, y, weights)
        expected = again.aggregate(np.repeat(points, times, axis=0))
        np.testing.assert_allclose(made[b], expected, atol=2e-3)


def test_replicates_of_training_data_keep_every_class() -> None:
    labels = np.array([0, 1, 1, 2, 2, 2])
    one = TrainingPosteriors(np.full((6, 3), 1 / 3), labels)
    again = TrainingReplicates(one, 0)
    w = again(3)
    np.testing.assert_array_equal(np.bincount(labels, weights=w), [1, 2, 3])
    np.testing.assert_array_equal(w, TrainingReplicates(one, 0)(3))
    assert any((again(b) != w).any() for b in range(4, 10))
    weighted = TrainingPosteriors(one.posteriors, labels, np.array([1.0, 0, 2, 1, 0, 0]))
    for b in range(20):
        made = TrainingReplicates(weighted, 0)(b)
        assert (np.bincount(labels, weights=made) > 0).all()


def test_clusters_are_drawn_whole() -> None:
    clusters = np.array([0, 0, 1, 1, 1, 2])
    one = SampledBag(np.arange(6), np.full(6, 1 / 6), clusters)
    counts = bag_counts(one, 50, np.random.default_rng(0))
    assert (counts[:, 0] == counts[:, 1]).all()
    assert (counts[:, 2] == counts[:, 4]).all()
    assert ((counts[:, 0] + counts[:, 2] + counts[:, 5]) == 2).all()


def test_replicates_of_clusters_have_the_linearised_variance() -> None:
    rng = np.random.default_rng(5)
    clusters, values = np.repeat(np.arange(8), 5), rng.normal(size=40) + np.repeat(range(8), 5)
    one = SampledBag(np.arange(40), np.full(40, 1 / 40), clusters)
    counts = bag_counts(one, 20_000, rng)
    means = counts @ values / counts.sum(axis=1)
    cluster_means = values.reshape(8, 5).mean(axis=1)
    np.testing.assert_allclose(means.var(), cluster_means.var(ddof=1) / 8, rtol=0.05)


def test_counts_keep_the_weights_of_instances() -> None:
    one = SampledBag(np.arange(3), np.array([0.5, 0.25, 0.25]), None)
    counts = np.array([[2, 0, 1], [0, 3, 0]])
    shared, own = replicated_bags(one, counts, 3), replicated_bags(one, counts, 6)
    np.testing.assert_allclose(shared.matrix().toarray(), [[0.8, 0, 0.2], [0, 1, 0]])
    assert own.indices.tolist() == [0, 2, 4]


def test_drawn_shares_follow_the_membership() -> None:
    rng = np.random.default_rng(2)
    one = SampledBag(np.arange(4), np.full(4, 0.25), None)
    membership = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.25, 0.25]])
    counts = np.tile([1, 2, 0, 1], (4000, 1))
    shares = drawn_shares(one, counts, membership, rng)
    np.testing.assert_allclose(shares.mean(axis=0), [0.375, 0.5625, 0.0625], atol=0.01)
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_limits_of_known_draws() -> None:
    draws = np.column_stack([np.linspace(0, 1, 1001), np.full(1001, 0.3)])
    estimate = np.array([0.5, 0.3])
    low, high = bootstrap_interval(estimate, draws, 0.05, "percentile")
    np.testing.assert_allclose([low, high], [[0.05, 0.3], [0.95, 0.3]], atol=1e-12)
    for interval in ("bias-corrected", "basic"):  # draws without bias
        again = bootstrap_interval(estimate, draws, 0.05, interval)
        np.testing.assert_allclose(again, [low, high], atol=1e-3)
    moved = bootstrap_interval(np.array([0.6, 0.3]), draws, 0.05, "bias-corrected")
    assert moved[0][0] > low[0]
    basic = bootstrap_interval(np.array([0.4, 0.3]), draws, 0.05, "basic")
    assert basic[1][0] == pytest.approx(0.75)


@pytest.mark.parametrize("target", ["population", "bag"])
@pytest.mark.parametrize(
    "quantifier", [KDEyML(bandwidth=0.1), PACC()], ids=lambda q: type(q).__name__
)
def test_agrees_with_the_analytic_way(quantifier, target: str) -> None:
    rng = np.random.default_rng(3)
    P, y = training(400, rng)
    # Calibrated memberships: the likelihood's own, or posteriors that are true.
    points, _ = bag(250, TRUTH, rng)
    quantifier.fit_posteriors(P, y)
    slow = quantifier.estimate_posteriors(
        points, target=target, options=Options(method="bootstrap")
    )
    fast = quantifier.estimate_posteriors(points, target=target, options=Options(method="analytic"))
    ratio = np.sqrt(np.diag(slow.covariance) / np.diag(fast.covariance))
    limit = 0.2 if target == "population" or isinstance(quantifier, KDEyML) else 0.5
    assert (np.abs(ratio - 1) < limit).all(), ratio


def test_bag_target_has_no_noise_where_classes_are_separated() -> None:
    rng = np.random.default_rng(4)
    P, y = training(300, rng, separated)
    points, shares = bag(40, TRUTH, rng, separated)
    quantifier = KDEyML(bandwidth=0.05).fit_posteriors(P, y)
    options = {"method": "bootstrap", "n_replicates": 100}
    own = quantifier.estimate_posteriors(points, target="bag", options=Options(**options))
    population = quantifier.estimate_posteriors(
        points, target="population", options=Options(**options)
    )
    assert (own.high - own.low).max() < 0.02
    assert (population.high - population.low).min() > 0.1
    np.testing.assert_allclose(own.estimate, shares, atol=0.01)


def test_seeds_and_threads() -> None:
    rng = np.random.default_rng(5)
    P, y = training(120, rng)
    points, _ = bag(80, TRUTH, rng)
    one, two = (
        KDEyML(bandwidth=0.1, n_jobs=1).fit_posteriors(P, y),
        KDEyML(bandwidth=0.1, n_jobs=2).fit_posteriors(P, y),
    )
    options = {"method": "bootstrap", "n_replicates": 40}
    first = one.estimate_posteriors(points, options=Options(**options))
    np.testing.assert_array_equal(
        first.draws, one.estimate_posteriors(points, options=Options(**options)).draws
    )
    np.testing.assert_allclose(
        first.draws, two.estimate_posteriors(points, options=Options(**options)).draws
    )
    other = one.estimate_posteriors(points, options=Options(random_state=1, **options))
    assert (first.draws != other.draws).any()


def test_replicates_do_not_hang_on_the_last_digits() -> None:
    """Processors and the NumPy path differ there; the seed of a bag must not."""
    estimate = np.array([0.12341, 0.30002, 0.57657])
    first, again, other = (
        bag_generator(3, estimate + shift).random() for shift in (0.0, 1e-7, 1e-3)
    )
    assert first == again
    assert first != other
    assert first != bag_generator(4, estimate).random()


@pytest.mark.parametrize("size", [2, 3])
def test_a_few_rows_that_are_decided_alike_leave_their_bag_uncertain(size):
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 50)
    posteriors = np.column_stack([1.0 - 0.3 - 0.4 * labels, 0.3 + 0.4 * labels])
    posteriors = np.clip(posteriors + rng.normal(0, 0.05, (100, 2)), 0.05, 0.95)
    posteriors /= posteriors.sum(axis=1, keepdims=True)
    q = CC().fit_posteriors(posteriors, labels)
    made = q.estimate_posteriors(np.full((size, 2), [0.7, 0.3]), target="bag", check_fit=False)
    assert made.estimate[0] == 1.0
    assert made.low[0] <= 1.0 - 1.0 / size  # one of them may be mistaken
