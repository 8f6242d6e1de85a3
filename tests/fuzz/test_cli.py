"""Commands on hostile CSV files: an answer, or one line and exit code 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.cli.cases import FAST, rows, run, without, write

from .profiles import fuzzed

CELLS = st.sampled_from(
    [
        *("", "1", "-1", "0.5", "nan", "inf", "1e400", "text", "ä", '"', '"a""b"', "a,b", "\x00"),
        *("NULL", "good", "bad", "2024-01-01", "=1+1", "<b>", " 1", "1;2", "'", "\r", "０"),
    ]
)
EVALUATED = ("--methods", "pcc", "--bags", "3", "--bag-size", "5")
HEADS = st.lists(
    st.sampled_from(["length", "width", "kind", "colour", "", "length", "ä", "kind ", "shop"]),
    min_size=1,
    max_size=5,
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    table = write(folder / "train.csv", without(rows(60), "shop", "day"))
    done = run("fit", table, "--label", "kind", *FAST, "-o", folder / "model.kdey")
    assert done.exit_code == 0, done.output
    return folder / "model.kdey"


def _answered(*arguments: Any) -> None:
    """Fail unless the command ends well, or says in one line what the user can mend."""
    done = run(*arguments)
    told = f"{arguments}: {done.output[-800:]} {done.exception!r}"
    assert "No such option" not in done.output, told  # else every table would be "refused"
    assert done.exit_code in (0, 2), told
    assert done.exception is None or isinstance(done.exception, SystemExit), told
    if done.exit_code == 2:
        assert "Error: " in done.output, told
        assert "Traceback" not in done.output, told


def test_good_tables_are_answered(model: Path, tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", without(rows(40), "shop", "day"))
    for arguments in (
        ("estimate", model, table),
        ("fit", table, "--label", "kind", "--method", "pcc", "-o", tmp_path / "m.kdey"),
        ("report", model, table, "-o", tmp_path / "r.html"),
        ("evaluate", table, "--label", "kind", *EVALUATED),
        ("inspect", model),
    ):
        done = run(*arguments)
        assert done.exit_code == 0, (arguments, done.output)


@st.composite
def tables(draw: Any) -> bytes:
    """Draw the bytes of a CSV file: cells at random, a good table with one cell changed, noise."""
    flavour = draw(st.integers(0, 3))
    if flavour == 0:
        return bytes(draw(st.binary(max_size=60)))
    if flavour == 1:
        head = draw(HEADS)
        body = draw(st.lists(st.lists(CELLS, min_size=1, max_size=5), max_size=6))
        lines = [",".join(head), *(",".join(row) for row in body)]
        return "\n".join(lines).encode()
    good = without(rows(12), "shop", "day")
    at, column = draw(st.integers(0, 11)), draw(st.sampled_from(sorted(good[0])))
    good[at][column] = draw(CELLS)
    lines = [",".join(good[0]), *(",".join(map(str, row.values())) for row in good)]
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    start = draw(st.sampled_from(["", "\ufeff"]))
    return (start + end.join(lines)).encode(
        draw(st.sampled_from(["utf-8", "utf-16", "latin-1"])), "replace"
    )


@fuzzed(12)
@given(table=tables())
def test_estimate(model: Path, tmp_path_factory: pytest.TempPathFactory, table: bytes) -> None:
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_bytes(table)
    _answered("estimate", model, path)
    _answered("estimate", model, path, "--by", "colour", "--format", "json")


@fuzzed(12)
@given(table=tables())
def test_fit(tmp_path_factory: pytest.TempPathFactory, table: bytes) -> None:
    folder = tmp_path_factory.mktemp("t")
    (folder / "t.csv").write_bytes(table)
    rest = ("--label", "kind", "--method", "pcc", "-o", folder / "m.kdey")
    _answered("fit", folder / "t.csv", *rest)


@fuzzed(6)
@given(table=tables())
def test_report_and_evaluate(
    model: Path, tmp_path_factory: pytest.TempPathFactory, table: bytes
) -> None:
    folder = tmp_path_factory.mktemp("t")
    (folder / "t.csv").write_bytes(table)
    _answered("report", model, folder / "t.csv", "-o", folder / "r.html")
    _answered("evaluate", folder / "t.csv", "--label", "kind", *EVALUATED)


@fuzzed(20)
@given(noise=st.binary(max_size=80))
def test_inspect(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    path = tmp_path_factory.mktemp("t") / "m.kdey"
    path.write_bytes(noise)
    _answered("inspect", path)
    _answered("estimate", path, path)
