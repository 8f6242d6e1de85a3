"""Protocols: distributions, determinism, realised prevalences and what they refuse."""

from __future__ import annotations

import pickle
from math import comb

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st
from scipy import stats

from kdey.bags import Bags
from kdey.evaluation import APP, NPP, AtPrevalences, DirichletProtocol, GivenBags, GridAPP
from kdey.simplex import round_counts
from kdey.validation import encode_labels

Y = np.repeat(["a", "b", "c"], [60, 30, 10])
DRAWN = [
    APP(n_bags=30, bag_size=50),
    NPP(n_bags=30, bag_size=50),
    DirichletProtocol(n_bags=30, bag_size=50, concentration=0.3),
    GridAPP(n_prevalences=5, repeats=2, bag_size=50),
    AtPrevalences([[0.2, 0.3, 0.5], [0.9, 0.1, 0.0]], repeats=15, bag_size=50),
]


@pytest.fixture(params=DRAWN, ids=lambda protocol: type(protocol).__name__)
def protocol(request):
    return request.param


def _same(one, other):
    np.testing.assert_array_equal(one.bags.indices, other.bags.indices)
    np.testing.assert_array_equal(one.bags.offsets, other.bags.offsets)
    np.testing.assert_array_equal(one.prevalences, other.prevalences)


def _counted(labelled, y):
    y = np.asarray(y)
    return np.array([[np.mean(y[bag] == c) for c in labelled.classes] for bag in labelled.bags])


def test_prevalences_are_the_realised_ones(protocol):
    drawn = protocol.bags(Y)
    np.testing.assert_array_equal(drawn.prevalences, _counted(drawn, Y))
    np.testing.assert_array_equal(drawn.sizes, 50)
    assert drawn.classes.tolist() == ["a", "b", "c"]
    assert drawn.bags.pool_size == len(Y)
    assert len(drawn) == len(drawn.bags) == len(drawn.prevalences)


def test_bags_are_a_function_of_the_seed(protocol):
    np.random.seed(1)  # noqa: NPY002 (the global state must not matter)
    first = protocol.bags(Y)
    np.random.seed(2)  # noqa: NPY002
    _same(first, protocol.bags(Y))
    _same(first, pickle.loads(pickle.dumps(protocol)).bags(Y))
    other = type(protocol)(**{**vars(protocol), "random_state": 1}).bags(Y)
    assert not np.array_equal(first.bags.indices, other.bags.indices)


def test_longer_runs_begin_with_the_shorter(protocol):
    length = "repeats" if isinstance(protocol, GridAPP | AtPrevalences) else "n_bags"
    longer = type(protocol)(**{**vars(protocol), length: 3 * getattr(protocol, length)})
    short = protocol.bags(Y)
    _same(longer.bags(Y)[: len(short)], short)


def test_bags_of_one_run_differ(protocol):
    bags = {tuple(bag) for bag in protocol.bags(Y).bags}
    assert len(bags) == len(protocol.bags(Y))


@pytest.mark.parametrize("seed", range(3))
def test_auto_repeats_only_classes_that_are_short(seed):
    drawn = APP(n_bags=50, bag_size=50, random_state=seed).bags(Y)
    repeated = 0
    for bag in drawn.bags:
        for label, available in zip("abc", (60, 30, 10), strict=True):
            mine = bag[Y[bag] == label]
            if len(mine) <= available:
                assert len(np.unique(mine)) == len(mine)
            else:
                repeated += 1
    assert repeated > 10


def test_replace_true_repeats_and_false_never_does():
    y = np.repeat([0, 1], 500)
    always = APP(n_bags=20, bag_size=200, replace=True).bags(y)
    assert any(len(np.unique(bag)) < 200 for bag in always.bags)
    never = APP(n_bags=20, bag_size=200, replace=False).bags(y)
    assert all(len(np.unique(bag)) == 200 for bag in never.bags)
    natural = NPP(n_bags=20, bag_size=200, replace=True).bags(y)
    assert all(len(np.unique(bag)) < 200 for bag in natural.bags)


@pytest.mark.parametrize("bag_size", [3, 12, 17, 20])
@pytest.mark.parametrize("replace", ["auto", True])
def test_instances_are_drawn_evenly(bag_size, replace):
    """Below and above half of the pool take different routes; both must be uniform."""
    n_bags, n = 4000, 20
    drawn = NPP(n_bags=n_bags, bag_size=bag_size, replace=replace).bags(np.arange(n) % 2)
    hits = np.bincount(drawn.bags.indices, minlength=n)
    share = bag_size / n
    spread = n_bags * (share * (1 - share) if replace == "auto" else share * (1 - 1 / n))
    if spread == 0:
        np.testing.assert_array_equal(hits, n_bags)
    else:
        assert np.abs((hits - n_bags * share) / np.sqrt(spread)).max() < 4.5


