"""Sums per group: what a part of the data contributes, and how parts are put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Indices

Fields = dict[str, Array]


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Sums over the rows of some groups, by name.

    Attributes
    ----------
    groups : int64 array of shape (g,)
        Numbers of the groups, ascending.
    sums : dict of arrays of shape (g, ...)
        Added up when parts are put together.
    logs : dict of arrays of shape (g, ...)
        Logarithms of sums, added up in the log domain.
    """

    groups: Indices
    sums: Fields
    logs: Fields = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.groups)

    def renumbered(self, numbers: NDArray[np.integer]) -> GroupSums:
        """Return the same sums with other numbers for the groups, shape (g,), all different."""
        order = np.argsort(numbers, kind="stable")
        return GroupSums(
            np.asarray(numbers, dtype=np.int64)[order],
            {name: values[order] for name, values in self.sums.items()},
            {name: values[order] for name, values in self.logs.items()},
        )

    def spread(self, name: str, n_groups: int) -> Array:
        """Return the sums ``name`` of groups 0..n_groups - 1, zero for those not met."""
        values = self.sums[name]
        out = np.zeros((n_groups, *values.shape[1:]))
        out[self.groups] = values
        return out


def merge(parts: Sequence[GroupSums]) -> GroupSums:
    """Return the sums of all parts; the order of the parts settles the rounding.

    Parts without a group have nothing to add and need name no sums.
    """
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    flat = np.concatenate([part.groups for part in parts])
    order = np.argsort(flat, kind="stable")
    groups, starts = np.unique(flat[order], return_index=True)

    def put_together(which: str, add: Any) -> Fields:
        fields = getattr(parts[0], which)
        return {
            name: add.reduceat(
                np.concatenate([getattr(part, which)[name] for part in parts])[order], starts
            )
            for name in fields
        }

    return GroupSums(groups, put_together("sums", np.add), put_together("logs", np.logaddexp))
