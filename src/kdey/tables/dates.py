"""Dates that are written as text or as numbers: how a column writes them, and what they are.

ISO 8601 is understood by itself. Other dates are a day, a month and a year in some order: where the
column shows the order (a 31 is no month) it is taken, and where it does not the user is asked. The
serial numbers that spreadsheets keep in the place of dates are read where the user says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kdey.tables.columns import is_missing_text

if TYPE_CHECKING:
    from kdey.tables.columns import Series

_CLOCK = r"(?P<clock>[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?"
_ISO = re.compile(
    rf"\d{{4}}-\d{{2}}-\d{{2}}{_CLOCK}(?P<zone>\s?(?:Z|[+-]\d{{2}}:?\d{{2}}))?", re.ASCII
)
_YEAR_FIRST = re.compile(rf"\d{{4}}(?P<mark>[./])\d{{1,2}}(?P=mark)\d{{1,2}}{_CLOCK}", re.ASCII)
_YEAR_LAST = re.compile(
    rf"(?P<first>\d{{1,2}})(?P<mark>[./-])(?P<second>\d{{1,2}})(?P=mark)\d{{4}}{_CLOCK}", re.ASCII
)
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)
#: The format of serial numbers: 45292 is 2024-01-01. The last one is 9999-12-31, and the sixtieth
#: is a day that spreadsheets count and that never was, 1900-02-29.
EXCEL = "excel"
_LAST_SERIAL, _NO_SERIAL = 2_958_466.0, 60
#: Directives of strftime that tell the time of day.
_CLOCK_DIRECTIVES = re.compile(r"%-?[HIMSfXcpT]")

_YEAR_DIRECTIVES = re.compile(r"%[YyGcx]")


@dataclass(frozen=True)
class TimeFormat:
    """How a column of times is written as text.

    Attributes
    ----------
    kind : {"iso", "pattern", "excel", "integer", "text"}
        ISO 8601; a pattern of strftime; serial numbers of a spreadsheet; whole numbers; or anything
        else, which stays text.
    pattern : str
        Of the kind "pattern": without the time of day where ``has_clock`` is found in each cell.
    has_clock : bool
        Whether some cell has a time of day, so that the column holds instants and not dates.
    """

    kind: Literal["iso", "pattern", "excel", "integer", "text"] = "iso"
    pattern: str = ""
    has_clock: bool = True

    def read(self, column: Series, first: int = 1) -> Series:
        """Return a column of texts as dates, instants, whole numbers or, as it is, texts.

        Parameters
        ----------
        column : narwhals series of texts, or of numbers if they are serial numbers
        first : int
            Number of the column's first row, for messages.

        Raises
        ------
        ValueError
            If a text is no date, naming the row.
        """
        import narwhals as nw

        if self.kind == "text":
            return column
        texts = column.to_list()
        # Work in Python is done once per distinct text.
        value_of = {text: self._value(text) for text in dict.fromkeys(texts)}
        for text, value in value_of.items():
            if value is None and not _is_missing(text):
                row = first + texts.index(text)
                raise ValueError(self._expected(str(column.name), row, text))
        values = [value_of[text] for text in texts]
        if self.kind == "integer":
            return integer_series(column, values)
        instants = np.array(values, dtype="datetime64[us]")
        made: Series = nw.new_series(column.name, instants, backend=column.implementation)
        # pandas has no dates of its own, only instants.
        as_dates = not self.has_clock and not column.implementation.is_pandas_like()
        return made.cast(nw.Date) if as_dates else made

    def _value(self, text: str | float | None) -> datetime | int | None:
        if _is_missing(text):
            return None
        assert text is not None
        try:
            if self.kind == "excel":
                return _by_serial(float(text), self.has_clock)
            text = str(text)
            if self.kind == "integer":
                return int(text)
            if self.kind == "iso":
                return _iso(text.strip())
            return _by_pattern(text.strip(), self.pattern)
        except ValueError:
            return None

    def _expected(self, name: str, row: int, text: Any) -> str:
        wanted = {
            "iso": "dates such as 2024-01-31 or 2024-01-31T12:00",
            "integer": "whole numbers, as in the other rows",
            "excel": "serial numbers of dates, such as 45292",
        }.get(self.kind, f"dates written as {self.pattern!r}")
        what_to_do = (
            "correct the row, or the pattern"
            if self.kind in ("pattern", "excel")
            else "say how its dates are written, such as date_format='%d.%m.%Y'"
        )
        return (
            f"time column {name!r} must hold {wanted}, but row {row} has {str(text)[:40]!r}: "
            f"{what_to_do}"
        )


def integer_series(column: Series, values: Sequence[Any]) -> Series:
    """Return whole numbers in the place of a column, None where one is missing."""
    import narwhals as nw

    # The whole numbers of NumPy, which pandas takes, have no missing ones.
    gaps = column.implementation.is_pandas_like() and None in values
    dtype = nw.Float64() if gaps else nw.Int64()
    return nw.new_series(column.name, list(values), dtype, backend=column.implementation)


def _is_missing(text: str | float | None) -> bool:
    return text is None or text != text or (isinstance(text, str) and is_missing_text(text))


def _iso(text: str) -> datetime:
    if _ISO.fullmatch(text) is None:
        raise ValueError
    # Periods are those of the clock as it is written.
    return datetime.fromisoformat(text.replace(" +", "+").replace(" -", "-")).replace(tzinfo=None)


def _by_pattern(text: str, pattern: str) -> datetime:
    return datetime.strptime(text, pattern).replace(tzinfo=None)


def _by_serial(number: float, has_clock: bool) -> datetime:
    if not 1 <= number < _LAST_SERIAL or int(number) == _NO_SERIAL:
        raise ValueError
    days = number if has_clock else int(number)
    day = datetime(1899, 12, 30 if number > _NO_SERIAL else 31) + timedelta(days=days)
    # Seconds are as exact as a spreadsheet's fractions of a day.
    return (day + timedelta(microseconds=500_000)).replace(microsecond=0)


class TimeFormatFinder:
    """Finds how a column of texts, called ``name``, writes its times, batch by batch."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._examples: dict[str, tuple[int, str]] = {}
        self._clocks: set[str] = set()

    def look(self, texts: Iterable[str | None], first: int) -> None:
        """Look at a batch; ``first`` is the number of its first row."""
        seen: set[str | None] = set()
        for row, text in enumerate(texts, start=first):
            if text not in seen:
                seen.add(text)
                if not _is_missing(text):
                    assert text is not None
                    self._note(text.strip(), row)

    def _note(self, text: str, row: int) -> None:
        kind = _shape(text)
        self._examples.setdefault(kind, (row, text))
        match = _ISO.fullmatch(text) or _YEAR_FIRST.fullmatch(text) or _YEAR_LAST.fullmatch(text)
        if match is None:
            return
        self._clocks.add(_clock_pattern(match["clock"]))
        if kind == "iso" and match["zone"]:
            self._examples.setdefault("zone", (row, text))
        if kind.startswith("last"):
            if int(match["first"]) > 12:
                self._examples.setdefault("day first", (row, text))
            if int(match["second"]) > 12:
                self._examples.setdefault("month first", (row, text))

    def found(self, needs_dates: bool) -> TimeFormat:
        """Return the format.

        Parameters
        ----------
        needs_dates : bool
            Whether the column must hold dates; otherwise it may hold numbers or texts.

        Raises
        ------
        ValueError
            If it must, but does not; if it writes dates in several ways; or if day and month cannot
            be told apart.
        """
        shapes = [
            name for name in self._examples if name not in ("zone", "day first", "month first")
        ]
        if not shapes:
            return TimeFormat("iso", has_clock=False)
        if shapes == ["iso"]:
            if "zone" in self._examples and not needs_dates:
                return TimeFormat("text")  # two zones may have the same clock
            return TimeFormat("iso", has_clock=self._clocks != {""})
        if all(shape.startswith(("iso", "first", "last")) for shape in shapes):
            if len(shapes) > 1:  # as texts, one day would become two groups
                raise ValueError(self._several_forms(shapes))
            return self._numeric(shapes[0])
        if needs_dates:
            raise ValueError(self._refusal(shapes))
        return TimeFormat("integer") if shapes == ["integer"] else TimeFormat("text")

    def _numeric(self, shape: str) -> TimeFormat:
        """Return the pattern of days, months and years as numbers."""
        mark, has_clock = shape[-1], self._clocks != {""}
        if len(self._clocks) > 1:
            row, text = self._examples[shape]
            raise ValueError(
                f"time column {self.name!r} holds dates with and without a time of day, or with "
                f"several kinds of it (row {row} has {text!r}): write them alike, best as "
                "2024-01-31T12:00"
            )
        clock = next(iter(self._clocks))
        if shape.startswith("first"):
            return TimeFormat("pattern", f"%Y{mark}%m{mark}%d{clock}", has_clock)
        day, month = self._examples.get("day first"), self._examples.get("month first")
        if day is not None and month is not None:
            raise ValueError(
                f"time column {self.name!r} holds {day[1]!r} in row {day[0]} and {month[1]!r} in "
                f"row {month[0]}: the day comes first in one and the month in the other"
            )
        if day is None and month is None:
            row, text = self._examples[shape]
            raise ValueError(
                f"time column {self.name!r}: no row shows whether {text!r} (row {row}) begins with "
                f"the day or the month: say date_format='%d{mark}%m{mark}%Y' or "
                f"'%m{mark}%d{mark}%Y'"
            )
        order = f"%d{mark}%m" if day is not None else f"%m{mark}%d"
        return TimeFormat("pattern", f"{order}{mark}%Y{clock}", has_clock)

    def _several_forms(self, shapes: list[str]) -> str:
        (row, text), (other_row, other_text) = (self._examples[shape] for shape in shapes[:2])
        return (
            f"time column {self.name!r} writes dates in several ways (row {row} has {text!r}, row "
            f"{other_row} has {other_text!r}): write them alike, best as 2024-01-31"
        )

    def _refusal(self, shapes: list[str]) -> str:
        odd = next((shape for shape in ("text", "integer") if shape in shapes), shapes[-1])
        row, text = self._examples[odd]
        return (
            f"time column {self.name!r} must hold dates such as 2024-01-31 or 2024-01-31T12:00, "
            f"but row {row} has {text[:40]!r}: say how its dates are written, such as "
            f"date_format='{_likely_format(text) if odd == 'integer' else '%d.%m.%Y'}'"
        )


