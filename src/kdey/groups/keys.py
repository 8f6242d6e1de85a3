"""Which group a row belongs to: the key columns, times cut to periods, and the groups' numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Indices
from kdey.tables.layout import require

if TYPE_CHECKING:
    from kdey.tables.layout import Frame, Series

#: Unit -> NumPy's unit and how many of them.
_UNITS = {
    "s": ("s", 1),
    "m": ("m", 1),
    "h": ("h", 1),
    "d": ("D", 1),
    "w": ("D", 7),
    "mo": ("M", 1),
    "q": ("M", 3),
    "y": ("Y", 1),
}
#: Rough length of each unit in seconds.
_SECONDS = {
    **{"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800},
    **{"mo": 2_629_746, "q": 7_889_238, "y": 31_556_952},
}
#: Years. The start of a longer period could lie outside the dates that there are.
_LONGEST_PERIOD = 1_000
#: Weeks begin on Mondays; the first day that NumPy counts from was a Thursday.
_MONDAY = np.datetime64("1970-01-05", "D")


def truncate(times: NDArray[Any], every: str) -> NDArray[np.datetime64]:
    """Return the start of the period that each instant lies in, as datetime64[us].

    Parameters
    ----------
    times : datetime64 array of shape (m,)
        NaT stays NaT.
    every : str
        A number and a unit: ``"1d"``, ``"1w"`` (from Monday), ``"1mo"``, ``"1q"``, ``"1y"``,
        ``"6h"``, ``"15m"``, ``"30s"``. Several units are counted from 1970.
    """
    count, unit = parse_period(every)
    name, length = _UNITS[unit]
    length *= count
    origin: Any = _MONDAY if unit == "w" else np.zeros((), f"datetime64[{name}]")
    # As a number NaT is the smallest of all and would overflow: the origin stands in for it.
    missing = np.isnat(times)
    whole = np.where(missing, origin, times.astype(f"datetime64[{name}]"))
    steps = (whole - origin).astype(np.int64)
    starts = origin + (steps - steps % length).astype(f"timedelta64[{name}]")
    out = starts.astype("datetime64[us]")
    out[missing] = np.datetime64("NaT", "us")
    return np.asarray(out)


def parse_period(every: str) -> tuple[int, str]:
    """Return the number and the unit of a period such as "2w"."""
    match = re.fullmatch(r"(\d*)(s|m|h|d|w|mo|q|y)", str(every))
    # Python reads no number of thousands of digits; the first of them are enough to refuse it.
    count = int(match[1][:20] or 1) if match else 0
    if match is None or count < 1:
        raise ValueError(
            f"every must be a number and one of s, m, h, d, w, mo, q, y, such as '1w'; "
            f"got {every!r:.60}"
        )
    if count * _SECONDS[match[2]] > _LONGEST_PERIOD * _SECONDS["y"]:
        raise ValueError(f"every must be at most {_LONGEST_PERIOD} years, got {every!r:.60}")
    return count, match[2]


@dataclass(frozen=True)
class Grouping:
    """Which columns make the groups.

    Attributes
    ----------
    by : names of key columns
    time : name of a column of dates or instants that is one more, last key; optional
    every : period that instants are cut down to, such as "1w"; optional
    """

    by: tuple[str, ...] = ()
    time: str | None = None
    every: str | None = None

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise ValueError(f"by names a column twice: {', '.join(self.names)}")
        if self.every is not None:
            parse_period(self.every)
            if self.time is None:
                raise ValueError("every needs time, the column of dates that it cuts down")

    @classmethod
    def of(
        cls, by: str | Sequence[str] = (), time: str | None = None, every: str | None = None
    ) -> Grouping:
        """Return the grouping by one key column, or by several."""
        if not isinstance(by, Sequence):
            raise TypeError(f"by must be the name of a column, or a list of them, got {by!r}")
        return cls((by,) if isinstance(by, str) else tuple(by), time, every)

    @property
    def names(self) -> tuple[str, ...]:
        """The key columns."""
        return self.by if self.time is None else (*self.by, self.time)

    def keys(self, frame: Frame) -> Frame:
        """Return the key columns of a frame, times cut down to their periods."""
        require(frame, self.names, "key column")
        keys = frame.select(self.names)
        if self.time is None or self.every is None:
            return keys
        return keys.with_columns(_cut_down(keys[self.time], self.every))

    def encode(self, frame: Frame, keys: GroupKeys) -> NDArray[np.int32]:
        """Return the number of each row's group, shape (m,)."""
        columns = self.keys(frame)
        return keys.encode([columns[name].to_list() for name in self.names], len(frame))


