"""Shares where training labels are wrong, against linear programmes and true classes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog

import kdey
from kdey import Options
from kdey.bags import Array
from kdey.intervals.label_noise import NoiseRates
from kdey.intervals.merging import Merging
from kdey.labelled import estimate_label_noise


def densities(labels: Array, k: int, rng: np.random.Generator) -> Array:
    x = 2.0 * np.eye(k)[labels] + rng.standard_normal((len(labels), k))
    return np.exp(2.0 * (x - x.max(axis=1, keepdims=True)))


def scaled(values: Array) -> Array:
    return values / values.sum(axis=1, keepdims=True)


def noisy_bag(
    matrix: Array, shares: Array, method: type = kdey.PACC, m: int = 20_000
) -> tuple[kdey.PACC, Array]:
    """Return a quantifier fitted on labels with this noise, and the posteriors of a large bag."""
    rng, k = np.random.default_rng(0), len(shares)
    labels = np.arange(6_000) % k
    truth = np.array([rng.choice(k, p=matrix[:, j]) for j in labels])
    p = scaled(densities(truth, k, rng) @ matrix)
    bag = scaled(densities(rng.choice(k, size=m, p=shares), k, rng) @ matrix)
    return method().fit_posteriors(p, labels), bag


def extremes(noise: NoiseRates, apparent: Array, members: Array) -> tuple[float, float]:
    """Return the ends of the share of a sum over all C, by a linear programme in its entries."""
    k = len(apparent)
    gains = np.outer(members, apparent).ravel()
    columns = np.kron(np.ones(k), np.eye(k))
    limits = [(0.0, 1.0)] * (k * k)
    for j in range(k):
        limits[j * k + j] = (1.0 - noise.most[j], 1.0 - noise.least[j])
    ends = [
        sign * linprog(sign * gains, A_eq=columns, b_eq=np.ones(k), bounds=limits).fun
        for sign in (1.0, -1.0)
    ]
    return ends[0], ends[1]


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("option", ["label_noise", "label_noise_bound"])
def test_ends_are_those_of_a_linear_programme(k: int, option: str) -> None:
    rng = np.random.default_rng(k)
    classes = np.arange(k)
    for _ in range(5):
        rates = rng.uniform(0, 0.4, k) * (rng.random(k) < 0.7)
        rates[0] = 0.1
        noise = NoiseRates.of(Options(**{option: rates}), classes)
        assert noise is not None
        apparent = rng.dirichlet(np.ones(k))
        sums = np.array([np.isin(classes, rng.permutation(k)[:n]) for n in range(1, k)], float)
        low, high = noise.functions(sums)
        for row, members in enumerate(sums):
            expected = extremes(noise, apparent, members)
            assert_allclose([low[row] @ apparent, high[row] @ apparent], expected, atol=1e-9)


@pytest.mark.parametrize("method", [kdey.PACC, kdey.EMQ])
@pytest.mark.parametrize("shares", [(0.4, 0.6), (0.0, 1.0), (0.97, 0.03)])
def test_known_noise_gives_true_shares(method: type, shares: tuple[float, float]) -> None:
    matrix = np.array([[0.9, 0.1], [0.1, 0.9]])
    q, p = noisy_bag(matrix, np.array(shares), method)
    sure = {"confidence": 0.9999, "check_fit": False}
    plain = q.estimate_posteriors(p, **sure)
    made = q.estimate_posteriors(p, options=Options(label_noise=0.1, **sure))
    assert_allclose(made.estimate, shares, atol=0.035)
    assert (made.low <= np.array(shares)).all()
    assert (np.array(shares) <= made.high).all()
    same = Options(label_noise=matrix, **sure)
    assert_allclose(q.estimate_posteriors(p, options=same).low, made.low)
    if 0.1 < shares[0] < 0.9:
        assert_allclose(made.high - made.low, 0.8 * (plain.high - plain.low), rtol=1e-9)
        assert_allclose(made.covariance, 0.64 * plain.covariance, rtol=1e-4)
        assert made.region.contains(shares)


def test_known_matrix_of_three_classes() -> None:
    matrix = np.array([[0.9, 0.0, 0.0], [0.1, 0.9, 0.05], [0.0, 0.1, 0.95]])
    q, p = noisy_bag(matrix, np.array([0.5, 0.2, 0.3]))
    options = Options(label_noise=matrix, check_fit=False)
    made = q.estimate_posteriors(p, options=options)
    assert_allclose(made.estimate, [0.5, 0.2, 0.3], atol=0.03)
    drawn = q.estimate_posteriors(
        p[:2_000], options=Options(label_noise=matrix, method="bootstrap", n_replicates=100)
    )
    assert_allclose(drawn.low, made.low, atol=0.06)
    merged = made.merge({"x": [1, 2], "y": 0})
    assert_allclose(merged.estimate, [made.estimate[1:].sum(), made.estimate[0]])
    assert_allclose(merged.low[1], made.low[0])


def test_bounds_contain_all_that_is_possible() -> None:
    matrix = np.array([[0.9, 0.1], [0.1, 0.9]])
    q, p = noisy_bag(matrix, np.array([0.3, 0.7]))
    plain = q.estimate_posteriors(p, check_fit=False)
    bound = Options(label_noise_bound=0.1, check_fit=False)
    made = q.estimate_posteriors(p, options=bound)
    assert_allclose(made.estimate, plain.estimate)
    assert_allclose(made.low, 0.9 * plain.low)
    assert_allclose(made.high, plain.high + 0.1 * (1 - plain.high))
    known = q.estimate_posteriors(p, options=Options(label_noise=0.1, check_fit=False))
    assert (made.low <= known.low).all()
    assert (known.high <= made.high).all()
    assert made.region.contains([0.3, 0.7])
    assert made.region.contains(plain.estimate)
    one = Options(label_noise_bound={1: 0.1}, check_fit=False)
    assert_allclose(q.estimate_posteriors(p, options=one).high[1], plain.high[1])
    # Differences of bounded shares add what is open to the part of sampling, in which errors of
    # the templates cancel.
    change, exact = kdey.difference(made, made), kdey.difference(plain, plain)
    assert_allclose(change.high, 0.1 + 0.9 * exact.high)
    assert_allclose(change.low, -change.high)
    with pytest.raises(ValueError, match="needs known label noise"):
        made.sensitivity()


def test_unequal_rates_of_three_classes_by_parts() -> None:
    """With one wrong label the upper end of another class is that of the sum of both parts."""
    matrix = np.eye(3)
    q, p = noisy_bag(matrix, np.array([0.3, 0.3, 0.4]), m=500)
    plain = q.estimate_posteriors(p, check_fit=False)
    made = q.estimate_posteriors(p, options=Options(label_noise_bound={2: 0.2}, check_fit=False))
    c = np.array([1.0, 0.0, 0.2])
    error = np.sqrt(c @ plain.covariance @ c)
    assert_allclose(made.high[0] - c @ plain.estimate, 1.96 * error, rtol=0.1)
    assert_allclose(made.low[0], plain.low[0])
    # A sum with the label's own class is bounded by its complement.
    merged = made.merge({"x": [0, 2], "y": 1})
    assert_allclose(merged.high[0], 1.0 - plain.low[1], atol=0.02)


def test_every_door_gives_the_same() -> None:
    rng = np.random.default_rng(3)
    q, p = noisy_bag(np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([0.3, 0.7]), m=400)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"no": p[:, 0], "yes": p[:, 1], "shop": rng.permutation(400) % 2})
    for asked in ({"label_noise": {0: 0.1}}, {"label_noise_bound": 0.1}):
        options = Options(check_fit=False, **asked)
        table = q.predict_groups(frame, by="shop", scores=["no", "yes"], options=options)
        rows = [np.flatnonzero(frame["shop"] == shop) for shop in (0, 1)]
        bags = q.estimate_posteriors(p, rows, options=options)
        assert_allclose(table.low, bags.low, atol=1e-9)
        assert_allclose(table.high, bags.high, atol=1e-9)
        merged = q.predict_groups(
            frame, by="shop", scores=["no", "yes"], merge={"n": [0], "y": [1]}, options=options
        )
        assert_allclose(merged.low, table.low)
        assert_allclose(bags.merge({"n": [0], "y": [1]}).low, bags.low)
    with pytest.raises(ValueError, match="plain rows"):
        q.predict_groups(frame, by="shop", scores=["no", "yes"], shrink=True, options=options)
    with pytest.raises(ValueError, match="label noise and labelled rows"):
        q.estimate_posteriors(p, labelled=([0, 1], [0, 1]), options=options)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"label_noise": 0.5}, "below 0.5"),
        ({"label_noise": -0.1}, "below 0.5"),
        ({"label_noise_bound": {"c": 0.1}}, "no classes"),
        ({"label_noise": [0.1, 0.1, 0.1]}, "one for each of the 2"),
        ({"label_noise": [[0.9, 0.1], [0.2, 0.9]]}, "columns that sum to one"),
        ({"label_noise": [[0.4, 0.1], [0.6, 0.9]]}, "half of its rows"),
    ],
)
def test_noise_that_cannot_be_is_refused(asked: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Merging.asked(None, np.array([0, 1]), Options(**asked))
    with pytest.raises(ValueError, match="give one of them"):
        Options(label_noise=0.1, label_noise_bound=0.1)


def test_rates_from_two_labels() -> None:
    rng = np.random.default_rng(6)
    truth = rng.integers(0, 3, 30_000)
    wrong = np.array([0.0, 0.1, 0.2])
    first = np.where(rng.random(30_000) < wrong[truth], 0, truth)
    exact = estimate_label_noise(first, truth)
    share = [np.mean(truth[first == j] != j) for j in range(3)]
    assert_allclose(exact.rates, share)
    assert (exact.low <= share).all()
    assert (share <= exact.high).all()
    assert_allclose(exact.confusion.sum(axis=0), 1.0)
    # Two labels that are wrong alike: the disagreement bounds the rate once it is scaled.
    other = np.where(rng.random(30_000) < wrong[truth], 0, truth)
    both = estimate_label_noise(first, other, second_error=0.2)
    assert (both.high >= share).all()
    assert (both.low == 0.0).all()
    with pytest.raises(ValueError, match="compare more rows"):
        _ = estimate_label_noise(["a", "a"], ["a", "b"]).bound
    for wrong_labels, message in (
        ((["a"], ["a", "b"]), "same rows"),
        ((["a", None], ["a", "b"]), "missing"),
        (([], []), "vector of labels"),
    ):
        with pytest.raises(ValueError, match=message):
            estimate_label_noise(*wrong_labels)
