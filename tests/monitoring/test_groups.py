"""Errors that periods share, histories of many groups, and a bound on the accuracy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from kdey import EMQ, PACC, Options, estimate_performance
from kdey.diagnostics.performance import expected_accuracy
from kdey.intervals.region import TEMPLATE_DRAWS
from kdey.monitoring import (
    HistoryError,
    MonitorSettings,
    find_alarms,
    history_page,
    monitor,
    read_history,
    template_draws,
    update_history,
)

from ..groups.cases import SCORES, fitted, posteriors
from .cases import drawn, empty, history, period

CALM = MonitorSettings(check_fit=False)


@pytest.fixture(scope="module")
def quantifier() -> Any:
    return fitted()


def frame(seed: int, p: Any = (0.5, 0.3, 0.2), n: int = 150, **columns: Any) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(posteriors(rng.choice(3, n, p=p), rng), columns=SCORES).assign(**columns)


@pytest.mark.parametrize("cls", [None, PACC])
def test_draws_have_the_covariance_of_the_errors_that_two_bags_share(
    quantifier: Any, cls: Any
) -> None:
    q = quantifier if cls is None else fitted(cls)
    pair = [q.estimate_posteriors(frame(s, p)[SCORES].to_numpy()) for s, p in CASES]
    first, second = (template_draws(estimate) for estimate in pair)
    assert first.shape == (3, TEMPLATE_DRAWS)
    a, b = (estimate.uncertainty for estimate in pair)
    for one, u in ((first, a), (second, b)):
        # 128 draws know a variance within an eighth, three standard errors of it
        assert_allclose(np.mean(one**2, axis=1), np.diag(u.template_covariance()), rtol=3 / 8)
    shared = np.diag(a.template_covariance(b)) / np.sqrt(
        np.diag(a.template_covariance()) * np.diag(b.template_covariance())
    )
    made = np.mean(first * second, axis=1) / np.sqrt(
        np.mean(first**2, axis=1) * np.mean(second**2, axis=1)
    )
    assert_allclose(made, shared, atol=0.15)
    assert_allclose(template_draws(pair[0]), first)  # no generator has moved on


CASES = ((0, (0.5, 0.3, 0.2)), (1, (0.3, 0.2, 0.5)))


def test_a_class_that_stays_is_not_accused_of_the_others_move() -> None:
    """Cat and eel change places, and with them the error of the templates in dog's share."""
    rng = np.random.default_rng(0)
    error = 0.04 * rng.normal(size=(3, TEMPLATE_DRAWS))
    old, new = [0.4, 0.4, 0.2], [0.15, 0.45, 0.4]  # dog by the change of an error of 0.05
    rows = [*drawn(old, 20), *drawn(new, 20, seed=1)]
    quiet = np.zeros((3, TEMPLATE_DRAWS))
    told = [period(t, row, template_draws=quiet if t < 20 else error) for t, row in enumerate(rows)]
    accused = {alarm.label for alarm in find_alarms(empty(CALM).with_periods(told))}
    assert accused == {"cat", "eel"}
    assert {alarm.label for alarm in find_alarms(history(rows, CALM))} == {"cat", "dog", "eel"}


def test_equal_errors_cancel() -> None:
    error = np.random.default_rng(0).normal(size=(3, TEMPLATE_DRAWS))
    rows = [*drawn([0.5, 0.3, 0.2], 20), *drawn([0.35, 0.3, 0.35], 20, seed=1)]
    plain, told = (
        [(a.period, a.label, a.statistic) for a in find_alarms(made)]
        for made in (history(rows), history(rows, template_draws=error))
    )
    assert [alarm[:2] for alarm in told] == [alarm[:2] for alarm in plain]
    assert_allclose([alarm[2] for alarm in told], [alarm[2] for alarm in plain])


def grouped(n: int, settings: MonitorSettings = CALM, **changes: Any) -> Any:
    periods = [
        period(t, row, group=f"shop {g}", **changes)
        for g in range(n)
        for t, row in enumerate(drawn([0.5, 0.3, 0.2], 10, seed=g))
    ]
    return empty(settings).with_periods(periods)


