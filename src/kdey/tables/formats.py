"""Tables written as CSV, HTML, LaTeX, Markdown and terminal output: one writer per format.

The writers take the tables of :mod:`kdey.tables.display` and return text; only
:func:`print_tables` prints, and it needs rich (extra ``cli``).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from kdey.tables.cells import parse_number
from kdey.tables.display import Cell, Column, Row, Table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

# CSV

CSV_COLUMNS = ("row", "column", "value", "text", "best", "mark", "shade")


def to_csv(table: Table) -> str:
    """Return the cells of a table that are not empty, one per line, in full precision."""
    return csv_text(CSV_COLUMNS, _csv_records(table))


def _csv_records(table: Table) -> Iterator[tuple[Any, ...]]:
    for row in table.rows:
        for column, cell in zip(table.columns[1:], row.cells[1:], strict=True):
            if cell.text:
                value = "" if cell.value is None else repr(float(cell.value))
                shade = "" if cell.shade is None else f"{cell.shade:.3f}"
                yield row.name, column.name, value, cell.text, int(cell.best), cell.mark, shade


#: Signs with which a spreadsheet takes a cell of a CSV file for a formula.
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def csv_text(columns: Sequence[str], records: Iterable[Sequence[Any]], line_end: str = "\n") -> str:
    """Return records as CSV; None is an empty field.

    Texts that a spreadsheet would take for a formula begin with an apostrophe; numbers stay what
    they are, also where they are written as text.
    """
    # A cell is quoted where it holds a character of the line's end: both must be in it.
    lines = _Lines()
    writer = csv.writer(lines, lineterminator="\r\n")
    writer.writerow(map(_guarded, columns))
    writer.writerows([_guarded(cell) for cell in record] for record in records)
    return line_end.join([*lines.texts, ""])


class _Lines:
    """A stream that keeps the lines of a CSV writer without their ends."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def write(self, line: str) -> None:
        """Keep a line."""
        self.texts.append(line.removesuffix("\r\n"))


