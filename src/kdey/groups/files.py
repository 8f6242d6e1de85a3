"""Groups of a table in a file: read in batches, scored as they come, solved at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kdey.groups.answers import GroupAnswers
from kdey.groups.batch import Grouping, Scorer
from kdey.groups.frame import check_key_names
from kdey.groups.keys import GroupKeys
from kdey.groups.settings import GroupSettings
from kdey.groups.stream import GroupStream
from kdey.tables.layout import TableLayout
from kdey.tables.reading import TableError, TableFile
from kdey.tables.training import labels_seen


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
    quantifier: Any,
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
    quantifier: Any, file: TableFile, scores: Sequence[str] | None, missing: str, check_fit: bool
) -> Scorer:
    """Return the scorer of a file, of which nothing but posteriors can be kept."""
    scorer = Scorer.of(quantifier, scores, missing, check_fit)
    if scorer.on_posteriors:
        return scorer
    if hasattr(quantifier, "estimate_posteriors"):
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