def test_groups_ring_alone_and_share_the_chance() -> None:
    made = grouped(4)
    assert len(made) == 10
    assert made.groups == [f"shop {g}" for g in range(4)]
    moved = [period(10 + t, [0.2, 0.3, 0.5], group="shop 2") for t in range(3)]
    several = find_alarms(made.with_periods(moved))
    assert {(alarm.group, alarm.label) for alarm in several} == {
        ("shop 2", "cat"),
        ("shop 2", "eel"),
    }
    assert "10, shop 2: the share of" in str(several[0])
    alone = empty(CALM).with_periods(
        [p for p in made.with_periods(moved).periods if p.group == "shop 2"]
    )
    assert [a.statistic for a in find_alarms(alone)] == [a.statistic for a in several]
    assert find_alarms(alone)[0].limit < several[0].limit
    assert made.without("3").groups == made.groups
    assert len(made.without("3")) == 9


def test_a_group_that_does_not_fit_rings_the_second_time() -> None:
    settings = MonitorSettings()
    at_once, twice = settings.fit_levels(4)
    assert settings.n_null(4) < settings.n_null(1)
    assert 2 * at_once * 4 == pytest.approx(settings.fit_levels(1)[0])
    made = grouped(4, settings)
    odd = [period(t, [0, 0, 1.0], group="shop 1", fit_p_value=twice) for t in (10, 11)]
    assert find_alarms(made.with_periods(odd[:1])) == []  # and is left out of the shares
    (alarm,) = find_alarms(made.with_periods(odd))
    assert (alarm.kind, alarm.period, alarm.group) == ("fit", "11", "shop 1")
    other = [odd[0], period(11, [0, 0, 1.0], group="shop 2", fit_p_value=twice)]
    assert find_alarms(made.with_periods(other)) == []
    very = period(10, [0, 0, 1.0], group="shop 1", fit_p_value=at_once)
    assert [alarm.period for alarm in find_alarms(made.with_periods([very]))] == ["10"]


