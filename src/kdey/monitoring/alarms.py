r"""The alarms of a history: computed from its periods alone, one stream after another.

A stream is a class of a group that may have moved, or a bound. Each goes through the periods in
their order. After an alarm it starts afresh: with the periods after the change, which are the new
normal, or, for a bound, with the next period. Streams also start afresh where the model changes,
because the errors of two models differ. The fit is judged period by period, and a period that does
not fit is left out of all streams: its estimates mean nothing.

The tests are sequential, of the shares of one class over many periods.

**Model.** The share x of a class in a period is estimated from m instances. Its sampling variance
is :math:`(p (1 - p) + s) / m`, where p is the true share and s the variance that the classifier's
mistakes add per instance. This is the variance of a binomial share on the stretched interval
:math:`[-s', 1 + s']` with :math:`s' + s'^2 = s`. We therefore treat
:math:`q = (x + s') / (1 + 2 s')` as the share of successes among m trials, which has the right
variance at every p. Its skewness is right for a perfect classifier and too large for others, whose
mistakes are nearly normal. A comparison of shares is therefore the smaller of two statistics, each
of which is standard normal for many instances: the signed root of the binomial likelihood ratio,
which is right where a rare class rises, and the difference divided by its standard error, which is
right where it falls.

**A share has moved.** The hypothesis is that the true share of the class is the same in all
periods. At period t we compare the periods up to c with those after it, for every c < t. An alarm
rings when the largest statistic exceeds a limit. The errors of the templates cancel in a comparison
if *all* shares are the same. If other classes have moved from a to b, what is left of them has the
variance

.. math:: \sum_l \operatorname{Var}_l(a_l z^a - b_l z^b) / n_l

with z the influence of a training instance on the share of the class at each prevalence. Every
period therefore keeps draws of its error, which all periods have in common
(:meth:`kdey.intervals.region.Uncertainty.template_draws`): the mean square of the difference of the
mean draws of two windows is this variance, and is added to that of the comparison.
``kdey.difference`` has it from the same influences.

**A share is beyond a bound.** The hypothesis is that the true share never exceeds b. At period t we
compare the mean of the last j periods with b, for every j. The template error does not average
out, so that its variance is added to that of every window. The correlations between windows then
only grow, and by Slepian's inequality the largest statistic becomes smaller: limits for exact
templates remain valid.

**The accuracy is below a bound.** As for a share, with the variances of ``kdey.diagnostics``: the
accuracy varies less from bag to bag than a share, so that the statistic is the difference divided
by its standard error, where that of the templates is taken at the bound, as in a score interval.

**Groups.** The chance is divided between groups as between classes.

**Limits.** The limits are those that the largest statistic over 100 periods exceeds with a given
chance under the hypothesis, simulated with normal errors of equal variance
(``benchmarks/monitoring.py limits``). Periods of unequal sizes have slightly smaller maxima. Later
than 100 periods after the start, the statistics look back 100 periods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from kdey.bags import Array
from kdey.monitoring.history import (
    ABOVE,
    ACCURACY,
    BOUND,
    FIT,
    HORIZON,
    MOVED,
    History,
    Period,
)

#: Chance that the largest statistic over 100 periods exceeds a limit; see the module's text.
_CHANCES = np.array([0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001])
_MOVED = np.array([3.435, 3.665, 3.872, 4.118, 4.293, 4.450, 4.651, 4.799, 4.934, 5.126, 5.251])
_BEYOND = np.array([3.210, 3.458, 3.676, 3.944, 4.126, 4.298, 4.514, 4.684, 4.840, 5.067, 5.227])


@dataclass(frozen=True, eq=False)
class Series:
    """The shares of one class over T periods.

    Attributes
    ----------
    shares : array of shape (T,)
        Estimates, which need not lie between 0 and 1.
    sizes : array of shape (T,)
        Effective numbers of instances.
    noise : array of shape (T,)
        Variance that the classifier's mistakes add per instance.
    template : array of shape (T,)
        Variance of the template error, which all periods share.
    fluctuation : float
        Standard deviation of the true share from period to period that counts as ordinary.
    draws : array of shape (T, d)
        Draws of the template error, which all periods have in common; without rows if they are not
        known of every period.
    """

    shares: Array
    sizes: Array
    noise: Array
    template: Array
    fluctuation: float = 0.0
    draws: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def __len__(self) -> int:
        """Return the number of periods."""
        return len(self.shares)

    def part(self, start: int, stop: int) -> Series:
        """Return the periods from ``start`` to ``stop``, which is not included."""
        run = slice(start, stop)
        shares, sizes, noise = self.shares[run], self.sizes[run], self.noise[run]
        draws = self.draws[run]
        return Series(shares, sizes, noise, self.template[run], self.fluctuation, draws)


#: The largest statistic at one period, positive where the share has risen or is above the bound;
#: the first period of its window; and the mean shares before (or the bound) and within the window.
Signal = tuple[float, int, float, float]


def limit_of(chance: float, moved: bool) -> float:
    """Return the limit that a statistic exceeds within 100 periods with a given chance.

    Parameters
    ----------
    chance : float in (0, 1)
        Chances between and beyond those that were simulated are interpolated: the square of the
        limit is nearly linear in the logarithm of the chance.
    moved : bool
        Whether the statistic is that of a share that has moved; otherwise that of a bound.
    """
    squares = (_MOVED if moved else _BEYOND) ** 2
    x, logs = -np.log(chance), -np.log(_CHANCES)
    if x < logs[0]:
        return float(np.sqrt(squares[0]))
    if x > logs[-1]:
        slope = (squares[-1] - squares[-4]) / (logs[-1] - logs[-4])
        return float(np.sqrt(squares[-1] + slope * (x - logs[-1])))
    return float(np.sqrt(np.interp(x, logs, squares)))


def moved_signal(series: Series) -> Signal | None:
    """Return the strongest sign at the last period that the share has moved before; None: none.

    Parameters
    ----------
    series : Series
        Periods since the last alarm. At least two are needed.
    """
    if len(series) < 2:
        return None
    stretch, sizes = _trials(series, float(series.sizes @ series.shares / series.sizes.sum()))
    q = (series.shares + stretch) / (1.0 + 2.0 * stretch)
    trials, successes = np.cumsum(sizes), np.cumsum(sizes * q)
    before, after = trials[:-1], trials[-1] - trials[:-1]
    low, high = successes[:-1] / before, (successes[-1] - successes[:-1]) / after
    overall = _inside(successes[-1] / trials[-1])
    deviance = _deviance(before, low, overall) + _deviance(after, high, overall)
    variance = overall * (1.0 - overall) * (1.0 / before + 1.0 / after)
    statistics = np.minimum(np.sqrt(deviance), np.abs(high - low) / np.sqrt(variance))
    if series.draws.size:
        drawn = np.cumsum(sizes[:, None] * series.draws, axis=0) / (1.0 + 2.0 * stretch)
        errors = drawn[:-1] / before[:, None] - (drawn[-1] - drawn[:-1]) / after[:, None]
        statistics /= np.sqrt(1.0 + np.mean(errors**2, axis=1) / variance)
    change = int(np.argmax(statistics))
    # Means of the stretched shares, back on the scale of shares.
    old, new = (float(v * (1.0 + 2.0 * stretch) - stretch) for v in (low[change], high[change]))
    return float(statistics[change] * np.sign(new - old)), change + 1, old, new


def beyond_signal(series: Series, bound: float) -> Signal:
    """Return the strongest sign at the last period that the share is above a bound.

    Parameters
    ----------
    series : Series
        Periods since the last alarm.
    bound : float in (0, 1)
    """
    stretch, sizes = _trials(series, bound)
    q = (series.shares + stretch) / (1.0 + 2.0 * stretch)
    trials, successes = np.cumsum(sizes[::-1]), np.cumsum((sizes * q)[::-1])
    template = np.cumsum((sizes * series.template)[::-1]) / trials
    unit = bound * (1.0 - bound) + stretch * (1.0 + stretch)
    effective = 1.0 / (1.0 / trials + template / unit)
    means = successes / trials
    expected = _inside((bound + stretch) / (1.0 + 2.0 * stretch))
    distances = np.abs(means - expected) / np.sqrt(expected * (1.0 - expected) / effective)
    statistics = np.minimum(np.sqrt(_deviance(effective, means, expected)), distances)
    statistics *= np.sign(means - expected)
    length = int(np.argmax(statistics))
    after = float(means[length] * (1.0 + 2.0 * stretch) - stretch)
    return float(statistics[length]), len(series) - 1 - length, bound, after


def accuracy_signal(series: Series, bound: float) -> Signal:
    """Return the strongest sign at the last period that the accuracy is below a bound.

    Parameters
    ----------
    series : Series
        Accuracies of the periods since the last alarm.
    bound : float in (0, 1)
    """
    sizes = np.cumsum(series.sizes[::-1])
    means, noise, template = (
        np.cumsum((series.sizes * values)[::-1]) / sizes
        for values in (series.shares, series.noise, series.template)
    )
    statistics = (bound - means) / np.sqrt(np.maximum(noise / sizes + template, 1e-12))
    length = int(np.argmax(statistics))
    return float(statistics[length]), len(series) - 1 - length, bound, float(means[length])


def _trials(series: Series, share: float) -> tuple[float, Array]:
    """Return s' and the numbers of trials of the periods if the class has a given share."""
    total = series.sizes.sum()
    noise = max(float(series.sizes @ series.noise / total), 0.0)
    stretch = (np.sqrt(1.0 + 4.0 * noise) - 1.0) / 2.0
    # Half an instance more, so that a class that was never there has a variance.
    p = min(max((share * total + 0.5) / (total + 1.0), 0.0), 1.0)
    unit = p * (1.0 - p) + noise
    return float(stretch), 1.0 / (1.0 / series.sizes + series.fluctuation**2 / unit)


