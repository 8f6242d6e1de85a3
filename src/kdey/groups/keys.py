"""Which group a row belongs to: the key columns, times cut to periods, and the groups' numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Indices
from kdey.tables.columns import (
    canonical_column,
    canonical_text,
    check_same,
    is_missing_value,
    is_text,
    parse_number,
    plain_values,
    require,
    text_in_column,
    typed_tokens,
    value_tokens,
)
from kdey.tables.dates import TimeFormat, TimeFormatFinder, asked_format, integer_series

if TYPE_CHECKING:
    from kdey.tables.columns import Frame, Series

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
#: Types that a key may be turned into.
KEY_TYPES = ("integer", "text")
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
    # As a number NaT is the smallest of all and would overflow: the origin stands in for it.
    missing = np.isnat(times)
    present = np.where(missing, np.datetime64(0, "us"), times)
    out = period_starts(period_numbers(present, every), every)
    out[missing] = np.datetime64("NaT", "us")
    return out


def period_numbers(times: NDArray[Any], every: str) -> Indices:
    """Return the number of the period that each instant lies in, counted from 1970.

    Parameters
    ----------
    times : datetime64 array of shape (m,), without NaT
    every : str
        As for :func:`truncate`.
    """
    name, length, origin = _calendar(every)
    steps = (times.astype(f"datetime64[{name}]") - origin).astype(np.int64)
    return np.asarray(steps // length, dtype=np.int64)


def period_starts(numbers: Indices, every: str) -> NDArray[np.datetime64]:
    """Return the first instants of periods by their numbers, as datetime64[us]."""
    name, length, origin = _calendar(every)
    starts = origin + (numbers * length).astype(f"timedelta64[{name}]")
    return np.asarray(starts.astype("datetime64[us]"))


def _calendar(every: str) -> tuple[str, int, Any]:
    """Return NumPy's unit, the number of units in a period, and the start of period zero."""
    count, unit = parse_period(every)
    name, length = _UNITS[unit]
    origin: Any = _MONDAY if unit == "w" else np.zeros((), f"datetime64[{name}]")
    return name, length * count, origin


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
    date_format : str
        How dates are written where ``time`` is a column of texts, in the notation of strftime;
        "auto": ISO 8601, or as the column shows.
    types : mapping from key columns to {"integer", "text"}
        Keys that are turned into whole numbers, or into texts. By default they are what they are in
        the table: texts in a text file.
    time_format : TimeFormat or None
        How the whole column writes its times, once that is known; see :meth:`settled`.
    """

    by: tuple[str, ...] = ()
    time: str | None = None
    every: str | None = None
    date_format: str = "auto"
    types: Mapping[str, str] = field(default_factory=dict)
    time_format: TimeFormat | None = None

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise ValueError(f"by names a column twice: {', '.join(self.names)}")
        if self.every is not None:
            parse_period(self.every)
            if self.time is None:
                raise ValueError("every needs time, the column of dates that it cuts down")
        for name, kind in self.types.items():
            if name not in self.by:
                raise ValueError(
                    f"key types name {name!r}, which is no key: name it in by (--by) too"
                )
            if kind not in KEY_TYPES:
                raise ValueError(
                    f"the type of key {name!r} must be 'integer' or 'text', got {kind!r}"
                )

    @classmethod
    def of(
        cls,
        by: str | Sequence[str] = (),
        time: str | None = None,
        every: str | None = None,
        date_format: str = "auto",
        key_types: Mapping[str, str] | None = None,
    ) -> Grouping:
        """Return the grouping by one key column, or by several."""
        if not isinstance(by, Sequence):
            raise TypeError(f"by must be the name of a column, or a list of them, got {by!r}")
        names = (by,) if isinstance(by, str) else tuple(by)
        return cls(names, time, every, date_format, {} if key_types is None else key_types)

    @property
    def names(self) -> tuple[str, ...]:
        """The key columns."""
        return self.by if self.time is None else (*self.by, self.time)

    def settled(self, frames: Iterable[Frame], first: int = 1) -> Grouping:
        """Return the grouping that knows how the column of times is written.

        Parameters
        ----------
        frames : all frames of the table
            Not looked at where the user said the format, or there is no time.
        first : int
            Number of the first frame's first row, for messages.
        """
        if self.time is None or self.date_format != "auto":
            return self
        finder, row = TimeFormatFinder(self.time), first
        for frame in frames:
            require(frame, [self.time], "key column")
            column = frame[self.time]
            if not is_text(column):
                return self
            finder.look(map(_text_or_none, column.to_list()), row)
            row += len(frame)
        return replace(self, time_format=finder.found(self.every is not None))

    def keys(self, frame: Frame, first: int = 1) -> Frame:
        """Return the key columns of a frame, in their types, times cut down to their periods.

        Parameters
        ----------
        frame : narwhals frame
        first : int
            Number of the frame's first row, for messages.
        """
        require(frame, self.names, "key column")
        keys = frame.select(self.names)
        for name, kind in self.types.items():
            keys = keys.with_columns(_in_type(keys[name], kind, first))
        if self.time is None:
            return keys
        times = self._times(keys[self.time], first)
        return keys.with_columns(times if self.every is None else _cut_down(times, self.every))

    def _times(self, column: Series, first: int) -> Series:
        """Return the column of times, dates that are written as text as dates."""
        if not is_text(column):
            return column
        if self.date_format != "auto":
            return asked_format(self.date_format).read(column, first)
        if self.time_format is not None:
            return self.time_format.read(column, first)
        # A part of a table: what it shows of the order of day and month need not hold for others.
        return column if self.every is None else TimeFormat().read(column, first)

    def encode(self, frame: Frame, keys: GroupKeys) -> NDArray[np.int32]:
        """Return the number of each row's group, shape (m,)."""
        columns = self.keys(frame)
        return keys.encode([columns[name] for name in self.names], len(frame))


