"""The paper's own examples and equivalences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import wasserstein_distance

import kdey
from kdey.bags import Bags
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture
from tests.objectives import divergence_at

# Section "Pitfalls of Histograms on Multiclass Data".
THREE_A = np.array([[0.1, 0.2, 0.7], [0.1, 0.1, 0.8], [0.2, 0.3, 0.5]])
THREE_B = np.array([[0.1, 0.3, 0.6], [0.1, 0.2, 0.7], [0.2, 0.1, 0.7]])
FOUR_A = np.array([[0.1, 0.2, 0.3, 0.4], [0.2, 0.3, 0.4, 0.1], [0.3, 0.4, 0.1, 0.2]])
FOUR_B = np.array([[0.1, 0.3, 0.4, 0.2], [0.3, 0.2, 0.1, 0.4], [0.2, 0.4, 0.3, 0.1]])
DIVERGENCES = ("hellinger", "topsoe", "cauchy-schwarz", "mean-hellinger", "jensen-shannon")


def labelled(*classes):
    return np.vstack(classes), np.repeat(np.arange(len(classes)), [len(c) for c in classes])


def three():
    return labelled(THREE_A, THREE_B, [[0.6, 0.3, 0.1], [0.8, 0.1, 0.1]])


def four():
    return labelled(FOUR_A, FOUR_B, [[0.7, 0.1, 0.1, 0.1]], [[0.1, 0.1, 0.1, 0.7]])


def random_problem(k, seed=0, n=150, m=60):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    p = rng.dirichlet(np.ones(k), n) + np.eye(k)[y] * rng.random((n, 1))
    bag = rng.dirichlet(np.ones(k) + 2 * np.eye(k)[0], m)
    return p / p.sum(axis=1, keepdims=True), y, bag


def slsqp(loss, k):
    """Return the best of several runs of a general-purpose constrained optimiser."""
    starts = [np.full(k, 1 / k), *np.random.default_rng(0).dirichlet(np.ones(k), 4)]
    found = [
        minimize(
            loss,
            start,
            method="SLSQP",
            bounds=[(0, 1)] * k,
            constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        for start in starts
    ]
    best = min(found, key=lambda r: r.fun).x
    return np.maximum(best, 0) / np.maximum(best, 0).sum()


def test_two_histograms_cannot_tell_three_class_bags_apart_but_three_can():
    made = kdey.DM(n_bins=10).fit_posteriors(*three()).row_map_
    a, b = (made(bag).mean(Bags.whole(3)).reshape(3, 10) for bag in (THREE_A, THREE_B))
    np.testing.assert_array_equal(a[:2], b[:2])
    assert (a[2] != b[2]).any()


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_dm_tells_the_three_class_bags_apart_by_its_third_histogram(divergence):
    q = kdey.DM(divergence=divergence, n_bins=10).fit_posteriors(*three())
    for bag, vertex in ((THREE_A, [1, 0, 0]), (THREE_B, [0, 1, 0])):
        np.testing.assert_allclose(q.aggregate(bag), vertex, atol=1e-4)


@pytest.mark.parametrize("n_bins", [2, 3, 5, 10, 64, 1000])
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_histograms_cannot_tell_the_four_class_bags_apart(divergence, n_bins):
    q = kdey.DM(divergence=divergence, n_bins=n_bins).fit_posteriors(*four())
    templates = q.row_map_.templates
    np.testing.assert_array_equal(templates[:, 0], templates[:, 1])
    for bag in (FOUR_A, FOUR_B):
        for alpha in ([1, 0, 0, 0], [0, 1, 0, 0], [0.3, 0.7, 0, 0]):
            assert divergence_at(q, bag, alpha)[0] == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("h", [0.03, 0.05, 0.1])
def test_kernel_densities_tell_the_four_class_bags_apart(h):
    bags = ((FOUR_A, np.eye(4)[0], np.eye(4)[1]), (FOUR_B, np.eye(4)[1], np.eye(4)[0]))
    for make in (kdey.KDEyCS, kdey.KDEyL2, kdey.KDEyHD):
        extra = {"n_points": 800, "random_state": 0} if make is kdey.KDEyHD else {}
        q = make(bandwidth=h, precision="double", **extra).fit_posteriors(*four())
        for bag, own, other in bags:
            assert divergence_at(q, bag, own)[0] == pytest.approx(0, abs=1e-5)
            assert divergence_at(q, bag, other)[0] > 0.05
            np.testing.assert_allclose(q.aggregate(bag), own, atol=0.01)
    ml = kdey.KDEyML(bandwidth=h).fit_posteriors(*four())
    for bag, own, _ in bags:
        np.testing.assert_allclose(ml.aggregate(bag), own, atol=0.05)


@pytest.mark.parametrize("k", [3, 5])
def test_firat_and_bunse_are_equivalent_for_the_squared_hellinger_distance(k):
    p, y, bag = random_problem(k)
    q = kdey.DM(divergence="hellinger", n_bins=6).fit_posteriors(p, y)
    templates = q.row_map_.templates
    target = q.row_map_(bag).mean(Bags.whole(len(bag)))[0]

    def firat(alpha):  # concatenated histograms, which sum to k
        return 1 - np.sqrt(np.maximum(templates @ alpha, 0) * target).sum()

    def bunse(alpha):  # mean over the class-wise histograms
        parts = np.sqrt((templates @ alpha) * target).reshape(k, 6).sum(axis=1)
        return np.mean(1 - parts)

    for alpha in np.random.default_rng(1).dirichlet(np.ones(k), 10):
        assert firat(alpha) - 1 == pytest.approx(k * (bunse(alpha) - 1))
        assert divergence_at(q, bag, alpha)[0] == pytest.approx(2 * bunse(alpha))
        concatenated = ((np.sqrt(templates @ alpha) - np.sqrt(target)) ** 2).sum()
        assert concatenated == pytest.approx(k * divergence_at(q, bag, alpha)[0])
    found = q.aggregate(bag)
    np.testing.assert_allclose(found, slsqp(firat, k), atol=1e-4)
    np.testing.assert_allclose(found, slsqp(bunse, k), atol=1e-4)


def test_the_mean_of_unsquared_distances_is_another_problem():
    p, y, bag = random_problem(3)
    squared = kdey.DM(divergence="hellinger", n_bins=6).fit_posteriors(p, y)
    unsquared = kdey.DM(divergence="mean-hellinger", n_bins=6).fit_posteriors(p, y)
    assert np.abs(squared.aggregate(bag) - unsquared.aggregate(bag)).max() > 1e-3


@pytest.mark.parametrize("k", [2, 3, 6])
def test_cauchy_schwarz_closed_form(k):
    """The paper's D_CS, by double sums over kernels of covariance 2 h^2 I."""
    h = 0.15
    p, y, bag = random_problem(k, seed=k)

    def z(x1, x2):
        squared = ((x1[:, None] - x2[None]) ** 2).sum(axis=2)
        return np.exp(-squared / (4 * h * h)).mean() / (4 * np.pi * h * h) ** (k / 2)

    classes = [p[y == i] for i in range(k)]
    a = np.array([z(own, bag) for own in classes])
    b = np.array([[z(one, two) for two in classes] for one in classes])

    def divergence(alpha):
        return -np.log(a @ alpha) + 0.5 * np.log(alpha @ b @ alpha) + 0.5 * np.log(z(bag, bag))

    q = kdey.KDEyCS(bandwidth=h, precision="double").fit_posteriors(p, y)
    for alpha in np.random.default_rng(0).dirichlet(np.ones(k), 5):
        assert divergence_at(q, bag, alpha)[0] == pytest.approx(divergence(alpha), abs=1e-8)
    found, rival = q.aggregate(bag), slsqp(divergence, k)
    assert divergence(found) <= divergence(rival) + 1e-10
    np.testing.assert_allclose(found, rival, atol=1e-4)


