"""What people see: overviews of objects, progress, warnings, counts, docstrings.

An object that shows itself makes an :class:`Overview` (a sentence, a table with percentages and
bars, and remarks), which a terminal shows as text and a notebook as HTML. Where the columns of a
table do not fit in 80 characters, the least important ones are left out and named below the table;
numbers are never shortened. Text is plain ASCII apart from names of the user, so that it can be
written to any terminal and file.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from html import escape
from operator import index
from textwrap import dedent
from types import FrameType
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Columns of a terminal that texts are made for.
LINE_WIDTH = 80
#: Rows of a table that are shown of objects which may have thousands.
MOST_ROWS = 10
#: Characters of a bar in a text.
_BAR_WIDTH = 20
#: Longer names of rows give way to columns: they are shortened if there is no room for them.
_LONG_NAME = 32
#: Columns that did not fit are named up to this number.
_MOST_OMITTED = 5
_GAP = "  "
_CELL_STYLE = "text-align:right;white-space:nowrap"


#: A share with the ends of its interval, all in [0, 1], which is drawn as a bar.
Bar: TypeAlias = tuple[float, float, float]
#: A cell of an overview: words, a number that is already formatted, or a bar.
OverviewCell: TypeAlias = str | Bar


def bar_text(bar: Bar) -> str:
    """Return ``#`` up to the lower end, ``=`` up to the value, ``-`` up to the upper one."""
    value, low, high = (round(_BAR_WIDTH * _clipped(part)) for part in bar)
    return "#" * low + "=" * (value - low) + "-" * (high - value)


def _bar_html(bar: Bar) -> str:
    """Return a bar as HTML, hidden from screen readers, which read the numbers."""
    value, low, high = (100 * _clipped(part) for part in bar)
    parts = "".join(
        f'<span style="position:absolute;left:{start:.1f}%;width:{end - start:.1f}%;top:0;'
        f'height:100%;background:#0072b2;opacity:{opacity}"></span>'
        for start, end, opacity in ((0, low, 0.9), (low, value, 0.6), (value, high, 0.3))
    )
    return (
        '<span aria-hidden="true" style="position:relative;display:inline-block;width:9em;'
        f'height:0.8em;background:rgba(128,128,128,0.2)">{parts}</span>'
    )


def _clipped(share: float) -> float:
    return min(max(share, 0.0), 1.0)


@dataclass(frozen=True)
class OverviewColumn:
    """A column of an overview.

    Attributes
    ----------
    name : str
    cells : sequence of str or bar
    numeric : bool
        Numbers are aligned to the right, texts and bars to the left.
    importance : int
        Where there is not enough room, the column of the smallest importance is left out first,
        and of several the last one. Columns of importance 9 always stay.
    """

    name: str
    cells: Sequence[OverviewCell]
    numeric: bool = True
    importance: int = 5

    @property
    def texts(self) -> list[str]:
        """The cells as text."""
        return [cell if isinstance(cell, str) else bar_text(cell) for cell in self.cells]

    @property
    def width(self) -> int:
        """The number of characters that the column needs."""
        return max(len(text) for text in (self.name, *self.texts))

    def html_cell(self, row: int) -> str:
        """Return a cell as HTML."""
        style = f' style="{_CELL_STYLE}"' if self.numeric else ""
        cell = self.cells[row]
        return f"<td{style}>{escape(cell) if isinstance(cell, str) else _bar_html(cell)}</td>"