def _text_or_none(value: Any) -> str | None:
    return None if is_missing_value(value) else str(value)


def _in_type(column: Series, kind: str, first: int) -> Series:
    """Return a key column as whole numbers or as texts; missing keys stay missing."""
    import narwhals as nw

    texts = canonical_column(column)
    if kind == "text":
        values: list[Any] = [text or None for text in texts]
        return nw.new_series(column.name, values, nw.String(), backend=column.implementation)
    number_of = {text: _whole_number(text) for text in dict.fromkeys(texts.tolist())}
    for text, number in number_of.items():
        if text and number is None:
            row = first + texts.tolist().index(text)
            raise ValueError(
                f"key column {column.name!r} must hold whole numbers of at most 18 digits, but row "
                f"{row} has {text[:40]!r}: take it as text (--key-type {column.name}=text)"
            )
    return integer_series(column, [number_of[text] for text in texts])


def _whole_number(text: str) -> int | None:
    stripped = text.strip()
    return int(stripped) if re.fullmatch(r"[+-]?\d{1,18}", stripped, re.ASCII) else None


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
    # NumPy takes None for a missing instant, but not every NaT of pandas.
    instants = [None if is_missing_value(value) else value for value in times.to_list()]
    starts = truncate(np.array(instants, dtype="datetime64[us]"), every)
    column: Series = nw.new_series(times.name, starts, backend=times.implementation)
    return column.cast(nw.Date) if times.dtype == nw.Date else column


