"""Bad and degenerate posteriors, labels and weights: a clear error, or a stated behaviour."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import kdey
from kdey.simplex import NEGATIVE_TOLERANCE, SUM_TOLERANCE
from kdey.tuning import TuningWarning

from .methods import automatic, binary, multiclass

ALL = {name: (q, 3) for name, q in multiclass().items()} | {
    f"{name}-binary": (q, 2) for name, q in binary().items()
}
#: Without "DM-meanHD", whose several starts take a second per bag; DM's checks are the same.
METHODS = {
    name: pair
    for name, pair in ALL.items()
    if hasattr(pair[0], "fit_posteriors") and name != "DM-meanHD"
}
#: One per kind of row and problem, where all would say the same.
FEW = ["CC", "PACC", "EMQ", "DIR", "DM-HD", "DM-CS", "KDEyML", "KDEyCS", "KDEyHD"]
#: Those that hand the labels on to quantifiers inside.
WRAPPERS = ["OneVsAll-HDy", "Median-KDEyML", "Ensemble-PACC", "Ordered-PACC"]


def posteriors(k: int, n: int = 120, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    p = rng.dirichlet(np.ones(k), n) + 2 * np.eye(k)[y] * rng.random((n, 1))
    return p / p.sum(axis=1, keepdims=True), y


def make(name: str) -> Any:
    made = clone(METHODS[name][0])
    return made.set_params(**{s: 0 for s in made.get_params() if s.endswith("random_state")})


@cache
def fitted(name: str) -> Any:
    return make(name).fit_posteriors(*posteriors(METHODS[name][1]))


def assert_prevalence(p: Any, k: int) -> None:
    assert p.shape == (k,)
    assert np.isfinite(p).all()
    assert (p >= 0).all()
    assert p.sum() == pytest.approx(1, abs=1e-9)


def _with(value: float) -> Any:
    def change(p: Any) -> Any:
        p = p.copy()
        p[3, 0] = value
        return p

    return change


def _scaled(factor: float) -> Any:
    def change(p: Any) -> Any:
        p = p.copy()
        p[3] *= factor
        return p

    return change


def _negative(amount: float) -> Any:
    def change(p: Any) -> Any:
        p = p.copy()
        p[3] = 0
        p[3, :2] = -amount, 1 + amount
        return p

    return change


BAD = {
    "empty": (lambda p: p[:0], "posteriors is empty: a bag needs at least one instance"),
    "nan": (_with(np.nan), r"posteriors contains NaN or infinity \(first in row 3\)"),
    "inf": (_with(np.inf), r"posteriors contains NaN or infinity \(first in row 3\)"),
    "-inf": (_with(-np.inf), r"posteriors contains NaN or infinity \(first in row 3\)"),
    "sum-high": (
        _scaled(1 + 1.01 * SUM_TOLERANCE),
        r"posteriors must have rows that sum to one \(tolerance 0.001\); row 3 sums to 1.00101",
    ),
    "sum-low": (_scaled(1 - 1.01 * SUM_TOLERANCE), "row 3 sums to 0.99899"),
    "unnormalised": (lambda p: 7 * p, "posteriors must have rows that sum to one"),
    "negative": (
        _negative(2 * NEGATIVE_TOLERANCE),
        r"posteriors contains negative values \(row 3 has -2e-08\)",
    ),
    "columns": (lambda p: p[:, 1:], "posteriors has . columns, expected one per class"),
    "more-columns": (lambda p: np.hstack([p, 0 * p]), "posteriors has . columns, expected one per"),
    "vector": (lambda p: p[:, 0], "posteriors must have shape"),
    "cube": (lambda p: p[None], "posteriors must have shape"),
    "text": (lambda p: p.astype(str), "posteriors must be real numbers"),
    "objects": (lambda p: np.full(p.shape, None), "posteriors (must be numbers|contains NaN)"),
    "ragged": (lambda p: [[0.5, 0.5], [1.0]], "posteriors must be a rectangular array"),
    "complex": (lambda p: p.astype(complex), "posteriors must be real numbers"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("name", METHODS)
def test_bad_posteriors_of_a_bag_are_refused_by_name(name: str, case: str) -> None:
    change, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        fitted(name).aggregate(change(posteriors(METHODS[name][1])[0]))


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("name", [*FEW, *WRAPPERS])
def test_bad_training_posteriors_are_refused_by_name(name: str, case: str) -> None:
    change, message = BAD[case]
    p, y = posteriors(3)
    with pytest.raises(ValueError, match=message):
        make(name).fit_posteriors(change(p), y)


@pytest.mark.parametrize("name", METHODS)
def test_rounding_within_the_tolerances_is_accepted(name: str) -> None:
    p = posteriors(METHODS[name][1])[0]
    expected = fitted(name).aggregate(p)
    for change in (
        _scaled(1 + 0.99 * SUM_TOLERANCE),
        _scaled(1 - 0.99 * SUM_TOLERANCE),
        _negative(NEGATIVE_TOLERANCE / 2),
    ):
        found = fitted(name).aggregate(change(p))
        assert_prevalence(found, METHODS[name][1])
        np.testing.assert_allclose(found, expected, atol=0.05)  # one of 120 instances moved


@pytest.mark.parametrize("name", METHODS)
def test_number_types_do_not_matter(name: str) -> None:
    p = posteriors(METHODS[name][1])[0]
    q, expected = fitted(name), fitted(name).aggregate(p)
    np.testing.assert_array_equal(q.aggregate(p.astype(object)), expected)
    np.testing.assert_array_equal(q.aggregate(p.tolist()), expected)
    np.testing.assert_allclose(q.aggregate(np.asfortranarray(p)), expected, atol=1e-6)
    np.testing.assert_allclose(q.aggregate(p.astype(np.float32)), expected, atol=1e-3)


@pytest.mark.parametrize("name", METHODS)
def test_unfitted_use_is_told(name: str) -> None:
    p = posteriors(METHODS[name][1])[0]
    for call in (make(name).aggregate, make(name).predict, make(name).solve_posteriors):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call(p)


@pytest.mark.parametrize("name", METHODS)
def test_mismatched_lengths_are_told(name: str) -> None:
    p, y = posteriors(METHODS[name][1])
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[120, 119\]"):
        make(name).fit_posteriors(p, y[:-1])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(7), r"sample_weight must have shape \(120,\), got \(7,\)"),
        (-np.ones(120), "sample_weight must be finite, non-negative and not all zero"),
        (np.full(120, np.nan), "sample_weight must be finite"),
        (np.zeros(120), "sample_weight must be finite, non-negative and not all zero"),
        (np.full(120, "x"), "sample_weight must be numbers"),
    ],
)
@pytest.mark.parametrize("name", FEW)
def test_bad_training_weights_are_refused(name: str, weights: Any, message: str) -> None:
    p, y = posteriors(3)
    with pytest.raises(ValueError, match=message):
        make(name).fit_posteriors(p, y, sample_weight=weights)


@pytest.mark.parametrize("name", FEW)
def test_a_class_whose_weights_vanish_is_refused(name: str) -> None:
    p, y = posteriors(3)
    labels = np.array(["a", "b", "c"])[y]
    with pytest.raises(ValueError, match=r"class .*c.* has no training instance to build on.*weig"):
        make(name).fit_posteriors(p, labels, sample_weight=y != 2)


@pytest.mark.parametrize("name", FEW)
def test_bad_bags_are_refused(name: str) -> None:
    p, q = posteriors(3)[0], fitted(name)
    for bags, message in (
        ([[]], "bag 0 is empty"),
        ([[0], [1, 120]], "bag 1 has positions outside the pool of 120"),
        ([[-1]], "bag 0 has positions outside the pool"),
        ([[0.5]], "bag 0 must hold integer positions"),
        ([], "bags is empty"),
        (kdey.Bags.whole(7), "bags were made for a pool of 7 instances, got 120"),
    ):
        with pytest.raises(ValueError, match=message):
            q.aggregate_bags(p, bags)


@pytest.mark.parametrize("name", [*FEW, *WRAPPERS, "HDy-binary"])
def test_labels_of_any_kind_name_the_classes(name: str) -> None:
    k = METHODS[name][1]
    p, y = posteriors(k)
    expected = fitted(name).aggregate(p)
    kinds = [y.tolist(), tuple(y.tolist()), np.array(["a", "b", "c"])[y], y.astype(np.uint8)]
    kinds += [np.array(["a", "b", "c"], dtype=object)[y].tolist(), y.astype(float)]
    kinds += [y.astype(bool)] if k == 2 else []
    for labels in kinds:
        q = make(name).fit_posteriors(p, labels)
        assert list(q.classes_) == sorted(set(np.asarray(labels).tolist()))
        np.testing.assert_allclose(q.aggregate(p), expected, atol=1e-9)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(120), "y contains one class only"),
        (["only"] * 120, "y contains one class only"),
        ([], "y is empty"),
        (np.linspace(0, 1, 120), "Unknown label type"),
        (np.full(120, np.nan), "y contains NaN or infinity"),
        ([0, "a", None] * 40, "y mixes types: 'a' is a str and 0 a int"),
        (np.zeros((120, 2)), "y should be a 1d array"),
    ],
)
def test_bad_labels_are_refused(name: str, labels: Any, message: str) -> None:
    p = posteriors(METHODS[name][1])[0]
    with pytest.raises(ValueError, match=message):
        make(name).fit_posteriors(p, labels)


@pytest.mark.parametrize("name", FEW)
def test_classes_that_do_not_fit_the_labels_are_refused(name: str) -> None:
    p, y = posteriors(3)
    for classes, labels, message in (
        ([0, 1, 2], np.minimum(y, 1), "classes without a single training instance.*2"),
        ([0, 1], y, "y has labels that are not in classes.*2"),
        ([2, 1, 0], y, "classes must be sorted"),
        ([0, 1, 1, 2], y, "classes must be distinct"),
    ):
        with pytest.raises(ValueError, match=message):
            make(name).fit_posteriors(p, labels, classes=classes)


def test_binary_methods_say_what_to_do_with_more_classes() -> None:
    p, y = posteriors(3)
    for method in (kdey.HDy(), kdey.DyS(), kdey.MM()):
        with pytest.raises(ValueError, match=r"binary quantifier, but y has 3 classes; use OneVsA"):
            method.fit_posteriors(p, y)


@pytest.mark.smoke
@pytest.mark.parametrize("name", METHODS)
def test_a_class_of_one_instance_is_fitted(name: str) -> None:
    k = METHODS[name][1]
    p, y = posteriors(k)
    keep = (y != k - 1) | (np.arange(120) == np.flatnonzero(y == k - 1)[0])
    q = make(name)
    if name == "DIR":  # one point has no spread: said so
        with pytest.warns(UserWarning, match="Dirichlet likelihood is unbounded"):
            q.fit_posteriors(p[keep], y[keep])
    elif name == "KDEyML-binary" and q.bandwidth == "auto":  # no class to draw tuning bags from
        with pytest.warns(TuningWarning, match="no two classes have instances in more than one"):
            q.fit_posteriors(p[keep], y[keep])
    else:
        q.fit_posteriors(p[keep], y[keep])
    assert_prevalence(q.aggregate(p), k)
    assert_prevalence(q.aggregate(p[:1]), k)


@pytest.mark.parametrize("name", METHODS)
def test_exact_zeros_and_ones_are_no_trouble(name: str) -> None:
    """Decisions instead of posteriors: 5 % of the training ones wrong, a bag of 20/30/50 %."""
    k = METHODS[name][1]
    y = np.arange(300) % k
    p = np.eye(k)[y]
    p[:15] = np.roll(p[:15], 1, axis=1)
    truth = np.array([0.2, 0.3, 0.5] if k == 3 else [0.3, 0.7])
    bag = np.eye(k)[np.repeat(np.arange(k), np.round(200 * truth).astype(int))]
    q = make(name).fit_posteriors(p, y)
    found = q.aggregate(bag)
    assert_prevalence(found, k)
    np.testing.assert_allclose(found, truth, atol=0.06)


@pytest.mark.parametrize("k", [2, 5, 30, 100])
@pytest.mark.parametrize("name", ["CC", "PACC", "EMQ", "DIR", "DM-T", "KDEyML", "KDEyCS", "KDEyL2"])
def test_from_two_to_a_hundred_classes(name: str, k: int) -> None:
    p, y = posteriors(k, 10 * k)
    q = make(name).fit_posteriors(p, y)
    assert_prevalence(q.aggregate(p), k)
    assert_prevalence(q.aggregate(p[:1]), k)
    # A bag of one class alone: every method leans to it (CC and PCC correct nothing).
    own = q.aggregate(p[y == 1])
    assert own.argmax() == 1


def test_random_state_determines_kdeyhd_and_the_global_generator_is_left_alone() -> None:
    p, y = posteriors(3)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one, same, other = (
        kdey.KDEyHD(n_points=50, random_state=s, **automatic())
        .fit_posteriors(p, y)
        .aggregate(p[:40])
        for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
