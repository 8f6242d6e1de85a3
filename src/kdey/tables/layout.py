"""What a model fitted on a table takes of a table: which columns, and which texts they may hold.

The layout goes with the model (as ``table_``, in plain values), so that columns are found by name
wherever they stand, and texts keep the number that they had in training. Below it stand the
questions that are asked of one column: does it hold numbers or texts, and which are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kdey.fitted import FittedQuantifier
from kdey.tables.cells import parse_number

if TYPE_CHECKING:
    import narwhals as nw

#: A data frame of any library, as narwhals wraps it, and a column of one.
Frame: TypeAlias = "nw.DataFrame[Any]"
Series: TypeAlias = "nw.Series[Any]"

#: A column of texts with more different ones than this is an identifier, not a feature.
MOST_TEXTS = 200


@dataclass(frozen=True)
class TableLayout:
    """Columns of a table by their meaning.

    Attributes
    ----------
    label : str
    features : tuple of str
        In the order of the columns of X; none where the model was fitted on scores.
    texts : dict from a feature that holds texts to the texts seen in training
    scores : tuple of str
        Score columns in the order of the classes, where the model was fitted on scores.
    """

    label: str
    features: tuple[str, ...] = ()
    texts: dict[str, tuple[str, ...]] | None = None
    scores: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a model file."""
        return asdict(self)

    @classmethod
    def of(cls, quantifier: FittedQuantifier) -> TableLayout | None:
        """Return the layout that a quantifier carries; None: it was not fitted on a table."""
        stored = quantifier.table_layout
        return None if stored is None else cls(**stored)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that estimates need."""
        return self.features or self.scores

    @property
    def text_positions(self) -> list[int]:
        """Columns of X that hold numbers of texts."""
        return [i for i, name in enumerate(self.features) if name in (self.texts or {})]

    def matrix(self, frame: Frame, first: int = 1, decimal: str = ".") -> NDArray[np.float64]:
        """Return the features of a frame as numbers, shape (m, d).

        NaN where a value is missing; a text is the number that it has among those of training,
        -1 where training lacks it. ``first`` is the number of the frame's first row, for messages,
        and ``decimal`` the decimal mark of numbers that are written as text.
        """
        require(frame, self.features)
        out = np.empty((len(frame), len(self.features)))
        for i, name in enumerate(self.features):
            texts = (self.texts or {}).get(name)
            column = frame[name]
            if texts is None:
                out[:, i] = numbers(column, first=first, decimal=decimal)
            else:
                out[:, i] = _text_numbers(column, texts)
        return out


def learn_layout(frame: Frame, label: str, features: tuple[str, ...]) -> TableLayout:
    """Return the layout of features of a frame: which hold numbers, which texts."""
    texts = {}
    for name in features:
        different = _different_texts(frame[name])
        if different is not None:
            texts[name] = different
    return TableLayout(label, features, texts)


def _different_texts(column: Series) -> tuple[str, ...] | None:
    """Return the different texts of a feature, sorted; None: it holds numbers."""
    name = column.name
    if is_number(column):
        return None
    if not is_text(column):
        raise ValueError(
            f"column {name!r} holds {_kind(column)}, which is no feature: leave it out with "
            f"--ignore {name}"
        )
    values = [value for value in column.to_list() if not _is_missing(value)]
    share = np.mean([_number(value) is not None for value in values]) if values else 0.0
    if share == 1.0:  # numbers that came as texts
        return None
    if share > 0.5:
        raise ValueError(
            f"column {name!r} holds numbers, but {_first_text(column)}: correct the value, make it "
            f"empty if it is missing, or leave the column out with --ignore {name}"
        )
    different = sorted({str(value) for value in values})
    if len(different) > min(MOST_TEXTS, max(2, len(column) // 2)):
        raise ValueError(
            f"column {name!r} holds {len(different)} different texts in {len(column)} rows "
            f"({_first_text(column)}): correct its values if they should be numbers, or leave it "
            f"out with --ignore {name}"
        )
    return tuple(different)


def require(frame: Frame, names: Sequence[str], what: str = "column") -> None:
    """Raise unless a frame has all columns named."""
    absent = [name for name in names if name not in frame.columns]
    if absent:
        shown = ", ".join(frame.columns[:30]) + (", ..." if len(frame.columns) > 30 else "")
        several = "s" if len(absent) > 1 else ""
        similar = get_close_matches(str(absent[0]), frame.columns, n=1)
        hint = f" (did you mean {similar[0]!r}?)" if similar else ""
        raise ValueError(
            f"no {what}{several} {', '.join(map(repr, absent[:8]))}"
            f"{', ...' if len(absent) > 8 else ''}{hint}; the table has {shown}"
        )


def numbers(
    column: Series, dtype: DTypeLike = np.float64, first: int = 1, decimal: str = "."
) -> NDArray[np.floating]:
    """Return a column as floats, NaN where missing; raise naming the row of a text.

    Parameters
    ----------
    column : narwhals series
    dtype : floating type of the result
    first : int
        Number of the column's first row, for messages.
    decimal : {".", ","}
        Decimal mark of numbers that are written as text.
    """
    if is_number(column):
        return _floats(column, dtype)
    if not is_text(column):
        raise ValueError(f"column {column.name!r} must hold numbers, but holds {_kind(column)}")
    values = [_number(value, decimal) for value in column.to_list()]
    if any(value is None for value in values):
        raise ValueError(
            f"column {column.name!r} must hold numbers, but {_first_text(column, first, decimal)}"
        )
    return np.array(values, dtype=dtype)


def is_number(column: Series) -> bool:
    """Return whether a column holds numbers or truth values."""
    import narwhals as nw

    return bool(column.dtype.is_numeric() or column.dtype == nw.Boolean)


def is_text(column: Series) -> bool:
    """Return whether a column holds texts, or nothing at all."""
    import narwhals as nw

    # A column without a single value has no type worth the name.
    known = column.dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object)
    return known or column.null_count() == len(column)


def missing_in(column: Series) -> NDArray[np.bool_]:
    """Return which entries of a column are missing: null, or NaN."""
    null = column.is_null().to_numpy().astype(np.bool_)
    if column.dtype.is_float():
        null = null | np.isnan(_floats(column, np.float64))
    elif is_text(column):
        null = null | np.array([_is_missing(value) for value in column.to_list()], dtype=np.bool_)
    return np.asarray(null)


def _floats(column: Series, dtype: DTypeLike) -> NDArray[np.floating]:
    if column.null_count() == 0:
        return np.asarray(column.to_numpy(), dtype=dtype)
    import narwhals as nw

    filled = column.cast(nw.Float64).fill_null(float("nan"))
    return np.asarray(filled.to_numpy(), dtype=dtype)


def _text_numbers(column: Series, texts: tuple[str, ...]) -> NDArray[np.float64]:
    number = {text: float(i) for i, text in enumerate(texts)}
    return np.array(
        [np.nan if _is_missing(v) else number.get(str(v), -1.0) for v in column.to_list()]
    )


def _is_missing(value: Any) -> bool:
    return bool(value is None or value == "" or value != value)


def _first_text(column: Series, first: int = 1, decimal: str = ".") -> str:
    """Return where a column first holds a text that is no number."""
    for row, value in enumerate(column.to_list(), start=first):
        if _number(value, decimal) is None:
            other = "," if decimal == "." else "."
            hint = "" if _number(value, other) is None else f" (decimal mark {other!r}: --decimal)"
            return f"row {row} has {str(value)[:40]!r}{hint}"
    return "all of them look like numbers"


def _number(value: Any, decimal: str = ".") -> float | None:
    """Return the number that a value is or spells; NaN where it is missing, None: it is none."""
    if isinstance(value, str):
        return parse_number(value, decimal)
    try:
        return float("nan") if _is_missing(value) else float(value)
    except (TypeError, ValueError):
        return None


def _kind(column: Series) -> str:
    return f"values of type {column.dtype}"