def test_pairs_are_drawn_evenly():
    """All subsets, not only all members, are equally likely."""
    drawn = NPP(n_bags=6000, bag_size=2).bags(np.zeros(5))
    codes = [tuple(bag) for bag in drawn.bags]
    counts = np.array([codes.count((i, j)) for i in range(5) for j in range(i + 1, 5)])
    assert counts.sum() == 6000
    assert stats.chisquare(counts).pvalue > 1e-3


def test_app_is_uniform_on_the_simplex():
    prevalences = APP(n_bags=3000, bag_size=10_000).bags(np.arange(3)).prevalences
    # A coordinate of a uniform point of the 3-simplex is Beta(1, 2).
    for column in prevalences.T:
        assert stats.kstest(column, stats.beta(1, 2).cdf).pvalue > 1e-3
    assert stats.kstest(prevalences[:, 0] / prevalences[:, :2].sum(1), "uniform").pvalue > 1e-3


def test_dirichlet_follows_its_concentration():
    y = np.arange(3)
    wide = DirichletProtocol(n_bags=2000, bag_size=10_000, concentration=[2.0, 3.0, 5.0])
    assert wide.bags(y).prevalences.mean(0) == pytest.approx([0.2, 0.3, 0.5], abs=0.02)
    corner = DirichletProtocol(n_bags=500, concentration=1e-4).bags(y).prevalences
    assert (corner.max(axis=1) > 0.99).mean() > 0.98
    centre = DirichletProtocol(n_bags=50, concentration=1e6).bags(y).prevalences
    np.testing.assert_allclose(centre, 1 / 3, atol=0.01)
    with pytest.raises(ValueError, match="concentration has 3 entries, but there are 2"):
        wide.bags([0, 1])
    assert DirichletProtocol(concentration=np.ones(2)) == DirichletProtocol(concentration=(1, 1))


def test_natural_prevalences_scatter_around_the_pool():
    drawn = NPP(n_bags=2000, bag_size=20).bags(Y)
    assert drawn.prevalences.mean(axis=0) == pytest.approx([0.6, 0.3, 0.1], abs=0.01)
    # Drawing 20 of 100 without replacement: hypergeometric.
    spread = stats.hypergeom(100, 60, 20).std() / 20
    assert drawn.prevalences[:, 0].std() == pytest.approx(spread, rel=0.06)
    larger = NPP(n_bags=3, bag_size=200).bags(Y)
    np.testing.assert_array_equal(larger.sizes, 200)


def test_grid_holds_every_point_once():
    binary = GridAPP(repeats=3, bag_size=100).bags([0, 1])
    np.testing.assert_allclose(binary.prevalences[:21, 0], np.linspace(0, 1, 21), atol=1e-15)
    np.testing.assert_array_equal(binary.prevalences[21:42], binary.prevalences[:21])
    assert len(binary) == 63
    grid = GridAPP(n_prevalences=11).grid(4)
    assert grid.shape == (comb(13, 3), 4)
    assert len(np.unique(grid, axis=0)) == len(grid)
    np.testing.assert_allclose(grid.sum(axis=1), 1)
    np.testing.assert_array_equal(GridAPP().grid(1), [[1.0]])


def test_grid_refuses_to_explode():
    with pytest.raises(ValueError, match=r"26 classes makes 3169870830126 grid points, .*max_bags"):
        GridAPP().bags(np.arange(26))
    with pytest.raises(ValueError, match=r"42 bags with repeats=2: more than max_bags=41"):
        GridAPP(repeats=2, max_bags=41).bags([0, 1])


@given(st.integers(1, 12), st.integers(1, 1000), st.integers(0, 2**31))
def test_counts_are_within_one_and_complete(k, size, seed):
    p = np.random.default_rng(seed).dirichlet(np.full(k, 0.5), 20)
    counts = round_counts(p, size)
    np.testing.assert_array_equal(counts.sum(axis=1), size)
    assert (np.abs(counts - p * size) < 1 + 1e-9).all()
    assert (counts >= 0).all()


@given(st.lists(st.integers(0, 500), min_size=1, max_size=10).filter(lambda c: sum(c) > 0))
def test_whole_counts_come_back(counts):
    size = sum(counts)
    np.testing.assert_array_equal(round_counts(np.array(counts) / size, size), counts)


def test_remainders_go_to_the_largest_fractions():
    np.testing.assert_array_equal(round_counts([0.17, 0.38, 0.45], 10), [2, 4, 4])
    np.testing.assert_array_equal(round_counts([0.5, 0.5], 3), [2, 1])


