"""What a column looks like: guesses from its values, each with a reason that can be shown.

The thresholds are argued in docs/decisions/0016-tables.md.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from kdey.tables.canonical import canonical_text
from kdey.tables.cells import is_missing_text, parse_number
from kdey.tables.columns import (
    RowNumbers,
    Series,
    category_texts,
    day_numbers,
    finite_numbers,
    first_text,
    is_date,
    is_declared_category,
    is_number,
    is_text,
    is_truth,
    missing_in,
    plain_numbers,
    row_number,
    type_of,
)

if TYPE_CHECKING:
    from kdey.tables.schema import Kind

#: A column of texts with more different ones than this is no category.
MOST_CATEGORIES = 200
#: Share of different values from which a column of texts or integers is an id, and the rows below
#: which integers are too few to tell.
ID_SHARE, ID_ROWS = 0.99, 20
#: Share of the values that must look like dates, or like numbers with another decimal mark.
MOST = 0.9
#: Texts with this many words on average are sentences.
WORDS = 4.0

#: Whole numbers between these may be dates such as 20240131.
FIRST_DATE, LAST_DATE = 19000101, 20991231

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_LEADING_ZERO = re.compile(r"[+-]?0\d+", re.ASCII)
#: Dates in numbers, with the name of the month in any language (3 March 2026, Mar 3, 2026), and
#: months and weeks of a year (2026-03, 2026-W10); with or without the time of day.
_DATE = re.compile(
    r"""(?: [0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}
          | [0-9]{1,2}[-/.][0-9]{1,2}[-/.](?:[0-9]{4}|[0-9]{2})
          | (?:[^\W\d_]+\.?,?[ ])?[0-9]{1,2}\.?[ ][^\W\d_]{3,10}\.?,?[ ](?:19|20)[0-9]{2}
          | [0-9]{1,2}([-/])[^\W\d_]{3,10}\1(?:[0-9]{4}|[0-9]{2})
          | [^\W\d_]{3,10}\.?[ ][0-9]{1,2},?[ ](?:19|20)[0-9]{2}
          | (?:19|20)[0-9]{2}-(?:0[1-9]|1[0-2]|W[0-9]{2})
        )(?:[T ][0-9]{1,2}:[0-9]{2}.*)?""",
    re.VERBOSE,
)
_COMPACT_DATE = re.compile(r"(19|20)\d{6}", re.ASCII)
_OTHER_MARK = {".": (",", "commas"), ",": (".", "points")}


@dataclass(frozen=True)
class ColumnGuess:
    """What a column is taken for by its values.

    Attributes
    ----------
    role : {"feature", "id", "ignored"}
    kind : {"number", "category", "text", "date"}
    categories : tuple of str
        Canonical texts that occur, sorted, for the kind "category".
    reason : str
    constant : str
        The only value that occurs, as text, if the column is left out for it; otherwise "".
    """

    role: Literal["feature", "id", "ignored"]
    kind: Kind
    categories: tuple[str, ...] = ()
    reason: str = ""
    constant: str = ""


def guess_column(
    column: Series,
    decimal: str,
    first: RowNumbers = 1,
    *,
    kind: Kind | None = None,
    asked: bool = False,
) -> ColumnGuess:
    """Return what a column looks like.

    Parameters
    ----------
    column : narwhals series
    decimal : {".", ","}
    first : int, or int array of shape (m,)
        Number of the first row, or of all rows, for messages.
    kind : str, optional
        The kind that the user says it has.
    asked : bool
        Whether the user asked for it as a feature: it must become one, or raise.

    Raises
    ------
    ValueError
        If it holds numbers with odd texts among them or with another decimal mark, or if it is
        asked for and cannot be a feature.
    """
    if kind is not None:
        return _as_kind(column, kind, decimal, first)
    if bool(missing_in(column).all()):
        return _useless(column, "number", "holds no value", asked)
    if is_truth(column) or is_declared_category(column):
        return _as_category(column, "truth values" if is_truth(column) else "declared categories")
    if is_number(column):
        return _typed_numbers(column, first)
    if is_date(column):
        return ColumnGuess("ignored", "date", reason="holds dates")
    if not is_text(column):
        return _useless(column, "category", f"holds {type_of(column)}", asked)
    return _guess_texts(column, decimal, first)


def _useless(column: Series, kind: Kind, reason: str, asked: bool) -> ColumnGuess:
    if asked:
        raise ValueError(f"column {column.name!r} {reason}: it cannot be a feature, leave it out")
    return ColumnGuess("ignored", kind, reason=reason)


def _as_kind(column: Series, kind: Kind, decimal: str, first: RowNumbers) -> ColumnGuess:
    reason = f"{kind}, as asked"
    if kind in ("number", "score"):
        finite_numbers(column, first, decimal)  # or raises
        return ColumnGuess("feature", kind, reason=reason)
    if kind == "date":
        day_numbers(column, first)  # or raises
        return ColumnGuess("feature", kind, reason=reason)
    return ColumnGuess("feature", kind, _texts_in(column) if kind == "category" else (), reason)


def _as_category(column: Series, reason: str) -> ColumnGuess:
    texts = _texts_in(column)
    if len(texts) == 1 and not missing_in(column).any():
        return _constant("category", texts[0], repr(texts[0][:40]))
    return ColumnGuess("feature", "category", texts, f"{reason}: {_shown(texts)}")


def _constant(kind: Kind, value: str, shown: str) -> ColumnGuess:
    return ColumnGuess("ignored", kind, reason=f"always {shown}", constant=value)


def _texts_in(column: Series) -> tuple[str, ...]:
    return tuple(sorted({text for text in category_texts(column).tolist() if text}))


def _typed_numbers(column: Series, first: RowNumbers) -> ColumnGuess:
    values = finite_numbers(column, first)
    integers = bool(column.dtype.is_integer())
    known = values[~np.isnan(values)]
    between = len(known) > 0 and known.min() >= FIRST_DATE and known.max() <= LAST_DATE
    if integers and between and _are_compact_dates([f"{v:.0f}" for v in np.unique(known)]):
        return ColumnGuess("ignored", "date", reason="holds dates written as whole numbers")
    n_distinct = int(column.drop_nulls().n_unique()) if integers else len(np.unique(known))
    return _number_guess(values, n_distinct, integers)


def _number_guess(values: NDArray[np.floating], n_distinct: int, integers: bool) -> ColumnGuess:
    known = values[~np.isnan(values)]
    if n_distinct <= 1 and len(known) == len(values):
        return _constant("number", canonical_text(float(known[0])), f"{known[0]:g}")
    if integers and len(known) >= ID_ROWS and n_distinct >= ID_SHARE * len(known):
        return ColumnGuess("id", "number", reason=_id_reason("whole numbers", n_distinct, known))
    return ColumnGuess("feature", "number", reason="numbers")


def _id_reason(what: str, n_distinct: int, known: NDArray[np.floating] | list[str]) -> str:
    return f"{n_distinct:,} different {what} in {len(known):,} rows"


def _guess_texts(column: Series, decimal: str, first: RowNumbers) -> ColumnGuess:
    quick = plain_numbers(column) if decimal == "." else None
    if quick is not None and not _contain(column, r"^[+-]?0\d"):
        return _plain_numbers(column, quick)
    texts = category_texts(column).tolist()
    present = [text for text in texts if not is_missing_text(text)]
    distinct = sorted(set(present))
    if not distinct:
        return ColumnGuess("ignored", "number", reason="holds no value")
    if not any(_LEADING_ZERO.fullmatch(text) for text in distinct):
        spelt = sum(parse_number(text, decimal) is not None for text in present)
        if spelt == len(present):
            return _spelt_numbers(column, distinct, decimal, first)
        _check_decimal(column, distinct, decimal, first)
        if 2 * spelt > len(present):
            raise ValueError(
                f"column {column.name!r} holds numbers, but {first_text(column, first, decimal)}: "
                "correct the value, make it empty if it is missing, leave the column out with "
                f"--ignore {column.name}, or take it for categories with --type "
                f"{column.name}=category"
            )
    return _guess_words(column, [text for text in texts if text])


def _contain(column: Series, pattern: str) -> bool:
    return bool(column.drop_nulls().str.contains(pattern).any())


def _plain_numbers(column: Series, values: NDArray[np.float64]) -> ColumnGuess:
    """Return what texts look like that the frame's own library reads as numbers."""
    known = values[~np.isnan(values)]
    integers = not _contain(column, r"[.eE]")
    if integers and known.min() >= FIRST_DATE and known.max() <= LAST_DATE:
        distinct = sorted(set(column.drop_nulls().to_list()))
        if _are_compact_dates(distinct):
            return ColumnGuess("ignored", "date", reason="holds dates written as whole numbers")
    n_distinct = int(column.drop_nulls().n_unique()) if integers else len(np.unique(known))
    return _number_guess(values, n_distinct, integers)


