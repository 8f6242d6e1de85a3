"""Groups that borrow strength: from the other groups of a table, or from neighbouring periods.

Separate estimates of small groups are noisy. With ``shrink`` the groups of a table share a
distribution, which is learnt with them (``kdey.bayes.shrinkage``); with ``smooth`` the periods of a
series follow a random walk (``kdey.bayes.random_walk``). The pooled estimates and limits take the
place of the separate ones, which stand beside them in columns of their own.

Both need the posteriors of all rows in this process, k numbers per row, for as long as they work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Indices, offsets_of
from kdey.bayes.hierarchy import GroupTree
from kdey.bayes.pooled_draws import MOST_BYTES, PooledDraws
from kdey.bayes.random_walk import PeriodTree, smooth_periods
from kdey.bayes.shrinkage import shrink_groups
from kdey.bayes.template_draws import TemplateDraws
from kdey.fitted import FittedQuantifier
from kdey.groups.answers import GroupAnswers, SeparateAnswers
from kdey.groups.keys import Grouping, GroupKeys, key_texts, period_numbers, period_starts
from kdey.groups.request import GroupRequest
from kdey.groups.scoring import Floats, GroupRows, ScoredRows
from kdey.status import ALIKE, NOT_CONVERGED, join_status, status_parts

if TYPE_CHECKING:
    from kdey.tables.columns import Frame

#: Periods without data that a table may get rows for.
MOST_ADDED = 10_000


def check_pooling(quantifier: FittedQuantifier, request: GroupRequest) -> None:
    """Raise ValueError if the groups of a quantifier cannot be pooled as the request asks for."""
    pooling = request.pooling
    if not pooling.is_asked:
        return
    try:
        TemplateDraws.of(quantifier)
    except TypeError as error:
        raise ValueError(f"groups cannot be pooled (shrink, smooth): {error}") from error


@dataclass(frozen=True, eq=False)
class GatheredRows:
    """Posteriors of rows with the numbers of their groups, brought together from partitions.

    Attributes
    ----------
    groups : int64 array of shape (m,)
    posteriors : array of shape (m, d)
    """

    groups: Indices
    posteriors: Floats

    def renumbered(self, numbers: Indices) -> GatheredRows:
        """Return the rows with other numbers for the groups: group g becomes ``numbers[g]``."""
        return GatheredRows(numbers[self.groups], self.posteriors)

    @staticmethod
    def merge(parts: Sequence[GatheredRows]) -> GatheredRows:
        """Return the rows of several parts, in which groups have the same numbers.

        Raises ValueError if they take more memory than pooling may.
        """
        size = sum(part.posteriors.nbytes for part in parts)
        if size > MOST_BYTES:
            raise ValueError(
                f"pooling needs the posteriors of all rows in one process, more than the "
                f"{MOST_BYTES / 2**30:.0f} GiB that are allowed: pool fewer groups at a time"
            )
        return GatheredRows(
            np.concatenate([part.groups for part in parts]),
            np.concatenate([part.posteriors for part in parts]),
        )


@dataclass(frozen=True, eq=False)
class PooledTable:
    """What a table has before it is pooled.

    Attributes
    ----------
    answers : GroupAnswers
        Separate answers of all groups.
    rows : ScoredRows or Instances
        The usable rows of the table.
    codes : int array of shape (m,)
        Number of the group of each.
    keys : GroupKeys
        Gets the periods without data that are added.
    key_rows : narwhals frame
        Keys of the groups, one row each; not used where the frame has other rows (files).
    """

    answers: GroupAnswers
    rows: GroupRows
    codes: NDArray[np.integer]
    keys: GroupKeys
    key_rows: Frame


def pool_answers(
    quantifier: FittedQuantifier, table: PooledTable, request: GroupRequest
) -> tuple[GroupAnswers, Frame]:
    """Return the pooled answers and the keys of the groups; as they are if nothing is asked for.

    Parameters
    ----------
    quantifier : fitted quantifier
    table : PooledTable
    request : GroupRequest
    """
    if not request.pooling.is_asked:
        return table.answers, table.key_rows
    check_pooling(quantifier, request)
    assert isinstance(table.rows, ScoredRows), "methods on features are refused"
    answers, key_rows = table.answers, table.key_rows
    if request.pooling.smooth and request.grouping.every is not None:
        key_rows = add_missing_periods(table.keys, key_rows, request.grouping)
        answers = answers.with_empty(len(table.keys) - len(answers))
    pool = _Pool(quantifier, table.rows.posteriors, table.codes, table.keys, request)
    return (pool.smoothed(answers) if request.pooling.smooth else pool.shrunk(answers)), key_rows


@dataclass(frozen=True, eq=False)
class _Pool:
    """The rows of a table, and how they are to be pooled."""

    quantifier: FittedQuantifier
    posteriors: Floats
    codes: NDArray[np.integer]
    keys: GroupKeys
    request: GroupRequest

    def shrunk(self, answers: GroupAnswers) -> GroupAnswers:
        """Return answers that lean on the other groups."""
        sizes = answers.sizes
        # In the order of the keys, so that draws do not depend on that of the rows.
        groups = np.array([g for g in self.keys.order() if sizes[g] > 0], dtype=np.int64)
        if not len(groups):
            return answers
        templates = TemplateDraws.of(self.quantifier)
        drawn = shrink_groups(
            templates,
            self.posteriors,
            GroupTree.of(sizes[groups], self._parents(groups)),
            positions=self._positions(groups, sizes),
            random_state=self.request.settings.options.random_state,
            n_threads=templates.model.n_threads,
        )
        shrinkage = np.full(len(answers), np.nan)
        shrinkage[groups] = drawn.shrinkage
        words = () if drawn.told_apart else (ALIKE,)
        return replace(self._filled(answers, groups, drawn, words), shrinkage=shrinkage)

    def smoothed(self, answers: GroupAnswers) -> GroupAnswers:
        """Return answers that lean on neighbouring periods."""
        groups = self.keys.order()
        if not (answers.sizes > 0).any():
            return answers
        series, times = series_and_times(self.keys, self.request.grouping)
        templates = TemplateDraws.of(self.quantifier)
        drawn = smooth_periods(
            templates,
            self.posteriors,
            PeriodTree(offsets_of(answers.sizes[groups]), series[groups], times[groups]),
            positions=self._positions(groups, answers.sizes),
            random_state=self.request.settings.options.random_state,
            n_threads=templates.model.n_threads,
        )
        return self._filled(answers, groups, drawn, ())

    def _positions(self, groups: Indices, sizes: Indices) -> Indices:
        """Return the positions of the rows, group after group."""
        order = np.argsort(self.codes, kind="stable")
        ends = np.cumsum(sizes)
        parts = [order[ends[g] - sizes[g] : ends[g]] for g in groups]
        return np.concatenate(parts).astype(np.int64)

    def _parents(self, groups: Indices) -> Indices | None:
        column = self.request.pooling.shrink
        if not isinstance(column, str):
            return None
        at = self.keys.names.index(column)
        values = self.keys.values
        texts = [key_texts((values[g][at],)) for g in groups]
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        return np.array([numbers[text] for text in texts], dtype=np.int64)

    def _filled(
        self, answers: GroupAnswers, groups: Indices, drawn: PooledDraws, words: tuple[str, ...]
    ) -> GroupAnswers:
        """Return the answers with pooled numbers, and the separate ones beside them."""
        options = self.request.settings.options
        low, high = drawn.limits(options.tail(len(answers.classes)), options.target)

        def spread(numbers: Array) -> Array:
            out = np.full(answers.estimate.shape, np.nan)
            out[groups] = numbers
            return out

        words = words if drawn.converged else (*words, NOT_CONVERGED)
        status = [
            join_status(dict.fromkeys([*status_parts(text), *words])) for text in answers.status
        ]
        separate = SeparateAnswers(answers.estimate, answers.low, answers.high)
        return replace(
            answers,
            estimate=spread(drawn.estimate(options.target)),
            low=spread(low),
            high=spread(high),
            status=status,
            separate=separate,
        )


def series_and_times(keys: GroupKeys, grouping: Grouping) -> tuple[Indices, Array]:
    """Return the series of each group, and its time in periods.

    Groups that share all keys but the time are a series; one without a time stands alone. Without
    ``every`` a period is the median distance of neighbouring times.
    """
    values = keys.values
    names = [
        (key_texts(value[:-1]), number if value[-1] is None else -1)
        for number, value in enumerate(values)
    ]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    series = np.array([numbers[name] for name in names], dtype=np.int64)
    instants = [value[-1] for value in values]
    if grouping.every is not None:
        return series, period_numbers(_as_times(instants), grouping.every).astype(np.float64)
    times = _as_numbers(instants)
    order = np.lexsort((times, series))
    steps = np.diff(times[order])[series[order][1:] == series[order][:-1]]
    return series, times / (np.median(steps) if len(steps) else 1.0)


def _as_times(values: Sequence[Any]) -> NDArray[np.datetime64]:
    """Return dates and times as an array; the origin stands in for a missing one."""
    plain = [datetime(1970, 1, 1) if value is None else _without_zone(value) for value in values]
    return np.array(plain, dtype="datetime64[us]")


def _without_zone(value: date) -> date:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def _as_numbers(values: Sequence[Any]) -> Array:
    """Return times as numbers, dates as days; zero stands in for a missing one."""
    present = [value for value in values if value is not None]
    if all(isinstance(value, date) for value in present):
        days = (_as_times(values) - np.datetime64("1970-01-01", "us")) / np.timedelta64(1, "D")
        return np.asarray(days, dtype=np.float64)
    if all(isinstance(value, int | float) for value in present):
        return np.array([0.0 if value is None else float(value) for value in values])
    raise ValueError(
        "smooth needs a time column of dates, times or numbers, but it holds texts: name a period "
        "(every='1w', --every 1w), so that they are read as dates"
    )


def add_missing_periods(keys: GroupKeys, key_rows: Frame, grouping: Grouping) -> Frame:
    """Add the periods between the first and the last of a series that have no data.

    Parameters
    ----------
    keys : GroupKeys
        Changed in place: it gets the new groups.
    key_rows : narwhals frame
        Keys of the groups in the order of their numbers.
    grouping : Grouping
        With a period, ``every``.

    Returns
    -------
    narwhals frame
        With one more row for each new group, if it had a row for each group.
    """
    assert grouping.every is not None, "without periods none is missing"
    series, times = series_and_times(keys, grouping)
    values = keys.values
    timed = np.array([value[-1] is not None for value in values], dtype=bool)
    models: list[int] = []  # a group of the series ...
    missing: list[int] = []  # ... and the number of its missing period
    for number in np.unique(series[timed]):
        members = np.flatnonzero(timed & (series == number))
        present = times[members].astype(np.int64)
        if int(present.max() - present.min()) + 1 - len(present) + len(missing) > MOST_ADDED:
            raise ValueError(
                f"more than {MOST_ADDED:,} periods of {grouping.every!r} have no data: name a "
                "longer period, or correct the dates that lie far from the others"
            )
        absent = np.setdiff1d(np.arange(present.min(), present.max()), present)
        models += [int(members[0])] * len(absent)
        missing += absent.tolist()
    if not missing:
        return key_rows
    starts = period_starts(np.array(missing, dtype=np.int64), grouping.every).tolist()
    is_date = not isinstance(values[models[0]][-1], datetime)
    instants = [start.date() if is_date else start for start in starts]
    keys.encode_values(
        [(*values[model][:-1], start) for model, start in zip(models, instants, strict=True)]
    )
    return _with_periods(key_rows, models, instants) if len(key_rows) == len(values) else key_rows


def _with_periods(key_rows: Frame, models: list[int], instants: list[Any]) -> Frame:
    import narwhals as nw

    name = key_rows.columns[-1]
    times = nw.new_series(name, instants, key_rows.schema[name], backend=key_rows.implementation)
    added = nw.maybe_reset_index(key_rows[models]).with_columns(times)
    return nw.concat([nw.maybe_reset_index(key_rows), added], how="vertical")
