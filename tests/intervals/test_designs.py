"""Rows that are no independent draws: weights, clusters, finite populations, and formulas."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kdey
from kdey.bags import Array, Bags, SampledBag, sampled_bags
from kdey.options import Options

from .cases import bag, dirichlet, training

METHODS = [kdey.PACC, kdey.EMQ]


def slow_variance(values: Array, weights: Array, clusters: Array) -> float:
    """Return the linearised variance of a weighted mean, cluster by cluster."""
    w = weights / weights.sum()
    mean = sum(w[j] * values[j] for j in range(len(w)))
    names = sorted(set(clusters.tolist()))
    sums = [
        sum(w[j] * (values[j] - mean) for j in range(len(w)) if clusters[j] == c) for c in names
    ]
    return len(names) / (len(names) - 1) * sum(u * u for u in sums)


def drawn(weights: Array, clusters: Array | None) -> SampledBag:
    return SampledBag(np.arange(len(weights)), weights / weights.sum(), clusters)


@pytest.mark.parametrize("has_clusters", [False, True])
def test_the_design_effect_is_that_of_the_linearised_variance(has_clusters: bool) -> None:
    rng = np.random.default_rng(0)
    clusters = np.sort(rng.integers(0, 7, 60))
    weights = rng.gamma(1.0, size=60)
    values = np.column_stack([rng.normal(size=60) + 5 * clusters, weights + rng.normal(size=60)])
    one = drawn(weights, np.unique(clusters, return_inverse=True)[1] if has_clusters else None)
    effects = one.design_effect(values)
    for column, effect in zip(values.T, effects, strict=True):
        units = clusters if has_clusters else np.arange(60)
        variance = slow_variance(column, weights, units)
        simple = np.cov(column, aweights=weights, ddof=0) * 60 / 59 / one.effective_size
        assert effect == pytest.approx(max(variance / simple, 1.0))
    assert effects.max() > 1.2


def test_the_survey_example_worked_by_hand() -> None:
    # Six rows in three clusters of weights 1, 2 and 3; the weighted mean is 5 / 12, and the sums
    # of w (z - mean) over the clusters are 2 / 144, 4 / 144 and -6 / 144 times 12.
    weights = np.array([1.0, 1, 2, 2, 3, 3])
    values = np.array([[1.0], [0], [1], [0], [1], [0]])
    values[4] = 2 / 3  # the mean of the third cluster is 1/3
    clusters = np.array([0, 0, 1, 1, 2, 2])
    mean = (1 + 2 + 2) / 12
    sums = np.array([1 - 2 * mean, 2 - 4 * mean, 2 - 6 * mean]) / 12
    by_hand = 3 / 2 * (sums**2).sum()
    assert slow_variance(values[:, 0], weights, clusters) == pytest.approx(by_hand)
    # The design effect is never below one, and here it would be.
    assert_array_equal(drawn(weights, clusters).design_effect(values), [1.0])


@pytest.mark.parametrize("method", METHODS)
def test_equal_weights_and_clusters_of_one_row_are_no_design(method: type) -> None:
    rng = np.random.default_rng(1)
    q = method().fit_posteriors(*training(300, rng))
    p, _ = bag(200, (0.3, 0.3, 0.4), rng)
    plain = q.estimate_posteriors(p, check_fit=False)
    weighted = q.estimate_posteriors(p, sample_weight=np.full(200, 3.0), check_fit=False)
    assert_allclose([weighted.low, weighted.high], [plain.low, plain.high], atol=1e-9)
    single = q.estimate_posteriors(p, clusters=np.arange(200), check_fit=False)
    assert_allclose([single.low, single.high], [plain.low, plain.high], atol=2e-3)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("way", ["auto", "bootstrap"])
def test_repeated_rows_in_clusters_are_rows_with_weights(method: type, way: str) -> None:
    rng = np.random.default_rng(2)
    q = method().fit_posteriors(*training(300, rng))
    p, _ = bag(80, (0.5, 0.2, 0.3), rng)
    times = rng.integers(1, 5, 80)
    options = Options(method=way, check_fit=False, n_replicates=200)
    repeated = np.repeat(np.arange(80), times)
    made = q.estimate_posteriors(p[repeated], clusters=repeated, options=options)
    same = q.estimate_posteriors(p, sample_weight=times, clusters=np.arange(80), options=options)
    assert_allclose(made.estimate, same.estimate, atol=1e-6)
    assert_allclose([made.low, made.high], [same.low, same.high], atol=5e-3)


def test_order_and_names_of_clusters_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    q = kdey.EMQ().fit_posteriors(*training(300, rng))
    p, _ = bag(200, (0.3, 0.3, 0.4), rng)
    clusters, weights = np.repeat(np.arange(20), 10), rng.gamma(2.0, size=200)
    made = q.estimate_posteriors(p, sample_weight=weights, clusters=clusters, check_fit=False)
    order = rng.permutation(200)
    other = q.estimate_posteriors(
        p[order],
        sample_weight=7 * weights[order],
        clusters=[f"c{99 - c}" for c in clusters[order]],
        check_fit=False,
    )
    assert_allclose([made.low, made.high], [other.low, other.high], atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_weights_that_are_related_to_the_class_widen_the_interval(method: type) -> None:
    rng = np.random.default_rng(4)
    q = method().fit_posteriors(*training(600, rng))
    labels = np.repeat([0, 1, 2], [20, 280, 300])
    p, weights = dirichlet(labels, rng), np.where(labels == 0, 10.0, 1.0)
    related = q.estimate_posteriors(p, sample_weight=weights, check_fit=False)
    other = q.estimate_posteriors(p, sample_weight=rng.permutation(weights), check_fit=False)
    assert (related.high - related.low)[0] > 1.2 * (other.high - other.low)[0]
    assert related.covariance[0, 0] > 1.3 * other.covariance[0, 0]


def test_arbitrary_clusters_hardly_widen_the_interval() -> None:
    rng = np.random.default_rng(5)
    q = kdey.PACC().fit_posteriors(*training(600, rng))
    p, _ = bag(2_000, (0.3, 0.3, 0.4), rng)
    plain = q.estimate_posteriors(p, check_fit=False)
    for way in ("auto", "bootstrap"):
        options = Options(method=way, check_fit=False)
        made = q.estimate_posteriors(p, clusters=np.repeat(range(10), 200), options=options)
        assert ((made.high - made.low) < 2.0 * (plain.high - plain.low)).all()


@pytest.mark.parametrize("way", ["auto", "bootstrap"])
def test_the_bag_is_the_limit_of_finite_populations(way: str) -> None:
    rng = np.random.default_rng(6)
    q = kdey.PACC().fit_posteriors(*training(900, rng))
    p, _ = bag(100, (0.3, 0.3, 0.4), rng)

    def width(**values: object) -> Array:
        options = Options(method=way, check_fit=False, **values)
        made = q.estimate_posteriors(p, options=options)
        return made.high - made.low

    sizes = [10**9, 1_000, 200, 125]
    widths = np.array([width(), *(width(fpc=n) for n in sizes), width(fpc=100)])
    assert_allclose(widths[0], widths[1], rtol=1e-6)
    assert (np.diff(widths.mean(axis=1)) <= 1e-9).all()
    assert_allclose(widths[-1], width(target="bag"), atol=0.02)
    assert_allclose(width(fpc=0.5), widths[3], atol=1e-9)


def test_sizes_of_populations_that_cannot_be_are_refused() -> None:
    bags = sampled_bags(Bags.whole(20), None, Options(fpc=10))
    with pytest.raises(ValueError, match="population has 10 rows, but bag 0 has 20"):
        _ = bags.unseen
    with pytest.raises(ValueError, match="names a column"):
        _ = sampled_bags(Bags.whole(20), None, Options(fpc="size")).unseen
    for wrong in (0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="fpc must be"):
            Options(fpc=wrong)
    clustered = sampled_bags(Bags.whole(20), np.repeat([0, 1], 10), Options(fpc=10))
    assert_allclose(clustered.unseen, [0.8])
