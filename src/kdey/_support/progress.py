"""Progress of long calls: how far, how fast, and the time left.

rich draws the bar where it is installed; without it, one line is rewritten in place. The rest is
the rule that decides whether anything is shown, which neither rich nor tqdm has.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import AbstractContextManager
from operator import index
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, TypeVar

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
    try:
        return _RichDisplay(description, total)
    except ImportError:
        return _PlainDisplay(description)


class _RichDisplay:
    """A bar by rich, which also knows how to draw in notebooks."""

    def __init__(self, description: str, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

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
