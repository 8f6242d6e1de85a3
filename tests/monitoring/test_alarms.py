"""Which alarms a history raises, and where a stream starts afresh."""

from __future__ import annotations

import numpy as np
import pytest

from kdey.monitoring import Bound, MonitorSettings, find_alarms

from .cases import drawn, empty, history, period

OLD, NEW = [0.5, 0.3, 0.2], [0.35, 0.3, 0.35]


def test_a_quiet_history_raises_nothing() -> None:
    assert find_alarms(history(drawn(OLD, 60))) == []
    assert find_alarms(empty()) == []


def test_a_share_that_moved_rings_once() -> None:
    alarms = find_alarms(history([*drawn(OLD, 20), *drawn(NEW, 20, seed=1)]))
    assert {(a.kind, a.label) for a in alarms} == {("moved", "cat"), ("moved", "eel")}
    assert len(alarms) == 2
    for alarm in alarms:
        assert 20 <= int(alarm.period) <= 23
        assert abs(int(alarm.since) - 20) <= 1
        assert alarm.statistic > alarm.limit
    cat = next(alarm for alarm in alarms if alarm.label == "cat")
    assert "the share of 'cat' has fallen from 5" in str(cat)


def test_a_share_that_moves_back_rings_again() -> None:
    rows = [*drawn(OLD, 20), *drawn(NEW, 20, seed=1), *drawn(OLD, 20, seed=2)]
    periods = [int(alarm.period) for alarm in find_alarms(history(rows)) if alarm.label == "cat"]
    assert len(periods) == 2
    assert 40 <= periods[1] <= 43


@pytest.mark.parametrize(("side", "share"), [("above", 0.15), ("below", 0.25)])
def test_a_bound_rings_while_the_share_is_beyond(side: str, share: float) -> None:
    settings = MonitorSettings(bounds=(Bound("eel", side, share),))
    inside = [0.5, 0.4, 0.1] if side == "above" else [0.4, 0.3, 0.3]
    rows = [*drawn(OLD, 30, seed=3), *drawn(inside, 30, seed=4)]
    alarms = [alarm for alarm in find_alarms(history(rows, settings)) if alarm.kind == "bound"]
    periods = [int(alarm.period) for alarm in alarms]
    assert len(periods) >= 3  # it goes on ringing,
    assert max(periods) < 32  # and stops
    assert all(alarm.before == share for alarm in alarms)
    assert f"is {side} the bound of {100 * share:.1f} %" in str(alarms[0])


def test_a_bound_counts_the_template_error() -> None:
    """An error that all periods share does not average out."""
    settings = MonitorSettings(bounds=(Bound("eel", "above", 0.17),), check_fit=False)
    sure = history(drawn(OLD, 80), settings)
    unsure = history(drawn(OLD, 80), settings, template_variance=np.full(3, 0.02**2))
    assert any(alarm.kind == "bound" for alarm in find_alarms(sure))
    assert find_alarms(unsure) == []


def test_a_misfit_rings_and_is_left_out_of_the_rest() -> None:
    settings = MonitorSettings()
    rows = drawn(OLD, 20)
    base = history(rows, settings)
    strange = period(20, [0.0, 0.0, 1.0], fit_p_value=settings.fit_levels()[0])
    alarms = find_alarms(base.with_periods([strange]))
    assert [(alarm.kind, alarm.period) for alarm in alarms] == [("fit", "20")]
    assert "do not look like a mixture" in str(alarms[0])
    unlikely = period(20, rows[0], fit_p_value=2 * settings.fit_levels()[0])
    assert find_alarms(base.with_periods([unlikely])) == []
    unchecked = history(rows, MonitorSettings(check_fit=False)).with_periods([strange])
    assert {alarm.kind for alarm in find_alarms(unchecked)} == {"moved"}


def test_a_new_model_starts_afresh() -> None:
    first = [period(t, row) for t, row in enumerate(drawn(OLD, 20))]
    second = [period(20 + t, row, model="def") for t, row in enumerate(drawn(NEW, 20, seed=1))]
    assert find_alarms(empty().with_periods([*first, *second])) == []


def test_two_classes_ring_once() -> None:
    pair = empty(classes=(0, 1)).with_periods(
        [period(t, [0.8, 0.2] if t < 10 else [0.6, 0.4]) for t in range(15)]
    )
    assert [alarm.label for alarm in find_alarms(pair)] == ["1"]


def test_periods_whose_error_is_unknown_are_left_out() -> None:
    unknown = period(5, [1.0, 0.0, 0.0], n=1, noise=np.full(3, np.nan))
    rows = drawn(OLD, 5)
    assert find_alarms(history(rows).with_periods([unknown])) == []


def test_the_chance_is_divided_between_what_is_watched() -> None:
    plain = MonitorSettings(check_fit=False)
    assert plain.kinds == ("moved",)
    assert plain.chance("moved", 4) == pytest.approx(0.0125)
    bounds = (Bound("cat", "above", 0.9), Bound("cat", "below", 0.1))
    full = MonitorSettings(bounds=bounds)
    assert full.kinds == ("moved", "bound", "fit")
    assert full.fit_levels() == pytest.approx((0.05 / 300, 0.0))
    # The p-value of the worst bag in one of two statistics of one of two checks can ring.
    assert 4 / (full.n_null() + 1) <= full.fit_levels()[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MonitorSettings(false_alarms=0.0), "false_alarms"),
        (lambda: MonitorSettings(fluctuation=-0.1), "fluctuation"),
        (lambda: MonitorSettings(bounds=(Bound("a", "above", 0.5),) * 2), "named twice"),
        (lambda: Bound("a", "above", 1.0), "strictly between 0 and 1"),
        (lambda: Bound("a", "beside", 0.5), "side"),
        (lambda: empty(MonitorSettings(bounds=(Bound("ant", "above", 0.5),))), "no class 'ant'"),
    ],
)
def test_settings_are_checked(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