def _inside(share: float) -> float:
    return float(min(max(share, 1e-12), 1.0 - 1e-12))


def _deviance(trials: Array, share: Array, expected: float) -> Array:
    """Return twice the log-likelihood ratio of binomial shares against an expected one."""
    p = np.clip(share, 0.0, 1.0)
    each = xlogy(p, p / expected) + xlogy(1.0 - p, (1.0 - p) / (1.0 - expected))
    return np.asarray(np.maximum(2.0 * trials * each, 0.0))


#: Fields of an alarm that a table shows.
ALARM_COLUMNS = (
    *("period", "kind", "class", "since", "before", "after", "statistic", "limit", "group"),
)


@dataclass(frozen=True)
class Alarm:
    """One alarm.

    Attributes
    ----------
    period : str
        The period that raised it.
    kind : {"moved", "bound", "fit", "accuracy"}
    label : str
        The class; empty for the fit and the accuracy.
    since : str
        The first period of the new share, or beyond the bound, by the best estimate.
    before, after : float
        The share, or the accuracy, before and since; ``before`` is the bound if there is one. NaN
        for the fit.
    statistic, limit : float
        What was compared: a statistic with the limit that it exceeds or, for the fit, a p-value
        with the level that it does not exceed.
    group : str
        Empty where there are no groups.
    findings : str
        For the fit: how the columns that do not fit differ, where some do not.
    """

    period: str
    kind: str
    label: str
    since: str
    before: float
    after: float
    statistic: float
    limit: float
    group: str = ""
    findings: str = ""

    def __str__(self) -> str:
        """Return the alarm as a sentence."""
        where = f"{self.period}, {self.group}" if self.group else self.period
        return f"{where}: {self.reason}"

    @property
    def reason(self) -> str:
        """What raised the alarm, without its period and group."""
        if self.kind == FIT:
            return (
                f"the new data do not look like a mixture of the training classes "
                f"(p-value {self.statistic:.2g}), so the estimates may be wrong"
                + (f": {self.findings}" if self.findings else "")
            )
        shares = f"{_percent(self.before)} to {_percent(self.after)}"
        if self.kind == MOVED:
            verb = "risen" if self.after > self.before else "fallen"
            return f"the share of {self.label!r} has {verb} from {shares}, since about {self.since}"
        side = "above" if self.after > self.before else "below"
        if self.kind == ACCURACY:
            return (
                f"the expected accuracy is below the bound of {_percent(self.before)}: "
                f"{_percent(self.after)} since {self.since}"
            )
        return (
            f"the share of {self.label!r} is {side} the bound of "
            f"{_percent(self.before)}: {_percent(self.after)} since {self.since}"
        )

    def row(self) -> dict[str, str | float]:
        """Return the fields by the names of ``ALARM_COLUMNS``."""
        values = (self.period, self.kind, self.label, self.since)
        numbers = (self.before, self.after, self.statistic, self.limit)
        return dict(zip(ALARM_COLUMNS, (*values, *numbers, self.group), strict=True))


