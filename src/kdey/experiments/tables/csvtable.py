"""Tables as CSV: one line per entry, numbers in full precision."""

from __future__ import annotations

import csv
import io

from kdey.experiments.tables.model import Table

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