@pytest.mark.parametrize("make", [list, np.array, pd.Series, pl.Series, pd.Categorical])
def test_labels_of_any_container(make):
    expected = APP(n_bags=5, bag_size=20).bags(Y)
    _same(APP(n_bags=5, bag_size=20).bags(make(Y.tolist())), expected)


def test_classes_give_the_order_of_the_columns():
    forward = NPP(n_bags=5, bag_size=20).bags(Y).prevalences
    backward = NPP(n_bags=5, bag_size=20).bags(Y, classes=["c", "z", "b", "a"]).prevalences
    np.testing.assert_array_equal(backward[:, [3, 2, 0]], forward)
    assert not backward[:, 1].any()
    codes, classes = encode_labels([2.0, 1.0], classes=[1, 2])
    assert codes.tolist() == [1, 0]
    assert classes.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        ([], None, "y is empty"),
        ([[0, 1]], None, "y must be a vector"),
        ([0.0, np.nan], None, "y has missing values"),
        (np.array(["a", None], dtype=object), None, "y has missing values"),
        (pd.Series(["a", pd.NA]), None, "y has missing values"),
        (np.array(["a", 1], dtype=object), None, "y mixes types"),
        ([0, 1, 5], [0, 1], r"y has labels that are not in classes: \[5\]"),
        ([0, 1], ["0", "1"], r"y has labels that are not in classes: \[0, 1\]"),
        ([0, 1], [0, 1, 1], "classes must be distinct"),
        ([0, 1], [], "classes is empty"),
    ],
)
def test_bad_labels_are_refused(protocol, y, classes, message):
    with pytest.raises(ValueError, match=message):
        protocol.bags(y, classes)


def test_a_class_the_pool_lacks_is_refused():
    for asking in (APP(n_bags=3), GridAPP(), DirichletProtocol(n_bags=3)):
        with pytest.raises(ValueError, match=r"needs \d+ instances of class 'z', but y has none"):
            asking.bags(Y, classes=["a", "b", "c", "z"])
    fine = NPP(n_bags=3, bag_size=10).bags(Y, classes=["a", "b", "c", "z"])
    np.testing.assert_array_equal(fine.prevalences[:, 3], 0)


def test_impossible_draws_without_replacement_are_refused():
    with pytest.raises(
        ValueError, match=r"needs \d+ instances of class 'c', but y has 10 and replace=False"
    ):
        APP(n_bags=100, bag_size=50, replace=False).bags(np.repeat([*"abc"], [60, 60, 10]))
    for protocol in (APP(bag_size=101, replace=False), NPP(bag_size=101, replace=False)):
        with pytest.raises(ValueError, match="bag_size=101 is larger than the pool of 100"):
            protocol.bags(Y)


@pytest.mark.parametrize("kind", [APP, NPP, DirichletProtocol])
@pytest.mark.parametrize("value", [0, -3, 2.5, True, None, "many"])
def test_bad_parameters_are_refused(kind, value):
    for name in ("n_bags", "bag_size"):
        with pytest.raises(ValueError, match=f"{name} must be an integer of at least 1"):
            kind(**{name: value})
    if value != 0:
        with pytest.raises(ValueError, match="random_state must be an integer of at least 0"):
            kind(random_state=value)
    if value is not True:
        with pytest.raises(ValueError, match='replace must be "auto", True or False'):
            kind(replace=value)


def test_bad_grids_and_concentrations_are_refused():
    with pytest.raises(ValueError, match="n_prevalences must be an integer of at least 2"):
        GridAPP(n_prevalences=1)
    with pytest.raises(ValueError, match="repeats must be"):
        GridAPP(repeats=0)
    for bad in (0.0, -1.0, np.nan, np.inf, [], [1.0, 0.0], [[1.0]]):
        with pytest.raises(ValueError, match="concentration must be"):
            DirichletProtocol(concentration=bad)


def test_degenerate_pools():
    one = APP(n_bags=2, bag_size=5).bags(["only"])
    np.testing.assert_array_equal(one.prevalences, [[1.0], [1.0]])
    np.testing.assert_array_equal(one.bags.indices, np.zeros(10))
    single = APP(n_bags=10, bag_size=1).bags(Y)
    assert set(np.unique(single.prevalences)) == {0.0, 1.0}
    exact = APP(n_bags=1, bag_size=3, replace=False).bags([1, 1, 1])
    np.testing.assert_array_equal(exact.bags.indices, [0, 1, 2])


