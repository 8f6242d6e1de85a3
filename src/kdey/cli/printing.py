"""What commands print: lines, tables on a terminal or in a file, and errors in one line.

On a terminal, columns of a table give way where there is no room; digits never do.
"""

from __future__ import annotations

import functools
import io
import shutil
import sys
import unicodedata
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kdey.cli.exit_codes import USER_ERRORS, InputError, refusal, warnings_as_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from kdey.tables.output import Table

Command = TypeVar("Command", bound=Callable[..., Any])
OUTPUTS = ("table", "csv", "json", "parquet", "xlsx")


def guarded(command: Command) -> Command:
    """Give a command ``--debug``; without it, an error of the user's is one line, exit code 2."""

    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @functools.wraps(command)
    def run(*args: Any, debug: bool, **options: Any) -> Any:
        with warnings_as_lines(say):
            try:
                return command(*args, **options)
            except USER_ERRORS as error:
                if debug:
                    raise
                raise InputError(printable(refusal(error).message)) from error

    return run  # type: ignore[return-value]


def say(line: str) -> None:
    """Write a line to standard error."""
    click.echo(printable(line), err=True)


def printable(text: str) -> str:
    """Return a text with control characters spelled out, which a terminal would obey."""
    return "".join(
        f"\\x{ord(sign):02x}" if unicodedata.category(sign) == "Cc" else sign for sign in text
    )


def deliver(table: pa.Table, format: str | None, output: str | None) -> None:
    """Write a pyarrow table to a file, or to standard output: a drawn table on a terminal."""
    from kdey._io import write_whole
    from kdey.tables.output import format_of, table_bytes

    if format is None:
        drawn = output is None and sys.stdout.isatty()
        format = "table" if drawn else format_of(output)
    data = drawn_table(table).encode() if format == "table" else table_bytes(table, format)
    if output is None:
        click.echo(data, nl=False)
    else:
        write_whole(output, data)
        say(f"wrote {output}")


def output_options(command: Command) -> Command:
    """Give a command ``--format`` and ``--output``."""
    chosen = click.option(
        "--format",
        type=click.Choice(OUTPUTS),
        help="Default: by the name of the output; on a terminal a drawn table, else CSV.",
    )
    target = click.option("-o", "--output", help="File to write. Default: standard output.")
    return chosen(target(command))


def check_output(output: str | None) -> None:
    """Raise where the output cannot be written, before any work."""
    if output is not None:
        from kdey._io import check_writable

        check_writable(output)


def check_table_output(options: dict[str, Any]) -> None:
    """As :func:`check_output` for ``--format`` and ``--output`` of a table."""
    check_output(options["output"])
    if options["format"] is None:
        from kdey.tables.output import format_of

        format_of(options["output"])


#: Characters of a line in a file, where there is no terminal.
_FILE_WIDTH = 200
#: What a column takes beside its text, and what a table takes beside its columns.
_PADDING, _MARGIN = 3, 1
#: Longer texts are wrapped.
_LONGEST_TEXT = 24
#: Columns that give way first, before all others from right to left. Columns of wide tables have
#: the class in brackets behind these names.
_FIRST_TO_GO = (
    *("n_missing", "n_against", "training_prevalence", "ratio_low", "ratio_high", "ratio"),
    *("p_value", "fit_p_value", "classify_and_count", "estimate_against"),
)
#: Columns that stay. Those before "class" or "n" are keys, and stay too.
_STAY = ("class", "estimate", "difference", "low", "high")
#: Columns that gave way are named up to this number.
_MOST_NAMED = 5


def drawn_table(table: pa.Table, width: int | None = None) -> str:
    """Return a pyarrow table as text, numbers with four digits.

    Parameters
    ----------
    table : pyarrow table
    width : int, optional
        Characters of a line. Default: those of the terminal.
    """
    from rich.console import Console

    from kdey.tables.output import Row, Table, terminal_table

    if width is None:
        width = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else _FILE_WIDTH
    whole = _as_table(table)
    kept = fitting_columns(whole, width)
    rows = tuple(Row(tuple(row.cells[i] for i in kept)) for row in whole.rows)
    shown = Table("output", "", tuple(whole.columns[i] for i in kept), rows)
    stream = io.StringIO()
    # If even the columns that stay need more room, lines are long: no number is cut.
    room = max(width, _needed([_width(whole, i) for i in kept]))
    Console(file=stream, width=room).print(terminal_table(shown, ruled=False))
    omitted = [column.name for i, column in enumerate(whole.columns) if i not in kept]
    return stream.getvalue() + _remark(omitted, width)


def _as_table(table: pa.Table) -> Table:
    from kdey.tables.output import Cell, Heading, Row, Table

    columns = tuple(
        Heading(printable(field.name), str(field.type).startswith(("double", "float", "int")))
        for field in table.schema
    )
    rows = tuple(Row(tuple(Cell(_text(v)) for v in row.values())) for row in table.to_pylist())
    return Table("output", "", columns, rows)


def _text(value: Any) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else printable(str(value))


def fitting_columns(table: Table, width: int) -> list[int]:
    """Return the positions of the columns that fit into a width, or of those that must stay."""
    kept = list(range(len(table.columns)))
    widths = {i: _width(table, i) for i in kept}
    for group in _order_of_leaving([column.name for column in table.columns]):
        if _needed([widths[i] for i in kept]) <= width:
            break
        kept = [i for i in kept if i not in group]
    return kept


def _order_of_leaving(names: Sequence[str]) -> list[list[int]]:
    """Return the positions of columns in the order in which they give way, some together."""
    kinds = [name.partition("[")[0] for name in names]
    n_keys = next((i for i, kind in enumerate(kinds) if kind in ("class", "n")), len(names))
    first = [i for kind in _FIRST_TO_GO for i in reversed(range(len(names))) if kinds[i] == kind]
    others = [i for i in reversed(range(n_keys, len(names))) if i not in first]
    wide = any("[" in name for name in names)
    # In a wide table, the shares of more classes tell more than the limits of some.
    limits = [i for i in others if wide and kinds[i] in ("low", "high")]
    free = [i for i in others if i not in limits and kinds[i] not in _STAY]
    shares = [i for i in others if wide and kinds[i] == "estimate"]
    return [*([i] for i in first), limits, *([i] for i in (*free, *shares))]


def _width(table: Table, place: int) -> int:
    column = table.columns[place]
    widths = [_cells(row.cells[place].text) for row in table.rows]
    longest = max(widths, default=0)
    return max(_cells(column.name), longest if column.numeric else min(longest, _LONGEST_TEXT))


def _cells(text: str) -> int:
    """Return the number of places that a text takes on a terminal."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _needed(widths: Sequence[int]) -> int:
    return sum(widths) + _PADDING * len(widths) + _MARGIN


def _remark(omitted: Sequence[str], width: int) -> str:
    """Return which columns had no room, in a line or two; nothing if all had."""
    if not omitted:
        return ""
    more = f" and {len(omitted) - _MOST_NAMED} more" if len(omitted) > _MOST_NAMED else ""
    named = ", ".join(omitted[:_MOST_NAMED])
    remark = f"(no room for {named}{more}; --format csv has all columns)"
    lines = wrap(remark, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join([*lines, ""])
