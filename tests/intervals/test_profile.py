"""The profile of the moment equation: against slow versions, closed forms, known populations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq, nnls

from kdey import ACC, EMQ, PACC, Bags, KDEyML
from kdey.bags import Array
from kdey.intervals.analytic import moment_densities
from kdey.intervals.moments import MomentEquations, Moments
from kdey.intervals.profile import Chunk, _Faces, profile_intervals, wilson

from .cases import bag, separated, training


def equations(
    k: int, seed: int, *, size: float = 150.0, sizes: Array | None = None, noise: float = 0.03
) -> MomentEquations:
    """Return random equations of three bags whose classes overlap."""
    rng = np.random.default_rng(seed)
    matrix = np.eye(k) * 0.5 + 0.5 * rng.dirichlet(np.ones(k), k).T
    centring = np.eye(k) - 1.0 / k
    halves = 0.3 * centring @ rng.normal(size=(k, k, k))
    sizes = rng.integers(20, 200, k).astype(float) if sizes is None else sizes
    moments = moments_of(matrix, halves @ halves.transpose(0, 2, 1), sizes)
    truth = rng.dirichlet(np.ones(k), 3)
    means = truth @ matrix.T + noise * rng.normal(size=(3, k)) @ centring
    estimates = np.abs(truth + 0.02 * rng.normal(size=(3, k)))
    estimates /= estimates.sum(axis=1, keepdims=True)
    full = np.full(3, size)
    return MomentEquations(
        means, estimates, full, np.full((3, k), size), np.full(3, np.inf), [moments]
    )


def moments_of(matrix: Array, covariances: Array, sizes: Array) -> Moments:
    k = len(sizes)
    return Moments(matrix, covariances, sizes, np.full(k, 1e9))


def slow_covariance(moments: Moments, a: Array, m: float, population: bool) -> Array:
    """Return V at a prevalence, term by term."""
    V = np.zeros((len(a), len(a)))
    for label, share in enumerate(a):
        V += share / m * moments.covariances[label]
        V += share**2 / moments.sizes[label] * moments.template_covariances[label]
    if population:
        V += moments.matrix @ (np.diag(a) - np.outer(a, a)) @ moments.matrix.T / m
    return V


def slow_minimum(inverse: Array, columns: Array, target: Array, total: float) -> Array:
    """Return the x >= 0 with a given sum that is nearest to the target, by another solver."""
    values, vectors = np.linalg.eigh(inverse)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    heavy = 1e3 * np.abs(root @ columns).max()  # the sum as one more equation
    rows = np.vstack([root @ columns, np.full(columns.shape[1], heavy)])
    return nnls(rows, np.append(root @ target, heavy * total))[0]


class SlowProfile:
    """The definition of the limits of one bag, term by term."""

    def __init__(self, given: MomentEquations, b: int, population: bool) -> None:
        self.moments, self.q, self.m = given.moments[0], given.means[b], given.sizes[b]
        self.population, self.k = population, given.estimates.shape[1]
        x = given.estimates[b]
        for _ in range(2):
            self.mix = (self.m * x + 0.5) / (self.m + 0.5 * self.k)
            V = slow_covariance(self.moments, self.mix, self.m, population)
            self.inverse = np.linalg.pinv(V, hermitian=True)
            x = slow_minimum(self.inverse, self.moments.matrix, self.q, 1.0)
        self.minimum = x

    def quadratic(self, x: Array) -> float:
        residual = self.q - self.moments.matrix @ x
        return float(residual @ self.inverse @ residual)

    def variance(self, i: int, t: float) -> float:
        a = self.mix * (1 - t) / (1 - self.mix[i])
        a[i] = t
        inverse = np.linalg.inv(self.moments.matrix)
        V = slow_covariance(self.moments, a, self.m, self.population)
        return float((inverse @ V @ inverse.T)[i, i])

    def scaled_distance(self, i: int, t: float) -> float:
        rest = [label for label in range(self.k) if label != i]

        matrix = self.moments.matrix
        x = np.zeros(self.k)
        x[i] = t
        x[rest] = slow_minimum(self.inverse, matrix[:, rest], self.q - t * matrix[:, i], 1 - t)
        distance = self.quadratic(x) - self.quadratic(self.minimum)
        return max(distance, 0.0) * self.variance(i, self.mix[i]) / self.variance(i, t)


@pytest.mark.parametrize("population", [True, False])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_limits_solve_their_equation(k: int, population: bool) -> None:
    sizes = np.random.default_rng(k).integers(60, 200, k).astype(float)
    given = equations(k, seed=k, sizes=sizes)
    low, high, middle = profile_intervals(given, 0.05, population)
    quantile = stats.norm.ppf(0.95)
    for b in range(2):
        slow = SlowProfile(given, b, population)
        np.testing.assert_allclose(middle[b], slow.minimum, atol=1e-4)
        for i in range(k):
            for limit, end in ((low[b, i], 0.0), (high[b, i], 1.0)):
                inside = limit + (middle[b, i] - limit) / 50
                assert np.sqrt(slow.scaled_distance(i, inside)) < quantile * (1 + 1e-3)
                if limit != end:
                    assert np.sqrt(slow.scaled_distance(i, limit)) == pytest.approx(
                        quantile, rel=2e-3
                    )


@pytest.mark.parametrize("population", [True, False])
def test_two_classes_with_many_labels_have_the_roots_of_a_quadratic(population: bool) -> None:
    given = equations(2, seed=4, sizes=np.array([4e3, 7e3]), noise=0.01)
    low, high, middle = profile_intervals(given, 0.025, population)
    moments, m, u = given.moments[0], given.sizes[0], stats.norm.ppf(0.975)
    c = given.means @ np.linalg.inv(moments.matrix).T
    assert ((c > 0) & (c < 1)).all()
    np.testing.assert_allclose(middle, c, atol=1e-6)
    g, n = moments.spread, moments.sizes
    for b in range(3):
        for i in range(2):

            def excess(t: float, b: int = b, i: int = i) -> float:
                j = 1 - i
                v = (t / m + t**2 / n[i]) * g[i, i] + ((1 - t) / m + (1 - t) ** 2 / n[j]) * g[i, j]
                return (t - c[b, i]) ** 2 - u**2 * (v + population * t * (1 - t) / m)

            expected_low = brentq(excess, 0.0, c[b, i]) if excess(0.0) > 0 else 0.0
            expected_high = brentq(excess, c[b, i], 1.0) if excess(1.0) > 0 else 1.0
            # Templates of 4,000 labels are raised by (10 / 4000)^2, which is all that differs.
            assert low[b, i] == pytest.approx(expected_low, abs=2e-5)
            assert high[b, i] == pytest.approx(expected_high, abs=2e-5)


def test_perfect_classes_give_wilson() -> None:
    p = np.array([[0.1, 0.25, 0.65], [0.02, 0.18, 0.8]])
    moments = moments_of(np.eye(3), np.zeros((3, 3, 3)), np.full(3, 1e9))
    size = np.full(2, 4e4)
    given = MomentEquations(
        p, p, size, np.full((2, 3), 4e4), np.full(2, np.inf), [moments, moments]
    )
    low, high, _ = profile_intervals(given, 0.025, True)
    expected = wilson(p, size[:, None], 0.025)
    np.testing.assert_allclose([low, high], expected, atol=1e-7)


@pytest.mark.parametrize("k", [3, 6])
def test_certificates_of_the_inner_programs(k: int) -> None:
    given = equations(k, seed=20 + k)
    chunk = Chunk.of(given, slice(None), np.ones(len(given.means)))
    faces = _Faces.of(chunk, 0.025, 1)
    pairs = np.repeat(np.arange(3 * k), 4)
    t = np.tile([0.0, 0.2, 0.9, 1.0], 3 * k)
    distance, error = faces.distance(pairs, t)
    assert (error <= 1e-8 * (1.0 + np.abs(distance))).all()
    assert (distance >= -1e-9).all()
    own = faces.distance(np.arange(3 * k), faces.minimum.ravel())[0]
    np.testing.assert_allclose(own, 0.0, atol=1e-8)  # the minimum lies on its own face


def test_a_class_with_few_labels_widens_the_limits_of_others() -> None:
    many, few = np.full(3, 400.0), np.array([400.0, 400.0, 6.0])
    widths = []
    for sizes in (many, few):
        given = equations(3, seed=3, sizes=sizes)
        low, high, _ = profile_intervals(given, 0.025, True)
        widths.append((high - low)[:, :2])
    assert (widths[1] >= widths[0] - 1e-9).all()
    assert (widths[1] > 1.05 * widths[0]).any()


def test_classes_in_another_order() -> None:
    given = equations(4, seed=7)
    order = np.array([2, 0, 3, 1])
    moments = given.moments[0]
    changed = Moments(
        moments.matrix[np.ix_(order, order)],
        moments.covariances[np.ix_(order, order, order)],
        moments.sizes[order],
        moments.freedom,
    )
    other = MomentEquations(
        given.means[:, order], given.estimates[:, order], *vars_of(given), [changed]
    )
    for one, two in zip(
        profile_intervals(given, 0.025, True), profile_intervals(other, 0.025, True), strict=True
    ):
        np.testing.assert_allclose(one[:, order], two, atol=1e-7)


def vars_of(given: MomentEquations) -> tuple[Array, Array, Array]:
    return given.sizes, given.bag_sizes, given.units


def test_a_batch_is_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    given = equations(3, seed=8)
    whole = profile_intervals(given, 0.025, True)
    separate = MomentEquations(given.means, given.estimates, *vars_of(given), given.moments * 3)
    np.testing.assert_array_equal(whole, profile_intervals(separate, 0.025, True))
    monkeypatch.setattr("kdey.intervals.profile.CHUNK", 1)
    np.testing.assert_array_equal(whole, profile_intervals(given, 0.025, True))


def test_many_classes_have_the_intervals_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """One product for all covariances of a bag, and bags one by one, change no interval."""
    given = equations(6, seed=10, sizes=np.array([4.0, 90.0, 60.0, 5.0, 200.0, 30.0]))
    few = profile_intervals(given, 0.025, True)
    monkeypatch.setattr("kdey.intervals.profile.MANY_CLASSES", 2)
    np.testing.assert_allclose(few, profile_intervals(given, 0.025, True), atol=1e-7)


def test_ends_do_not_depend_on_where_they_are_first_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = equations(5, seed=11, noise=0.1)
    usual = profile_intervals(given, 0.025, True)
    for first in (1e-3, 1e3):
        monkeypatch.setattr("kdey.intervals.profile.BEYOND", first)
        np.testing.assert_allclose(usual, profile_intervals(given, 0.025, True), atol=1e-6)


def test_an_end_takes_few_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule that lowers the value of an end only where it stays does not creep."""
    calls, excess = [], _Faces.excess
    monkeypatch.setattr(_Faces, "excess", lambda *given: calls.append(1) or excess(*given))
    for seed in range(5):
        profile_intervals(equations(3, seed=seed), 0.025, True)
    assert len(calls) <= 60  # 36; creeping took 44 for one of them


