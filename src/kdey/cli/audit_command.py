"""``kdey audit``: what the labels of a rule, a person or a language model are worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kdey.cli.command_options import check_columns, names, open_table, reading_options
from kdey.cli.terminal import check_outputs, deliver, guarded, output_options, say

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kdey.diagnostics import Audit
    from kdey.tables.sources import TableSource

    Labels = NDArray[np.object_]

#: Column of the rows to label next that says which row of the table each is, from 1.
ROW = "row"


@click.command()
@click.argument("table")
@click.option("--decided", required=True, help="Column of the decided labels, one in every row.")
@click.option("--human", required=True, help="Column of the labels of people; others are empty.")
@click.option("--by", multiple=True, help="Key columns of groups; repeat, or commas.")
@click.option("--weights", help="Column of sampling weights.")
@click.option("--clusters", help="Column of the clusters in which rows were drawn.")
@click.option("--confidence", default=0.95, help="Of the intervals.")
@click.option(
    "--target",
    type=click.Choice(["population", "bag"]),
    default="population",
    help="Intervals for the population behind the rows, or for these very rows.",
)
@click.option(
    "--more",
    multiple=True,
    metavar="FILE",
    help="A file of --next-rows in which the column of --human was filled in; repeat.",
)
@click.option("--next", "n_next", default=100, help="How many rows --next-rows writes.")
@click.option("--next-rows", metavar="FILE", help="Write the rows to label next.")
@click.option("--seed", default=0, help="Of the draw of rows to label next.")
@reading_options
@output_options
@guarded
def audit(table: str, **options: Any) -> None:
    """Say what decided labels in TABLE are worth, by the labels that people gave to some rows.

    Somebody has decided every row: a rule, a person, a language model. The labels of people, at
    random rows, correct the shares of the decisions, whatever is wrong with them; no model is
    needed. The rows to label next are those that narrow the intervals most.
    """
    outputs = (options["output"], options["format"]), (options["next_rows"], None)
    check_outputs((table, *options["more"]), *outputs)
    file = open_table(table, options)
    check_columns(file, options)
    keys = names(options["by"])
    frame = file.read([options["decided"], options["human"], *keys])
    columns = {name: frame[name].to_numpy() for name in (*keys, *_numbers(options))}
    decided, human = _labels(frame, options["decided"]), _labels(frame, options["human"])
    for path in options["more"]:
        _fill_in(human, decided, open_table(path, options), options)
    from kdey.diagnostics import audit as audit_labels

    found = audit_labels(
        decided,
        human,
        by={name: columns[name] for name in keys} or None,
        sample_weight=None if options["weights"] is None else columns[options["weights"]],
        clusters=None if options["clusters"] is None else columns[options["clusters"]],
        confidence=options["confidence"],
        target=options["target"],
        seed=options["seed"],
    )
    deliver(found.to_frame("pyarrow"), options["format"], options["output"], options["digits"])
    say(found.verdict)
    _say_classes(found)
    if options["next_rows"] is not None:
        _write_next(found, frame, options)


def _numbers(options: dict[str, Any]) -> list[str]:
    return [options[name] for name in ("weights", "clusters") if options[name] is not None]


def _labels(frame: Any, name: str) -> Labels:
    """Return a column of labels as texts, None where a cell is empty.

    A judge that writes 1 and people who write "1" mean the same class.
    """
    import numpy as np

    texts = [
        None if cell is None or cell != cell else _text(cell) for cell in frame[name].to_list()
    ]
    return np.array([text or None for text in texts], dtype=object)


def _text(cell: Any) -> str:
    whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell) if whole else cell).strip()


def _fill_in(human: Labels, decided: Labels, file: TableSource, options: dict[str, Any]) -> None:
    """Put the labels of a filled-in file of rows into the column of the table."""
    from kdey.tables.columns import require_names
    from kdey.tables.sources import TableError

    wanted = [ROW, options["decided"], options["human"]]
    require_names(file.columns, wanted, "column")
    frame = file.read(wanted[1:])
    rows = frame[ROW].to_list()
    said, labels = _labels(frame, options["decided"]), _labels(frame, options["human"])
    for row, decision, label in zip(rows, said, labels, strict=True):
        place = int(row) - 1 if str(row).isdigit() else -1
        if not 0 <= place < len(human) or decided[place] != decision:
            raise TableError(
                f"{file.name}: row {row} with decision {decision!r} is not in the table: give "
                "the table that the rows to label were drawn from"
            )
        if label is not None and human[place] not in (None, label):
            raise TableError(
                f"{file.name}: row {row} has the label {label!r}, but {human[place]!r} in the table"
            )
        human[place] = label if label is not None else human[place]


def _say_classes(found: Audit) -> None:
    """Say for each class how much of it the decisions find, and how much of what they say holds."""
    for row in found.judge("pyarrow").to_pylist():
        parts = []
        if row["n_human"]:
            parts.append(f"{100 * row['recall']:.0f} % of its rows are decided so")
        if row["n_decided"]:
            n = row["n_decided"]
            parts.append(f"{100 * row['precision']:.0f} % of such decisions are right ({n} labels)")
        say(f"  {row['class']}: {', '.join(parts) or 'no label tells'}")


def _write_next(found: Audit, frame: Any, options: dict[str, Any]) -> None:
    """Write the rows to label next, with their numbers in the table."""
    import pyarrow as pa

    rows = found.draw_next(options["n_next"], options["seed"])
    table = frame[rows.tolist()].to_arrow()
    if ROW in table.column_names:
        table = table.drop_columns([ROW])
    table = table.add_column(0, ROW, pa.array(rows + 1))
    deliver(table, None, options["next_rows"], 17)
