"""Tables, and the questions that are asked of one column: numbers, texts, dates, missing values.

Columns come as narwhals series, from data frames of pandas, polars and pyarrow alike. Typed columns
keep their types; a column of texts becomes numbers or dates only where its role asks for them.

The *canonical text* of a value is what a typed source and a text file have in common. A key, a
label or a category may come as the integer 7 from Parquet, as the float 7.0 from a column with
gaps, and as the text "7" from CSV. They are the same where their canonical texts are. Texts are
their own: "007", "7.0" and "True" stay what they are and differ from "7" and "true".
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from difflib import get_close_matches
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias
from unicodedata import category, normalize

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kdey._display import count_of

if TYPE_CHECKING:
    import narwhals as nw

#: Spellings of a missing value in columns of numbers and dates, in any case. In columns of text
#: they are values (NA is Namibia), and only an empty cell is missing.
MISSING = ("NA", "N/A", "NaN", "null", "None")

_MISSING = frozenset(["", *(text.lower() for text in MISSING)])
_OTHER_MARK = {".": ",", ",": "."}
#: Python would read "1_000", "infinity" and digits of other scripts too. Thousands may be parted
#: where the decimal mark follows: 1.234 alone is one number in Berlin and another one in London.
_NUMBER = {
    mark: re.compile(
        rf"[+-]?(?:\d+(?:[{mark}]\d*)?|[{mark}]\d+|\d{{1,3}}(?:[{other}]\d{{3}})+[{mark}]\d+)"
        r"(?:[eE][+-]?\d+)?",
        re.ASCII,
    )
    for mark, other in _OTHER_MARK.items()
}
_INFINITE = re.compile(r"([+-]?)inf(?:inity)?", re.IGNORECASE)


def is_missing_text(text: str) -> bool:
    """Return whether a cell of a column of numbers or dates says that the value is missing."""
    return text.strip().lower() in _MISSING


def parse_number(text: str, decimal: str = ".") -> float | None:
    """Return the number that a cell spells; NaN where it is missing, None where it is none.

    Parameters
    ----------
    text : str
    decimal : {".", ","}
        The decimal mark. The other one may part thousands in front of it, as in "1,234.5"; "1,234"
        is no number.
    """
    stripped = text.strip()
    if _NUMBER[decimal].fullmatch(stripped):
        return float(stripped.replace(_OTHER_MARK[decimal], "").replace(",", "."))
    if stripped.lower() in _MISSING:
        return float("nan")
    infinite = _INFINITE.fullmatch(stripped)
    return float(f"{infinite[1]}inf") if infinite else None


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

    if column.dtype in (nw.Object, nw.Unknown, nw.List, nw.Array, nw.Struct):
        return typed_tokens(str(column.name), values)
    # When clocks are put back, the two instants of one reading are equal in Python.
    zoned = getattr(column.dtype, "time_zone", None) is not None
    return [(value, getattr(value, "fold", 0)) for value in values] if zoned else values


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


def look_alikes(texts: Iterable[str]) -> list[list[str]]:
    """Return texts that differ in what is not seen: zero-width characters, spaces, normal forms.

    Parameters
    ----------
    texts : distinct texts

    Returns
    -------
    list of lists
        Each of at least two texts that look alike.
    """
    known = list(texts)
    alike: dict[str, list[str]] = {}
    for text in known:
        alike.setdefault(visible(text), []).append(text)
    return [same for same in alike.values() if len(same) > 1]


def visible(text: str) -> str:
    """Return a text as it is seen: composed, single spaces within, no zero-width characters."""
    if not text.isascii():
        text = "".join(c for c in normalize("NFC", text) if category(c) != "Cf")
    return " ".join(text.split())


#: A data frame of any library, as narwhals wraps it, and a column of one.
Frame: TypeAlias = "nw.DataFrame[Any]"
Series: TypeAlias = "nw.Series[Any]"

#: The number of a table's first row, or the numbers of all its rows, for messages.
RowNumbers: TypeAlias = int | NDArray[np.int64]

_EPOCH = datetime(1970, 1, 1)


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
    from narwhals.exceptions import DuplicateError

    try:
        frame: Frame = nw.from_native(data, eager_only=True)
        names = list(frame.columns)
    except TypeError:
        lazy = ": collect it" if hasattr(data, "collect") else ""
        raise TypeError(
            f"a data frame of pandas, polars or pyarrow is needed, got {type(data).__name__}{lazy}"
        ) from None
    except DuplicateError:
        repeated = next(name for name, n in Counter(data.columns).items() if n > 1)
        raise ValueError(f"the column {repeated!r} is there twice: rename one") from None
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
    known = set(present)
    absent = [name for name in names if name not in known]
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
        texts = [text for text in dict.fromkeys(column.to_list()) if known[text] is None]
        odd = [text.strip() for text in texts if isinstance(text, str)]
        raise ValueError(
            f"column {column.name!r} must hold numbers, but {first_text(column, first, decimal)}"
            f"{cure(odd)}"
        )
    return np.array(values, dtype=dtype)


_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:([,.'\s\u2019])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")


def cure(odd: Sequence[str]) -> str:
    """Return what to do about texts in a column of numbers."""
    if not odd:
        return ""
    if any(map(_THOUSANDS.fullmatch, odd)):
        return ": if it parts thousands, write the numbers without (1234.5)"
    if any(any(map(str.isdigit, text)) for text in odd):  # a number in some way, and not missing
        return ": correct it, or make it empty if it is missing"
    return (
        ": correct it or, if it is missing, make it empty or say so where a file is read "
        f"(missing_values={list(odd[:4])!r})"
    )


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
    if column.implementation.is_pyarrow():  # by itself: narwhals takes as long again, by column
        return _plain_arrow_numbers(column.to_native())
    try:
        cast = column.cast(nw.Float64)
    except Exception:  # each library has errors of its own for texts that are no numbers
        return None
    values = np.asarray(_floats(cast, np.float64), dtype=np.float64)
    plain = np.isfinite(values) | column.is_null().to_numpy().astype(np.bool_)
    return values if plain.all() else None


def _plain_arrow_numbers(texts: Any) -> NDArray[np.float64] | None:
    import pyarrow as pa

    try:
        values = np.asarray(texts.cast(pa.float64()).to_numpy(), dtype=np.float64)
    except pa.ArrowInvalid:
        return None
    finite = np.isfinite(values)
    return values if (finite | texts.is_null().to_numpy()).all() else None


def number_block(frame: Frame, names: Sequence[str]) -> NDArray[np.float64] | None:
    """Return columns of plain numbers of a pyarrow table at once, shape (m, d); None if it cannot.

    A table of a file may have thousands of columns, and a question to each takes its time.

    Parameters
    ----------
    frame : narwhals frame
    names : names of columns, which the frame has

    Returns
    -------
    float64 array of shape (m, d), or None
        As :func:`finite_numbers` would give them. None where the frame is of another library, the
        columns are not all texts or all numbers of one type, or a value is not a plain number.
    """
    if not frame.implementation.is_pyarrow():
        return None
    import pyarrow as pa

    columns = [frame.to_native().column(name) for name in names]
    types = {column.type for column in columns}
    kind = types.pop()
    readable = (pa.types.is_string, pa.types.is_large_string, pa.types.is_floating)
    if types or not any(is_readable(kind) for is_readable in readable):
        return None
    joined = pa.chunked_array([chunk for column in columns for chunk in column.chunks], kind)
    floats = _plain_arrow_numbers(joined)
    return None if floats is None else floats.reshape(len(names), len(frame)).T


def _floats(column: Series, dtype: DTypeLike) -> NDArray[np.floating]:
    import narwhals as nw

    if column.dtype == nw.Decimal:  # the way of pyarrow to floats is off by a last digit
        column = column.cast(nw.String).cast(nw.Float64)
    if column.null_count() == 0:
        return np.asarray(column.to_numpy(), dtype=dtype)
    # Filled with NaN, a column of pandas 2.1 that is kept in Arrow would still have missing values.
    values = np.array(column.cast(nw.Float64).fill_null(0.0).to_numpy(), dtype=dtype)
    values[np.asarray(column.is_null().to_numpy(), dtype=bool)] = np.nan
    return values


def first_text(column: Series, first: RowNumbers, decimal: str) -> str:
    """Return where a column first holds a text that is no number."""
    for i, value in enumerate(column.to_list()):
        if _number(value, decimal) is None:
            other = "," if decimal == "." else "."
            hint = "" if _number(value, other) is None else f" (decimal mark {other!r}: decimal=)"
            return f"row {row_number(first, i)} has {str(value)[:40]!r}{hint}"
    return "all of them look like numbers"


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
        missing = _is_missing_number(value)
        instant = None if missing else _instant(value)
        if not missing and instant is None:
            raise ValueError(
                f"column {column.name!r} must hold dates such as 2024-01-31, but row "
                f"{row_number(first, i)} has {str(value)[:40]!r}"
            )
        days[i] = np.nan if instant is None else (instant - _EPOCH) / timedelta(days=1)
    return days


def _instant(value: Any) -> datetime | None:
    """Return the instant that a value is or spells, in UTC without a time zone; None if none."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return datetime(value.year, value.month, value.day) if isinstance(value, date) else None


def type_of(column: Series) -> str:
    """Return what a column holds, in words."""
    return "truth values" if is_truth(column) else f"values of type {column.dtype}"
