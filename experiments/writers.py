"""Tables of the paper as CSV, HTML, LaTeX, Markdown and terminal output: one writer per format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from kdey.tables.output import Cell, Row, Table, csv_text, headings, terminal_table

if TYPE_CHECKING:
    from rich.console import Console

#: Red, green and blue of the best and of the worst cell of a row.
_GREEN, _RED = (76, 175, 80), (229, 83, 75)
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
        f"{_html_body(table)}\n</table></div>\n{notes}"
    )


def _html_body(table: Table) -> str:
    """Return head and body of a table."""
    families = "".join(f'<th colspan="{span}">{escape(name)}</th>' for name, span in table.families)
    above = f"<tr><th></th>{families}</tr>" if families else ""
    names = "".join(f"<th>{escape(column.name)}</th>" for column in table.columns)
    rows = "".join(map(_html_row, table.rows))
    return f"<thead>{above}<tr>{names}</tr></thead>\n<tbody>{rows}</tbody>"


def _html_row(row: Row) -> str:
    kind = "" if row.kind == "plain" else f' class="{row.kind}"'
    cells = []
    for place, cell in enumerate(row.cells):
        tag, scope = ("td", "") if place else ("th", ' scope="row"')
        text = f"<b>{escape(cell.text)}</b>" if cell.best else escape(cell.text)
        mark = f"<sup>{escape(cell.mark)}</sup>" if cell.mark else ""
        cells.append(f"<{tag}{scope}{_html_colour(cell.shade)}>{text}{mark}</{tag}>")
    return f"<tr{kind}>{''.join(cells)}</tr>\n"


def _html_colour(shade: float | None) -> str:
    if shade is None:
        return ""
    red, green, blue = _GREEN if shade >= 0 else _RED
    return f' style="background:rgba({red},{green},{blue},{0.65 * abs(shade):.2f})"'


def _anchor(table: Table) -> str:
    return "".join(sign if sign.isalnum() else "-" for sign in table.name)


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


def fit_to_page(table: Table, corner: str, most: int = 7) -> list[Table]:
    """Return a table as it fits on a page: turned over, and in pieces where it is still too wide.

    Parameters
    ----------
    table : Table
    corner : str
        Heading of the names of the rows where the table is turned over: what its columns were.
    most : int, default=7
        Columns beside the names of the rows.

    Returns
    -------
    tables : list of Table
        The table itself if it is narrow. Otherwise its columns become rows and its rows columns,
        summaries first, in as many tables as there are runs of ``most`` columns.
    """
    if len(table.columns) - 1 <= most:
        return [table]
    order = sorted(range(len(table.rows)), key=lambda i: table.rows[i].kind != "summary")
    runs = [order[start : start + most] for start in range(0, len(order), most)]
    pieces = []
    for number_of_piece, run in enumerate(runs, start=1):
        which = "" if len(runs) == 1 else f" ({number_of_piece} of {len(runs)})"
        rows = tuple(
            Row.named(column.name, (table.rows[i].cells[j] for i in run))
            for j, column in enumerate(table.columns[1:], start=1)
        )
        columns = headings(corner, [table.rows[i].name for i in run])
        name = table.name + (f"-{number_of_piece}" if which else "")
        pieces.append(Table(name, table.title + which, columns, rows, table.notes))
    return pieces
