"""The moment equation: against slow versions, the bootstrap, and populations with known truth."""

from __future__ import annotations

import numpy as np
import pytest

from kdey import PACC, KDEyML
from kdey.bags import Array, Bags, sampled_bags
from kdey.intervals.analytic import training_rows
from kdey.intervals.moments import (
    ClassRows,
    adapted,
    bag_moments,
    invert,
    regularised,
    training_moments,
    unstable,
)
from kdey.posteriors import TrainingPosteriors

from .cases import bag, training


def plain_rows(n: int = 90, k: int = 3, seed: int = 0) -> ClassRows:
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(0, k, n))
    offsets = np.searchsorted(labels, np.arange(k + 1)).astype(np.int64)
    rows = rng.random((n, k)) + 2 * np.eye(k)[labels]
    w = rng.random(n)
    w = (w / np.bincount(labels, weights=w)[labels]).astype(np.float32)
    return ClassRows(rows.astype(np.float32), offsets, w, np.arange(n))


def test_training_moments_against_a_loop() -> None:
    rows, tilt = plain_rows(), np.array([0.2, 0.3, 0.5])
    made = training_moments(rows, tilt)
    phi = adapted(rows.rows.astype(float), tilt)
    owners = np.repeat(np.arange(3), rows.counts)
    matrix = np.column_stack(
        [np.average(phi[owners == c], axis=0, weights=rows.weights[owners == c]) for c in range(3)]
    )
    np.testing.assert_allclose(made.inverse, np.linalg.inv(matrix), rtol=1e-4, atol=1e-5)
    z = phi @ np.linalg.inv(matrix).T
    shares = np.array([0.5, 0.1, 0.4])
    slow = sum(
        s * np.cov(z[owners == c].T, aweights=rows.weights[owners == c], ddof=0)
        for c, s in enumerate(shares)
    )
    mix = np.sqrt(shares * rows.sizes)  # the products weigh classes by mix^2 / sizes
    np.testing.assert_allclose(made.cross(made, mix, mix), slow, rtol=1e-3, atol=1e-4)
    assert (made.freedom >= 1).all()
    raw = np.array(
        [np.cov(phi[owners == c].T, aweights=rows.weights[owners == c], ddof=0) for c in range(3)]
    )
    covariances = slow_regularised(raw, matrix, rows.sizes)
    np.testing.assert_allclose(made.covariances, covariances, rtol=1e-3, atol=1e-6)
    inverse = np.linalg.inv(matrix)
    for c in range(3):
        within = inverse @ covariances[c] @ inverse.T
        np.testing.assert_allclose(made.spread[:, c], np.diag(within), rtol=1e-3)
        np.testing.assert_allclose(made.bias[:, c], within[:, c], rtol=1e-3, atol=1e-5)
    none = np.zeros(3)
    total = inverse @ np.tensordot(shares, covariances, axes=1) @ inverse.T
    np.testing.assert_allclose(made.covariance(shares, none), total, rtol=1e-3, atol=1e-5)
    assert (np.diag(made.covariance(none, mix)) > np.diag(total)).all()


def slow_regularised(raw: Array, matrix: Array, n: Array) -> Array:
    """Return covariances averaged with five pooled observations, with pseudo-observations."""
    k = len(n)
    unbiased = [raw[c] * n[c] / (n[c] - 1) for c in range(k)]
    pooled = sum((n[c] - 1) * unbiased[c] for c in range(k)) / sum(n - 1)
    out = []
    for c in range(k):
        apart = [matrix[:, j] - matrix[:, c] for j in range(k)]
        between = sum(np.outer(d, d) for d in apart) / k
        out.append((n[c] * unbiased[c] + 5 * pooled) / (n[c] + 5) + 0.75 / n[c] * between)
    return np.array(out)


