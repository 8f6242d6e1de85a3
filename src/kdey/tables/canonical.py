"""The canonical text of a value: what a typed source and a text file have in common.

A key, a label or a category may come as the integer 7 from Parquet, as the float 7.0 from a column
with gaps, and as the text "7" from CSV. They are the same where their canonical texts are. Texts
are their own: "007", "7.0" and "True" stay what they are and differ from "7" and "true".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date, datetime, time
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from kdey.tables.columns import Series

#: Whole floats from here on are not written as integers: float64 skips some of these.
_EXACT = 2.0**53
#: Values that hold others are no keys, labels or categories.
_CONTAINERS = (list, tuple, dict, set, frozenset, np.ndarray, bytearray, memoryview)


def canonical_text(value: Any) -> str:
    """Return the one text of a value; "" where it is missing (None, NaN, NaT, an empty text).

    Parameters
    ----------
    value : text, truth value, number, date, time, or any other object with a text of its own
        Integers have no leading zeros and no plus sign; floats that are whole numbers are written
        as integers, others as Python repeats them; truth values are "true" and "false"; dates and
        instants are ISO 8601, an instant at midnight without a time zone as its date.

    Raises
    ------
    ValueError
        If the value is a container or bytes.
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, bytes):
        raise ValueError(f"{_shown(value)} is bytes: decode it to text")
    if isinstance(value, _CONTAINERS):
        raise ValueError(f"{_shown(value)} is a {type(value).__name__}, not one value")
    if is_missing_value(value):
        return ""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Decimal):
        return _decimal_text(value)
    if isinstance(value, Real):
        return _float_text(value)
    if isinstance(value, datetime):
        return _instant_text(value)
    return value.isoformat() if isinstance(value, date | time) else str(value)


def is_missing_value(value: Any) -> bool:
    """Return whether a value is missing: None, an empty text, NaN, NaT or pandas' NA."""
    if value is None or (isinstance(value, str) and value == ""):
        return True
    try:
        return bool(value != value)  # NaN and NaT differ from themselves
    except (TypeError, ValueError):  # NA refuses to be compared; arrays have no single answer
        return not isinstance(value, _CONTAINERS)


def _float_text(value: Any) -> str:
    number = float(value)
    if number.is_integer() and abs(number) < _EXACT:
        return str(int(number))
    # NumPy's single precision has fewer digits than the float that it becomes.
    return str(value) if isinstance(value, np.floating) and math.isfinite(number) else repr(number)


def _decimal_text(value: Decimal) -> str:
    if not value.is_finite():
        return str(value)
    whole = value.to_integral_value()
    return str(int(whole)) if whole == value else format(value.normalize(), "f")


def _instant_text(value: datetime) -> str:
    at_midnight = value.tzinfo is None and value.time() == time()
    return value.date().isoformat() if at_midnight else value.isoformat()


def canonical_column(column: Series) -> NDArray[np.object_]:
    """Return the canonical text of each entry of a column, shape (m,); "" where it is missing.

    Raises
    ------
    ValueError
        If two different values of the column share one text, naming both; or if a value has none.
    """
    values = plain_values(column)
    tokens = value_tokens(column, values)
    distinct = dict(zip(tokens, values, strict=True))
    texts = distinct_texts(distinct.values(), str(column.name))
    text_of = dict(zip(distinct, texts, strict=True))
    out = np.empty(len(values), dtype=object)
    out[:] = [text_of[token] for token in tokens]
    return out


def plain_values(column: Series) -> list[Any]:
    """Return the values of a column; those of single precision keep it."""
    values = column.to_list()
    if str(column.dtype) == "Float32":
        return [None if value is None else np.float32(value) for value in values]
    return values


def value_tokens(column: Series, values: list[Any]) -> list[Any]:
    """Return what tells the values of a column apart, one hashable token for each.

    For Python True, 1 and 1.0 are equal, so that in a column of objects the type counts too.

    Raises
    ------
    ValueError
        If a value is a container, naming the column.
    """
    import narwhals as nw

    typed = column.dtype not in (nw.Object, nw.Unknown, nw.List, nw.Array, nw.Struct)
    return values if typed else typed_tokens(str(column.name), values)


def typed_tokens(name: str, values: list[Any]) -> list[Any]:
    """As :func:`value_tokens` for values of any types."""
    tokens = [(type(value), value) for value in values]
    try:
        set(tokens)
    except TypeError:
        for value in values:
            text_in_column(name, value)
        raise ValueError(f"column {name!r} holds values that cannot be compared") from None
    return tokens


def distinct_texts(values: Iterable[Any], name: str) -> list[str]:
    """Return the canonical texts of values of one column; raise where two different ones share one.

    Whole numbers are the same in every type: 7 and 7.0 do not clash, 7 and "7" do.
    """
    first: dict[str, Any] = {}
    texts = []
    for value in values:
        text = text_in_column(name, value)
        check_same(first.setdefault(text, value), value, name)
        texts.append(text)
    return texts


def check_same(first: Any, second: Any, name: str) -> None:
    """Raise where two values that share a canonical text are not the same."""
    if is_missing_value(first) and is_missing_value(second):
        return
    if isinstance(first, str) == isinstance(second, str) and first == second:
        return
    raise ValueError(
        f"column {name!r} holds both {_shown(first)} ({type(first).__name__}) and "
        f"{_shown(second)} ({type(second).__name__}), which are the same once written: make "
        "them alike"
    )


def text_in_column(name: str, value: Any) -> str:
    """Return the canonical text of a value; errors name its column."""
    try:
        return canonical_text(value)
    except ValueError as error:
        raise ValueError(f"column {name!r} cannot be used: {error}") from None


def _shown(value: Any) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 40 else text[:39] + "…"
