"""Score columns: which class each belongs to, and which rows can be used.

A batch of a table as points and group numbers: the half of the way that batches can share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from kdey.fitted import FittedQuantifier
from kdey.groups.keys import GroupKeys, parse_period, truncate
from kdey.posteriors import predict_posteriors
from kdey.simplex import NEGATIVE_TOLERANCE, SUM_TOLERANCE
from kdey.tables.layout import TableLayout, missing_in, numbers, require

Floats = NDArray[np.floating]


def match_scores(columns: Sequence[str], classes: NDArray[Any]) -> list[str]:
    """Return the score columns in the order of the classes.

    Columns named after the classes, all with the same beginning and end (``p_cat``, ``p_dog``),
    are matched by name; where none is, they are taken in the order given.

    Parameters
    ----------
    columns : names of k columns
    classes : array of shape (k,)
    """
    labels = [str(label) for label in np.asarray(classes).tolist()]
    given = list(columns)
    if len(set(given)) != len(given):
        raise ValueError(f"scores names a column twice: {', '.join(given)}")
    if len(given) != len(labels):
        raise ValueError(
            f"scores needs one column per class, {len(labels)} ({_some(labels)}), "
            f"got {len(given)} ({_some(given)})"
        )
    best = max(_spellings(given, labels), key=lambda names: len(set(names) & set(given)))
    strange = [name for name in given if name not in best]
    if not strange:
        return best
    if 2 * len(strange) <= len(given):
        raise ValueError(
            f"scores names columns after classes, but not {', '.join(map(repr, strange))}: "
            f"training has the classes {_some(labels)}"
        )
    return given


def usable_scores(scores: Floats) -> NDArray[np.bool_]:
    """Return which rows of scores (m, k) have no missing entry, shape (m,)."""
    return np.asarray(np.isfinite(scores).all(axis=1))


def bad_score(scores: Floats) -> tuple[int, str] | None:
    """Return the first row that is no posterior, and what is wrong; None: all are.

    Rows with missing entries are passed over.
    """
    with np.errstate(invalid="ignore"):
        sums = scores.sum(axis=1, dtype=np.float64)
        wrong = (scores < -NEGATIVE_TOLERANCE).any(axis=1) | (np.abs(sums - 1.0) > SUM_TOLERANCE)
    wrong &= usable_scores(scores)
    if not wrong.any():
        return None
    row = int(np.argmax(wrong))
    least = float(scores[row].min())
    if least < -NEGATIVE_TOLERANCE:
        return row, f"has a negative score ({least:.4g})"
    return row, f"has scores that sum to {sums[row]:.6g}, not to one"


def _spellings(columns: list[str], labels: list[str]) -> list[list[str]]:
    """Return the names that columns of all classes would have, for each way to read one column."""
    ways = {("", "")}
    for column in columns:
        for label in labels:
            head, found, tail = column.rpartition(label)
            if found:
                ways.add((head, tail))
    return [[head + label + tail for label in labels] for head, tail in sorted(ways)]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")


@dataclass(frozen=True)
class Grouping:
    """Which columns make the groups.

    Attributes
    ----------
    by : names of key columns
    time : name of a column of dates or instants that is one more, last key; optional
    every : period that instants are cut down to, such as "1w"; optional
    """

    by: tuple[str, ...] = ()
    time: str | None = None
    every: str | None = None

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise ValueError(f"by names a column twice: {', '.join(self.names)}")
        if self.every is not None:
            parse_period(self.every)
            if self.time is None:
                raise ValueError("every needs time, the column of dates that it cuts down")

    @property
    def names(self) -> tuple[str, ...]:
        """The key columns."""
        return self.by if self.time is None else (*self.by, self.time)

    def keys(self, frame: Any) -> Any:
        """Return the key columns of a narwhals frame, times cut down to their periods."""
        require(frame, self.names, "key column")
        made = frame.select(self.names)
        if self.time is None or self.every is None:
            return made
        return made.with_columns(_cut_down(made[self.time], self.every))

    def encode(self, frame: Any, keys: GroupKeys) -> NDArray[np.int32]:
        """Return the number of each row's group, shape (m,)."""
        made = self.keys(frame)
        return keys.encode([made[name].to_list() for name in self.names], len(frame))


