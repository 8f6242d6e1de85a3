"""``estimate`` from the outside: shapes, properties, frames, JSON, HTML, bad input."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import kdey
from kdey import PACC, Bags, KDEyML, difference
from kdey.options import IntervalWarning
from kdey.validation import FewLabelsWarning
from tests.quantifiers.methods import multiclass

from .cases import bag, separated, training

TRUTH = (0.2, 0.3, 0.5)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    P, y = training(240, rng)
    points, shares = bag(150, TRUTH, rng)
    return P, y, points, shares


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(1)
    y = np.arange(150) % 3
    X = np.eye(3)[y] * 2 + rng.normal(size=(150, 3))
    return X, np.array(["a", "b", "c"])[y]


@pytest.mark.smoke
@pytest.mark.parametrize("name", list(multiclass()))
def test_every_method_has_limits(name: str, features) -> None:
    X, y = features
    quantifier = multiclass()[name].fit(X, y)
    made = quantifier.estimate(X[:60], options=kdey.Options(n_replicates=20))
    np.testing.assert_allclose(made.estimate, quantifier.predict(X[:60]), atol=1e-6)
    assert (made.low >= 0).all()
    assert (made.low <= made.estimate).all()
    assert (made.estimate <= made.high).all()
    assert (made.high <= 1).all()
    assert (made.high - made.low > 0).all()
    assert made.region.contains(made.estimate)
    json.loads(made.to_json())


@pytest.mark.parametrize("method", ["analytic", "bootstrap"])
def test_many_bags_equal_single_ones(data, method: str) -> None:
    P, y, points, _ = data
    quantifier = KDEyML(bandwidth=0.1).fit_posteriors(P, y)
    parts = [np.arange(50), np.arange(50, 150), np.arange(0, 150, 2)]
    many = quantifier.estimate_posteriors(
        points, parts, options=kdey.Options(method=method, n_replicates=30)
    )
    assert len(many) == 3
    for part, one in zip(parts, many, strict=True):
        alone = quantifier.estimate_posteriors(
            points[part], options=kdey.Options(method=method, n_replicates=30)
        )
        np.testing.assert_allclose(one.low, alone.low, atol=1e-6)
        np.testing.assert_allclose(one.high, alone.high, atol=1e-6)
        np.testing.assert_allclose(one.classify_and_count, alone.classify_and_count)
    np.testing.assert_array_equal(many.low, [one.low for one in many])
    assert len(many[1:]) == 2


def test_order_of_instances_and_scale_of_weights_do_not_matter(data) -> None:
    P, y, points, _ = data
    rng = np.random.default_rng(3)
    order, w = rng.permutation(len(points)), rng.random(len(points))
    for quantifier in (KDEyML(bandwidth=0.1).fit_posteriors(P, y), PACC().fit_posteriors(P, y)):
        one = quantifier.estimate_posteriors(points, sample_weight=w)
        two = quantifier.estimate_posteriors(points[order], sample_weight=7 * w[order])
        np.testing.assert_allclose([one.low, one.high], [two.low, two.high], atol=1e-6)
        plain = quantifier.estimate_posteriors(points)
        assert one.diagnostics["effective_size"] < plain.diagnostics["effective_size"]
        assert (one.high - one.low).sum() > (plain.high - plain.low).sum()


def test_clusters_widen_limits(data) -> None:
    P, y, points, _ = data
    repeated = np.repeat(points[:50], 3, axis=0)
    quantifier = KDEyML(bandwidth=0.1).fit_posteriors(P, y)
    blind = quantifier.estimate_posteriors(repeated)
    for method in ("analytic", "bootstrap"):
        aware = quantifier.estimate_posteriors(
            repeated, clusters=np.repeat(np.arange(50), 3), options=kdey.Options(method=method)
        )
        single = quantifier.estimate_posteriors(points[:50], options=kdey.Options(method=method))
        assert (aware.high - aware.low > blind.high - blind.low).all()
        ratio = (aware.high - aware.low) / (single.high - single.low)
        assert (np.abs(ratio - 1) < 0.25).all(), ratio


def test_confidence_orders_the_limits(data) -> None:
    P, y, points, _ = data
    quantifier = PACC().fit_posteriors(P, y)
    widths = [
        (lambda e: e.high - e.low)(quantifier.estimate_posteriors(points, confidence=c))
        for c in (0.5, 0.9, 0.99)
    ]
    assert (widths[0] < widths[1]).all()
    assert (widths[1] < widths[2]).all()
    joint = quantifier.estimate_posteriors(
        points, confidence=0.9, options=kdey.Options(simultaneous=True)
    )
    alone = quantifier.estimate_posteriors(points, confidence=1 - 0.1 / 3)
    np.testing.assert_allclose(joint.low, alone.low)
    own = quantifier.estimate_posteriors(points, target="bag", confidence=0.9)
    assert (own.high - own.low < widths[1]).all()


def test_an_absent_class_has_a_sensible_interval() -> None:
    rng = np.random.default_rng(5)
    P, y = training(300, rng, separated)
    points, _ = bag(100, (0.0, 0.4, 0.6), rng, separated)
    for quantifier in (KDEyML(bandwidth=0.1), PACC(), kdey.KDEyCS(bandwidth=0.1)):
        made = quantifier.fit_posteriors(P, y).estimate_posteriors(
            points, options=kdey.Options(n_replicates=50)
        )
        assert made.low[0] < 1e-9
        assert 0.02 < made.high[0] < 0.08, made  # Wilson's upper limit for 0 of 100 is 0.037
        own = quantifier.estimate_posteriors(
            points, target="bag", options=kdey.Options(n_replicates=50)
        )
        assert own.high[0] <= made.high[0]


def test_frames_json_and_text(data) -> None:
    P, y, points, _ = data
    labels = np.array(["<b>x</b>", "b", "c"])[y]
    quantifier = PACC().fit_posteriors(P, labels)
    one = quantifier.estimate_posteriors(points)
    frame = one.to_frame()
    assert list(frame["class"]) == ["<b>x</b>", "b", "c"]
    assert set(frame.columns) >= {"estimate", "low", "high", "classify_and_count"}
    held = json.loads(one.to_json())
    np.testing.assert_allclose(held["low"], one.low)
    assert held["target"] == "population"
    assert held["gap"] is not None
    assert "<b>" not in one._repr_html_()
    assert "&lt;b&gt;" in one._repr_html_()
    assert "95 %" in repr(one)
    assert f"{one.high[2]:.4f}" in str(one)
    assert f"{100 * one.high[2]:.1f}" in repr(one)
    many = quantifier.estimate_posteriors(points, [np.arange(20), np.arange(30)])
    table = many.to_frame()
    assert len(table) == 6
    assert list(table["bag"]) == [0, 0, 0, 1, 1, 1]
    assert len(json.loads(many.to_json())) == 2
    assert "2 bags" in repr(many)
    assert "<b>" not in many._repr_html_()


def test_difference_shares_the_templates(data) -> None:
    P, y, _, _ = data
    rng = np.random.default_rng(6)
    pool = np.concatenate([bag(2000, TRUTH, rng)[0], bag(2000, (0.3, 0.3, 0.4), rng)[0]])
    parts = np.arange(4000).reshape(2, 2000)
    for method in ("analytic", "bootstrap"):
        quantifier = KDEyML(bandwidth=0.1).fit_posteriors(P, y)
        options = {"method": method, "n_replicates": 200}
        one, two = quantifier.estimate_posteriors(pool, parts, options=kdey.Options(**options))
        made = difference(one, two)
        assert made.shared
        np.testing.assert_allclose(made.difference, one.estimate - two.estimate)
        other = (
            KDEyML(bandwidth=0.1)
            .fit_posteriors(P[1:], y[1:])
            .estimate_posteriors(pool[parts[1]], options=kdey.Options(**options))
        )
        apart = difference(one, other)
        assert not apart.shared
        assert (made.high - made.low < 0.8 * (apart.high - apart.low)).all()
        back = difference(two, one)
        np.testing.assert_allclose(back.low, -made.high, atol=0.02)
    assert len(made.to_frame()) == 3


def test_differences_need_like_estimates(data) -> None:
    P, y, points, _ = data
    quantifier = PACC().fit_posteriors(P, y)
    one = quantifier.estimate_posteriors(points)
    with pytest.raises(ValueError, match="same confidence"):
        difference(one, quantifier.estimate_posteriors(points, confidence=0.9))
    with pytest.raises(ValueError, match="same target"):
        difference(one, quantifier.estimate_posteriors(points, target="bag"))


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, -0.1, np.nan, "0.95", True])
def test_bad_confidence(data, confidence) -> None:
    P, y, points, _ = data
    with pytest.raises(ValueError, match="confidence must be"):
        PACC().fit_posteriors(P, y).estimate_posteriors(points, confidence=confidence)


def test_bad_options(data) -> None:
    P, y, points, _ = data
    quantifier = kdey.KDEyCS(bandwidth=0.1).fit_posteriors(P, y)
    for wrong in ({"target": "pool"}, {"method": "exact"}, {"interval": "t"}, {"n_replicates": 1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            quantifier.estimate_posteriors(points, options=kdey.Options(**wrong))
    for name in ("n_replicate", "n_replicates", "folds"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            quantifier.estimate_posteriors(points, [[0, 1]], **{name: 50})
    with pytest.raises(TypeError, match="unexpected keyword argument 'folds'"):
        kdey.Options(folds=50)
    with pytest.raises(TypeError, match=r"options must be kdey.Options\(...\)"):
        quantifier.estimate_posteriors(points, options={"n_replicates": 50})
    with pytest.raises(ValueError, match="method='analytic' needs"):
        quantifier.estimate_posteriors(points, options=kdey.Options(method="analytic"))
    with pytest.raises(ValueError, match="clusters must hold one id"):
        quantifier.estimate_posteriors(points, clusters=[1, 2])
    with pytest.raises(ValueError, match="clusters contains NaN"):
        quantifier.estimate_posteriors(points, clusters=np.full(len(points), np.nan))
    with pytest.raises(TypeError):
        quantifier.estimate_posteriors(points, confidnce=0.9)


def test_a_bag_of_one_says_nothing(data) -> None:
    P, y, points, _ = data
    for quantifier in (KDEyML(bandwidth=0.1), PACC(), kdey.KDEyCS(bandwidth=0.1)):
        quantifier.fit_posteriors(P, y)
        with pytest.warns(IntervalWarning, match="single instance"):
            made = quantifier.estimate_posteriors(points[:1])
        assert (made.low == 0).all()
        assert (made.high == 1).all()
        assert made.region.contains([0.0, 0.0, 1.0])
        assert "says almost nothing" in repr(made)
    with pytest.warns(IntervalWarning, match="single instance or cluster"):
        made = PACC().fit_posteriors(P, y).estimate_posteriors(points, clusters=["a"] * 150)
    assert (made.high == 1).all()


@pytest.mark.parametrize("method", ["analytic", "bootstrap"])
def test_a_class_of_one_training_instance(data, method: str) -> None:
    P, y, points, _ = data
    keep = np.flatnonzero((y != 0) | (np.arange(len(y)) == 0))
    for quantifier in (KDEyML(bandwidth=0.1), PACC()):
        quantifier.fit_posteriors(P[keep], y[keep])
        with pytest.warns(IntervalWarning, match="single training instance"):
            made = quantifier.estimate_posteriors(
                points, options=kdey.Options(method=method, n_replicates=40)
            )
        assert (made.low[0], made.high[0]) == (0, 1)
        assert np.isfinite([made.low, made.high]).all()


def test_bag_target_needs_posteriors(features) -> None:
    X, y = features
    quantifier = kdey.DMx().fit(X, y)
    assert (
        quantifier.estimate(X[:40], options=kdey.Options(n_replicates=20)).classify_and_count
        is None
    )
    for wrong in (quantifier, kdey.TrainingPrevalence().fit(X, y)):
        with pytest.raises(ValueError, match="target='bag'"):
            wrong.estimate(X[:40], target="bag", options=kdey.Options(n_replicates=20))


def test_given_rates_have_intervals_from_the_bag_alone(data) -> None:
    points = data[2][:, :2] / data[2][:, :2].sum(axis=1, keepdims=True)
    made = kdey.ACC.from_rates(0.9, 0.8).estimate_posteriors(
        points, options=kdey.Options(n_replicates=50)
    )
    assert made.method == "bootstrap"
    assert (made.high > made.low).all()


def test_a_new_fit_forgets_the_old(data) -> None:
    P, y, points, _ = data
    quantifier = KDEyML(bandwidth=0.1).fit_posteriors(P, y)
    quantifier.estimate_posteriors(points)
    again = quantifier.fit_posteriors(P[:60], y[:60]).estimate_posteriors(points)
    fresh = KDEyML(bandwidth=0.1).fit_posteriors(P[:60], y[:60]).estimate_posteriors(points)
    np.testing.assert_array_equal(again.low, fresh.low)


def test_estimate_bags_takes_instances(features) -> None:
    X, y = features
    quantifier = PACC(cv=3).fit(X, y)
    bags = Bags.from_indices([np.arange(40), np.arange(40, 150)], 150)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = quantifier.estimate_bags(X, bags, confidence=0.9)
    np.testing.assert_allclose(made.estimate, quantifier.predict_bags(X, bags))
    alone = quantifier.estimate(X[40:], confidence=0.9)
    np.testing.assert_allclose(made[1].low, alone.low, atol=1e-9)


def test_averaged_geometries_have_limits_like_their_members(data) -> None:
    P, y, points, _ = data
    quantifier = KDEyML(random_state=0).fit_posteriors(P, y)
    assert len(quantifier.row_map_.parts) > 1
    parts = [np.arange(50), np.arange(50, 150)]
    for options in ({"method": "analytic"}, {"method": "bootstrap", "n_replicates": 40}):
        many = quantifier.estimate_posteriors(points, parts, options=kdey.Options(**options))
        for part, one in zip(parts, many, strict=True):
            alone = quantifier.estimate_posteriors(points[part], options=kdey.Options(**options))
            np.testing.assert_allclose([one.low, one.high], [alone.low, alone.high], atol=1e-6)
    fixed = KDEyML(
        bandwidth=quantifier.bandwidth_,
        kernel=quantifier.kernel_,
        shrinkage=quantifier.shrinkage_,
    ).fit_posteriors(P, y)
    widths = [
        (lambda e: e.high - e.low)(q.estimate_posteriors(points)) for q in (quantifier, fixed)
    ]
    np.testing.assert_allclose(widths[0], widths[1], rtol=0.25)


def test_averaged_geometries_are_bootstrapped_member_by_member(data) -> None:
    P, y, points, _ = data
    quantifier = KDEyML(random_state=0).fit_posteriors(P, y)
    model = quantifier.model_
    members = [type(m.row_map).__name__ for m in model.members]
    assert members == ["KernelDensityMap"] * len(quantifier.row_map_.parts)
    wide = quantifier.estimate_posteriors(
        points, options=kdey.Options(method="bootstrap", n_replicates=60)
    )
    narrow = quantifier.estimate_posteriors(
        points, options=kdey.Options(method="bootstrap", n_replicates=60, resample_templates=False)
    )
    assert (wide.high - wide.low).sum() > (narrow.high - narrow.low).sum()


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        (lambda n: [None] * n, "clusters has missing values"),
        (lambda n: np.array([1, "a"] * (n // 2), dtype=object), "clusters mixes types"),
        (lambda n: np.ma.masked_equal(np.arange(n), 0), "clusters is a masked array"),
    ],
)
def test_clusters_that_are_no_ids_are_refused(clusters, message: str) -> None:
    points = np.tile([[0.2, 0.8], [0.7, 0.3]], (20, 1))
    quantifier = PACC().fit_posteriors(points, np.tile([1, 0], 20))
    with pytest.raises(ValueError, match=message):
        quantifier.estimate_posteriors(points, clusters=clusters(len(points)))


def few_labels(rng: np.random.Generator):
    P, y = training(240, rng)
    kept = np.r_[np.flatnonzero(y == 1)[:8], np.flatnonzero(y != 1)]
    return P[kept], np.array(["a", "b", "c"])[y[kept]]


def test_few_labels_are_named_at_fit_and_beside_the_estimate() -> None:
    rng = np.random.default_rng(3)
    P, y = few_labels(rng)
    points, _ = bag(60, TRUTH, rng)
    with pytest.warns(FewLabelsWarning, match=r"of the class b \(8\).*label more"):
        q = KDEyML(bandwidth=0.1).fit_posteriors(P, y)
    made = q.estimate_posteriors(points)
    assert len(made.notes) == 1
    assert "b (8)" in made.notes[0]
    assert made.notes[0] in repr(made)
    assert made.notes[0] in made._repr_html_()
    many = q.estimate_posteriors(points, [np.arange(20), np.arange(20, 60)])
    assert [one.notes for one in many] == [made.notes, made.notes]


def test_wrappers_name_few_labels_once() -> None:
    P, y = few_labels(np.random.default_rng(4))
    for wrapper in (kdey.OneVsAll(PACC()), kdey.Median(PACC(), {"cv": [3, 5]})):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            wrapper.fit_posteriors(P, y)
        assert [str(w.message).count("b (8)") for w in caught] == [1]


def test_many_labels_need_no_note(data) -> None:
    P, y, points, _ = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q = PACC().fit_posteriors(P, y)
    assert q.estimate_posteriors(points).notes == ()
