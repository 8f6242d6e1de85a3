"""Tables as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from kdey.experiments.tables.model import Entry, Line, Table

_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2rem; color: #222; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .5rem; border: 1px solid #ccc; text-align: right; white-space: nowrap; }
th { background: #f4f4f4; } tbody th { text-align: left; font-weight: normal; }
thead tr:first-child th { text-align: center; }
tr.summary th, tr.summary td { font-style: italic; border-top: 2px solid #888; }
p.note { color: #555; max-width: 60rem; font-size: .9em; }
nav a { display: block; }
"""
#: The colours of the best and the worst of a line.
_GREEN, _RED = (76, 175, 80), (229, 83, 75)


def to_html(tables: Iterable[Table], title: str) -> str:
    """Return a page of all tables, everything in it escaped."""
    made = list(tables)
    links = "".join(f'<a href="#{_slug(t)}">{escape(t.title)} ({escape(t.name)})</a>' for t in made)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n<nav>{links}</nav>\n"
        + "\n".join(map(_table, made))
        + "\n</body>\n</html>\n"
    )


def _table(table: Table) -> str:
    families = ""
    if table.families:
        spans = "".join(
            f'<th colspan="{span}">{escape(name)}</th>' for name, span in table.headings()
        )
        families = f"<tr><th></th>{spans}</tr>"
    names = "".join(f"<th>{escape(name)}</th>" for name in (table.corner, *table.columns))
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in table.notes)
    return (
        f'<h2 id="{_slug(table)}">{escape(table.title)}</h2>\n<div class="scroll"><table>\n'
        f"<thead>{families}<tr>{names}</tr></thead>\n"
        f"<tbody>{''.join(map(_line, table.lines))}</tbody>\n</table></div>\n{notes}"
    )


def _line(line: Line) -> str:
    kind = ' class="summary"' if line.summary else ""
    cells = "".join(map(_entry, line.entries))
    return f'<tr{kind}><th scope="row">{escape(line.name)}</th>{cells}</tr>\n'


def _entry(entry: Entry) -> str:
    text = escape(entry.text)
    text = f"<b>{text}</b>" if entry.best else text
    mark = f"<sup>{escape(entry.mark)}</sup>" if entry.mark else ""
    return f"<td{_colour(entry.shade)}>{text}{mark}</td>"


def _colour(shade: float | None) -> str:
    if shade is None:
        return ""
    red, green, blue = _GREEN if shade >= 0 else _RED
    return f' style="background:rgba({red},{green},{blue},{0.65 * abs(shade):.2f})"'


def _slug(table: Table) -> str:
    return "".join(sign if sign.isalnum() else "-" for sign in table.name)