def test_the_numpy_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    given = equations(5, seed=9)
    native = profile_intervals(given, 0.025, True)
    monkeypatch.setattr("kdey.native.available", lambda: False)
    np.testing.assert_allclose(native, profile_intervals(given, 0.025, True), atol=1e-6)


def test_classes_that_cannot_be_told_apart_share_what_is_left() -> None:
    rng = np.random.default_rng(5)
    P, y = training(201, rng)
    P[y == 0] = P[y == 1]  # one class under two names
    made = PACC().fit_posteriors(P, y).estimate_posteriors(P[:50])
    assert made.low[0] == made.low[1] == 0
    np.testing.assert_allclose(made.high[0], made.high[1], atol=1e-3)
    assert made.high[0] >= 1 - made.high[2] - 1e-6
    assert made.high[2] < 1
    assert made.high[0] < 1  # the third class is there


def test_features_without_information_have_limits_zero_and_one() -> None:
    P = np.tile([0.5, 0.5], (60, 1))
    made = EMQ().fit_posteriors(P, np.arange(60) % 2).estimate_posteriors(P[:40])
    # The solver ends within its tolerance.
    assert made.low == pytest.approx([0, 0], abs=1e-7)
    assert made.high == pytest.approx([1, 1], abs=1e-7)


@pytest.mark.parametrize("noise", [1e-5, 1e-7, 1e-9])
@pytest.mark.parametrize("method", [KDEyML(bandwidth=0.1), EMQ(), PACC(), ACC()], ids=repr)
@pytest.mark.parametrize("target", ["population", "bag"])
def test_separated_classes_do_not_hang_on_last_bits(method, target: str, noise: float) -> None:
    """Training classes without any overlap: what varies within them is rounding."""
    y, labels = np.arange(60) % 3, np.repeat([0, 1, 2], [8, 25, 7])
    doubtful = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [0.1, 0.8, 0.1]])

    def limits(seed: int) -> Array:
        rng = np.random.default_rng(seed)
        parts = [np.eye(3)[codes] + noise * rng.random((len(codes), 3)) for codes in (y, labels)]
        P, points = (part / part.sum(axis=1, keepdims=True) for part in parts)
        points[:3] = doubtful
        found = method.fit_posteriors(P, y).estimate_posteriors(points, target=target)
        return np.array([found.low, found.high])

    spread = np.ptp([limits(seed) for seed in range(6)], axis=0)
    assert spread.max() <= 1 / len(labels) + 1e-9  # at most one instance


