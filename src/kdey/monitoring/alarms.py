"""The alarms of a history: computed from its periods alone, one stream after another.

A stream is a class that may have moved, or a bound. Each goes through the periods in their order.
After an alarm it starts afresh: with the periods after the change, which are the new normal, or,
for a bound, with the next period. Streams also start afresh where the model changes, because the
errors of two models differ. The fit is judged period by period, and a period that does not fit is
left out of all streams: its estimates mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kdey.bags import Array
from kdey.monitoring.history import History, Period
from kdey.monitoring.settings import ABOVE, BOUND, FIT, MOVED, Bound
from kdey.monitoring.windows import Series, beyond_signal, limit_of, moved_signal

#: Fields of an alarm that a table shows.
ALARM_COLUMNS = ("period", "kind", "class", "since", "before", "after", "statistic", "limit")


@dataclass(frozen=True)
class Alarm:
    """One alarm.

    Attributes
    ----------
    period : str
        The period at which it rings.
    kind : {"moved", "bound", "fit"}
    label : str
        The class; empty for the fit.
    since : str
        The first period of the new share, or beyond the bound, by the best estimate.
    before, after : float
        The share before and since; ``before`` is the bound if there is one. NaN for the fit.
    statistic, limit : float
        What was compared: a statistic with the limit that it exceeds or, for the fit, a p-value
        with the level that it does not exceed.
    """

    period: str
    kind: str
    label: str
    since: str
    before: float
    after: float
    statistic: float
    limit: float

    def __str__(self) -> str:
        """Return the alarm as a sentence."""
        if self.kind == FIT:
            return (
                f"{self.period}: the new data do not look like a mixture of the training classes "
                f"(p-value {self.statistic:.2g}), so the estimates may be wrong"
            )
        shares = f"{_percent(self.before)} to {_percent(self.after)}"
        if self.kind == MOVED:
            verb = "risen" if self.after > self.before else "fallen"
            return (
                f"{self.period}: the share of {self.label!r} has {verb} from {shares}, "
                f"since about {self.since}"
            )
        side = "above" if self.after > self.before else "below"
        return (
            f"{self.period}: the share of {self.label!r} is {side} the bound of "
            f"{_percent(self.before)}: {_percent(self.after)} since {self.since}"
        )

    def row(self) -> dict[str, str | float]:
        """Return the fields by the names of ``ALARM_COLUMNS``."""
        values = (self.period, self.kind, self.label, self.since)
        numbers = (self.before, self.after, self.statistic, self.limit)
        return dict(zip(ALARM_COLUMNS, (*values, *numbers), strict=True))


def find_alarms(history: History) -> list[Alarm]:
    """Return all alarms of a history, in the order of the periods.

    Parameters
    ----------
    history : History

    Returns
    -------
    list of Alarm
    """
    alarms: list[Alarm] = []
    settings, k = history.settings, len(history.classes)
    # The shares of two classes move together.
    watched = range(k) if k > 2 else range(k - 1, k)
    moved_limit = limit_of(settings.chance(MOVED, len(watched)), moved=True)
    misfits = _fit_alarms(history.periods, settings.fit_level) if settings.check_fit else []
    unfit = {alarm.period for alarm in misfits}
    for periods in _spans([period for period in history.periods if period.name not in unfit]):
        for code in watched:
            alarms += _moved_alarms(history, periods, code, moved_limit)
        for bound in settings.bounds:
            limit = limit_of(settings.chance(BOUND, len(settings.bounds)), moved=False)
            alarms += _bound_alarms(history, periods, bound, limit)
    place = {name: number for number, name in enumerate(history.names)}
    return sorted([*misfits, *alarms], key=lambda alarm: place[alarm.period])


def _spans(periods: Sequence[Period]) -> list[list[Period]]:
    """Cut the periods whose errors are known where the model changes."""
    spans: list[list[Period]] = []
    for period in periods:
        if not np.isfinite(period.noise).all() or not period.effective_size > 0:
            continue
        if spans and spans[-1][-1].model == period.model:
            spans[-1].append(period)
        else:
            spans.append([period])
    return spans


def _moved_alarms(
    history: History, periods: Sequence[Period], code: int, limit: float
) -> list[Alarm]:
    series = _series(periods, code, history.settings.fluctuation)
    alarms, start, stop = [], 0, 2
    while stop <= len(series):
        signal = moved_signal(series.part(start, stop))
        if signal is not None and abs(signal.statistic) > limit:
            start += signal.start
            alarms.append(
                Alarm(
                    periods[stop - 1].name,
                    MOVED,
                    history.labels[code],
                    periods[start].name,
                    _share(signal.before),
                    _share(signal.after),
                    abs(signal.statistic),
                    limit,
                )
            )
        stop += 1
    return alarms


def _bound_alarms(
    history: History, periods: Sequence[Period], bound: Bound, limit: float
) -> list[Alarm]:
    code = history.labels.index(bound.label)
    is_above = bound.side == ABOVE
    series = _series(periods, code, history.settings.fluctuation)
    if not is_above:  # A share below b is one of the other classes above 1 - b.
        series = Series(
            1.0 - series.shares, series.sizes, series.noise, series.template, series.fluctuation
        )
    share = bound.share if is_above else 1.0 - bound.share
    alarms, start = [], 0
    for stop in range(1, len(series) + 1):
        signal = beyond_signal(series.part(start, stop), share)
        if signal is not None and signal.statistic > limit:
            after = signal.after if is_above else 1.0 - signal.after
            alarms.append(
                Alarm(
                    periods[stop - 1].name,
                    BOUND,
                    bound.label,
                    periods[start + signal.start].name,
                    bound.share,
                    _share(after),
                    signal.statistic,
                    limit,
                )
            )
            start = stop
    return alarms


def _fit_alarms(periods: Sequence[Period], level: float) -> list[Alarm]:
    nan = float("nan")
    return [
        Alarm(p.name, FIT, "", p.name, nan, nan, p.fit_p_value, level)
        for p in periods
        if p.fit_p_value <= level * (1.0 + 1e-9)
    ]


def _series(periods: Sequence[Period], code: int, fluctuation: float) -> Series:
    def column(name: str) -> Array:
        return np.array([getattr(period, name)[code] for period in periods])

    return Series(
        column("share"),
        np.array([period.effective_size for period in periods]),
        column("noise"),
        column("template_variance"),
        fluctuation,
    )


def _share(value: float) -> float:
    return float(min(max(value, 0.0), 1.0))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
