"""``kdey monitor``: periods in, alarms and exit codes out."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from kdey.monitoring import read_history

from .cases import rows, run, without, write


def week(folder: Path, seed: int, only: str | None = None) -> Path:
    lines = [row for row in rows(400, seed=seed) if only is None or row["kind"] == only]
    return write(folder / f"week-{seed}.csv", without(lines[:120], "kind", "day"))


def send(model: Path, table: Path, folder: Path, period: Any, *options: Any) -> Any:
    return run(
        *("monitor", model, table, "--history", folder / "h.parquet"),
        *("--period", period, *options),
    )


@pytest.fixture(scope="module")
def calm(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a history of three quiet weeks."""
    folder = tmp_path_factory.mktemp("history")
    for number in range(3):
        options = ("--no-check-fit", "--above", "bad=0.6") if number == 0 else ()
        result = send(
            model, week(folder, number), folder, f"2024-01-{8 + 7 * number:02d}", *options
        )
        assert result.exit_code == 0, result.output
    return folder


def copy(calm: Path, folder: Path) -> Path:
    (folder / "h.parquet").write_bytes((calm / "h.parquet").read_bytes())
    return folder


def test_quiet_periods_end_with_code_0(calm: Path) -> None:
    history = read_history(calm / "h.parquet")
    assert history.names == ["2024-01-08", "2024-01-15", "2024-01-22"]
    assert [str(bound) for bound in history.settings.bounds] == ["bad above 0.6"]
    assert not history.settings.check_fit


def test_an_alarm_ends_with_code_1_and_is_printed(model: Path, calm: Path, tmp_path: Path) -> None:
    copy(calm, tmp_path)
    result = send(model, week(tmp_path, 5, "bad"), tmp_path, "2024-01-29")
    assert result.exit_code == 1
    alarms = list(csv.DictReader(io.StringIO(result.stdout)))
    assert {(a["period"], a["kind"], a["class"]) for a in alarms} == {
        ("2024-01-29", "moved", "good"),
        ("2024-01-29", "bound", "bad"),
    }
    assert "alarm: 2024-01-29: the share of 'good' has fallen from" in result.stderr
    again = send(model, tmp_path / "week-5.csv", tmp_path, "2024-01-29")
    assert again.exit_code == 1  # a job that is run again ends as it did
    assert again.stdout == result.stdout
    assert "in the history already, with the same numbers: 2024-01-29" in again.stderr
    shown = run("monitor", "--history", tmp_path / "h.parquet")
    assert shown.exit_code == 0
    assert shown.stdout == result.stdout


def test_a_period_is_taken_back(model: Path, calm: Path, tmp_path: Path) -> None:
    history = copy(calm, tmp_path) / "h.parquet"
    result = run("monitor", "--history", history, "--undo", "2024-01-22")
    assert result.exit_code == 0
    assert read_history(history).names == ["2024-01-08", "2024-01-15"]
    assert run("monitor", "--history", history, "--undo", "2024-01-22").exit_code == 2


def test_a_gap_is_named(model: Path, calm: Path, tmp_path: Path) -> None:
    copy(calm, tmp_path)
    result = send(model, week(tmp_path, 4), tmp_path, "2024-02-12")
    assert "missing in the history between 2024-01-22 and 2024-02-12" in result.stderr


def test_other_numbers_are_refused_or_replace(model: Path, calm: Path, tmp_path: Path) -> None:
    history = copy(calm, tmp_path) / "h.parquet"
    before, table = history.read_bytes(), week(tmp_path, 7)
    result = send(model, table, tmp_path, "2024-01-22")
    assert result.exit_code == 2
    assert "period 2024-01-22 is in the history with other numbers" in result.stderr
    assert history.read_bytes() == before
    assert send(model, table, tmp_path, "2024-01-22", "--replace").exit_code == 0
    assert history.read_bytes() != before


