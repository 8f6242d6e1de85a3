"""Tables in the terminal."""

from __future__ import annotations

import io

import pytest

from experiments.settings import METHODS
from experiments.tables import make_tables
from experiments.writers import print_tables

from .cases import drawn_results

rich = pytest.importorskip("rich.console")


@pytest.mark.parametrize("width", [40, 80, 300])
def test_no_number_is_cut_whatever_the_width(width: int) -> None:
    methods = tuple(name for name in METHODS if name != "HDy")
    (table, *_) = [
        t
        for t in make_tables(drawn_results(("letter", "digits"), methods))
        if t.name == "multi-mae-all"
    ]
    out = io.StringIO()
    print_tables([table], rich.Console(file=out, width=width))
    text = out.getvalue()
    assert "…" not in text
    for row in table.rows:
        for cell in row.cells:
            assert f" {cell.text}{cell.mark} " in text
    assert max(map(len, text.splitlines())) <= width


def test_notes_come_once() -> None:
    tables = make_tables(drawn_results(("letter", "digits"), ("PACC", "EMQ")))
    out = io.StringIO()
    print_tables(tables, rich.Console(file=out, width=400))
    assert out.getvalue().count("Bold: the best of a data set") == 1
