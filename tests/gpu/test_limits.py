"""Analytic limits on a device are those of the host."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

import kdey
from kdey.gpu.device_rows import ClassTensors, adapted_bag_means, batch_moments
from kdey.intervals import compute
from kdey.intervals.moments import adapted
from tests.gpu.cases import problem

# One of the bags has a single instance.
pytestmark = pytest.mark.filterwarnings("ignore:1 bag")
METHODS = {
    "KDEyML": kdey.KDEyML(bandwidth=0.1),
    "EMQ": kdey.EMQ(),
    "EMQ-BCTS": kdey.EMQ(calibration="bcts"),
    "DIR": kdey.DIR(),
    "ACC": kdey.ACC(),
    "PACC": kdey.PACC(),
}
OPTIONS = {"method": "analytic", "check_fit": False}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", list(METHODS))
def test_as_on_the_host(device, place, name, weighted):
    P, y, Q, bags = problem(seed=9, weighted=weighted)
    fitted = METHODS[name].fit_posteriors(P, y)
    fitted.device = "cpu"
    wanted = fitted.estimate_posteriors(Q, bags, options=kdey.Options(**OPTIONS))
    fitted.device = device
    tensor = torch.from_numpy(Q).to(place)
    found = fitted.estimate_posteriors(tensor, bags, options=kdey.Options(**OPTIONS))
    for field in ("estimate", "low", "high"):
        np.testing.assert_allclose(getattr(found, field), getattr(wanted, field), atol=1e-4)
    assert found.notes == wanted.notes
    assert str(found[2]) == str(wanted[2])


def test_they_are_computed_there(device, monkeypatch):
    P, y, Q, bags = problem(seed=9)
    fitted = kdey.KDEyML(bandwidth=0.1, device=device).fit_posteriors(P, y)

    def refuse(*_):
        raise AssertionError("the host computed the moments")

    monkeypatch.setattr(compute, "linearise_likelihood", refuse)
    assert len(fitted.estimate_posteriors(Q, bags, options=kdey.Options(**OPTIONS))) == len(bags)
    fitted.set_params(device="cpu")
    with pytest.raises(AssertionError, match="the host computed"):
        fitted.estimate_posteriors(Q, bags, options=kdey.Options(**OPTIONS))


@pytest.mark.parametrize("name", ["EMQ-BCTS", "PACC"])
def test_clusters(device, name):
    P, y, Q, bags = problem(seed=10)
    clusters = np.arange(len(Q)) // 7
    fitted = METHODS[name].fit_posteriors(P, y)
    fitted.device = "cpu"
    wanted = fitted.estimate_posteriors(Q, bags, clusters=clusters, options=kdey.Options(**OPTIONS))
    fitted.device = device
    found = fitted.estimate_posteriors(Q, bags, clusters=clusters, options=kdey.Options(**OPTIONS))
    np.testing.assert_allclose(found.low, wanted.low, atol=1e-4)
    np.testing.assert_allclose(found.high, wanted.high, atol=1e-4)


def test_moments_against_a_plain_loop(place):
    rng = np.random.default_rng(0)
    counts = np.array([5, 9, 6])
    rows, weights = rng.random((20, 3)) + 0.05, rng.random(20) + 0.1
    offsets = np.concatenate([[0], np.cumsum(counts)])
    for a, b in pairwise(offsets):
        weights[a:b] /= weights[a:b].sum()
    alphas = rng.dirichlet(np.ones(3), 4)
    training = ClassTensors.of(rows, weights, offsets, place)
    matrices, covariances = batch_moments(training, training, alphas)
    for b, alpha in enumerate(alphas):
        phi = adapted(rows, alpha)
        for label, (low, high) in enumerate(pairwise(offsets)):
            w, part = weights[low:high], phi[low:high]
            np.testing.assert_allclose(matrices[b, :, label], w @ part, atol=1e-12)
            wanted = np.cov(part.T, aweights=w, ddof=0)
            np.testing.assert_allclose(covariances[b, label], wanted, atol=1e-12)


def test_bag_means_against_a_plain_loop(place):
    _, _, Q, bags = problem(seed=11, weighted=True)
    alphas = np.random.default_rng(0).dirichlet(np.ones(5), len(bags))
    found = adapted_bag_means(torch.from_numpy(Q).to(place), bags, alphas)
    for b, (bag, alpha) in enumerate(zip(bags, alphas, strict=True)):
        wanted = np.average(adapted(Q[bag], alpha), axis=0, weights=bags.bag_weights(b))
        np.testing.assert_allclose(found[b], wanted, atol=1e-12)


@pytest.mark.parametrize("calibration", ["temperature", "bcts", "vector", "nbvs"])
def test_calibrators_on_tensors(place, calibration):
    P, y, Q, _ = problem(seed=12)
    row_map = kdey.EMQ(calibration=calibration).fit_posteriors(P, y).row_map_
    assert row_map.tensor_rows is not None
    found = row_map.tensor_rows(torch.from_numpy(Q).to(place)).cpu().numpy()
    np.testing.assert_allclose(found, row_map(Q).array, rtol=1e-9)


def test_platt_scaling_stays_on_the_host():
    P, y, _, _ = problem(seed=12)
    assert kdey.EMQ(calibration="platt").fit_posteriors(P, y).row_map_.tensor_rows is None
