"""Fingerprints: short digests that are equal for equal values, across processes and machines.

They tell whether a stage was already fitted, and whether a log belongs to a search.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
from collections.abc import Iterable, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

from kdey._support.names import stable_name, without_added_defaults

_PLAIN = (str, bytes, bool, int, float, complex, type(None))


def fingerprint(*values: Any) -> str:
    """Return a digest of the values, 32 hexadecimal digits.

    Estimators enter by class and parameters (a ``FrozenEstimator`` by its fitted state), without
    parameters at their default that the class did not have in its first release; arrays,
    sparse matrices and frames by their contents, functions by name, code and closure, classes by
    name, random states by their state, and other objects by their pickle.

    Raises
    ------
    TypeError
        If a value is of none of these kinds and cannot be pickled.
    """
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        _feed(digest, value)
    return digest.hexdigest()


def _feed(digest: Any, value: Any) -> None:
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


def _feed_object(digest: Any, value: Any) -> None:
    if isinstance(value, np.random.RandomState):
        _feed(digest, value.get_state(legacy=False))
    elif isinstance(value, np.random.Generator):
        _feed(digest, value.bit_generator.state)
    elif isinstance(value, FrozenEstimator):
        digest.update(pickle.dumps(value))
    elif isinstance(value, BaseEstimator):
        _feed(digest, without_added_defaults(value, value.get_params(deep=False)))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        _feed(digest, without_added_defaults(value, fields))
    elif isinstance(value, FunctionType):
        _feed_function(digest, value)
    elif isinstance(value, MethodType):
        _feed_all(digest, [value.__func__, value.__self__])
    elif isinstance(value, ModuleType):
        digest.update(value.__name__.encode())
    elif hasattr(value, "__qualname__"):  # classes, and functions that are compiled
        digest.update(_dotted(value).encode())
    elif hasattr(value, "to_numpy") and hasattr(value, "columns"):  # data frames
        names = [str(name) for name in getattr(value, "column_names", value.columns)]
        _feed_all(digest, [names, *(np.asarray(value[name]) for name in value.columns)])
    elif hasattr(value, "__array__"):
        _feed_array(digest, np.asarray(value))
    else:
        _feed_pickle(digest, value)


def _feed_all(digest: Any, values: Iterable[Any]) -> None:
    for value in values:
        _feed(digest, value)


def _feed_array(digest: Any, array: Any) -> None:
    digest.update(f"{array.dtype.str}{array.shape}".encode())
    if array.dtype.hasobject:
        _feed_all(digest, array.ravel().tolist())
    else:
        digest.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")


def _feed_sparse(digest: Any, matrix: Any) -> None:
    rows = matrix.tocsr()
    _feed_all(digest, [rows.shape, rows.data, rows.indices, rows.indptr])


def _feed_function(digest: Any, function: FunctionType) -> None:
    """Add name, code, defaults and closure: all lambdas of one scope have the same name."""
    digest.update(_dotted(function).encode())
    _feed_code(digest, function.__code__)
    _feed_all(digest, [function.__defaults__, function.__kwdefaults__])
    for cell in function.__closure__ or ():
        value = cell.cell_contents
        # A function may refer to itself, so functions in a closure enter by their code alone.
        if isinstance(value, FunctionType):
            _feed_code(digest, value.__code__)
        else:
            _feed(digest, value)


def _feed_code(digest: Any, code: CodeType) -> None:
    digest.update(code.co_code)
    _feed_all(digest, code.co_names)
    for constant in code.co_consts:
        _feed_code(digest, constant) if isinstance(constant, CodeType) else _feed(digest, constant)


def _feed_pickle(digest: Any, value: Any) -> None:
    try:
        digest.update(pickle.dumps(value))
    except Exception as error:  # __reduce__ of an object may raise anything
        raise TypeError(
            f"no fingerprint of a {type(value).__name__} can be computed: it must be picklable"
        ) from error


def _dotted(kind: Any) -> str:
    """Return the stable name of a type or function, with a dot between module and name."""
    return stable_name(kind).replace(":", ".")
