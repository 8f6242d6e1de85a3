"""Differences between groups in a report: the sentences, the figure, the table and the file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kdey.report.calendar import calendar_of, key_text
from kdey.report.html import FILTERED_ROWS, Figure, Section, csv_address
from kdey.report.page_tables import MOST_ROWS
from kdey.report.shown_groups import dictionaries, key_names, number, plain_value
from kdey.report.svg import MOST_NARROW, WIDE, Axis, Drawing, shortened
from kdey.report.vocabulary import percent
from kdey.tables.output import Cell, Heading, Row, Table

#: Adjusted p-values up to this are findings.
LEVEL = 0.05
#: Differences that are drawn, and named in sentences.
MOST_DRAWN, _MOST_NAMED = 20, 3
_NUMBERS = (
    *("estimate", "estimate_against", "difference", "low", "high"),
    *("ratio", "ratio_low", "ratio_high", "p_value", "adjusted_p_value"),
)
#: Room for names, height of a line, and of one with its name above it.
_NAMES, _LINE, _TALL_LINE, _TOP = 300.0, 22.0, 40.0, 8.0


@dataclass(frozen=True)
class ShownDifference:
    """The difference of one class between two groups.

    Attributes
    ----------
    keys : mapping from names of keys to texts
        Of the group.
    against : str
        The other side in words.
    name : str
        The class.
    values : mapping from names of columns to numbers
        None where a number is not known, such as a ratio without an upper limit.
    """

    keys: dict[str, str]
    against: str
    name: str
    values: dict[str, float | None]

    @property
    def group(self) -> str:
        """The keys as one text."""
        return ", ".join(self.keys.values())

    @property
    def is_finding(self) -> bool:
        """Whether the difference remains after allowing for the number of tests."""
        p_value = self.values["adjusted_p_value"]
        return p_value is not None and p_value <= LEVEL


def differences_of(
    table: Any, by: Sequence[str], time: str | None = None, *, every: str | None = None
) -> tuple[ShownDifference, ...]:
    """Return the differences in a table of :func:`kdey.compare_groups`, the clearest first.

    Parameters
    ----------
    table : iterable of mappings, or a frame of pandas, polars or pyarrow
    by : names of the keys
    time : str, optional
        One more key.
    every : str, optional
        The length of its periods, by which they are named.
    """
    names = key_names(by, time)
    listed = list(dictionaries(table))
    calendar = calendar_of([plain_value(row.get(time)) for row in listed] if time else [], every)
    rows = []
    for row in listed:
        missing = [name for name in (*names, "against", "class", *_NUMBERS) if name not in row]
        if missing:
            raise ValueError(f"comparisons lack the columns {', '.join(missing)}")
        values = {name: _finite(row[name]) for name in _NUMBERS}
        if values["difference"] is None:
            continue  # A side has no instances.
        keys = {name: plain_value(row[name]) for name in names}
        texts = {
            name: calendar.name(key) if name == time else key_text(key)
            for name, key in keys.items()
        }
        rows.append(ShownDifference(texts, str(row["against"]), str(row["class"]), values))
    return tuple(sorted(rows, key=lambda row: _order(row.values)))


def differences_section(rows: Sequence[ShownDifference], by: Sequence[str]) -> Section:
    """Return the section on differences between groups with the keys ``by``."""
    words = comparisons_answer(rows)
    if len(rows) > MOST_ROWS:
        words.append(
            f"The table shows the {MOST_ROWS:,} clearest of {len(rows):,} differences; all "
            "are in the file comparisons.csv below."
        )
    caption = (
        f"The {min(MOST_DRAWN, len(rows))} clearest differences with their limits, which hold for "
        "each by itself. Filled points: differences that remain after allowing for the number of "
        "tests."
    )
    figure = Figure.for_screens(
        lambda name, width: comparisons_figure(rows, name, width), "comparisons", caption
    )
    table, files = _rows_table(rows, by), _csv_file(rows, by)
    filtered = len(table.rows) > FILTERED_ROWS
    return Section("comparisons", "Did it change?", words, [figure], [table], filtered, files=files)


def comparisons_answer(rows: Sequence[ShownDifference]) -> list[str]:
    """Return what the comparisons show, in a few sentences."""
    found = [row for row in rows if row.is_finding]
    if not found:
        return [
            f"None of {len(rows):,} differences is larger than chance explains, given that "
            "so many were looked at."
        ]
    sentences = [
        f"{len(found):,} of {len(rows):,} differences are larger than chance explains, even "
        "though so many were looked at. The clearest:"
    ]
    for row in found[:_MOST_NAMED]:
        verb = "more" if (row.values["difference"] or 0.0) > 0 else "less"
        sentences.append(
            f"“{row.name}” has {_points(abs(row.values['difference'] or 0.0))} points {verb} in "
            f"{row.group} than in {row.against} ({percent(row.values['estimate'])} against "
            f"{percent(row.values['estimate_against'])}; difference {_span(row)} points)."
        )
    return sentences


def comparisons_figure(
    differences: Sequence[ShownDifference], name: str = "comparisons", width: float = WIDE
) -> Drawing:
    """Return the clearest differences with their limits, one line each."""
    narrow = width <= MOST_NARROW
    left, line = (0.0, _TALL_LINE) if narrow else (_NAMES, _LINE)
    rows = differences[:MOST_DRAWN]
    reach = max([0.01, *(abs(row.values[end] or 0.0) for row in rows for end in ("low", "high"))])
    across = Axis(-reach, reach, left + 16, width - 16)
    bottom = _TOP + line * len(rows)
    drawing = Drawing(
        name,
        width,
        bottom + 40,
        "Differences between groups",
        f"{len(rows)} differences with their limits, the clearest on top. The table has all.",
    )
    drawing.with_tips = not narrow
    for value in across.ticks(4):
        place = across.at(value)
        drawing.line(place, _TOP, place, bottom, "axis" if abs(value) < 1e-12 else "grid")
        drawing.words(place, bottom + 16, _tick(value), "tick", "middle")
    drawing.words((left + width) / 2, bottom + 34, "percentage points", "tick", "middle")
    for place, row in enumerate(rows):
        y = _TOP + line * (place + (0.7 if narrow else 0.5))
        label = f"{row.name}: {row.group} against {row.against}"
        if narrow:
            drawing.words(0, y - 11, shortened(label, width, 11), "tick")
        else:
            drawing.words(_NAMES - 6, y + 4, shortened(label, _NAMES - 12, 12), "tick", "end")
        low, middle, high = (row.values[end] or 0.0 for end in ("low", "difference", "high"))
        tip = f"{label}: {100 * middle:+.1f} points ({_span(row)})"
        drawing.line(across.at(low), y, across.at(high), y, "whisker s0", tip)
        kind = "point s0" if row.is_finding else "open"
        drawing.add("circle", tip=tip, cx=across.at(middle), cy=y, r=4.0, class_=kind)
    return drawing


def _rows_table(differences: Sequence[ShownDifference], by: Sequence[str]) -> Table:
    """Return one row per comparison and class, the clearest first."""
    headings = [Heading(name, numeric=False) for name in (*by, "Against", "Class")]
    headings += [Heading(name) for name in ("Share", "Other share", "Difference", "Low", "High")]
    headings += [Heading(name) for name in ("Ratio", "Low", "High", "p\u2011value", "Adjusted")]
    rows = []
    for row in differences[:MOST_ROWS]:
        values = row.values
        cells = [Cell(text) for text in (*row.keys.values(), row.against, row.name)]
        cells += [_share(values[name]) for name in ("estimate", "estimate_against")]
        cells += [_difference(values[name]) for name in ("difference", "low", "high")]
        cells += [_ratio(values[name]) for name in ("ratio", "ratio_low", "ratio_high")]
        cells += [_p_value(values[name]) for name in ("p_value", "adjusted_p_value")]
        rows.append(Row(tuple(cells), "best" if row.is_finding else "plain"))
    title = "Differences in points, with limits of each by itself"
    return Table("comparison-rows", title, tuple(headings), tuple(rows))


def _csv_file(differences: Sequence[ShownDifference], by: Sequence[str]) -> dict[str, str]:
    """Return all comparisons as a file."""
    records = [
        [*row.keys.values(), row.against, row.name, *(row.values[name] for name in _NUMBERS)]
        for row in differences
    ]
    return {"comparisons.csv": csv_address([*by, "against", "class", *_NUMBERS], records)}


def _finite(value: Any) -> float | None:
    parsed = number(value)
    return None if parsed is None or math.isinf(parsed) else parsed


def _order(values: dict[str, float | None]) -> tuple[float, float]:
    p_value = values["p_value"]
    return (1.0 if p_value is None else p_value, -abs(values["difference"] or 0.0))


def _tick(value: float) -> str:
    return "0" if abs(value) < 1e-12 else f"{100 * value:+.3g}"


def _points(difference: float) -> str:
    return f"{100 * difference:.1f}"


def _span(row: ShownDifference) -> str:
    low, high = (row.values[end] or 0.0 for end in ("low", "high"))
    return f"{100 * low:+.1f} to {100 * high:+.1f}"


def _share(value: float | None) -> Cell:
    return Cell(percent(value), -1.0 if value is None else value)


def _difference(value: float | None) -> Cell:
    return Cell() if value is None else Cell(f"{100 * value:+.1f}", value)


def _ratio(value: float | None) -> Cell:
    if value is None:
        return Cell("–", math.inf)
    return Cell(f"{value:.2f}" if value < 100 else f"{value:.3g}", value)


def _p_value(value: float | None) -> Cell:
    if value is None:
        return Cell()
    return Cell("<\u20090.001" if value < 0.001 else f"{value:.3f}", value)
