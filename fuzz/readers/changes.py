"""Changes to the parts of a model file that leave it a model file: JSON trees and arrays."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np


class Source(Protocol):
    """Where choices come from: the bytes of a fuzzer, or a generator."""

    def below(self, limit: int) -> int:
        """Return a number in [0, limit)."""

    def take(self, count: int) -> bytes:
        """Return ``count`` bytes, or fewer."""


#: What stands in a tree where something else belongs.
STRANGE: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**70, 1e308, "", "x", [], {}, [[]], {"float": "nan"}, {"float": "x"}),
    *({"array": 0}, {"array": -1}, {"array": 10**9}, {"array": "0"}, {"scalar": 0}, {"foreign": 0}),
    *({"list": 3}, {"tuple": [1, 2]}, {"dict": [[1]]}, {"dict": [[{"list": []}, 1]]}),
    *({"objects": [1], "shape": [2]}, {"objects": [1], "shape": "x"}, {"estimator": 3}),
    {"estimator": "kdey.quantifiers.counting:PACC", "params": {}, "state": {}},
    {"dataclass": "kdey.bags:Bags", "fields": {}},
    {"dataclass": "kdey.quantifiers.base:BaseQuantifier", "fields": []},
)
#: What an array may become.
SHAPES = ((), (0,), (1,), (3,), (3, 3), (36, 3), (1, 1, 1), (0, 3))
TYPES = ("<f8", "<f4", "<i8", "|b1", "<U3", "<c16", "<M8[s]", "|V8")


def changed_tree(data: bytes, source: Source) -> bytes:
    """Return a JSON member with a few of its entries changed."""
    tree = json.loads(data)
    for _ in range(1 + source.below(3)):
        places = list(_places(tree))
        if places:
            _change(*places[source.below(len(places))], source)
    return json.dumps(tree).encode()


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in list(keys):
        yield node, key
        yield from _places(node[key])


def _change(holder: Any, key: Any, source: Source) -> None:
    kind = source.below(5)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[key + "_" if source.below(2) else "classes_"] = holder.pop(key)
    elif kind == 2 and isinstance(holder[key], str):
        text = holder[key]
        at = source.below(len(text) + 1)
        holder[key] = text[:at] + source.take(2).decode("latin-1") + text[at + 1 :]
    elif kind == 3 and isinstance(holder[key], int | float):
        holder[key] = holder[key] * 3 - source.below(9)
    else:
        holder[key] = json.loads(json.dumps(STRANGE[source.below(len(STRANGE))]))


def changed_array(data: bytes, source: Source) -> bytes:
    """Return an array member with other values, another shape or type, or a false header."""
    array = np.load(io.BytesIO(data), allow_pickle=False)
    kind = source.below(4)
    if kind == 0:
        return false_header(data, source)
    if kind == 1:
        values = np.zeros(SHAPES[source.below(len(SHAPES))], TYPES[source.below(len(TYPES))])
    elif kind == 2:
        values = array[..., : source.below(4)] if array.ndim else array.astype("<f4")
    else:
        raw = bytearray(array.tobytes())
        for _ in range(4):
            at = source.below(max(len(raw), 1))
            raw[at : at + 8] = source.take(8).ljust(8, b"\xff")[: len(raw) - at]
        values = np.frombuffer(bytes(raw), array.dtype).reshape(array.shape)
    out = io.BytesIO()
    np.save(out, values, allow_pickle=False)
    return out.getvalue()


def false_header(data: bytes, source: Source) -> bytes:
    """Return an array whose header promises what the bytes do not hold."""
    header, false = data[:128], (b"(9999999999,)", b"(-1,)", b"(3, 10**9)", b"(2147483647, 99)")
    start = header.find(b"'shape': ") + 9
    end = header.find(b")", start) + 1
    if start < 9 or end < 1:
        return data[: source.below(len(data))]
    promise = false[source.below(len(false))]
    text = header[:start] + promise + header[end:].replace(b" ", b"", len(promise) - (end - start))
    return text[:128].ljust(127) + b"\n" + data[128:]
