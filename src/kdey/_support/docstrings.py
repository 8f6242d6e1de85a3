"""Docstrings of a family, written out where the reader stands.

The parameters that a family of classes shares are described once: at a base class, or in a text of
the family. :func:`write_out` completes the docstring of a class: every parameter of its constructor
gets its description, in the order of the signature and with its default, and so do the attributes
of its bases. What the docstring describes by itself stays as it is.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent
from typing import Any, TypeVar

T = TypeVar("T", bound=type[Any])

#: Sections of numpydoc in their order.
SECTIONS = (
    *("Parameters", "Attributes", "Methods", "Returns", "Yields", "Raises", "Warns", "Warnings"),
    *("See Also", "Notes", "References", "Examples"),
)
_HEADING = re.compile(r"^(?P<title>[A-Z][A-Za-z ]+)\n-{3,}$", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """The description of one parameter or attribute.

    Attributes
    ----------
    name : str
    kind : str
        The type and the choices; may be empty.
    lines : tuple of str
        The description, indented.
    """

    name: str
    kind: str
    lines: tuple[str, ...]

    def text(self, default: Any = inspect.Parameter.empty) -> str:
        """Return the entry as it stands in a docstring, with a default where there is one."""
        kind = self.kind
        unsaid = "default" not in kind and "optional" not in kind
        if default is not inspect.Parameter.empty and unsaid and kind:
            kind = f"{kind}, default={default!r}"
        head = f"{self.name} : {kind}" if kind else self.name
        return "\n".join([head, *self.lines])


def sections(docstring: str) -> dict[str, str]:
    """Return the bodies of the sections of a docstring by title; "" is what precedes them."""
    text = inspect.cleandoc(docstring)
    parts = _HEADING.split(text)
    titles = ["", *parts[1::2]]
    return {title: body.strip("\n") for title, body in zip(titles, parts[::2], strict=True)}


def entries(body: str) -> dict[str, Entry]:
    """Return the entries of a section of parameters or attributes, by name.

    An entry for several names (``low, high : float``) gives one entry for each.
    """
    described: dict[str, Entry] = {}
    head, lines = "", list[str]()
    for line in [*body.splitlines(), "end"]:
        if line[:1].strip():
            described |= {entry.name: entry for entry in _entries_of(head, lines)}
            head, lines = line, []
        else:
            lines.append(line)
    return described


def _entries_of(head: str, lines: list[str]) -> list[Entry]:
    names, _, kind = head.partition(" : ")
    described = tuple("\n".join(lines).rstrip().splitlines())
    return [Entry(name.strip(), kind, described) for name in names.split(",") if name.strip()]


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
    attributes: dict[str, Entry] = {}
    for base in reversed(cls.__mro__[1:]):
        inherited = sections(vars(base).get("__doc__") or "")
        if base.__module__.startswith("kdey."):
            known |= entries(inherited.get("Parameters", ""))
            attributes |= entries(inherited.get("Attributes", ""))
    known |= entries(parts.get("Parameters", ""))
    signature = [p for p in inspect.signature(cls).parameters.values() if p.name in known]
    if signature:
        texts = [known[parameter.name].text(parameter.default) for parameter in signature]
        parts["Parameters"] = "\n".join(texts)
    attributes |= entries(parts.get("Attributes", ""))
    if attributes:
        parts["Attributes"] = "\n".join(entry.text() for entry in attributes.values())
    cls.__doc__ = _joined(parts)


def written_out(family: str) -> Callable[[T], T]:
    """Decorate a class so that its docstring is completed (:func:`write_out`)."""

    def complete(cls: T) -> T:
        write_out(cls, family)
        return cls

    return complete


def _joined(parts: dict[str, str]) -> str:
    """Return a docstring from its sections, in the order of numpydoc."""
    texts = (f"{title}\n{'-' * len(title)}\n{parts[title]}" for title in SECTIONS if title in parts)
    return "\n\n".join([parts[""], *texts]) + "\n"
