"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from kdey.experiments.tables.model import Entry, Table


def to_markdown(tables: Iterable[Table]) -> str:
    """Return tables as Markdown, each under its title; each note once, at the end."""
    made = list(tables)
    notes = dict.fromkeys(note for table in made for note in table.notes)
    return "\n\n".join([*map(_table, made), *map(_escape, notes)]) + "\n"


def _table(table: Table) -> str:
    head = [_escape(table.corner), *map(_escape, table.columns)]
    rows = [_row(head), _row(["---", *["---:"] * len(table.columns)])]
    for line in table.lines:
        name = f"*{_escape(line.name)}*" if line.summary else _escape(line.name)
        rows.append(_row([name, *map(_entry, line.entries)]))
    return f"**{_escape(table.title)}**\n\n" + "\n".join(rows)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _entry(entry: Entry) -> str:
    text = _escape(entry.text)
    return (f"**{text}**" if entry.best and text else text) + entry.mark


def _escape(text: str) -> str:
    for sign in "\\|*_<>[]`":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")
