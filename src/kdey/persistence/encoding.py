"""Encoding of a fitted quantifier as a tree of JSON values, and decoding.

Numbers, texts, lists and dicts are JSON values themselves; arrays and objects of other libraries
are stored separately and referred to by a number. Objects of this package are written as the name
of their class and their fields, and decoding creates only objects of data classes (frozen
dataclasses and quantifiers). Quantifiers, row maps and matchings that users wrote are created only
if their type is trusted.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from kdey.matching import Generator, Matching
from kdey.matching.penalty import Penalty, RatioShrinkage, Smoothness
from kdey.quantifiers.base import BaseQuantifier
from kdey.rows.base import RowMap, RowSpec

Node = Any
#: Types that are encoded as parts of a quantifier, whoever wrote them. Everything else (the
#: classifier) is foreign and written by skops.
PART_TYPES = (BaseQuantifier, RowSpec, RowMap, Matching)
#: What a model file may name of the room of matchings, which has the problems too.
MATCHING_PARTS = (Matching, RowMap, Generator, Penalty, Smoothness, RatioShrinkage)
#: Rooms of the package whose classes a model file may name; but see ``_is_problem``.
_ROOMS = (
    *("bags", "calibration", "decisions", "kernels", "matching", "model", "neural", "posteriors"),
    *("evaluation.protocols", "quantifiers", "rows", "stacking", "tables"),
    *("tuning",),
)


@dataclass(frozen=True)
class Parts:
    """The objects that a tree refers to by number, and the types that may be created.

    Attributes
    ----------
    arrays : list of arrays
        Arrays whose dtype contains no Python objects.
    foreign : list
        Objects of other libraries (classifiers).
    trusted : frozenset of str
        Names of types outside kdey that may be created, as "module:Class".
    """

    arrays: list[NDArray[Any]] = field(default_factory=list)
    foreign: list[Any] = field(default_factory=list)
    trusted: frozenset[str] = frozenset()


def encode(value: Any, parts: Parts, where: str = "quantifier") -> Node:
    """Return the node of a value.

    Parameters
    ----------
    value : object
    parts : Parts
        Arrays and foreign objects are appended to it.
    where : str
        Path to the value, for messages.

    Returns
    -------
    JSON value

    Raises
    ------
    TypeError
        If the value is an object of this package that contains more than data.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return value if isinstance(value, int) or math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray | np.generic):
        return _encode_array(np.asarray(value), isinstance(value, np.generic), parts, where)
    if isinstance(value, list | tuple):
        items = [encode(item, parts, f"{where}[{i}]") for i, item in enumerate(value)]
        return {type(value).__name__ if type(value) in (list, tuple) else "list": items}
    if isinstance(value, dict):
        return {
            "dict": [[encode(k, parts, where), encode(v, parts, where)] for k, v in value.items()]
        }
    return _encode_object(value, parts, where)


def _encode_array(array: NDArray[Any], scalar: bool, parts: Parts, where: str) -> Node:
    if array.dtype.hasobject:
        items = [encode(item, parts, where) for item in array.ravel().tolist()]
        return {"objects": items, "shape": list(array.shape)}
    for number, known in enumerate(parts.arrays):
        if known is array:
            return {"array": number}
    parts.arrays.append(array)
    return {"scalar" if scalar else "array": len(parts.arrays) - 1}


def _encode_object(value: Any, parts: Parts, where: str) -> Node:
    kind = type(value)
    if isinstance(value, Pipeline) and _is_inside(type(value.steps[-1][1])):
        # A pool behind the schema of a table: its own parts are encoded one by one.
        steps = [[name, encode(step, parts, f"{where}.{name}")] for name, step in value.steps]
        return {"pipeline": steps}
    if not (_is_inside(kind) or isinstance(value, PART_TYPES)):
        parts.foreign.append(value)
        return {"foreign": len(parts.foreign) - 1}
    name = f"{kind.__module__}:{kind.__qualname__}"
    if isinstance(value, BaseEstimator):
        params = value.get_params(deep=False)
        # Private attributes are recomputed when they are needed.
        state = {
            key: item
            for key, item in vars(value).items()
            if key not in params and not key.startswith("_")
        }
        return {
            "estimator": name,
            "params": {key: encode(item, parts, f"{where}.{key}") for key, item in params.items()},
            "state": {key: encode(item, parts, f"{where}.{key}") for key, item in state.items()},
        }
    if dataclasses.is_dataclass(value):
        fields = {
            f.name: encode(getattr(value, f.name), parts, f"{where}.{f.name}")
            for f in dataclasses.fields(value)
            if f.init
        }
        return {"dataclass": name, "fields": fields}
    raise TypeError(f"{where} is a {kind.__qualname__}, which a model file cannot contain")


