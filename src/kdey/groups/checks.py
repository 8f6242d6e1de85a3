"""Fit checks of groups: which instances of a group are checked, and the status that follows.

All groups are checked by default. The cost of a check is bounded by fixed numbers, so that the
check of a group does not depend on how many others there are: 2,000 instances of a group, drawn at
random, and 1,000 training posteriors per class as references. Groups in partitions of a cluster
are checked on samples that the partitions send along with their sums (:class:`GroupSample`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags, Indices, offsets_of
from kdey.fitted import FittedQuantifier
from kdey.groups.answers import AnswerSheet
from kdey.groups.request import GroupSettings
from kdey.groups.scoring import Floats, ScoredRows
from kdey.status import TURNED_OFF, not_checked

#: Instances of a group that are checked, and references per class that they are compared with.
MOST_CHECKED, REFERENCES = 2_000, 1_000
#: Numbers of a sample of all groups that partitions send (32 MB).
_MOST_SENT = 8_000_000
#: Groups of which fewer instances could be sent are not checked.
_FEWEST_SENT = 20


@dataclass(frozen=True, eq=False)
class GroupChecks:
    """Checks the groups of a table and enters the results into an answer sheet.

    Attributes
    ----------
    quantifier : fitted quantifier
    settings : GroupSettings
    sheet : AnswerSheet
    by_folds : bool
        Whether the posteriors to check come from fold models that the quantifier keeps.
    reason : str or None
        Why no group is checked; None if they are.
    """

    quantifier: FittedQuantifier
    settings: GroupSettings
    sheet: AnswerSheet
    by_folds: bool
    reason: str | None

    @classmethod
    def start(
        cls,
        quantifier: FittedQuantifier,
        settings: GroupSettings,
        sheet: AnswerSheet,
        by_folds: bool,
    ) -> GroupChecks:
        """Return the checks of a table, and enter the status of groups that will not be checked."""
        reason = None if settings.check_fit else TURNED_OFF
        if reason is None:
            from kdey.diagnostics import unchecked_reason  # slow to import

            reason = unchecked_reason(quantifier)
        if reason is not None:
            sheet.fit_status[:] = not_checked(reason)
        return cls(quantifier, settings, sheet, by_folds, reason)

    def check(self, groups: Indices, posteriors: Floats, bags: Bags, sizes: Indices) -> None:
        """Check some groups.

        Parameters
        ----------
        groups : int64 array of shape (g,)
            Their numbers.
        posteriors : array of shape (m, k), in memory or on disk
        bags : Bags
            The instances of each group, or samples of them, as positions in ``posteriors``.
        sizes : int64 array of shape (g,)
            Numbers of instances of the groups.
        """
        large = np.flatnonzero(sizes >= self.settings.min_size)
        if self.reason is not None or not len(large):
            return
        from kdey.diagnostics.default_check import default_checker
        from kdey.diagnostics.fit_checker import sample_bags

        references = REFERENCES * len(self.quantifier.classes_)
        checker = default_checker(self.quantifier, self.by_folds, references)
        most = min(checker.most_instances, MOST_CHECKED)
        settings = self.settings
        verdicts = checker.screen(
            posteriors,
            sample_bags(_select(bags, large), most, settings.seed),
            sizes=sizes[large],
            seed=settings.seed,
            n_null=settings.n_null,
            level=settings.level,
        )
        for group, verdict in zip(groups[large], verdicts, strict=True):
            self.sheet.fit_p_values[group] = verdict.p_value
            self.sheet.fit_status[group] = verdict.status


def _select(bags: Bags, numbers: Indices) -> Bags:
    """Return the unweighted bags with some numbers, ascending."""
    if len(numbers) == len(bags):
        return bags
    parts = [bags.indices[bags.offsets[b] : bags.offsets[b + 1]] for b in numbers]
    return Bags(np.concatenate(parts), offsets_of(bags.sizes[numbers]), bags.pool_size)


@dataclass(frozen=True, eq=False)
class GroupSample:
    """Random samples of the instances of groups, which can be put together.

    Every instance has a random priority, and a sample holds the instances of lowest priority. The
    samples of two parts of a group therefore contain that of the whole group.

    Attributes
    ----------
    groups : int64 array of shape (s,)
        Group of each instance, ascending.
    priorities : array of shape (s,)
        Ascending within a group.
    posteriors : float32 array of shape (s, k)
    by_folds : bool
        Whether fold models that the quantifier keeps gave the posteriors.
    """

    groups: Indices
    priorities: Array
    posteriors: NDArray[np.float32]
    by_folds: bool

    @classmethod
    def draw(cls, rows: ScoredRows, codes: NDArray[np.integer], n_groups: int) -> GroupSample:
        """Return the sample of the instances of a partition.

        Parameters
        ----------
        rows : ScoredRows
            m instances.
        codes : int array of shape (m,)
            Number of the group of each.
        n_groups : int
        """
        points = np.ascontiguousarray(rows.checked_posteriors, dtype=np.float32)
        # The same partition gives the same sample, wherever and whenever it is read.
        priorities = np.random.default_rng(crc32(points.tobytes())).random(len(points))
        by_folds = rows.fold_posteriors is not None
        groups = np.asarray(codes, dtype=np.int64)
        return cls(groups, priorities, points, by_folds)._bounded(n_groups)

    def renumbered(self, numbers: Indices) -> GroupSample:
        """Return the sample with other numbers for the groups: group g becomes ``numbers[g]``."""
        return GroupSample(numbers[self.groups], self.priorities, self.posteriors, self.by_folds)

    @staticmethod
    def merge(parts: Sequence[GroupSample], n_groups: int) -> GroupSample:
        """Return the sample of several parts, in which groups have the same numbers."""
        joined = GroupSample(
            np.concatenate([part.groups for part in parts]),
            np.concatenate([part.priorities for part in parts]),
            np.concatenate([part.posteriors for part in parts]),
            any(part.by_folds for part in parts),
        )
        return joined._bounded(n_groups)

    def _bounded(self, n_groups: int) -> GroupSample:
        """Return the instances of lowest priority, as many of each group as may be sent."""
        sendable = _MOST_SENT // (self.posteriors.shape[1] * max(n_groups, 1))
        most = min(sendable, MOST_CHECKED) if sendable >= _FEWEST_SENT else 0
        order = np.lexsort((self.priorities, self.groups))
        counts = np.bincount(self.groups, minlength=n_groups)
        rank = np.arange(len(order)) - np.repeat(offsets_of(counts)[:-1], counts)
        kept = order[rank < most]
        return GroupSample(
            self.groups[kept], self.priorities[kept], self.posteriors[kept], self.by_folds
        )

    def bags(self, n_groups: int) -> tuple[Indices, Bags | None]:
        """Return the numbers of the groups that have a sample, and the samples as bags."""
        counts = np.bincount(self.groups, minlength=n_groups)
        present = np.flatnonzero(counts)
        if not len(present):
            return present, None
        size = len(self.groups)
        offsets = offsets_of(counts[present])
        return present, Bags(np.arange(size, dtype=np.int64), offsets, size)