def _guarded(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith(_FORMULA_SIGNS):
        return cell
    number = parse_number(cell)
    return cell if number is not None and number == number else f"'{cell}"


# HTML

_PAGE_STYLE = """
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
#: Red, green and blue of the best and of the worst cell of a row.
_GREEN, _RED = (76, 175, 80), (229, 83, 75)
#: Texts up to this length are not wrapped in a sortable table.
_SHORT = 18


def to_html(tables: Iterable[Table], title: str) -> str:
    """Return one page of all tables that needs no other file; every text is escaped."""
    listed = list(tables)
    links = "".join(
        f'<a href="#{_anchor(t)}">{escape(t.title)} ({escape(t.name)})</a>' for t in listed
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(title)}</title>\n<style>{_PAGE_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n<nav>{links}</nav>\n"
        + "\n".join(map(_page_section, listed))
        + "\n</body>\n</html>\n"
    )


def _page_section(table: Table) -> str:
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in table.notes)
    return (
        f'<h2 id="{_anchor(table)}">{escape(table.title)}</h2>\n<div class="scroll"><table>\n'
        f"{_html_body(table, sortable=False)}\n</table></div>\n{notes}"
    )


def sortable_html(table: Table) -> str:
    """Return a ``<table>`` that the script of a report can sort: cells carry their numbers."""
    return (
        f'<table data-sortable id="{escape(table.name)}">\n'
        f"<caption>{escape(table.title)}</caption>\n{_html_body(table, sortable=True)}\n</table>"
    )


def _html_body(table: Table, *, sortable: bool) -> str:
    """Return head and body of a table; only a sortable one has classes and values in its cells."""
    families = "".join(f'<th colspan="{span}">{escape(name)}</th>' for name, span in table.families)
    above = f"<tr><th></th>{families}</tr>" if families else ""
    names = "".join(_html_heading(column, sortable) for column in table.columns)
    rows = "".join(_html_row(row, table.columns, sortable) for row in table.rows)
    return f"<thead>{above}<tr>{names}</tr></thead>\n<tbody>{rows}</tbody>"


def _html_heading(column: Column, sortable: bool) -> str:
    if not sortable:
        return f"<th>{escape(column.name)}</th>"
    numeric = ' class="n"' if column.numeric else ""
    return f'<th scope="col"{numeric}><button type="button">{escape(column.name)}</button></th>'


def _html_row(row: Row, columns: Sequence[Column], sortable: bool) -> str:
    kind = "" if row.kind == "plain" else f' class="{row.kind}"'
    cells = []
    for place, (cell, column) in enumerate(zip(row.cells, columns, strict=True)):
        tag, scope = ("td", "") if place else ("th", ' scope="row"')
        details = _sort_attributes(cell, column) if sortable else ""
        cells.append(f"<{tag}{scope}{details}{_html_colour(cell.shade)}>{_html_text(cell)}</{tag}>")
    return f"<tr{kind}>{''.join(cells)}</tr>\n"


def _sort_attributes(cell: Cell, column: Column) -> str:
    kind = "n" if column.numeric else "short" if len(cell.text) <= _SHORT else ""
    attributes = f' class="{kind}"' if kind else ""
    return attributes if cell.value is None else f'{attributes} data-value="{cell.value}"'


def _html_text(cell: Cell) -> str:
    text = escape(cell.text)
    text = f"<b>{text}</b>" if cell.best else text
    return f"{text}<sup>{escape(cell.mark)}</sup>" if cell.mark else text


def _html_colour(shade: float | None) -> str:
    if shade is None:
        return ""
    red, green, blue = _GREEN if shade >= 0 else _RED
    return f' style="background:rgba({red},{green},{blue},{0.65 * abs(shade):.2f})"'


def _anchor(table: Table) -> str:
    return "".join(sign if sign.isalnum() else "-" for sign in table.name)


# LaTeX

_LATEX_PREAMBLE = r"""\documentclass{article}
\usepackage[a4paper,landscape,margin=1.5cm]{geometry}
\usepackage[table]{xcolor}
\usepackage{graphicx}
\begin{document}
"""
_LATEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "[": "{[}",  # after the end of a row LaTeX would read it as an option
    "*": "{*}",
    "\n": " ",
    "±": r"$\pm$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
}
_LATEX_MARKS = {"†": r"$^{\dagger}$", "‡": r"$^{\ddagger}$", "": r"$^{\phantom{\ddagger}}$"}


def to_latex_document(tables: Iterable[Table]) -> str:
    """Return a document of all tables, ready to compile."""
    return _LATEX_PREAMBLE + "\n".join(map(to_latex, tables)) + "\\end{document}\n"


def to_latex(table: Table) -> str:
    r"""Return a table to include; its document needs ``[table]{xcolor}`` and ``graphicx``."""
    lines = [
        r"\begin{table}[p]",
        r"\centering",
        r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{|l|{'r|' * (len(table.columns) - 1)}}}",
        _latex_families(table),
        _latex_headings(table),
        *_latex_rows(table),
        r"\end{tabular}}",
        rf"\caption{{{escape_latex('. '.join([table.title, *table.notes]))}}}",
        rf"\label{{tab:{table.name}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_families(table: Table) -> str:
    if not table.families:
        return r"\hline"
    cells = [
        rf"\multicolumn{{{span}}}{{c|}}{{{escape_latex(name)}}}" for name, span in table.families
    ]
    rule = rf"\cline{{2-{len(table.columns)}}}"
    return f"{rule}\n\\multicolumn{{1}}{{c|}}{{}} & {' & '.join(cells)} \\\\\\hline"


def _latex_headings(table: Table) -> str:
    corner, *names = (escape_latex(column.name) for column in table.columns)
    return " & ".join([rf"\textbf{{{corner}}}", *names]) + r" \\\hline"


def _latex_rows(table: Table) -> Iterator[str]:
    previous = "plain"
    for row in table.rows:
        if row.kind == "summary" and previous != "summary":
            yield r"\hline"
        previous = row.kind
        name = escape_latex(row.name)
        first = rf"\textit{{{name}}}" if row.kind == "summary" else name
        yield " & ".join([first, *map(_latex_cell, row.cells[1:])]) + r" \\"
    yield r"\hline"


def _latex_cell(cell: Cell) -> str:
    if not cell.text:
        return ""
    text = escape_latex(cell.text)
    text = rf"\textbf{{{text}}}" if cell.best else text
    return text + _LATEX_MARKS[cell.mark] + _latex_colour(cell.shade)


def _latex_colour(shade: float | None) -> str:
    """Return the paper's colours: 35 % of green for the best, 35 % of red for the worst."""
    if shade is None:
        return ""
    name = "green" if shade >= 0 else "red"
    return rf"\cellcolor{{{name}!{round(35 * abs(shade))}}}"


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints unchanged."""
    return "".join(_LATEX_ESCAPES.get(sign, sign) for sign in text)


# Markdown


def to_markdown(tables: Iterable[Table]) -> str:
    """Return tables as Markdown, each under its title; each note once, at the end."""
    listed = list(tables)
    parts = [*map(_markdown_table, listed), *map(_escape_markdown, _distinct_notes(listed))]
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    rows = [
        _markdown_row([_escape_markdown(column.name) for column in table.columns]),
        _markdown_row(["---", *["---:"] * (len(table.columns) - 1)]),
    ]
    for row in table.rows:
        name = _escape_markdown(row.name)
        name = f"*{name}*" if row.kind == "summary" else name
        rows.append(_markdown_row([name, *map(_markdown_cell, row.cells[1:])]))
    return f"**{_escape_markdown(table.title)}**\n\n" + "\n".join(rows)


def _markdown_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell) -> str:
    text = _escape_markdown(cell.text)
    return (f"**{text}**" if cell.best and text else text) + cell.mark


def _escape_markdown(text: str) -> str:
    for sign in "\\|*_<>[]`":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")


def _distinct_notes(tables: Sequence[Table]) -> list[str]:
    return list(dict.fromkeys(note for table in tables for note in table.notes))


# Terminal

_ROW_STYLES = {"plain": None, "summary": None, "best": "bold green", "muted": "dim"}


def print_tables(tables: Iterable[Table], console: Console | None = None) -> None:
    """Print tables, in colours where the terminal has them; each note once, at the end.

    A table wider than the terminal is printed in parts of as many columns as fit: no number is
    ever cut short.
    """
    from rich.console import Console
    from rich.text import Text

    out = Console() if console is None else console
    listed = list(tables)
    for table in listed:
        out.print(Text(f"{table.title} ({table.name})", style="bold"))
        for columns in _fitting_columns(table, out.width):
            out.print(terminal_table(table, columns, wrap=False))
    for note in _distinct_notes(listed):
        out.print(Text(note, style="dim"))


def _fitting_columns(table: Table, width: int) -> Iterator[slice]:
    """Yield the columns after the first in runs that fit, at least one column in each."""
    widths = [
        max(len(column.name), *(len(row.cells[i].text + row.cells[i].mark) for row in table.rows))
        for i, column in enumerate(table.columns)
    ]
    first, padded = widths[0] + 4, [w + 3 for w in widths[1:]]
    start = 0
    while start < len(padded):
        stop, used = start + 1, first + padded[start]
        while stop < len(padded) and used + padded[stop] <= width:
            used += padded[stop]
            stop += 1
        yield slice(start + 1, stop + 1)
        start = stop


def terminal_table(
    table: Table,
    columns: slice = slice(1, None),
    *,
    wrap: bool = True,
    titled: bool = False,
    ruled: bool = True,
) -> RichTable:
    """Return a table as rich prints it.

    Parameters
    ----------
    table : Table
    columns : slice
        Which columns to show beside the first.
    wrap : bool
        Whether texts may be wrapped where the terminal is narrow.
    titled : bool
        Whether the title stands above the table.
    ruled : bool
        Whether columns have lines between them; otherwise only the headings are underlined.
    """
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    title = table.title if titled else None
    drawn = RichTable(title=title, box=box.HEAVY_HEAD if ruled else box.SIMPLE_HEAD)
    for column in (table.columns[0], *table.columns[columns]):
        justify: Any = "right" if column.numeric else "left"
        # A word that is longer than its column goes on in the next line.
        drawn.add_column(Text(column.name), justify=justify, no_wrap=not wrap, overflow="fold")
    for place, row in enumerate(table.rows):
        if row.kind == "summary" and place and table.rows[place - 1].kind != "summary":
            drawn.add_section()
        name = Text(row.name, style="italic" if row.kind == "summary" else "")
        cells = [
            Text(cell.text + cell.mark, style=_cell_style(cell)) for cell in row.cells[columns]
        ]
        drawn.add_row(name, *cells, style=_ROW_STYLES[row.kind])
    return drawn


def _cell_style(cell: Cell) -> str:
    """Return bold for the best, and a colour between green and red."""
    bold = "bold " if cell.best else ""
    if cell.shade is None:
        return bold.strip()
    share = abs(cell.shade)
    strong, weak = round(150 + 70 * share), round(200 - 120 * share)
    red, green = (weak, strong) if cell.shade >= 0 else (strong, weak)
    return f"{bold}rgb({red},{green},{weak})"