def _likely_format(digits: str) -> str:
    """Return the format that a whole number in the place of a date probably has."""
    return {4: "%Y", 8: "%Y%m%d"}.get(len(digits), EXCEL)


def _shape(text: str) -> str:
    """Return of which form a text is: "iso", "first/", "last.", "integer" or "text"."""
    if _ISO.fullmatch(text):
        return "iso"
    for name, form in (("first", _YEAR_FIRST), ("last", _YEAR_LAST)):
        match = form.fullmatch(text)
        if match:
            return name + match["mark"]
    return "integer" if _INTEGER.fullmatch(text) else "text"


def _clock_pattern(clock: str | None) -> str:
    """Return the pattern of a time of day behind a date."""
    if clock is None:
        return ""
    parts = clock.count(":")
    fraction = ".%f" if "." in clock else ""
    return f"{clock[0]}%H:%M" + (f":%S{fraction}" if parts == 2 else "")


def asked_format(date_format: str, has_clock: bool = False) -> TimeFormat:
    """Return the format that a user named: "excel", or one in the notation of strftime.

    Parameters
    ----------
    date_format : str
    has_clock : bool
        Whether the time of day of serial numbers is wanted.

    Raises
    ------
    ValueError
        If the format has no year.
    """
    if date_format == EXCEL:
        return TimeFormat("excel", has_clock=has_clock)
    if _YEAR_DIRECTIVES.search(date_format) is None:
        raise ValueError(
            f"date_format must say where the year is, such as '%d.%m.%Y', got {date_format!r}: "
            "without it every date would be one of 1900"
        )
    return TimeFormat("pattern", date_format, bool(_CLOCK_DIRECTIVES.search(date_format)))
