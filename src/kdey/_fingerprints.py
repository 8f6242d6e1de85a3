"""Fingerprints of values, and hashes of the rows of a table.

Fingerprints are short digests that are equal for equal values, across processes and machines. They
tell whether a stage was already fitted, and whether a log belongs to a search. A function counts as
another one when a constant changes that it reads from its module, or the code of a helper that it
calls.
"""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import hashlib
import pickle
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from hashlib import blake2b
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

from kdey.validation import on_host

_PLAIN = (str, bytes, bool, int, float, complex, type(None))


def fingerprint(*values: Any) -> str:
    """Return a digest of the values, 32 hexadecimal digits.

    Estimators enter by class and parameters (a ``FrozenEstimator`` by its fitted state); arrays,
    sparse matrices and frames by their contents, functions by name, code, defaults, closure and
    the globals that they read, classes by name, random states by their state, and other objects
    by their pickle.

    Raises
    ------
    TypeError
        If a value is of none of these kinds and cannot be pickled.
    """
    digest = _Digest()
    for value in values:
        _feed(digest, value)
    return digest.hexdigest()


class _Digest:
    """A digest in the making, with the functions whose dependencies are being added."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.update = self._hash.update
        self.hexdigest = self._hash.hexdigest
        self.open_functions: set[int] = set()


def _feed(digest: _Digest, value: Any) -> None:
    """Add one value, preceded by its type, so that 1, 1.0, True and "1" differ."""
    digest.update(f"<{_dotted(type(value))}>".encode())
    if isinstance(value, _PLAIN):
        digest.update(repr(value).encode())
    elif isinstance(value, np.ndarray):
        _feed_array(digest, value)
    elif isinstance(value, np.generic):
        digest.update(repr(value.item()).encode())
    elif sp.issparse(value):
        _feed_sparse(digest, value)
    elif isinstance(value, Mapping):
        _feed_all(digest, sorted(value.items(), key=lambda item: repr(item[0])))
    elif isinstance(value, set | frozenset):
        _feed_all(digest, sorted(value, key=repr))
    elif isinstance(value, list | tuple | range):
        _feed_all(digest, value)
    else:
        _feed_object(digest, value)
    digest.update(b";")


def _feed_object(digest: _Digest, value: Any) -> None:
    if isinstance(value, np.random.RandomState):
        _feed(digest, value.get_state(legacy=False))
    elif isinstance(value, np.random.Generator):
        _feed(digest, value.bit_generator.state)
    elif isinstance(value, FrozenEstimator):
        digest.update(pickle.dumps(value))
    elif isinstance(value, BaseEstimator):
        _feed(digest, value.get_params(deep=False))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        _feed(digest, fields)
        _feed_call(digest, value)
    elif isinstance(value, FunctionType):
        _feed_function(digest, value)
    elif isinstance(value, MethodType):
        _feed_all(digest, [value.__func__, value.__self__])
    elif isinstance(value, partial):
        _feed_all(digest, [value.func, value.args, value.keywords])
    elif isinstance(value, ModuleType):
        digest.update(value.__name__.encode())
    elif hasattr(value, "__qualname__"):  # classes, and functions that are compiled
        digest.update(_dotted(value).encode())
    elif hasattr(value, "to_numpy") and hasattr(value, "columns"):  # data frames
        names = [str(name) for name in getattr(value, "column_names", value.columns)]
        _feed_all(digest, [names, *(np.asarray(value[name]) for name in value.columns)])
    elif hasattr(value, "__array__"):
        _feed_array(digest, np.asarray(on_host(value)))
    else:
        _feed_pickle(digest, value)
        _feed_call(digest, value)


def _feed_all(digest: _Digest, values: Iterable[Any]) -> None:
    for value in values:
        _feed(digest, value)


def _feed_array(digest: _Digest, array: Any) -> None:
    digest.update(f"{array.dtype.str}{array.shape}".encode())
    if array.dtype.hasobject:
        _feed_all(digest, array.ravel().tolist())
    else:
        digest.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")


def _feed_sparse(digest: _Digest, matrix: Any) -> None:
    rows = matrix.tocsr()
    _feed_all(digest, [rows.shape, rows.data, rows.indices, rows.indptr])


def _feed_function(digest: _Digest, function: FunctionType) -> None:
    """Add name, code, defaults and closure: all lambdas of one scope have the same name."""
    digest.update(_dotted(function).encode())
    _feed_code(digest, function.__code__)
    _feed_all(digest, [function.__defaults__, function.__kwdefaults__])
    helpers = []
    for value in _closure(function):
        if isinstance(value, FunctionType):
            _feed_code(digest, value.__code__)
            helpers.append(value)
        else:
            _feed(digest, value)
    _feed_dependencies(digest, function, helpers)


def _closure(function: FunctionType) -> list[Any]:
    """Return the values that a function reads from enclosing functions."""
    values = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # the cell is empty: nothing is assigned yet
            values.append(cell.cell_contents)
    return values


def _feed_call(digest: _Digest, value: Any) -> None:
    """Add what calling an object of the user's does: its class enters by name alone."""
    if callable(value):
        call = type(value).__call__
        if isinstance(call, FunctionType) and not is_library(call.__module__, call.__module__):
            _feed_function(digest, call)


def _feed_dependencies(
    digest: _Digest, function: FunctionType, helpers: Iterable[FunctionType]
) -> None:
    """Add what a function reads beside its own code; nothing at all if there is nothing."""
    # A function may refer to itself, or be in a global that it reads.
    if id(function) in digest.open_functions:
        return
    digest.open_functions.add(id(function))
    for helper in helpers:
        parts = [helper.__defaults__, helper.__kwdefaults__]
        if any(parts):
            _feed_all(digest, parts)
        inner = _closure(helper)
        _feed_all(digest, [value for value in inner if not isinstance(value, FunctionType)])
        functions = [value for value in inner if isinstance(value, FunctionType)]
        for value in functions:
            if id(value) not in digest.open_functions:
                _feed_code(digest, value.__code__)
        _feed_dependencies(digest, helper, functions)
    for name, value in globals_read(function):
        digest.update(f"[{name}]".encode())
        _feed_global(digest, value, function.__module__)
    digest.open_functions.discard(id(function))


