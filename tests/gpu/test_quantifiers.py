"""Quantifiers on a device give the host's prevalences and certificates."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import kdey
from kdey.gpu import solve
from kdey.gpu.sums import DeviceReferences
from kdey.tuning import trials
from tests.gpu.cases import mean_methods, methods, problem
from tests.with_torch import needs_cuda

#: Largest accepted difference of a prevalence from the host's.
TOLERANCE = 1e-4


def agree(found, wanted):
    np.testing.assert_allclose(found.prevalence, wanted.prevalence, atol=TOLERANCE)
    np.testing.assert_allclose(found.objective, wanted.objective, atol=TOLERANCE)
    assert (found.converged == wanted.converged).all()
    assert (np.isnan(found.gap) == np.isnan(wanted.gap)).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", list(methods()))
def test_as_on_the_host(device, name, weighted):
    P, y, Q, bags = problem(seed=1, weighted=weighted)
    weights = 0.1 + np.random.default_rng(0).random(len(y)) if weighted else None
    quantifier = methods()[name].fit_posteriors(P, y, weights)
    wanted = quantifier.solve_posteriors(Q, bags)
    found = quantifier.set_params(device=device).solve_posteriors(Q, bags)
    agree(found, wanted)
    tensor = torch.from_numpy(Q).to("cpu" if device == "torch-cpu" else device)
    again = quantifier.solve_posteriors(tensor.float(), bags)
    np.testing.assert_allclose(again.prevalence, wanted.prevalence, atol=TOLERANCE)


@pytest.mark.parametrize("weighted", [False, True])
def test_pseudo_instances_as_on_the_host(device, weighted):
    P, y, Q, bags = problem(seed=1, weighted=weighted)
    quantifier = kdey.EMQ().fit_posteriors(P, y)
    plain = quantifier.solve_posteriors(Q, bags)
    smoothed = replace(quantifier.row_map_, pseudo_share=0.02)
    quantifier.model_ = replace(quantifier.model_, row_map=smoothed)
    wanted = quantifier.solve_posteriors(Q, bags)
    agree(quantifier.set_params(device=device).solve_posteriors(Q, bags), wanted)
    assert np.abs(wanted.prevalence - plain.prevalence).max() > 10 * TOLERANCE


def test_which_methods_have_a_route():
    P, y, _, _ = problem()
    found = {}
    others = {**mean_methods(), "DM": kdey.DM(n_bins=8)}
    others["HD-reverse-kl"] = kdey.KDEyHD(divergence="reverse-kl", bandwidth=0.1, n_points=100)
    for name, quantifier in {**methods(), **others}.items():
        fitted = quantifier.fit_posteriors(P, y)
        found[name] = fitted.model_.matching.device_form(fitted.row_map_) is not None
    without = {name for name, route in found.items() if not route}
    assert without == {"EMQ-em", "HD-reverse-kl", "DM"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", list(mean_methods()))
def test_means_as_on_the_host(device, place, name, weighted, dtype):
    P, y, Q, bags = problem(seed=7, weighted=weighted)
    Q = Q.round(1) if name == "ACC" else Q  # several largest posteriors
    Q = Q / Q.sum(axis=1, keepdims=True)
    tensor = torch.from_numpy(Q).to(dtype).to(place)
    quantifier = mean_methods()[name].fit_posteriors(P, y)
    wanted = quantifier.solve_posteriors(tensor.cpu().numpy(), bags)
    quantifier.device = device  # these methods have no such parameter: they follow their tensors
    solver = quantifier.model_.solver(tensor, quantifier._place())
    assert solver.args[0].on_device
    found = solver(bags)
    np.testing.assert_allclose(found.prevalence, wanted.prevalence, atol=1e-9)
    assert (found.converged == wanted.converged).all()


def test_equal_posteriors_count_for_the_first_class(place):
    rows = torch.tensor([[0.4, 0.4, 0.2], [0.1, 0.45, 0.45]], device=place)
    fitted = kdey.CC().fit_posteriors(np.eye(3), np.arange(3))
    assert fitted.row_map_.tensor_rows(rows).argmax(dim=1).tolist() == [0, 1]
    assert float(fitted.row_map_.tensor_rows(rows).sum()) == 2.0


@pytest.mark.parametrize("make", [kdey.KDEyML, kdey.KDEyCS])
def test_automatic(device, make):
    P, y, Q, bags = problem(seed=2, n=200)
    fitted = make(random_state=0).fit_posteriors(P, y)
    wanted = fitted.solve_posteriors(Q, bags)
    agree(fitted.set_params(device=device).solve_posteriors(Q, bags), wanted)


@pytest.mark.parametrize(
    "quantifier",
    [
        kdey.KDEyML(random_state=0),
        kdey.KDEyCS(random_state=0, kernel="gaussian"),
    ],
    ids=lambda quantifier: type(quantifier).__name__,
)
def test_choices_are_those_of_the_host(device, monkeypatch, quantifier):
    P, y, _, _ = problem(seed=8, k=3, n=150)
    host = clone(quantifier).fit_posteriors(P, y)
    there = clone(quantifier)
    there.device = device
    calls = []
    monkeypatch.setattr(trials, "match_family_on", record_calls(trials.match_family_on, calls))
    there.fit_posteriors(P, y)
    assert calls
    found, wanted = there.tuning_, host.tuning_
    assert [trial.value for trial in found.trials] == [trial.value for trial in wanted.trials]
    for name in ("score", "weight"):
        values = [[getattr(trial, name) for trial in t.trials] for t in (found, wanted)]
        np.testing.assert_allclose(*values, atol=TOLERANCE)


@needs_cuda
def test_tensors_are_tuned_where_they_are(monkeypatch):
    P, y, _, _ = problem(seed=8, k=3, n=150)
    wanted = kdey.KDEyML(random_state=0).fit_posteriors(P, y).bandwidth_
    calls = []
    monkeypatch.setattr(trials, "match_family_on", record_calls(trials.match_family_on, calls))
    found = kdey.KDEyML(random_state=0).fit_posteriors(torch.from_numpy(P).cuda(), y)
    assert calls
    assert found.bandwidth_ == wanted


def record_calls(function, calls):
    """Return a function that does the same and counts its calls."""

    def recorded(*args, **options):
        calls.append(function.__name__)
        return function(*args, **options)

    return recorded


def test_references_are_copied_once(device, monkeypatch):
    P, y, Q, bags = problem()
    fitted = kdey.KDEyML(bandwidth=0.1, device=device).fit_posteriors(P, y)
    wanted = fitted.aggregate_bags(Q, bags)

    def refuse(*_):
        raise AssertionError("the references were copied again")

    monkeypatch.setattr(DeviceReferences, "of", refuse)
    np.testing.assert_array_equal(fitted.aggregate_bags(Q, bags), wanted)
    with pytest.raises(AssertionError, match="copied again"):
        pickle.loads(pickle.dumps(fitted)).aggregate_bags(Q, bags)


def test_28_classes(device):
    P, y, Q, bags = problem(seed=3, k=28, n=1500, m=600)
    fitted = kdey.KDEyML(bandwidth=0.1).fit_posteriors(P, y)
    wanted = fitted.solve_posteriors(Q, bags)
    agree(fitted.set_params(device=device).solve_posteriors(Q, bags), wanted)


def test_batch_is_loop(device):
    P, y, Q, bags = problem(seed=4)
    fitted = kdey.KDEyML(bandwidth=0.1, device=device).fit_posteriors(P, y)
    together = fitted.aggregate_bags(Q, bags)
    alone = [fitted.aggregate(Q[bag]) for bag in bags]
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_weights_are_repetitions(device):
    P, y, Q, _ = problem(seed=5)
    counts = np.random.default_rng(0).integers(0, 3, len(Q))
    for quantifier in (kdey.KDEyML(bandwidth=0.1), kdey.KDEyCS(bandwidth=0.1)):
        fitted = quantifier.set_params(device=device).fit_posteriors(P, y)
        weighted = fitted.aggregate(Q, counts.astype(float))
        repeated = fitted.aggregate(np.repeat(Q, counts, axis=0))
        np.testing.assert_allclose(weighted, repeated, atol=1e-6)


def test_far_bags(device):
    # At a bandwidth this small the kernels of some bags are zero in any plain arithmetic.
    P, y, Q, bags = problem(seed=6)
    for quantifier in (kdey.KDEyML(bandwidth=0.002), kdey.KDEyCS(bandwidth=0.002)):
        with pytest.warns(UserWarning, match="bandwidth"):
            fitted = quantifier.fit_posteriors(P, y)
        wanted = fitted.solve_posteriors(Q, bags)
        found = fitted.set_params(device=device).solve_posteriors(Q, bags)
        np.testing.assert_allclose(found.prevalence, wanted.prevalence, atol=TOLERANCE)
        assert found.converged.all()


def test_from_instances(device):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int) + (X[:, 1] > 1)
    host = kdey.KDEyML(LogisticRegression(), bandwidth=0.1, cv=3, random_state=0).fit(X, y)
    there = clone(host).set_params(device=device).fit(X, y)
    np.testing.assert_allclose(there.predict(X), host.predict(X), atol=TOLERANCE)
    results = kdey.evaluate({"host": host, "there": there}, X, y, kdey.APP(20, 50), verbose=False)
    summary = [results.methods[name].solution for name in ("host", "there")]
    np.testing.assert_allclose(summary[0].prevalence, summary[1].prevalence, atol=TOLERANCE)


class TensorClassifier(LogisticRegression):
    """A classifier whose posteriors are tensors on a device."""

    where = "cpu"

    def predict_proba(self, X):
        return torch.from_numpy(super().predict_proba(X)).to(self.where)


def test_classifiers_that_give_tensors(device, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    options = {"bandwidth": 0.1, "cv": 3, "random_state": 0}
    wanted = kdey.KDEyML(LogisticRegression(), **options).fit(X, y).predict(X)
    monkeypatch.setattr(TensorClassifier, "where", "cpu" if device == "torch-cpu" else device)
    found = kdey.KDEyML(TensorClassifier(), device=device, **options).fit(X, y).predict(X)
    np.testing.assert_allclose(found, wanted, atol=TOLERANCE)


@pytest.mark.parametrize("make", [kdey.KDEyML, kdey.KDEyCS, kdey.EMQ])
def test_grid_search(device, make):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(240, 3))
    y = (X[:, 0] + rng.normal(size=240) > 0).astype(int)
    grid = {"calibration": [None, "temperature"]} if make is kdey.EMQ else {}
    grid = grid or {"bandwidth": [0.05, 0.2], "device": ["cpu", device]}
    quantifier = make(LogisticRegression(), cv=3, random_state=0, device=device)
    options = {"protocol": kdey.APP(20, 40, random_state=0), "verbose": False, "refit": False}
    host = kdey.GridSearchQ(quantifier.set_params(device="cpu"), grid, **options).fit(X, y)
    there = kdey.GridSearchQ(quantifier.set_params(device=device), grid, **options).fit(X, y)
    wanted, found = (one.cv_results_["mean_test_score"] for one in (host, there))
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(found, wanted, atol=TOLERANCE)


def small_search(quantifier, grid):
    """Return a fitted search without a refit, whose candidates may not fail."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    options = {"protocol": kdey.APP(10, 40, random_state=0), "verbose": False, "refit": False}
    return kdey.GridSearchQ(quantifier, grid, error_score="raise", **options).fit(X, y)


@pytest.mark.filterwarnings("ignore:the best candidate")
def test_a_search_solves_all_bandwidths_in_one_batch(device, monkeypatch):
    quantifier = kdey.KDEyML(LogisticRegression(), cv=3, random_state=0)
    grid = {"bandwidth": [0.02, 0.05, 0.1, 0.2]}
    wanted = small_search(quantifier, grid).cv_results_["mean_test_score"]
    calls = []
    monkeypatch.setattr(solve, "solve_interior", record_calls(solve.solve_interior, calls))
    found = small_search(quantifier.set_params(device=device), grid).cv_results_["mean_test_score"]
    assert len(calls) == 1
    np.testing.assert_allclose(found, wanted, atol=TOLERANCE)


@pytest.mark.parametrize("solvers", [["exact", "em"], ["em", "exact"]])
def test_a_search_over_methods_with_and_without_a_route(device, solvers):
    quantifier = kdey.EMQ(LogisticRegression(), device=device)
    found = small_search(quantifier, {"solver": solvers}).cv_results_["mean_test_score"]
    host = small_search(quantifier.set_params(device="cpu"), {"solver": solvers})
    np.testing.assert_allclose(found, host.cv_results_["mean_test_score"], atol=TOLERANCE)
