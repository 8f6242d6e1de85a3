"""Tensors at every door: what comes with posteriors may lie on a GPU too, and is brought back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

import kdey
from kdey.validation import on_host
from tests.gpu.cases import problem
from tests.with_torch import needs_cuda


class FarTensor(torch.Tensor):
    """A tensor that NumPy cannot read before it is brought to the host, as those on a GPU."""

    def __array__(self, *_, **__):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def numpy(self, **_):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def cpu(self, *_, **__):
        return self.as_subclass(torch.Tensor)


def far(values, device="torch-cpu"):
    """Return values as a tensor out of the reach of NumPy: on the GPU, or as if it were there."""
    tensor = torch.from_numpy(np.asarray(values))
    return tensor.as_subclass(FarTensor) if device == "torch-cpu" else tensor.to(device)


@pytest.fixture(scope="module")
def case():
    return problem(seed=3, k=3, n=150)


def test_far_tensors_are_out_of_reach(device):
    with pytest.raises(TypeError, match="can't convert"):
        np.asarray(far(np.arange(3.0), device))


@pytest.mark.parametrize("name", ["KDEyML", "PACC", "EMQ", "CC", "DM"])
def test_what_comes_with_posteriors(device, case, name):
    P, y, Q, bags = case
    make = {
        "KDEyML": lambda: kdey.KDEyML(bandwidth=0.1),
        "DM": lambda: kdey.DM(n_bins=4),
    }.get(name, getattr(kdey, name))
    rng = np.random.default_rng(0)
    weights, shares = rng.random(len(y)) + 0.1, rng.random(len(Q)) + 0.1
    wanted = make().fit_posteriors(P, y, weights, classes=np.arange(3))
    found = make().fit_posteriors(
        far(P, device), far(y, device), far(weights, device), classes=far(np.arange(3), device)
    )
    np.testing.assert_array_equal(found.classes_, wanted.classes_)
    there = far(Q, device)
    np.testing.assert_allclose(
        found.aggregate(there, far(shares, device)), wanted.aggregate(Q, shares), atol=1e-4
    )
    positions = [far(np.asarray(bag), device) for bag in bags]
    np.testing.assert_allclose(
        found.aggregate_bags(there, positions), wanted.aggregate_bags(Q, bags), atol=1e-4
    )
    clusters = np.arange(len(Q)) // 4
    options = {"check_fit": False, "n_replicates": 20}
    limits = found.estimate_posteriors(
        there, clusters=far(clusters, device), options=kdey.Options(**options)
    )
    expected = wanted.estimate_posteriors(Q, clusters=clusters, options=kdey.Options(**options))
    np.testing.assert_allclose(limits.low, expected.low, atol=1e-3)


def test_decisions(device):
    labels = np.arange(60) % 3
    wanted = kdey.CC().fit_decisions(labels, labels).aggregate_decisions(labels[:40])
    fitted = kdey.CC().fit_decisions(far(labels, device), far(labels, device))
    np.testing.assert_array_equal(fitted.aggregate_decisions(far(labels[:40], device)), wanted)


class Nearest(ClassifierMixin, BaseEstimator):
    """The class with the nearest mean, by torch on the device of X."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        codes = torch.from_numpy(np.searchsorted(self.classes_, y))
        self.means_ = torch.stack([X[codes == c].mean(dim=0) for c in range(len(self.classes_))])
        return self

    def predict_proba(self, X):
        return torch.softmax(-(torch.cdist(X, self.means_) ** 2), dim=1)


@pytest.fixture(scope="module")
def instances():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    return X, (X[:, 0] + rng.normal(size=150) > 0).astype(int)


@pytest.mark.filterwarnings("ignore:the best candidate")
def test_fit_evaluate_and_search(device, instances):
    X, y = instances
    there, labels = far(X, device), far(y, device)
    quantifier = kdey.KDEyML(Nearest(), bandwidth=0.1, cv=3, random_state=0)
    wanted = kdey.KDEyML(Nearest(), bandwidth=0.1, cv=3, random_state=0)
    wanted.fit(torch.from_numpy(X), y)
    fitted = quantifier.fit(there, labels)
    np.testing.assert_allclose(
        fitted.predict(there), wanted.predict(torch.from_numpy(X)), atol=1e-4
    )
    protocol = kdey.APP(5, 30, random_state=0)
    results = kdey.evaluate({"it": fitted}, there, labels, protocol, verbose=False)
    assert np.isfinite(results.methods["it"].solution.prevalence).all()
    grid = {"bandwidth": [0.05, 0.1, 0.2]}
    search = kdey.GridSearchQ(quantifier, grid, protocol=protocol, verbose=False)
    search.fit(there[:100], labels[:100], X_val=there[100:], y_val=labels[100:])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert np.isfinite(search.predict(there)).all()


@needs_cuda
@pytest.mark.filterwarnings("ignore:.*is left out of the pool")
@pytest.mark.parametrize("make", [kdey.KDEyML, kdey.CC, kdey.Quantifier])
def test_classifiers_that_cannot_read_x(instances, make):
    X, y = instances
    quantifier = make(random_state=0) if make is kdey.Quantifier else make(LogisticRegression())
    message = r"could not read X, a tensor on cuda:0: pass X\.cpu\(\), or a"
    with pytest.raises(TypeError, match=message):
        quantifier.fit(far(X, "cuda"), y)
    fitted = quantifier.fit(X, y)
    with pytest.raises(TypeError, match=message):
        fitted.predict(far(X, "cuda"))


def test_features_are_brought_back(device, instances):
    X, y = instances
    wanted = kdey.HDx(n_bins=[4]).fit(X, y)
    found = kdey.HDx(n_bins=[4]).fit(far(X, device), far(y, device))
    np.testing.assert_array_equal(found.predict(far(X, device)), wanted.predict(X))


def test_bfloat16_is_read(place):
    values = torch.tensor([[0.25, 0.75], [0.5, 0.5]], dtype=torch.bfloat16, device=place)
    assert on_host(values).dtype == np.float32
    fitted = kdey.PACC().fit_posteriors(values.repeat(10, 1), np.arange(20) % 2)
    np.testing.assert_allclose(fitted.aggregate(values), fitted.aggregate(on_host(values)))
    with pytest.raises(ValueError, match="sum to one"):  # three digits are not enough
        fitted.aggregate(torch.tensor([[0.3, 0.703]], dtype=torch.bfloat16, device=place))


@pytest.mark.parametrize("name", ["KDEyML", "PACC"])
def test_tensors_without_numbers_are_refused(device, case, name):
    P, y, Q, _ = case
    options = {"bandwidth": 0.1, "device": device} if name == "KDEyML" else {}
    fitted = getattr(kdey, name)(**options).fit_posteriors(P, y)
    with pytest.raises(ValueError, match=r"posteriors is a tensor of layout .*posteriors.to_dense"):
        fitted.aggregate(torch.from_numpy(Q).to_sparse())
    with pytest.raises(ValueError, match="posteriors is a tensor on the device 'meta'"):
        fitted.aggregate(torch.from_numpy(Q).to("meta"))
    with pytest.raises(ValueError, match="posteriors is a tensor of layout"):
        kdey.PACC().fit_posteriors(torch.from_numpy(P).to_sparse(), y)
