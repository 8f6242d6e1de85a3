"""Tables as CSV: one line per entry, numbers in full precision.

Tables as one HTML page that needs nothing else.

Tables as LaTeX: a whole document, or one table to include in another.

Tables as Markdown.

Tables in the terminal, by rich (extra ``cli``).

Tables written to files.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from kdey._support.files import write_whole
from kdey.paper.tables.model import Entry, Line, Table

FIELDS = ("row", "column", "value", "text", "best", "mark", "shade")


def to_csv(table: Table) -> str:
    """Return the entries of a table that are not empty, in long form."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for line in table.lines:
        for column, entry in zip(table.columns, line.entries, strict=True):
            if entry.text:
                number = "" if entry.value is None else repr(float(entry.value))
                shade = "" if entry.shade is None else f"{entry.shade:.3f}"
                row = (line.name, column, number, entry.text, int(entry.best), entry.mark, shade)
                writer.writerow(row)
    return out.getvalue()


_HTML_STYLE = """
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
    links = "".join(
        f'<a href="#{_html_slug(t)}">{escape(t.title)} ({escape(t.name)})</a>' for t in made
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(title)}</title>\n<style>{_HTML_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n<nav>{links}</nav>\n"
        + "\n".join(map(_html_table, made))
        + "\n</body>\n</html>\n"
    )


def _html_table(table: Table) -> str:
    families = ""
    if table.families:
        spans = "".join(
            f'<th colspan="{span}">{escape(name)}</th>' for name, span in table.headings()
        )
        families = f"<tr><th></th>{spans}</tr>"
    names = "".join(f"<th>{escape(name)}</th>" for name in (table.corner, *table.columns))
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in table.notes)
    return (
        f'<h2 id="{_html_slug(table)}">{escape(table.title)}</h2>\n<div class="scroll"><table>\n'
        f"<thead>{families}<tr>{names}</tr></thead>\n"
        f"<tbody>{''.join(map(_html_line, table.lines))}</tbody>\n</table></div>\n{notes}"
    )


def _html_line(line: Line) -> str:
    kind = ' class="summary"' if line.summary else ""
    cells = "".join(map(_html_entry, line.entries))
    return f'<tr{kind}><th scope="row">{escape(line.name)}</th>{cells}</tr>\n'


def _html_entry(entry: Entry) -> str:
    text = escape(entry.text)
    text = f"<b>{text}</b>" if entry.best else text
    mark = f"<sup>{escape(entry.mark)}</sup>" if entry.mark else ""
    return f"<td{_html_colour(entry.shade)}>{text}{mark}</td>"


def _html_colour(shade: float | None) -> str:
    if shade is None:
        return ""
    red, green, blue = _GREEN if shade >= 0 else _RED
    return f' style="background:rgba({red},{green},{blue},{0.65 * abs(shade):.2f})"'


def _html_slug(table: Table) -> str:
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
    "[": "{[}",  # after the end of a line it would be read as an option of that end
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
    body = [_latex_families(table), _latex_columns(table), *_latex_lines(table)]
    lines = [
        r"\begin{table}[p]",
        r"\centering",
        r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{|l|{'r|' * len(table.columns)}}}",
        *[line for line in body if line],
        r"\end{tabular}}",
        rf"\caption{{{escape_latex('. '.join([table.title, *table.notes]))}}}",
        rf"\label{{tab:{table.name}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_families(table: Table) -> str:
    if not table.families:
        return r"\hline"
    last = len(table.columns) + 1
    cells = [
        rf"\multicolumn{{{span}}}{{c|}}{{{escape_latex(name)}}}" for name, span in table.headings()
    ]
    return (
        rf"\cline{{2-{last}}}"
        + "\n"
        + r"\multicolumn{1}{c|}{} & "
        + " & ".join(cells)
        + r" \\\hline"
    )


def _latex_columns(table: Table) -> str:
    names = [rf"\textbf{{{escape_latex(table.corner)}}}", *map(escape_latex, table.columns)]
    return " & ".join(names) + r" \\\hline"


def _latex_lines(table: Table) -> Iterable[str]:
    summary = False
    for line in table.lines:
        if line.summary and not summary:
            yield r"\hline"
        summary = line.summary
        yield _latex_line(line)
    yield r"\hline"


def _latex_line(line: Line) -> str:
    name = escape_latex(line.name)
    first = rf"\textit{{{name}}}" if line.summary else name
    return " & ".join([first, *map(_latex_entry, line.entries)]) + r" \\"


def _latex_entry(entry: Entry) -> str:
    if not entry.text:
        return ""
    text = escape_latex(entry.text)
    text = rf"\textbf{{{text}}}" if entry.best else text
    return text + _LATEX_MARKS[entry.mark] + _latex_colour(entry.shade)


def _latex_colour(shade: float | None) -> str:
    """Return the paper's colours: 35 % of green for the best, 35 % of red for the worst."""
    if shade is None:
        return ""
    name = "green" if shade >= 0 else "red"
    return rf"\cellcolor{{{name}!{round(35 * abs(shade))}}}"


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints as it is."""
    return "".join(_LATEX_ESCAPES.get(sign, sign) for sign in text)


def to_markdown(tables: Iterable[Table]) -> str:
    """Return tables as Markdown, each under its title; each note once, at the end."""
    made = list(tables)
    notes = dict.fromkeys(note for table in made for note in table.notes)
    return "\n\n".join([*map(_markdown_table, made), *map(_markdown_escape, notes)]) + "\n"


def _markdown_table(table: Table) -> str:
    head = [_markdown_escape(table.corner), *map(_markdown_escape, table.columns)]
    rows = [_markdown_row(head), _markdown_row(["---", *["---:"] * len(table.columns)])]
    for line in table.lines:
        name = f"*{_markdown_escape(line.name)}*" if line.summary else _markdown_escape(line.name)
        rows.append(_markdown_row([name, *map(_markdown_entry, line.entries)]))
    return f"**{_markdown_escape(table.title)}**\n\n" + "\n".join(rows)


def _markdown_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_entry(entry: Entry) -> str:
    text = _markdown_escape(entry.text)
    return (f"**{text}**" if entry.best and text else text) + entry.mark


def _markdown_escape(text: str) -> str:
    for sign in "\\|*_<>[]`":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")


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
        for part in _terminal_parts(table, out.width):
            out.print(_terminal_table(table, part))
    for note in dict.fromkeys(note for table in made for note in table.notes):
        out.print(Text(note, style="dim"))


def _terminal_parts(table: Table, width: int) -> Iterator[slice]:
    """Yield the columns in runs that fit, at least one column in each."""
    widths = [
        max(len(name), *(_terminal_width(line.entries[i]) for line in table.lines)) + 3
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


def _terminal_table(table: Table, part: slice) -> Any:
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn()
    drawn.add_column(Text(table.corner), no_wrap=True)
    for name in table.columns[part]:
        drawn.add_column(Text(name), justify="right", no_wrap=True)
    for number, line in enumerate(table.lines):
        if line.summary and number and not table.lines[number - 1].summary:
            drawn.add_section()
        cells = [Text(e.text + e.mark, style=_terminal_style(e)) for e in line.entries[part]]
        drawn.add_row(Text(line.name, style="italic" if line.summary else ""), *cells)
    return drawn


def _terminal_width(entry: Entry) -> int:
    return len(entry.text) + len(entry.mark)


def _terminal_style(entry: Entry) -> str:
    """Return bold for the best, and a colour between green and red."""
    bold = "bold " if entry.best else ""
    if entry.shade is None:
        return bold.strip()
    share = abs(entry.shade)
    strong, weak = round(150 + 70 * share), round(200 - 120 * share)
    red, green = (weak, strong) if entry.shade >= 0 else (strong, weak)
    return f"{bold}rgb({red},{green},{weak})"


TITLE = "The paper's experiments, reproduced"


def write_tables(tables: Sequence[Table], folder: str | os.PathLike[str]) -> list[Path]:
    """Write all tables as HTML, Markdown and a LaTeX document, and each as CSV and LaTeX.

    Returns
    -------
    paths : list of the files written
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    texts = {
        "tables.html": to_html(tables, TITLE),
        "tables.md": to_markdown(tables),
        "tables.tex": to_latex_document(tables),
    }
    for table in tables:
        texts[f"{table.name}.csv"] = to_csv(table)
        texts[f"{table.name}.tex"] = to_latex(table)
    for name, text in texts.items():
        write_whole(target / name, text)
    return [target / name for name in texts]


def write_document(path: str | os.PathLike[str], tables: Mapping[str, Sequence[Table]]) -> None:
    """Replace the tables between the markers of a Markdown document.

    The tables of experiment ``multi`` go between ``<!-- tables: multi -->`` and
    ``<!-- end of tables: multi -->``; what stands elsewhere is left as it is.

    Parameters
    ----------
    tables : mapping from the name of an experiment to its tables
        Each needs its markers in the document; other markers are left alone.
    """
    target = Path(path)
    text = target.read_text(encoding="utf-8")
    for name, made in tables.items():
        start, end = f"<!-- tables: {name} -->", f"<!-- end of tables: {name} -->"
        if text.count(start) != 1 or text.count(end) != 1 or text.index(start) > text.index(end):
            raise ValueError(f"{target} must hold {start} and, after it, {end}, each once")
        body = to_markdown(made)
        between = re.compile(f"{re.escape(start)}.*{re.escape(end)}", re.DOTALL)
        text = between.sub(lambda _, new=f"{start}\n\n{body}\n{end}": new, text)  # type: ignore[misc]
    write_whole(target, text)
