r"""Overlap rows against numerical integration.

The kernel lives in the ambient R^k, while posteriors lie in the plane of the simplex. There a
kernel density is the plane's own density times one Gaussian N(z; 0, h^2) of the distance z from
the plane, so with a, B and c as the rows give them (no normaliser)

    (4 pi h^2)^(-k/2) a = int_{R^k} p q = int_plane p q * int N(z; 0, h^2)^2 dz
                        = int_plane p q / (2 h sqrt(pi)),

one factor for a, B and c alike: neither the Cauchy-Schwarz divergence nor the minimiser of the
integrated squared error sees it.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from kdey.bags import Bags
from kdey.posteriors import TrainingPosteriors
from kdey.quantifiers.densities import KDEyCS, KDEyL2
from kdey.rows import kernel as overlap
from kdey.rows.kernel import KernelSpec, OverlapMap
from tests.objectives import divergence_at, mean_kernels

from .cases import plane_density, plane_grid, posteriors, repeated, training

GRIDS = {2: (0.02, 2.0), 3: (0.05, 1.8)}


def spec(h, kernel="gaussian"):
    return OverlapMap(KernelSpec(h, kernel, 1e-3, "double"))


def integrals(k, h, given, bag):
    """Return a, B and c integrated over the plane."""
    grid, area = plane_grid(k, *GRIDS[k])
    w = given.weights
    p = np.stack(
        [
            plane_density(grid, given.required()[own], h, None if w is None else w[own])
            for own in (given.labels == i for i in range(k))
        ]
    )
    q = plane_density(grid, bag, h)
    return area * p @ q, area * p @ p.T, area * q @ q


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("k", "h"), [(2, 0.05), (2, 0.2), (3, 0.1), (3, 0.2)])
def test_overlaps_are_integrals(k, h, weighted):
    given, bag = training(k, 30, weighted=weighted), posteriors(k, 12, 5)[0]
    made = spec(h).fit(given, k)
    rows, whole = made(bag), Bags.whole(len(bag))
    a, gram, c = integrals(k, h, given, bag)
    factor = (4 * np.pi * h * h) ** (k / 2) / (2 * h * np.sqrt(np.pi))
    np.testing.assert_allclose(rows.mean(whole)[0], factor * a, rtol=1e-6)
    np.testing.assert_allclose(made.templates, factor * gram, rtol=1e-6)
    np.testing.assert_allclose(mean_kernels(rows, whole), [factor * c], rtol=1e-6)


@pytest.mark.parametrize(("k", "h"), [(2, 0.1), (3, 0.15)])
def test_full_divergences_are_integrals(k, h):
    given, bag = training(k, 30), posteriors(k, 12, 5)[0]
    a, gram, c = integrals(k, h, given, bag)
    alpha = np.random.default_rng(0).dirichlet(np.ones(k))
    expected = -np.log(a @ alpha / np.sqrt(alpha @ gram @ alpha * c))
    cs = KDEyCS(bandwidth=h, precision="double").fit_posteriors(given.required(), given.labels)
    assert divergence_at(cs, bag, alpha)[0] == pytest.approx(expected, abs=1e-7)
    squared_error = alpha @ gram @ alpha - 2 * a @ alpha + c
    factor = (4 * np.pi * h * h) ** (k / 2) / (2 * h * np.sqrt(np.pi))
    l2 = KDEyL2(bandwidth=h, precision="double").fit_posteriors(given.required(), given.labels)
    expected = factor * squared_error / 2
    assert divergence_at(l2, bag, alpha)[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_appendix_c_a_gaussian_overlaps_itself_with_four_pi(dimension):
    h = 0.3
    x = np.linspace(-4, 4, 2001)
    one = (norm.pdf(x, scale=h) ** 2).sum() * (x[1] - x[0])
    assert one**dimension == pytest.approx(h**-dimension * (4 * np.pi) ** (-dimension / 2))
    assert one**dimension != pytest.approx(h**-dimension * (2 * np.pi) ** (-dimension / 2))


@pytest.mark.parametrize("kernel", ["gaussian", "aitchison"])
def test_overlaps_are_double_sums(kernel):
    h, given, bag = 0.3, training(4, 40, weighted=True), posteriors(4, 9, 2)[0]
    made = spec(h, kernel).fit(given, 4)

    def coordinates(p):
        q = 0.999 * p + 0.001 / 4
        return p if kernel == "gaussian" else np.log(q) - np.log(q).mean(axis=1, keepdims=True)

    x, y, w = coordinates(given.required()), coordinates(bag), given.weights
    for i in range(4):
        own = given.labels == i
        a = [np.exp(-((x[own] - z) ** 2).sum(axis=1) / (4 * h * h)) @ w[own] for z in y]
        assert made(bag).mean(Bags.whole(9))[0, i] == pytest.approx(np.mean(a) / w[own].sum())
        for j in range(4):
            other = given.labels == j
            kernels = [np.exp(-((x[other] - z) ** 2).sum(axis=1) / (4 * h * h)) for z in x[own]]
            expected = w[own] @ np.array(kernels) @ w[other] / w[own].sum() / w[other].sum()
            assert made.templates[i, j] == pytest.approx(expected, rel=1e-8)


def test_training_weights_are_repetitions():
    given, bag = training(3, weighted=True), posteriors(3, 9, 2)[0]
    weighted, written = spec(0.1).fit(given, 3), spec(0.1).fit(repeated(given), 3)
    np.testing.assert_allclose(weighted.templates, written.templates, rtol=1e-8)
    whole = Bags.whole(9)
    np.testing.assert_allclose(weighted(bag).mean(whole), written(bag).mean(whole), rtol=1e-8)


def test_bag_weights_are_repetitions():
    made, bag = spec(0.1).fit(training(3), 3), posteriors(3, 9, 2)[0]
    counts = np.arange(9)
    weighted, written = Bags.whole(9, counts), Bags.from_indices([np.repeat(range(9), counts)], 9)
    rows = made(bag)
    for method in (rows.mean, rows.log_mean):
        np.testing.assert_allclose(method(weighted), method(written), rtol=1e-9)


def test_no_underflow_where_bag_and_classes_are_far_apart():
    # All kernels underflow: exp(-d^2 / (4 h^2)) with d about 0.4 and h = 0.002.
    given, h = training(3), 0.002
    p, y = given.required(), given.labels
    bag = np.array([[0.999, 0.0005, 0.0005], [0.9985, 0.001, 0.0005]])
    far = p[:, 0] < 0.7
    with pytest.warns(UserWarning, match="bandwidth=0.002"):
        made = spec(h).fit(type(given)(p[far], y[far]), 3)
    rows = made(bag)
    bags = Bags.from_indices([[0, 1], [1]], 2, [[1.0, 3.0], [1.0]])
    assert (rows.mean(bags) == 0).all()
    for b, w in enumerate(([0.25, 0.75], [0.0, 1.0])):
        expected = []
        for i in range(3):
            own = p[far][y[far] == i]
            logs = -((bag[:, None] - own[None]) ** 2).sum(axis=2) / (4 * h * h)
            expected.append(logsumexp(logs, b=np.array(w)[:, None] / len(own)))
        best = int(np.argmax(expected))
        found = rows.log_mean(bags)[b]
        assert found[best] == pytest.approx(expected[best], rel=1e-6)
        assert found.argmax() == best


def test_no_digit_is_lost_where_kernels_are_almost_zero():
    # exp(-742) is a denormal number of two digits.
    p, y = np.array([[0.5, 0.5], [0.4, 0.6]]), np.array([0, 1])
    bag = np.array([[0.9, 0.1]])
    h = np.sqrt(((bag - p[0]) ** 2).sum() / (4 * 742.0))
    with pytest.warns(UserWarning, match="shrink to nearest"):
        made = spec(h).fit(TrainingPosteriors(p, y), 2)
    assert made(bag).log_mean(Bags.whole(1))[0, 0] == pytest.approx(-742.0, rel=1e-9)


@pytest.mark.parametrize("chunk", [1, 7, 50])
def test_chunks_do_not_matter(chunk, monkeypatch):
    given = training(3, weighted=True)
    whole = spec(0.1).fit(given, 3).templates
    monkeypatch.setattr(overlap, "_CHUNK", chunk)
    np.testing.assert_allclose(spec(0.1).fit(given, 3).templates, whole, rtol=1e-9)
