"""Tables written to files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from kdey.experiments.tables.csvtable import to_csv
from kdey.experiments.tables.html import to_html
from kdey.experiments.tables.latex import to_latex, to_latex_document
from kdey.experiments.tables.markdown import to_markdown
from kdey.experiments.tables.model import Table
from kdey.writing import write_whole

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
