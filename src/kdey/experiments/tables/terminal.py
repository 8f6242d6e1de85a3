"""Tables in the terminal, by rich (extra ``cli``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kdey.experiments.tables.model import Entry, Table


def print_tables(tables: Iterable[Table], console: Any = None) -> None:
    """Print tables, in colours where the terminal has them; each note once, at the end.

    A table wider than the terminal is printed in parts of so many columns as fit: no number is
    ever cut short.
    """
    from rich.console import Console
    from rich.text import Text

    out = Console() if console is None else console
    made = list(tables)
    for table in made:
        out.print(Text(f"{table.title} ({table.name})", style="bold"))
        for part in _parts(table, out.width):
            out.print(_drawn(table, part))
    for note in dict.fromkeys(note for table in made for note in table.notes):
        out.print(Text(note, style="dim"))


def _parts(table: Table, width: int) -> Iterator[slice]:
    """Yield the columns in runs that fit, at least one column in each."""
    widths = [
        max(len(name), *(_width(line.entries[i]) for line in table.lines)) + 3
        for i, name in enumerate(table.columns)
    ]
    first = max(len(name) for name in (table.corner, *(line.name for line in table.lines))) + 4
    start = 0
    while start < len(widths):
        stop, used = start + 1, first + widths[start]
        while stop < len(widths) and used + widths[stop] <= width:
            used += widths[stop]
            stop += 1
        yield slice(start, stop)
        start = stop


def _drawn(table: Table, part: slice) -> Any:
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn()
    drawn.add_column(Text(table.corner), no_wrap=True)
    for name in table.columns[part]:
        drawn.add_column(Text(name), justify="right", no_wrap=True)
    for number, line in enumerate(table.lines):
        if line.summary and number and not table.lines[number - 1].summary:
            drawn.add_section()
        cells = [Text(e.text + e.mark, style=_style(e)) for e in line.entries[part]]
        drawn.add_row(Text(line.name, style="italic" if line.summary else ""), *cells)
    return drawn


def _width(entry: Entry) -> int:
    return len(entry.text) + len(entry.mark)


def _style(entry: Entry) -> str:
    """Return bold for the best, and a colour between green and red."""
    bold = "bold " if entry.best else ""
    if entry.shade is None:
        return bold.strip()
    share = abs(entry.shade)
    strong, weak = round(150 + 70 * share), round(200 - 120 * share)
    red, green = (weak, strong) if entry.shade >= 0 else (strong, weak)
    return f"{bold}rgb({red},{green},{weak})"
