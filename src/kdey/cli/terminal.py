"""What commands print, and how they end: exit codes, warnings, signals, lost output.

=====  ==========================================================================================
code   meaning
=====  ==========================================================================================
0      done
1      done, and the command found what it looks for: groups that do not fit
       (``--fail-on-misfit``), alarms (``monitor``), files that are wrong or could not be fetched
       (``data``)
2      refused, with one line that says why: wrong usage, wrong input, output that cannot be
       written
129    the terminal was closed (SIGHUP)
130    stopped by Ctrl-C (SIGINT)
143    ended by another program (SIGTERM)
=====  ==========================================================================================

After a signal, temporary files are removed, and files are as they were or complete.

Warnings become lines on standard error, in the words of the command line. The library warns in
terms of Python: it names parameters and attributes. Somebody who runs a command can change its
options only, so the advice is replaced by the option that serves.

On a terminal, columns of a table give way where there is no room; digits never do.
"""

from __future__ import annotations

import ast
import errno
import functools
import io
import logging
import os
import re
import shlex
import shutil
import signal
import stat
import sys
import threading
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import wrap
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    import pyarrow as pa

    from kdey.tables.output import Table


PROBLEMS, REFUSED, INTERRUPTED = 1, 2, 130
#: What the user can mend: files, options, memory, packages that are not installed.
USER_ERRORS = (
    *(ValueError, TypeError, OSError, ImportError, MemoryError, OverflowError, RecursionError),
)
#: Characters of a message. It may quote an option or a cell of any length.
_LONGEST = 1_000
#: Characters of a word in it, such as a value or a path, that are shown.
_LONGEST_WORD = 200
_LONG_WORD = re.compile(rf"\S{{{_LONGEST_WORD + 1},}}")


class InputError(click.ClickException):
    """Something in the files or options that the user can correct."""

    exit_code = REFUSED


class Stopped(click.ClickException):
    """The user pressed Ctrl-C."""

    exit_code = INTERRUPTED

    def show(self, file: Any = None) -> None:
        """Write the message to standard error, on a line of its own after the ``^C``."""
        click.echo(f"\n{self.message}", err=True, file=file)


class OutputLost(OSError):
    """Standard output cannot be written: it was closed, or its disk is full."""


def refusal(error: BaseException) -> InputError:
    """Return an error of the user's as one line, without the number of the operating system."""
    text = str(error)
    if isinstance(error, RecursionError):
        text = "an option or a file is nested too deeply"
    elif isinstance(error, OutputLost):
        reason = "it was closed" if error.errno in (errno.EPIPE, errno.EBADF) else error.strerror
        text = f"cannot write to standard output: {reason}"
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return InputError(shortened(in_options(" ".join(text.split()))) or type(error).__name__)


#: Parameters that errors name as what to do, and the options that serve in their place.
_PARAMETERS = re.compile(
    r"\b(?P<name>roles|types|missing_values|features|encoding|sheet|decimal|unlabelled|missing|"
    r"label_type|date_format|by|every|scores|strata|labelled|key_types|new_model|format|clusters)="
    r"(?P<value>\{[^}]*\}|\[[^]]*\]|'[^']*'|True|)"
)


def in_options(text: str) -> str:
    """Return an error or note of the library with options in the place of parameters."""
    return _PARAMETERS.sub(_option, text)


