"""How the rows of a table were drawn, and which of them have labels.

:class:`DesignReader` reads the columns that say it, batch by batch, and :class:`RowDesign` is what
they say of the usable rows. A few bytes per row are kept in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kdey._display import count_of
from kdey.bags import Array, Indices
from kdey.row_hashes import text_hashes
from kdey.tables.columns import (
    canonical_column,
    canonical_text,
    numbers,
    require,
    row_number,
)
from kdey.tables.schema import LabelType
from kdey.tables.training import is_unlabelled, match_labels

if TYPE_CHECKING:
    from kdey.groups.request import Request
    from kdey.tables.columns import Frame


#: The class number of a row without a label.
UNLABELLED = -1


@dataclass(frozen=True, eq=False)
class RowDesign:
    """What the columns of a design say of m rows.

    Attributes
    ----------
    labels : int64 array of shape (m,) or None
        Class number of each label; -1 where a row has none.
    selection : array of shape (m,) or None
        The probability with which each labelled row was chosen; NaN elsewhere.
    weights : array of shape (m,) or None
    clusters, strata : int64 arrays of shape (m,) or None
        Numbers that stand for clusters and strata.
    shares : array of shape (m,) or None
        Known share of the stratum of each row.
    """

    labels: Indices | None = None
    selection: Array | None = None
    weights: Array | None = None
    clusters: Indices | None = None
    strata: Indices | None = None
    shares: Array | None = None

    def take(self, positions: NDArray[Any] | slice) -> RowDesign:
        """Return the design of the rows at some positions, in a slice or in a mask."""
        return RowDesign(
            **{
                name: None if values is None else values[positions]
                for name, values in vars(self).items()
            }
        )

    @classmethod
    def join(cls, parts: Sequence[RowDesign]) -> RowDesign:
        """Return the design of the rows of several batches, one after another."""
        columns = {name: [getattr(part, name) for part in parts] for name in vars(parts[0])}
        return cls(
            **{
                name: None if values[0] is None else np.concatenate(values)
                for name, values in columns.items()
            }
        )


@dataclass(frozen=True, eq=False)
class DesignReader:
    """Reads the columns of a design, batch by batch.

    Attributes
    ----------
    request : Request
    classes : array of shape (k,)
    label_type : {"auto", "text", "integer"}
        What the labels of training were read as.
    decimal : {".", ","}
        Decimal mark of numbers that are written as text.
    """

    request: Request
    classes: NDArray[Any]
    label_type: LabelType = "auto"
    decimal: str = "."

    def read(self, frame: Frame, first: int = 1) -> RowDesign:
        """Return what the columns say of the rows of a frame.

        Parameters
        ----------
        frame : narwhals frame of m rows
        first : int
            Number of its first row, for messages.

        Raises
        ------
        ValueError
            If a column is not there, a label is no class of the model, or a weight, probability,
            cluster or stratum is missing or not allowed. The message names the row.
        """
        request = self.request
        require(frame, request.design_columns)
        labels = None
        if request.labelled is not None:
            labels = self._labels(frame, request.labelled, first)
        selection = weights = None
        if request.weights is not None:
            weights = self._numbers(frame, request.weights, first)
            _refuse(~(weights >= 0), frame, request.weights, first, "a weight of at least zero")
        chosen = request.options.selection
        if chosen is not None and labels is not None:
            selection = self._numbers(frame, chosen, first)
            wrong = (labels != UNLABELLED) & ~((selection > 0) & (selection <= 1))
            _refuse(wrong, frame, chosen, first, "a probability above 0 and at most 1")
        return RowDesign(
            labels,
            selection,
            weights,
            _encoded(frame, request.clusters, first),
            _encoded(frame, request.options.strata, first),
            self._shares(frame, first),
        )

    def _labels(self, frame: Frame, name: str, first: int) -> Indices:
        """Return the class number of each row's label."""
        column = frame[name]
        known = ~is_unlabelled(column)
        rows = np.arange(first, first + len(frame), dtype=np.int64)[known]
        labels = match_labels(column.filter(known.tolist()), self.classes, rows, self.label_type)
        number = {label: code for code, label in enumerate(np.asarray(self.classes).tolist())}
        codes = np.full(len(frame), UNLABELLED, dtype=np.int64)
        codes[known] = [number[label] for label in labels.tolist()]
        return codes

    def _shares(self, frame: Frame, first: int) -> Array | None:
        """Return the known share of each row's stratum; None if shares are not known."""
        known, strata = self.request.stratum_shares, self.request.options.strata
        if known is None or strata is None:
            return None
        texts = canonical_column(frame[strata])
        shares = np.array([known.get(text, np.nan) for text in texts])
        expected = f"one of the strata whose shares are known ({', '.join(list(known)[:6])})"
        _refuse(np.isnan(shares), frame, strata, first, expected)
        return shares

    def _numbers(self, frame: Frame, name: str, first: int) -> Array:
        return np.asarray(numbers(frame[name], np.float64, first, self.decimal), dtype=np.float64)


def _encoded(frame: Frame, name: str | None, first: int) -> Indices | None:
    """Return a number for each value of a column, the same in every batch; None without a column.

    It is a hash of the canonical text: numbers by order of appearance would depend on other rows.
    """
    if name is None:
        return None
    missing = is_unlabelled(frame[name])  # empty, as a label may be
    _refuse(missing, frame, name, first, "a value")
    return text_hashes(canonical_column(frame[name])).view(np.int64)


def _refuse(wrong: NDArray[np.bool_], frame: Frame, name: str, first: int, expected: str) -> None:
    """Raise ValueError if some rows of a column are wrong."""
    if wrong.any():
        row = int(np.argmax(wrong))
        value = canonical_text(frame[name][row])
        raise ValueError(
            f"column {name!r} must have {expected} in every row where it is needed, but row "
            f"{row_number(first, row)} has {value!r} ({count_of(int(wrong.sum()), 'such row')})"
        )
