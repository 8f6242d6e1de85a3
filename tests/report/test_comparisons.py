"""The section of differences: findings first, labels escaped, every number in the file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kdey.report import differences_of, make_report
from kdey.report.sections import comparisons_answer

pytest.importorskip("jinja2")
HOSTILE = "<script>alert(1)</script>"


def row(group: str, label: str, difference: float, p_value: float) -> dict[str, Any]:
    numbers = {
        **{"estimate": 0.3 + difference, "estimate_against": 0.3, "difference": difference},
        **{"low": difference - 0.1, "high": difference + 0.1},
        **{"ratio": (0.3 + difference) / 0.3, "ratio_low": 0.5, "ratio_high": float("inf")},
        **{"p_value": p_value, "adjusted_p_value": min(3 * p_value, 1.0)},
    }
    return {"shop": group, "against": "rest", "class": label, **numbers}


def group_rows() -> list[dict[str, Any]]:
    shares = {"estimate": 0.3, "low": 0.2, "high": 0.4}
    return [{"shop": shop, "class": "a", "n": 50, **shares} for shop in ("x", "y")]


ROWS = [row("x", "a", 0.05, 0.4), row("y", "a", -0.2, 0.001), row("z", HOSTILE, 0.25, 0.002)]


def test_the_clearest_come_first_and_findings_are_named() -> None:
    rows = differences_of(ROWS, ["shop"])
    assert [r.keys for r in rows] == [{"shop": "y"}, {"shop": "z"}, {"shop": "x"}]
    assert [r.is_finding for r in rows] == [True, True, False]
    assert comparisons_answer(rows).startswith("2 of 3 differences are larger than chance explains")
    nothing = comparisons_answer(differences_of(ROWS[:1], ["shop"]))
    assert nothing.startswith("None of 1 differences")


def test_the_section_is_on_the_page() -> None:
    report = make_report(group_rows(), by=["shop"])
    page = replace(report, comparisons=differences_of(ROWS, ["shop"])).html()
    assert 'id="comparisons-section"' in page
    assert '<a href="#groups-1" data-label="a">y</a>: 20.0 points less “a” than in the rest' in page
    assert 'download="comparisons.csv"' in page
    assert HOSTILE not in page
    assert page.count('<tr class="best">') == 2


def test_a_side_without_instances_is_left_out() -> None:
    nan = float("nan")
    unknown = row("w", "a", nan, nan)
    assert len(differences_of([*ROWS, unknown], ["shop"])) == 3


def test_missing_columns_are_named() -> None:
    with pytest.raises(ValueError, match="comparisons lack the columns day"):
        differences_of(ROWS, ["shop"], "day")
