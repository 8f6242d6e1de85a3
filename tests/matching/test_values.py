"""Objectives against plain loops over the formulae in their documentation, edges included."""

from math import log, sqrt

import numpy as np
import pytest

from kdey.bags import Bags
from kdey.matching.divergence import GENERATORS, NEGATIVE_LOG, Divergence, SeparableLoss
from kdey.matching.histograms import CdfDistance, HistogramCauchySchwarz, MeanHellinger
from kdey.matching.likelihood import MixtureLikelihood
from kdey.matching.squares import CauchySchwarz, LeastSquares, QuadraticMatch

RNG = np.random.default_rng(11)
M, Q = RNG.random((6, 3)), RNG.random((2, 6))
X = RNG.dirichlet(np.ones(3), size=2)


def _each(function):
    return [function(x, q) for x, q in zip(X, Q, strict=True)]


def test_least_squares():
    expected = _each(lambda x, q: sum((M[r] @ x - q[r]) ** 2 for r in range(6)) / 2)
    np.testing.assert_allclose(LeastSquares(M, Q).objective(X), expected)


@pytest.mark.smoke
def test_quadratic_match_is_half_the_squared_distance():
    constants = (Q**2).sum(axis=1) / 2
    found = QuadraticMatch(M.T @ M, Q @ M).objective(X) + constants
    np.testing.assert_allclose(found, LeastSquares(M, Q).objective(X))


def test_divergence_divides_by_the_reference():
    r = RNG.random(6) + 0.5
    phi = GENERATORS["chi2"].value
    expected = _each(lambda x, q: sum(phi(M[t] @ x, q[t]) / r[t] for t in range(6)))
    np.testing.assert_allclose(Divergence(M, Q, "chi2", r).objective(X), expected)


def test_divergence_gap_is_unknown_where_the_value_is_infinite():
    problem = Divergence(np.eye(2), [[0.5, 0.5], [0.5, 0.5]], "kl")
    gap = problem.gap(np.array([[1.0, 0.0], [0.5, 0.5]]))
    assert np.isnan(gap[0])
    assert gap[1] == 0


def _histograms():
    rng = np.random.default_rng(3)
    templates = rng.random((2, 4, 3)) * (rng.random((2, 4, 3)) < 0.8)
    templates[:, 3] = 0.0
    return templates, rng.random((2, 2, 4)) + 0.1


def test_mean_hellinger():
    templates, targets = _histograms()
    expected = []
    for x, q in zip(X, targets, strict=True):
        roots = []
        for c in range(2):
            p = templates[c] @ x
            roots.append(sqrt(sum((sqrt(p[b]) - sqrt(q[c, b])) ** 2 for b in range(4)) / 2))
        expected.append(sum(roots) / 2)
    np.testing.assert_allclose(MeanHellinger(templates, targets).objective(X), expected)


def test_histogram_cauchy_schwarz():
    templates, targets = _histograms()
    expected = []
    for x, q in zip(X, targets, strict=True):
        terms = []
        for c in range(2):
            p = templates[c] @ x
            terms.append(-log((q[c] @ p) / (sqrt(q[c] @ q[c]) * sqrt(p @ p))))
        expected.append(sum(terms) / 2)
    np.testing.assert_allclose(HistogramCauchySchwarz(templates, targets).objective(X), expected)


def test_histograms_that_part_are_infinitely_far():
    templates = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    problem = HistogramCauchySchwarz(templates, [[[1.0, 0.0]]])
    away = np.array([[0.0, 1.0]])
    assert problem.objective(away)[0] == np.inf
    np.testing.assert_array_equal(problem.gradient(away), [[-np.inf, np.nan]])


def test_mean_hellinger_slopes_at_its_edges():
    templates = np.array([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]])
    away = np.array([[1.0, 0.0]])
    # A bin that only the absent class can fill pulls it in; the bin of no class says nothing.
    pulled = MeanHellinger(templates, [[[0.5, 0.4, 0.1]]])
    slope = pulled.gradient(away)[0]
    assert slope[1] == -np.inf
    root = sqrt(((1 - sqrt(0.5)) ** 2 + 0.4 + 0.1) / 2)
    np.testing.assert_allclose(slope[0], 0.25 / root * (1 - sqrt(0.5)))
    # An exact match is the tip of a cone.
    matched = MeanHellinger(templates, [[[1.0, 0.0, 0.0]]])
    np.testing.assert_array_equal(matched.gradient(away), [[0.0, 0.0]])
    assert np.isfinite(matched.hessian(away)).all()
    assert np.isfinite(pulled.hessian(away)).all()


def test_cauchy_schwarz_without_self_products_and_on_any_scale():
    a = Q @ M
    expected = _each(lambda x, q: -log(q @ M @ x) + log(x @ M.T @ M @ x) / 2)
    problem = CauchySchwarz.from_targets(M.T @ M, a)
    np.testing.assert_allclose(problem.objective(X), expected)
    np.testing.assert_allclose(problem.scaled_targets.max(axis=1), 1.0)
    high = CauchySchwarz(M.T @ M, np.log(a) + 1e5)
    np.testing.assert_allclose(high.objective(X), np.array(expected) - 1e5)
    np.testing.assert_allclose(high.gap(X), problem.gap(X), rtol=1e-9)


