"""Sensitivity to drift: against linear programmes over all labels, and by its properties."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

import kdey
from kdey.intervals import drift
from kdey.intervals.drift import Drift, extreme_means, smallest_factor


def world(k, n=40, m=300, seed=0, spread=1.7):
    """Return training data, labels, and a bag with its prevalence."""
    rng = np.random.default_rng(seed)
    means = spread * np.eye(k)
    y = np.repeat(np.arange(k), n)
    shares = rng.dirichlet(np.full(k, 9.0))
    labels = rng.choice(k, size=m, p=shares)
    return (
        means[y] + rng.normal(size=(len(y), k)),
        y,
        means[labels] + rng.normal(size=(m, k)),
        shares,
    )


def estimate_of(k, **options):
    X, y, bag, _ = world(k, **options)
    return kdey.PACC(random_state=0).fit(X, y).estimate(bag, check_fit=False)


def full_programme(rows, centre, gains, factor):
    """Return the largest gains' alpha, with one variable per label and share (HiGHS)."""
    points, weights, offsets = rows
    n, k = len(points), len(offsets) - 1
    owners = np.repeat(np.arange(k), np.diff(offsets))
    member = np.eye(k)[owners]  # (n, k)
    # Variables: v (n,), then alpha (k,).
    equal = np.block(
        [
            [points.T, np.zeros((points.shape[1], k))],
            [member.T, -np.eye(k)],
            [np.zeros((1, n)), np.ones((1, k))],
        ]
    )
    right = np.concatenate([centre, np.zeros(k), [1.0]])
    upper = np.hstack([np.eye(n), -factor * weights[:, None] * member])
    lower = np.hstack([-np.eye(n), weights[:, None] / factor * member])
    solved = linprog(
        np.concatenate([np.zeros(n), -gains]),
        A_ub=np.vstack([upper, lower]),
        b_ub=np.zeros(2 * n),
        A_eq=equal,
        b_eq=right,
    )
    assert solved.success, solved.message
    return -solved.fun


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("factor", [1.1, 1.7])
def test_without_sampling_error_it_is_the_linear_programme(k, factor, monkeypatch):
    monkeypatch.setattr(drift, "TOLERANCE", 1e-6)
    estimate = estimate_of(k)
    found = Drift(estimate.uncertainty, 0.95)
    centre = estimate.uncertainty.centre()[:-1]
    sums = [np.eye(k)[0], np.eye(k)[-1], np.eye(k)[0] + np.eye(k)[1]]
    for gains in sums[: 2 if k == 2 else 3]:
        low, high = found.possible(gains, factor, sampling=False)
        assert low == pytest.approx(-full_programme(found.rows, centre, -gains, factor), abs=3e-5)
        assert high == pytest.approx(full_programme(found.rows, centre, gains, factor), abs=3e-5)


def test_sampling_error_is_an_ellipsoid_around_the_centre(monkeypatch):
    monkeypatch.setattr(drift, "TOLERANCE", 1e-6)
    # The support of the ellipsoid in many directions is an obvious, slower programme: the best of
    # the centres on its surface cannot be better than what is found, and comes close.
    estimate, factor, gains = estimate_of(3), 1.3, np.eye(3)[1]
    found = Drift(estimate.uncertainty, 0.95)
    covariance = factor * estimate.uncertainty.covariance()[:-1, :-1]
    value, _ = found._solve(gains, factor, covariance, True)
    root = np.linalg.cholesky(covariance) * found._radius(0.0)
    angles = np.linspace(0.0, 2.0 * np.pi, 120, endpoint=False)
    centre = estimate.uncertainty.centre()[:-1]
    values = [
        full_programme(found.rows, centre + root @ np.array([np.cos(a), np.sin(a)]), gains, factor)
        for a in angles
    ]
    assert max(values) <= value + 3e-5
    assert max(values) == pytest.approx(value, abs=2e-3)


