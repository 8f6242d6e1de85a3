"""Reports from little and from much; written whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import kdey
from kdey import CC, EMQ, DMx, HDy, KDEyML, OneVsAll, check_fit, make_report, write_report

from .cases import HOSTILE, fitted, full_report, group_rows, names, posteriors, weeks

pytest.importorskip("jinja2")
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


class Addresses(HTMLParser):
    """Gathers what the elements of a page point to."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pointing = ("src", "href", "srcset", "action", "data", "poster", "xlink:href")
        self.places += [value or "" for name, value in attrs if name in pointing]


def sections(page: str) -> list[str]:
    return re.findall(r'<section id="([a-z]+)', page)


def test_everything_has_its_section_and_nothing_points_outside() -> None:
    page = full_report(3, "time").html()
    front = ["groups", "classes", "trust", "files"]
    technical = ["technical", "numbers", "fit", "classifier", "performance", "settings"]
    assert sections(page) == front + technical
    found = Addresses()
    found.feed(page)
    assert len(found.places) >= 10
    assert all(place.startswith(("#", "data:")) for place in found.places)
    style = page.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    assert HOSTILE not in page
    assert page.count("<script>") == 1
    assert page.count('<script type="application/json"') == 2


@pytest.mark.smoke
def test_the_same_report_is_the_same_page() -> None:
    pages = [dataclasses.replace(full_report(3, "groups"), created=MOMENT).html() for _ in range(2)]
    assert pages[0] == pages[1]


def test_an_estimate_alone_is_enough(tmp_path: Path) -> None:
    q = fitted(3)
    bag: kdey.Estimate = q.estimate_posteriors(
        posteriors(np.arange(90) % 3, 3, np.random.default_rng(0))
    )
    path = bag.report(tmp_path / "small.html", title="Small")
    page = path.read_text(encoding="utf-8")
    technical = ["technical", "fit", "settings"]
    assert sections(page) == ["classes", "trust", "files", *technical]
    assert "<title>Small</title>" in page


def test_groups_alone_are_enough() -> None:
    rows = group_rows(["region"], [("a",), ("b",)], names(2))
    page = make_report(rows, by=["region"]).html()
    assert sections(page) == ["groups", "trust", "files", "technical", "numbers", "settings"]
    with pytest.raises(TypeError, match="a report is made of"):
        make_report(3)


def test_estimates_of_many_bags_are_groups() -> None:
    q = fitted(3)
    points = posteriors(np.arange(90) % 3, 3, np.random.default_rng(0))
    estimates = q.estimate_posteriors(points, [range(30), range(30, 90)])
    report = make_report(estimates, quantifier=q)
    technical = ["technical", "numbers", "classifier", "settings"]
    assert sections(report.html()) == ["groups", "trust", "files", *technical]
    assert report.groups is not None
    assert [group.n for group in report.groups.groups] == [30, 60]
    row = report.groups.groups[1].rows[0]
    assert row.estimate == estimates[1].estimate[0]
    assert row.naive == estimates[1].classify_and_count[0]
    assert row.training == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="not both"):
        make_report(estimates, [], by=["region"])


def test_groups_of_a_table_are_named_by_their_keys() -> None:
    pd = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True, as_frame=True)
    q = EMQ().fit(X[::2], y[::2])
    new = X[1::2].assign(field=["east" if i % 3 else "west" for i in range(75)])
    groups = q.predict_groups(pd.DataFrame(new), "field")
    alone, both = make_report(groups), make_report(q.estimate(X[1::2]), groups, quantifier=q)
    for report in (alone, both):
        assert report.groups is not None
        assert report.groups.by == ("field",)
        assert [group.keys for group in report.groups.groups] == [("east",), ("west",)]
    assert both.estimate is not None


def test_a_weighted_bag_is_checked_with_its_weights() -> None:
    q = fitted(3)
    points = posteriors(np.arange(120) % 3, 3, np.random.default_rng(0))
    weights = np.where(np.arange(120) % 3 == 0, 5.0, 1.0)
    estimate = q.estimate_posteriors(points, sample_weight=weights)
    expected = check_fit(q, posteriors=points, sample_weight=weights, random_state=0)
    check = make_report(estimate, quantifier=q).check
    assert check is not None
    assert check.p_value == expected.p_value
    assert check.prevalence[0] > 0.5


def test_broken_characters_do_not_stop_a_report(tmp_path: Path) -> None:
    rows = group_rows(["region"], [("caf\udce9",), ("\x00",)], ["a", "\udcff"])
    path = write_report(tmp_path / "r.html", rows, by=["region"])
    assert "caf?" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("method", [CC(), EMQ(), DMx(), OneVsAll(HDy()), KDEyML(cv=0.4)])
def test_every_kind_of_method_has_a_report(method: object) -> None:
    X, y = load_iris(return_X_y=True)
    q = method.fit(X, y)
    page = make_report(q.estimate(X[:80]), quantifier=q).html()
    assert "classes" in sections(page)
    assert type(q).__name__ in page
    fit = page.split('<section id="fit-section"')[1].split("</section>")[0]
    assert "column" in fit, "the verdict on columns stands beside that on scores"