def test_cauchy_schwarz_where_a_class_or_the_bag_says_nothing():
    gram = np.array([[4.0, 0.0, 1.0], [0.0, 4.0, 1.0], [1.0, 1.0, 4.0]])
    problem = CauchySchwarz.from_targets(gram, [[1.0, 0.0, 0.5], [0.0, 0.0, 0.0]])
    x = np.array([[0.0, 1.0, 0.0], [0.2, 0.3, 0.5]])
    np.testing.assert_array_equal(problem.is_informative, [True, False])
    np.testing.assert_array_equal(problem.objective(x), [np.inf, np.nan])
    np.testing.assert_array_equal(problem.gap(x), [np.inf, np.nan])
    # Class 1 has no product with the bag and must not count for the bound.
    y = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(problem.gap(y)[0], log((0.5 / 1.0) / (1.0 / 4.0)))


@pytest.mark.parametrize("norm", ["l1", "max"])
def test_cdf_distance(norm):
    w, x = RNG.random(6), X[:, :2] / X[:, :2].sum(axis=1, keepdims=True)
    problem = CdfDistance(M[:, :2], Q, w, norm)
    for b in range(2):
        parts = [abs(M[t, :2] @ x[b] - Q[b, t]) for t in range(6)]
        weighted = sum(w[t] * parts[t] for t in range(6))
        np.testing.assert_allclose(
            problem.objective(x)[b], weighted if norm == "l1" else max(parts)
        )
    np.testing.assert_array_equal(np.isnan(problem.gap(x)), norm == "max")


def test_cdf_distance_gap_is_what_the_one_sided_slopes_promise():
    rng = np.random.default_rng(5)
    templates, targets, w = rng.random((7, 2)), rng.random((1, 7)), rng.random(7)
    w[2] = 0.0
    d = templates[:, 1] - templates[:, 0]
    kinks = (targets[0] - templates[:, 0]) / d
    shares = np.concatenate([[0.0, 1.0, 0.3, 0.7], kinks[(kinks > 0) & (kinks < 1)]])
    problem = CdfDistance(templates, targets, w).take(np.zeros(len(shares), dtype=np.int64))

    def value(a):
        return problem.objective(np.stack([1 - a, a], axis=1))

    eps = 1e-7
    right = (value(shares + eps) - value(shares)) / eps
    left = (value(shares) - value(shares - eps)) / eps
    expected = np.maximum(np.maximum(-right * (1 - shares), left * shares), 0)
    gap = problem.gap(np.stack([1 - shares, shares], axis=1))
    np.testing.assert_allclose(gap, expected, atol=1e-6)


def test_rows_of_no_weight_do_not_count_however_bad_they_are():
    rows = np.array([[1.0, 0.0], [0.0, 1.0]])
    loss = SeparableLoss(rows, np.array([1.0, 0.0]), np.zeros(2), NEGATIVE_LOG)
    corner = np.array([1.0, 0.0])
    assert loss.value(corner) == 0
    np.testing.assert_array_equal(loss.gradient(corner), [-1.0, 0.0])
    np.testing.assert_array_equal(loss.hessian(corner), [[1.0, 0.0], [0.0, 0.0]])


def test_an_infinite_slope_counts_for_the_classes_of_its_row_alone():
    rows = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]])
    loss = SeparableLoss(rows, np.array([0.25, 0.75]), np.zeros(2), NEGATIVE_LOG)
    slope = loss.gradient(np.array([1.0, 0.0, 0.0]))
    np.testing.assert_array_equal(slope, [-0.25, -np.inf, -0.125])


def test_mixture_rows_are_held_with_a_largest_entry_of_one():
    rows = np.array([[2.0, 4.0], [0.0, 0.0], [3.0, 1.0]])
    problem = MixtureLikelihood(rows, Bags.whole(3), np.array([0.5, 0.0, -1.0]))
    np.testing.assert_allclose(problem.rows, [[0.5, 1.0], [0.0, 0.0], [1.0, 1 / 3]])
    np.testing.assert_allclose(problem.log_scales, [0.5 + log(4), 0.0, log(3) - 1])
    logs = MixtureLikelihood.from_log_rows([[-np.inf, -np.inf], [0.0, -np.inf]], Bags.whole(2))
    np.testing.assert_array_equal(logs.rows, [[0.0, 0.0], [1.0, 0.0]])
    np.testing.assert_array_equal(logs.log_scales, 0.0)


def test_mixture_weights_say_whether_a_bag_informs_and_survive_take():
    rows = np.array([[0.0, 0.0], [1.0, 0.2], [0.1, 1.0]])
    bags = Bags.from_indices([[0, 1], [0, 2], [2]], 3, [[1.0, 0.0], [1.0, 2.0], [0.5]])
    problem = MixtureLikelihood(rows, bags)
    np.testing.assert_array_equal(problem.is_informative, [False, True, True])
    np.testing.assert_array_equal(problem.n_ignored, [1, 1, 0])
    part = problem.take(np.array([2, 1]))
    np.testing.assert_array_equal(part.bags.weights, [0.5, 1.0, 2.0])
    np.testing.assert_array_equal(part.bags.offsets, [0, 1, 3])
    np.testing.assert_array_equal(part.loss(1).weights, [1.0])


def test_em_steps_keep_absent_classes_absent_where_their_slope_is_infinite():
    problem = MixtureLikelihood(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.5]]), Bags.whole(2))
    np.testing.assert_allclose(problem.em_step(np.array([[0.5, 0.5, 0.0]])), [[0.5, 0.5, 0.0]])
