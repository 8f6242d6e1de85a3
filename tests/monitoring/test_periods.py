"""From new data to a history: estimates, errors, and what does not fit together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from kdey import CC, PACC, Ensemble, GridSearchQ, KDEyML, Options, load, save
from kdey.monitoring import (
    Bound,
    HistoryError,
    MonitorSettings,
    error_parts,
    model_fingerprint,
    monitor,
    read_history,
)

from ..groups.cases import SCORES, fitted, posteriors


@pytest.fixture(scope="module")
def quantifier() -> Any:
    return fitted()


def week(seed: int, p: tuple[float, ...] = (0.5, 0.3, 0.2), n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(posteriors(rng.choice(3, n, p=p), rng), columns=SCORES)


def send(quantifier: Any, frame: pd.DataFrame, path: Path, **options: Any) -> Any:
    return monitor(quantifier, frame, path, scores=SCORES, **options)


CALM = MonitorSettings(check_fit=False)


@pytest.mark.smoke
def test_the_numbers_are_those_of_estimates(quantifier: Any, tmp_path: Path) -> None:
    frame = week(0)
    update = send(quantifier, frame, tmp_path / "h.parquet", period=3)
    estimate = quantifier.estimate_posteriors(frame[SCORES].to_numpy())
    (period,) = update.history.periods
    assert (update.periods, update.added, update.alarms) == (("3",), ("3",), ())
    assert_allclose(period.estimate, estimate.estimate)
    assert_allclose(period.low, estimate.low)
    assert_allclose(period.high, estimate.high)
    assert (period.n, period.n_missing, period.effective_size) == (120, 0, 120.0)
    assert period.status == estimate.status
    assert period.model == model_fingerprint(quantifier)
    again = send(quantifier, frame, tmp_path / "h.parquet", period=3)
    assert (again.periods, again.added) == (("3",), ())


@pytest.mark.parametrize("cls", [None, PACC])
def test_the_parts_of_the_error_add_up(quantifier: Any, cls: Any) -> None:
    """Shares of bags from the same population vary as the sampling part says."""
    q = quantifier if cls is None else fitted(cls)
    rng = np.random.default_rng(7)
    p, n = np.array([0.5, 0.3, 0.2]), 150
    pool = posteriors(rng.choice(3, 200 * n, p=p), rng)
    bags = [np.arange(b * n, (b + 1) * n) for b in range(200)]
    parts = [error_parts(e) for e in q.estimate_posteriors(pool, bags, check_fit=False)]
    shares, noise, template = (np.array(column) for column in zip(*parts, strict=True))
    sampling = (noise + shares * (1 - shares)).mean(axis=0) / n
    assert_allclose(shares.std(axis=0), np.sqrt(sampling), rtol=0.2)
    # The template error is the same for all bags: it is the distance of their mean.
    assert (np.abs(shares.mean(axis=0) - p) < 4 * np.sqrt(template.mean(axis=0))).all()
    assert (template > 0).all()


def test_periods_from_a_column(quantifier: Any, tmp_path: Path) -> None:
    frame = pd.concat([week(1), week(2)])
    frame["day"] = pd.date_range("2024-01-01", periods=len(frame), freq="2h")
    path = tmp_path / "h.parquet"
    update = send(quantifier, frame, path, time="day", every="1w", settings=CALM)
    assert update.periods == update.added == ("2024-01-01", "2024-01-08", "2024-01-15")
    assert [p.n for p in update.history.periods] == [84, 84, 72]


def test_periods_of_another_length_are_refused(quantifier: Any, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    days = [
        week(n).assign(day=pd.Timestamp("2024-01-01") + pd.Timedelta(7 * n, "D")) for n in (0, 1)
    ]
    send(quantifier, days[0], path, time="day", every="1w", settings=CALM)
    content = path.read_bytes()
    with pytest.raises(HistoryError, match="have a length of 1w, not 1mo"):
        send(quantifier, days[1], path, time="day", every="1mo")
    late = days[1].assign(day=pd.Timestamp("2024-01-10"))
    with pytest.raises(HistoryError, match=r"2024-01-10 does not begin .* 1w: 2024-01-08 does"):
        send(quantifier, late, path, time="day")
    assert path.read_bytes() == content
    assert send(quantifier, late, path, time="day", every="w").added == ("2024-01-08",)
    by_hand = tmp_path / "hand.parquet"
    send(quantifier, days[0], by_hand, period="2024-01-03", settings=CALM)
    with pytest.raises(HistoryError, match="2024-01-03 does not begin a period"):
        send(quantifier, days[1], by_hand, time="day", every="1w")


def test_a_history_remembers_how_its_dates_are_written(quantifier: Any, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    weeks = {"time": "day", "every": "1w", "settings": CALM}
    send(quantifier, week(0).assign(day="26.02.2026"), path, **weeks)
    update = send(quantifier, week(1).assign(day="05.03.2026"), path, **weeks)
    assert update.periods == ("2026-03-02",)
    assert read_history(path).date_format == "%d.%m.%Y"
    with pytest.raises(ValueError, match=r"dates written as '%d\.%m\.%Y', but row 1 has '03\.20"):
        send(quantifier, week(2).assign(day="03.20.2026"), path, **weeks)
    american = Options(date_format="%m.%d.%Y")
    update = send(quantifier, week(2).assign(day="03.20.2026"), path, **weeks, options=american)
    assert (update.periods, update.history.date_format) == (("2026-03-16",), "%m.%d.%Y")
    assert update.history.gaps == [("2026-03-02", "2026-03-16")]
    dates = week(3).assign(day=pd.Timestamp("2026-03-09"))
    assert send(quantifier, dates, path, **weeks).history.gaps == []


def test_an_alarm_belongs_to_the_period_that_raises_it(quantifier: Any, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    for t in range(4):
        assert send(quantifier, week(t), path, period=t, settings=CALM).alarms == ()
    update = send(quantifier, week(9, (0.05, 0.05, 0.9)), path, period=4)
    assert {alarm.label for alarm in update.alarms} == {"cat", "dog", "eel"}
    assert {alarm.period for alarm in update.alarms} == {"4"}
    assert send(quantifier, week(5, (0.05, 0.05, 0.9)), path, period=5).alarms == ()


def test_a_replaced_period_holds_the_new_data(quantifier: Any, tmp_path: Path) -> None:
    """All of one class: the shares of any such data are clipped to 0 and 1."""
    path = tmp_path / "h.parquet"
    noise = np.random.default_rng(0).uniform(0, 0.002, (2, 80))
    bad, good = (
        pd.DataFrame({"p_cat": 0.99 + row, "p_dog": 0.01 - row, "p_eel": 0.0}) for row in noise
    )
    (first,) = send(quantifier, bad, path, period=1, settings=CALM).history.periods
    assert send(quantifier, bad[::-1], path, period=1).added == ()  # in another order
    with pytest.raises(HistoryError, match="as many as now, but others"):
        send(quantifier, good, path, period=1)
    update = send(quantifier, good, path, period=1, overwrite=True)
    assert update.added == ("1",)
    (second,) = read_history(path).periods
    assert_allclose(second.estimate, first.estimate, atol=1e-6)
    assert second.data != first.data


def test_data_that_do_not_fit_ring(quantifier: Any, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    send(quantifier, week(0), path, period=0)
    flat = pd.DataFrame(np.full((80, 3), 1 / 3), columns=SCORES)
    (alarm,) = send(quantifier, flat, path, period=1).alarms
    assert alarm.kind == "fit"


def test_a_history_keeps_its_settings(quantifier: Any, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    settings = MonitorSettings(bounds=(Bound("eel", "above", 0.9),), check_fit=False)
    send(quantifier, week(0), path, period=0, settings=settings)
    assert send(quantifier, week(1), path, period=1).history.settings == settings
    assert send(quantifier, week(1), path, period=1, settings=settings).added == ()
    with pytest.raises(HistoryError, match="was started with other settings"):
        send(quantifier, week(2), path, period=2, settings=MonitorSettings())
    assert read_history(path).names == ["0", "1"]


def test_another_model_must_be_meant(quantifier: Any, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    send(quantifier, week(0), path, period=0, settings=CALM)
    other = fitted(PACC)
    assert model_fingerprint(other) != model_fingerprint(quantifier)
    assert model_fingerprint(fitted()) == model_fingerprint(quantifier)
    with pytest.raises(HistoryError, match="estimated by another model"):
        send(other, week(1), path, period=1)
    assert send(other, week(1), path, period=1, new_model=True).added == ("1",)


def test_a_fingerprint_knows_parameters_and_what_was_learnt(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    X = rng.normal(size=(120, 2)) + y[:, None]
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    fits = [
        KDEyML(bandwidth=0.1).fit(X, y),
        KDEyML(bandwidth=0.2).fit(X, y),
        CC().fit(X, y),
        CC(LogisticRegression(C=0.01)).fit(X, y),
        CC(tree).fit(X, y),
        CC(tree).fit(X + 0.5, y),
        Ensemble(CC(), n_members=3, random_state=0).fit(X, y),
        Ensemble(CC(), n_members=3, random_state=1).fit(X, y),
    ]
    prints = [model_fingerprint(q) for q in fits]
    assert len(set(prints)) == len(fits)
    assert model_fingerprint(clone(fits[0]).fit(X, y)) == prints[0]
    for q, known in zip(fits, prints, strict=True):
        q.predict(X[:20])
        read = load(save(q, tmp_path / "model.kdey"))
        assert model_fingerprint(q) == model_fingerprint(read) == known
    assert model_fingerprint(fits[0].set_params(n_jobs=2, device="auto")) == prints[0]
    search = GridSearchQ(CC(), {"classifier__C": [1.0]}, verbose=False).fit(X, y)
    assert model_fingerprint(search) == model_fingerprint(search.best_estimator_)


def test_a_history_notices_another_bandwidth(quantifier: Any, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    send(quantifier, week(0), path, period=0, settings=CALM)
    with pytest.raises(HistoryError, match="estimated by another model"):
        send(fitted(bandwidth=0.4), week(1), path, period=1)


def test_other_classes_are_refused(quantifier: Any, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    send(quantifier, week(0), path, period=0, settings=CALM)
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 40)
    numbers = PACC().fit_posteriors(posteriors(labels, rng), labels)
    with pytest.raises(HistoryError, match=r"other classes \(cat, dog, eel\)"):
        send(numbers, week(1), path, period=1, new_model=True)


def test_a_wrong_period_writes_nothing(quantifier: Any, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    with pytest.raises(ValueError, match="give either period, or time"):
        send(quantifier, week(0), path)
    with pytest.raises(ValueError, match="a period must be"):
        send(quantifier, week(0), path, period="soon")
    holes = week(0).assign(p_cat=np.nan)
    with pytest.raises(ValueError, match="period 1 has no row without a missing value"):
        send(quantifier, holes, path, period=1, options=Options(missing="drop"))
    undated = week(0).assign(day=[None] + [pd.Timestamp("2024-01-01")] * 119)
    with pytest.raises(ValueError, match="'day' lacks the time of some rows"):
        send(quantifier, undated, path, time="day")
    assert not path.exists()


def test_an_alarm_names_the_columns_that_changed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    X = pd.DataFrame(rng.normal(size=(300, 2)) + np.outer(y, [1, 0]), columns=["amount", "age"])
    q = PACC(LogisticRegression(), random_state=0).fit(X, y)
    path = tmp_path / "h.parquet"
    changed = X[:100].assign(amount=X["amount"][:100] + 5.0)
    (alarm,) = monitor(q, changed, path, period=1).alarms
    (kept,) = read_history(path).periods
    assert kept.findings.startswith("`amount` is higher")
    assert kept.findings in str(alarm)
    assert "`age`" not in kept.findings