def _option(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    try:
        said = ast.literal_eval(value) if value else ""
    except (SyntaxError, ValueError):
        return found[0]
    if isinstance(said, dict):
        [(column, use)] = said.items()
        kinds = {"roles": ("ignore", column), "key_types": ("key-type", f"{column}={use}")}
        name, said = kinds.get(name, ("type", f"{column}={use}"))
    elif isinstance(said, list):
        said = ",".join(map(str, said))
    value = shlex.quote(said) if said and said is not True else ""
    return f"--{name.replace('_', '-')} {value}".rstrip()


def shortened(text: str) -> str:
    """Return a message without the middle of very long words, and of the whole if it is long."""
    words = _LONG_WORD.sub(lambda word: _without_middle(word.group(), _LONGEST_WORD), text)
    return _without_middle(words, _LONGEST)


def _without_middle(text: str, longest: int) -> str:
    half = longest // 2
    return text if len(text) <= longest else f"{text[:half]} ... {text[-half:]}"


@contextmanager
def endings() -> Iterator[None]:
    """Turn Ctrl-C and the loss of standard output into exceptions of click with an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped("stopped") from None
    except OutputLost as error:
        raise refusal(error) from None
    except click.UsageError as error:
        message = error.format_message()
        if shortened(message) == message:
            raise
        raise click.UsageError(shortened(message), error.ctx) from None


def run_process(command: click.Command) -> None:
    """Run a command as the whole work of this process, which then ends."""
    if sys.stdout is sys.__stdout__:  # Otherwise the caller reads what we write.
        _guard_streams()
    if threading.current_thread() is threading.main_thread():  # Others cannot handle signals.
        _handle_signals()
    try:
        command(prog_name="kdey")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # of standard error: nobody reads what we have to say
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stderr.fileno())  # or Python would fail once more when it exits
        sys.exit(REFUSED)


def _handle_signals() -> None:
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        # Whoever ignores a signal (nohup) goes on doing so.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _exit_by_signal)


def _exit_by_signal(number: int, _: FrameType | None) -> None:
    """Exit by an exception, so that temporary files are removed; a second signal kills."""
    signal.signal(number, signal.SIG_DFL)
    sys.exit(128 + number)


class _Output(io.FileIO):
    """Standard output whose first error is an :class:`OutputLost`, and which is then silent.

    click and rich answer errors of their streams in ways of their own, and Python tries once more
    to write what is left when it exits.

    Parameters
    ----------
    is_closed : bool
        Whether the process was started without standard output (``>&-``).
    """

    def __init__(self, is_closed: bool) -> None:
        super().__init__(1, "w", closefd=False)
        self._is_closed, self._is_lost = is_closed, False

    def write(self, data: Any) -> int:
        """Write bytes; return how many were written."""
        if self._is_lost:
            return len(data)
        try:
            if self._is_closed:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            return super().write(data) or 0
        except OSError as error:
            self._is_lost = True
            raise OutputLost(error.errno, error.strerror) from None


def _guard_streams() -> None:
    """Open standard streams that are closed, or the next file would become one of them.

    Without standard output click writes nothing and says nothing about it: the answer would be
    lost. :class:`_Output` stands in for it.
    """
    closed = [descriptor for descriptor in range(3) if not _is_open(descriptor)]
    for _ in closed:
        os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if sys.stderr is None:  # some libraries write to it without a look
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.platform == "win32" and 1 not in closed:  # Its console takes text, not bytes.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors=_without_failure(sys.stdout.errors))
        return
    encoding = "utf-8" if sys.stdout is None else sys.stdout.encoding
    errors = _without_failure("strict" if sys.stdout is None else sys.stdout.errors)
    raw = _Output(is_closed=1 in closed)
    buffer = io.BufferedWriter(raw)
    sys.stdout = io.TextIOWrapper(buffer, encoding, errors, line_buffering=raw.isatty())


def _without_failure(errors: str | None) -> str:
    """Return how characters are written that the encoding of a stream lacks.

    A name of a class may have such a character where output goes to a pipe or a file in a code page
    of Windows. It is spelled out, as Python does on standard error, and the answer is not lost.
    """
    return "backslashreplace" if errors in (None, "strict") else errors


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


#: What a warning says in Python, and what a command says in its place.
_REWORDED = (
    (r"^cv: ", "cross-validation: "),
    (r"\b(\w+)='(\w+)'", r"\1=\2"),
    (r"; raise max_iter or tol$", "; their estimates may be off by as much"),
    (r", with converged=False and gap=NaN$", " and marked as not converged"),
    (
        # scikit-learn has a sentence of its own for every solver, with links to its documents.
        r"^(.*?)\bfailed to converge\b.*$|^.*\breached before convergence\b.*$",
        "the classifier did not converge: raise its iterations (--classifier-option "
        "max_iter=10000), or take another --classifier",
    ),
)


def reworded(text: str) -> str:
    """Return a warning of the library as one line that names options instead of parameters."""
    line = " ".join(text.split())
    for pattern, replacement in _REWORDED:
        line = re.sub(pattern, replacement, line)
    return in_options(line)


@contextmanager
def warnings_as_lines(say: Callable[[str], None]) -> Iterator[None]:
    """Give each warning to ``say`` once, as one line."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        line = reworded(str(message))
        if line not in shown:
            shown.add(line)
            say(f"warning: {line}")

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield


Command = TypeVar("Command", bound=Callable[..., Any])
OUTPUTS = ("table", "csv", "json", "parquet", "xlsx")


def guarded(command: Command) -> Command:
    """Give a command ``--debug``; without it, an error of the user's is one line, exit code 2."""

    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @functools.wraps(command)
    def run(*args: Any, debug: bool, **options: Any) -> Any:
        with warnings_as_lines(say):
            try:
                for name, others in _NEEDS.items():
                    if not any(options.get(other, True) for other in others):
                        wanted = " or ".join(f"--{other.replace('_', '-')}" for other in others)
                        refuse_idle([name], f"without {wanted}")
                return command(*args, **options)
            except USER_ERRORS as error:
                if debug:
                    raise
                raise InputError(printable(refusal(error).message)) from error

    return run  # type: ignore[return-value]


#: Options that change how another one works, and would be ignored without it.
_NEEDS = {
    "shrink_covers": ("shrink", "shrink_within"),
    "believe": ("labelled",),
    "level": ("check_fit",),
    "figure_formats": ("figures",),
    "n_next": ("next_rows",),
}


def refuse_idle(names: Iterable[str], why: str) -> None:
    """Raise click.UsageError where one of these options was given, which would do nothing."""
    context = click.get_current_context()
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name in names and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option.opts[-1]} has no effect {why}")


