"""What is asked for: which groups, how they are estimated and judged, and the table to return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from numpy.typing import NDArray

from kdey._support.validation import check_choice
from kdey.groups.answers import BORROWING_COLUMNS, COLUMNS
from kdey.groups.design import Design
from kdey.groups.keys import Grouping
from kdey.intervals.merging import Merging
from kdey.options import PREDICTION_POWERED, WAYS, Options


@dataclass(frozen=True)
class GroupSettings:
    """How groups are estimated and judged.

    Parameters
    ----------
    options : Options
    min_size : int
        Groups with fewer usable instances are estimated too, but their status is "too small".
    check_fit : bool
        Whether to check of every group that it looks like a mixture of the training classes
        (:func:`kdey.check_fit`), on a sample of large groups (:mod:`kdey.groups.checks`).
    level : float in (0, 1)
        Fit p-values up to it make the status "poor fit".
    n_null : int
        Null bags of the fit check.
    seed : int
        Of the fit check. Every group starts from it, so none depends on the others.
    merge : mapping from new label to classes, optional
        Groups of classes whose shares are wanted, in this order; see :meth:`kdey.Estimate.merge`.
    believe : {"prediction-powered", "label-shift", "labels"}
        Which estimate is shown as the estimate where groups have labels.
    """

    options: Options = field(default_factory=Options)
    min_size: int = 10
    check_fit: bool = True
    level: float = 0.01
    n_null: int = 300
    seed: int = 0
    merge: Mapping[Any, Any] | None = None
    believe: str = PREDICTION_POWERED

    def __post_init__(self) -> None:
        check_choice(self.believe, "believe", WAYS)
        size: Any = self.min_size
        level: Any = self.level
        if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
            raise ValueError(f"min_size must be a positive integer, got {size!r}")
        if not isinstance(level, Real) or not 0.0 < float(level) < 1.0:
            raise ValueError(f"level must be strictly between 0 and 1, got {level!r}")

    def merging(self, classes: NDArray[Any]) -> Merging:
        """Return the groups of classes that are shown; every class by itself by default."""
        return Merging.identity(classes) if self.merge is None else Merging.of(self.merge, classes)


@dataclass(frozen=True)
class Borrowing:
    """Whether groups borrow strength (:mod:`kdey.groups.borrowing`).

    Parameters
    ----------
    shrink : bool or str
        Whether groups lean on all groups of the table; the name of a key column: on those with the
        same value of it, and these on all.
    smooth : bool
        Whether periods lean on their neighbours in time.
    """

    shrink: bool | str = False
    smooth: bool = False

    def __post_init__(self) -> None:
        shrink: Any = self.shrink
        smooth: Any = self.smooth
        if not isinstance(shrink, bool | str) or shrink == "":
            raise ValueError(f"shrink must be True, False or the name of a key, got {shrink!r}")
        if not isinstance(smooth, bool):
            raise ValueError(f"smooth must be True or False, got {smooth!r}")
        if shrink and smooth:
            raise ValueError(
                "shrink pools groups and smooth pools neighbouring periods: choose one of them"
            )

    @property
    def is_asked(self) -> bool:
        """Whether groups are pooled at all."""
        return bool(self.shrink) or self.smooth

    def check(self, grouping: Grouping, target: str) -> None:
        """Raise ValueError if groups of this kind cannot be pooled."""
        if self.smooth and grouping.time is None:
            raise ValueError("smooth needs time, the column of dates that orders the periods")
        if self.smooth and target != "population":
            raise ValueError("smooth estimates populations: leave target='bag' out")
        if self.shrink and not grouping.names:
            raise ValueError("shrink needs groups: name a key column (by=..., --by)")
        if isinstance(self.shrink, str) and self.shrink not in grouping.names:
            raise ValueError(
                f"shrink names {self.shrink!r}, which is no key: name it in by (--by) too"
            )
        if isinstance(self.shrink, str) and len(grouping.names) < 2:
            raise ValueError(
                f"shrink={self.shrink!r} needs another key: groups with the same value of it lean "
                "on each other"
            )


@dataclass(frozen=True)
class GroupRequest:
    """What a caller of :func:`~kdey.groups.predict_groups` asks for, checked.

    Attributes
    ----------
    grouping : Grouping
    settings : GroupSettings
    scores : names of score columns, or None
        None: the features, or the score columns that the quantifier was fitted on.
    missing : {"auto", "drop", "error"}
        What becomes of rows with a missing score or feature.
    wide : bool
        Whether the table has one row per group instead of one per group and class.
    row_key : name of the column of row keys, or None
        To which the weights of a bootstrap over partitions are tied.
    keep : bool
        Whether rows of partitions stay with the workers between passes.
    design : Design
        Columns of labels, weights, clusters and strata.
    borrowing : Borrowing
        Whether groups borrow strength.
    """

    grouping: Grouping = field(default_factory=Grouping)
    settings: GroupSettings = field(default_factory=GroupSettings)
    scores: Sequence[str] | None = None
    missing: str = "auto"
    wide: bool = False
    row_key: str | None = None
    keep: bool = True
    design: Design = field(default_factory=Design)
    borrowing: Borrowing = field(default_factory=Borrowing)

    def __post_init__(self) -> None:
        self.design.check(self.grouping.names)
        self.borrowing.check(self.grouping, self.settings.options.target)
        if self.borrowing.is_asked and (self.design != Design() or self.settings.merge is not None):
            raise ValueError(
                "shrink and smooth take plain rows: leave labels, weights, clusters, strata and "
                "merge out, or estimate the groups by themselves"
            )
        reserved = (*COLUMNS, *(BORROWING_COLUMNS if self.borrowing.is_asked else ()))
        taken = [name for name in self.grouping.names if name in reserved]
        if taken:
            raise ValueError(
                f"key column {taken[0]!r} has the name of a column of the result: rename it"
            )

    @classmethod
    def of(
        cls,
        by: str | Sequence[str] = (),
        *,
        scores: Sequence[str] | None = None,
        time: str | None = None,
        every: str | None = None,
        date_format: str = "auto",
        key_types: Mapping[str, str] | None = None,
        wide: bool = False,
        missing: str = "auto",
        min_size: int = 10,
        check_fit: bool = True,
        level: float = 0.01,
        key: str | None = None,
        keep: bool = True,
        design: Design | None = None,
        merge: Mapping[Any, Any] | None = None,
        believe: str = PREDICTION_POWERED,
        shrink: bool | str = False,
        smooth: bool = False,
        **options: Any,
    ) -> GroupRequest:
        """Return the request made by the keywords of :func:`~kdey.groups.predict_groups`."""
        return cls(
            settings=GroupSettings(
                Options.of(**options),
                min_size,
                check_fit,
                level,
                merge=merge,
                believe=believe,
            ),
            grouping=Grouping.of(by, time, every, date_format, key_types),
            scores=scores,
            missing=missing,
            wide=wide,
            row_key=key,
            keep=keep,
            design=Design() if design is None else design,
            borrowing=Borrowing(shrink, smooth),
        )