@pytest.mark.parametrize("size", [2, 3, 5, 12])
@pytest.mark.parametrize("draw", [separated, None], ids=["separated", "overlapping"])
def test_limits_of_a_tiny_bag_are_shares_that_it_can_have(size: int, draw) -> None:
    rng = np.random.default_rng(1)
    kind = {} if draw is None else {"draw": draw}
    P, y = training(120, rng, **kind)
    points, _ = bag(size, (0.2, 0.3, 0.5), rng, **kind)
    for method in (KDEyML(bandwidth=0.1), PACC()):
        made = method.fit_posteriors(P, y).estimate_posteriors(points, target="bag")
        for limit in (made.low, made.high):
            np.testing.assert_allclose(limit * size, np.rint(limit * size), atol=1e-9)
        assert (made.high > made.low).all()
        assert ((made.low <= made.estimate) & (made.estimate <= made.high)).all()


def test_shares_of_weighted_bags_are_not_rounded() -> None:
    rng = np.random.default_rng(2)
    P, y = training(120, rng)
    points, _ = bag(6, (0.2, 0.3, 0.5), rng)
    bags = Bags.from_indices([np.arange(6)], 6, [rng.random(6) + 0.1])
    (made,) = PACC().fit_posteriors(P, y).estimate_posteriors(points, bags, target="bag")
    assert np.abs(made.high * 6 - np.rint(made.high * 6)).max() > 1e-3


