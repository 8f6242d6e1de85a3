"""Times as people say them: years, quarters, months and weeks by name, days by their date.

Groups by period carry the day on which each period begins. If all of them are the first days of
years, quarters, months or weeks, that is what they are called. A single day may be anything, so
that it stays a date.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

#: English, whatever the language of the machine, as all of the page is.
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
#: Distinct times that are needed to tell a quarter from a month.
_FEWEST_QUARTERS = 3


@dataclass(frozen=True)
class Period:
    """A kind of period; this one has no name, and its times are shown as they are."""

    def name(self, moment: Any) -> str:
        """Return the name of the period that begins at a moment."""
        day = as_day(moment)
        return key_text(moment) if day is None else self.name_of_day(day, moment)

    def name_of_day(self, day: date, moment: Any) -> str:
        """Return the name of the period that begins on a day."""
        return key_text(moment)


class Year(Period):
    """Years: 2026."""

    def name_of_day(self, day: date, moment: Any) -> str:
        """Return the year."""
        return str(day.year)


class Quarter(Period):
    """Quarters: the second quarter is 2026 Q2."""

    def name_of_day(self, day: date, moment: Any) -> str:
        """Return the year and the quarter."""
        return f"{day.year} Q{(day.month + 2) // 3}"


class Month(Period):
    """Months: April 2026."""

    def name_of_day(self, day: date, moment: Any) -> str:
        """Return the month and the year."""
        return f"{MONTHS[day.month - 1]} {day.year}"


class Week(Period):
    """Weeks of ISO 8601, which begin on Monday: week 14 of 2026."""

    def name_of_day(self, day: date, moment: Any) -> str:
        """Return the number of the week and its year."""
        year, week, _ = day.isocalendar()
        return f"week {week} of {year}"


def period_of(moments: Sequence[Any]) -> Period:
    """Return the longest period that all moments begin; days if there is only one moment.

    Parameters
    ----------
    moments : sequence of dates, datetimes, ISO texts or anything else
        Missing ones (None) do not count.
    """
    known = [as_day(moment) for moment in moments if moment is not None]
    days = {day for day in known if day is not None}
    if None in known or len(days) < 2:
        return Period()
    if all(day.day == 1 for day in days):
        if all(day.month == 1 for day in days):
            return Year()
        quarters = all(day.month % 3 == 1 for day in days)
        return Quarter() if quarters and len(days) >= _FEWEST_QUARTERS else Month()
    return Week() if all(day.weekday() == 0 for day in days) else Period()


def as_day(moment: Any) -> date | None:
    """Return a date, a midnight or its text as a day; None for anything else."""
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return None
    if isinstance(moment, datetime):
        return moment.date() if _is_midnight(moment) else None
    return moment if isinstance(moment, date) else None


def _is_midnight(moment: datetime) -> bool:
    return (moment.hour, moment.minute, moment.second, moment.microsecond) == (0, 0, 0, 0)


def key_text(value: Any) -> str:
    """Return a key as it is shown: a midnight is a day, a whole float an integer."""
    if value is None:
        return "(missing)"
    if isinstance(value, datetime):
        return value.date().isoformat() if _is_midnight(value) else value.isoformat(" ")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
