"""How the rows of a table were drawn, and which of them have labels: columns, and what they say.

:class:`Design` names the columns, :class:`DesignReader` reads them batch by batch, and
:class:`RowDesign` is what they say of the usable rows. A few bytes per row are kept in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kdey._support.counts import count_of
from kdey._support.row_hashes import text_hashes
from kdey.bags import Array, Indices
from kdey.tables.canonical import canonical_column, canonical_text
from kdey.tables.columns import category_texts, numbers, require, row_number
from kdey.tables.labels import LabelType, is_unlabelled, match_labels

if TYPE_CHECKING:
    from kdey.tables.columns import Frame

#: The class number of a row without a label.
UNLABELLED = -1


@dataclass(frozen=True)
class Design:
    """The columns that say how rows were drawn, and which have labels; None: no such column.

    Attributes
    ----------
    labelled : str or None
        Labels of some rows of each group; the cells of other rows are empty.
    selection : str or None
        The probability with which each labelled row was chosen for labelling.
    weights : str or None
        Sampling weights.
    clusters : str or None
        Ids of the clusters in which rows were drawn.
    strata : str or None
        The strata from which rows were drawn; see :mod:`kdey.intervals.strata`.
    stratum_shares : mapping from strata to positive numbers, or None
        Shares or sizes of the strata in the population of every group. None: their shares among
        the (weighted) rows of the group.
    """

    labelled: str | None = None
    selection: str | None = None
    weights: str | None = None
    clusters: str | None = None
    strata: str | None = None
    stratum_shares: Mapping[Any, float] | None = None

    def __post_init__(self) -> None:
        if self.stratum_shares is not None:
            if self.strata is None:
                raise ValueError(
                    "shares of strata need the column of the strata (strata=, --strata)"
                )
            for name, share in self.stratum_shares.items():
                if not 0.0 < float(share) < np.inf:
                    raise ValueError(f"the share of stratum {name!r} must be positive, got {share}")
        if self.selection is not None and self.labelled is None:
            raise ValueError(
                "selection says how labelled rows were chosen: name the column of labels "
                "(labelled=, --labelled)"
            )
        if self.labelled is not None and self.strata is not None:
            raise ValueError(
                "labelled and strata cannot be used together: make the strata groups of their own "
                "(by=, --by), or leave one of the two out"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are named."""
        columns = (self.labelled, self.selection, self.weights, self.clusters, self.strata)
        return tuple(dict.fromkeys(name for name in columns if name is not None))

    @property
    def known_shares(self) -> dict[str, float] | None:
        """The shares of strata, summing to one, by canonical text; None if they are unknown."""
        if self.stratum_shares is None:
            return None
        total = float(sum(self.stratum_shares.values()))
        return {canonical_text(name): s / total for name, s in self.stratum_shares.items()}

    def check(self, keys: Sequence[str]) -> None:
        """Raise ValueError if a column is also a key of the groups."""
        for name in self.names:
            if name in keys:
                raise ValueError(f"column {name!r} is a key of the groups: it cannot be both")


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
    design : Design
    classes : array of shape (k,)
    label_type : {"auto", "text", "integer"}
        What the labels of training were read as.
    decimal : {".", ","}
        Decimal mark of numbers that are written as text.
    """

    design: Design
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
        design = self.design
        require(frame, design.names)
        labels = None
        if design.labelled is not None:
            labels = self._labels(frame, design.labelled, first)
        selection = weights = None
        if design.weights is not None:
            weights = self._numbers(frame, design.weights, first)
            _refuse(~(weights >= 0), frame, design.weights, first, "a weight of at least zero")
        if design.selection is not None and labels is not None:
            selection = self._numbers(frame, design.selection, first)
            wrong = (labels != UNLABELLED) & ~((selection > 0) & (selection <= 1))
            _refuse(wrong, frame, design.selection, first, "a probability above 0 and at most 1")
        return RowDesign(
            labels,
            selection,
            weights,
            _encoded(frame, design.clusters, first),
            _encoded(frame, design.strata, first),
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
        known = self.design.known_shares
        if known is None or self.design.strata is None:
            return None
        texts = category_texts(frame[self.design.strata])
        shares = np.array([known.get(text, np.nan) for text in texts])
        expected = f"one of the strata whose shares are known ({', '.join(list(known)[:6])})"
        _refuse(np.isnan(shares), frame, self.design.strata, first, expected)
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
