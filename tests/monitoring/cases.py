"""Periods without a model: shares of classes with the errors of a perfect classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kdey.monitoring import History, MonitorSettings, Period

CLASSES = ("cat", "dog", "eel")


def period(name: object, share: Sequence[float], n: int = 400, **changes: Any) -> Period:
    shares = np.asarray(share, dtype=np.float64)
    zeros = np.zeros(len(shares))
    values: dict[str, Any] = {
        **{"name": str(name), "n": n, "n_missing": 0, "effective_size": float(n)},
        **{"estimate": shares, "low": shares * 0.8, "high": 0.2 + 0.8 * shares},
        **{"classify_and_count": shares, "share": shares, "noise": zeros},
        **{"template_variance": zeros, "fit_p_value": 0.5, "status": "no problem found"},
        **{"model": "abc", "added": "2024-01-01T00:00:00+00:00"},
    }
    return Period(**{**values, **changes})


def empty(settings: MonitorSettings | None = None, classes: Any = CLASSES) -> History:
    k = len(classes)
    return History(tuple(classes), (1 / k,) * k, settings or MonitorSettings())


def history(
    rows: Sequence[Sequence[float]], settings: MonitorSettings | None = None, **changes: Any
) -> History:
    periods = [period(number, row, **changes) for number, row in enumerate(rows)]
    return empty(settings).with_periods(periods)


def drawn(
    shares: Sequence[float], n_periods: int, n: int = 400, seed: int = 0
) -> list[list[float]]:
    """Return shares of n_periods multinomial samples."""
    rng = np.random.default_rng(seed)
    return (rng.multinomial(n, shares, n_periods) / n).tolist()
