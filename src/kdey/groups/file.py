"""Groups from batches: points are kept as they come, and solved when all are there.

Groups of a table in a file: read in batches, scored as they come, solved at the end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kdey.fitted import FittedQuantifier
from kdey.groups.answers import GroupAnswers, GroupSettings
from kdey.groups.frame import check_key_names
from kdey.groups.keys import GroupKeys
from kdey.groups.scoring import Grouping, Scorer
from kdey.groups.solve import estimate_groups
from kdey.tables.files import TableError, TableFile
from kdey.tables.layout import TableLayout
from kdey.tables.training import labels_seen

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
        self,
        quantifier: FittedQuantifier,
        n_groups: int,
        settings: GroupSettings,
        on_run: Any = None,
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


@dataclass(frozen=True, eq=False)
class FileGroups:
    """The answers for the groups of a file.

    Attributes
    ----------
    keys : GroupKeys
    types : pyarrow types of the key columns, by name
    answers : GroupAnswers
    """

    keys: GroupKeys
    answers: GroupAnswers
    types: dict[str, Any] = field(default_factory=dict)

    def table(self, wide: bool = False) -> Any:
        """Return a pyarrow table, ordered by the keys; columns as ``predict_groups`` has them."""
        import pyarrow as pa

        order = self.keys.order()
        values = self.keys.values
        rows = np.repeat(order, 1 if wide else len(self.answers.classes))
        made = {
            name: pa.array([values[g][i] for g in rows], self.types[name])
            for i, name in enumerate(self.keys.names)
        }
        columns = self.answers.columns(order, wide=wide)
        return pa.table(made | {name: pa.array(column) for name, column in columns.items()})


def estimate_file(
    quantifier: FittedQuantifier,
    file: TableFile,
    grouping: Grouping,
    settings: GroupSettings,
    *,
    scores: Sequence[str] | None = None,
    missing: str = "error",
    on_batch: Any = None,
    on_run: Any = None,
) -> FileGroups:
    """Return the answers for the groups of a table, of which one batch is held at a time.

    The numbers are those of :func:`~kdey.groups.predict_groups` on the whole table.

    Parameters
    ----------
    quantifier : fitted quantifier
    file : TableFile
    grouping : Grouping
    settings : GroupSettings
    scores, missing
        See :func:`~kdey.groups.predict_groups`.
    on_batch, on_run : callables, optional
        Told the number of rows read after each batch, and solved after each run of groups.
    """
    check_key_names(grouping.names)
    scorer = _scorer(quantifier, file, scores, missing, settings.check_fit)
    keys, stream = GroupKeys(grouping.names), GroupStream()
    types: dict[str, Any] = {}
    layout = TableLayout.of(quantifier)
    texts = [] if layout is None else list(layout.texts or {})
    first = 1
    for frame in file.batches(_columns(scorer, grouping, layout), texts):
        try:
            types = types or key_types(grouping.keys(frame))
            points, usable = scorer.points(frame, grouping.names, first)
            stream.add(points, grouping.encode(frame, keys), usable)
            if layout is not None and layout.label in frame.columns:
                labels_seen(frame, layout.label, quantifier.classes_, first)  # or else raises
        except ValueError as error:
            raise TableError(f"{file.name}: {error}") from error
        first += len(frame)
        if on_batch is not None:
            on_batch(len(frame))
    return FileGroups(keys, stream.answers(quantifier, len(keys), settings, on_run), types)


def _scorer(
    quantifier: FittedQuantifier,
    file: TableFile,
    scores: Sequence[str] | None,
    missing: str,
    check_fit: bool,
) -> Scorer:
    """Return the scorer of a file, of which nothing but posteriors can be kept."""
    scorer = Scorer.of(quantifier, scores, missing, check_fit)
    if scorer.on_posteriors:
        return scorer
    if quantifier.takes_posteriors:
        raise TableError(
            f"{file.name}: the model was fitted on scores: name the score columns (--scores)"
        )
    raise TableError(
        f"{file.name}: a {type(quantifier).__name__} cannot be used on files, as it has no "
        "single classifier: use KDEyML or another method on posteriors"
    )


def _columns(scorer: Scorer, grouping: Grouping, layout: TableLayout | None) -> list[str] | None:
    needed = scorer.columns()
    if needed is None:
        return None
    label = () if layout is None else (layout.label,)
    return list(dict.fromkeys([*needed, *grouping.names, *label]))


def key_types(keys: Any) -> dict[str, Any]:
    """Return the pyarrow types of key columns, by name, from a narwhals frame over pyarrow."""
    import pyarrow as pa

    fields = keys.to_native().schema
    return {
        one.name: one.type.value_type if pa.types.is_dictionary(one.type) else one.type
        for one in fields
    }
