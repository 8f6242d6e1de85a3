"""Density rows against scikit-learn's KernelDensity and scipy's Dirichlet."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import helmert
from scipy.stats import dirichlet
from sklearn.neighbors import KernelDensity

from kdey.rows.kernel import KernelDensityMap, KernelSpec
from kdey.rows.posterior import DirichletMap

from .cases import posteriors, repeated, training


def normaliser(k, h):
    return -0.5 * k * np.log(2 * np.pi * h * h)


def assert_same(found, expected, tolerance):
    """Assert what the kernel promises: densities over the row's largest, to ``tolerance``."""
    top = expected.max(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(found - top), np.exp(expected - top), atol=tolerance)


def clr(p, shrinkage):
    q = (1 - shrinkage) * p + shrinkage / p.shape[1]
    return np.log(q) - np.log(q).mean(axis=1, keepdims=True)


def kernel_densities(given, at, h, coordinates=lambda p: p):
    """Return the log density of each class by scikit-learn, shape (m, k)."""
    p, k = coordinates(given.required()), given.required().shape[1]
    out = []
    for own in (given.labels == i for i in range(k)):
        weights = None if given.weights is None else given.weights[own]
        model = KernelDensity(bandwidth=h, rtol=1e-12).fit(p[own], sample_weight=weights)
        out.append(model.score_samples(coordinates(at)))
    return np.stack(out, axis=1)


@pytest.mark.smoke
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("k", "h"), [(2, 0.03), (3, 0.1), (7, 0.2), (28, 0.1)])
def test_gaussian_rows_are_scikit_learns_densities(k, h, weighted):
    given, at = training(k, 120, weighted=weighted), posteriors(k, 40, 1)[0]
    rows = KernelDensityMap(KernelSpec(h, "gaussian", 1e-3, "double")).fit(given, k)(at).array
    assert_same(rows + normaliser(k, h), kernel_densities(given, at, h), 1e-9)


@pytest.mark.parametrize(("kernel", "h", "k"), [("gaussian", 0.02, 5), ("aitchison", 0.3, 5)])
def test_mixed_precision_keeps_its_promise(kernel, h, k):
    given, at = training(k, 300), posteriors(k, 60, 1)[0]
    rows = KernelDensityMap(KernelSpec(h, kernel, 1e-3, "mixed")).fit(given, k)(at).array
    expected = kernel_densities(
        given, at, h, (lambda p: p) if kernel == "gaussian" else (lambda p: clr(p, 1e-3))
    )
    assert_same(rows + normaliser(k, h), expected, 1e-4)


@pytest.mark.parametrize("shrinkage", [1e-2, 1e-5])
def test_log_ratio_rows_are_densities_of_log_ratios(shrinkage):
    k, h, given = 4, 0.4, training(4, 80)
    at = np.vstack([posteriors(k, 20, 1)[0], np.eye(k)])
    spec = KernelDensityMap(KernelSpec(h, "aitchison", shrinkage, "double"))
    rows = spec.fit(given, k)(at).array
    expected = kernel_densities(given, at, h, lambda p: clr(p, shrinkage))
    assert_same(rows + normaliser(k, h), expected, 1e-9)


def test_ilr_is_the_density_of_isometric_log_ratios():
    k, h, given, at = 4, 0.4, training(4, 80), posteriors(4, 20, 1)[0]
    rows = KernelDensityMap(KernelSpec(h, "ilr", 1e-3, "double")).fit(given, k)(at).array
    expected = kernel_densities(given, at, h, lambda p: clr(p, 1e-3) @ helmert(k).T)
    assert_same(rows + normaliser(k - 1, h), expected, 1e-9)


@pytest.mark.parametrize("kernel", ["gaussian", "aitchison"])
def test_training_weights_are_repetitions(kernel):
    given, at = training(3, weighted=True), posteriors(3, 20, 1)[0]
    spec = KernelDensityMap(KernelSpec(0.2, kernel, 1e-3, "double"))
    weighted, written = spec.fit(given, 3)(at).array, spec.fit(repeated(given), 3)(at).array
    assert_same(weighted, written, 1e-9)


def test_rule_of_thumb_is_resolved_at_fit():
    given = training(3)
    refs = KernelDensityMap(KernelSpec("scott", "gaussian", 1e-3)).fit(given, 3).references
    p, y = given.required(), given.labels
    scatter = sum(((p[y == i] - p[y == i].mean(axis=0)) ** 2).sum() for i in range(3))
    sigma = np.sqrt(scatter / len(p) / 2)
    assert refs.bandwidth == pytest.approx(sigma * 20 ** (-1 / 6))


@pytest.mark.parametrize("weighted", [False, True])
def test_dirichlet_rows_are_scipys_densities(weighted):
    given, s = training(4, 200, weighted=weighted), 1e-4
    at = np.vstack([posteriors(4, 15, 1)[0], np.eye(4)])
    made = DirichletMap(s).fit(given, 4)
    shrunk = (1 - s) * at + s / 4
    expected = [[dirichlet.logpdf(row, a) for a in made.parameters] for row in shrunk]
    np.testing.assert_allclose(made(at).array, expected, rtol=1e-9, atol=1e-9)
    own = (1 - s) * given.required() + s / 4
    for i, a in enumerate(made.parameters):  # no class is more likely under another's Dirichlet
        logs = [
            np.average(
                [dirichlet.logpdf(row, b) for row in own[given.labels == i]],
                weights=None if given.weights is None else given.weights[given.labels == i],
            )
            for b in (a, a * 1.02, a * 0.98, made.parameters[i - 1])
        ]
        assert np.argmax(logs) == 0


def test_dirichlet_weights_are_repetitions():
    given, at = training(3, weighted=True), posteriors(3, 20, 1)[0]
    spec = DirichletMap(1e-6)
    weighted, written = spec.fit(given, 3)(at).array, spec.fit(repeated(given), 3)(at).array
    np.testing.assert_allclose(weighted, written, rtol=1e-7)
