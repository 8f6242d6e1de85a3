"""Times as people say them: years, quarters, months and weeks by name, days by their date.

Groups by period carry the day on which each period begins. If the length of the periods is known
("1w"), it names them. Otherwise they are years, quarters, months or weeks if all of them begin on
the first day of one, and else days.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from typing import Any, ClassVar

from kdey.groups.keys import parse_period

#: English, whatever the language of the machine, as all of the page is.
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
#: Distinct times that are needed to tell a quarter from a month.
_FEWEST_QUARTERS = 3
#: Names of the units of periods.
_UNITS = {
    "s": "seconds",
    "m": "minutes",
    "h": "hours",
    "d": "days",
    "w": "weeks",
    "mo": "months",
    "q": "quarters",
    "y": "years",
}


@dataclass(frozen=True)
class Period:
    """A kind of period; this one has no name, and its times are shown as they are."""

    #: What one period is called; empty where that is not known.
    noun: ClassVar[str] = ""

    def name(self, moment: Any) -> str:
        """Return the name of the period that begins at a moment."""
        day = as_day(moment)
        return key_text(moment) if day is None else self.name_of_day(day, moment)

    def name_of_day(self, day: date, moment: Any) -> str:
        """Return the name of the period that begins on a day."""
        return key_text(moment)

    def tick(self, moment: Any, before: Any = None) -> str:
        """Return a short name for an axis, with the year where it is new.

        Parameters
        ----------
        moment : the first moment of the period
        before : the moment of the label on its left, optional
        """
        day, last = as_day(moment), as_day(before)
        if day is None:
            return key_text(moment)
        year = self.year_of(day)
        short = self.short_name(day, moment)
        return short if last is not None and self.year_of(last) == year else f"{short} {year}"

    def short_name(self, day: date, moment: Any) -> str:
        """Return the name of the period that begins on a day, without its year."""
        return f"{day.day} {_month(day, short=True)}"

    def year_of(self, day: date) -> int:
        """Return the year that a day belongs to."""
        return day.year


class Year(Period):
    """Years: 2026."""

    noun = "year"

    def name_of_day(self, day: date, moment: Any) -> str:
        """Return the year."""
        return str(day.year)

    def tick(self, moment: Any, before: Any = None) -> str:
        """Return the year."""
        return self.name(moment)


class Quarter(Period):
    """Quarters: the second quarter is 2026 Q2."""

    noun = "quarter"

    def name_of_day(self, day: date, moment: Any) -> str:
        """Return the year and the quarter."""
        return f"{day.year} {self.short_name(day, moment)}"

    def short_name(self, day: date, moment: Any) -> str:
        """Return the quarter."""
        return f"Q{(day.month + 2) // 3}"


class Month(Period):
    """Months: April 2026."""

    noun = "month"

    def name_of_day(self, day: date, moment: Any) -> str:
        """Return the month and the year."""
        return f"{_month(day)} {day.year}"

    def short_name(self, day: date, moment: Any) -> str:
        """Return the month."""
        return _month(day, short=True)


class Week(Period):
    """Weeks of ISO 8601, which begin on Monday: week 14 of 2026."""

    noun = "week"

    def name_of_day(self, day: date, moment: Any) -> str:
        """Return the number of the week and its year."""
        return f"{self.short_name(day, moment)} of {self.year_of(day)}"

    def short_name(self, day: date, moment: Any) -> str:
        """Return the number of the week."""
        return f"week {day.isocalendar().week}"

    def year_of(self, day: date) -> int:
        """Return the year that the week belongs to."""
        return day.isocalendar().year


class Day(Period):
    """Days: 1 April 2026."""

    noun = "day"

    def name_of_day(self, day: date, moment: Any) -> str:
        """Return the date."""
        return f"{day.day} {_month(day)} {day.year}"


@dataclass(frozen=True)
class Stretch(Period):
    """Periods of several units, or of less than a day: 30 March 2026 (2 weeks).

    Attributes
    ----------
    length : str
        Such as "2 weeks".
    within_days : bool
        Whether periods may begin at any time of a day.
    """

    length: str
    within_days: bool = False
    noun: ClassVar[str] = "period"

    def name(self, moment: Any) -> str:
        """Return the beginning of the period, and its length."""
        start = as_moment(moment)
        if start is None:
            return key_text(moment)
        return f"{Day().name_of_day(start, moment)}{_clock(start)} ({self.length})"

    def tick(self, moment: Any, before: Any = None) -> str:
        """Return the day, where it is new, and the time of day if periods are shorter."""
        start, last = as_moment(moment), as_moment(before)
        if not isinstance(start, datetime) or not self.within_days:
            return super().tick(moment, before)
        same_day = last is not None and (last.year, last.month, last.day) == (
            start.year,
            start.month,
            start.day,
        )
        return f"{start:%H:%M}" if same_day else f"{self.short_name(start, moment)} {start:%H:%M}"


#: Periods that have names.
_NAMED: dict[tuple[int, str], Period] = {
    (1, "y"): Year(),
    (12, "mo"): Year(),
    (1, "q"): Quarter(),
    (3, "mo"): Quarter(),
    (1, "mo"): Month(),
    (1, "w"): Week(),
    (1, "d"): Day(),
}


def period_of(moments: Sequence[Any], every: str | None = None) -> Period:
    """Return the kind of period that begins at some moments.

    Parameters
    ----------
    moments : sequence of dates, datetimes, ISO texts or anything else
        Missing ones (None) do not count.
    every : str, optional
        The length of the periods, such as "1w"; by default the longest kind that all moments
        begin, or days if there is only one moment.
    """
    known = [as_day(moment) for moment in moments if moment is not None]
    days = sorted({day for day in known if day is not None})
    if every is not None and any(as_moment(moment) is not None for moment in moments):
        count, unit = parse_period(every)
        length = f"{count} {_UNITS[unit]}" if count > 1 else f"1 {_UNITS[unit][:-1]}"
        return _NAMED.get((count, unit), Stretch(length, unit in "smh"))
    if None in known or not days:
        return Period()
    if len(days) < 2:
        return Day()
    if all(day.day == 1 for day in days):
        if all(day.month == 1 for day in days):
            return Year()
        quarters = all(day.month % 3 == 1 for day in days)
        return Quarter() if quarters and len(days) >= _FEWEST_QUARTERS else Month()
    # Every second Monday may begin a fortnight as well as a week.
    mondays = all(day.weekday() == 0 for day in days)
    return Week() if mondays and min((b - a).days for a, b in pairwise(days)) == 7 else Day()


def as_moment(moment: Any) -> datetime | date | None:
    """Return a date, a datetime or its ISO text as such; None for anything else."""
    if isinstance(moment, str):
        try:
            return datetime.fromisoformat(moment)
        except ValueError:
            return None
    return moment if isinstance(moment, date) else None


def as_day(moment: Any) -> date | None:
    """Return a date, a midnight or its text as a day; None for anything else."""
    known = as_moment(moment)
    if isinstance(known, datetime):
        return known.date() if _is_midnight(known) else None
    return known


def _is_midnight(moment: datetime) -> bool:
    return (moment.hour, moment.minute, moment.second, moment.microsecond) == (0, 0, 0, 0)


def _clock(moment: date) -> str:
    """Return the time of day, after a comma; nothing for midnight and for days."""
    at_midnight = not isinstance(moment, datetime) or _is_midnight(moment)
    return "" if at_midnight else f", {moment:%H:%M}"


def _month(day: date, short: bool = False) -> str:
    name = MONTHS[day.month - 1]
    return name[:3] if short else name


def key_text(value: Any) -> str:
    """Return a key as it is shown: a midnight is a day, a whole float an integer."""
    if value is None:
        return "(missing)"
    if isinstance(value, datetime):
        return value.date().isoformat() if _is_midnight(value) else value.isoformat(" ")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def position(value: Any) -> float | None:
    """Return a time as a number, None for what is neither number nor date."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    value = as_moment(value)
    if isinstance(value, datetime):
        # Days since year one, without time zones: they need not be known for all.
        rest = value.hour * 3600 + value.minute * 60 + value.second
        return float(value.toordinal()) + rest / 86400
    return float(value.toordinal()) if isinstance(value, date) else None


def sort_key(value: Any) -> tuple[int, float, str]:
    """Return the sort key of a time: numbers and dates by value, texts after them."""
    place = position(value)
    return (1, 0.0, key_text(value)) if place is None else (0, place, "")