def test_extreme_means_solve_the_programme_of_each_class():
    rng = np.random.default_rng(0)
    points, weights = rng.normal(size=(11, 2)), rng.random(11) + 0.1
    offsets = np.array([0, 4, 11])
    for a, b in pairwise(offsets):
        weights[a:b] /= weights[a:b].sum()
    u, factor = rng.normal(size=2), 1.6
    found = extreme_means(points, weights, offsets, u, factor)
    for number, (a, b) in enumerate(pairwise(offsets)):
        w = weights[a:b]
        solved = linprog(
            -(points[a:b] @ u),
            A_eq=np.ones((1, b - a)),
            b_eq=[1.0],
            bounds=list(zip(w / factor, w * factor, strict=True)),
        )
        np.testing.assert_allclose(found[number], solved.x @ points[a:b], atol=1e-9)


def test_a_factor_of_one_changes_no_mean():
    points = np.random.default_rng(0).normal(size=(6, 3))
    found = extreme_means(points, np.full(6, 1 / 3), np.array([0, 3, 6]), np.ones(3), 1.0)
    np.testing.assert_allclose(found, [points[:3].mean(axis=0), points[3:].mean(axis=0)])


@pytest.mark.parametrize("k", [2, 3])
def test_intervals_grow_with_the_factor_and_contain_the_estimate(k):
    estimate = estimate_of(k)
    found = estimate.sensitivity([2.0, 1.1, 1.0])
    np.testing.assert_array_equal(found.factors, [1.0, 1.1, 2.0])
    np.testing.assert_array_equal(found.low[0], estimate.low)
    np.testing.assert_array_equal(found.high[0], estimate.high)
    assert (np.diff(found.low, axis=0) <= 0).all()
    assert (np.diff(found.high, axis=0) >= 0).all()
    assert (found.low >= 0).all()
    assert (found.high <= 1).all()


def test_close_to_one_the_intervals_are_those_of_the_estimate():
    estimate = estimate_of(3, n=200, m=1000)
    found = estimate.sensitivity([1.0001])
    np.testing.assert_allclose(found.low[1], estimate.low, atol=0.01)
    np.testing.assert_allclose(found.high[1], estimate.high, atol=0.01)


def test_two_classes_mirror_each_other():
    found = estimate_of(2).sensitivity([1.25, 2.0])
    np.testing.assert_allclose(found.low[:, 0], 1.0 - found.high[:, 1], atol=1e-12)


def test_the_order_of_the_classes_does_not_matter():
    X, y, bag, _ = world(3)
    names = np.array(["a", "b", "c"])
    first = kdey.PACC(random_state=0).fit(X, names[y]).estimate(bag, check_fit=False)
    second = kdey.PACC(random_state=0).fit(X, names[2 - y]).estimate(bag, check_fit=False)
    one, other = first.sensitivity([1.4]), second.sensitivity([1.4])
    np.testing.assert_allclose(one.low[1], other.low[1][::-1], atol=1e-3)
    np.testing.assert_allclose(one.high[1], other.high[1][::-1], atol=1e-3)


def test_a_sum_of_classes_is_bounded_by_itself():
    estimate = estimate_of(3)
    merged = estimate.merge({"both": [0, 1]}).sensitivity([1.5])
    plain = estimate.sensitivity([1.5])
    # What the sum leaves is class 2, and a sum is known better than the sum of the ends.
    np.testing.assert_allclose(merged.low[1], [1 - plain.high[1, 2], plain.low[1, 2]], atol=1e-3)
    assert merged.high[1, 0] <= plain.high[1, :2].sum() + 1e-9


def test_the_tipping_point_is_where_the_interval_reaches_the_bound():
    estimate = estimate_of(3)
    bound = float(estimate.high[0]) + 0.05
    point = estimate.tipping_point(0, below=bound)
    assert point > 1.0
    assert estimate.sensitivity([point * 0.99]).high[1, 0] < bound
    assert estimate.sensitivity([point * 1.01]).high[1, 0] >= bound
    assert estimate.tipping_point(0, below=float(estimate.estimate[0])) == 1.0
    assert estimate.tipping_point(0, above=float(estimate.low[0]) / 2) > 1.0


def test_an_interval_that_cannot_reach_the_bound_has_no_tipping_point():
    assert smallest_factor(lambda factor: True) == np.inf
    assert smallest_factor(lambda factor: factor < 1.3) == pytest.approx(1.3, rel=0.003)
    assert smallest_factor(lambda factor: False) == 1.0