def test_a_table_with_groups(quantifier: Any, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    table = pd.concat([frame(g, shop=f"s{g}") for g in range(3)])
    update = monitor(quantifier, table, path, period=1, groups="shop", scores=SCORES, settings=CALM)
    assert update.added == ("1, s0", "1, s1", "1, s2")
    assert update.history.by == "shop"
    later = pd.concat([frame(g + 5, shop=f"s{g}", week="2024-01-01") for g in (0, 2)])
    with pytest.raises(HistoryError, match="must all be dates"):
        monitor(quantifier, later, path, time="week", scores=SCORES)
    update = monitor(quantifier, later, path, period=2, scores=SCORES)  # the history knows the rest
    assert update.added == ("2, s0", "2, s2")
    read = read_history(path)
    assert read.groups == ["s0", "s1", "s2"]
    assert [(p.name, p.group) for p in read.periods] == [
        *(("1", f"s{g}") for g in range(3)),
        *(("2", f"s{g}") for g in (0, 2)),
    ]
    one = quantifier.estimate_posteriors(frame(1)[SCORES].to_numpy())
    assert_allclose(read.periods[1].template_draws, template_draws(one), atol=1e-5)
    with pytest.raises(HistoryError, match="by column 'shop', not by column 'town'"):
        monitor(quantifier, later, path, period=3, groups="town", scores=SCORES)
    missing = table.assign(shop=[None, *table["shop"][1:]])
    merged = Options(merge={"some": list(quantifier.classes_[:2])})
    with pytest.raises(ValueError, match="a history has every class of the model"):
        monitor(quantifier, later, path, period=3, scores=SCORES, options=merged)
    with pytest.raises(ValueError, match="lacks the group of some rows"):
        monitor(quantifier, missing, path, period=3, scores=SCORES)


def test_the_accuracy_is_that_of_estimate_performance(quantifier: Any) -> None:
    bags = quantifier.estimate_posteriors(frame(0)[SCORES].to_numpy(), [range(50), range(150)])
    found = estimate_performance(quantifier, bags)
    _, low, high = found.of("accuracy")
    for bag, parts in enumerate(expected_accuracy(quantifier, bags, 0.8)):
        assert parts["accuracy"] == pytest.approx(found.estimate[bag, 0], abs=0.03)
        # At its own value the parts add up to the variance behind the interval.
        (own,) = [expected_accuracy(quantifier, bags, parts["accuracy"])[bag]]
        size = float(bags.effective_size[bag])
        error = np.sqrt(own["accuracy_noise"] / size + own["accuracy_template"])
        assert (high[bag] - low[bag]) / (2 * 1.96 * error) == pytest.approx(1.0, abs=0.15)


def test_an_accuracy_below_its_bound_rings_until_it_is_not() -> None:
    settings = MonitorSettings(check_fit=False, accuracy_below=0.8)
    assert settings.kinds == ("moved", "accuracy")
    parts = {"accuracy_noise": 0.1, "accuracy_template": 1e-4}
    values = [0.85] * 5 + [0.7] * 3 + [0.85] * 5 + [np.nan]
    rows = drawn([0.5, 0.3, 0.2], len(values))
    made = empty(settings).with_periods(
        [
            period(t, r, accuracy=v, **parts)
            for t, (r, v) in enumerate(zip(rows, values, strict=True))
        ]
    )
    unknown = period(20, rows[0])  # whose accuracy is not known
    alarms = find_alarms(made.without("13").with_periods([unknown]))
    assert [(alarm.kind, alarm.period) for alarm in alarms] == [
        ("accuracy", str(t)) for t in (5, 6, 7)
    ]
    assert "5: the expected accuracy is below the bound of 80.0 %: 70.0 % since 5" in str(alarms[0])
    unsure = [period(0, rows[0], accuracy=0.7, accuracy_noise=0.1, accuracy_template=0.01)]
    assert find_alarms(empty(settings).with_periods(unsure)) == []
    with pytest.raises(ValueError, match="bound of the accuracy"):
        MonitorSettings(accuracy_below=1.0)


def test_a_watched_accuracy_is_kept(quantifier: Any, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    settings = MonitorSettings(check_fit=False, accuracy_below=0.999)
    update = monitor(quantifier, frame(0), path, period=1, scores=SCORES, settings=settings)
    assert [alarm.kind for alarm in update.alarms] == ["accuracy"]
    assert read_history(path).settings.accuracy_below == 0.999
    assert 0.3 < read_history(path).periods[0].accuracy < 0.99
    q = EMQ(LogisticRegression()).fit(frame(0), np.arange(150) % 3)
    with pytest.raises(ValueError, match="the accuracy cannot be watched"):
        monitor(q, frame(0), tmp_path / "n", period=1, settings=settings)


def test_a_page_shows_groups_and_the_accuracy() -> None:
    pytest.importorskip("jinja2")
    settings = MonitorSettings(check_fit=False, accuracy_below=0.8)
    parts = {"accuracy": 0.6, "accuracy_noise": 0.1, "accuracy_template": 1e-4}
    made = grouped(3, settings, **parts)
    page = history_page(made.__class__(**{**vars(made), "by": "shop"}))
    assert "The history has 10 periods, from 0 to 9." in page
    assert "accuracy too low" in page
    assert "for all groups together" in page


def test_a_history_of_an_older_format_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    update_history(path, lambda before: history(drawn([0.5, 0.3, 0.2], 2)))
    table = pq.read_table(path)
    facts = json.loads(table.schema.metadata[b"kdey history"])
    for number, advice in ((2, "start a new history and send the periods again"), (9, "newer")):
        facts["format"] = number
        pq.write_table(table.replace_schema_metadata({b"kdey history": json.dumps(facts)}), path)
        with pytest.raises(HistoryError, match=advice):
            read_history(path)


@pytest.mark.parametrize("first", [[1, 2], ["1", "2"], [True, False]])
def test_groups_are_known_by_the_same_text_in_every_type(
    quantifier: Any, tmp_path: Path, first: list[Any]
) -> None:
    """Whole numbers become floats where one is missing: a shop keeps its history all the same."""
    path = tmp_path / "h.parquet"
    later = ["true", "false"] if first[0] is True else [1.0, 2.0]
    for number, names in enumerate((first, later)):
        table = pd.concat([frame(10 * number + i, shop=name) for i, name in enumerate(names)])
        monitor(quantifier, table, path, period=number, groups="shop", scores=SCORES, settings=CALM)
    assert len({p.group for p in read_history(path).periods}) == 2
