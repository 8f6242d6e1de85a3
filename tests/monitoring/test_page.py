"""The page of a history: what rings is on it, and labels cannot break it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kdey.monitoring import Bound, MonitorSettings, history_page, write_history_page

from .cases import drawn, empty, history, period

pytest.importorskip("jinja2")


def test_the_page_shows_alarms_bounds_and_periods(tmp_path: Path) -> None:
    settings = MonitorSettings(bounds=(Bound("eel", "above", 0.3),))
    rows = [*drawn([0.5, 0.3, 0.2], 15), [0.2, 0.3, 0.5]]
    page = write_history_page(tmp_path / "h.html", history(rows, settings), "Zoo").read_text(
        "utf-8"
    )
    assert "<title>Zoo</title>" in page
    assert "The history has 16 periods, from 0 to 15." in page
    assert "Alarm.</strong> 3 alarms for 15." in page
    # Cat and eel have moved, and eel is above its bound; each is marked at its time.
    marked = [d for d in re.findall(r'class="marks" d="([^"]*)"', page) if d]
    assert marked == ["M15 0V800", "M15 0V800M15 0V800"]
    assert [d for d in re.findall(r'class="bounds" d="([^"]*)"', page) if d] == ["M0 300H15"]
    assert re.search(
        r'<a href="#classes-\d" data-label="eel">eel</a>: the share of “eel” has', page
    )
    assert "is at most 5.0\u00a0%" in page
    assert 'download="history.csv"' in page


def test_a_quiet_history_says_so() -> None:
    page = history_page(history(drawn([0.5, 0.3, 0.2], 3)))
    assert "No alarm.</strong> None was raised for 2." in page
    assert "There has been no alarm so far." in page
    assert not [d for d in re.findall(r'class="marks" d="([^"]*)"', page) if d]


def test_a_history_of_groups_has_a_row_for_each() -> None:
    rows = {"north": drawn([0.5, 0.3, 0.2], 12), "south": drawn([0.2, 0.3, 0.5], 12)}
    rows["north"][-1] = [0.1, 0.2, 0.7]
    periods = [
        replace(period(str(number), row), group=group)
        for number in range(12)
        for group, row in ((name, every[number]) for name, every in rows.items())
    ]
    page = history_page(replace(empty(), by="shop").with_periods(periods))
    flagged = page.split('<tr id="groups-0"')[1].split("</tr>")[0]
    assert "north" in flagged
    assert "⚑ alarm" in flagged
    assert "⚑" not in page.split('<tr id="groups-1"')[1].split("</tr>")[0]
    assert "1 of 2 groups by shop raised an alarm for 11." in page


def test_the_last_alarm_leads_to_its_group_and_periods_have_one_name() -> None:
    rows = {"north": [*drawn([0.5, 0.3, 0.2], 12), *drawn([0.1, 0.2, 0.7], 3)]}
    rows["south"] = drawn([0.2, 0.3, 0.5], 15)
    days = [f"2026-{1 + number // 4:02d}-{1 + 7 * (number % 4):02d}" for number in range(15)]
    periods = [
        replace(period(day, every[number]), group=group)
        for number, day in enumerate(days)
        for group, every in rows.items()
    ]
    page = history_page(replace(empty(), by="shop").with_periods(periods))
    shown = page.split("<main", 1)[1].split('id="files"', 1)[0]
    assert "None of 2 groups by shop raised an alarm for 15 April 2026." in shown
    assert re.search(r'<a href="#groups-0" data-label="\w+">north</a>: the share of “', shown)
    assert "(alarm for 8 April 2026)" in shown
    assert "<caption>Newest estimate, 15 April 2026, of" in shown
    assert not re.search(r"2026-\d\d", shown.split("<script")[0]), "as people say them"


def test_labels_are_escaped() -> None:
    hostile = "<script>alert(1)</script>"
    one = empty(classes=("a", hostile)).with_periods([period("2024-01-01", [0.4, 0.6])])
    page = history_page(one)
    assert hostile not in page
    assert "&lt;script&gt;alert(1)" in page


def test_an_empty_history_has_no_page() -> None:
    with pytest.raises(ValueError, match="no period"):
        history_page(empty())