def find_alarms(history: History) -> list[Alarm]:
    """Return all alarms of a history, in the order of the periods.

    Parameters
    ----------
    history : History

    Returns
    -------
    list of Alarm
    """
    groups = history.groups
    alarms = [alarm for group in groups for alarm in _group_alarms(history, group, len(groups))]
    place = {name: number for number, name in enumerate(history.names)}
    return sorted(alarms, key=lambda alarm: place[alarm.period])


def _group_alarms(history: History, group: str, n_groups: int) -> list[Alarm]:
    """Return the alarms of one of n groups."""
    settings, alarms = history.settings, list[Alarm]()
    own = [period for period in history.periods if period.group == group]
    if settings.check_fit:
        levels = settings.fit_levels(n_groups)
        alarms = _fit_alarms(own, *levels)
        # A period that fits badly is no evidence of anything else, whether or not it rings.
        own = [period for period in own if not _is_misfit(period, max(levels))]
    for stream in (stream for span in _spans(own) for stream in _streams(history, span)):
        kind, names = stream.kind, [period.name for period in stream.periods]
        chance = settings.chance(kind, stream.n_streams * n_groups)
        limit = limit_of(chance, moved=kind == MOVED)
        for last, first, signal in rings(stream.series, stream.signal, limit, kind == MOVED):
            shares = (1.0 - s if stream.is_mirrored else s for s in signal[2:])
            before, after = (min(max(share, 0.0), 1.0) for share in shares)
            about = (names[last], kind, stream.label, names[first])
            alarms.append(Alarm(*about, before, after, abs(signal[0]), limit))
    return [replace(alarm, group=group) for alarm in alarms]


