"""The table that readers explore: its paths, its order, its findings, and what it leaves out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kdey.report import make_report
from kdey.report.explorer import band, clearest_changes, line, places_of

from .cases import group_rows, told, weeks


def shop_rows(n_shops: int, n_weeks: int, jump: float = 0.0) -> list[dict[str, Any]]:
    """Return shops of which the first has a class "a" that jumps in the middle of its weeks."""
    rng = np.random.default_rng(0)
    keys = [(f"shop {s:02d}", w) for s in range(n_shops) for w in weeks(n_weeks)]
    rows = group_rows(["shop", "week"], keys, ["a", "b", "c"])
    for number in range(len(keys)):
        first, middle = number < n_weeks, number % n_weeks >= n_weeks / 2
        a = 0.3 + jump * (first and middle) + rng.normal(0, 0.02)
        for row, share in zip(rows[3 * number : 3 * number + 3], (a, 0.25, 0.75 - a), strict=True):
            row |= {"estimate": share, "low": share - 0.05, "high": share + 0.05}
    return rows


def test_a_line_never_bridges_what_is_missing() -> None:
    assert line([0, 1, 2, 4], [100, 200, None, 300]) == "M0 100 1 200M4 300h0"
    assert line([0], [None]) == ""
    assert band([0, 1, 2, 3], [1, 2, None, 4], [5, 6, None, 8]) == "M0 1 1 2 1 6 0 5ZM3 4 3 8Z"


def test_times_lie_where_they_are() -> None:
    first, second, *_, last = weeks(5)
    assert places_of([first, second, last]) == [0, 1, 4]
    assert places_of([3, 4.5, 10]) == [0, 1000 * 1.5 // 7, 1000]
    assert places_of(["spring", "autumn"]) == [0, 1]


def test_chance_is_no_change() -> None:
    """Of 50 tables in which nothing changes, a few at most have one series that seems to."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(50):
        share = rng.dirichlet([2, 2, 2], size=12)[:, :, None] * np.ones(26)
        n = rng.poisson(40, size=(12, 26)) + 1
        seen = rng.binomial(n[:, None, :], share) / n[:, None, :]
        half = 1.96 * np.sqrt(seen * (1 - seen) / n[:, None, :])
        series = np.stack([seen, seen - half, seen + half], axis=-1)
        found += clearest_changes(series, n.tolist(), 0.95).clear.any()
    assert found <= 6


def test_a_change_is_found_where_it_is_and_leads_to_its_row() -> None:
    report = make_report(shop_rows(4, 10, jump=0.2), by=["shop"], time="week")
    explorer = report.group_explorer
    assert explorer is not None
    assert explorer.rows[0] == "shop 00"
    assert explorer.flags[0] in ("“a” changed", "“c” changed"), "both by as much"
    assert explorer.flags[1:] == ["", "", ""]
    label = list(explorer.classes).index("a")
    assert explorer.changes.place[0, label] == 5
    assert explorer.changes.clear.any(axis=1).tolist() == [True, False, False, False]
    assert explorer.classes[explorer.focus] in ("a", "c"), "the class that changed is shown"
    sentences = told(report)
    assert "shop 00: “" in sentences
    assert "before week 7 of 2026" in sentences
    assert '<a href="#groups-0" data-label="' in report.html()
    assert explorer.marks == {(0, label): [5], (0, list(explorer.classes).index("c")): [5]}
    alone = make_report(shop_rows(1, 10, jump=0.2), time="week").class_explorer
    assert alone is not None
    places = {name: place for (row, _), place in alone.marks.items() for name in [alone.rows[row]]}
    assert places == {"a": [5], "c": [5]}, "lines of classes have marks, too"
    quiet = make_report(shop_rows(4, 10), by=["shop"], time="week")
    assert "No share has changed over time by more than chance explains." in told(quiet)