@dataclass(frozen=True)
class Overview:
    """What an object shows of itself.

    Attributes
    ----------
    sentence : str
        The result in words.
    names : OverviewColumn
        The names of the rows.
    columns : tuple of OverviewColumn
    remarks : tuple of str
        Shown below the table.
    """

    sentence: str
    names: OverviewColumn
    columns: tuple[OverviewColumn, ...]
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the overview as text; a terminal breaks its sentences, and the table fits in."""
        remarks = (f"({remark})" for remark in self.remarks)
        return "\n".join([self.sentence, *self.table_lines(), *remarks])

    __repr__ = __str__

    def table_lines(self) -> list[str]:
        """Return the lines of the table, with a line that names columns which did not fit."""
        columns, omitted = _fitting(self.columns, min(self.names.width, _LONG_NAME))
        used = sum(len(_GAP) + column.width for column in columns)
        room = max(_LONG_NAME, LINE_WIDTH - used)
        names = [shorten(name, room) for name in self.names.texts]
        width = max(len(text) for text in (self.names.name, *names))
        rows = [[column.name for column in columns]]
        rows += [[column.texts[i] for column in columns] for i in range(len(names))]
        lines = []
        for name, row in zip((self.names.name, *names), rows, strict=True):
            cells = [
                text.rjust(column.width) if column.numeric else text.ljust(column.width)
                for text, column in zip(row, columns, strict=True)
            ]
            lines.append(_GAP.join((name.ljust(width), *cells)).rstrip())
        if omitted:
            named = ", ".join(shorten(name, _LONG_NAME) for name in omitted[:_MOST_OMITTED])
            more = len(omitted) - _MOST_OMITTED
            others = f" and {more} more" if more > 0 else ""
            lines.append(f"(no room for: {named}{others}; to_frame() has all)")
        return lines

    def html(self) -> str:
        """Return the overview as HTML, with all columns and every text escaped."""
        heads = "".join(f"<th>{escape(c.name)}</th>" for c in (self.names, *self.columns))
        body = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th>'
            + "".join(column.html_cell(i) for column in self.columns)
            + "</tr>"
            for i, name in enumerate(self.names.texts)
        )
        notes = "".join(
            f"<p style='white-space:pre-wrap'>{escape(remark)}</p>" for remark in self.remarks
        )
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        return f"<div><p>{escape(self.sentence)}</p>{table}{notes}</div>"

    _repr_html_ = html


class Shown:
    """What shows itself by an overview: as text, and as a table in a notebook."""

    def overview(self) -> Overview:
        """Return the sentence and the table that are shown."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Return the :meth:`overview` as text."""
        return str(self.overview())

    def _repr_html_(self) -> str:
        return self.overview().html()


def row_names(name: str, labels: Iterable[object]) -> OverviewColumn:
    """Return the column that names the rows, such as the classes."""
    return text_column(name, map(str, labels), numeric=False, importance=9)


def text_column(
    name: str, texts: Iterable[str], *, numeric: bool = True, importance: int = 5
) -> OverviewColumn:
    """Return a column of texts; see :class:`OverviewColumn` for the other parameters."""
    return OverviewColumn(name, list(texts), numeric, importance)


def bar_column(
    value: ArrayLike, low: ArrayLike | None = None, high: ArrayLike | None = None
) -> OverviewColumn:
    """Return a column of bars.

    Parameters
    ----------
    value : array-like of shape (n,)
        Shares from 0 to 1; NaN gives an empty cell.
    low, high : array-like of shape (n,), optional
        Ends of the intervals; where they are unknown (NaN) the bar has none.
    """
    values, lows, highs = (
        np.asarray(value if part is None else part, dtype=np.float64) for part in (value, low, high)
    )
    lows = np.where(np.isnan(lows), values, lows)
    highs = np.where(np.isnan(highs), values, highs)
    rows = zip(values.tolist(), lows.tolist(), highs.tolist(), strict=True)
    cells = ["" if np.isnan(v) else (v, a, b) for v, a, b in rows]
    return OverviewColumn("", cells, numeric=False, importance=1)


def percentages(values: ArrayLike, decimals: int = 1) -> list[str]:
    """Return shares in per cent; "-" where a share is unknown."""
    shares = np.asarray(values, dtype=np.float64)
    return ["-" if np.isnan(share) else f"{100 * share:.{decimals}f} %" for share in shares]


def share_decimals(*shares: NDArray[np.float64]) -> int:
    """Return the decimals that percentages need: two if there are shares below 1 %, else one.

    Shares that two decimals show as zero do not count.
    """
    values = np.concatenate([np.ravel(part) for part in shares])
    return 2 if ((values >= 0.00005) & (values < 0.01)).any() else 1


def shorten(name: str, width: int) -> str:
    """Return a name of at most ``width`` characters, with its beginning and its end."""
    if len(name) <= width:
        return name
    end = (width - 3) // 2
    return f"{name[: width - 3 - end]}...{name[len(name) - end :]}"


def _fitting(
    columns: Sequence[OverviewColumn], names_width: int
) -> tuple[list[OverviewColumn], list[str]]:
    """Return the columns that fit beside names of a width, and the names of the others."""
    kept = list(columns)
    while names_width + sum(len(_GAP) + column.width for column in kept) > LINE_WIDTH:
        droppable = [column for column in kept if column.importance < 9]
        if not droppable:
            break
        least = min(column.importance for column in droppable)
        kept.remove([column for column in droppable if column.importance == least][-1])
    omitted = [column.name for column in columns if column not in kept and column.name]
    return kept, omitted


T = TypeVar("T")


class _Display(Protocol):
    def show(self, done: int, rate: float, total: int | None) -> None: ...
    def close(self) -> None: ...


