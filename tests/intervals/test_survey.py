"""Variances of stratified clusters, as survey statisticians compute them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kdey
from kdey import Options
from kdey.bags import Array, Bags, SampledBag, sampled_bags
from kdey.intervals.bootstrap import bag_counts, replicated_bags
from kdey.status import FEW_CLUSTERS

#: Stratum, cluster, weight and value of each row: the example of docs/mathematics.md.
ROWS = (
    *((0, 0, 2.0, 1.0), (0, 0, 2.0, 0.0), (0, 1, 1.0, 1.0), (0, 1, 3.0, 1.0), (0, 2, 2.0, 0.0)),
    *((1, 3, 1.0, 0.0), (1, 3, 1.0, 0.0), (1, 4, 4.0, 1.0), (1, 4, 1.0, 0.0)),
    *((2, 5, 2.0, 1.0), (2, 5, 1.0, 0.0)),
)
STRATA, CLUSTERS, WEIGHTS, VALUES = (np.array(column) for column in zip(*ROWS, strict=True))
#: Number of clusters of each stratum in the population.
POPULATIONS = {0: 6.0, 1: 8.0, 2: 5.0}


def svymean_variance(populations: dict[int, float] | None) -> float:
    """Return the variance of the weighted mean by loops, lonely units by the rule "adjust"."""
    mean = sum(w * z for _, _, w, z in ROWS) / sum(w for _, _, w, _ in ROWS)
    totals: dict[int, dict[int, float]] = {}
    for stratum, cluster, w, z in ROWS:
        inside = totals.setdefault(stratum, {})
        inside[cluster] = inside.get(cluster, 0.0) + w * (z - mean)
    variance = 0.0
    for stratum, inside in totals.items():
        n = len(inside)
        f = 0.0 if populations is None else n / populations[stratum]
        middle = sum(inside.values()) / n if n > 1 else 0.0
        squares = sum((u - middle) ** 2 for u in inside.values())
        variance += (1 - f) * (n / (n - 1) if n > 1 else 1.0) * squares
    return variance / sum(w for _, _, w, _ in ROWS) ** 2


def sampled(fpc: Array | None = None) -> SampledBag:
    bags = Bags.whole(len(ROWS), WEIGHTS)
    return sampled_bags(bags, CLUSTERS, Options(variance_strata=STRATA, fpc=fpc))[0]


def posteriors(labels: Array, rng: np.random.Generator) -> Array:
    x = rng.normal(2.0 * labels, 1.0)
    p = 1.0 / (1.0 + np.exp(2.0 - 2.0 * x))
    return np.column_stack([1.0 - p, p])


def design(rng: np.random.Generator, n_clusters: int = 3) -> tuple[Array, Array, Array]:
    """Return posteriors, clusters and strata of twelve strata with different shares."""
    strata = np.repeat(np.arange(12), 15 * n_clusters)
    labels = (rng.random(len(strata)) < np.linspace(0.05, 0.9, 12)[strata]).astype(int)
    return posteriors(labels, rng), np.arange(len(strata)) // 15, strata


def test_variance_is_that_of_svymean() -> None:
    populations = np.array([POPULATIONS[s] for s in STRATA])
    values = np.column_stack([VALUES, 1.0 - VALUES])
    for given, sizes in ((None, None), (populations, POPULATIONS)):
        found = sampled(given).linearised_variance(values)
        assert_allclose(found, svymean_variance(sizes), rtol=1e-12)
    # By hand: squares of 4.16 x 3/2, 2.42 x 2 and 0.04 about the mean 0.6, over 20 squared.
    assert_allclose(svymean_variance(None), (6.24 + 4.84 + 0.04) / 400)
    assert_allclose(svymean_variance(POPULATIONS), (3.12 + 3.63 + 0.032) / 400)
    assert sampled().freedom == 3.0
    shares = np.array([10.0, 7.0, 3.0]) / 20
    parts = shares**2 / [3, 2, 1]
    assert_allclose(sampled(populations).unseen, parts @ [0.5, 0.75, 0.8] / parts.sum())


def test_bootstrap_replicates_have_the_linearised_variance() -> None:
    bag, rng = sampled(), np.random.default_rng(0)
    counts = bag_counts(bag, 20_000, rng)
    means = replicated_bags(bag, counts, len(ROWS)).matrix() @ VALUES
    linear = (counts * (bag.replicate_weights * (VALUES - bag.weights @ VALUES))).sum(axis=1)
    assert_allclose(linear.var(), svymean_variance(None), rtol=0.05)
    assert_allclose(means.mean(), bag.weights @ VALUES, atol=0.05)
    assert (counts[:, CLUSTERS == 5] % 2 == 0).all()


@pytest.mark.parametrize("way", ["auto", "bootstrap"])
def test_strata_narrow_intervals_where_they_differ(way: str) -> None:
    rng = np.random.default_rng(1)
    y = np.arange(400) % 2
    q = kdey.PACC().fit_posteriors(posteriors(y, rng), y)
    p, clusters, strata = design(rng)

    def width(ids: Array | None, **asked: object) -> float:
        options = Options(check_fit=False, method=way, n_replicates=300, **asked)
        made = q.estimate_posteriors(p, clusters=ids, options=options)
        return float(np.mean(made.high - made.low))

    flat, grouped = width(None), width(clusters)
    assert width(clusters, variance_strata=strata) < 0.8 * grouped
    assert width(None, variance_strata=strata) < flat
    finite = width(clusters, variance_strata=strata, fpc=np.full(len(p), 4.0))
    assert finite < 0.97 * width(clusters, variance_strata=strata)
    names = np.array([f"s{s:02d}" for s in strata])
    assert_allclose(width(clusters, variance_strata=names), width(clusters, variance_strata=strata))


def test_covariance_of_sure_scores_is_the_linearised_one() -> None:
    rng = np.random.default_rng(2)
    y = np.arange(4_000) % 2
    q = kdey.PACC().fit_posteriors(np.eye(2)[y] * 0.9998 + 0.0001, y)
    _, clusters, strata = design(rng, 6)
    labels = (rng.random(len(strata)) < rng.beta(2, 3, 72)[clusters]).astype(int)
    weights = rng.uniform(1, 3, len(labels)) * (1 + labels)
    options = Options(variance_strata=strata, check_fit=False)
    made = q.estimate_posteriors(
        np.eye(2)[labels] * 0.9998 + 0.0001,
        sample_weight=weights,
        clusters=clusters,
        options=options,
    )
    whole = Bags.whole(len(labels), weights)
    bag = sampled_bags(whole, clusters, options)[0]
    expected = bag.linearised_variance(np.eye(2)[labels])[1]
    assert_allclose(made.covariance[1, 1], expected, rtol=0.03)


def test_lonely_and_crossing_clusters() -> None:
    rng = np.random.default_rng(3)
    y = np.arange(200) % 2
    q = kdey.PACC().fit_posteriors(posteriors(y, rng), y)
    p, clusters, strata = design(rng, 1)
    alone = Options(variance_strata=strata, check_fit=False)
    with pytest.warns(kdey.options.IntervalWarning, match="single instance or cluster"):
        made = q.estimate_posteriors(p, clusters=clusters, options=alone)
    assert (made.low == 0.0).all()
    assert (made.high == 1.0).all()
    with pytest.raises(ValueError, match="rows in several strata"):
        q.estimate_posteriors(p, clusters=np.arange(len(p)) % 7, options=alone)
    with pytest.raises(ValueError, match="one id per instance"):
        q.estimate_posteriors(p, options=Options(variance_strata=[1, 2]))
    with pytest.raises(ValueError, match="predict_groups a data frame with"):
        q.estimate_posteriors(p, options=Options(strata="region"))
    with pytest.raises(ValueError, match="stratum 0 has 15"):
        q.estimate_posteriors(p, options=Options(variance_strata=strata, fpc=np.full(len(p), 9.0)))


def test_a_share_of_one_is_the_whole_population() -> None:
    """As in R's survey package; it was taken for a population of one row."""
    rng = np.random.default_rng(6)
    y = np.arange(200) % 2
    q = kdey.PACC().fit_posteriors(posteriors(y, rng), y)
    p, clusters, strata = design(rng)

    def ends(fpc: object, **asked: object) -> Array:
        options = Options(fpc=fpc, check_fit=False, **asked)
        made = q.estimate_posteriors(p, clusters=clusters, options=options)
        return np.array([made.low, made.high])

    assert_allclose(ends(1.0), ends(36))
    by_stratum = {"variance_strata": strata}
    assert_allclose(ends(np.ones(len(p)), **by_stratum), ends(np.full(len(p), 3.0), **by_stratum))
    with pytest.raises(ValueError, match="one for each instance goes with variance_strata"):
        ends(np.full(len(p), 1000.0))