@dataclass(frozen=True)
class GroupKeys:
    """The combinations of key values seen so far, numbered in the order in which they came.

    Two rows are of one group where the canonical texts of their keys are the same
    (``kdey.tables.columns.canonical_text``), in whatever type they come.

    Attributes
    ----------
    names : names of the key columns; without any, everything is one group
    """

    names: tuple[str, ...]
    _codes: dict[tuple[str, ...], int] = field(default_factory=dict, repr=False)
    _values: list[tuple[Any, ...]] = field(default_factory=list, repr=False)
    #: For each column, the first value with each canonical text.
    _first: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    #: For each column whose type has an order, the rank of each text.
    _ranks: dict[str, dict[str, int]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._codes)

    def encode(self, columns: Sequence[Series | Sequence[Any]], n_rows: int) -> NDArray[np.int32]:
        """Return the number of each row's group, shape (n_rows,).

        Parameters
        ----------
        columns : one narwhals series, or sequence of ``n_rows`` plain values, per key
            None, NaN, NaT and empty texts are one value: missing.
        n_rows : int

        Raises
        ------
        ValueError
            If two different values of a column share a canonical text, naming both; or if a value
            has none.
        """
        if not columns:
            self._number((), ())
            return np.zeros(n_rows, dtype=np.int32)
        texts = [
            self._texts(name, column) for name, column in zip(self.names, columns, strict=True)
        ]
        combined = list(zip(*texts, strict=True))
        # Work in Python is done once per distinct key of the batch, not once per row.
        number = {
            key: self._number(key, self._first_values(key)) for key in dict.fromkeys(combined)
        }
        return np.fromiter(map(number.__getitem__, combined), np.int32, count=n_rows)

    def encode_values(self, values: Sequence[tuple[Any, ...]]) -> NDArray[np.int32]:
        """Return the numbers of groups by their key values, one tuple each."""
        columns: list[Sequence[Any]] = [[key[i] for key in values] for i in range(len(self.names))]
        return self.encode(columns, len(values))

    def _texts(self, name: str, column: Series | Sequence[Any]) -> list[str]:
        """Return the canonical text of each row, and keep the first value with each."""
        values, tokens = _values_and_tokens(column, name)
        first = self._first.setdefault(name, {})
        text_of: dict[Any, str] = {}
        for token, value in dict(zip(tokens, values, strict=True)).items():
            text = text_in_column(name, value)
            check_same(first.setdefault(text, value), value, name)
            text_of[token] = text
        ordered = _ordered_categories(column)
        if ordered is not None:
            known = self._ranks.setdefault(name, {})
            for text in ordered:
                known.setdefault(text, len(known))
        return [text_of[token] for token in tokens]

    def _first_values(self, key: tuple[str, ...]) -> tuple[Any, ...]:
        return tuple(
            self._first[name][text] if text else None
            for name, text in zip(self.names, key, strict=True)
        )

    def _number(self, key: tuple[str, ...], values: tuple[Any, ...]) -> int:
        code = self._codes.setdefault(key, len(self._codes))
        if code == len(self._values):
            self._values.append(values)
        return code

    @property
    def values(self) -> list[tuple[Any, ...]]:
        """Key values of every group, in the order of their numbers; None where one is missing."""
        return list(self._values)

    def order(self) -> Indices:
        """Return the groups sorted by their keys, the first key slowest, missing keys last.

        Keys whose type has an order (ordered categories) follow it; texts that are all numbers are
        sorted as numbers.
        """
        columns = [
            _ranks([value[i] for value in self._values], self._ranks.get(name))
            for i, name in enumerate(self.names)
        ]
        ranked = sorted(range(len(self)), key=lambda g: tuple(column[g] for column in columns))
        return np.array(ranked, dtype=np.int64)


def key_texts(values: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the canonical texts of the keys of a group, by which it is known everywhere."""
    return tuple(map(canonical_text, values))


def _values_and_tokens(column: Series | Sequence[Any], name: str) -> tuple[list[Any], list[Any]]:
    """Return the values of a column, and what tells them apart."""
    import narwhals as nw

    if isinstance(column, nw.Series):
        values = plain_values(column)
        return values, value_tokens(column, values)
    values = list(column)
    return values, typed_tokens(name, values)


def _ordered_categories(column: Series | Sequence[Any]) -> list[str] | None:
    """Return the texts of an ordered category in their order; None for other columns."""
    import narwhals as nw

    if not isinstance(column, nw.Series) or column.dtype not in (nw.Categorical, nw.Enum):
        return None
    # Narwhals tells neither for every library and version: the libraries are asked themselves.
    native: Any = column.to_native()
    categories: list[Any] = []
    if column.implementation.is_pandas_like():
        categories = native.cat.categories.tolist() if native.cat.ordered else []
    elif column.implementation.is_polars():
        categories = list(native.dtype.categories) if column.dtype == nw.Enum else []
    elif column.implementation.is_pyarrow() and native.type.ordered and native.num_chunks:
        categories = native.unify_dictionaries().chunk(0).dictionary.to_pylist()
    return [canonical_text(value) for value in categories] or None


def _ranks(values: list[Any], given: Mapping[str, int] | None) -> list[int]:
    """Return the rank of each value among the distinct ones; None ranks last.

    Parameters
    ----------
    values : list
    given : mapping from canonical texts to ranks, where the type has an order
    """
    known = {canonical_text(value): value for value in values if value is not None}
    if given is not None:
        ordered = sorted(known, key=lambda text: given.get(text, len(given)))
    else:
        ordered = _in_order(known)
    rank = {text: number for number, text in enumerate(ordered)}
    return [len(rank) if value is None else rank[canonical_text(value)] for value in values]


def _in_order(known: Mapping[str, Any]) -> list[str]:
    """Return texts in the order of their values, or as numbers where they all spell one."""
    spelt = {text: parse_number(text) for text, value in known.items() if isinstance(value, str)}
    numbers = {text: number for text, number in spelt.items() if number is not None}
    if len(numbers) == len(known) and all(map(math.isfinite, numbers.values())):
        return sorted(known, key=lambda text: (numbers[text], len(text), text))
    try:
        return sorted(known, key=lambda text: known[text])
    except TypeError:  # of several types: the texts decide
        return sorted(known, key=lambda text: (type(known[text]).__name__, text))