def test_two_classes_and_the_automatic_choice_in_words() -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[50:, 1:2], y[50:]
    q = KDEyML(LogisticRegression(), random_state=0).fit(X, y)
    page = make_report(q.estimate(X), quantifier=q).html()
    technical = ["technical", "fit", "classifier", "performance", "settings"]
    assert sections(page) == ["classes", "trust", "files", *technical]
    assert "Chosen: " in page
    assert "held-out training instances" in page


def test_groups_that_could_not_be_estimated_are_shown_as_such() -> None:
    rows = group_rows(["week"], [(w,) for w in weeks(4)], names(3))
    for row in rows[3:6]:
        row |= {"estimate": float("nan"), "low": None, "high": None, "status": "empty", "n": 0}
    page = make_report(rows, time="week").html()
    assert page.count(">empty</td>") == 3
    assert "nan" not in page.split("<main", 1)[1].split('id="files"', 1)[0].lower()
    # A line never bridges the gap: one stretch before it, one after it, for each class.
    curves = re.findall(r'<path class="curve" d="([^"]*)"', page)
    assert [curve.count("M") for curve in curves] == [2, 2, 2]


def test_many_rows_are_cut_on_the_page_only() -> None:
    rows = group_rows(["id"], [(number,) for number in range(600)], ["a", "b"])
    page = make_report(rows, by=["id"]).html()
    assert "the first 200 of 1,200 rows" in page
    table = page.split('<table data-sortable id="group-rows">')[1].split("</table>")[0]
    assert table.count("<tr>") == 201
    assert "The page has 500 of 600 rows; for all, see the files below." in page
    assert page.count('<tr id="groups-') == 500


def test_files_that_would_make_a_page_too_large_are_named_with_what_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = group_rows(["id"], [(number,) for number in range(600)], ["a", "b"])
    report = make_report(rows, by=["id"])
    whole = report.html()
    assert "too large" not in whole
    monkeypatch.setattr("kdey.report.page.MOST_CHARACTERS", len(whole) - 1)
    page = report.html()
    assert 'download="groups.csv.gz"' not in page
    assert 'download="report.json.gz"' in page, "the largest is left out first"
    assert "<li>groups.csv would make this page too large: <code>kdey estimate</code>" in page


def test_groups_of_a_large_table_stand_in_one_file() -> None:
    rows = group_rows(["id"], [(number,) for number in range(1001)], ["a", "b"])
    for part, is_in_both in ((rows[:-2], True), (rows, False)):
        files = make_report(part, by=["id"]).page().downloads
        assert files["groups.csv"].text.count("\n") == len(part) + 1
        assert ("groups" in json.loads(files["report.json"].text)) == is_in_both


def test_truth_must_fit() -> None:
    q = fitted(3)
    estimate = q.estimate_posteriors(posteriors(np.arange(90) % 3, 3, np.random.default_rng(0)))
    with pytest.raises(ValueError, match="one share for each class"):
        make_report(estimate, truth=[0.5, 0.5])
    with pytest.raises(ValueError, match="truth must have rows that sum to one"):
        make_report(estimate, truth=[50, 30, 20])


def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = full_report(3, "groups")
    target = tmp_path / "report.html"
    target.write_text("what was there")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kdey.report.os.replace", fail)
    with pytest.raises(OSError, match=r"cannot write .*report\.html: No space"):
        report.write(target)
    assert target.read_text() == "what was there"
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(OSError, match="cannot write"):
        write_report(tmp_path / "no" / "where.html", report.estimate)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    report = full_report(3, "groups")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"kdey\[report\]"):
        report.html()


def test_a_notebook_shows_the_page() -> None:
    shown = full_report(3, "groups")._repr_html_()
    assert shown.startswith('<iframe srcdoc="')
    assert shown.count("<") == 2  # the page inside is escaped: it cannot leave its frame


def test_rare_options_of_a_table_travel_in_one_object() -> None:
    """They say the same as keywords of groups; estimates that are made already refuse them."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) + np.arange(200)[:, None] % 2
    frame = pd.DataFrame(X, columns=["a", "b"])
    q = EMQ().fit(frame, np.arange(200) % 2)
    new = frame.assign(shop=np.arange(200) % 3, w=rng.uniform(0.5, 2.0, 200))
    merge = {"one": [1], "none": [0]}
    options = kdey.Options(weights="w", merge=merge, confidence=0.8)
    asked: Any = {"weights": "w", "merge": merge, "confidence": 0.8}
    by_keyword = kdey.predict_groups(q, new, "shop", **asked)
    by_options = kdey.predict_groups(q, new, "shop", options=options)
    assert np.array_equal(by_options.low, by_keyword.low)
    report = make_report(q, new, "shop", options=options)
    assert report.groups is not None
    lows = [[row.low for row in group.rows] for group in report.groups.groups]
    np.testing.assert_allclose(lows, by_keyword.low)
    with pytest.raises(ValueError, match="option weights is for tables"):
        q.estimate(frame, options=options)
    with pytest.raises(TypeError, match="option confidence needs a quantifier and a table"):
        make_report(q.estimate(frame), options=options)
