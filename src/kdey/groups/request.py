"""What is asked for: which groups, from which columns, and how they are estimated and judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.groups.keys import Grouping
from kdey.intervals.display import GROUP_COLUMNS, POOLED_COLUMNS
from kdey.intervals.merging import Merging
from kdey.options import Options
from kdey.tables.columns import canonical_text


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
