"""What is asked for: which columns make the groups, and how they are estimated and judged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Indices
from kdey.intervals.display import check_key_names
from kdey.intervals.merging import Merging
from kdey.options import HOLM, LABELLED_NOISE, OF_TABLES, Options
from kdey.tables import canonical_column, canonical_text, is_missing_value, is_text, require
from kdey.tables.dialect import EXCEL, TimeFormat, TimeFormatFinder, asked_format, integer_series
from kdey.validation import is_number

if TYPE_CHECKING:
    from kdey.tables import Frame, Series


#: Unit -> NumPy's unit, how many of them, and its rough length in seconds.
_UNITS = {
    "s": ("s", 1, 1),
    "m": ("m", 1, 60),
    "h": ("h", 1, 3_600),
    "d": ("D", 1, 86_400),
    "w": ("D", 7, 604_800),
    "mo": ("M", 1, 2_629_746),
    "q": ("M", 3, 7_889_238),
    "y": ("Y", 1, 31_556_952),
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
    name, length, _ = _UNITS[unit]
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
    if count * _UNITS[match[2]][2] > _LONGEST_PERIOD * _UNITS["y"][2]:
        raise ValueError(f"every must be at most {_LONGEST_PERIOD} years, got {every!r:.60}")
    return count, match[2]


def period_seconds(every: str) -> float:
    """Return about how long a period is, in seconds."""
    count, unit = parse_period(every)
    return float(count * _UNITS[unit][2])


@dataclass(frozen=True)
class Request:
    """What a caller of :func:`~kdey.predict_groups` asks for, checked.

    Attributes
    ----------
    by : names of key columns
    time : name of a column of dates or instants that is one more, last key; or None
    every : str or None
        Period that instants are cut down to, such as "1w".
    scores : names of score columns, or None
        None: the features, or the score columns that the quantifier was fitted on.
    weights : str or None
        Column of sampling weights.
    clusters : str or None
        Column with ids of the clusters in which rows were drawn.
    labelled : str or None
        Column with labels of some rows of each group; the cells of other rows are empty.
    merge : mapping from new label to classes, or None
        Groups of classes whose shares are wanted, in this order; see :meth:`kdey.Estimate.merge`.
    shrink : bool or str
        Whether groups borrow from all of the table; the name of a key column: from those with the
        same value of it, and these on all.
    smooth : bool
        Whether periods borrow from their neighbours in time.
    options : Options
    label : str or None
        Column of known labels, which is no feature; where a table has it, its labels are counted.
    time_format : TimeFormat or None
        How the whole column writes its times, once that is known; see :meth:`with_time_format`.
    """

    by: tuple[str, ...] = ()
    time: str | None = None
    every: str | None = None
    scores: Sequence[str] | None = None
    weights: str | None = None
    clusters: str | None = None
    labelled: str | None = None
    merge: Mapping[Any, Any] | None = None
    shrink: bool | str = False
    smooth: bool = False
    options: Options = field(default_factory=Options)
    label: str | None = None
    time_format: TimeFormat | None = None

    @classmethod
    def of(
        cls,
        by: str | Sequence[str] = (),
        *,
        confidence: float = 0.95,
        correction: str | None = HOLM,
        options: Options | None = None,
        **asked: Any,
    ) -> Request:
        """Return the request made by the keywords of :func:`~kdey.predict_groups`.

        Options stand where a keyword has its default.
        """
        if not isinstance(by, Sequence):
            raise TypeError(f"by must be the name of a column, or a list of them, got {by!r}")
        known = Options() if options is None else options
        if not isinstance(known, Options):
            raise TypeError(f"options must be kdey.Options(...), got {options!r}")
        # What cannot be compared with a default, such as an array, is refused by the options.
        if not (is_number(confidence) and confidence == Options.confidence):
            known = replace(known, confidence=confidence)
        if not (isinstance(correction, str) and correction == Options.correction):
            known = replace(known, correction=correction)
        asked |= {name: getattr(known, name) for name in OF_TABLES if asked.get(name) is None}
        known = replace(known, scores=None, weights=None, clusters=None, merge=None, labelled=None)
        return cls((by,) if isinstance(by, str) else tuple(by), options=known, **asked)

    def __post_init__(self) -> None:
        self._check_keys()
        self._check_pooling()
        self._check_design()
        check_key_names(self.names, labelled=self.labelled is not None, pooled=self.is_pooled)

    @property
    def names(self) -> tuple[str, ...]:
        """The key columns."""
        return self.by if self.time is None else (*self.by, self.time)

    @property
    def is_pooled(self) -> bool:
        """Whether groups borrow from one another."""
        return bool(self.shrink) or self.smooth

    @property
    def design_columns(self) -> tuple[str, ...]:
        """The columns that say how rows were drawn and which have labels; they are no features."""
        options = self.options
        columns = [self.labelled, options.selection, self.weights, self.clusters, options.strata]
        columns += [
            name for name in (options.variance_strata, options.fpc) if isinstance(name, str)
        ]
        return tuple(dict.fromkeys(name for name in columns if name is not None))

    @property
    def no_features(self) -> tuple[str, ...]:
        """All columns that have another role than that of a feature."""
        named = (name for name in (self.options.key, self.label) if name is not None)
        return tuple(dict.fromkeys((*self.names, *named, *self.design_columns)))

    @cached_property
    def stratum_shares(self) -> dict[str, float] | None:
        """The shares of strata, summing to one, by canonical text; None if they are unknown."""
        shares = self.options.stratum_shares
        if shares is None:
            return None
        total = float(sum(shares.values()))
        return {canonical_text(name): share / total for name, share in shares.items()}

    def merging(self, classes: NDArray[Any]) -> Merging:
        """Return the groups of classes that are shown; every class by itself by default."""
        return Merging.asked(self.merge, classes, self.options)

    @property
    def pattern(self) -> str:
        """How dates are written, in the notation of strftime; "auto": not said, and not found."""
        found = "" if self.time_format is None else self.time_format.pattern
        return self.options.date_format if self.options.date_format != "auto" else found or "auto"

    def with_time_format(self, frames: Iterable[Frame], first: int = 1) -> Request:
        """Return the request that knows how the column of times is written.

        Parameters
        ----------
        frames : all frames of the table
            Not looked at where the user said the format, or there is no time.
        first : int
            Number of the first frame's first row, for messages.
        """
        if self.time is None or self.options.date_format != "auto":
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
        for name, kind in (self.options.key_types or {}).items():
            keys = keys.with_columns(_in_type(keys[name], kind, first))
        if self.time is None:
            return keys
        times = self._times(keys[self.time], first)
        return keys.with_columns(times if self.every is None else _cut_down(times, self.every))

    def _times(self, column: Series, first: int) -> Series:
        """Return the column of times, dates that are written as text as dates."""
        if not is_text(column) and not (
            self.options.date_format == EXCEL and column.dtype.is_numeric()
        ):
            return column
        if self.options.date_format != "auto":
            by_clock = self.every is not None and parse_period(self.every)[1] in "smh"
            return asked_format(self.options.date_format, by_clock).read(column, first)
        if self.time_format is not None:
            return self.time_format.read(column, first)
        # A part of a table: what it shows of the order of day and month need not hold for others.
        return column if self.every is None else TimeFormat().read(column, first)

    def _check_keys(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise ValueError(f"by names a column twice: {', '.join(self.names)}")
        if self.every is not None:
            parse_period(self.every)
            if self.time is None:
                raise ValueError("every needs time, the column of dates that it cuts down")
        for name, kind in (self.options.key_types or {}).items():
            if name not in self.by:
                raise ValueError(f"key types name {name!r}, which is no key: name it, too (by=)")
            if kind not in KEY_TYPES:
                raise ValueError(
                    f"the type of key {name!r} must be 'integer' or 'text', got {kind!r}"
                )

    def _check_pooling(self) -> None:
        shrink: Any = self.shrink
        smooth: Any = self.smooth
        names = self.names
        if not isinstance(shrink, bool | str) or shrink == "":
            raise ValueError(f"shrink must be True, False or the name of a key, got {shrink!r}")
        if not isinstance(smooth, bool):
            raise ValueError(f"smooth must be True or False, got {smooth!r}")
        if shrink and smooth:
            raise ValueError(
                "shrink pools groups and smooth pools neighbouring periods: choose one of them"
            )
        if smooth and self.time is None:
            raise ValueError("smooth needs time, the column of dates that orders the periods")
        if smooth and self.options.target != "population":
            raise ValueError("smooth estimates populations: leave target='bag' out")
        if shrink and not names:
            raise ValueError("shrink needs groups: name a key column (by=)")
        if isinstance(shrink, str) and shrink not in names:
            raise ValueError(f"shrink names {shrink!r}, which is no key: name it, too (by=)")
        if isinstance(shrink, str) and len(names) < 2:
            raise ValueError(
                f"shrink={shrink!r} needs another key: groups with the same value of it lean "
                "on each other"
            )
        has_noise = self.options.has_label_noise
        if self.is_pooled and (self.design_columns or self.merge is not None or has_noise):
            raise ValueError(
                "shrink and smooth take plain rows: leave labels, weights, clusters, strata, merge "
                "and label noise out, or estimate the groups by themselves"
            )

    def _check_design(self) -> None:
        options = self.options
        if options.stratum_shares is not None:
            if options.strata is None:
                raise ValueError("shares of strata need the column of the strata (strata=)")
            for name, share in options.stratum_shares.items():
                if not 0.0 < float(share) < np.inf:
                    raise ValueError(f"the share of stratum {name!r} must be positive, got {share}")
            if len({canonical_text(n) for n in options.stratum_shares}) < len(
                options.stratum_shares
            ):
                raise ValueError("stratum_shares names a stratum twice, in two spellings")
        if options.selection is not None and self.labelled is None:
            raise ValueError(
                "selection says how labelled rows were chosen: name the column of labels "
                "(labelled=)"
            )
        if self.labelled is not None and options.strata is not None:
            raise ValueError(
                "labelled and strata cannot be used together: make the strata groups of their own "
                "(by=), or leave one of the two out"
            )
        if not (options.variance_strata is None or isinstance(options.variance_strata, str)):
            raise ValueError(
                "variance_strata must name the column of strata of a table; ids are for single bags"
            )
        if options.variance_strata is not None and options.strata:
            raise ValueError(
                "variance_strata is for rows that are estimated together: leave it out, or leave "
                "strata out"
            )
        if self.labelled is not None and options.has_label_noise:
            raise ValueError(LABELLED_NOISE)
        for name in self.design_columns:
            # Strata may have templates of their own, also where they are the groups.
            if name in self.names and name != options.strata:
                raise ValueError(f"column {name!r} is a key of the groups: it cannot be both")


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
                f"{row} has {text[:40]!r}: take it as text "
                f"(key_types={ {str(column.name): 'text'} })"
            )
    return integer_series(column, [number_of[text] for text in texts])


def _whole_number(text: str) -> int | None:
    stripped = text.strip()
    return int(stripped) if re.fullmatch(r"[+-]?\d{1,18}", stripped, re.ASCII) else None


def _cut_down(times: Series, every: str) -> Series:
    """Return a column of instants at the start of their periods."""
    import narwhals as nw

    if times.dtype not in (nw.Datetime, nw.Date):
        cure = f": say date_format='{EXCEL}' if they are serial numbers of dates"
        raise ValueError(
            f"time column {times.name!r} must hold dates or times, but holds values of type "
            f"{times.dtype}{cure if times.dtype.is_numeric() else ''}"
        )
    if times.dtype == nw.Datetime:
        times = times.dt.replace_time_zone(None)  # periods are those of the local clock
    # NumPy takes None for a missing instant, but not every NaT of pandas.
    instants = np.array(
        [None if is_missing_value(value) else value for value in times.to_list()],
        dtype="datetime64[us]",
    )
    if parse_period(every)[1] == "m":
        _refuse_minutes_of_days(instants, times.name, every)
    starts = truncate(instants, every)
    column: Series = nw.new_series(times.name, starts, backend=times.implementation)
    return column.cast(nw.Date) if times.dtype == nw.Date else column


def _refuse_minutes_of_days(instants: NDArray[Any], name: str, every: str) -> None:
    """Raise where minutes are asked for of several days without a time of day: months are meant."""
    known = instants[~np.isnat(instants)]
    days = known.astype("datetime64[D]")
    if len(np.unique(days)) > 1 and (days == known).all():
        raise ValueError(
            f"every={every!r} means minutes, but column {name!r} holds days: say "
            f"'{every[:-1] or 1}mo' for months, or '1d'"
        )
