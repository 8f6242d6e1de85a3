"""Protocols for bags that exist already: groups of the pool, or bags with known prevalences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kdey.bags import Bags, BagsLike, as_bags, offsets_of
from kdey.class_columns import in_class_order
from kdey.labels import Labels, check_classes, encode_labels, group_codes
from kdey.protocols.draw import LabelledBags, realised_prevalences
from kdey.simplex import SUM_TOLERANCE, Array, check_posteriors
from kdey.tensors import for_numpy


@dataclass(frozen=True, eq=False)
class GroupBags:
    """One bag per distinct group id, with its prevalences counted from the labels.

    Parameters
    ----------
    groups : array-like of shape (pool_size,)
        The group (day, site, author, ...) of each instance. Bags are in sorted order of the
        ids and carry them as ``names``.

    See Also
    --------
    kdey.GivenBags : Bags that are given with their prevalences.
    kdey.Bags : Many bags over one pool.

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
        """Return the groups of the pool labelled ``y``, prevalences ordered as ``classes``.

        Parameters
        ----------
        y : array-like of shape (pool_size,)
        classes : array-like of shape (k,), optional
            Default: the sorted labels of ``y``.

        Returns
        -------
        LabelledBags

        Raises
        ------
        ValueError
            If ``y`` and the groups differ in length.
        """
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
    """Bags with known prevalences, whose instances need no labels (as in the LeQua challenges).

    Parameters
    ----------
    given : Bags, sequence of index arrays, int array (n_bags, size) or sparse weight matrix
        Positions in the pool, in any form that :func:`kdey.bags.as_bags` accepts.
    prevalences : array-like or data frame of shape (n_bags, k)
        True prevalence of each bag, columns in the order of the classes; the columns of a data
        frame are matched with the classes by name.
    pool_size : int, optional
        Needed only for index arrays over a pool without labels.
    check_labels : bool
        Whether to refuse prevalences that differ from those counted in the labels by more than
        ``kdey.simplex.SUM_TOLERANCE``.

    See Also
    --------
    kdey.Bags : Many bags over one pool.
    kdey.GroupBags : Bags by a column.

    Examples
    --------
    >>> from kdey import GivenBags
    >>> protocol = GivenBags([[0, 1], [2, 3, 4]], [[0.5, 0.5], [0.2, 0.8]], pool_size=5)
    >>> drawn = protocol.bags(classes=["a", "b"])
    >>> drawn.sizes
    array([2, 3])
    """

    given: BagsLike
    prevalences: ArrayLike
    pool_size: int | None = None
    check_labels: bool = False

    def bags(self, y: ArrayLike | None = None, classes: ArrayLike | None = None) -> LabelledBags:
        """Return the bags with their prevalences.

        Parameters
        ----------
        y : array-like of shape (pool_size,), optional
            Labels of the pool, if known; they determine its size and the classes.
        classes : array-like of shape (k,), optional
            Names of the columns of ``prevalences``; by default the sorted labels of ``y``, or
            0, ..., k - 1 without labels.

        Returns
        -------
        LabelledBags

        Raises
        ------
        ValueError
            If bags, prevalences, classes and labels do not fit together.
        """
        labels = self._labels(y, classes)
        ordered = in_class_order(self.prevalences, labels, "prevalences")
        prevalences = np.asarray(check_posteriors(ordered, name="prevalences"), dtype=np.float64)
        known = np.arange(prevalences.shape[1]) if labels is None else labels
        if len(known) != prevalences.shape[1]:
            raise ValueError(
                f"prevalences has {prevalences.shape[1]} columns, but there are {len(known)} "
                "classes"
            )
        bags = as_bags(self.given, self._pool_size(y))
        if len(bags) != len(prevalences):
            raise ValueError(
                f"prevalences has {len(prevalences)} rows, but there are {len(bags)} bags"
            )
        if self.check_labels:
            self._compare(bags, prevalences, y, known)
        return LabelledBags(bags, prevalences, known)

    def _labels(self, y: ArrayLike | None, classes: ArrayLike | None) -> Labels | None:
        """Return the classes; None if neither they nor labels are known."""
        if y is not None:
            return encode_labels(y, classes)[1]
        return None if classes is None else check_classes(classes)

    def _pool_size(self, y: ArrayLike | None) -> int:
        if y is not None:
            return len(np.asarray(for_numpy(y, "y")))
        if self.pool_size is not None:
            return self.pool_size
        if isinstance(self.given, Bags):
            return self.given.pool_size
        raise ValueError("pool_size is missing: bags over a pool without labels y need it")

    def _compare(
        self, bags: Bags, prevalences: Array, y: ArrayLike | None, classes: Labels
    ) -> None:
        """Raise ValueError if prevalences differ from those counted in the labels."""
        if y is None:
            raise ValueError("check_labels=True needs the labels y")
        counted = realised_prevalences(bags, encode_labels(y, classes)[0], len(classes))
        deviations = np.abs(counted - prevalences).max(axis=1)
        if deviations.max() > SUM_TOLERANCE:
            bag = int(np.argmax(deviations))
            raise ValueError(
                f"prevalences of bag {bag} differ by {deviations[bag]:.3g} from those counted in y"
            )
