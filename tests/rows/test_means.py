"""What every row map promises: a bag is the mean of its instances' rows, whatever the pool."""

from __future__ import annotations

import numpy as np
import pytest

from kdey.bags import Bags
from kdey.rows import CompositeMap
from kdey.rows.histogram import HistogramMap
from kdey.rows.kernel import KernelDensityMap, KernelSpec, OverlapMap
from kdey.rows.monte_carlo import MonteCarloMap
from kdey.rows.posterior import DirichletMap, PosteriorMap, RatioMap

from .cases import posteriors, training

KERNEL = KernelSpec(0.2, "gaussian", 1e-3, "double")
LOG_RATIO = KernelSpec(0.8, "aitchison", 1e-3, "double")
SPECS = {
    "posterior": PosteriorMap(crisp=False, adjusted=True),
    "decision": PosteriorMap(crisp=True, adjusted=True),
    "ratio": RatioMap(),
    "calibrated-ratio": RatioMap("vector"),
    "histogram": HistogramMap(8),
    "cumulative": HistogramMap(8, cumulative=True),
    "positive": HistogramMap(8, channels="positive"),
    "overlap": OverlapMap(KERNEL),
    "overlap-aitchison": OverlapMap(LOG_RATIO),
    "monte-carlo": MonteCarloMap(KERNEL, 40, 0),
    "monte-carlo-aitchison": MonteCarloMap(LOG_RATIO, 40, 0),
}
POOL = posteriors(3, 24, 4)[0]
DRAWS = [[0], [3, 3, 7], list(range(24)), [23, 1, 1, 1, 5]]


@pytest.fixture(params=SPECS)
def fitted(request):
    return SPECS[request.param].fit(training(3, 90), 3)


def test_a_bag_is_the_mean_of_its_instances(fitted):
    single = np.concatenate([fitted(POOL[j : j + 1]).mean(Bags.whole(1)) for j in range(24)])
    found = fitted(POOL).mean(Bags.from_indices(DRAWS, 24))
    expected = [single[draw].mean(axis=0) for draw in DRAWS]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_weights_are_repetitions(fitted):
    weights = [[1, 2, 0], [3, 1, 1]]
    weighted = Bags.from_indices([[4, 9, 2], [4, 4, 0]], 24, weights)
    written = Bags.from_indices([[4, 9, 9], [4, 4, 4, 4, 0]], 24)
    rows = fitted(POOL)
    np.testing.assert_allclose(rows.mean(weighted), rows.mean(written), rtol=1e-9, atol=1e-12)


def test_the_pools_rows_are_the_bags_own_rows(fitted):
    found = fitted(POOL).mean(Bags.from_indices(DRAWS, 24))
    direct = [fitted(POOL[draw]).mean(Bags.whole(len(draw)))[0] for draw in DRAWS]
    np.testing.assert_allclose(found, direct, rtol=1e-6, atol=1e-9)


def test_templates_are_the_means_of_the_classes(fitted):
    if fitted.templates.shape == (3, 0):
        return  # a likelihood: densities are its rows, and no template is compared with them
    given = training(3, 90)
    members = [np.flatnonzero(given.labels == i) for i in range(3)]
    means = fitted(given.required()).mean(Bags.from_indices(members, 90))
    np.testing.assert_allclose(fitted.templates, means.T, rtol=1e-8, atol=1e-9)


def test_thread_count_does_not_matter(fitted):
    bags = Bags.from_indices(DRAWS, 24)
    np.testing.assert_array_equal(fitted(POOL, 1).mean(bags), fitted(POOL, 2).mean(bags))


@pytest.mark.parametrize(
    "spec", [KernelDensityMap(KERNEL), KernelDensityMap(LOG_RATIO), DirichletMap(1e-6), RatioMap()]
)
def test_likelihood_rows_do_not_depend_on_the_pool(spec):
    fitted = spec.fit(training(3, 90), 3)
    whole = fitted(POOL).array
    alone = np.concatenate([fitted(POOL[j : j + 1]).array for j in range(24)])
    np.testing.assert_allclose(np.exp(whole), np.exp(alone), rtol=1e-9, atol=1e-9)


def test_stacked_rows_are_their_parts():
    parts = (HistogramMap(4), HistogramMap(9, channels="positive"))
    stacked = CompositeMap(parts).fit(training(3), 3)
    whole = Bags.whole(24)
    for spec, made, rows in zip(parts, stacked.parts, stacked(POOL).parts, strict=True):
        alone = spec.fit(training(3), 3)
        np.testing.assert_array_equal(made.templates, alone.templates)
        np.testing.assert_array_equal(rows.mean(whole), alone(POOL).mean(whole))
