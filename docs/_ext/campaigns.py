"""Tables of the fuzzing campaigns, made from ``fuzz/results`` when the site is built.

``{campaign} solvers`` is a table with one line per kind of problem.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

RESULTS = Path(__file__).parents[2] / "fuzz" / "results"
#: Heading and entry of the totals, by campaign.
COLUMNS = {
    "solvers": {
        "cases": "cases",
        "problems": "problems",
        "refused": "refused",
        "unconverged": "unconverged",
        "of these without an optimum": "no_optimum",
        "twins": "twins",
        "against SLSQP": "oracles",
        "faults": "faults",
    },
    "estimators": {
        "fits": "cases",
        "inputs": "problems",
        "refused": "refused",
        "unconverged": "unconverged",
        "faults": "faults",
    },
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("campaign", Campaign)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


class Campaign(Directive):
    """The totals of a campaign as a table."""

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        """Return the table, and let the page depend on the file."""
        (name,) = self.arguments
        path = RESULTS / f"campaign_{name}.json"
        self.state.document.settings.env.note_dependency(str(path))
        head, *lines = rows(name, json.loads(path.read_text(encoding="utf-8")))
        table, group = nodes.table(), nodes.tgroup(cols=len(head))
        group += [nodes.colspec(colwidth=1) for _ in head]
        group += nodes.thead("", _row(head))
        group += nodes.tbody("", *map(_row, lines))
        table += group
        return [table]


def rows(name: str, totals: dict[str, Any]) -> list[list[str]]:
    """Return the headings and the lines of a campaign's table."""
    columns = COLUMNS[name]
    lines = [
        [kind, *(_number(values[entry]) for entry in columns.values())]
        for kind, values in totals["kinds"].items()
    ]
    return [["kind", *columns], *lines]


def _number(value: int | list[Any]) -> str:
    """Return a count with separators; of a list, the number of its entries."""
    return f"{len(value) if isinstance(value, list) else value:,}"


def _row(cells: list[str]) -> nodes.row:
    entries = [nodes.entry("", nodes.paragraph("", text)) for text in cells]
    return nodes.row("", *entries)