def rings(
    series: Series, signal_of: Callable[[Series], Signal | None], limit: float, moved: bool
) -> Iterator[tuple[int, int, Signal]]:
    """Yield the period of each alarm of a stream, the first one of its window, and its signal.

    Parameters
    ----------
    series : Series
    signal_of : callable
        Of the periods since the last alarm, at most ``HORIZON``.
    limit : float
    moved : bool
        Whether the stream goes on from the change, and otherwise from the next period; a share may
        have moved to either side.
    """
    start = 0
    for stop in range(1, len(series) + 1):
        begin = max(start, stop - HORIZON)
        signal = signal_of(series.part(begin, stop)) if start < stop else None
        if signal is None or (abs(signal[0]) if moved else signal[0]) <= limit:
            continue
        first = begin + signal[1]
        yield stop - 1, first, signal
        start = first if moved else stop


class _Stream(NamedTuple):
    """What is watched of one span: periods with their numbers, and the signal in them."""

    kind: str
    label: str
    periods: Sequence[Period]
    series: Series
    signal: Callable[[Series], Signal | None]
    n_streams: int
    is_mirrored: bool = False


def _streams(history: History, periods: Sequence[Period]) -> Iterator[_Stream]:
    """Yield what is watched of periods of one model."""
    settings, labels = history.settings, history.labels
    # The shares of two classes move together.
    watched = labels if len(labels) > 2 else labels[-1:]
    for label in watched:
        series = _series(periods, labels.index(label), settings.fluctuation)
        yield _Stream(MOVED, label, periods, series, moved_signal, len(watched))
    for bound in settings.bounds:
        series = _series(periods, labels.index(bound.label), settings.fluctuation)
        share = bound.share
        is_below = bound.side != ABOVE
        if is_below:  # A share below b is one of the other classes above 1 - b.
            series, share = replace(series, shares=1.0 - series.shares), 1.0 - share
        signal = partial(beyond_signal, bound=share)
        n_bounds = len(settings.bounds)
        yield _Stream(BOUND, bound.label, periods, series, signal, n_bounds, is_below)
    if settings.accuracy_below is not None:
        known = [period for period in periods if np.isfinite(period.accuracy_noise)]
        rows = [
            (p.accuracy, p.effective_size, p.accuracy_noise, p.accuracy_template) for p in known
        ]
        series = Series(*np.array(rows).reshape(-1, 4).T)
        signal = partial(accuracy_signal, bound=settings.accuracy_below)
        yield _Stream(ACCURACY, "", known, series, signal, 1)


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