def test_given_bags():
    y = [0, 0, 1, 1]
    bags, truth = [[0, 1, 2], [2, 3]], [[2 / 3, 1 / 3], [0, 1]]
    for given_bags in (bags, Bags.from_indices(bags, 4)):
        for labels in (y, None):
            drawn = GivenBags(given_bags, truth, pool_size=4).bags(labels)
            np.testing.assert_array_equal(drawn.prevalences, truth)
            assert [bag.tolist() for bag in drawn.bags] == bags
            assert drawn.classes.tolist() == [0, 1]
    named = GivenBags(bags, truth, pool_size=4).bags(classes=["neg", "pos"])
    assert named.classes.tolist() == ["neg", "pos"]
    weighted = GivenBags(sp.csr_array([[3.0, 0, 1, 0]]), [[0.75, 0.25]])
    np.testing.assert_array_equal(weighted.bags(y).bags.weights, [3, 1])


@pytest.mark.parametrize(
    ("bags", "truth", "message"),
    [
        ([[0]], [[0.5, 0.5]] * 2, "prevalences has 2 rows, but there are 1 bags"),
        ([[0]], [[0.5, 0.25, 0.25]], "prevalences has 3 columns, but there are 2 classes"),
        ([[0]], [[0.5, 0.6]], "prevalences must have rows that sum to one"),
        ([[0]], [[np.nan, 0.6]], "prevalences contains NaN"),
        ([[0, 9]], [[1.0, 0.0]], "outside the pool of 4"),
        ([[]], [[1.0, 0.0]], "bag 0 is empty"),
        (Bags.whole(5), [[1.0, 0.0]], "pool of 5 instances, got 4"),
    ],
)
def test_bad_given_bags_are_refused(bags, truth, message):
    with pytest.raises(ValueError, match=message):
        GivenBags(bags, truth).bags([0, 0, 1, 1])


def test_given_bags_without_labels_need_a_pool_size():
    with pytest.raises(ValueError, match="pool_size is missing"):
        GivenBags([[0]], [[1.0, 0.0]]).bags()


def test_streams_are_frozen():
    """Logs and published numbers rest on a seed giving the same bags in every release."""
    y = [0] * 6 + [1] * 6
    drawn = APP(n_bags=2, bag_size=5, random_state=7).bags(y)
    assert drawn.bags.indices.tolist() == [0, 2, 3, 4, 6, 0, 1, 6, 8, 11]
    np.testing.assert_array_equal(drawn.prevalences, [[0.8, 0.2], [0.4, 0.6]])
    natural = NPP(n_bags=2, bag_size=5, random_state=7).bags(y)
    assert natural.bags.indices.tolist() == [0, 7, 8, 9, 10, 0, 1, 2, 4, 5]


def test_named_prevalences_are_met_in_turn():
    drawn = AtPrevalences([[0.2, 0.3, 0.5], [0.9, 0.1, 0.0]], repeats=2, bag_size=50).bags(Y)
    np.testing.assert_allclose(drawn.prevalences, [[0.2, 0.3, 0.5], [0.9, 0.1, 0.0]] * 2)
    single = AtPrevalences([0.25, 0.75], bag_size=8).bags(np.repeat([0, 1], 20))
    np.testing.assert_allclose(single.prevalences, [[0.25, 0.75]])
    assert AtPrevalences(np.array([[0.5, 0.5]])) == AtPrevalences([[0.5, 0.5]])
    assert len({AtPrevalences([[0.5, 0.5]]), AtPrevalences([(0.5, 0.5)])}) == 1
    with pytest.raises(ValueError, match="prevalences has 2 columns, but there are 3 classes"):
        AtPrevalences([0.5, 0.5]).bags(Y)
    with pytest.raises(ValueError, match="prevalences must have rows that sum to one"):
        AtPrevalences([[0.5, 0.6]])


def test_prevalences_by_the_names_of_classes():
    y = np.repeat(["ant", "bee", "cat"], 100)
    shares = [{"cat": 0.2, "ant": 0.8}, {"bee": 1.0}]
    protocol = AtPrevalences(shares, repeats=2, bag_size=50)
    expected = [[0.8, 0.0, 0.2], [0.0, 1.0, 0.0]]
    np.testing.assert_allclose(protocol.bags(y).prevalences, expected * 2)
    others = protocol.bags(y, classes=["ant", "bee", "cat", "dog"]).prevalences
    np.testing.assert_allclose(others[:2], [[0.8, 0.0, 0.2, 0.0], [0.0, 1.0, 0.0, 0.0]])
    single = AtPrevalences({"ant": 0.5, "bee": 0.5}, bag_size=10)
    np.testing.assert_allclose(single.bags(y).prevalences, [[0.5, 0.5, 0.0]])
    assert hash(protocol) == hash(AtPrevalences(protocol.prevalences, repeats=2, bag_size=50))
    with pytest.raises(ValueError, match="prevalences names 'dog', but the classes are 'ant', "):
        AtPrevalences({"ant": 0.5, "dog": 0.5}).bags(y)
    with pytest.raises(ValueError, match="prevalences must have rows that sum to one"):
        AtPrevalences({"ant": 0.5, "bee": 0.6})