def _spelt_numbers(
    column: Series, distinct: list[str], decimal: str, first: RowNumbers
) -> ColumnGuess:
    if _are_compact_dates(distinct):
        return ColumnGuess("ignored", "date", reason="holds dates written as whole numbers")
    values = finite_numbers(column, first, decimal)
    integers = all(_INTEGER.fullmatch(text.strip()) for text in distinct)
    n_distinct = len(distinct) if integers else len(np.unique(values[~np.isnan(values)]))
    return _number_guess(values, n_distinct, integers)


def _check_decimal(column: Series, distinct: list[str], decimal: str, first: RowNumbers) -> None:
    """Raise where a column holds numbers with the other decimal mark."""
    other, name = _OTHER_MARK[decimal]
    spelt = [text for text in distinct if parse_number(text, other) is not None]
    marked = [text for text in spelt if other in text and parse_number(text, decimal) is None]
    if not marked or len(spelt) < MOST * len(distinct) or _are_dates(distinct):
        return
    position = [str(value) for value in column.to_list()].index(marked[0])
    row = row_number(first, position)
    raise ValueError(
        f"column {column.name!r} holds numbers with decimal {name} (row {row} has {marked[0]!r}): "
        f"read the table with --decimal '{other}', or leave the column out with --ignore "
        f"{column.name}"
    )


