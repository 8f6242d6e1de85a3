"""Groups by key: every distinct combination of key values gets a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Indices


@dataclass(frozen=True)
class GroupKeys:
    """The combinations of key values met so far, numbered in the order in which they came.

    Attributes
    ----------
    names : names of the key columns; none: everything is one group
    """

    names: tuple[str, ...]
    _codes: dict[Any, int] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._codes)

    def encode(self, columns: Sequence[Sequence[Any]], n_rows: int) -> NDArray[np.int32]:
        """Return the number of each row's group, shape (n_rows,).

        Parameters
        ----------
        columns : one sequence of ``n_rows`` plain values per key
            None, NaN and NaT are one value: missing.
        n_rows : int
        """
        if not columns:
            self._number(())
            return np.zeros(n_rows, dtype=np.int32)
        one = len(columns) == 1
        combined = columns[0] if one else list(zip(*columns, strict=True))
        # Work in Python is done once per distinct key of the batch, not once per row.
        number = {
            key: self._number(_plain(key) if one else tuple(map(_plain, key)))
            for key in dict.fromkeys(combined)
        }
        return np.fromiter(map(number.__getitem__, combined), np.int32, count=n_rows)

    def _number(self, key: Any) -> int:
        return self._codes.setdefault(key, len(self._codes))

    @property
    def values(self) -> list[tuple[Any, ...]]:
        """Key values of every group, in the order of their numbers."""
        if len(self.names) == 1:
            return [(key,) for key in self._codes]
        return list(self._codes)

    def order(self) -> Indices:
        """Return the groups sorted by their keys, the first key slowest, missing keys last."""
        values = self.values
        columns = [_ranks([key[i] for key in values]) for i in range(len(self.names))]
        ranked = sorted(range(len(values)), key=lambda g: tuple(column[g] for column in columns))
        return np.array(ranked, dtype=np.int64)


def _plain(value: Any) -> Any:
    # What is missing differs from itself (NaN, NaT) or refuses to be compared (pandas' NA).
    return value if value is not None and _equals_itself(value) else None


def _equals_itself(value: Any) -> bool:
    try:
        return bool(value == value)
    except TypeError:
        return False


def _ranks(values: list[Any]) -> list[int]:
    """Return the rank of each value among the distinct ones; None ranks last."""
    known = {value for value in values if value is not None}
    try:
        ordered = sorted(known)
    except TypeError:  # of several types: the texts decide
        ordered = sorted(known, key=lambda value: (type(value).__name__, str(value)))
    rank = {value: number for number, value in enumerate(ordered)}
    return [len(rank) if value is None else rank[value] for value in values]