@pytest.mark.parametrize("few", [8, 15, 30])
@pytest.mark.parametrize("truth", [(0.0, 0.3, 0.7), (0.9, 0.05, 0.05), (0.3, 0.3, 0.4)], ids=str)
def test_limits_cover_with_few_labels_of_one_class(few: int, truth) -> None:
    rng = np.random.default_rng(few)
    covered = []
    for _ in range(40):
        P, y = training(300, rng)
        kept = np.r_[np.flatnonzero(y == 0)[:few], np.flatnonzero(y > 0)]
        q = KDEyML(bandwidth=0.1).fit_posteriors(P[kept], y[kept])
        points, _ = bag(100, truth, rng)
        made = q.estimate_posteriors(points, confidence=0.95)
        covered.append((made.low <= truth) & (truth <= made.high))
    assert np.mean(covered) >= 0.9
    assert np.mean(covered, axis=0).min() >= 0.8


def test_all_likelihood_methods_share_their_features() -> None:
    rng = np.random.default_rng(3)
    P, y = training(240, rng)
    points, _ = bag(150, (0.2, 0.3, 0.5), rng)
    rows = [
        moment_densities(method.fit_posteriors(P, y).model_, points)
        for method in (KDEyML(bandwidth=0.1), KDEyML(), EMQ(), EMQ(calibration="bcts"))
    ]
    for other in rows[1:]:
        np.testing.assert_allclose(rows[0], other, rtol=1e-6)