def test_the_tipping_point_of_a_difference():
    X, y, _, _ = world(2, n=200)
    means = [X[y == i].mean(axis=0) for i in (0, 1)]
    rng = np.random.default_rng(1)

    def bag(shares):
        labels = rng.choice(2, size=600, p=shares)
        return np.array(means)[labels] + rng.normal(size=(600, 2))

    q = kdey.PACC(random_state=0).fit(X, y)
    before, near, after = (q.estimate(bag([a, 1 - a]), check_fit=False) for a in (0.3, 0.31, 0.7))
    change = kdey.difference(after, before)
    assert change.tipping_point(0) == pytest.approx(change.tipping_point(1), rel=0.01)
    assert change.tipping_point(0) > 1.05
    mirrored = kdey.difference(before, after)
    assert mirrored.tipping_point(0) == pytest.approx(change.tipping_point(0), rel=1e-9)
    assert kdey.difference(near, before).tipping_point(0) == 1.0


def test_calibrated_factors_cover_what_was_seen():
    X, y, bag, _ = world(2, n=100)
    q = kdey.PACC(random_state=0).fit(X, y)
    past = q.estimate_bags(bag, [range(150), range(150, 300)], check_fit=False)
    inside = past.estimate
    assert kdey.calibrate_drift(past, inside) == 1.0
    truth = inside + np.array([[0.0, 0.0], [0.2, -0.2]])
    factor = kdey.calibrate_drift(past, truth)
    assert factor > 1.0
    wide = past[1].sensitivity([1.01 * factor])
    assert (wide.low[1] <= truth[1]).all()
    assert (truth[1] <= wide.high[1]).all()
    narrow = past[1].sensitivity([max(0.98 * factor, 1.0)])
    assert not ((narrow.low[-1] <= truth[1]) & (truth[1] <= narrow.high[-1])).all()
    assert kdey.calibrate_drift(past, truth, coverage=0.5) == 1.0


def test_shares_of_a_frame_are_matched_with_the_classes_by_name():
    X, y, bag, _ = world(2, n=100)
    q = kdey.PACC(random_state=0).fit(X, np.array(["ill", "well"])[y])
    past = q.estimate_bags(bag, [range(150), range(150, 300)], check_fit=False)
    shares = pd.DataFrame(past.estimate, columns=["ill", "well"])
    assert kdey.calibrate_drift(past, shares[["well", "ill"]]) == 1.0
    with pytest.raises(ValueError, match="but not 'sick'"):
        kdey.calibrate_drift(past, shares.rename(columns={"ill": "sick"}))


def test_the_bag_itself_shows_a_drift_that_shares_cannot_explain():
    X, y, bag, _ = world(2, n=300, m=2000, spread=1.5)
    q = kdey.EMQ(calibration="bcts", random_state=0).fit(X, y)
    assert q.estimate(bag, check_fit=False).sensitivity([1.1]).explained_from < 1.1
    # Nothing but instances that no class is sure of: much of each class has gone.
    sure = np.abs(bag[:, 0] - bag[:, 1]) > 1.0
    found = q.estimate(bag[~sure], check_fit=False).sensitivity([1.1])
    assert found.explained_from > 1.3
    assert f"{found.explained_from:.2f}" in repr(found)


def test_what_it_looks_like():
    found = estimate_of(2).sensitivity([1.5])
    lines = repr(found).splitlines()
    assert "x 1.5" in lines[1]
    assert len(lines) >= 4
    frame = found.to_frame("pandas")
    assert list(frame.columns) == ["factor", "class", "estimate", "low", "high"]
    assert len(frame) == 4


