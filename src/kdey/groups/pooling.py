"""Groups that borrow strength: from the other groups of a table, or from neighbouring periods.

Separate estimates of small groups are noisy. With ``shrink`` the groups of a table share a
distribution, which is learnt with them (``kdey.bayes.pooling``); with ``smooth`` the periods of a
series follow a random walk (``kdey.bayes.random_walk``). The pooled estimates and limits take the
place of the separate ones, which stand beside them in columns of their own.

Both need the posteriors of all rows in this process, k numbers per row, for as long as they work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Indices, offsets_of
from kdey.bayes.pooling import MOST_BYTES, GroupDraws, GroupTree, TemplateDraws, shrink_groups
from kdey.bayes.random_walk import PeriodTree, smooth_periods
from kdey.groups.request import Grouping, Request, period_numbers, period_starts
from kdey.groups.table import GroupKeys, ScoredTable, key_texts
from kdey.intervals import Estimates
from kdey.intervals.estimate import no_uncertainty
from kdey.model import Fitted, place_of
from kdey.status import ALIKE, EMPTY, NOT_CONVERGED, join_status, status_parts

if TYPE_CHECKING:
    from kdey.tables.columns import Frame


#: Periods without data that a table may get rows for.
MOST_ADDED = 10_000


def check_pooling(fitted: Fitted, request: Request) -> None:
    """Raise ValueError if the groups of a quantifier cannot be pooled as the request asks for."""
    if not request.is_pooled:
        return
    try:
        TemplateDraws.of(fitted)
    except TypeError as error:
        raise ValueError(f"groups cannot be pooled (shrink, smooth): {error}") from error


def check_size(n_bytes: float) -> None:
    """Raise ValueError if the scores of all rows take more memory than pooling may."""
    if n_bytes > MOST_BYTES:
        raise ValueError(
            f"pooling needs the posteriors of all rows in one process, more than the "
            f"{MOST_BYTES / 2**30:.0f} GiB that are allowed: pool fewer groups at a time"
        )


def pool_groups(
    quantifier: Fitted, table: ScoredTable, request: Request, separate: Estimates
) -> Estimates:
    """Return the pooled estimates of groups; as they are if nothing is asked for.

    Parameters
    ----------
    quantifier : fitted quantifier, or its model
    table : ScoredTable
        Its keys get the periods without data that are added.
    request : Request
    separate : Estimates
        Of all groups by their numbers, with keys.
    """
    if not request.is_pooled:
        return separate
    assert table.rows.on_posteriors, "methods on features are refused"
    if request.smooth and request.grouping.every is not None:
        key_rows = add_missing_periods(table.keys, table.key_rows, request.grouping)
        separate = with_empty(separate, len(table.keys) - len(separate), key_rows)
    if not (separate.size > 0).any():
        return separate
    templates = TemplateDraws.of(quantifier, place_of(quantifier).n_threads)
    if request.smooth:
        return _smoothed(templates, table, request, separate)
    return _shrunk(templates, table, request, separate)


def with_empty(estimates: Estimates, n: int, key_rows: Frame) -> Estimates:
    """Return estimates of groups with n more behind the others, which are empty."""
    made = estimates.take(np.concatenate([np.arange(len(estimates)), np.zeros(n, dtype=np.int64)]))
    empty = np.arange(len(estimates), len(made))
    for name in ("estimate", "low", "high", "counted", "gap", "fit_p_value"):
        values: Array = getattr(made, name)
        values[empty] = np.nan
    for name in ("size", "n_missing", "effective_size"):
        getattr(made, name)[empty] = 0
    return replace(
        made,
        keys=key_rows,
        statuses=[*estimates.status, *[EMPTY] * n],
        notes=[*estimates.notes, *([] for _ in range(n))],
    )


def _shrunk(
    templates: TemplateDraws, table: ScoredTable, request: Request, separate: Estimates
) -> Estimates:
    """Return estimates that lean on the other groups."""
    sizes = separate.size
    # In the order of the keys, so that draws do not depend on that of the rows.
    groups = np.array([g for g in table.keys.order() if sizes[g] > 0], dtype=np.int64)
    drawn = shrink_groups(
        templates,
        table.rows.points,
        GroupTree.of(sizes[groups], _parents(table.keys, request.shrink, groups)),
        positions=_positions(table, groups, sizes),
        random_state=request.options.random_state,
        n_threads=templates.n_threads,
    )
    shrinkage = np.full(len(separate), np.nan)
    shrinkage[groups] = drawn.shrinkage
    words = () if drawn.told_apart else (ALIKE,)
    return replace(_filled(request, separate, groups, drawn, words), shrinkage=shrinkage)


def _smoothed(
    templates: TemplateDraws, table: ScoredTable, request: Request, separate: Estimates
) -> Estimates:
    """Return estimates that lean on neighbouring periods."""
    sizes, groups = separate.size, table.keys.order()
    series, times = series_and_times(table.keys, request.grouping)
    drawn = smooth_periods(
        templates,
        table.rows.points,
        PeriodTree(offsets_of(sizes[groups]), series[groups], times[groups]),
        positions=_positions(table, groups, sizes),
        random_state=request.options.random_state,
        n_threads=templates.n_threads,
    )
    return _filled(request, separate, groups, drawn, ())


def _positions(table: ScoredTable, groups: Indices, sizes: Indices) -> Indices:
    """Return the positions of the rows, group after group."""
    order, ends = table.rows.canonical_order(), np.cumsum(sizes)
    return np.concatenate([order[ends[g] - sizes[g] : ends[g]] for g in groups])


def _parents(keys: GroupKeys, column: bool | str, groups: Indices) -> Indices | None:
    """Return the number of the value that each group has in a key column; None without one."""
    if not isinstance(column, str):
        return None
    at, values = keys.names.index(column), keys.values
    texts = [key_texts((values[g][at],)) for g in groups]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return np.array([numbers[text] for text in texts], dtype=np.int64)


def _filled(
    request: Request,
    separate: Estimates,
    groups: Indices,
    drawn: GroupDraws,
    words: tuple[str, ...],
) -> Estimates:
    """Return pooled numbers, and the separate ones beside them."""
    options = request.options
    low, high = drawn.interval(options.tail(len(separate.classes)), options.target)

    def spread(numbers: Array) -> Array:
        out = np.full(separate.estimate.shape, np.nan)
        out[groups] = numbers
        return out

    words = words if drawn.converged else (*words, NOT_CONVERGED)
    status = [join_status(dict.fromkeys([*status_parts(s), *words])) for s in separate.status]
    return replace(
        separate,
        estimate=spread(drawn.estimate(options.target)),
        low=spread(low),
        high=spread(high),
        statuses=status,
        uncertainty_of=no_uncertainty(len(separate.classes)),
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
        "(every='1w'), so that they are read as dates"
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
