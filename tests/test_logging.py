"""What an operator wants to know goes to loggers below ``kdey``, and nowhere by itself."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kdey
from kdey.groups import Accumulator
from kdey.monitoring import monitor
from kdey.tables.sources import TableError, open_source

from .groups.cases import SCORES, fitted, posteriors


def bag(share: float, n: int, seed: int) -> pd.DataFrame:
    """Return scores of n items, of which a share is of the first class."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, n, p=[share, (1 - share) / 2, (1 - share) / 2])
    return pd.DataFrame(posteriors(labels, rng), columns=SCORES)


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return the levels and texts of what the library has logged."""
    return [(r.levelname, r.getMessage()) for r in caplog.records if r.name.startswith("kdey.")]


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kdey")


def test_nothing_is_printed_unless_the_user_asks() -> None:
    """Python prints warnings of a logger that nobody has configured."""
    assert any(isinstance(h, logging.NullHandler) for h in logging.getLogger("kdey").handlers)


def test_alarms_are_warnings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    quantifier, history = fitted(kdey.PACC), tmp_path / "history.parquet"
    for period in range(1, 5):
        monitor(quantifier, bag(0.2, 400, period), history, period=period, scores=SCORES)
    assert not said(caplog)
    update = monitor(quantifier, bag(0.9, 400, 5), history, period=5, scores=SCORES)
    assert update.alarms
    assert said(caplog) == [("WARNING", f"{history}: {alarm}") for alarm in update.alarms]


def test_items_that_come_too_late_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    totals = Accumulator(fitted(kdey.PACC), every="1h", window=2, scores=SCORES)
    totals.add(bag(0.3, 20, 0), "2024-05-06 12:30")
    totals.add(bag(0.3, 20, 0), "2024-05-06 11:30")
    assert not said(caplog)
    totals.add(bag(0.3, 7, 0), "2024-05-06 10:30")
    assert totals.size == 40
    assert said(caplog) == [("WARNING", "7 items not counted: older than the window")]


def test_files_and_connections_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("fsspec")
    path = kdey.save(fitted(kdey.PACC), tmp_path / "model.kdey")
    kdey.load(path)
    with pytest.raises(TableError, match="cannot be opened"):
        open_source("memory://nothing.csv")
    assert said(caplog) == [
        ("INFO", f"{path}: reading a model that kdey {kdey.__version__} wrote"),
        ("INFO", "memory://nothing.csv: opening a connection"),
    ]
