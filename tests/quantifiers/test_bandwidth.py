"""Bandwidths that are wrong are refused, and absurd ones never answer without a word."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import kdey
from kdey.rows.kernel import BandwidthWarning

from .test_hostile import assert_prevalence, posteriors

KDES = (kdey.KDEyML, kdey.KDEyCS, kdey.KDEyL2, kdey.KDEyHD)


@pytest.mark.parametrize("bandwidth", [0, -0.1, np.nan, np.inf, "wide", None, [0.1], True])
@pytest.mark.parametrize("make", KDES)
def test_wrong_bandwidths_are_refused(make: Any, bandwidth: Any) -> None:
    with pytest.raises(ValueError, match="bandwidth must be"):
        make(bandwidth=bandwidth).fit_posteriors(*posteriors(3))
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(ValueError, match="bandwidth must be"):
        make(bandwidth=bandwidth).fit(X, np.arange(30) % 2)


@pytest.mark.parametrize("kernel", ["gaussian", "aitchison"])
@pytest.mark.parametrize(("bandwidth", "word"), [(1e-4, "larger"), (1e-8, "larger")])
@pytest.mark.parametrize("make", KDES)
def test_tiny_bandwidths_warn_and_still_answer(
    make: Any, bandwidth: float, word: str, kernel: str
) -> None:
    p, y = posteriors(3)
    q = make(bandwidth=bandwidth, kernel=kernel, random_state=0)
    with pytest.warns(BandwidthWarning, match=f"bandwidth={bandwidth:g} .* A {word} bandwidth"):
        q.fit_posteriors(p, y)
    bag = posteriors(3, 60, seed=5)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = q.solve_posteriors(bag)
    assert_prevalence(found.prevalence[0], 3)
    if make is kdey.KDEyML:
        # No vertex: the bag is a third of each class, and nearest neighbours still tell classes.
        assert found.prevalence.max() < 0.6


def test_kdeyhd_says_where_a_bag_meets_no_reference_point() -> None:
    p, y = posteriors(3)
    inside = p[:, 0] < 0.5
    q = kdey.KDEyHD(bandwidth=0.01, n_points=500, random_state=0)
    q.fit_posteriors(p[inside], y[inside])
    pool = np.vstack([p[inside], [[1.0, 0.0, 0.0]]])
    bags = [np.arange(inside.sum()), [inside.sum()]]
    with pytest.warns(ConvergenceWarning, match="far from every reference point"):
        found = q.solve_posteriors(pool, bags)
    assert list(found.converged) == [True, False]
    assert np.isnan(found.gap[1])
    np.testing.assert_allclose(found.prevalence[1], 1 / 3)


@pytest.mark.parametrize("bandwidth", [5.0, 100.0])
@pytest.mark.parametrize("make", KDES)
def test_huge_bandwidths_warn(make: Any, bandwidth: float) -> None:
    p, y = posteriors(3)
    q = make(bandwidth=bandwidth, random_state=0)
    with pytest.warns(BandwidthWarning, match="all class densities look alike.*smaller bandwidth"):
        q.fit_posteriors(p, y)
    assert_prevalence(q.aggregate(p), 3)


@pytest.mark.parametrize("bandwidth", [0.02, 0.1, 0.3, "scott", "silverman"])
@pytest.mark.parametrize("make", KDES)
def test_sensible_bandwidths_do_not_warn(make: Any, bandwidth: Any) -> None:
    p, y = posteriors(3)
    q = make(bandwidth=bandwidth, random_state=0).fit_posteriors(p, y)
    np.testing.assert_allclose(q.aggregate(posteriors(3, 300, 9)[0]), 1 / 3, atol=0.2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "cosine"}, "kernel must be one of auto, gaussian, aitchison, ilr, got"),
        ({"shrinkage": 1.0}, r"shrinkage must be a number in \[0, 1\)"),
        ({"shrinkage": -1e-3}, r"shrinkage must be a number in \[0, 1\)"),
        ({"precision": "half"}, "precision must be 'mixed' or 'double', got 'half'"),
    ],
)
@pytest.mark.parametrize("make", KDES)
def test_other_wrong_parameters_are_refused(make: Any, parameters: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**parameters).fit_posteriors(*posteriors(3))


def test_log_ratios_without_shrinkage_refuse_exact_zeros() -> None:
    p, y = np.eye(3)[np.arange(30) % 3], np.arange(30) % 3
    with pytest.raises(ValueError, match=r"log-ratios need positive posteriors.*shrinkage above 0"):
        kdey.KDEyML(kernel="aitchison", shrinkage=0).fit_posteriors(p, y)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (kdey.KDEyHD(n_points=0), "n_points must be a positive integer"),
        (kdey.KDEyHD(divergence="l7"), "divergence must be one of"),
        (kdey.DM(divergence="l7"), "divergence must be one of"),
        (kdey.DM(n_bins=1), "n_bins must be an integer of at least 2"),
        (kdey.HDy(n_bins=()), "n_bins must name at least one"),
        (kdey.HDy(n_bins=10), "n_bins must be a sequence"),
        (kdey.DyS(dissimilarity="l7"), "dissimilarity must be one of"),
        (kdey.MM(criterion="l7"), "criterion must be one of"),
        (kdey.EMQ(solver="sgd"), "solver must be one of"),
        (kdey.EMQ(tol=0), "tol must be a positive number"),
        (kdey.EMQ(solver="em", max_iter=0), "max_iter must be a positive integer"),
        (kdey.EMQ(calibration="magic"), "calibration"),
        (kdey.DIR(shrinkage=1), r"shrinkage must be a number in \[0, 1\)"),
        (kdey.DIR(shrinkage=0), "shrinkage must"),
        (kdey.KDEyML(precision=np.zeros(2)), "precision must be 'mixed' or 'double'"),
        (kdey.DIR(shrinkage=None), "shrinkage must be a number"),
        (kdey.OneVsAll(kdey.HDy(), normalisation="l3"), "normalisation must be one of"),
        (kdey.Ensemble(kdey.PACC(), reduction="mode"), "reduction must be one of"),
        (kdey.Ensemble(kdey.PACC(), n_members=0), "n_members must be a positive integer"),
        (kdey.Median(kdey.DM(), {"n_bins": []}), "param_grid|n_bins"),
    ],
)
def test_wrong_parameters_of_other_methods_are_refused(method: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        method.fit_posteriors(*posteriors(2))
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match=message):
        method.fit(X, np.arange(40) % 2)