class Progress(AbstractContextManager["Progress[T]"], Generic[T]):
    """A count of finished steps that may be on display; see :func:`progress`."""

    def __init__(self, items: Iterable[T], total: int | None, display: _Display | None) -> None:
        self._items, self._total, self._display = items, total, display
        self._start, self.done = time.monotonic(), 0

    def advance(self, steps: int = 1) -> None:
        """Count ``steps`` more as finished."""
        self.done += steps
        if self._display is not None:
            elapsed = time.monotonic() - self._start
            self._display.show(self.done, self.done / max(elapsed, 1e-9), self._total)

    def close(self) -> None:
        """Leave the last state on display and stop."""
        display, self._display = self._display, None
        if display is not None:
            display.close()

    def __iter__(self) -> Iterator[T]:
        """Iterate over the items, counting each once its work is done."""
        with self:
            for item in self._items:
                yield item
                self.advance()

    def __exit__(self, *error: object) -> None:
        self.close()


def progress(
    steps: Iterable[T] | int, description: str, enabled: bool | Literal["auto"] = "auto"
) -> Progress[Any]:
    """Return a progress display, as an iterator over steps or as a counter.

    Iterate over it, ``for item in progress(items, "fits")``, or count on it,
    ``with progress(1000, "bags") as shown``, where ``shown.advance(50)`` counts 50 more.

    Parameters
    ----------
    steps : iterable or int
        What to iterate over, or how many steps there will be.
    description : str
    enabled : bool or "auto"
        "auto" shows it where standard error is a terminal, and in notebooks. The environment
        variable ``KDEY_PROGRESS=0`` silences it everywhere, True included.

    Notes
    -----
    Everything goes to standard error.
    """
    if enabled not in (True, False, "auto"):
        raise ValueError(f'enabled must be "auto", True or False, got {enabled!r}')
    items = steps if isinstance(steps, Iterable) else range(index(steps))
    total = len(items) if isinstance(items, Sized) else None
    return Progress(items, total, _display(description, total) if _is_enabled(enabled) else None)


def _is_enabled(enabled: bool | Literal["auto"]) -> bool:
    if os.environ.get("KDEY_PROGRESS") == "0" or not enabled or sys.stderr is None:
        return False
    if enabled is True or _in_notebook():
        return True
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _in_notebook() -> bool:
    # Only a running kernel has IPython loaded with a shell of this kind: nothing is imported.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _display(description: str, total: int | None) -> _Display:
    if _in_notebook() and importlib.util.find_spec("ipywidgets") is None:
        return _PlainDisplay(description)  # rich would warn that it needs ipywidgets
    try:
        return _RichDisplay(description, total)
    except ImportError:
        return _PlainDisplay(description)


