"""Monitoring: a history of estimates, one period after another, and the alarms that it raises.

``periods`` turns new data into periods, ``history`` keeps them in one file, ``alarms`` finds what
rings, by the sequential tests of ``windows``; ``settings`` says what is watched, and ``page`` shows
all of it on one HTML page.
"""

from kdey.monitoring.alarms import Alarm, find_alarms
from kdey.monitoring.history import (
    History,
    HistoryError,
    Period,
    period_name,
    read_history,
    update_history,
)
from kdey.monitoring.page import history_page, write_history_page
from kdey.monitoring.periods import (
    MonitorUpdate,
    add_periods,
    estimate_periods,
    model_fingerprint,
    monitor,
    period_request,
    settings_for,
    undo_period,
)
from kdey.monitoring.settings import Bound, MonitorSettings
from kdey.monitoring.windows import Series, Signal, beyond_signal, limit_of, moved_signal

__all__ = [
    "Alarm",
    "Bound",
    "History",
    "HistoryError",
    "MonitorSettings",
    "MonitorUpdate",
    "Period",
    "Series",
    "Signal",
    "add_periods",
    "beyond_signal",
    "estimate_periods",
    "find_alarms",
    "history_page",
    "limit_of",
    "model_fingerprint",
    "monitor",
    "moved_signal",
    "period_name",
    "period_request",
    "read_history",
    "settings_for",
    "undo_period",
    "update_history",
    "write_history_page",
]
