"""Bags: every way to make them agrees with loops over plain index arrays."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from kdey import KDEyML, native
from kdey.bags import Bags, as_bags
from kdey.evaluation import LabelledBags

POOL = 12


@st.composite
def weighted_bags(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))
    bags = [rng.integers(0, POOL, size) for size in sizes]
    return bags, [rng.random(size) + 0.01 for size in sizes], rng.normal(size=(POOL, 3))


@settings(max_examples=50)
@given(weighted_bags())
def test_means_are_those_of_a_loop(case):
    bags, weights, rows = case
    plain = [rows[bag].mean(axis=0) for bag in bags]
    np.testing.assert_allclose(Bags.from_indices(bags, POOL).mean(rows), plain, atol=1e-12)
    weighted = [np.average(rows[b], axis=0, weights=w) for b, w in zip(bags, weights, strict=True)]
    made = Bags.from_indices(bags, POOL, weights)
    np.testing.assert_allclose(made.mean(rows), weighted, atol=1e-12)
    np.testing.assert_allclose(made.matrix().sum(axis=1), 1.0)


@settings(max_examples=50)
@given(weighted_bags())
def test_parts_come_back_as_given(case):
    bags, weights, _ = case
    made = Bags.from_indices(bags, POOL, weights)
    assert len(made) == len(bags)
    np.testing.assert_array_equal(made.sizes, [len(bag) for bag in bags])
    for b, positions in enumerate(made):
        np.testing.assert_array_equal(positions, bags[b])
        np.testing.assert_array_equal(made.bag_weights(b), weights[b])
        np.testing.assert_array_equal(
            Bags.from_indices(bags, POOL).bag_weights(b), np.ones(len(bags[b]))
        )


@settings(max_examples=50)
@given(weighted_bags(), st.integers(-6, 6), st.integers(-6, 6))
def test_slices_are_those_of_a_list(case, start, stop):
    bags, weights, _ = case
    part = Bags.from_indices(bags, POOL, weights)[start:stop]
    assert part.pool_size == POOL
    assert len(part) == len(bags[start:stop])
    for b, (bag, weight) in enumerate(zip(bags[start:stop], weights[start:stop], strict=True)):
        np.testing.assert_array_equal(list(part)[b], bag)
        np.testing.assert_array_equal(part.bag_weights(b), weight)
    assert part.matrix().shape == (len(part), POOL)


def test_weights_equal_repetition():
    rows = np.random.default_rng(0).normal(size=(POOL, 2))
    repeated = Bags.from_indices([[0, 0, 0, 5]], POOL).mean(rows)
    weighted = Bags.from_indices([[0, 5]], POOL, [[3, 1]]).mean(rows)
    np.testing.assert_allclose(repeated, weighted)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.coo_matrix, sp.csc_array])
def test_matrix_of_weights(make):
    dense = np.random.default_rng(0).integers(0, 3, (4, POOL)).astype(float)
    rows = np.random.default_rng(1).normal(size=(POOL, 2))
    made = Bags.from_matrix(make(dense))
    expected = dense @ rows / dense.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(made.mean(rows), expected, atol=1e-12)
    assert made.indices.dtype == np.int64


def test_matrix_of_the_caller_is_left_alone():
    mine = sp.csr_array(np.array([[1.0, 2.0, 3.0]]))
    mine.data[1] = 0.0
    Bags.from_matrix(mine)
    np.testing.assert_array_equal(mine.indices, [0, 1, 2])
    np.testing.assert_array_equal(mine.data, [1.0, 0.0, 3.0])


def test_whole_pool():
    rows = np.random.default_rng(0).normal(size=(POOL, 2))
    whole = Bags.whole(POOL)
    np.testing.assert_array_equal(whole.indices, np.arange(POOL))
    np.testing.assert_allclose(whole.mean(rows)[0], rows.mean(axis=0))
    weights = np.arange(POOL)
    weighted = Bags.whole(POOL, weights)
    np.testing.assert_allclose(weighted.mean(rows)[0], np.average(rows, axis=0, weights=weights))


def test_as_bags_takes_every_form():
    square = np.array([[0, 1], [2, 2]])
    for given_ in (square, square.tolist(), square.astype(np.uint8), list(square)):
        np.testing.assert_array_equal(as_bags(given_, 3).indices, [0, 1, 2, 2])
    made = as_bags(square, 3)
    assert as_bags(made, 3) is made
    assert len(as_bags(sp.csr_array(np.eye(3)), 3)) == 3


@pytest.mark.parametrize(
    ("bags", "message"),
    [
        ([], "bags is empty"),
        ([[0], []], "bag 1 is empty"),
        ([[0, 12]], "bag 0 has positions outside the pool of 12"),
        ([[-1]], "bag 0 has positions outside"),
        ([[0.5]], "bag 0 must hold integer positions"),
        ([[True, False]], "bag 0 must hold integer positions"),
        (np.arange(3), "bag 0 must be a vector of positions"),
        ([[[0, 1]]], "bag 0 must be a vector"),
        (sp.csr_array((2, 12)), "bag 0 is empty"),
        (sp.csr_array((0, 12)), "bags is empty"),
        (sp.csr_array(np.eye(3)), "pool of 3 instances, got 12"),
        (sp.csr_array(-np.eye(12)), "weights must be finite and non-negative"),
        (sp.csr_array(np.nan * np.eye(12)), "weights must be finite"),
        (Bags.whole(3), "pool of 3 instances, got 12"),
    ],
)
def test_bad_bags_are_named(bags, message):
    with pytest.raises(ValueError, match=message):
        as_bags(bags, POOL)


def test_bad_weights_are_named():
    with pytest.raises(ValueError, match="weights for 1 bags, but 2"):
        Bags.from_indices([[0], [1]], POOL, [[1.0]])
    with pytest.raises(ValueError, match=r"weights must have shape \(2,\)"):
        Bags.from_indices([[0, 1]], POOL, [[1.0]])
    with pytest.raises(ValueError, match="weights of bag 1 are all zero"):
        Bags.from_indices([[0], [1]], POOL, [[1.0], [0.0]])
    with pytest.raises(ValueError, match="bag is empty"):
        Bags.whole(0)
    with pytest.raises(ValueError, match="weights of bag 0 are all zero"):
        Bags.whole(2, [0, 0])
    with pytest.raises(ValueError, match=r"shape \(n_bags, pool_size\)"):
        Bags.from_matrix(np.ones(3))


def test_only_contiguous_slices():
    bags = as_bags([[0], [1], [2]], 3)
    with pytest.raises(ValueError, match="contiguous"):
        bags[::2]
    with pytest.raises(TypeError, match="taken by slices"):
        bags[0]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([0, 10**9], [0, 2]), "outside the pool"),
        (([0, -1], [0, 2]), "outside the pool"),
        (([0.0, 1.0], [0, 2]), "indices must be a vector of integers"),
        (([[0, 1]], [0, 2]), "indices must be a vector of integers"),
        (([0, 1], [0, 3]), "offsets must go from 0 to the number of indices"),
        (([0, 1], [1, 2]), "offsets must go from 0"),
        (([0, 1], []), "offsets must"),
        (([0, 1], [0, 2, 2]), "bag 1 is empty"),
        (([0, 1], [0, 2, 1, 2]), "bag 1 is empty"),
    ],
)
def test_arrays_put_together_by_hand_are_checked(parts, message):
    made = Bags(np.array(parts[0]), np.array(parts[1], dtype=np.int64), POOL)
    with pytest.raises(ValueError, match=message):
        as_bags(made, POOL)


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [1.0, np.nan], [0.0, 0.0]])
def test_weights_put_together_by_hand_are_checked(weights):
    made = Bags(np.array([0, 1]), np.array([0, 2]), POOL, np.array(weights))
    with pytest.raises(ValueError, match="weights"):
        as_bags(made, POOL)


def test_other_integer_types_mean_the_same_bags():
    made = Bags(np.array([3, 1], dtype=np.int32), np.array([0, 1, 2], dtype=np.uint8), POOL)
    q = KDEyML(bandwidth=0.1, kernel="gaussian")
    p = np.random.default_rng(0).dirichlet(np.ones(3), POOL)
    q.fit_posteriors(p, np.arange(POOL) % 3)
    np.testing.assert_array_equal(q.aggregate_bags(p, made), q.aggregate_bags(p, [[3], [1]]))


def test_bags_of_a_protocol_by_hand_are_checked():
    made = Bags(np.array([0, POOL]), np.array([0, 2]), POOL)
    with pytest.raises(ValueError, match="outside the pool"):
        LabelledBags(made, np.ones((1, 1)), np.array(["a"]))


def test_weights_whose_sum_is_infinite_are_refused():
    """Each was finite, the shares came out as zero, and the uniform prevalence as an optimum."""
    with pytest.raises(ValueError, match="finite sum"):
        Bags.whole(2, [1e308, 1e308])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_means_of_both_routes_agree(dtype, weighted, monkeypatch):
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 40, n) for n in (1, 7, 300)]
    weights = [rng.random(len(part)) for part in parts] if weighted else None
    bags, rows = Bags.from_indices(parts, 40, weights), rng.normal(size=(40, 5)).astype(dtype)
    means = bags.mean(rows)
    for b in range(3):  # a bag does not feel its company
        np.testing.assert_array_equal(bags[b : b + 1].mean(rows), means[b : b + 1])
    monkeypatch.setattr(native, "available", lambda: False)
    np.testing.assert_allclose(bags.mean(rows), means, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    "bags",
    [
        Bags(np.array([0, 9]), np.array([0, 2]), 3),
        Bags(np.array([0, -1]), np.array([0, 2]), 3),
        Bags(np.array([0, 1]), np.array([0, 5]), 3),
        Bags(np.array([0, 1]), np.array([0, 2]), 3, np.ones(3)),
    ],
    ids=["beyond the pool", "negative", "offsets beyond the indices", "too many weights"],
)
def test_means_of_bags_that_do_not_fit_are_refused(bags):
    with pytest.raises(ValueError):  # noqa: PT011 - SciPy and the native core have their own words
        bags.mean(np.ones((3, 2)))


def test_means_of_other_integer_types():
    bags = Bags(np.array([0, 1, 1], dtype=np.int32), np.array([0, 3], dtype=np.int32), 2)
    np.testing.assert_allclose(bags.mean(np.array([[0.0], [3.0]])), [[2.0]])