@pytest.mark.parametrize("way", ["auto", "bootstrap"])
def test_few_clusters_are_said(way: str) -> None:
    rng = np.random.default_rng(4)
    y = np.arange(200) % 2
    q = kdey.PACC().fit_posteriors(posteriors(y, rng), y)
    p, _, _ = design(rng)
    options = Options(check_fit=False, method=way, n_replicates=50)
    few = q.estimate_posteriors(p, clusters=np.arange(len(p)) % 10, options=options)
    assert FEW_CLUSTERS in few.status
    assert any("9 degrees of freedom" in note for note in few.notes)
    many = q.estimate_posteriors(p, clusters=np.arange(len(p)) % 30, options=options)
    assert FEW_CLUSTERS not in many.status


def test_few_clusters_widen_sums_and_differences_of_draws() -> None:
    rng = np.random.default_rng(5)
    y = np.arange(300) % 3
    p = rng.dirichlet(np.ones(3), 300) * 0.4 + 0.6 * np.eye(3)[y]
    q = kdey.PACC().fit_posteriors(p, y)
    bag = p[rng.permutation(300)]
    options = Options(check_fit=False, method="bootstrap", n_replicates=300)
    made = q.estimate_posteriors(bag, clusters=np.arange(300) % 4, options=options)
    merged = made.merge({"x": [0, 1], "y": 2})
    draws = made.draws[:, 2]
    outer = np.quantile(draws, [0.025, 0.975])
    assert merged.high[0] - merged.low[0] > 1.3 * (outer[1] - outer[0])
    change = kdey.difference(made, made)
    assert (change.high - change.low >= 0.0).all()