def test_periods_of_a_column_and_a_page(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    table = write(tmp_path / "days.csv", without(rows(seed=1), "kind"))
    page, metrics = tmp_path / "page.html", tmp_path / "kdey.prom"
    result = run(
        *("monitor", model, table, "--history", tmp_path / "h.parquet", "--metrics", metrics),
        *("--time", "day", "--every", "1w", "--no-check-fit", "--page", page, "--format", "json"),
    )
    assert result.exit_code == 0, result.output
    names = [f"2024-01-{day:02d}" for day in (1, 8, 15, 22)]
    assert read_history(tmp_path / "h.parquet").names == names
    assert "The history has 4 periods" in page.read_text("utf-8")
    assert "\nkdey_periods 4.0\n" in metrics.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{model}",), "belong together"),
        (("{model}", "{table}", "--undo", "3"), "--undo takes no MODEL and TABLE"),
        (("{model}", "{table}"), "say the period of the rows"),
        (("{model}", "{table}", "--period", "soon"), "whole number or a date"),
        (("{model}", "{table}", "--period", "1", "--above", "bad"), "CLASS=SHARE: got 'bad'"),
        (("{model}", "{table}", "--period", "1", "--above", "bad=2"), "between 0 and 1"),
        (("{model}", "{table}", "--period", "1", "--below", "odd=0.2"), "no class 'odd'"),
        (("--no-check-fit",), "--check-fit has no effect without MODEL and TABLE"),
        ((), "No such file or directory"),
    ],
)
def test_refusals_write_no_history(
    model: Path, calm: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    table = calm / "week-0.csv"
    filled = [text.format(model=model, table=table) for text in arguments]
    result = run("monitor", *filled, "--history", tmp_path / "h.parquet")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "h.parquet").exists()


def test_settings_of_a_history_are_kept(model: Path, calm: Path, tmp_path: Path) -> None:
    copy(calm, tmp_path)
    same = send(
        model, calm / "week-2.csv", tmp_path, "2024-01-22", "--no-check-fit", "--above", "bad=0.6"
    )
    assert same.exit_code == 0
    other = send(model, calm / "week-2.csv", tmp_path, "2024-01-22", "--false-alarms", "0.1")
    assert other.exit_code == 2
    assert "was started with other settings" in other.stderr


def test_what_is_the_matter_with_groups_is_one_line(model: Path, tmp_path: Path) -> None:
    table = write(
        tmp_path / "t.csv",
        [row | {"kind": "good", "part": f"k{n % 7}"} for n, row in enumerate(rows(70))],
    )
    result = send(model, table, tmp_path, 1, "--groups", "part", "--min-size", 50, "--no-check-fit")
    told = result.stderr.splitlines()
    assert told[0] == "1: 70 rows of 7 groups added"
    assert "1: too small (k0; k1; k2; k3; k4 and 2 more)" in told


def test_groups_and_the_accuracy(model: Path, tmp_path: Path) -> None:
    lines = rows(400, seed=1)
    table = write(tmp_path / "t.csv", without(lines[:240], "day"))
    flags = ("--groups", "kind", "--no-check-fit", "--accuracy-below", "0.999")
    result = send(model, table, tmp_path, 1, *flags)
    assert result.exit_code == 1, result.output
    alarms = list(csv.DictReader(io.StringIO(result.stdout)))
    assert {alarm["kind"] for alarm in alarms} == {"accuracy"}
    assert {alarm["group"] for alarm in alarms} <= {"good", "bad"}
    history = read_history(tmp_path / "h.parquet")
    assert (history.by, history.groups) == ("kind", ["bad", "good"])
    assert "1, bad: " in result.stderr
    assert "1: 240 rows of 2 groups added" in result.stderr
    again = send(model, table, tmp_path, 1)
    assert "in the history already, with the same numbers: 1\n" in again.stderr
    other = send(model, table, tmp_path, 2, "--groups", "name")
    assert other.exit_code == 2
