"""One model of a table, and what each format shows of it."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from experiments.tables import number, shaded
from experiments.writers import fit_to_page, to_html, to_markdown
from kdey.tables.output import (
    Cell,
    Heading,
    Row,
    Table,
    csv_text,
    headings,
    terminal_table,
)

TABLE = Table(
    "prices",
    "Prices <today>",
    (Heading("Fruit", numeric=False), Heading("n"), Heading("Origin", numeric=False)),
    (
        Row((Cell("apple"), Cell("1,200", 1200.0), Cell("far & wide"))),
        Row((Cell("pear"), Cell("–", -1.0), Cell("a name that is longer than the others"))),
    ),
)


def test_a_page_of_tables_carries_shades_and_families() -> None:
    columns = headings("set", ["a", "b", "c"], ["one", "one", "two"])
    table = Table("t", "T", columns, (Row.named("x", shaded(np.array([1.0, 2.0, np.nan]))),))
    assert table.families == [("one", 2), ("two", 1)]
    html = to_html([table], "page")
    assert '<tr><th></th><th colspan="2">one</th><th colspan="1">two</th></tr>' in html
    assert "<b>1.00000</b>" in html
    assert html.count("background:rgba") == 2
    assert "data-value" not in html


def test_a_table_without_families_has_no_row_for_them() -> None:
    assert TABLE.families == []
    assert "colspan" not in to_html([TABLE], "page")


def test_numbers_that_are_not_there_are_empty_cells() -> None:
    assert number(float("nan")) == Cell()
    assert number(0.25, 1) == Cell("0.2", 0.25)
    assert all(cell == Cell() for cell in shaded(np.full(2, np.nan)))


def test_equal_values_have_no_shade() -> None:
    assert [cell.shade for cell in shaded(np.array([0.5, 0.5]))] == [None, None]


def test_summary_rows_stand_out_in_markdown() -> None:
    table = Table("t", "T", headings("set", ["a"]), (Row.named("mean", [Cell("1")], "summary"),))
    assert "| *mean* | 1 |" in to_markdown([table])


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_csv_is_read_back_whatever_ends_its_lines(line_end: str) -> None:
    text = csv_text(["a", "b"], [['quoted "x", y', None], ["two\nlines", 0.1]], line_end)
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows == [["a", "b"], ['quoted "x", y', ""], ["two\nlines", "0.1"]]
    assert text.endswith(line_end)


def test_the_terminal_shows_names_as_they_are() -> None:
    console = pytest.importorskip("rich.console")
    stream = io.StringIO()
    rows = (Row((Cell("[bold]x[/bold]"), Cell("1"), Cell(""))),)
    table = Table("t", "[red]T", TABLE.columns, rows)
    console.Console(file=stream, width=80).print(terminal_table(table, ruled=False))
    assert "[bold]x[/bold]" in stream.getvalue()
    assert "Fruit" in stream.getvalue()


def test_a_wide_table_is_turned_over_and_cut_into_pieces() -> None:
    rows = [
        Row.named(name, map(number, [i + 0.1, i + 0.2, i + 0.3])) for i, name in enumerate("xyz")
    ]
    rows.append(Row.named("Average", map(number, [9.1, 9.2, 9.3]), "summary"))
    table = Table("t", "T", headings("set", ["a", "b", "c"]), tuple(rows), ("a note",))
    assert fit_to_page(table, "method", most=3) == [table]
    first, second = fit_to_page(table, "method", most=2)
    assert [column.name for column in first.columns] == ["method", "Average", "x"]
    assert [column.name for column in second.columns] == ["method", "y", "z"]
    assert [cell.text for cell in first.rows[1].cells] == ["b", "9.20000", "0.20000"]
    assert [row.name for row in second.rows] == ["a", "b", "c"]
    assert (first.title, second.title) == ("T (1 of 2)", "T (2 of 2)")
    assert to_markdown([first, second]).count("a note") == 1
    (whole,) = fit_to_page(Table("t", "T", table.columns, tuple(rows[:2])), "method", most=2)
    assert whole.title == "T"