def _cut_down(times: Series, every: str) -> Series:
    """Return a column of instants at the start of their periods."""
    import narwhals as nw

    if times.dtype not in (nw.Datetime, nw.Date):
        raise ValueError(
            f"time column {times.name!r} must hold dates or times, but holds values of type "
            f"{times.dtype}"
        )
    if times.dtype == nw.Datetime:
        times = times.dt.replace_time_zone(None)  # periods are those of the local clock
    # pandas gives datetime64 by itself, the others lists of instants.
    starts = truncate(np.array(times.to_list(), dtype="datetime64[us]"), every)
    column: Series = nw.new_series(times.name, starts, backend=times.implementation)
    return column.cast(nw.Date) if times.dtype == nw.Date else column


@dataclass(frozen=True)
class GroupKeys:
    """The combinations of key values seen so far, numbered in the order in which they came.

    Attributes
    ----------
    names : names of the key columns; without any, everything is one group
    """

    names: tuple[str, ...]
    _codes: dict[Any, int] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._codes)

    def encode(self, columns: Sequence[Sequence[Any]], n_rows: int) -> NDArray[np.int32]:
        """Return the number of each row's group, shape (n_rows,).

        Parameters
        ----------
        columns : one sequence of ``n_rows`` plain values per key
            None, NaN and NaT are one value: missing.
        n_rows : int
        """
        if not columns:
            self._number(())
            return np.zeros(n_rows, dtype=np.int32)
        single = len(columns) == 1
        combined = columns[0] if single else list(zip(*columns, strict=True))
        # Work in Python is done once per distinct key of the batch, not once per row.
        number = {
            key: self._number(_plain(key) if single else tuple(map(_plain, key)))
            for key in dict.fromkeys(combined)
        }
        return np.fromiter(map(number.__getitem__, combined), np.int32, count=n_rows)

    def _number(self, key: Any) -> int:
        return self._codes.setdefault(key, len(self._codes))

    @property
    def values(self) -> list[tuple[Any, ...]]:
        """Key values of every group, in the order of their numbers."""
        if len(self.names) == 1:
            return [(key,) for key in self._codes]
        return list(self._codes)

    def order(self) -> Indices:
        """Return the groups sorted by their keys, the first key slowest, missing keys last."""
        values = self.values
        columns = [_ranks([key[i] for key in values]) for i in range(len(self.names))]
        ranked = sorted(range(len(values)), key=lambda g: tuple(column[g] for column in columns))
        return np.array(ranked, dtype=np.int64)


def _plain(value: Any) -> Any:
    # What is missing differs from itself (NaN, NaT) or refuses to be compared (pandas' NA).
    return value if value is not None and _equals_itself(value) else None


def _equals_itself(value: Any) -> bool:
    try:
        return bool(value == value)
    except TypeError:
        return False


def _ranks(values: list[Any]) -> list[int]:
    """Return the rank of each value among the distinct ones; None ranks last."""
    known = {value for value in values if value is not None}
    try:
        ordered = sorted(known)
    except TypeError:  # of several types: the texts decide
        ordered = sorted(known, key=lambda value: (type(value).__name__, str(value)))
    rank = {value: number for number, value in enumerate(ordered)}
    return [len(rank) if value is None else rank[value] for value in values]