def test_refusals():
    estimate = estimate_of(2)
    for factors in ([0.9], [], [np.nan], [np.inf]):
        with pytest.raises(ValueError, match="factors"):
            estimate.sensitivity(factors)
    with pytest.raises(ValueError, match="which statement is meant"):
        estimate.tipping_point(0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        estimate.tipping_point(0, above=3)
    with pytest.raises(ValueError, match="label must be one of 0, 1"):
        estimate.tipping_point("no", above=0.3)
    X, y, bag, _ = world(2)
    booted = (
        kdey.PACC()
        .fit(X, y)
        .estimate(bag, check_fit=False, options=kdey.Options(method="bootstrap"))
    )
    with pytest.raises(ValueError, match="analytic intervals"):
        booted.sensitivity()
    with pytest.raises(ValueError, match="training posteriors"):
        kdey.EMQ().fit(X, y).estimate(bag, check_fit=False).sensitivity()
    past = kdey.PACC().fit(X, y).estimate_bags(bag, [range(20)], check_fit=False)
    with pytest.raises(ValueError, match="shape"):
        kdey.calibrate_drift(past, [0.5, 0.5])
    with pytest.raises(ValueError, match="coverage"):
        kdey.calibrate_drift(past, [[0.5, 0.5]], coverage=0)


def test_strata_drift_each_for_itself():
    from kdey.intervals.merging import StratifiedUncertainty

    first, second = estimate_of(2, seed=0), estimate_of(2, seed=0)
    both = StratifiedUncertainty(
        (first.uncertainty, second.uncertainty),
        np.array([first.estimate, second.estimate]),
        np.array([0.5, 0.5]),
        np.zeros((2, 2)),
    )
    together = drift._possible(both, 0.95, 1)(np.array([1.0, 0.0]), 1.4, True)
    alone = Drift(first.uncertainty, 0.95).possible(np.array([1.0, 0.0]), 1.4)
    np.testing.assert_allclose(together, alone)


def test_the_limits_of_many_bags_are_those_of_each():
    X, y, bag, _ = world(2)
    q = kdey.PACC(random_state=0).fit(X, y)
    both = q.estimate_bags(bag, [range(100), range(100, 300)], check_fit=False)
    low, high, reason = drift.drift_intervals_of_bags(both, 1.3)
    assert reason is None
    for number in (0, 1):
        alone = both[number].sensitivity([1.3])
        np.testing.assert_array_equal(low[number], alone.low[1])
        np.testing.assert_array_equal(high[number], alone.high[1])


def test_the_report_says_what_the_conclusion_withstands():
    from kdey.report.words import withstands_drift

    X, y, _, _ = world(2, n=100)
    q = kdey.PACC(random_state=0).fit(X, y)
    rare = np.concatenate([X[y == 0][:90], X[y == 1][:20]])
    (sentence,) = withstands_drift(q.estimate(rare, check_fit=False))
    assert sentence.startswith("The conclusion that “0” is more frequent")
    assert "by a factor of" in sentence
    assert withstands_drift(q.estimate(X, check_fit=False)) == []
    assert withstands_drift(kdey.EMQ().fit(X, y).estimate(rare, check_fit=False)) == []


def test_the_report_says_what_a_change_over_time_withstands():
    from kdey.report.words import _stands, change_withstands_drift

    X, y, _, _ = world(2, n=100)
    table = pd.DataFrame(X, columns=["a", "b"])
    q, unchecked = kdey.PACC(random_state=0).fit(table, y), kdey.Options(check_fit=False)
    weeks = pd.concat([table[:120], table[80:]]).assign(week=np.repeat(["w1", "w2"], 120))
    (sentence,) = change_withstands_drift(q.predict_groups(weeks, "week", options=unchecked))
    assert sentence.startswith("The conclusion that “0” fell from w1 to w2 stands unless")
    assert "by a factor of 1.03 or more" in _stands("it rose", 1.034), "1 would say nothing"
    same = weeks.assign(week=["w1", "w2"] * 120)
    assert change_withstands_drift(q.predict_groups(same, "week", options=unchecked)) == []


def test_the_picture_shows_a_band_for_each_class():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    found = estimate_of(3).sensitivity([1.2, 1.5])
    display = found.plot(ax=Figure().subplots())
    assert len(display.ax_.collections) == 3
    assert len(display.ax_.get_legend().get_texts()) == 3
    np.testing.assert_array_equal(display.ax_.lines[0].get_xdata(), [1.0, 1.2, 1.5])
