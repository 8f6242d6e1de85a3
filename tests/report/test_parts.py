"""The parts of a page: drawings, axes, groups, words, the classifier."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from kdey import PACC, TrainingPrevalence
from kdey.report import group_table, make_report
from kdey.report.page import listed, percent
from kdey.report.shown_groups import (
    ClassRow,
    by_size,
    calendar_of,
    estimate_rows,
    key_text,
    position,
)
from kdey.report.technical import confusion_shares, frequent_confusions
from kdey.report.words import (
    against_labels,
    against_others,
    fit_meaning,
    groups_checked,
    groups_described,
    headline,
    how_sure,
    look_alike_sets,
    need_a_look,
)

from .cases import fitted, full_report, group_rows, names, posteriors, told, weeks


def test_per_cent() -> None:
    assert percent(0.12345) == "12.3\u00a0%"
    assert percent(None) == percent(math.nan) == "–"


@pytest.mark.parametrize("library", ["list", "pandas", "polars", "pyarrow"])
def test_groups_come_from_rows_and_from_frames(library: str) -> None:
    rows = group_rows(["week", "city"], [(w, "York") for w in weeks(4)[::-1]], names(3))
    rows[0] |= {"status": "too small", "estimate": None, "low": None, "high": None}
    given: Any = rows
    if library != "list":
        frames = pytest.importorskip(library)
        make = frames.Table.from_pylist if library == "pyarrow" else frames.DataFrame
        given = make(rows)
    table = group_table(given, ["city"], "week")
    assert table.by == ("city", "week")
    assert [key_text(table.moment(group)) for group in table.groups] == [
        "2026-01-05",
        "2026-01-12",
        "2026-01-19",
        "2026-01-26",
    ]
    last = table.groups[-1]
    assert last.rows[0].estimate is None
    assert last.rows[1].estimate == rows[1]["estimate"]
    assert (last.n, last.status, last.p_value) == (120, "too small", 0.4)
    assert list(table.series) == ["York"]
    assert table.classes == tuple(names(3))


def test_series_with_commas_in_their_keys_stay_apart() -> None:
    keys = [("x, y", "z", 1), ("x", "y, z", 1), ("x, y", "z", 2), ("x", "y, z", 2)]
    rows = group_rows(["a", "b", "t"], keys, ["c", "d"])
    table = group_table(rows, ["a", "b"], "t")
    series = {label: [g.keys for g in groups] for label, groups in table.series.items()}
    assert series == {'"x, y", z': keys[0::2], 'x, "y, z"': keys[1::2]}


def test_keys_that_are_shown_alike_stay_apart() -> None:
    keys = [(None, 1), ("(missing)", 1), (True, 1), (1, 1), ("1", 1)]
    table = group_table(group_rows(["a", "t"], keys, ["c", "d"]), ["a"], "t")
    assert list(table.series) == ["(missing)", "(missing) (2)", "True", "1", "1 (2)"]
    assert [group.keys for groups in table.series.values() for group in groups] == keys


def test_groups_take_the_names_of_estimates() -> None:
    row = {"k": 1, "class": "a", "n": 5, "estimate": 0.1, "low": 0, "high": 1}
    also = {"classify_and_count": 0.2, "training_prevalence": 0.3, "fit_p_value": 0.4}
    (group,) = group_table([row | also], ["k"]).groups
    assert (group.rows[0].naive, group.rows[0].training, group.p_value) == (0.2, 0.3, 0.4)


def test_groups_say_what_they_lack() -> None:
    with pytest.raises(ValueError, match="lack the columns region, low"):
        group_table([{"class": "a", "n": 1, "estimate": 0, "high": 1}], ["region"])
    with pytest.raises(ValueError, match="name their columns"):
        group_table([], [])
    with pytest.raises(ValueError, match="no rows"):
        group_table([], ["region"])


def test_times_in_order_whatever_they_are() -> None:
    assert (
        position("2026-02-01") == position(dt.date(2026, 2, 1)) == dt.date(2026, 2, 1).toordinal()
    )
    assert position(dt.datetime(2026, 2, 1, 12)) == dt.date(2026, 2, 1).toordinal() + 0.5
    assert position("spring") is position(None) is position(True) is None
    rows = group_rows(["t"], [(10,), (9,), ("x",), (None,)], ["a", "b"])
    times = [key_text(group.keys[0]) for group in group_table(rows, [], "t").groups]
    assert times == ["9", "10", "(missing)", "x"]
    assert key_text(dt.datetime(2026, 2, 1)) == "2026-02-01"
    assert key_text(3.0) == "3"


def spoken(estimate: Any, rows: Any, focus: str | None = None) -> str:
    sentences = [*how_sure(estimate, rows), *against_others(rows, focus)]
    return " ".join([headline(estimate, rows, focus), *sentences]).replace("\u00a0", " ")


def test_the_answer_names_numbers_and_differences() -> None:
    q = fitted(3, hostile=False)
    bag = np.random.default_rng(0).choice(3, 500, p=[0.7, 0.2, 0.1])
    estimate: Any = q.estimate_posteriors(posteriors(bag, 3, np.random.default_rng(1)))
    rows = [
        ClassRow("a", 0.7, 0.6, 0.8, naive=0.5, training=0.3),
        ClassRow("b", 0.2, 0.1, 0.3, naive=0.2, training=0.35),
        ClassRow("c", 0.1, 0.05, 0.2, naive=0.25, training=0.15),
    ]
    sentences = spoken(estimate, rows)
    assert "Of all records like these 500, an estimated 70.0 % are “a” (60.0 % to" in sentences
    assert "each of them contains the true share in 95 % of such cases" in sentences
    assert "“a” is more frequent (30.0 % there) and “b” is less frequent (35.0 %" in sentences
    assert (
        "would have said 50.0 % for “a”, outside the interval, and outside those of 1" in sentences
    )
    same = [ClassRow("a", 0.5, 0.4, 0.6, 0.5, 0.5), ClassRow("b", 0.5, 0.4, 0.6, 0.5, 0.5)]
    sentences = spoken(estimate, same)
    assert "no class has clearly become more or less frequent" in sentences
    assert "counting" not in sentences
    many = [ClassRow(str(i), 1 / 30, 0.0, 0.1) for i in range(30)]
    assert "The other 27 classes together make up 90.0 %; 27 of them may be absent." in spoken(
        estimate, many
    )


def test_groups_in_words() -> None:
    rows = group_rows(["week"], [(w,) for w in weeks(3)], ["a", "b"])
    for row, share in zip(rows, (0.1, 0.9, 0.5, 0.5, 0.8, 0.2), strict=True):
        row |= {"estimate": share, "low": share - 0.05, "high": share + 0.05}
    rows[2]["status"] = rows[3]["status"] = "poor fit"
    sentences = told(make_report(rows, time="week"))
    assert "There are 3 weeks with 120 records each." in sentences
    assert "a: rose from 10.0 % before week 3 of 2026 to 65.0 % since." in sentences
    assert "may be chance" not in sentences
    assert "1 of the 3 weeks needs another look (looks unlike the training examples)" in sentences
    sentences = told(make_report(rows, by=["week"]))
    assert (
        "2026-01-19, 2026-01-05: the largest difference, in “a”, 80.0 % (75.0 % to 85.0 %) against"
        in sentences
    )
    assert "1 of the 3 groups needs another look" in sentences
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"


def test_overlapping_limits_are_no_difference() -> None:
    """It named the class that groups "largest difference", though all limits overlapped."""
    rows = group_rows(["week"], [(w,) for w in weeks(2)], ["a", "b"])
    for row, share in zip(rows, (0.4, 0.6, 0.5, 0.5), strict=True):
        row |= {"estimate": share, "low": share - 0.2, "high": share + 0.2}
    sentences = told(make_report(rows, by=["week"]))
    assert "largest difference" not in sentences
    assert "the differences between groups may be chance" in sentences
    sentences = told(make_report(rows, time="week"))
    assert "rose" not in sentences
    assert "No share has changed over time by more than chance explains." in sentences


def test_a_clear_change_goes_before_a_larger_one_that_may_be_chance() -> None:
    rows = group_rows(["week"], [(w,) for w in weeks(2)], ["a", "b", "c"])
    shares = (0.2, 0.1, 0.7, 0.5, 0.2, 0.3)
    widths = (0.2, 0.01, 0.3, 0.2, 0.01, 0.3)
    for row, share, width in zip(rows, shares, widths, strict=True):
        row |= {"estimate": share, "low": share - width, "high": share + width}
    sentences = told(make_report(rows, time="week"))
    assert "b: rose from 10.0 %" in sentences
    assert "a: rose" not in sentences
    assert "the largest difference, in “b”" in told(make_report(rows, by=["week"]))


def test_known_labels_are_compared_with_the_limits() -> None:
    rows = [
        ClassRow("a", 0.7, 0.6, 0.8, truth=0.65),
        ClassRow("b", 0.2, 0.1, 0.3, truth=0.35),
        ClassRow("c", 0.1, 0.05, 0.2),
    ]
    told = " ".join(against_labels(rows)).replace("\u00a0", " ")
    assert "disagree: their shares lie outside the interval of “b” (35.0 % of the labels)." in told
    assert "within the interval of every class" in " ".join(against_labels(rows[:1]))
    assert against_labels(rows[2:]) == []


def test_look_alike_classes_are_named_with_their_sum() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 300)
    scores = np.where(labels[:, None] == 0, [0.96, 0.02, 0.02], [0.02, 0.49, 0.49])
    tilt = rng.normal(0, 0.05, len(labels)) + 0.02 * (labels == 1) - 0.02 * (labels == 2)
    scores = scores + np.outer(tilt, [0, 1, -1]) * (labels > 0)[:, None]
    q = PACC().fit_posteriors(scores, np.array(["x", "y", "z"])[labels])
    estimate = q.estimate_posteriors(scores[::3], check_fit=False)
    told = spoken(estimate, estimate_rows(estimate))
    assert look_alike_sets(estimate) == [[1, 2]]
    assert "“y” and “z” look alike and are hard to tell apart; together they make up" in told


@pytest.mark.parametrize(
    ("moments", "name"),
    [
        ([dt.date(2026, 4, 1), dt.date(2026, 6, 1)], "April 2026"),
        (["2026-04-01", "2026-05-01"], "April 2026"),
        ([dt.datetime(2026, 3, 30), dt.datetime(2026, 4, 6)], "week 14 of 2026"),
        ([dt.date(2025, 12, 29), dt.date(2026, 1, 5)], "week 1 of 2026"),
        ([dt.date(2026, 1, 1), dt.date(2027, 1, 1)], "2026"),
        ([dt.date(2026, 4, 1), dt.date(2026, 7, 1), dt.date(2026, 10, 1)], "2026 Q2"),
        ([dt.date(2026, 3, 30), dt.date(2026, 4, 13)], "30 March 2026"),
        ([dt.date(2026, 4, 1), dt.date(2026, 4, 3)], "1 April 2026"),
        ([dt.date(2026, 4, 1)], "1 April 2026"),
        ([dt.date(2026, 4, 1), None, dt.date(2026, 5, 1)], "April 2026"),
        ([dt.datetime(2026, 4, 1, 12), dt.datetime(2026, 5, 1)], "2026-04-01 12:00:00"),
        ([3, 4], "3"),
        (["spring", "autumn"], "spring"),
    ],
)
def test_periods_are_named_as_people_do(moments: list[Any], name: str) -> None:
    assert calendar_of(moments).name(moments[0]) == name


def test_what_was_checked_is_said_of_all_groups() -> None:
    rows = group_rows(["shop"], [("a",), ("b",), ("c",)], ["x", "y"])

    def checked() -> str:
        return " ".join(groups_checked(group_table(rows, ["shop"])))

    assert checked() == (
        "All 3 groups were checked in this way: none of them looks unlike a mix of the "
        "training examples."
    )
    rows[0]["status"] = rows[1]["status"] = "poor fit; few labels"
    assert "this way: a looks unlike any mix" in checked()
    rows[2]["status"] = rows[3]["status"] = "too small"
    assert "2 of the 3 groups were checked" in checked()
    assert "1 of the 3 groups were too small to be checked." in checked()
    for row in rows:
        row["status"] = "checked one-sided"
    assert checked().startswith("All 3 groups were checked for a part of what may go wrong")
    for row in rows:
        row["status"] = "not checked (the check was turned off)"
    assert checked().startswith("All 3 groups were not checked, and may hold something")


@pytest.mark.parametrize(
    ("every", "moment", "name"),
    [
        ("1mo", dt.date(2026, 4, 1), "April 2026"),
        ("1w", dt.date(2026, 3, 30), "week 14 of 2026"),
        ("1q", dt.date(2026, 4, 1), "2026 Q2"),
        ("1y", dt.datetime(2026, 1, 1), "2026"),
        ("2w", dt.date(2026, 3, 30), "30 March 2026 (2 weeks)"),
        ("1d", "2026-04-01", "1 April 2026"),
        ("6h", dt.datetime(2026, 4, 1, 12), "1 April 2026, 12:00 (6 hours)"),
        ("1w", 3, "3"),
    ],
)
def test_the_length_of_periods_names_even_a_single_one(every: str, moment: Any, name: str) -> None:
    assert calendar_of([moment], every).name(moment) == name


def test_the_extremes_of_many_groups_are_no_finding() -> None:
    """The limits of two of 200 groups that do not differ are apart: that is what chance does."""
    shares = 0.5 + 0.05 * np.random.default_rng(0).normal(size=200)
    rows = group_rows(["shop"], [(number,) for number in range(200)], ["a", "b"])
    for number, share in enumerate(shares):
        for row, value in zip(rows[2 * number : 2 * number + 2], (share, 1 - share), strict=True):
            row |= {"estimate": value, "low": value - 0.098, "high": value + 0.098}
    assert np.ptp(shares) > 2 * 0.098
    assert "may be chance" in told(make_report(rows, by=["shop"]))
    for row, value in zip(rows[:2], (0.95, 0.05), strict=True):
        row |= {"estimate": value, "low": value - 0.05, "high": value + 0.05}
    assert "the largest difference, in “b”" in told(make_report(rows, by=["shop"]))


def test_totals_are_means_of_the_times_with_limits_that_hold() -> None:
    rows = group_rows(["shop", "week"], [("x", w) for w in weeks(2)], ["a", "b"])
    for row, (n, share) in zip(rows, ((100, 0.2), (100, 0.8), (300, 0.6), (300, 0.4)), strict=True):
        row |= {"n": n, "estimate": share, "low": share - 0.1, "high": share + 0.1}
    rows[2]["status"] = rows[3]["status"] = "poor fit"
    (total,) = group_table(rows, ["shop"], "week").totals().groups
    assert (total.keys, total.n, total.status) == (("x",), 400, "poor fit")
    a = total.by_class["a"]
    assert [a.estimate, a.low, a.high] == pytest.approx([0.5, 0.4, 0.6])


def test_a_report_has_its_classes_in_one_order() -> None:
    rows = group_rows(["shop"], [("x",), ("y",)], ["a", "b", "c"])
    for row, share in zip(rows, (0.2, 0.5, 0.3) * 2, strict=True):
        row["estimate"] = share
    report = make_report(rows, by=["shop"])
    assert report.classes == ("b", "c", "a")
    assert replace(report, keep_order=True).classes == ("a", "b", "c")
    stars = [{**row, "class": "123"["abc".index(row["class"])]} for row in rows]
    report = make_report(stars, by=["shop"])
    assert report.classes == ("1", "2", "3"), "grades have an order of their own"
    assert replace(report, keep_order=False).classes == ("2", "3", "1")
    shown = make_report(rows, by=["shop"]).shown_groups
    assert shown is not None
    assert [row.name for row in shown.groups[0].rows] == ["b", "c", "a"]


def test_the_number_and_sizes_of_groups_in_words() -> None:
    """It said "1 groups of 1 instances"."""
    rows = group_rows(["shop"], [("a",), ("b",)], ["x", "y"])
    rows[0]["n"] = rows[1]["n"] = 1
    described = groups_described(group_table(rows, ["shop"]))
    assert described == "There are 2 groups with 1 to 120 records each."
    rows[0]["status"] = rows[1]["status"] = "too small"
    alone = group_table(rows[:2], ["shop"])
    assert groups_described(alone) == "There is 1 group with 1 record."
    assert need_a_look(alone) == ["It needs another look (too few records)."]


def test_the_meaning_of_a_misfit_is_told() -> None:
    from kdey import check_fit

    q = fitted(3, hostile=False)
    rng = np.random.default_rng(0)
    good = check_fit(q, posteriors=posteriors(np.arange(200) % 3, 3, rng), random_state=0)
    misfit = np.full((200, 3), 1 / 3) + rng.normal(0, 0.005, (200, 3))
    bad = check_fit(q, posteriors=misfit / misfit.sum(axis=1, keepdims=True), random_state=0)
    assert not good.rejected
    assert bad.rejected
    assert "Nothing contradicts" in " ".join(fit_meaning(good))
    assert "with care" in " ".join(fit_meaning(bad))


def test_the_classifier_is_shown_as_scikit_learn_counts_it() -> None:
    q = fitted(4, n=300, hostile=False)
    training = q.training_
    expected = confusion_matrix(training.labels, training.posteriors.argmax(axis=1))
    confusion = confusion_shares(training, 4)
    np.testing.assert_allclose(confusion, expected / expected.sum(axis=1, keepdims=True))
    worst = frequent_confusions(confusion, "abcd", 1)[0]
    assert worst[2] == (confusion - np.diag(np.diag(confusion))).max()
    nothing_kept = TrainingPrevalence().fit([[0.0], [1.0]], ["a", "b"])
    page = make_report(nothing_kept.estimate([[0.0], [1.0]]), quantifier=nothing_kept).page()
    assert "classifier" not in [section.name for section in page.technical]


def luminance(colour: str) -> float:
    """Return WCAG's relative luminance of #rrggbb."""
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(a: str, b: str) -> float:
    light, dark = sorted([luminance(a), luminance(b)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_marks_can_be_seen() -> None:
    page = full_report(3, "time").html()
    style = page[page.index("<style>") : page.index("</style>")]
    themes = [dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6})", part)) for part in style.split("}")]
    themes = [theme for theme in themes if "paper" in theme]
    assert len(themes) == 4  # light, dark by the system, dark by choice, print
    assert themes[1] == themes[2]
    for theme in themes:
        for name in ("accent", "naive", "training", "truth", "good", "bad"):
            assert contrast(theme[name], theme["paper"]) >= 3.0


def test_rows_by_size_put_the_unknown_last() -> None:
    rows = [ClassRow("a", None, None, None), ClassRow("b", 0.0, 0, 0), ClassRow("c", 0.4, 0, 1)]
    assert [row.name for row in by_size(rows)] == ["c", "b", "a"]
