"""Bags that exist already: by group ids, or as positions with known prevalences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kdey.bags import Bags, BagsLike, as_bags, offsets_of
from kdey.labels import Labels, check_classes, encode_labels, group_codes
from kdey.protocols.draw import LabelledBags, realised_prevalences
from kdey.simplex import SUM_TOLERANCE, Array, check_posteriors


@dataclass(frozen=True, eq=False)
class GroupBags:
    """One bag per distinct group id, with its prevalences counted from the labels.

    Parameters
    ----------
    groups : array-like of shape (pool_size,)
        The group (day, site, author, ...) of each instance. Bags are in sorted order of the
        ids and carry them as ``names``.

    Examples
    --------
    >>> from kdey import GroupBags
    >>> drawn = GroupBags(["mon", "mon", "tue", "tue", "tue"]).bags([0, 1, 1, 1, 0])
    >>> drawn.names
    array(['mon', 'tue'], dtype='<U3')
    >>> drawn.prevalences.round(2)
    array([[0.5 , 0.5 ],
           [0.33, 0.67]])
    """

    groups: ArrayLike

    def bags(self, y: ArrayLike, classes: ArrayLike | None = None) -> LabelledBags:
        """Return the groups of the pool labelled ``y``, prevalences ordered as ``classes``."""
        codes, known = encode_labels(y, classes)
        names, member = group_codes(self.groups)
        if len(member) != len(codes):
            raise ValueError(f"groups has {len(member)} entries, but y has {len(codes)}")
        positions = np.argsort(member, kind="stable").astype(np.int64)
        offsets = offsets_of(np.bincount(member))
        bags = Bags(positions, offsets, len(codes))
        return LabelledBags(bags, realised_prevalences(bags, codes, len(known)), known, names)


@dataclass(frozen=True, eq=False)
class GivenBags:
    """Bags with prevalences that somebody else knows (as in the LeQua challenges).

    Parameters
    ----------
    given : Bags, sequence of index arrays, int array (n_bags, size) or sparse weight matrix
        Positions in the pool, as :func:`kdey.bags.as_bags` takes them.
    prevalences : array-like of shape (n_bags, k)
        True prevalence of each bag, columns in the order of the classes.
    pool_size : int, optional
        Needed only for index arrays over a pool without labels.
    check_labels : bool
        Whether to refuse prevalences that differ from those counted in the labels by more than
        ``kdey.simplex.SUM_TOLERANCE``.
    """

    given: BagsLike
    prevalences: ArrayLike
    pool_size: int | None = None
    check_labels: bool = False

    def bags(self, y: ArrayLike | None = None, classes: ArrayLike | None = None) -> LabelledBags:
        """Return the given bags.

        Parameters
        ----------
        y : array-like of shape (pool_size,), optional
            Labels of the pool, if known; they tell its size and the classes.
        classes : array-like of shape (k,), optional
            Names of the columns of ``prevalences``; by default the sorted labels of ``y``, or
            0, ..., k - 1 without labels.
        """
        prevalences = np.asarray(
            check_posteriors(self.prevalences, name="prevalences"), dtype=np.float64
        )
        known = self._classes(y, classes, prevalences.shape[1])
        bags = as_bags(self.given, self._pool_size(y))
        if len(bags) != len(prevalences):
            raise ValueError(
                f"prevalences has {len(prevalences)} rows, but there are {len(bags)} bags"
            )
        if self.check_labels:
            self._compare(bags, prevalences, y, known)
        return LabelledBags(bags, prevalences, known)

    def _classes(self, y: ArrayLike | None, classes: ArrayLike | None, n_columns: int) -> Labels:
        if y is not None:
            known = encode_labels(y, classes)[1]
        else:
            known = np.arange(n_columns) if classes is None else check_classes(classes)
        if len(known) != n_columns:
            raise ValueError(
                f"prevalences has {n_columns} columns, but there are {len(known)} classes"
            )
        return known

    def _pool_size(self, y: ArrayLike | None) -> int:
        if y is not None:
            return len(np.asarray(y))
        if self.pool_size is not None:
            return self.pool_size
        if isinstance(self.given, Bags):
            return self.given.pool_size
        raise ValueError("pool_size must be given for bags over a pool without labels")

    def _compare(
        self, bags: Bags, prevalences: Array, y: ArrayLike | None, classes: Labels
    ) -> None:
        if y is None:
            raise ValueError("check_labels=True needs the labels y")
        counted = realised_prevalences(bags, encode_labels(y, classes)[0], len(classes))
        off = np.abs(counted - prevalences).max(axis=1)
        if off.max() > SUM_TOLERANCE:
            bag = int(np.argmax(off))
            raise ValueError(
                f"prevalences of bag {bag} are off by {off[bag]:.3g} from those counted in y"
            )