def _feed_global(digest: _Digest, value: Any, home: str) -> None:
    """Add the value of a global; functions of libraries, and what has no pickle, by name alone."""
    if isinstance(value, FunctionType) and (
        is_library(value.__module__, home) or id(value) in digest.open_functions
    ):
        digest.update(_dotted(value).encode())
        return
    try:
        _feed(digest, value)
    except TypeError:  # a lock, a connection: nothing that could be compared
        digest.update(_dotted(type(value)).encode())


def _feed_code(digest: _Digest, code: CodeType) -> None:
    digest.update(code.co_code)
    _feed_all(digest, code.co_names)
    for constant in code.co_consts:
        _feed_code(digest, constant) if isinstance(constant, CodeType) else _feed(digest, constant)


def _feed_pickle(digest: _Digest, value: Any) -> None:
    try:
        digest.update(pickle.dumps(value))
    except Exception as error:  # __reduce__ of an object may raise anything
        raise TypeError(
            f"no fingerprint of a {type(value).__name__} can be computed: it must be picklable"
        ) from error


def _dotted(kind: Any) -> str:
    """Return the name of a type or function with its module; those of kdey without their module.

    Names in kdey are unique, and a digest must not change because a file moves.
    """
    module = "kdey" if kind.__module__.startswith("kdey.") else kind.__module__
    return f"{module}.{kind.__qualname__}"


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


Hashes = NDArray[np.uint64]

#: Numbers that are hashed at a time (32 MB).
_CHUNK = 1 << 22
_STEP = np.uint64(0x9E3779B97F4A7C15)
#: Stands for NaN, which has many bit patterns.
_NAN = np.uint64(0x7FF8000000000000)


def row_hashes(X: Any) -> Hashes:
    """Return one hash per row, which depends on nothing but the values of the row.

    Parameters
    ----------
    X : array, sparse matrix, data frame or list of m rows

    Returns
    -------
    uint64 array of shape (m,)
    """
    import narwhals as nw
    from scipy.sparse import issparse

    if issparse(X):
        return _of_sparse(X)
    if nw.dependencies.is_into_dataframe(X):
        frame = nw.from_native(X, eager_only=True)
        columns = [_of_column(frame[name]) for name in frame.columns]
        return combine(columns, len(frame))
    array = np.asarray(X)
    rows = array if array.ndim == 2 else array.reshape(len(array), -1 if len(array) else 1)
    if rows.dtype.kind in "biuf":
        return _of_numbers(rows)
    return combine([_of_cells(rows[:, j]) for j in range(rows.shape[1])], len(rows))


def combine(columns: Iterable[Hashes], n_rows: int) -> Hashes:
    """Return one hash per row from hashes of its cells, column by column."""
    total = np.zeros(n_rows, dtype=np.uint64)
    for number, column in enumerate(columns):
        total += mix(column + np.uint64(number * int(_STEP) % 2**64))
    return mix(total)


def mix(values: Hashes) -> Hashes:
    """Return values spread over all 64 bits: the finaliser of SplitMix64."""
    mixed = values + _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def text_hashes(texts: Iterable[str]) -> Hashes:
    """Return the hashes of texts; computed once for each distinct one."""
    listed = list(texts)
    known = {text: _text_hash(text) for text in dict.fromkeys(listed)}
    return np.fromiter((known[text] for text in listed), np.uint64, count=len(listed))


def _text_hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _of_cells(values: Iterable[Any]) -> Hashes:
    """Return hashes of cells of any type; a text that spells a number is that number.

    The cells of text files are texts, and those of other tables numbers.
    """
    texts = ["nan" if value is None else str(value) for value in values]
    known: dict[str, int] = {}
    for text in dict.fromkeys(texts):
        try:
            known[text] = int(_bits(np.array([float(text or "nan")]))[0])
        except ValueError:
            known[text] = _text_hash(text)
    return np.fromiter((known[text] for text in texts), np.uint64, count=len(texts))


def _bits(numbers: NDArray[Any]) -> Hashes:
    """Return the bits of numbers as float64; all zeros are one number, and all NaNs."""
    floats = np.ascontiguousarray(numbers, dtype=np.float64) + 0.0
    bits = floats.view(np.uint64)
    return np.where(np.isnan(floats), _NAN, bits)


def _of_numbers(rows: NDArray[Any]) -> Hashes:
    steps = np.arange(rows.shape[1], dtype=np.uint64) * _STEP
    out = np.empty(len(rows), dtype=np.uint64)
    size = max(1, _CHUNK // max(rows.shape[1], 1))
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        out[part] = mix(_bits(rows[part]) + steps).sum(axis=1, dtype=np.uint64)
    return mix(out)


def _of_sparse(matrix: Any) -> Hashes:
    """Return the hashes of the rows of a sparse matrix; entries that are zero do not count."""
    matrix = matrix.tocsr().copy()  # the caller's stays as it is
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    cells = mix(_bits(matrix.data) + matrix.indices.astype(np.uint64) * _STEP)
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(cells, dtype=np.uint64)])
    return mix(total[matrix.indptr[1:]] - total[matrix.indptr[:-1]])


def _of_column(column: Any) -> Hashes:
    import narwhals as nw

    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        return _bits(np.asarray(column.to_numpy(), dtype=np.float64))
    return _of_cells(column.to_list())