def _guess_words(column: Series, texts: list[str]) -> ColumnGuess:
    """Return what a column of texts that are no numbers looks like."""
    distinct = tuple(sorted(set(texts)))
    if _are_dates(distinct):
        return ColumnGuess("ignored", "date", reason=f"holds dates such as {distinct[0]!r}")
    if len(distinct) == 1 and len(texts) == len(column):
        return _constant("category", distinct[0], repr(distinct[0][:40]))
    few = len(distinct) <= min(MOST_CATEGORIES, max(2, len(texts) // 2))
    if few:
        reason = f"{len(distinct)} categories: {_shown(distinct)}"
        return ColumnGuess("feature", "category", distinct, reason)
    if _mean_words(distinct) >= WORDS:
        return ColumnGuess("feature", "text", reason=f"sentences such as {distinct[0][:30]!r}")
    if len(distinct) >= ID_SHARE * len(texts):
        return ColumnGuess("id", "category", distinct, _id_reason("texts", len(distinct), texts))
    reason = f"{len(distinct):,} different texts in {len(texts):,} rows are too many for categories"
    return ColumnGuess("ignored", "category", distinct, reason)


def _mean_words(texts: tuple[str, ...]) -> float:
    return float(np.mean([len(text.split()) for text in texts]))


def _are_dates(texts: list[str] | tuple[str, ...]) -> bool:
    return sum(_DATE.fullmatch(text.strip()) is not None for text in texts) >= MOST * len(texts)


def _are_compact_dates(texts: list[str]) -> bool:
    """Return whether all texts are dates such as 20240131, and there are more than two."""
    return len(texts) > 2 and all(map(_is_compact_date, texts))


def _is_compact_date(text: str) -> bool:
    if not _COMPACT_DATE.fullmatch(text):
        return False
    try:
        dt.date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        return False
    return True


def _shown(texts: tuple[str, ...]) -> str:
    return ", ".join(text[:20] for text in texts[:4]) + (", ..." if len(texts) > 4 else "")