@pytest.mark.smoke
def test_l2_is_the_quadratic_program_of_the_same_overlaps():
    p, y, bag = random_problem(4)
    q = kdey.KDEyL2(bandwidth=0.15, precision="double").fit_posteriors(p, y)
    found, rival = q.aggregate(bag), slsqp(lambda a: divergence_at(q, bag, a / a.sum())[0], 4)
    assert divergence_at(q, bag, found)[0] <= divergence_at(q, bag, rival)[0] + 1e-12
    np.testing.assert_allclose(found, rival, atol=1e-3)


def test_maximum_likelihood_is_the_monte_carlo_kullback_leibler_divergence():
    """Averaging log q / p over the bag itself differs from the likelihood by a constant."""
    p, y, bag = random_problem(3)
    q = kdey.KDEyML(bandwidth=0.15, precision="double").fit_posteriors(p, y)
    logs = q.row_map_(bag).array
    entropy = -1.234  # E_q log q: no alpha in it

    def kl(alpha):
        with np.errstate(divide="ignore"):
            return entropy - logsumexp(logs + np.log(np.maximum(alpha, 0)), axis=1).mean()

    found = q.aggregate(bag)
    np.testing.assert_allclose(found, slsqp(kl, 3), atol=1e-4)
    assert divergence_at(q, bag, found)[0] == pytest.approx(kl(found) - entropy)


