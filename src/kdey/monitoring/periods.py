"""From new data to periods of a history.

A period is estimated like a group. Beside the numbers that people read we keep what sequential
tests need: the estimate before it was moved into the simplex, the variance that the classifier's
mistakes add per instance, and the variance of the template error, which all periods share.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kdey._caching import fingerprint
from kdey.bags import Array
from kdey.fitted import FittedQuantifier
from kdey.groups import (
    Request,
    ScoredTable,
    answer,
    score,
)
from kdey.groups.keys import Grouping
from kdey.intervals import Estimate
from kdey.model import kept_training
from kdey.monitoring.alarms import Alarm, find_alarms
from kdey.monitoring.history import (
    History,
    HistoryError,
    Period,
    period_name,
    read_history,
    update_history,
)
from kdey.monitoring.settings import MonitorSettings
from kdey.options import Options


@dataclass(frozen=True, eq=False)
class MonitorUpdate:
    """What an update of a history did.

    Attributes
    ----------
    history : History
        After the update.
    periods : tuple of str
        The periods that were sent, whether they were new or not.
    added : tuple of str
        Those of them that were not in the history, or replaced another.
    alarms : tuple of Alarm
        Those that ring at the periods that were sent.
    """

    history: History
    periods: tuple[str, ...]
    added: tuple[str, ...]
    alarms: tuple[Alarm, ...]


def monitor(
    quantifier: FittedQuantifier,
    frame: Any,
    history: str | PathLike[str],
    *,
    period: Any = None,
    time: str | None = None,
    every: str | None = None,
    settings: MonitorSettings | None = None,
    overwrite: bool = False,
    new_model: bool = False,
    scores: Sequence[str] | None = None,
    missing: str = "auto",
    confidence: float = 0.95,
    min_size: int = 10,
) -> MonitorUpdate:
    """Add the estimates of new data to a history, and return the alarms that they raise.

    Parameters
    ----------
    quantifier : fitted quantifier
    frame : data frame of pandas, polars or pyarrow
    history : path-like
        A Parquet file; created if it does not exist.
    period : int, date, datetime or text that spells one of these, optional
        The period of all rows.
    time : name of a column of dates or times, optional
        In the place of ``period``: the rows belong to the periods that it names.
    every : str, optional
        Period that times are cut down to, such as "1w"; see :func:`kdey.predict_groups`.
    settings : MonitorSettings, optional
        By default those of the history, or the default ones for a new one. A history keeps the
        settings that it was started with.
    overwrite : bool
        Whether a period that is there with other numbers is replaced. The same numbers are always
        accepted and change nothing.
    new_model : bool
        Whether the model may be another one than that of the last period. Tests start afresh then.
    scores, missing, confidence, min_size
        As for :func:`kdey.predict_groups`.

    Returns
    -------
    MonitorUpdate

    Raises
    ------
    HistoryError
        If the file is not a history or does not fit the model, the settings or the periods.
    ValueError
        If the data cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> q = kdey.KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    >>> path = Path(tempfile.mkdtemp()) / "history.parquet"
    >>> for week in (1, 2):
    ...     update = kdey.monitoring.monitor(q, X[week::4], path, period=week)
    >>> update.history.names, update.alarms
    (['1', '2'], ())
    """
    check_is_fitted(quantifier, "classes_")
    answering = quantifier.answering
    chosen = settings_for(history, settings)
    request = period_request(
        chosen,
        period,
        Grouping.of((), time, every),
        scores=scores,
        missing=missing,
        confidence=confidence,
        min_size=min_size,
    )
    periods = estimate_periods(answering, score(answering, frame, request), request, period)
    return add_periods(
        history, answering, periods, chosen, overwrite=overwrite, new_model=new_model
    )


def settings_for(path: str | PathLike[str], settings: MonitorSettings | None) -> MonitorSettings:
    """Return the settings of a history, or those of a new one.

    Parameters
    ----------
    path : path-like
    settings : MonitorSettings or None
        Those that the caller asks for; None: no matter which.

    Raises
    ------
    HistoryError
        If the history was started with other settings.
    """
    if not Path(path).exists():
        return MonitorSettings() if settings is None else settings
    known = read_history(path).settings
    if settings is not None and settings != known:
        raise HistoryError(
            f"{path}: was started with other settings ({known}; now {settings}): leave them out, "
            "or start a new history"
        )
    return known


def period_request(
    settings: MonitorSettings,
    period: Any,
    grouping: Grouping,
    *,
    scores: Sequence[str] | None = None,
    missing: str = "auto",
    confidence: float = 0.95,
    min_size: int = 10,
) -> Request:
    """Return how the rows of new data are estimated.

    Parameters
    ----------
    settings : MonitorSettings
    period : period of all rows, or None
    grouping : Grouping
        By time, if ``period`` is None.
    scores, missing, confidence, min_size
        As for :func:`kdey.predict_groups`.

    Raises
    ------
    ValueError
        Unless exactly one of ``period`` and the time of ``grouping`` is there.
    """
    if (period is None) == (grouping.time is None):
        raise ValueError("give either period, or time: the column that says it")
    if period is not None:
        period_name(period)  # raises, before any work, where it is none
    options = Options(
        confidence,
        check_fit=settings.check_fit,
        n_null=settings.n_null,
        min_size=min_size,
        missing=missing,
    )
    return Request(grouping, scores, options=options)


def estimate_periods(
    quantifier: FittedQuantifier, scored: ScoredTable, request: Request, period: Any
) -> list[Period]:
    """Return the periods of a table whose rows are scored.

    Parameters
    ----------
    quantifier : fitted quantifier
    scored : ScoredTable
    request : Request
        By :func:`period_request`.
    period : period of all rows, or None
        None: the only key of the table.
    """
    values = [period] if period is not None else [key[0] for key in scored.keys.values]
    if any(value is None for value in values):
        raise ValueError(f"column {scored.keys.names[0]!r} lacks the time of some rows")
    names = [period_name(value) for value in values]
    model, now = model_fingerprint(quantifier), datetime.now(UTC).isoformat(timespec="seconds")
    estimates = answer(quantifier, scored, request, kept=sys.maxsize)
    periods = []
    for group, name in enumerate(names):
        if not estimates.size[group]:
            raise ValueError(f"period {name} has no row without a missing value")
        estimate = estimates[group]
        share, noise, template = error_parts(estimate)
        periods.append(
            Period(
                name=name,
                n=estimate.size,
                n_missing=int(np.asarray(estimates.n_missing)[group]),
                effective_size=float(estimate.diagnostics["effective_size"]),
                estimate=estimate.estimate,
                low=estimate.low,
                high=estimate.high,
                classify_and_count=np.asarray(estimates.counted)[group],
                share=share,
                noise=noise,
                template_variance=template,
                fit_p_value=float(np.asarray(estimates.fit_p_value)[group]),
                status=estimate.status,
                model=model,
                added=now,
            )
        )
    return periods


def error_parts(estimate: Estimate) -> tuple[Array, Array, Array]:
    """Return the share, the noise per instance and the template variance of each class, (k,)."""
    uncertainty = estimate.uncertainty
    centre = uncertainty.centre()
    share = estimate.estimate if centre is None else centre
    sampling = uncertainty.sampling_variance()
    inside = np.clip(share, 0.0, 1.0)
    size = float(estimate.diagnostics["effective_size"])
    noise = np.maximum(size * sampling - inside * (1.0 - inside), 0.0)
    template = np.maximum(np.diag(uncertainty.covariance()) - sampling, 0.0)
    return np.asarray(share), np.asarray(noise), np.asarray(template)


def model_fingerprint(quantifier: FittedQuantifier) -> str:
    """Return a short text that is the same for the same fitted model, loaded from a file or not."""
    training = kept_training(quantifier)
    known = () if training is None else (training.posteriors, training.labels)
    classes = [str(label) for label in quantifier.classes_]
    return fingerprint(type(quantifier).__name__, classes, quantifier.prevalence_, *known)[:16]


def add_periods(
    path: str | PathLike[str],
    quantifier: FittedQuantifier,
    periods: Sequence[Period],
    settings: MonitorSettings,
    *,
    overwrite: bool = False,
    new_model: bool = False,
) -> MonitorUpdate:
    """Write periods to a history, whole or not at all.

    Parameters
    ----------
    path : path-like
    quantifier : fitted quantifier
    periods : sequence of Period
    settings : MonitorSettings
        Of a new history.
    overwrite, new_model : bool
        As for :func:`monitor`.

    Returns
    -------
    MonitorUpdate
    """
    classes = _plain_labels(quantifier)
    known: set[int] = set()

    def change(before: History | None) -> History:
        history = before
        if history is None:
            history = History(classes, tuple(quantifier.prevalence_.tolist()), settings)
        _check_same_model(path, history, classes, periods, new_model)
        known.update(map(id, history.periods))
        return history.with_periods(periods, overwrite=overwrite)

    history = update_history(path, change)
    sent = {period.name for period in periods}
    return MonitorUpdate(
        history,
        tuple(name for name in history.names if name in sent),
        tuple(period.name for period in history.periods if id(period) not in known),
        tuple(alarm for alarm in find_alarms(history) if alarm.period in sent),
    )


def undo_period(path: str | PathLike[str], period: Any) -> History:
    """Remove a period from a history, as if it had never been sent.

    Parameters
    ----------
    path : path-like
    period : int, date, datetime or text that spells one of these

    Returns
    -------
    History
        Without the period.

    Raises
    ------
    HistoryError
        If there is no such period.
    """
    name = period_name(period)

    def change(before: History | None) -> History:
        if before is None:
            raise HistoryError(f"{path}: there is no such history")
        return before.without(name)

    return update_history(path, change)


def _plain_labels(quantifier: FittedQuantifier) -> tuple[int | str, ...]:
    """Return the classes as whole numbers where all are, otherwise as texts."""
    labels = np.asarray(quantifier.classes_)
    return tuple(labels.tolist()) if labels.dtype.kind in "iu" else tuple(map(str, labels))


def _check_same_model(
    path: str | PathLike[str],
    history: History,
    classes: tuple[int | str, ...],
    periods: Sequence[Period],
    new_model: bool,
) -> None:
    if history.classes != classes:
        raise HistoryError(
            f"{path}: has other classes ({', '.join(history.labels)}) than the model "
            f"({', '.join(map(str, classes))})"
        )
    last = history.periods[-1].model if history.periods else None
    if not new_model and last is not None and any(p.model != last for p in periods):
        raise HistoryError(
            f"{path}: the last period, {history.periods[-1].name}, was estimated by another "
            "model. If the model was replaced on purpose, say so (new_model=True, --new-model): "
            "comparisons then start afresh"
        )
