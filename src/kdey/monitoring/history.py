"""The history: what is watched, and what was estimated of every period, in one Parquet file.

A history is changed by reading it, adding or removing periods, and replacing the file in one step
under a lock. Whoever is killed meanwhile leaves the file as it was or as it should be. Nothing else
is stored: alarms are computed from the history whenever they are needed (``alarms.py``), so that a
period that is sent twice, or taken back, leaves no trace.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import UTC, date, datetime
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from kdey._fingerprints import fingerprint
from kdey._io import locked, open_regular, write_whole
from kdey.bags import Array
from kdey.groups.request import parse_period, period_seconds, truncate
from kdey.validation import check_choice

#: Number of periods in which the chance of any false alarm is as stated.
HORIZON = 100
ABOVE, BELOW = "above", "below"
#: Kinds of alarms.
MOVED, BOUND, FIT, ACCURACY = "moved", "bound", "fit", "accuracy"


@dataclass(frozen=True)
class Bound:
    """A bound on the share of a class.

    Attributes
    ----------
    label : str
        The class, as text.
    side : {"above", "below"}
        On which side of the bound there is an alarm.
    share : float in (0, 1)
    """

    label: str
    side: str
    share: float

    def __post_init__(self) -> None:
        check_choice(self.side, "side", (ABOVE, BELOW))
        if not 0.0 < self.share < 1.0:
            raise ValueError(
                f"the bound of class {self.label!r} must lie strictly between 0 and 1, got "
                f"{self.share!r}"
            )

    def __str__(self) -> str:
        """Return the bound in words."""
        return f"{self.label} {self.side} {self.share:g}"


@dataclass(frozen=True)
class MonitorSettings:
    """What is watched in a history.

    The chance of a false alarm is divided equally between the kinds of alarms that are watched,
    and within a kind between classes or bounds.

    Attributes
    ----------
    false_alarms : float
        Chance of any false alarm within 100 periods, above 0 and at most 0.5.
    bounds : tuple of Bound
    fluctuation : float
        Standard deviation of the true shares from period to period that counts as ordinary. With
        0, any change of a share that can be seen is one.
    check_fit : bool
        Whether there is an alarm where the new data do not look like a mixture of the training
        classes.
    accuracy_below : float in (0, 1), optional
        A bound on the accuracy that the classifier is expected to have; see
        :func:`kdey.estimate_performance`. There is an alarm where it is below the bound.
    """

    false_alarms: float = 0.05
    bounds: tuple[Bound, ...] = ()
    fluctuation: float = 0.0
    check_fit: bool = True
    accuracy_below: float | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.false_alarms <= 0.5:
            raise ValueError(
                f"false_alarms must be above 0 and at most 0.5, got {self.false_alarms!r}"
            )
        if not 0.0 <= self.fluctuation < 0.5:
            raise ValueError(
                f"fluctuation must be at least 0 and below 0.5, got {self.fluctuation!r}"
            )
        if len(set(self.bounds)) != len(self.bounds):
            raise ValueError("a bound is named twice")
        if self.accuracy_below is not None and not 0.0 < self.accuracy_below < 1.0:
            raise ValueError(
                "the bound of the accuracy must lie strictly between 0 and 1, got "
                f"{self.accuracy_below!r}"
            )

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of alarms that are watched."""
        watched = {
            BOUND: bool(self.bounds),
            FIT: self.check_fit,
            ACCURACY: self.accuracy_below is not None,
        }
        return (MOVED, *(kind for kind, is_watched in watched.items() if is_watched))

    def chance(self, kind: str, n_streams: int = 1) -> float:
        """Return the chance of a false alarm within 100 periods of one stream of a kind."""
        return self.false_alarms / len(self.kinds) / n_streams

    def fit_levels(self, n_groups: int = 1) -> tuple[float, float]:
        """Return the fit p-values up to which an alarm rings: at once, and twice in a row.

        One group rings at once or never (the second is zero). The level of each of many groups is
        lower than the p-values that can be simulated, so that half of it is left to a second period
        in a row of the same group.
        """
        level = self.chance(FIT, n_groups) / HORIZON
        return (level, 0.0) if n_groups == 1 else (level / 2.0, math.sqrt(level / 2.0))

    def n_null(self, n_groups: int = 1) -> int:
        """Return the number of null bags of a fit check that can raise an alarm.

        A bag that is worse than all null bags in one of the two statistics of the check of scores
        has a p-value of up to two over the number of bags, and twice that where columns are
        checked, too.
        """
        return max(300, math.ceil(4.0 / max(self.fit_levels(n_groups))) - 1)

    def check_classes(self, labels: Sequence[str]) -> None:
        """Raise ValueError where a bound names no class."""
        for bound in self.bounds:
            if bound.label not in labels:
                raise ValueError(
                    f"no class {bound.label!r} to bound: the classes are {', '.join(labels)}"
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return {**asdict(self), "bounds": [astuple(bound) for bound in self.bounds]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MonitorSettings:
        """Return the settings from plain values."""
        return cls(**{**values, "bounds": tuple(Bound(*bound) for bound in values["bounds"])})

    def __str__(self) -> str:
        """Return the settings in words."""
        watched = "; ".join(map(str, self.bounds)) or "none"
        accuracy = self.accuracy_below
        return (
            f"false alarms {self.false_alarms:g}, bounds: {watched}, fluctuation "
            f"{self.fluctuation:g}, fit {'checked' if self.check_fit else 'not checked'}, accuracy "
            f"{'not watched' if accuracy is None else f'below {accuracy:g}'}"
        )


#: Name of the metadata of the file, and the version of its format.
_METADATA, FORMAT = b"kdey history", 3
#: Columns with one number per class, and those with one value per period of a group.
_PER_CLASS = (
    *("estimate", "low", "high", "classify_and_count", "share", "noise", "template_variance"),
)
_PER_PERIOD = (
    *("n", "n_missing", "effective_size", "fit_p_value", "accuracy", "accuracy_noise"),
    *("accuracy_template", "status", "model", "added", "data", "findings"),
)
#: Column with the draws of the template error of a class, as 32-bit floats.
_DRAWS = "template_draws"
#: Shares that differ by less are the same estimate, made again.
_SAME = 1e-6


class HistoryError(ValueError):
    """A history that cannot be read, or that does not fit what is to be added."""


@dataclass(frozen=True, eq=False)
class Period:
    """What was estimated of one period, of one group where there are groups.

    Attributes
    ----------
    name : str
        A whole number, or a date or time in ISO 8601; see :func:`period_name`.
    n, n_missing : int
        Instances that were used, and that were left out.
    effective_size : float
    estimate, low, high : arrays of shape (k,)
    classify_and_count : array of shape (k,)
        Share of the classifier's decisions; NaN where there is no classifier.
    share : array of shape (k,)
        The estimate before it was moved into the simplex, from which alarms are computed.
    noise : array of shape (k,)
        Variance that the classifier's mistakes add per instance.
    template_variance : array of shape (k,)
        Variance of the error that all periods of a model share.
    fit_p_value : float
        NaN where the fit was not checked.
    status : str
        In the words of :mod:`kdey.status`.
    model : str
        Fingerprint of the model.
    added : str
        When the period was added, in UTC.
    data : str
        Checksum of the rows that were used, in any order.
    group : str
        Empty where there are no groups.
    template_draws : array of shape (k, TEMPLATE_DRAWS), or (k, 0)
        The error that all periods share, in draws that all periods have in common; none where it is
        not known apart. Errors of comparisons are computed from it.
    accuracy : float
        The accuracy that the classifier is expected to have; NaN where it is not watched.
    accuracy_noise, accuracy_template : float
        The variance of the accuracy per instance, and that of the error that all periods share if
        the accuracy is at its bound.
    findings : str
        How the columns that do not fit differ; empty where all do.
    """

    name: str
    n: int
    n_missing: int
    effective_size: float
    estimate: Array
    low: Array
    high: Array
    classify_and_count: Array
    share: Array
    noise: Array
    template_variance: Array
    fit_p_value: float
    status: str
    model: str
    added: str
    data: str = ""
    group: str = ""
    template_draws: Array = field(default_factory=lambda: np.zeros((0, 0)))
    accuracy: float = math.nan
    accuracy_noise: float = math.nan
    accuracy_template: float = math.nan

    findings: str = ""

    @property
    def title(self) -> str:
        """The period, with its group where there are groups."""
        return f"{self.name}, {self.group}" if self.group else self.name

    def is_same(self, other: Period) -> bool:
        """Return whether two periods hold the same estimates of the same data."""
        names = ("name", "group", "n", "n_missing", "model", "data")
        if any(getattr(self, name) != getattr(other, name) for name in names):
            return False
        return bool(np.allclose(self.estimate, other.estimate, rtol=0.0, atol=_SAME))


@dataclass(frozen=True, eq=False)
class History:
    """All periods, ascending, and the groups of each of them by name.

    Attributes
    ----------
    classes : tuple of labels
        Integers or texts.
    training_prevalence : tuple of float
        Shares of the classes in the training data.
    settings : MonitorSettings
    periods : tuple of Period
    every : str or None
        Length of the periods, such as "1w"; None where it was never said.
    date_format : str
        How the dates of the last table were written, in the notation of strftime; "auto": ISO 8601,
        or as a column of dates.
    by : str or None
        The column of the groups; None where there are none.
    """

    classes: tuple[int | str, ...]
    training_prevalence: tuple[float, ...]
    settings: MonitorSettings
    periods: tuple[Period, ...] = ()
    every: str | None = None
    date_format: str = "auto"
    by: str | None = None

    def __post_init__(self) -> None:
        self.settings.check_classes(self.labels)

    def __len__(self) -> int:
        """Return the number of periods, each of which counts once whatever its groups."""
        return len(self.names)

    @property
    def labels(self) -> list[str]:
        """The classes as texts."""
        return [str(label) for label in self.classes]

    @property
    def names(self) -> list[str]:
        """The names of the periods."""
        return list(dict.fromkeys(period.name for period in self.periods))

    @property
    def groups(self) -> list[str]:
        """The groups, ascending; one without a name where there are none."""
        return sorted({period.group for period in self.periods}) or [""]

    def with_periods(self, periods: Iterable[Period], *, overwrite: bool = False) -> History:
        """Return the history with further periods.

        A period that is there already, with the same estimates of the same data, is left as it is.

        Parameters
        ----------
        periods : iterable of Period
        overwrite : bool
            Whether periods take the place of those that are there under the same names.

        Raises
        ------
        HistoryError
            If a period is there with other numbers, names of periods cannot be ordered, or a period
            does not begin one of the history's length.
        """
        kept = {(period.name, period.group): period for period in self.periods}
        for period in periods:
            known = kept.get((period.name, period.group))
            if known is not None and not overwrite:
                if known.is_same(period):
                    continue
                now = f"now {period.n:,}" if period.n != known.n else "as many as now, but others"
                raise HistoryError(
                    f"period {period.title} is in the history with other numbers ({known.n:,} "
                    f"instances, {now}): undo it first, or ask to replace it"
                )
            kept[period.name, period.group] = period
        ordered = sorted(kept.values(), key=lambda period: _place(period.name, period.group))
        if len({_order(period.name)[0] for period in ordered}) > 1:
            raise HistoryError(
                "the periods of a history must all be dates or all be whole numbers, got "
                f"{ordered[0].name} and {ordered[-1].name}"
            )
        made = replace(self, periods=tuple(ordered))
        made._check_lengths()
        return made

    def with_length(self, every: str) -> History:
        """Return the history of periods of a length; raises HistoryError if it has another one."""
        count, unit = parse_period(every)
        asked = f"{count}{unit}"
        if self.every not in (None, asked):
            raise HistoryError(
                f"the periods of the history have a length of {self.every}, not {asked}: leave "
                "the length as it was, or start a new history"
            )
        return replace(self, every=asked)

    def _check_lengths(self) -> None:
        """Raise HistoryError where a period does not begin one of the history's length."""
        if self.every is None or not self.periods or _order(self.names[0])[0] == 0:
            return
        names = self.names
        times = np.array(names, dtype="datetime64[us]")
        starts = truncate(times, self.every)
        if (starts != times).any():
            odd = int(np.argmax(starts != times))
            raise HistoryError(
                f"{names[odd]} does not begin a period of the history, whose length is "
                f"{self.every}: {_time_name(starts[odd].item())} does"
            )

    @property
    def gaps(self) -> list[tuple[str, str]]:
        """Neighbouring periods between which others are missing.

        The distance of periods is their length or, where it was never said, the usual one of at
        least three periods. Whole numbers of six digits are a year with a month or a week, and no
        count.
        """
        names = self.names
        if not names:
            return []
        if _order(names[0])[0] == 0:
            places, usual = np.array([float(name) for name in names]), 1.0
            if len(names[-1].lstrip("-")) == 6:
                return []
        else:
            places = np.array(names, dtype="datetime64[us]").astype(np.float64)
            usual = 0.0 if self.every is None else 1e6 * period_seconds(self.every)
        steps = np.diff(places)
        if not usual and len(steps) > 1:
            usual = float(np.median(steps))
        if not usual:
            return []
        return [(names[i], names[i + 1]) for i in np.flatnonzero(steps > 1.5 * usual).tolist()]

    def without(self, name: str) -> History:
        """Return the history without a period of all groups; raises HistoryError without one."""
        if name not in self.names:
            raise HistoryError(f"no period {name} in the history: it has {_listed(self.names)}")
        return replace(self, periods=tuple(p for p in self.periods if p.name != name))

    def table(self) -> Any:
        """Return the history as a pyarrow table with one row per period, group and class."""
        import pyarrow as pa

        k, periods = len(self.classes), self.periods
        columns: dict[str, Any] = {
            "period": [period.name for period in periods for _ in range(k)],
            "group": [period.group for period in periods for _ in range(k)],
            "class": list(self.classes) * len(periods),
        }
        for name in _PER_PERIOD:
            values = np.array([getattr(period, name) for period in periods])
            columns[name] = np.repeat(values, k)
        for name in _PER_CLASS:
            values = np.array([getattr(period, name) for period in periods], dtype=np.float64)
            columns[name] = values.ravel()
        none = np.zeros((k, 0))
        columns[_DRAWS] = [
            draws.astype("<f4").tobytes()
            for period in periods
            for draws in (period.template_draws if period.template_draws.size else none)
        ]
        types = {"period": pa.string(), "group": pa.string(), "class": _label_type(self.classes)}
        types[_DRAWS] = pa.binary()
        types |= {"n": pa.int64(), "n_missing": pa.int64()}
        types |= dict.fromkeys(("status", "model", "added", "data", "findings"), pa.string())
        arrays = {
            name: pa.array(values, types.get(name, pa.float64()))
            for name, values in columns.items()
        }
        about = {
            "format": FORMAT,
            "classes": list(self.classes),
            "training_prevalence": list(self.training_prevalence),
            "settings": self.settings.to_dict(),
            "periods": len(periods),
            "every": self.every,
            "date_format": self.date_format,
            "by": self.by,
        }
        table = pa.table(arrays)
        table = table.append_column("checksum", pa.array(_checksums(table), pa.string()))
        return table.replace_schema_metadata({_METADATA: json.dumps(about)})

    @classmethod
    def from_table(cls, table: Any) -> History:
        """Return the history that :meth:`table` gave; raises HistoryError if it is none."""
        about = (table.schema.metadata or {}).get(_METADATA)
        if about is None:
            raise HistoryError("it is not a history that kdey wrote")
        try:
            facts = json.loads(about)
            if facts["format"] != FORMAT:
                older = facts["format"] < FORMAT
                raise HistoryError(
                    f"it has format {facts['format']}, and this version of kdey reads {FORMAT}: "
                    + (
                        "it lacks what tells a moved class from the others, so start a new "
                        "history and send the periods again (the old file is as it was)"
                        if older
                        else "install a newer version of kdey"
                    )
                )
            history = cls(
                tuple(facts["classes"]),
                tuple(facts["training_prevalence"]),
                MonitorSettings.from_dict(facts["settings"]),
                every=facts["every"],
                date_format=facts["date_format"],
                by=facts["by"],
            )
            _check_rows(table, history.classes, facts["periods"])
            return replace(history, periods=_periods(table, len(history.classes)))
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise HistoryError(f"it is damaged ({type(error).__name__}: {error})") from error


def read_history(path: str | PathLike[str]) -> History:
    """Return the history in a file.

    Parameters
    ----------
    path : path-like
        A Parquet file that :func:`update_history` wrote.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    HistoryError
        If the file is not a history.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open_regular(path) as stream:
        try:
            return History.from_table(pq.read_table(stream))
        except (pa.ArrowException, HistoryError) as error:
            text = str(error).splitlines()[0]
            raise HistoryError(f"{path}: cannot be read as a history: {text}") from error


def update_history(
    path: str | PathLike[str], change: Callable[[History | None], History]
) -> History:
    """Change the history in a file, whole or not at all, while no other process does.

    Parameters
    ----------
    path : path-like
        Created if it does not exist. A file ``path.lock`` beside it serves as the lock.
    change : callable
        From the history, or None if there is no file, to the changed one.

    Returns
    -------
    History
        The changed one.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = Path(path)
    with locked(target):
        before = read_history(target) if target.exists() else None
        after = change(before)
        if before is None or _written(before) != _written(after):
            stream = pa.BufferOutputStream()
            pq.write_table(after.table(), stream)
            write_whole(target, stream.getvalue().to_pybytes())
    return after


def _written(history: History) -> tuple[Any, ...]:
    """Return what a file of the history holds and may change."""
    return history.periods, history.every, history.date_format


def period_name(value: Any) -> str:
    """Return the name of a period: a whole number, or a date or time in ISO 8601.

    Parameters
    ----------
    value : int, date, datetime, or text that spells one of these
        A midnight is a date; times with a time zone are turned into UTC.

    Raises
    ------
    ValueError
        If it is none of these.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        text = value.strip()
        value = int(text) if text.lstrip("-").isdecimal() else _instant(text)
    if isinstance(value, datetime):
        return _time_name(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"a period must be a whole number, a date or a time, got {value!r}")


def _time_name(value: datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    at_midnight = (value.hour, value.minute, value.second, value.microsecond) == (0, 0, 0, 0)
    return value.date().isoformat() if at_midnight else value.isoformat()


def _instant(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"a period must be a whole number or a date such as 2024-05-06, got {text!r}"
        ) from None


def _order(name: str) -> tuple[int, float, str]:
    """Return the sort key of a period: numbers by value, dates and times by text."""
    return (0, float(name), "") if name.lstrip("-").isdecimal() else (1, 0.0, name)


def _place(name: str, group: str) -> tuple[tuple[int, float, str], str]:
    """Return the sort key of a period of a group."""
    return _order(name), group


def _label_type(classes: Sequence[int | str]) -> Any:
    import pyarrow as pa

    return pa.int64() if all(isinstance(label, int) for label in classes) else pa.string()


def _checksums(table: Any) -> list[str]:
    """Return the checksum of each row."""
    names = ("period", "group", "class", *_PER_PERIOD, *_PER_CLASS, _DRAWS)
    columns = [table.column(name).to_pylist() for name in names]
    return [fingerprint(repr(row))[:16] for row in zip(*columns, strict=True)]


def _check_rows(table: Any, classes: Sequence[int | str], n_periods: int) -> None:
    """Raise HistoryError, with the row, unless all rows are there as they were written."""
    columns = (table.column(name).to_pylist() for name in ("period", "group"))
    k, names = len(classes), list(zip(*columns, strict=True))
    labels, written = table.column("class").to_pylist(), table.column("checksum").to_pylist()
    for row, computed in enumerate(_checksums(table)):
        period, group = names[row]
        title = f"{period}, group {group}" if group else period
        where = f"row {row + 1}, period {title}, class {labels[row]!r}"
        if computed != written[row]:
            raise HistoryError(f"{where}: was changed since kdey wrote it")
        first = row - row % k
        follows = first == 0 or _place(*names[first - 1]) < _place(*names[row])
        if labels[row] != classes[row % k] or names[row] != names[first] or not follows:
            raise HistoryError(
                f"{where}: is not where it belongs; the rows were sorted anew, or some of them "
                "are there twice or missing"
            )
    if table.num_rows % k:
        raise HistoryError("it is damaged: a period lacks a class")
    if table.num_rows != k * n_periods:
        raise HistoryError(f"it has {table.num_rows // k} periods of {n_periods} that were written")


def _periods(table: Any, k: int) -> tuple[Period, ...]:
    """Return the periods of a table, each of which has k consecutive rows."""
    columns = {name: table.column(name).to_pylist() for name in ("period", "group", *_PER_PERIOD)}
    draws = [np.frombuffer(row, dtype="<f4") for row in table.column(_DRAWS).to_pylist()]
    shares = {
        name: table.column(name).to_numpy().astype(np.float64).reshape(-1, k) for name in _PER_CLASS
    }
    return tuple(
        Period(
            columns["period"][i * k],
            group=columns["group"][i * k],
            template_draws=np.array(draws[i * k : (i + 1) * k]),
            **{name: columns[name][i * k] for name in _PER_PERIOD},
            **{name: values[i] for name, values in shares.items()},
        )
        for i in range(table.num_rows // k)
    )


def _listed(names: Sequence[str]) -> str:
    if len(names) <= 4:
        return ", ".join(names) or "none"
    return f"{len(names)}, from {names[0]} to {names[-1]}"