@dataclass(frozen=True)
class Scorer:
    """How rows of a table become points of a fitted quantifier.

    Attributes
    ----------
    quantifier : fitted quantifier
    scores : names of the score columns in the order of the classes; none: the features are taken
    missing : {"drop", "error"}
        What becomes of rows with a missing score or feature.
    folds : bool
        Whether posteriors of the fold models that the quantifier holds follow the classifier's,
        for the fit check: points then have 2k columns.
    """

    quantifier: FittedQuantifier
    scores: tuple[str, ...] = ()
    missing: str = "drop"
    folds: bool = False

    @classmethod
    def of(
        cls,
        quantifier: FittedQuantifier,
        scores: Any = None,
        missing: str = "drop",
        check_fit: bool = False,
    ) -> Scorer:
        """Return the scorer of a quantifier; ``scores`` by default those it was fitted on.

        With ``check_fit`` fold models that the quantifier holds score the rows too.
        """
        if missing not in ("drop", "error"):
            raise ValueError(f"missing must be 'drop' or 'error', got {missing!r}")
        if isinstance(scores, str):
            raise ValueError("scores must be a list of columns, one per class")
        layout = TableLayout.of(quantifier)
        if scores is None and layout is not None and layout.scores:
            return cls(quantifier, layout.scores, missing)
        if not scores:
            return cls(
                quantifier, (), missing, check_fit and quantifier.fold_classifiers is not None
            )
        if not quantifier.takes_posteriors:
            raise ValueError(
                f"{type(quantifier).__name__} works on features, not on scores: leave scores out"
            )
        return cls(quantifier, tuple(match_scores(scores, quantifier.classes_)), missing)

    @property
    def on_posteriors(self) -> bool:
        """Whether points are posteriors (or else instances)."""
        scored = self.quantifier.fitted_classifier is not None
        return bool(self.scores) or (scored and self.quantifier.takes_posteriors)

    def columns(self) -> tuple[str, ...] | None:
        """Return the columns that are needed beside the keys; None: all that are no keys."""
        if self.scores:
            return self.scores
        layout = TableLayout.of(self.quantifier)
        if layout is not None:
            return layout.features
        return self.quantifier.feature_names

    def points(
        self, frame: Any, keys: tuple[str, ...] = (), first: int = 1
    ) -> tuple[Any, NDArray[np.bool_]]:
        """Return points of the usable rows, and which rows are usable, shape (m,).

        Parameters
        ----------
        frame : narwhals frame of m rows
        keys : columns that are no features
        first : int
            Number of the frame's first row, for messages.
        """
        if self.scores:
            return self._score_points(frame, first)
        X, usable = self.instances(frame, keys, first)
        if not self.on_posteriors:
            return X, usable
        classes = self.quantifier.classes_
        if not usable.any():
            return np.empty((0, len(classes) * (2 if self.folds else 1))), usable
        made = predict_posteriors(self.quantifier.fitted_classifier, X, classes)
        if self.folds:
            from kdey.diagnostics.fold_models import held_fold_models  # slow to import

            models: Any = held_fold_models(self.quantifier)
            made = np.hstack([made, models.posteriors(X, random_state=first)])
        return made, usable

    def _score_points(
        self, frame: Any, first: int
    ) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
        require(frame, self.scores, "score column")
        columns = [frame[name] for name in self.scores]
        single = all(str(series.dtype) == "Float32" for series in columns)
        kind = np.float32 if single else np.float64
        made = np.empty((len(frame), len(columns)), dtype=kind)
        for i, series in enumerate(columns):
            made[:, i] = numbers(series, kind, first)
        found = bad_score(made)
        if found is not None:
            raise ValueError(
                f"row {found[0] + first} {found[1]}: the columns "
                f"{', '.join(self.scores[:6])} must be posteriors"
            )
        usable = usable_scores(made)
        self._refuse(frame, self.scores, usable, first)
        return (made if usable.all() else made[usable]), usable

    def instances(
        self, frame: Any, keys: tuple[str, ...] = (), first: int = 1
    ) -> tuple[Any, NDArray[np.bool_]]:
        """Return the usable rows as the classifier takes them, and which are usable, (m,)."""
        names = self.columns()
        if names is None:
            names = self._other_columns(frame, keys)
        require(frame, names)
        layout = TableLayout.of(self.quantifier)
        usable = np.ones(len(frame), dtype=np.bool_)
        if layout is not None or not get_tags(self.quantifier).input_tags.allow_nan:
            for name in names:
                usable &= ~missing_in(frame[name])
        self._refuse(frame, names, usable, first)
        kept = frame if usable.all() else frame.filter(usable.tolist())
        if layout is not None:
            return layout.matrix(kept, first), usable
        if self.columns() is None:
            return kept.select(names).to_numpy(), usable
        return _for_classifier(kept.select(names)), usable

    def _other_columns(self, frame: Any, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Return all columns but the keys, where training told no names."""
        wanted = self.quantifier.n_features
        if wanted is None:
            raise ValueError(
                "this quantifier was fitted on scores: name the score columns, scores=[...]"
            )
        others = tuple(name for name in frame.columns if name not in keys)
        if len(others) != wanted:
            raise ValueError(
                f"the frame has {len(others)} columns beside the keys, but the quantifier was "
                f"fitted on {wanted} features without names: fit on a frame, or select columns"
            )
        return others

    def _refuse(
        self, frame: Any, names: tuple[str, ...], usable: NDArray[np.bool_], first: int
    ) -> None:
        if self.missing == "drop" or usable.all():
            return
        row = int(np.argmin(usable))
        empty = [name for name in names if missing_in(frame[name][row : row + 1])[0]] or names[:1]
        raise ValueError(
            f"column {empty[0]!r} has no value in row {row + first} "
            f"({int((~usable).sum())} rows lack one): mend them, or leave such rows out "
            "(missing='drop', --missing drop)"
        )


def _for_classifier(frame: Any) -> Any:
    """Return a frame as pipelines take it: those of scikit-learn know no columns of pyarrow."""
    if frame.implementation.is_pyarrow():
        for library in ("pandas", "polars"):
            if find_spec(library) is not None:
                return getattr(frame, f"to_{library}")()
    return frame.to_native()


def _cut_down(series: Any, every: str) -> Any:
    """Return a narwhals series of instants at the start of their periods."""
    import narwhals as nw

    if series.dtype not in (nw.Datetime, nw.Date):
        raise ValueError(
            f"time column {series.name!r} must hold dates or times, but holds values of type "
            f"{series.dtype}"
        )
    if series.dtype == nw.Datetime:
        series = series.dt.replace_time_zone(None)  # periods are those of the local clock
    # pandas gives datetime64 by itself, the others lists of instants.
    times = np.array(series.to_list(), dtype="datetime64[us]")
    cut = truncate(times, every)
    made = nw.new_series(series.name, cut, backend=series.implementation)
    return made.cast(nw.Date) if series.dtype == nw.Date else made
