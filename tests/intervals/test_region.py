"""The volume of a joint region against counting uniform points of the simplex."""

from __future__ import annotations

import numpy as np
import pytest

import kdey
from kdey.intervals.merging import combine_strata
from kdey.intervals.region import Region, region_from_covariance, whole_simplex
from kdey.simplex import sample_uniform


def region(prevalence: list[float], error: float) -> Region:
    p = np.array(prevalence)
    covariance = error**2 * (np.diag(p) - np.outer(p, p))
    return region_from_covariance(p, covariance, 1e9, 0.95)


@pytest.mark.parametrize("prevalence", [[0.3, 0.7], [0.2, 0.3, 0.5], [0.02, 0.9, 0.08]])
@pytest.mark.parametrize("error", [0.1, 0.4])
def test_volume_is_a_share_of_uniform_points(prevalence: list[float], error: float) -> None:
    measured = region(prevalence, error)
    points = sample_uniform(len(prevalence), 200_000, np.random.default_rng(1))
    share = float(np.mean(measured.contains(points)))
    assert measured.volume(100_000) == pytest.approx(share, rel=0.05, abs=2e-3)


def test_small_regions_have_a_volume_too() -> None:
    """A region with a tenth of the error has 10^(k - 1) times less volume."""
    large, small = region([0.2, 0.3, 0.3, 0.2], 0.01), region([0.2, 0.3, 0.3, 0.2], 0.001)
    assert small.volume() == pytest.approx(large.volume() / 1000, rel=0.1)
    assert 0 < small.volume() < 1e-6


def test_the_whole_simplex_has_volume_one() -> None:
    assert whole_simplex(4, 0.9).volume() == 1.0


def test_more_instances_leave_a_smaller_region() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(600) % 3
    p = rng.dirichlet(np.ones(3), 600) + np.eye(3)[y]
    p /= p.sum(axis=1, keepdims=True)
    q = kdey.PACC().fit_posteriors(p, y)
    volumes = [q.estimate_posteriors(p[:n]).region.volume() for n in (30, 300)]
    assert volumes[1] < volumes[0] / 3


@pytest.mark.parametrize("share", [0.003, 0.02])
def test_regions_of_bootstrap_draws_cover_populations_with_rare_classes(share: float) -> None:
    """Bags without the rare class do not show it in any replicate; its share may be above zero."""
    n, prevalence = 50, np.array([0.3, 0.7 - share, share])
    labels = np.repeat(np.arange(3), n)
    q = kdey.CC().fit_decisions(labels, labels)
    counts = np.random.default_rng(2).multinomial(n, prevalence, 60)
    bags = [np.concatenate([i * n + np.arange(c) for i, c in enumerate(row)]) for row in counts]
    estimates = q.estimate_decisions(
        labels, bags, check_fit=False, options=kdey.Options(n_replicates=30)
    )
    covered = [estimate.region.contains(prevalence) for estimate in estimates]
    assert np.mean(covered) >= 0.9


def test_regions_know_no_more_than_labels_after_merging_and_over_strata() -> None:
    """A class that is absent from all bags keeps a volume."""
    labels = np.repeat(np.arange(4), 30)
    q = kdey.CC().fit_decisions(labels, labels)
    bag = q.estimate_decisions(
        labels[labels < 3], check_fit=False, options=kdey.Options(n_replicates=40)
    )
    assert isinstance(bag, kdey.Estimate)
    rare = [0.3, 0.34, 0.34, 0.02]
    assert bag.region.contains(rare)
    assert not bag.region.contains([0.2, 0.3, 0.3, 0.2])
    merged = bag.merge({"low": [0, 1], "middle": [2], "high": [3]})
    assert merged.region.contains([0.64, 0.34, 0.02])
    whole = combine_strata([bag, bag], np.array([0.5, 0.5]))
    assert whole.region.contains([0.32, 0.33, 0.33, 0.02])
    assert whole.region.volume() < bag.region.volume()