def say(line: str) -> None:
    """Write a line to standard error."""
    click.echo(printable(line), err=True)


class _Saying(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


@contextmanager
def saying_what_is_logged() -> Iterator[None]:
    """Say meanwhile what the library logs."""
    logger, handler = logging.getLogger("kdey"), _Saying()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def printable(text: str) -> str:
    """Return a text with characters spelled out that a terminal would obey, or not show."""
    return text if text.isascii() and text.isprintable() else "".join(map(_spelled_out, text))


def _spelled_out(sign: str) -> str:
    kind = unicodedata.category(sign)
    if kind == "Cf":  # zero-width and direction characters
        return f"\\u{ord(sign):04x}"
    return f"\\x{ord(sign):02x}" if kind == "Cc" else sign


def deliver(
    table: pa.Table, format: str | None, output: str | None, digits: int | None = None
) -> None:
    """Write a pyarrow table to a file, or to standard output: a drawn table on a terminal."""
    from kdey._io import write_whole
    from kdey.tables.output import format_of, table_bytes

    if format is None:
        drawn = output is None and sys.stdout.isatty()
        format = "table" if drawn else format_of(output)
    data = drawn_table(table).encode() if format == "table" else table_bytes(table, format, digits)
    if output is None:
        click.echo(data, nl=False)
    else:
        write_whole(output, data)
        say(f"wrote {output}")


def output_options(command: Command) -> Command:
    """Give a command ``--format``, ``--digits`` and ``--output``."""
    chosen = click.option(
        "--format",
        type=click.Choice(OUTPUTS),
        help="Default: by the name of the output; on a terminal a drawn table, else CSV.",
    )
    target = click.option("-o", "--output", help="File to write. Default: standard output.")
    digits = click.option(
        "--digits",
        type=click.IntRange(1, 17),
        help="Significant digits of fractions. Default: 6 in CSV, all in JSON.",
    )
    return chosen(digits(target(command)))


#: Endings of files, by what the files hold. ``.gz`` is none of what commands write.
_ENDINGS = {
    "csv": (".csv", ".tsv"),
    "json": (".json",),
    "parquet": (".parquet",),
    "xlsx": (".xlsx", ".xls", ".xlsm", ".ods"),
    "gzip": (".gz",),
    "page": (".html", ".htm"),
    "model": (".kdey",),
}


def check_outputs(inputs: Iterable[str | None], *outputs: tuple[str | None, str | None]) -> None:
    """Raise before any work where an output cannot be written, or would destroy another file.

    Parameters
    ----------
    inputs : paths that the command reads, "-" for standard input
    outputs : pairs of a path and what is written there
        One of ``OUTPUTS``, "page" or "model"; None: the table that the ending of the path names.

    Raises
    ------
    ValueError
        If an output is an input or another output, through whatever path or link, or if its ending
        is that of another format.
    OSError
        If it cannot be written.
    """
    from kdey._io import check_writable
    from kdey.tables.output import format_of
    from kdey.tables.sources import local_files

    read = [file for path in inputs if path for file in (path, *local_files(path))]
    written: list[str] = []
    for path, kind in outputs:
        if path is None:
            continue
        if any(_is_same_file(path, other) for other in read):
            raise ValueError(f"{path}: this file is read: name another one for the output")
        if any(_is_same_file(path, other) for other in written):
            raise ValueError(f"{path}: two outputs cannot be one file")
        check_writable(path)
        check_ending(path, format_of(path) if kind is None else kind)
        written.append(path)


def check_ending(path: str, kind: str) -> None:
    """Raise ValueError if the name of a file ends as files of another kind do."""
    ending = os.path.splitext(path)[1].lower()
    if any(ending in known for other, known in _ENDINGS.items() if other != kind):
        nouns = {"page": "an HTML page", "model": "a model file", "metrics": "a file of metrics"}
        noun = nouns.get(kind, f"a {kind} table")
        own = f" such as {_ENDINGS[kind][0]}" if kind in _ENDINGS else ""
        raise ValueError(f"{path}: {noun} cannot end in {ending}: choose another ending{own}")


def _is_same_file(path: str, read: str) -> bool:
    """Return whether two paths lead to one regular file, or to one place where none is yet."""
    if read != "-" and os.path.realpath(path) == os.path.realpath(read):
        return not os.path.exists(path) or os.path.isfile(path)
    try:
        status = os.stat(0 if read == "-" else read)
        return stat.S_ISREG(status.st_mode) and os.path.samestat(os.stat(path), status)
    except (OSError, ValueError):  # One of them is not there, or is no path at all.
        return False


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
    # In a wide table, the shares of more classes tell more than the intervals of some.
    intervals = [i for i in others if wide and kinds[i] in ("low", "high")]
    free = [i for i in others if i not in intervals and kinds[i] not in _STAY]
    shares = [i for i in others if wide and kinds[i] == "estimate"]
    return [*([i] for i in first), intervals, *([i] for i in (*free, *shares))]


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