class _RichDisplay:
    """A bar by rich, which also knows how to draw in notebooks."""

    def __init__(self, description: str, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress as Bars,
            TextColumn,
            TimeRemainingColumn,
        )

        text, rate = TextColumn("{task.description}"), TextColumn("{task.fields[rate]}")
        columns = (text, BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
        # Left to itself rich sends what is printed meanwhile to the bar's console, and so what
        # a user pipes from standard output to standard error.
        self._bars = Bars(*columns, console=Console(stderr=True), redirect_stdout=False)
        self._task = self._bars.add_task(description, total=total, rate="")
        self._bars.start()

    def show(self, done: int, rate: float, total: int | None) -> None:
        self._bars.update(self._task, completed=done, rate=f"{rate:.3g}/s")

    def close(self) -> None:
        self._bars.stop()


class _PlainDisplay:
    """Without rich: one line rewritten in place, at most ten times a second."""

    def __init__(self, description: str) -> None:
        self._description, self._next, self._line = description, 0.0, ""

    def show(self, done: int, rate: float, total: int | None) -> None:
        share = f"{done}" if total is None else f"{done}/{total}"
        left = "" if total is None else f", {max(total - done, 0) / rate:.0f} s left"
        self._line = f"{self._description}: {share}, {rate:.3g}/s{left}"
        if time.monotonic() >= self._next:
            self._write()
            self._next = time.monotonic() + 0.1

    def close(self) -> None:
        self._write()
        sys.stderr.write("\n")

    def _write(self) -> None:
        # Carriage return, then erase to the end: the new line may be shorter.
        sys.stderr.write(f"\r{self._line}\x1b[K")
        sys.stderr.flush()


class Words(str):
    """A text that shows itself as it reads, with its lines, where it is the value of a cell."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


_MUTED: ContextVar[tuple[type[Warning], ...]] = ContextVar("muted", default=())


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning that points at the line that called kdey, however deep it arises.

    Nothing is issued if ``category`` is muted in this thread.
    """
    if not issubclass(category, _MUTED.get()):
        warnings.warn(message, category, stacklevel=_level_outside() + 1)


#: Packages whose lines a warning of ours does not point at.
_INSIDE = frozenset(("kdey", "sklearn", "joblib"))


def _level_outside() -> int:
    """Return how many calls above the caller of the caller the code of others begins."""
    level, frame = 0, sys._getframe(2)
    while frame.f_back is not None and _package(frame) in _INSIDE:
        level, frame = level + 1, frame.f_back
    return level + 1


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


@contextmanager
def muted(*categories: type[Warning]) -> Iterator[None]:
    """Mute warnings of these categories that :func:`warn` issues in this thread."""
    token = _MUTED.set((*_MUTED.get(), *categories))
    try:
        yield
    finally:
        _MUTED.reset(token)


def count_of(count: int, singular: str, plural: str | None = None) -> str:
    """Return a number with what is counted, which agrees with it.

    Parameters
    ----------
    count : int
    singular : str
        What is counted, for one of them; a verb may follow: "row lacks one".
    plural : str, optional
        The same for any other number. Default: ``singular`` with an "s".

    Returns
    -------
    str
    """
    many = f"{singular}s" if plural is None else plural
    return f"{count:,} {singular if count == 1 else many}"


C = TypeVar("C", bound=type[Any])

#: Sections of numpydoc in their order.
SECTIONS = (
    *("Parameters", "Attributes", "Methods", "Returns", "Yields", "Raises", "Warns", "Warnings"),
    *("See Also", "Notes", "References", "Examples"),
)
_HEADING = re.compile(r"^(?P<title>[A-Z][A-Za-z ]+)\n-{3,}$", re.MULTILINE)


def sections(docstring: str) -> dict[str, str]:
    """Return the bodies of the sections of a docstring by title; "" is what precedes them."""
    text = inspect.cleandoc(docstring)
    parts = _HEADING.split(text)
    titles = ["", *parts[1::2]]
    return {title: body.strip("\n") for title, body in zip(titles, parts[::2], strict=True)}


def entries(body: str) -> dict[str, str]:
    """Return the entries of a section of parameters or attributes, as they stand, by name.

    An entry for several names (``low, high : float``) gives one entry for each.
    """
    described: dict[str, str] = {}
    head, lines = "", list[str]()
    for line in [*body.splitlines(), "end"]:
        if line[:1].strip():
            names, colon, kind = head.partition(" : ")
            text = "\n".join([colon + kind, *lines]).rstrip()
            described |= {name: name + text for name in map(str.strip, names.split(",")) if name}
            head, lines = line, []
        else:
            lines.append(line)
    return described


def _with_default(entry: str, parameter: inspect.Parameter) -> str:
    """Return the entry of a parameter with its default, where it has one and the entry has not."""
    head, *lines = entry.splitlines()
    _, _, kind = head.partition(" : ")
    unsaid = bool(kind) and "default" not in kind and "optional" not in kind
    if unsaid and parameter.default is not inspect.Parameter.empty:
        head = f"{head}, default={parameter.default!r}"
    return "\n".join([head, *lines])


def write_out(cls: type[Any], family: str = "") -> None:
    """Complete the docstring of a class, in place.

    Parameters
    ----------
    cls : type
        A class without a docstring of its own is left alone.
    family : str
        The entries of parameters that classes of the family share, in the form of a section.
    """
    docstring = vars(cls).get("__doc__")
    if not docstring:  # there are none with ``python -OO``
        return
    parts = sections(docstring)
    known = entries(dedent(family).strip("\n"))
    attributes: dict[str, str] = {}
    for base in reversed(cls.__mro__[1:]):
        inherited = sections(vars(base).get("__doc__") or "")
        if base.__module__.startswith("kdey."):
            known |= entries(inherited.get("Parameters", ""))
            attributes |= entries(inherited.get("Attributes", ""))
    known |= entries(parts.get("Parameters", ""))
    signature = [p for p in inspect.signature(cls).parameters.values() if p.name in known]
    if signature:
        parts["Parameters"] = "\n".join(_with_default(known[p.name], p) for p in signature)
    attributes |= entries(parts.get("Attributes", ""))
    if attributes:
        parts["Attributes"] = "\n".join(attributes.values())
    cls.__doc__ = _joined(parts)


def written_out(family: str) -> Callable[[C], C]:
    """Decorate a class so that its docstring is completed (:func:`write_out`)."""

    def complete(cls: C) -> C:
        write_out(cls, family)
        return cls

    return complete


def _joined(parts: dict[str, str]) -> str:
    """Return a docstring from its sections, in the order of numpydoc."""
    texts = (f"{title}\n{'-' * len(title)}\n{parts[title]}" for title in SECTIONS if title in parts)
    return "\n\n".join([parts[""], *texts]) + "\n"
