"""Warnings as lines on standard error, in the words of the command line.

The library warns in terms of Python: it names parameters and attributes. Somebody who runs a
command can change its options only, so the advice is replaced by the option that serves.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: What a warning says in Python, and what a command says in its place.
_REWORDED = (
    (r"^cv: ", "cross-validation: "),
    (r"\b(\w+)='(\w+)'", r"\1=\2"),
    (r"\. Set error_score=\w+ to see where\.$", ". Leave such values out of --grid."),
    (r"widen the grid, or set extend=True$", "widen --grid"),
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
    return line


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
