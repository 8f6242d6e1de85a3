"""Histories in files: the same after reading, whatever is sent twice, taken back or killed."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from kdey.monitoring import (
    Bound,
    History,
    HistoryError,
    MonitorSettings,
    period_name,
    read_history,
    undo_period,
    update_history,
)

from .cases import CLASSES, empty, period

SHARES = [0.5, 0.3, 0.2]


def test_a_file_holds_everything(tmp_path: Path) -> None:
    settings = MonitorSettings(0.1, (Bound("eel", "below", 0.4),), 0.01, check_fit=False)
    draws = np.arange(6, dtype=np.float32).reshape(3, 2)
    changes = {"fit_p_value": np.nan, "template_draws": draws, "accuracy": 0.75}
    first = period("2024-05-06", SHARES, status="too small", n=7, **changes)
    written = empty(settings).with_periods([first, period("2024-05-13", SHARES)])
    path = tmp_path / "history.parquet"
    assert update_history(path, lambda before: written) is written
    read = read_history(path)
    assert read.settings == settings
    assert read.classes == CLASSES
    assert read.training_prevalence == written.training_prevalence
    assert read.names == ["2024-05-06", "2024-05-13"]
    for name in vars(first):
        assert_array_equal(getattr(read.periods[0], name), getattr(first, name))
    assert pq.read_table(path).num_rows == 6


def test_integers_stay_integers(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    update_history(path, lambda _: empty(classes=(0, 1)).with_periods([period(1, [0.4, 0.6])]))
    assert read_history(path).classes == (0, 1)
    assert read_history(path).labels == ["0", "1"]


def test_a_period_that_is_sent_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    update_history(path, lambda _: empty().with_periods([period(1, SHARES)]))
    content, changed = path.read_bytes(), path.stat().st_mtime_ns
    again = period(1, [share + 1e-9 for share in SHARES], added="later")

    def add(before: History | None) -> History:
        assert before is not None
        return before.with_periods([again])

    assert update_history(path, add).periods[0].added != "later"
    assert path.read_bytes() == content
    assert path.stat().st_mtime_ns == changed


def test_other_numbers_for_a_period_are_refused_unless_they_replace_it() -> None:
    history = empty().with_periods([period(1, SHARES)])
    other = period(1, SHARES, n=500)
    with pytest.raises(HistoryError, match="period 1 is in the history with other numbers"):
        history.with_periods([other])
    assert history.with_periods([other], overwrite=True).periods == (other,)


def test_replacing_replaces_whatever_agrees() -> None:
    """Clipped shares of other data are often the same."""
    history = empty().with_periods([period(1, SHARES, data="bad")])
    other = period(1, SHARES, data="good", added="later")
    with pytest.raises(HistoryError, match="as many as now, but others"):
        history.with_periods([other])
    assert history.with_periods([other], overwrite=True).periods == (other,)
    same = period(1, SHARES, data="bad", added="later")
    assert history.with_periods([same], overwrite=True).periods == (same,)


def test_periods_are_ordered_by_their_value() -> None:
    history = empty().with_periods([period(name, SHARES) for name in ("10", "9", "-1")])
    assert history.names == ["-1", "9", "10"]
    dates = ["2024-02-01", "2023-12-31", "2024-02-01T06:00:00"]
    named = empty().with_periods([period(name, SHARES) for name in dates])
    assert named.names == ["2023-12-31", "2024-02-01", "2024-02-01T06:00:00"]
    with pytest.raises(HistoryError, match="all be dates or all be whole numbers"):
        history.with_periods([period("2024-01-01", SHARES)])


@pytest.mark.parametrize(
    ("names", "every", "gaps"),
    [
        ("1 2 4 5 9", None, [("2", "4"), ("5", "9")]),
        ("202411 202412 202501", None, []),
        ("2024-01-01 2024-01-08 2024-01-22", "1w", [("2024-01-08", "2024-01-22")]),
        ("2024-01-01 2024-03-01 2024-04-01", "1mo", [("2024-01-01", "2024-03-01")]),
        ("2024-01-01 2024-02-01 2024-03-01 2024-04-01", "1mo", []),
        ("2024-01-01 2024-02-05", None, []),
        ("2024-01-01 2024-01-02 2024-01-03 2024-01-05", None, [("2024-01-03", "2024-01-05")]),
        ("", None, []),
    ],
)
def test_gaps_are_named(names: str, every: str | None, gaps: list[tuple[str, str]]) -> None:
    history = empty() if every is None else empty().with_length(every)
    made = history.with_periods([period(name, SHARES) for name in names.split()])
    assert made.gaps == gaps


def test_a_period_can_be_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    both = [period("2024-05-06", SHARES), period("2024-05-13", SHARES)]
    update_history(path, lambda _: empty().with_periods(both))
    assert undo_period(path, date(2024, 5, 13)).names == ["2024-05-06"]
    assert read_history(path).names == ["2024-05-06"]
    with pytest.raises(HistoryError, match="no period 2024-05-13 in the history"):
        undo_period(path, "2024-05-13")
    with pytest.raises(HistoryError, match="no such history"):
        undo_period(tmp_path / "none.parquet", 3)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (7, "7"),
        (np.int64(7), "7"),
        (" 07 ", "7"),
        ("-3", "-3"),
        (date(2024, 5, 6), "2024-05-06"),
        (datetime(2024, 5, 6), "2024-05-06"),
        ("2024-05-06 00:00", "2024-05-06"),
        (datetime(2024, 5, 6, 12), "2024-05-06T12:00:00"),
        (datetime(2024, 5, 6, 1, tzinfo=timezone(timedelta(hours=2))), "2024-05-05T23:00:00"),
        (datetime(2024, 5, 6, tzinfo=UTC), "2024-05-06"),
    ],
)
def test_names_of_periods(value: object, name: str) -> None:
    assert period_name(value) == name


@pytest.mark.parametrize("value", ["week 3", "", True, 1.5, None, "2024-13-01"])
def test_what_is_no_period(value: object) -> None:
    with pytest.raises(ValueError, match="a period must be a whole number"):
        period_name(value)


def test_other_files_are_refused_by_name(tmp_path: Path) -> None:
    table = tmp_path / "table.parquet"
    pq.write_table(pa.table({"a": [1]}), table)
    with pytest.raises(HistoryError, match=r"table\.parquet: cannot be read as a history"):
        read_history(table)
    text = tmp_path / "text.parquet"
    text.write_text("not parquet")
    with pytest.raises(HistoryError, match=r"text\.parquet: cannot be read"):
        read_history(text)
    damaged = tmp_path / "damaged.parquet"
    whole = empty().with_periods([period(1, SHARES)]).table()
    pq.write_table(whole.slice(0, 2), damaged)
    with pytest.raises(HistoryError, match="a period lacks a class"):
        read_history(damaged)
    pq.write_table(whole.drop_columns("noise"), damaged)
    with pytest.raises(HistoryError, match="damaged"):
        read_history(damaged)
    with pytest.raises(FileNotFoundError):
        read_history(tmp_path / "none.parquet")


def edited(table: pa.Table, name: str, row: int, value: object) -> pa.Table:
    values = table.column(name).to_pylist()
    values[row] = value
    column = pa.array(values, table.schema.field(name).type)
    return table.set_column(table.column_names.index(name), name, column)


def test_a_history_that_was_sorted_doubled_or_edited_is_refused_with_the_row(
    tmp_path: Path,
) -> None:
    path = tmp_path / "h.parquet"
    periods = [period(f"2024-01-{day:02d}", SHARES) for day in (1, 8, 15)]
    table = empty().with_periods(periods).table()
    rows = [table.slice(i, 1) for i in range(9)]
    for changed, message in [
        (table.sort_by([("class", "ascending")]), "row 2, period 2024-01-08, class 'cat': is not"),
        (table.sort_by([("period", "descending")]), "row 4, period 2024-01-08, class 'cat': is"),
        (pa.concat_tables([*rows[:6], *rows[3:]]), "row 7, period 2024-01-08, class 'cat': is not"),
        (pa.concat_tables([*rows[:4], *rows[5:]]), "row 5, period 2024-01-08, class 'eel': is not"),
        (pa.concat_tables([*rows[:3], *rows[6:]]), "2 periods of 3 that were written"),
        (edited(table, "share", 4, 0.9), "row 5, period 2024-01-08, class 'dog': was changed"),
        (edited(table, "period", 4, "2024-01-09"), "row 5, period 2024-01-09, class 'dog': was"),
        (edited(table, "class", 1, "cat"), "row 2, period 2024-01-01, class 'cat': was changed"),
        (edited(table, "n", 8, 1), "row 9, period 2024-01-15, class 'eel': was changed"),
    ]:
        pq.write_table(changed, path)
        with pytest.raises(HistoryError, match=message):
            read_history(path)
    pq.write_table(table, path)
    assert len(read_history(path)) == 3


#: Starts a process that adds one period after another and notes each once it is there, kills it
#: at a random moment, looks at the history, and begins anew with the last period that was noted.
#: Every process is forked by one that has loaded everything and started no thread.
KILLER = """
import os, random, signal, sys, time
from pathlib import Path
import pyarrow.parquet
from kdey.monitoring import read_history, update_history
from tests.monitoring.cases import empty, period

