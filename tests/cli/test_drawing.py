"""Tables on a terminal of 80 columns: columns give way, digits do not."""

from __future__ import annotations

import re
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("click")
pytest.importorskip("rich")


def drawn(table: Any) -> str:
    """Return a table for a terminal of 80 columns."""
    from kdey.cli.terminal import drawn_table

    return drawn_table(table, 80)


def answers(k: int, key: str = "north") -> Any:
    """Return a table as ``kdey estimate --by office`` makes it."""
    columns: dict[str, list[Any]] = {
        "office": [key] * k,
        "class": [f"class {number:02d}" for number in range(k)],
        "n": [12_345] * k,
        "n_missing": [0] * k,
        **{name: [0.12345 + number / 1000 for number in range(k)] for name in SHARES},
        "status": ["not checked (the check was turned off)"] * k,
    }
    return pa.table(columns)


SHARES = (*("estimate", "low", "high", "classify_and_count", "training_prevalence", "fit_p_value"),)


@pytest.mark.parametrize("k", [3, 10, 30])
def test_digits_stay_and_columns_that_give_way_are_named(k: int) -> None:
    """All columns were squeezed, so that a share was "0.1…"."""
    text = drawn(answers(k))
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    for number in range(k):
        line = next(line for line in text.splitlines() if f"class {number:02d}" in line)
        assert re.findall(r"0\.\d{4}\b", line) == [f"{0.12345 + number / 1000:.4f}"] * 3
    assert "(no room for n_missing, classify_and_count, training_prevalence" in text
    assert "--format csv has all columns)" in " ".join(text.split())


@pytest.mark.parametrize("k", [3, 10, 30])
def test_wide_tables_have_as_many_shares_as_fit(k: int) -> None:
    parts = {
        f"{name}[{number}]": [0.5] for name in ("estimate", "low", "high") for number in range(k)
    }
    text = drawn(pa.table({"office": ["north"], "n": [9], **parts, "status": ["no problem found"]}))
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert "estimate[0]" in text.splitlines()[1]
    assert "low[0]" not in text.splitlines()[1]
    assert ("status" in text.splitlines()[1]) == (k == 3)


def test_what_must_stay_makes_lines_longer() -> None:
    text = drawn(answers(3, key="x" * 90))
    assert f"{0.12345:.4f}" in text
    assert text.count("x") == 3 * 90
    small = pa.table({"method": ["a"], "ae": [0.25]})
    assert "no room" not in drawn(small)
    assert "0.2500" in drawn(small)
