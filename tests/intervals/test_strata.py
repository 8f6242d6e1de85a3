"""Stratified estimates: sums over strata with their limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kdey import EMQ, PACC, KDEyCS, Options
from kdey.intervals.merging import combine_strata, share_covariance
from kdey.options import IntervalWarning
from tests.intervals.cases import dirichlet, training

SHARES = np.array([0.7, 0.3])
TRUTHS = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])


def fitted(n: int, rng: np.random.Generator) -> Any:
    return EMQ(calibration="bcts").fit_posteriors(*training(n, rng))


def parts_of(q: Any, sizes: tuple[int, int], rng: np.random.Generator) -> list[Any]:
    return [
        q.estimate_posteriors(dirichlet(rng.choice(3, m, p=truth), rng), check_fit=False)
        for m, truth in zip(sizes, TRUTHS, strict=True)
    ]


def test_the_covariance_of_a_split_bag_is_that_of_the_bag() -> None:
    # Strata of the same prevalence with shares in proportion are one bag cut in two.
    rng = np.random.default_rng(0)
    q, p = fitted(200, rng), dirichlet(rng.choice(3, 800, p=[0.3, 0.4, 0.3]), rng)
    whole = q.estimate_posteriors(p, check_fit=False)
    halves = [q.estimate_posteriors(part, check_fit=False) for part in (p[:400], p[400:])]
    total = combine_strata(halves, np.ones(2))
    assert_allclose(total.estimate, whole.estimate, atol=0.01)
    assert_allclose(total.covariance, whole.covariance, atol=0.12 * whole.covariance.max())
    # Without the template errors that the halves share it would be too small.
    apart = sum(0.25 * part.covariance for part in halves)
    assert np.trace(apart) < 0.8 * np.trace(total.covariance)


def test_limits_of_sums_cover() -> None:
    rng, truth = np.random.default_rng(1), SHARES @ TRUTHS
    covered = np.zeros(3)
    for _ in range(60):
        q = PACC().fit_posteriors(*training(150, rng))
        total = combine_strata(parts_of(q, (60, 120), rng), SHARES)
        covered += (total.low <= truth) & (truth <= total.high)
    assert covered.sum() >= 160  # of 180; 171 are nominal


def test_estimated_shares_add_their_variance() -> None:
    rng, truth = np.random.default_rng(2), SHARES @ TRUTHS
    strata = (rng.random(400) < SHARES[1]).astype(np.int64)
    added = share_covariance(TRUTHS, strata, np.ones(400))
    expected = (TRUTHS.T * SHARES) @ TRUTHS - np.outer(truth, truth)
    assert_allclose(added, expected / 400, atol=0.2 * expected.max() / 400)
    # Clusters of four that lie in one stratum have four times the variance.
    blocks = np.repeat((rng.random(100) < SHARES[1]).astype(np.int64), 4)
    clustered = share_covariance(TRUTHS, blocks, np.ones(400), np.repeat(np.arange(100), 4))
    assert_allclose(clustered, 4 * share_covariance(TRUTHS, blocks, np.ones(400)), rtol=0.02)


def test_bootstrap_draws_are_summed_draw_by_draw() -> None:
    rng = np.random.default_rng(3)
    q = KDEyCS(bandwidth=0.2).fit_posteriors(*training(90, rng))
    parts = [
        q.estimate_posteriors(
            dirichlet(rng.choice(3, 40), rng), check_fit=False, options=Options(n_replicates=20)
        )
        for _ in range(2)
    ]
    total = combine_strata(parts, SHARES)
    assert_allclose(total.draws, 0.7 * parts[0].draws + 0.3 * parts[1].draws)
    assert total.method == "bootstrap"
    assert total.region.contains(total.estimate)


def test_a_stratum_of_one_instance_is_unknown_but_has_its_share_only() -> None:
    rng = np.random.default_rng(4)
    with pytest.warns(IntervalWarning):
        parts = parts_of(fitted(300, rng), (300, 1), rng)
    total = combine_strata(parts, np.array([0.95, 0.05]))
    assert np.isfinite(total.covariance).all()
    assert (total.high - total.low >= 0.05).all()
    assert (total.high - total.low).max() < 0.4
    assert total.region.contains(total.estimate)


def test_shares_must_fit_the_strata() -> None:
    parts = parts_of(fitted(100, np.random.default_rng(5)), (20, 20), np.random.default_rng(5))
    for shares in ([1.0], [1.0, 0.0], [1.0, np.nan]):
        with pytest.raises(ValueError, match="one positive share each"):
            combine_strata(parts, np.array(shares))