def _is_inside(kind: type) -> bool:
    """Return whether a class is one of this package."""
    return kind.__module__.startswith("kdey.")


def decode(node: Node, parts: Parts) -> Any:
    """Return the value of a node.

    Parameters
    ----------
    node : JSON value
    parts : Parts
        The arrays and foreign objects that nodes refer to.

    Returns
    -------
    object

    Raises
    ------
    ValueError
        If the node is not one that :func:`encode` returns, or names a type that is not allowed.
    """
    if node is None or isinstance(node, bool | int | float | str):
        return node
    if not isinstance(node, dict) or not node:
        raise ValueError(f"unknown entry {node!r:.60}")
    kind = next(iter(node))
    if kind not in _DECODERS:
        raise ValueError(f"unknown kind of entry {kind!r:.60}")
    return _DECODERS[kind](node, parts)


def _decode_objects(node: Node, parts: Parts) -> NDArray[Any]:
    array = np.empty(len(node["objects"]), dtype=object)
    array[:] = [decode(item, parts) for item in node["objects"]]
    return array.reshape(node["shape"])


def _decode_estimator(node: Node, parts: Parts) -> Any:
    estimator = _class_of(node["estimator"], parts)(
        **{key: decode(item, parts) for key, item in node["params"].items()}
    )
    for key, item in node["state"].items():
        setattr(estimator, key, decode(item, parts))
    return estimator


def _decode_dataclass(node: Node, parts: Parts) -> Any:
    fields = {key: decode(item, parts) for key, item in node["fields"].items()}
    kind = _class_of(node["dataclass"], parts)
    try:
        return kind(**fields)
    except TypeError as error:  # a field is missing, or unknown
        raise ValueError(f"its parts do not fit together ({error!r:.200})") from error


def types_outside(node: Node) -> set[str]:
    """Return the names of the types outside kdey that a tree contains."""
    names, waiting = set[str](), [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting.extend(part)
        elif isinstance(part, dict):
            names |= {str(part[key]) for key in ("estimator", "dataclass") if key in part}
            waiting.extend(part.values())
    return {name for name in names if not name.startswith("kdey.")}


def _class_of(name: str, parts: Parts) -> Any:
    """Return a data class by its name; no other attribute of a module can be reached."""
    module, _, qualified = str(name).partition(":")
    inside = f"{module}.".startswith(tuple(f"kdey.{room}." for room in _ROOMS))
    if not (inside or name in parts.trusted) or not qualified.isidentifier():
        raise ValueError(f"a model file must not name {name!r:.80}")
    try:
        kind = getattr(import_module(module), qualified)
    except (ImportError, AttributeError):
        raise ValueError(f"there is no {name!r:.80} in this environment") from None
    is_class = isinstance(kind, type)
    has_data = dataclasses.is_dataclass(kind) or (is_class and issubclass(kind, BaseEstimator))
    is_part = inside or (is_class and issubclass(kind, PART_TYPES))
    allowed = is_class and has_data and is_part and not _is_problem(kind)
    if not (allowed and kind.__module__ == module):
        raise ValueError(f"a model file must not name {name!r:.80}")
    return kind


def _is_problem(kind: Any) -> bool:
    """Return whether a class holds the data of bags: a few zeros can make one fill the memory."""
    return kind.__module__.startswith("kdey.matching.") and not issubclass(kind, MATCHING_PARTS)


_DECODERS = {
    "float": lambda node, parts: float(node["float"]),
    "list": lambda node, parts: [decode(item, parts) for item in node["list"]],
    "tuple": lambda node, parts: tuple(decode(item, parts) for item in node["tuple"]),
    "dict": lambda node, parts: {
        decode(key, parts): decode(item, parts) for key, item in node["dict"]
    },
    "array": lambda node, parts: parts.arrays[node["array"]],
    "scalar": lambda node, parts: parts.arrays[node["scalar"]][()],
    "objects": _decode_objects,
    "foreign": lambda node, parts: parts.foreign[node["foreign"]],
    "pipeline": lambda node, parts: Pipeline(
        [(str(name), decode(step, parts)) for name, step in node["pipeline"]]
    ),
    "estimator": _decode_estimator,
    "dataclass": _decode_dataclass,
}
