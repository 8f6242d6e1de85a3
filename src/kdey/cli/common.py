"""What the commands share: errors in one line, lists and settings from options, output."""

from __future__ import annotations

import ast
import functools
import sys
import unicodedata
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kdey.cli.exit_codes import USER_ERRORS, InputError, refusal
from kdey.cli.warning_lines import warnings_as_lines

if TYPE_CHECKING:
    import pyarrow as pa

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


def names(texts: Iterable[str]) -> list[str]:
    """Return the names in repeated options, in lists separated by commas, or in both."""
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def settings(texts: Iterable[str], option: str) -> dict[str, Any]:
    """Return the settings of ``name=value`` options; values are numbers, None, lists or texts."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{option} takes name=value, got {text!r}")
        values[name.strip()] = literal(value.strip())
    return values


def literal(text: str) -> Any:
    """Return the Python value that a text spells, or else the text.

    Raises click.UsageError if the value is nested more deeply than Python can read.
    """
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (MemoryError, RecursionError):
        raise _nested_too_deeply(text) from None
    except (ValueError, SyntaxError, TypeError) as error:
        if "too many nested" in str(error):
            raise _nested_too_deeply(text) from None
        return text


def _nested_too_deeply(text: str) -> click.UsageError:
    return click.UsageError(f"a value is nested too deeply: {text[:40]}...")


def deliver(table: pa.Table, format: str | None, output: str | None) -> None:
    """Write a pyarrow table to a file, or to standard output: a drawn table on a terminal."""
    from kdey._io import write_whole
    from kdey.cli.drawing import drawn_table
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
