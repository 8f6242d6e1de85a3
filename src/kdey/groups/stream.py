"""Groups from batches: points are kept as they come, and solved when all are there."""

from __future__ import annotations

import tempfile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kdey.groups.answers import GroupAnswers
from kdey.groups.settings import GroupSettings
from kdey.groups.solve import estimate_groups

#: Bytes of points that are kept in memory; what comes after them goes to a temporary file.
MEMORY = 1 << 30


class GroupStream:
    """Collects batches of points with the numbers of their groups.

    k numbers per instance are kept, whatever the width of the table, and beyond ``memory`` bytes
    they lie in a temporary file. A group beyond what is held at once is solved from sums over its
    pieces (``large.py``), so that it may be larger than memory.

    Parameters
    ----------
    memory : int
        Bytes of points to keep in memory.
    """

    def __init__(self, memory: int = MEMORY) -> None:
        self._memory = memory
        self._codes: list[NDArray[np.int32]] = []
        self._lost: list[NDArray[np.int32]] = []
        self._parts: list[NDArray[np.floating]] = []
        self._file: IO[bytes] | None = None
        self._shape: tuple[int, int] = (0, 0)
        self._dtype: np.dtype[Any] | None = None

    def __len__(self) -> int:
        """Return the number of points."""
        return self._shape[0]

    def add(
        self, points: NDArray[np.floating], codes: NDArray[np.int32], usable: NDArray[np.bool_]
    ) -> None:
        """Take a batch.

        Parameters
        ----------
        points : array of shape (m', k)
            Of the usable rows.
        codes : int32 array of shape (m,)
        usable : bool array of shape (m,)
        """
        if not usable.all():
            self._lost.append(codes[~usable])
            codes = codes[usable]
        if not len(points):
            return
        if self._dtype is None:
            self._dtype = points.dtype
        self._codes.append(codes)
        self._keep(np.ascontiguousarray(points, dtype=self._dtype))
        self._shape = (self._shape[0] + len(points), points.shape[1])

    def _keep(self, points: NDArray[np.floating]) -> None:
        held = self._shape[0] * self._shape[1] * points.itemsize
        if self._file is None and held + points.nbytes > self._memory:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by answers)
            for part in self._parts:
                self._file.write(part.data)
            self._parts.clear()
        if self._file is None:
            self._parts.append(points)
        else:
            self._file.write(points.data)

    def answers(
        self, quantifier: Any, n_groups: int, settings: GroupSettings, on_run: Any = None
    ) -> GroupAnswers:
        """Return the answers of all groups; the points are given up.

        Parameters as in :func:`~kdey.groups.solve.estimate_groups`.
        """
        none = np.empty(0, np.int32)
        lost = np.bincount(np.concatenate([*self._lost, none]), minlength=n_groups)
        codes = np.concatenate([*self._codes, none])
        self._codes.clear()
        missing = lost.astype(np.int64)
        points = self._points(len(quantifier.classes_))
        try:
            return estimate_groups(
                quantifier, points, codes, n_groups, settings, missing=missing, on_run=on_run
            )
        finally:
            if self._file is not None:
                self._file.close()

    def _points(self, n_classes: int) -> NDArray[np.floating]:
        if self._dtype is None:
            return np.empty((0, n_classes))
        if self._file is not None:
            self._file.flush()
            made: NDArray[np.floating] = np.memmap(
                self._file, dtype=self._dtype, mode="r", shape=self._shape
            )
            return made
        out = np.empty(self._shape, dtype=self._dtype)
        stop = len(out)
        while self._parts:  # from the end, each given up once it is copied: no second whole copy
            part = self._parts.pop()
            out[stop - len(part) : stop] = part
            stop -= len(part)
        return out
