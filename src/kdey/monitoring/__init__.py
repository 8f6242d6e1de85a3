"""Monitoring: a history of estimates, one period after another, and the alarms that it raises.

``periods`` turns new data into periods and shows them on one HTML page, ``history`` keeps them in
one file with what is watched, and ``alarms`` finds what rings, by sequential tests.
"""

from kdey.monitoring.alarms import (
    Alarm,
    find_alarms,
)
from kdey.monitoring.history import (
    Bound,
    History,
    HistoryError,
    MonitorSettings,
    Period,
    period_name,
    read_history,
    update_history,
)
from kdey.monitoring.periods import (
    MonitorUpdate,
    history_page,
    model_fingerprint,
    monitor,
    undo_period,
    write_history_page,
)

__all__ = [
    "Alarm",
    "Bound",
    "History",
    "HistoryError",
    "MonitorSettings",
    "MonitorUpdate",
    "Period",
    "find_alarms",
    "history_page",
    "model_fingerprint",
    "monitor",
    "period_name",
    "read_history",
    "undo_period",
    "update_history",
    "write_history_page",
]