def test_the_page_is_about_the_class_that_was_asked_for() -> None:
    from kdey import Options

    rows = shop_rows(4, 10, jump=0.2)
    report = make_report(rows, by=["shop"], time="week", options=Options(focus="b"))
    assert report.group_explorer is not None
    assert report.group_explorer.classes[report.group_explorer.focus] == "b"
    assert report.group_explorer.flags[0] in ("“a” changed", "“c” changed")
    assert "What share of " in report.html()
    assert "records is “b”, by shop and week?" in report.html()
    assert "No share has changed" in told(report), "b stays as it is"
    with pytest.raises(ValueError, match=r"focus must be one of \['c', 'a', 'b'\], got 'd'"):
        make_report(rows, by=["shop"], time="week", options=Options(focus="d"))


def test_misfit_is_flagged_where_chance_does_not_explain_it() -> None:
    rows = shop_rows(4, 20)
    for number, row in enumerate(rows):
        often = number < 20 * 3 and number % 12 < 3  # Five weeks of the first shop,
        seldom = 20 * 3 <= number < 22 * 3 or 40 * 3 <= number < 41 * 3
        row["status"] = "poor fit" if often or seldom else "no problem found"
    report = make_report(rows, by=["shop"], time="week")
    explorer = report.group_explorer
    assert explorer is not None
    assert explorer.flags == ["looks unlike the training examples", "", "", ""]
    assert explorer.notes[1] == "looks unlike the training examples at 2 of 20 times"
    assert explorer.notes[2] == "", "one of 20 is no more than chance brings"
    assert "shop 00: looks unlike the training examples: its shares" in told(report)


def test_a_few_records_do_not_flatten_the_lines_of_others() -> None:
    rows = shop_rows(4, 10)
    for row in rows[: 10 * 3]:  # the first shop, whose intervals tell nothing
        row |= {"n": 3, "low": 0.0, "high": 1.0}
    explorer = make_report(rows, by=["shop"], time="week").group_explorer
    assert explorer is not None
    assert explorer.small == [True, False, False, False]
    assert explorer.ends(list(explorer.classes).index("a"))[1] == 400
    for row in rows:
        row["n"] = 3
    explorer = make_report(rows, by=["shop"], time="week").group_explorer
    assert explorer is not None
    assert explorer.ends(0)[1] == 1000, "none is smaller than the others"


def test_flagged_rows_come_first_and_small_ones_last() -> None:
    rows = group_rows(["shop"], [(name,) for name in "vwxyz"], ["a", "b"])
    for row, share in zip(rows, (0.5, 0.5, 0.9, 0.1, 0.6, 0.4, 0.2, 0.8, 0.7, 0.3), strict=True):
        row |= {"estimate": share, "low": share - 0.1, "high": share + 0.1}
    rows[0]["status"] = rows[1]["status"] = "poor fit"
    rows[2]["n"] = rows[3]["n"] = 9
    explorer = make_report(rows, by=["shop"]).group_explorer
    assert explorer is not None
    explorer = replace(explorer, focus=list(explorer.classes).index("a"))
    assert [explorer.rows[row] for row in explorer.shown] == ["v", "z", "x", "y", "w"]


def test_a_page_stays_small_and_says_what_it_leaves_out() -> None:
    pytest.importorskip("jinja2")
    sizes = {}
    for n_shops, n_weeks in ((12, 26), (200, 52)):
        report = make_report(shop_rows(n_shops, n_weeks), by=["shop"], time="week")
        page = report.html()
        start = page.index('<div class="explorer" id="groups"')
        sizes[n_shops] = page.index("</script>", start) - start
        assert report.group_explorer is not None
        assert report.group_explorer.left_out == ""
    assert sizes[12] <= 60_000
    assert sizes[200] <= 1_000_000
    assert len(page) <= 2_000_000, "with the files"
    assert 'download="groups.csv.gz"' in page
    assert len(page.rsplit("<script>", 1)[1]) <= 15_000
    many = make_report(shop_rows(300, 104), by=["shop"], time="week").group_explorer
    assert many is not None
    assert many.left_out == (
        "The page has 250 of 300 rows and 1 of 3 classes; for all, see the files below."
    )
    assert len(json.loads(many.data())["ends"]) == 1


def test_a_page_of_very_many_times_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdey.report.explorer._MOST_NUMBERS", 300)
    found = make_report(shop_rows(3, 104), by=["shop"], time="week").group_explorer
    assert found is not None
    assert (len(found.shown), len(found.shown_classes)) == (1, 1)
