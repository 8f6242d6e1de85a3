"""Tables as LaTeX: a whole document, or one table to include in another."""

from __future__ import annotations

from collections.abc import Iterable

from kdey.experiments.tables.model import Entry, Line, Table

_PREAMBLE = r"""\documentclass{article}
\usepackage[a4paper,landscape,margin=1.5cm]{geometry}
\usepackage[table]{xcolor}
\usepackage{graphicx}
\begin{document}
"""
_ESCAPES = {
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
_MARKS = {"†": r"$^{\dagger}$", "‡": r"$^{\ddagger}$", "": r"$^{\phantom{\ddagger}}$"}


def to_latex_document(tables: Iterable[Table]) -> str:
    """Return a document of all tables, ready to compile."""
    return _PREAMBLE + "\n".join(map(to_latex, tables)) + "\\end{document}\n"


def to_latex(table: Table) -> str:
    r"""Return a table to include; its document needs ``[table]{xcolor}`` and ``graphicx``."""
    body = [_families(table), _columns(table), *_lines(table)]
    lines = [
        r"\begin{table}[p]",
        r"\centering",
        r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{|l|{'r|' * len(table.columns)}}}",
        *[line for line in body if line],
        r"\end{tabular}}",
        rf"\caption{{{escape('. '.join([table.title, *table.notes]))}}}",
        rf"\label{{tab:{table.name}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _families(table: Table) -> str:
    if not table.families:
        return r"\hline"
    last = len(table.columns) + 1
    cells = [rf"\multicolumn{{{span}}}{{c|}}{{{escape(name)}}}" for name, span in table.headings()]
    return (
        rf"\cline{{2-{last}}}"
        + "\n"
        + r"\multicolumn{1}{c|}{} & "
        + " & ".join(cells)
        + r" \\\hline"
    )


def _columns(table: Table) -> str:
    names = [rf"\textbf{{{escape(table.corner)}}}", *map(escape, table.columns)]
    return " & ".join(names) + r" \\\hline"


def _lines(table: Table) -> Iterable[str]:
    summary = False
    for line in table.lines:
        if line.summary and not summary:
            yield r"\hline"
        summary = line.summary
        yield _line(line)
    yield r"\hline"


def _line(line: Line) -> str:
    name = escape(line.name)
    first = rf"\textit{{{name}}}" if line.summary else name
    return " & ".join([first, *map(_entry, line.entries)]) + r" \\"


def _entry(entry: Entry) -> str:
    if not entry.text:
        return ""
    text = escape(entry.text)
    text = rf"\textbf{{{text}}}" if entry.best else text
    return text + _MARKS[entry.mark] + _colour(entry.shade)


def _colour(shade: float | None) -> str:
    """Return the paper's colours: 35 % of green for the best, 35 % of red for the worst."""
    if shade is None:
        return ""
    name = "green" if shade >= 0 else "red"
    return rf"\cellcolor{{{name}!{round(35 * abs(shade))}}}"


def escape(text: str) -> str:
    """Return text that LaTeX prints as it is."""
    return "".join(_ESCAPES.get(sign, sign) for sign in text)
