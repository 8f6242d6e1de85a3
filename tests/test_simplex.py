"""The simplex: checks refuse what is not on it, projection and sampling are what they say."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize
from scipy.stats import kstest

from kdey.simplex import check_posteriors, check_prevalence, project, row_sums, sample_uniform

GOOD = np.array([[0.2, 0.8], [1.0, 0.0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_good_posteriors_are_not_copied(dtype):
    p = GOOD.astype(dtype)
    assert check_posteriors(p) is p


@pytest.mark.parametrize(
    "given",
    [GOOD.tolist(), GOOD.astype(object), pd.DataFrame(GOOD), GOOD.astype(np.float16), GOOD[1:] > 0],
    ids=["list", "object", "frame", "float16", "bool"],
)
def test_other_containers_become_float64(given):
    checked = check_posteriors(given)
    assert checked.dtype == np.float64
    np.testing.assert_allclose(checked, np.asarray(given, dtype=float))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([0.5, 0.5], r"scores must have shape \(n_instances, n_classes\)"),
        (np.empty((0, 2)), "scores is empty"),
        ([[0.2, 0.3, 0.5]], "3 columns, expected one per class: 2"),
        ([[0.5, 0.5], [np.nan, 1.0]], r"NaN or infinity \(first in row 1\)"),
        ([[np.inf, -np.inf]], r"NaN or infinity \(first in row 0\)"),
        ([[0.5, 0.5], [1.1, -0.1]], r"negative values \(row 1 has -0.1\)"),
        ([[0.5, 0.5], [0.5, 0.4]], "row 1 sums to 0.9"),
        ([["0.5", "0.5"]], "scores must be real numbers"),
        ([[0.5, 0.5], [1.0]], "scores must be a rectangular array"),
        ([[0.5 + 0j, 0.5]], "scores must be real numbers"),
        ([["a", 1.0]], "scores must be"),
        (np.array([[None, 1.0]], dtype=object), "scores"),
        (np.array([[1, 2]], dtype="M8[s]"), "scores must be real numbers"),
    ],
)
def test_bad_posteriors_are_named(bad, message):
    with pytest.raises(ValueError, match=message):
        check_posteriors(bad, 2, name="scores")


def test_rounding_noise_is_taken_and_cleaned():
    noisy = np.array([[1.0 + 1e-9, -1e-9]])
    assert check_posteriors(noisy).min() == 0.0
    assert noisy.min() < 0  # the caller's array is left alone
    check_posteriors([[0.3333, 0.3333, 0.3333]])  # four decimals
    with pytest.raises(ValueError, match="sum to one"):
        check_posteriors([[0.33, 0.33, 0.33]])


def test_prevalence_is_a_vector():
    v = check_prevalence(np.array([0.25, 0.75], dtype=np.float32))
    assert v.dtype == np.float64
    with pytest.raises(ValueError, match="prevalence must be a vector"):
        check_prevalence(GOOD)
    with pytest.raises(ValueError, match="prior has 2 columns"):
        check_prevalence([0.5, 0.5], 3, name="prior")


finite = st.floats(-1e3, 1e3, allow_nan=False)


@given(hnp.arrays(np.float64, st.integers(1, 8), elements=finite))
def test_projection_satisfies_its_optimality_conditions(v):
    x = project(v)
    assert x.min() >= 0
    assert x.sum() == pytest.approx(1.0, abs=1e-9)
    # The nearest point of a convex set makes no acute angle with any direction into the set;
    # over the simplex it is enough to look at the corners.
    residual = v - x
    assert residual.max() - residual @ x <= 1e-9 * (1 + np.abs(v).max())


@pytest.mark.smoke
def test_projection_matches_a_general_optimiser():
    rng = np.random.default_rng(0)
    for v in rng.normal(size=(10, 4)):
        found = minimize(
            lambda x, v=v: ((x - v) ** 2).sum(),
            np.full(4, 0.25),
            bounds=[(0, 1)] * 4,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(project(v), found.x, atol=1e-6)


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=finite))
def test_rows_are_projected_one_by_one(rows):
    np.testing.assert_array_equal(project(rows), [project(row) for row in rows])


def test_projection_of_hard_rows():
    np.testing.assert_array_equal(project([1e17, 0.0, -1e300]), [1.0, 0.0, 0.0])
    np.testing.assert_allclose(project([1e17, 1e17]), [0.5, 0.5])
    np.testing.assert_allclose(project([5.0]), [1.0])
    inside = np.array([0.1, 0.2, 0.7])
    np.testing.assert_allclose(project(inside), inside, atol=1e-15)
    for bad in ([np.nan, 1.0], [np.inf, 0.0], []):
        with pytest.raises(ValueError, match="points must be finite"):
            project(bad)


@settings(max_examples=25)
@given(st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_uniform_prevalences_lie_on_the_simplex(k, seed):
    drawn = sample_uniform(k, 7, np.random.default_rng(seed))
    assert drawn.shape == (7, k)
    assert drawn.min() >= 0
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0)
    np.testing.assert_array_equal(drawn, sample_uniform(k, 7, np.random.default_rng(seed)))


def test_uniform_prevalences_have_uniform_margins():
    # Each entry of a uniform point of the simplex follows Beta(1, k - 1).
    drawn = sample_uniform(5, 4000, np.random.default_rng(1))
    for column in drawn.T:
        assert kstest(column, "beta", args=(1, 4)).pvalue > 1e-3


def test_sums_of_rows_do_not_depend_on_the_memory():
    values = np.random.default_rng(0).normal(size=(40, 3))
    expected = row_sums(values)
    np.testing.assert_array_equal(row_sums(np.asfortranarray(values)), expected)
    np.testing.assert_array_equal(row_sums(values[:7]), expected[:7])
    np.testing.assert_allclose(expected[:, 0], values.sum(axis=1), rtol=1e-12, atol=1e-15)
