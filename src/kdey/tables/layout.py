"""What a model fitted on a table takes of a table: which columns, and which texts they may hold.

The layout goes with the model (as ``table_``, in plain values), so that columns are found by name
wherever they stand, and texts keep the number that they had in training.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.fitted import FittedQuantifier

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
        held = quantifier.table_layout
        return None if held is None else cls(**held)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that estimates need."""
        return self.features or self.scores

    @property
    def text_positions(self) -> list[int]:
        """Columns of X that hold numbers of texts."""
        return [i for i, name in enumerate(self.features) if name in (self.texts or {})]

    def matrix(self, frame: Any, first: int = 1) -> NDArray[np.float64]:
        """Return the features of a narwhals frame as numbers, shape (m, d).

        NaN where a value is missing; a text is the number that it has among those of training,
        -1 where training lacks it. ``first`` is the number of the frame's first row, for messages.
        """
        require(frame, self.features)
        out = np.empty((len(frame), len(self.features)))
        for i, name in enumerate(self.features):
            texts = (self.texts or {}).get(name)
            series = frame[name]
            if texts is None:
                out[:, i] = numbers(series, first=first)
            else:
                out[:, i] = _positions(series, texts)
        return out


def learn_layout(frame: Any, label: str, features: tuple[str, ...]) -> TableLayout:
    """Return the layout of features of a narwhals frame: which hold numbers, which texts."""
    texts = {}
    for name in features:
        series = frame[name]
        if is_number(series):
            continue
        if not is_text(series):
            raise ValueError(
                f"column {name!r} holds {_kind(series)}, which is no feature: leave it out with "
                f"--ignore {name}"
            )
        values = [value for value in series.to_list() if not _absent(value)]
        share = np.mean([_is_float(value) for value in values]) if values else 0.0
        if share == 1.0:  # numbers that came as texts
            continue
        if share > 0.5:
            raise ValueError(
                f"column {name!r} holds numbers, but {_odd_one(series)}: mend the value, make it "
                f"empty if it is missing, or leave the column out with --ignore {name}"
            )
        found = sorted({str(value) for value in values})
        if len(found) > min(MOST_TEXTS, max(2, len(series) // 2)):
            raise ValueError(
                f"column {name!r} holds {len(found)} different texts in {len(series)} rows "
                f"({_odd_one(series)}): mend its values if they should be numbers, or leave it "
                f"out with --ignore {name}"
            )
        texts[name] = tuple(found)
    return TableLayout(label, features, texts)


def require(frame: Any, names: tuple[str, ...] | list[str], what: str = "column") -> None:
    """Raise unless a narwhals frame has all columns named."""
    absent = [name for name in names if name not in frame.columns]
    if absent:
        shown = ", ".join(frame.columns[:30]) + (", ..." if len(frame.columns) > 30 else "")
        several = "s" if len(absent) > 1 else ""
        alike = get_close_matches(str(absent[0]), frame.columns, n=1)
        hint = f" (did you mean {alike[0]!r}?)" if alike else ""
        raise ValueError(
            f"no {what}{several} {', '.join(map(repr, absent[:8]))}"
            f"{', ...' if len(absent) > 8 else ''}{hint}; the table has {shown}"
        )


def numbers(series: Any, dtype: Any = np.float64, first: int = 1) -> NDArray[np.floating]:
    """Return a narwhals series as floats, NaN where missing; raise naming the row of a text.

    ``first`` is the number of the series' first row.
    """
    if is_number(series):
        return _floats(series, dtype)
    if not is_text(series):
        raise ValueError(f"column {series.name!r} must hold numbers, but holds {_kind(series)}")
    values = series.to_list()
    try:
        return np.array([np.nan if _absent(v) else float(v) for v in values], dtype=dtype)
    except ValueError:
        raise ValueError(
            f"column {series.name!r} must hold numbers, but {_odd_one(series, first)}"
        ) from None


def is_number(series: Any) -> bool:
    """Whether a narwhals series holds numbers or truth values."""
    import narwhals as nw

    return bool(series.dtype.is_numeric() or series.dtype == nw.Boolean)


def is_text(series: Any) -> bool:
    """Whether a narwhals series holds texts, or nothing at all."""
    import narwhals as nw

    # A column without a single value has no type worth the name.
    known = series.dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object)
    return known or series.null_count() == len(series)


def missing_in(series: Any) -> NDArray[np.bool_]:
    """Return which entries of a narwhals series are missing: null, or NaN."""
    null = series.is_null().to_numpy().astype(np.bool_)
    if series.dtype.is_float():
        null = null | np.isnan(_floats(series, np.float64))
    elif is_text(series):
        null = null | np.array([_absent(value) for value in series.to_list()], dtype=np.bool_)
    return np.asarray(null)


def _floats(series: Any, dtype: Any) -> NDArray[np.floating]:
    if series.null_count() == 0:
        return np.asarray(series.to_numpy(), dtype=dtype)
    import narwhals as nw

    filled = series.cast(nw.Float64).fill_null(float("nan"))
    return np.asarray(filled.to_numpy(), dtype=dtype)


def _positions(series: Any, texts: tuple[str, ...]) -> NDArray[np.float64]:
    position = {text: float(number) for number, text in enumerate(texts)}
    return np.array(
        [np.nan if _absent(v) else position.get(str(v), -1.0) for v in series.to_list()]
    )


def _absent(value: Any) -> bool:
    return value is None or value == "" or value != value


def _odd_one(series: Any, first: int = 1) -> str:
    """Return where a series first holds a text that is no number."""
    for row, value in enumerate(series.to_list(), start=first):
        if not _absent(value) and not _is_float(value):
            return f"row {row} has {str(value)[:40]!r}"
    return "all of them look like numbers"


def _is_float(value: Any) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _kind(series: Any) -> str:
    return f"values of type {series.dtype}"
