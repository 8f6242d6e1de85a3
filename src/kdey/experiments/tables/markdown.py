"""Tables as Markdown."""

from __future__ import annotations

from kdey.experiments.tables.model import Entry, Table


def to_markdown(table: Table) -> str:
    """Return a table as Markdown: title, table, notes."""
    head = [_escape(table.corner), *map(_escape, table.columns)]
    rows = [_row(head), _row(["---", *["---:"] * len(table.columns)])]
    for line in table.lines:
        name = f"*{_escape(line.name)}*" if line.summary else _escape(line.name)
        rows.append(_row([name, *map(_entry, line.entries)]))
    parts = [f"**{_escape(table.title)}**", "\n".join(rows), *map(_escape, table.notes)]
    return "\n\n".join(parts) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _entry(entry: Entry) -> str:
    text = _escape(entry.text)
    return (f"**{text}**" if entry.best and text else text) + entry.mark


def _escape(text: str) -> str:
    for sign in "\\|*_<>":
        text = text.replace(sign, f"\\{sign}")
    return text
