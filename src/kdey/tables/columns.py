"""Questions that are asked of one column: numbers, texts, dates, and which values are missing.

Columns come as narwhals series, from data frames of pandas, polars and pyarrow alike. Typed columns
keep their types; a column of texts becomes numbers or dates only where its role asks for them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kdey._support.counts import count_of
from kdey.tables.canonical import canonical_column, is_missing_value
from kdey.tables.cells import is_missing_text, parse_number

if TYPE_CHECKING:
    import narwhals as nw

#: A data frame of any library, as narwhals wraps it, and a column of one.
Frame: TypeAlias = "nw.DataFrame[Any]"
Series: TypeAlias = "nw.Series[Any]"

#: The number of a table's first row, or the numbers of all its rows, for messages.
RowNumbers: TypeAlias = int | NDArray[np.int64]

_EPOCH = dt.datetime(1970, 1, 1)


def as_frame(data: Any) -> Frame:
    """Return a data frame of any library as a narwhals frame.

    Raises
    ------
    TypeError
        If it is no data frame in memory.
    ValueError
        If its columns have no single names that are texts.
    """
    import narwhals as nw

    try:
        frame: Frame = nw.from_native(data, eager_only=True)
    except TypeError:
        raise TypeError(
            f"a data frame of pandas, polars or pyarrow is needed, got {type(data).__name__}"
        ) from None
    names = list(frame.columns)
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise ValueError(
            f"columns must have texts for names, got {odd[0]!r} ({type(odd[0]).__name__}): rename "
            "them"
        )
    return frame


def row_number(first: RowNumbers, position: int) -> int:
    """Return the number that a row has in its file, from its position among rows at hand."""
    return int(first[position]) if isinstance(first, np.ndarray) else first + position


def require(frame: Frame, names: Sequence[str], what: str = "column") -> None:
    """Raise ValueError unless a frame has all columns named."""
    require_names(frame.columns, names, what)


def require_names(present: Sequence[str], names: Sequence[str], what: str = "column") -> None:
    """Raise ValueError unless all names are among those of a table's columns.

    Parameters
    ----------
    present : names of all columns of the table
    names : names that are needed
    what : str
        What the message calls them.
    """
    absent = [name for name in names if name not in present]
    if absent:
        shown = ", ".join(map(str, present[:30])) + (", ..." if len(present) > 30 else "")
        several = "s" if len(absent) > 1 else ""
        similar = _similar_name(str(absent[0]), [name for name in present if isinstance(name, str)])
        hint = f" (did you mean {similar!r}?)" if similar else ""
        raise ValueError(
            f"no {what}{several} {', '.join(map(repr, absent[:8]))}"
            f"{', ...' if len(absent) > 8 else ''}{hint}; the table has {shown}"
        )


def _similar_name(name: str, present: Sequence[str]) -> str | None:
    """Return the name that was probably meant: with other capital letters, or nearly the same."""
    by_letters = {other.casefold().strip(): other for other in present}
    close = get_close_matches(name.casefold().strip(), by_letters, n=1)
    return by_letters[close[0]] if close else None


def is_number(column: Series) -> bool:
    """Return whether a column holds numbers or truth values."""
    return bool(column.dtype.is_numeric()) or is_truth(column)


def is_truth(column: Series) -> bool:
    """Return whether a column holds truth values."""
    import narwhals as nw

    return bool(column.dtype == nw.Boolean)


def is_text(column: Series) -> bool:
    """Return whether a column holds texts, or nothing at all."""
    import narwhals as nw

    # A column without a single value has no type worth the name.
    known = column.dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object)
    return known or column.null_count() == len(column)


def is_declared_category(column: Series) -> bool:
    """Return whether the type of a column says that it holds categories."""
    import narwhals as nw

    return column.dtype in (nw.Categorical, nw.Enum)


def is_date(column: Series) -> bool:
    """Return whether the type of a column is that of dates or instants."""
    import narwhals as nw

    return column.dtype in (nw.Date, nw.Datetime)


def missing_in(column: Series, numeric: bool = False) -> NDArray[np.bool_]:
    """Return which entries of a column are missing: null, NaN or an empty text, shape (m,).

    ``numeric`` says that the column is one of numbers or dates, where texts such as "NA" stand for
    missing values too.
    """
    null = column.is_null().to_numpy().astype(np.bool_)
    if column.dtype.is_float():
        return np.asarray(null | np.isnan(_floats(column, np.float64)))
    if not is_text(column):
        return null
    missing = _is_missing_number if numeric else is_missing_value
    known = {value: missing(value) for value in _hashable(column)}
    return np.array([known[value] for value in column.to_list()], dtype=np.bool_)


def _is_missing_number(value: Any) -> bool:
    return is_missing_text(value) if isinstance(value, str) else is_missing_value(value)


def _hashable(column: Series) -> set[Any]:
    try:
        return set(column.to_list())
    except TypeError:
        raise ValueError(
            f"column {column.name!r} holds lists or other collections, not single values: leave it "
            "out"
        ) from None


def numbers(
    column: Series, dtype: DTypeLike = np.float64, first: RowNumbers = 1, decimal: str = "."
) -> NDArray[np.floating]:
    """Return a column as floats, NaN where missing, shape (m,).

    Parameters
    ----------
    column : narwhals series
    dtype : floating type
    first : int, or int array of shape (m,)
        Number of the column's first row, or of all rows, for messages.
    decimal : {".", ","}
        Decimal mark of texts.

    Raises
    ------
    ValueError
        If a value is no number; the message names the column and the row.
    """
    if is_number(column):
        return _floats(column, dtype)
    if not is_text(column):
        raise ValueError(f"column {column.name!r} must hold numbers, but holds {type_of(column)}")
    cast = plain_numbers(column) if decimal == "." else None
    if cast is not None:
        return np.asarray(cast, dtype=dtype)
    known = {value: _number(value, decimal) for value in _hashable(column)}
    values = [known[value] for value in column.to_list()]
    if None in values:
        raise ValueError(
            f"column {column.name!r} must hold numbers, but {first_text(column, first, decimal)}"
        )
    return np.array(values, dtype=dtype)


def finite_numbers(
    column: Series, first: RowNumbers = 1, decimal: str = "."
) -> NDArray[np.float64]:
    """Return a column of a feature as floats; truth values and infinite numbers are refused.

    Parameters and errors as for :func:`numbers`.
    """
    if is_truth(column):
        raise ValueError(
            f"column {column.name!r} must hold numbers as in training, but holds truth values"
        )
    values = np.asarray(numbers(column, first=first, decimal=decimal), dtype=np.float64)
    infinite = np.isinf(values)
    if infinite.any():
        such_rows = count_of(int(infinite.sum()), "such row")
        raise ValueError(
            f"column {column.name!r} has an infinite value in row "
            f"{row_number(first, int(np.argmax(infinite)))} ({such_rows}): "
            "correct it, or make it empty"
        )
    return values


def _number(value: Any, decimal: str) -> float | None:
    """Return the number that a value is or spells; NaN where it is missing, None otherwise."""
    if isinstance(value, str):
        return parse_number(value, decimal)
    if is_missing_value(value):
        return float("nan")
    try:
        return None if isinstance(value, bool | np.bool_) else float(value)
    except (TypeError, ValueError):
        return None


def plain_numbers(column: Series) -> NDArray[np.float64] | None:
    """Return texts as floats by the frame's own library, which is quicker; None if it cannot.

    Only plain numbers pass: polars and pyarrow read fewer spellings than :func:`numbers` does, and
    pandas reads more, so that it is not asked.
    """
    import narwhals as nw

    if column.dtype != nw.String or column.implementation.is_pandas_like():
        return None
    try:
        cast = column.cast(nw.Float64)
    except Exception:  # each library has errors of its own for texts that are no numbers
        return None
    values = np.asarray(_floats(cast, np.float64), dtype=np.float64)
    plain = np.isfinite(values) | column.is_null().to_numpy().astype(np.bool_)
    return values if plain.all() else None


def _floats(column: Series, dtype: DTypeLike) -> NDArray[np.floating]:
    if column.null_count() == 0:
        return np.asarray(column.to_numpy(), dtype=dtype)
    import narwhals as nw

    filled = column.cast(nw.Float64).fill_null(float("nan"))
    return np.asarray(filled.to_numpy(), dtype=dtype)


def first_text(column: Series, first: RowNumbers = 1, decimal: str = ".") -> str:
    """Return where a column first holds a text that is no number."""
    for i, value in enumerate(column.to_list()):
        if _number(value, decimal) is None:
            other = "," if decimal == "." else "."
            hint = "" if _number(value, other) is None else f" (decimal mark {other!r}: --decimal)"
            return f"row {row_number(first, i)} has {str(value)[:40]!r}{hint}"
    return "all of them look like numbers"


def category_texts(column: Series) -> NDArray[np.object_]:
    """Return the canonical texts of a column, "" where a value is missing, shape (m,)."""
    return canonical_column(column)


def plain_texts(column: Series) -> NDArray[np.object_]:
    """Return a column of free texts as they are, "" where one is missing, shape (m,)."""
    out = np.empty(len(column), dtype=object)
    out[:] = ["" if is_missing_value(value) else str(value) for value in column.to_list()]
    return out


def day_numbers(column: Series, first: RowNumbers = 1) -> NDArray[np.float64]:
    """Return dates or instants as days since the start of 1970, NaN where missing, shape (m,).

    Texts must be ISO 8601 (2024-01-31, 2024-01-31T12:00).
    """
    days = np.empty(len(column))
    for i, value in enumerate(column.to_list()):
        missing = is_missing_text(value) if isinstance(value, str) else is_missing_value(value)
        instant = None if missing else _instant(value)
        if not missing and instant is None:
            raise ValueError(
                f"column {column.name!r} must hold dates such as 2024-01-31, but row "
                f"{row_number(first, i)} has {str(value)[:40]!r}"
            )
        days[i] = np.nan if instant is None else (instant - _EPOCH) / dt.timedelta(days=1)
    return days


def _instant(value: Any) -> dt.datetime | None:
    """Return the instant that a value is or spells, in UTC without a time zone; None if none."""
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, dt.datetime):
        return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
    return dt.datetime(value.year, value.month, value.day) if isinstance(value, dt.date) else None


def type_of(column: Series) -> str:
    """Return what a column holds, in words."""
    return "truth values" if is_truth(column) else f"values of type {column.dtype}"