path, notes = Path(sys.argv[1]), Path(sys.argv[2])

def write(first):
    note = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(first, first + 10_000):
        new = [period(number, [0.5, 0.3, 0.2])]
        update_history(path, lambda old: (empty() if old is None else old).with_periods(new))
        os.write(note, f"{number}\\n".encode())

def look():
    names = [int(name) for name in read_history(path).names] if path.exists() else []
    last = noted()
    # What was noted is there; one more may have been written and not been noted.
    return names in (list(range(last + 1)), list(range(last + 2)))

def noted():
    return int(notes.read_text().split()[-1]) if size() else -1

def size():
    return notes.stat().st_size if notes.exists() else 0

moments = random.Random(18)
for _ in range(5):
    first, before = max(noted(), 0), size()
    child = os.fork()
    if not child:
        write(first)
        os._exit(9)
    for _ in range(5_000):  # On a busy machine it may take a while until it runs.
        if size() > before + 4:  # two notes at least, the first of a period that was there
            break
        time.sleep(0.002)
    time.sleep(moments.random() * 0.03)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    child = os.fork()
    if not child:
        os._exit(0 if look() else 1)
    assert os.waitpid(child, 0)[1] == 0, f"after {noted()}"
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_killed_at_any_moment_no_period_is_lost_or_counted_twice(tmp_path: Path) -> None:
    path, notes = tmp_path / "history.parquet", tmp_path / "notes.txt"
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(path), str(notes)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    assert len(read_history(path)) >= 3, "the processes were killed before they wrote anything"