def _is_misfit(period: Period, level: float) -> bool:
    return bool(period.fit_p_value <= level * (1.0 + 1e-9))


def _fit_alarms(periods: Sequence[Period], level: float, twice: float) -> list[Alarm]:
    """Return the alarms of periods that fit badly: very much so, or twice in a row."""
    nan, alarms, before = float("nan"), [], False
    for period in periods:
        is_misfit = _is_misfit(period, twice)
        if _is_misfit(period, level) or (is_misfit and before):
            passed = level if _is_misfit(period, level) else twice
            shares = (nan, nan, period.fit_p_value, passed)
            alarms.append(
                Alarm(period.name, FIT, "", period.name, *shares, findings=period.findings)
            )
        before = is_misfit
    return alarms


def _series(periods: Sequence[Period], code: int, fluctuation: float) -> Series:
    sizes, draws = np.array([period.effective_size for period in periods]), np.zeros((0, 0))
    shares, noise, template = (
        np.array([getattr(period, name)[code] for period in periods])
        for name in ("share", "noise", "template_variance")
    )
    if all(period.template_draws.size for period in periods):
        draws = np.array([period.template_draws[code] for period in periods], dtype=np.float64)
    return Series(shares, sizes, noise, template, fluctuation, draws)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def metrics_text(history: History) -> str:
    """Return what is known of the newest period as OpenMetrics text, for Prometheus and others.

    Parameters
    ----------
    history : History

    Returns
    -------
    str
        Gauges by ``class`` and, where there are groups, by ``group``: ``kdey_share`` with the ends
        of its interval, ``kdey_rows``, ``kdey_fit_p_value`` and ``kdey_accuracy`` where these are
        watched, ``kdey_alarms`` by ``kind``, ``kdey_periods`` and, of dates,
        ``kdey_newest_period_seconds``.
    """
    settings, names = history.settings, history.names
    newest = [
        ({} if history.by is None else {"group": period.group}, period)
        for period in history.periods
        if period.name == names[-1]
    ]
    rung = Counter((a.kind, a.group) for a in find_alarms(history) if a.period == names[-1])
    lines: list[str] = []

    def gauge(name: str, text: str, samples: Iterable[tuple[dict[str, str], float]]) -> None:
        lines.extend([f"# TYPE kdey_{name} gauge", f"# HELP kdey_{name} {text}"])
        for labels, value in samples:
            number = "NaN" if np.isnan(value) else repr(float(value))
            lines.append(f"kdey_{name}{_label_set(labels)} {number}")

    for name, attribute, text in (
        ("share", "estimate", "Estimated share of the class in the newest period."),
        ("share_low", "low", "Lower end of the interval of the share."),
        ("share_high", "high", "Upper end of the interval of the share."),
    ):
        parts = ((labels, getattr(period, attribute)) for labels, period in newest)
        classes = history.labels
        gauge(
            name,
            text,
            (({"class": c, **g}, v) for g, p in parts for c, v in zip(classes, p, strict=True)),
        )
    gauge("rows", "Rows of the newest period.", ((g, p.n) for g, p in newest))
    if settings.check_fit:
        text = "P-value of the check that the rows are a mixture of the training classes."
        gauge("fit_p_value", text, ((g, p.fit_p_value) for g, p in newest))
    if settings.accuracy_below is not None:
        text = "Accuracy that the classifier is expected to have."
        gauge("accuracy", text, ((g, p.accuracy) for g, p in newest))
    counts = (({"kind": k, **g}, rung[k, p.group]) for g, p in newest for k in settings.kinds)
    gauge("alarms", "Alarms of the newest period.", counts)
    gauge("periods", "Periods of the history.", [({}, len(history))])
    if newest and "-" in names[-1][1:]:
        begins = datetime.fromisoformat(names[-1]).replace(tzinfo=UTC)
        text = "When the newest period begins, in seconds since 1970."
        gauge("newest_period_seconds", text, [({}, begins.timestamp())])
    return "\n".join([*lines, "# EOF", ""])


def _label_set(labels: Mapping[str, str]) -> str:
    """Return labels in the notation of OpenMetrics, which escapes three characters."""
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    texts = [f'{name}="{value.translate(escapes)}"' for name, value in labels.items()]
    return f"{{{','.join(texts)}}}" if texts else ""