def test_the_kl_variant_of_kdeyhd_is_the_likelihood_of_the_smoothed_bag():
    """KL(q || p) between kernel densities is minimised where points drawn from q are likeliest."""
    h = 0.15
    p, y, bag = random_problem(3)
    kl = kdey.KDEyHD(divergence="kl", bandwidth=h, n_points=30_000, random_state=0)
    kl.fit_posteriors(p, y)
    rng = np.random.default_rng(0)
    drawn = bag[rng.integers(len(bag), size=30_000)] + h * rng.normal(size=(30_000, 3))
    logs = kl.row_map_.references.log_means(drawn, h, 1)
    expected = solve_mixture(MixtureLikelihood.from_log_rows(logs, Bags.whole(30_000)))
    np.testing.assert_allclose(kl.aggregate(bag), expected.prevalence[0], atol=0.03)


@pytest.mark.parametrize("seed", range(4))
def test_pp_area_is_l1_is_wasserstein(seed):
    """MM with PP-area: L1 between CDFs, the earth mover's distance of the histograms."""
    p, y, bag = random_problem(2, seed)
    n_bins = 20
    mm = kdey.MM(criterion="pp-area", n_bins=n_bins).fit_posteriors(p, y)
    centres = (np.arange(n_bins) + 0.5) / n_bins
    histograms = np.diff(mm.row_map_.templates, axis=0, prepend=0)
    target = np.histogram(bag[:, 1], n_bins, (0, 1))[0] / len(bag)

    def emd(share):
        mixture = histograms @ [1 - share, share]
        return wasserstein_distance(centres, centres, mixture, target)

    for share in (0.0, 0.3, 1.0):
        assert divergence_at(mm, bag, [1 - share, share])[0] == pytest.approx(emd(share))
    found = mm.aggregate(bag)[1]
    grid = np.linspace(0, 1, 401)
    assert emd(found) <= min(emd(share) for share in grid) + 1e-12
    ordinal = kdey.DyS(dissimilarity="ordinal", n_bins=n_bins).fit_posteriors(p, y)
    assert emd(ordinal.aggregate(bag)[1]) == pytest.approx(emd(found), abs=1e-8)


def test_kolmogorov_smirnov_is_the_largest_difference():
    p, y, bag = random_problem(2)
    mm = kdey.MM(criterion="ks", n_bins=50).fit_posteriors(p, y)
    edges = np.arange(1, 51) / 50

    def cdf(values):
        return np.array([(values < edge).mean() if edge < 1 else 1.0 for edge in edges])

    f0, f1, fu = cdf(p[y == 0, 1]), cdf(p[y == 1, 1]), cdf(bag[:, 1])

    def ks(share):
        return np.abs((1 - share) * f0 + share * f1 - fu).max()

    found = mm.aggregate(bag)[1]
    assert divergence_at(mm, bag)[0] == pytest.approx(ks(found))
    assert ks(found) <= min(ks(share) for share in np.linspace(0, 1, 1001)) + 1e-7


def test_hdy_is_the_median_over_its_numbers_of_bins():
    p, y, bag = random_problem(2)
    bins = tuple(range(10, 120, 10))
    parts = []
    for n_bins in bins:
        m = np.array(
            [np.histogram(p[y == i, 1], n_bins, (0, 1))[0] / (y == i).sum() for i in (0, 1)]
        )
        q = np.histogram(bag[:, 1], n_bins, (0, 1))[0] / len(bag)
        shares = np.linspace(0, 1, 2001)
        mixtures = np.outer(1 - shares, m[0]) + np.outer(shares, m[1])
        parts.append(shares[np.sqrt(mixtures * q).sum(axis=1).argmax()])
    found = kdey.HDy().fit_posteriors(p, y).aggregate(bag)[1]
    assert found == pytest.approx(np.median(parts), abs=1e-3)
