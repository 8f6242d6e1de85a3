"""What a Python function depends on beside its own code: the globals that it reads.

Fingerprints use it, so that a function counts as another one when a constant changes that it reads
from its module, or the code of a helper that it calls.
"""

from __future__ import annotations

import dis
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

#: Instructions that read a global, and an attribute of what was read right before.
_GLOBAL, _ATTRIBUTE = ("LOAD_GLOBAL", "LOAD_NAME"), ("LOAD_ATTR", "LOAD_METHOD")
#: Packages that kdey itself stands on; functions of other packages may be the user's own.
_FOUNDATIONS = ("kdey", "narwhals", "numpy", "scipy", "sklearn")
#: A global and the attributes that are read from it: ``("settings", "LIMIT")``.
Path = tuple[str, ...]


def globals_read(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the globals that a function reads, each once, in sorted order.

    Functions that it defines inside itself are included. Modules and classes of the user's count by
    the attributes that are read from them, ``settings.LIMIT``. Modules of libraries are left out:
    their version is no part of what users write.
    """
    home = function.__module__
    if is_library(home, home):
        return
    read = [_resolve(path, function.__globals__, home) for path in _paths_read(function.__code__)]
    yield from sorted(dict(filter(None, read)).items(), key=lambda item: item[0])


def _resolve(path: Path, known: Mapping[str, Any], home: str) -> tuple[str, Any] | None:
    """Return the value at a path and its dotted name; None for builtins and libraries."""
    if path[0] not in known:  # a builtin, or not defined yet
        return None
    value, depth = known[path[0]], 1
    while isinstance(value, ModuleType | type):
        name = value.__name__ if isinstance(value, ModuleType) else value.__module__
        if is_library(name, home) or depth == len(path) or path[depth] not in vars(value):
            break
        value, depth = getattr(value, path[depth]), depth + 1
    return None if isinstance(value, ModuleType) else (".".join(path[:depth]), value)


def is_library(module: str | None, home: str | None = None) -> bool:
    """Return whether a module belongs to Python, to kdey or to another installed package.

    Parameters
    ----------
    module : str or None
        Its dotted name.
    home : str, optional
        A module whose package is no library for this question, because the function that reads
        from it is part of it.
    """
    root = _root(module)
    if root in sys.stdlib_module_names or root in _FOUNDATIONS:
        return True
    if home is not None and root == _root(home):
        return False
    source = getattr(sys.modules.get(root), "__file__", None) or ""
    folders = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    return any(source.startswith(folder) for folder in folders if folder)


def _root(module: str | None) -> str:
    return (module or "").partition(".")[0]


def _paths_read(code: CodeType) -> set[Path]:
    """Return the globals in a code object with the attributes that are read from them."""
    paths: set[Path] = set()
    path: Path = ()
    for instruction in dis.get_instructions(code):
        if instruction.opname in _ATTRIBUTE and path:
            path = (*path, str(instruction.argval))
            continue
        if path:
            paths.add(path)
        path = (str(instruction.argval),) if instruction.opname in _GLOBAL else ()
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return paths.union(*map(_paths_read, inner))
