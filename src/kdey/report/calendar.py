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
from typing import Any

from kdey.groups.request import parse_period

#: English, whatever the language of the machine, as all of the page is.
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
#: Distinct times that are needed to tell a quarter from a month.
_FEWEST_QUARTERS = 3
#: Names of the units of periods.
_UNITS = {
    "s": "second",
    "m": "minute",
    "h": "hour",
    "d": "day",
    "w": "week",
    "mo": "month",
    "q": "quarter",
    "y": "year",
}
#: Periods that have names, and what one of them is called.
_NAMED = {
    (1, "y"): "year",
    (12, "mo"): "year",
    (1, "q"): "quarter",
    (3, "mo"): "quarter",
    (1, "mo"): "month",
    (1, "w"): "week",
    (1, "d"): "day",
}


@dataclass(frozen=True)
class Calendar:
    """How periods are named.

    Attributes
    ----------
    noun : {"year", "quarter", "month", "week", "day", "period", ""}
        What one period is called. A "period" has several units or is shorter than a day; the empty
        text stands for times that are shown as they are.
    length : str
        Of a "period", such as "2 weeks".
    within_days : bool
        Whether a "period" may begin at any time of a day.
    """

    noun: str = ""
    length: str = ""
    within_days: bool = False

    def name(self, moment: Any) -> str:
        """Return the name of the period that begins at a moment: April 2026, week 14 of 2026."""
        start = as_moment(moment)
        if self.noun == "period" and start is not None:
            return f"{_date(start)}{_clock(start)} ({self.length})"
        day = as_day(moment)
        if day is None:
            return key_text(moment)
        if self.noun == "year":
            return str(day.year)
        if self.noun == "quarter":
            return f"{day.year} {self._short(day)}"
        if self.noun == "month":
            return f"{_month(day)} {day.year}"
        if self.noun == "week":
            return f"{self._short(day)} of {self._year(day)}"
        return _date(day) if self.noun == "day" else key_text(moment)

    def tick(self, moment: Any, before: Any = None) -> str:
        """Return a short name for an axis, with the year (or day) where it is new.

        Parameters
        ----------
        moment : the first moment of the period
        before : the moment of the label on its left, optional
        """
        start, last = as_moment(moment), as_moment(before)
        if self.within_days and isinstance(start, datetime):
            same_day = last is not None and last.timetuple()[:3] == start.timetuple()[:3]
            return f"{start:%H:%M}" if same_day else f"{self._short(start)} {start:%H:%M}"
        day, last_day = as_day(moment), as_day(before)
        if self.noun == "year" or day is None:
            return self.name(moment) if self.noun == "year" else key_text(moment)
        year, short = self._year(day), self._short(day)
        return short if last_day is not None and self._year(last_day) == year else f"{short} {year}"

    def _short(self, day: date) -> str:
        """Return the name of the period that begins on a day, without its year."""
        if self.noun == "quarter":
            return f"Q{(day.month + 2) // 3}"
        if self.noun == "month":
            return _month(day)[:3]
        return f"week {day.isocalendar().week}" if self.noun == "week" else _short_date(day)

    def _year(self, day: date) -> int:
        """Return the year that a period belongs to; weeks are those of ISO 8601."""
        return day.isocalendar().year if self.noun == "week" else day.year


def calendar_of(moments: Sequence[Any], every: str | None = None) -> Calendar:
    """Return how the periods that begin at some moments are named.

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
        if (count, unit) in _NAMED:
            return Calendar(_NAMED[count, unit])
        return Calendar("period", f"{count} {_UNITS[unit]}{'s' * (count > 1)}", unit in "smh")
    if None in known or not days:
        return Calendar()
    if len(days) < 2:
        return Calendar("day")
    if all(day.day == 1 for day in days):
        if all(day.month == 1 for day in days):
            return Calendar("year")
        quarters = all(day.month % 3 == 1 for day in days) and len(days) >= _FEWEST_QUARTERS
        return Calendar("quarter" if quarters else "month")
    # Every second Monday may begin a fortnight as well as a week.
    mondays = all(day.weekday() == 0 for day in days)
    weekly = mondays and min((b - a).days for a, b in pairwise(days)) == 7
    return Calendar("week" if weekly else "day")


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


def _date(day: date) -> str:
    return f"{day.day} {_month(day)} {day.year}"


def _short_date(day: date) -> str:
    return f"{day.day} {_month(day)[:3]}"


def _month(day: date) -> str:
    return MONTHS[day.month - 1]


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
