"""What is asked for: which groups, from which columns, and how they are estimated and judged.

How the rows of a table were drawn, and which of them have labels.

:class:`DesignReader` reads the columns that say it, batch by batch, and :class:`RowDesign` is what
they say of the usable rows. A few bytes per row are kept in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kdey._caching import text_hashes
from kdey._display import count_of
from kdey.bags import Array, Indices
from kdey.groups.keys import Grouping
from kdey.intervals.display import GROUP_COLUMNS, POOLED_COLUMNS
from kdey.intervals.merging import Merging
from kdey.options import Options
from kdey.tables.columns import (
    canonical_column,
    canonical_text,
    numbers,
    require,
    row_number,
)
from kdey.tables.schema import LabelType, is_unlabelled, match_labels

if TYPE_CHECKING:
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


@dataclass(frozen=True)
class Request:
    """What a caller of :func:`~kdey.predict_groups` asks for, checked.

    Attributes
    ----------
    grouping : Grouping
    scores : names of score columns, or None
        None: the features, or the score columns that the quantifier was fitted on.
    weights : str or None
        Column of sampling weights.
    clusters : str or None
        Column with ids of the clusters in which rows were drawn.
    labelled : str or None
        Column with labels of some rows of each group; the cells of other rows are empty.
    merge : mapping from new label to classes, or None
        Groups of classes whose shares are wanted, in this order; see :meth:`kdey.Estimate.merge`.
    shrink : bool or str
        Whether groups lean on all groups of the table; the name of a key column: on those with the
        same value of it, and these on all.
    smooth : bool
        Whether periods lean on their neighbours in time.
    options : Options
    label : str or None
        Column of known labels, which is no feature; where a table has it, its labels are counted.
    """

    grouping: Grouping = field(default_factory=Grouping)
    scores: Sequence[str] | None = None
    weights: str | None = None
    clusters: str | None = None
    labelled: str | None = None
    merge: Mapping[Any, Any] | None = None
    shrink: bool | str = False
    smooth: bool = False
    options: Options = field(default_factory=Options)
    label: str | None = None

    @classmethod
    def of(
        cls,
        by: str | Sequence[str] = (),
        *,
        time: str | None = None,
        every: str | None = None,
        confidence: float = 0.95,
        options: Options | None = None,
        **asked: Any,
    ) -> Request:
        """Return the request made by the keywords of :func:`~kdey.predict_groups`."""
        known = Options() if options is None else options
        if not isinstance(known, Options):
            raise TypeError(f"options must be kdey.Options(...), got {options!r}")
        if confidence != Options.confidence:
            known = replace(known, confidence=confidence)
        grouping = Grouping.of(by, time, every, known.date_format, known.key_types)
        return cls(grouping, options=known, **asked)

    def __post_init__(self) -> None:
        self._check_pooling()
        self._check_design()
        reserved = (*GROUP_COLUMNS, *(POOLED_COLUMNS if self.is_pooled else ()))
        taken = [name for name in self.grouping.names if name in reserved]
        if taken:
            raise ValueError(
                f"key column {taken[0]!r} has the name of a column of the result: rename it"
            )

    @property
    def is_pooled(self) -> bool:
        """Whether groups lean on one another."""
        return bool(self.shrink) or self.smooth

    @property
    def design_columns(self) -> tuple[str, ...]:
        """The columns that say how rows were drawn and which have labels; they are no features."""
        options = self.options
        columns = (self.labelled, options.selection, self.weights, self.clusters, options.strata)
        return tuple(dict.fromkeys(name for name in columns if name is not None))

    @property
    def no_features(self) -> tuple[str, ...]:
        """All columns that have another role than that of a feature."""
        named = (name for name in (self.options.key, self.label) if name is not None)
        return (*self.grouping.names, *named, *self.design_columns)

    @cached_property
    def stratum_shares(self) -> dict[str, float] | None:
        """The shares of strata, summing to one, by canonical text; None if they are unknown."""
        shares = self.options.stratum_shares
        if shares is None:
            return None
        total = float(sum(shares.values()))
        return {canonical_text(name): share / total for name, share in shares.items()}

    def merging(self, classes: NDArray[Any]) -> Merging:
        """Return the groups of classes that are shown; every class by itself by default."""
        return Merging.identity(classes) if self.merge is None else Merging.of(self.merge, classes)

    def _check_pooling(self) -> None:
        shrink: Any = self.shrink
        smooth: Any = self.smooth
        names = self.grouping.names
        if not isinstance(shrink, bool | str) or shrink == "":
            raise ValueError(f"shrink must be True, False or the name of a key, got {shrink!r}")
        if not isinstance(smooth, bool):
            raise ValueError(f"smooth must be True or False, got {smooth!r}")
        if shrink and smooth:
            raise ValueError(
                "shrink pools groups and smooth pools neighbouring periods: choose one of them"
            )
        if smooth and self.grouping.time is None:
            raise ValueError("smooth needs time, the column of dates that orders the periods")
        if smooth and self.options.target != "population":
            raise ValueError("smooth estimates populations: leave target='bag' out")
        if shrink and not names:
            raise ValueError("shrink needs groups: name a key column (by=..., --by)")
        if isinstance(shrink, str) and shrink not in names:
            raise ValueError(f"shrink names {shrink!r}, which is no key: name it in by (--by) too")
        if isinstance(shrink, str) and len(names) < 2:
            raise ValueError(
                f"shrink={shrink!r} needs another key: groups with the same value of it lean "
                "on each other"
            )
        if self.is_pooled and (self.design_columns or self.merge is not None):
            raise ValueError(
                "shrink and smooth take plain rows: leave labels, weights, clusters, strata and "
                "merge out, or estimate the groups by themselves"
            )

    def _check_design(self) -> None:
        options = self.options
        if options.stratum_shares is not None:
            if options.strata is None:
                raise ValueError(
                    "shares of strata need the column of the strata (strata=, --strata)"
                )
            for name, share in options.stratum_shares.items():
                if not 0.0 < float(share) < np.inf:
                    raise ValueError(f"the share of stratum {name!r} must be positive, got {share}")
        if options.selection is not None and self.labelled is None:
            raise ValueError(
                "selection says how labelled rows were chosen: name the column of labels "
                "(labelled=, --labelled)"
            )
        if self.labelled is not None and options.strata is not None:
            raise ValueError(
                "labelled and strata cannot be used together: make the strata groups of their own "
                "(by=, --by), or leave one of the two out"
            )
        for name in self.design_columns:
            if name in self.grouping.names:
                raise ValueError(f"column {name!r} is a key of the groups: it cannot be both")