def test_templates_of_classes_with_few_labels_are_uncertain() -> None:
    covariances = np.tile(np.eye(3) - 1 / 3, (3, 1, 1))
    raised = unstable(covariances, np.array([5.0, 1e4, 1e4]))
    np.testing.assert_allclose(raised.sum(axis=1), 0.0, atol=1e-12)
    assert (raised[:, 0, 0] > 1.4 * covariances[:, 0, 0]).all()
    np.testing.assert_array_equal(unstable(covariances, np.full(3, np.inf)), covariances)


def test_a_class_of_one_instance_has_the_pooled_covariance() -> None:
    raw = np.array([np.zeros((2, 2)), np.eye(2)])
    found = regularised(raw, np.zeros((2, 2)), np.array([1.0, 41.0]))
    np.testing.assert_allclose(found[0], 41 / 40 * np.eye(2))


def test_weights_of_training_instances_are_repetitions() -> None:
    rng = np.random.default_rng(1)
    P, y = training(60, rng)
    points, _ = bag(80, (0.2, 0.3, 0.5), rng)
    times = rng.integers(1, 4, len(y))
    weighted = training_rows(KDEyML(bandwidth=0.1).fit_posteriors(P, y, times).model_)
    assert weighted is not None
    mass = np.bincount(y, weights=times)
    assert (weighted.sizes < mass).all()
    one = PACC().fit_posteriors(P, y, times).estimate_posteriors(points)
    two = PACC().fit_posteriors(np.repeat(P, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(one.corrected, two.estimate_posteriors(points).corrected, atol=0.02)


def test_leave_one_out_rows_against_refits() -> None:
    rng = np.random.default_rng(2)
    P, y = training(30, rng)
    order = np.argsort(y, kind="stable")
    held = training_rows(KDEyML(bandwidth=0.1).fit_posteriors(P, y).model_)
    assert held is not None
    for position in (0, 7, 29):
        r = order[position]
        rest = np.delete(np.arange(len(y)), r)
        again = KDEyML(bandwidth=0.1).fit_posteriors(P[rest], y[rest]).row_map_(P[[r]]).array[0]
        np.testing.assert_allclose(held.rows[position], np.exp(again - again.max()), atol=1e-4)


def test_moment_estimate_is_free_of_smoothing_bias() -> None:
    # At this bandwidth the likelihood is off by far more than its noise.
    rng = np.random.default_rng(3)
    P, y = training(3000, rng)
    points, shares = bag(3000, (0.1, 0.2, 0.7), rng)
    made = KDEyML(bandwidth=0.3).fit_posteriors(P, y).estimate_posteriors(points, target="bag")
    assert np.abs(made.estimate - shares).max() > 0.05
    assert np.abs(made.corrected - shares).max() < 0.03
    assert ((made.low <= shares) & (shares <= made.high)).all()


def test_soft_moments_of_an_exact_likelihood_keep_its_estimate() -> None:
    rng = np.random.default_rng(4)
    rows = rng.random((500, 3)) ** 3
    w = np.full(500, 1 / 500)
    from kdey.matching.likelihood import MixtureLikelihood, solve_mixture

    found = solve_mixture(MixtureLikelihood(rows, Bags.whole(500)), tol=1e-12).prevalence[0]
    made = bag_moments(rows, w, found)
    np.testing.assert_allclose(made.inverse @ (w @ adapted(rows, found)), found, atol=1e-6)


@pytest.mark.parametrize("target", ["population", "bag"])
@pytest.mark.parametrize("method", [KDEyML(bandwidth=0.1), PACC()], ids=["KDEyML", "PACC"])
def test_standard_errors_are_true(method, target: str) -> None:
    """The spread of the moment estimate over fresh training sets and bags is what it says."""
    rng = np.random.default_rng(6)
    errors, said = [], []
    for _ in range(120):
        P, y = training(240, rng)
        points, shares = bag(150, (0.2, 0.3, 0.5), rng)
        made = method.fit_posteriors(P, y).estimate_posteriors(points, target=target)
        truth = shares if target == "bag" else np.array([0.2, 0.3, 0.5])
        errors.append(made.uncertainty.centre() - truth)
        said.append(np.diag(made.covariance))
    ratio = np.sqrt(np.mean(np.square(errors), axis=0) / np.mean(said, axis=0))
    assert (np.abs(ratio - 1) < 0.25).all(), ratio


def test_sampled_bags_drop_zero_weights() -> None:
    bags = Bags.whole(4, [1.0, 0.0, 1.0, 2.0])
    (one,) = sampled_bags(bags, ["a", "b", "a", "c"])
    assert one.indices.tolist() == [0, 2, 3]
    np.testing.assert_allclose(one.weights, [0.25, 0.25, 0.5])
    assert one.n_units == 2
    assert one.effective_size == pytest.approx(1 / 0.375)


def test_training_weights_of_zero_are_absent() -> None:
    rng = np.random.default_rng(8)
    P, y = training(60, rng)
    w = np.ones(60)
    w[:6] = 0.0
    points, _ = bag(50, (0.3, 0.3, 0.4), rng)
    one = KDEyML(bandwidth=0.1).fit_posteriors(P, y, w).estimate_posteriors(points)
    two = KDEyML(bandwidth=0.1).fit_posteriors(P[6:], y[6:]).estimate_posteriors(points)
    np.testing.assert_allclose(one.low, two.low, atol=1e-6)
    assert isinstance(one.uncertainty.model.training, TrainingPosteriors)


def test_numbers_of_all_bags_are_those_of_each() -> None:
    rng = np.random.default_rng(9)
    parts = [rng.choice(40, size, replace=False) for size in (1, 7, 30)]
    weights = [rng.integers(0, 3, len(part)) + (np.arange(len(part)) == 0) for part in parts]
    clusters = rng.integers(0, 6, 40)
    for given in (Bags.from_indices(parts, 40), Bags.from_indices(parts, 40, weights)):
        for ids in (None, clusters):
            made = sampled_bags(given, ids)
            each = [made[b] for b in range(3)]
            np.testing.assert_allclose(made.effective_sizes, [one.effective_size for one in each])
            assert made.n_units.tolist() == [one.n_units for one in each]
            assert made.sizes.tolist() == [len(one.indices) for one in each]
            assert made[1:][0].indices.tolist() == each[1].indices.tolist()


def test_class_rows_give_means_and_covariances_of_classes() -> None:
    rng = np.random.default_rng(10)
    offsets = np.array([0, 4, 5, 12])
    owners = np.repeat(np.arange(3), np.diff(offsets))
    w = rng.random(12)
    w /= np.bincount(owners, weights=w)[owners]
    everything = np.arange(12)
    runs = ClassRows(np.empty((12, 3), np.float32), offsets, w, everything)
    member = np.eye(3)[owners] * w[:, None]
    z, shares = rng.normal(size=(12, 3)), np.array([0.2, 0.5, 0.3])
    means = z.T @ member
    squares = np.einsum("nc,ne,nl->lce", z, z, member)
    covariances = squares - np.einsum("cl,el->lce", means, means)
    np.testing.assert_allclose(runs.means(z), means, atol=1e-14)
    np.testing.assert_allclose(runs.covariances(z), covariances, atol=1e-14)
    np.testing.assert_allclose(runs.row_weights(shares), member @ shares)


@pytest.mark.parametrize("scale", [1.0, 1e-7])
def test_inverse_of_means_needs_no_svd_where_classes_differ(scale) -> None:
    matrix = np.array([[0.8, 0.1, 0.1], [0.1, 0.6, 0.6 - 0.3 * scale], [0.1, 0.3, 0.3]])
    matrix[2] = 1 - matrix[0] - matrix[1]
    inverse = invert(matrix)
    np.testing.assert_allclose(matrix @ inverse @ matrix, matrix, atol=1e-6)
    assert np.abs(inverse).max() < 100  # a pseudo-inverse where classes are the same
