"""From rows of a table to what a quantifier works on: posteriors, or instances as they are.

:class:`Scorer` finds score columns or features by name, leaves out rows with missing values, and
lets the classifier score the features. What comes out is :class:`ScoredRows`; for methods that work
on features it is :class:`Instances`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from kdey._caching import Hashes, row_hashes, text_hashes
from kdey._display import count_of
from kdey.arrays import match_scores, take_rows
from kdey.bags import Bags, Indices
from kdey.classifiers import one_hot
from kdey.intervals import Estimates, estimate_points
from kdey.model import HOST, AnyModel, CombinedModel, Fitted, ForeignModel, Place, Pool, model_of
from kdey.options import Options
from kdey.posteriors import predict_posteriors
from kdey.simplex import NEGATIVE_TOLERANCE, SUM_TOLERANCE
from kdey.tables.columns import (
    RowNumbers,
    canonical_column,
    missing_in,
    numbers,
    require,
    row_number,
)
from kdey.tables.schema import UNSEEN, VARYING, Finding, TableSchema, is_unlabelled, match_labels

if TYPE_CHECKING:
    from kdey.tables.columns import Frame


Floats = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class UnseenValues:
    """Values of some rows that the training table lacks.

    Attributes
    ----------
    rows : bool array of shape (m,)
        Which rows have one in some column that is used.
    findings : tuple of Finding
        One per column, also for those that are not used because training has a single value.
    """

    rows: NDArray[np.bool_]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Posteriors of some instances.

    Attributes
    ----------
    posteriors : array of shape (m, k), in memory or on disk
    fold_posteriors : array of shape (m, k) or None
        Posteriors by the fold models that the quantifier holds, for the fit check.
    unseen : UnseenValues or None
        What the rows hold that training lacks; None: nothing.
    hashes : uint64 array of shape (m,) or None
        Of the features of each row, or of what tells rows apart; None: of the posteriors.
    """

    posteriors: Floats
    fold_posteriors: Floats | None = None
    unseen: UnseenValues | None = None
    hashes: Hashes | None = None

    def __len__(self) -> int:
        """Return the number of instances m."""
        return len(self.posteriors)

    @property
    def points(self) -> Floats:
        """What row maps take."""
        return self.posteriors

    @property
    def row_hashes(self) -> Hashes:
        """A hash of each row, by which the rows of a group are ordered."""
        return row_hashes(self.posteriors) if self.hashes is None else self.hashes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return int(self.posteriors.shape[1] * self.posteriors.itemsize)

    @property
    def checked_posteriors(self) -> Floats:
        """The posteriors that the fit check looks at: those of the fold models where they are."""
        return self.posteriors if self.fold_posteriors is None else self.fold_posteriors

    def take(self, positions: Indices) -> ScoredRows:
        """Return the instances at some positions."""
        folds, hashes = self.fold_posteriors, self.hashes
        return ScoredRows(
            self.posteriors[positions],
            None if folds is None else folds[positions],
            hashes=None if hashes is None else hashes[positions],
        )

    def estimates(
        self,
        model: AnyModel,
        bags: Bags,
        options: Options,
        clusters: Indices | None = None,
        place: Place = HOST,
    ) -> Estimates:
        """Return the estimates of bags of these instances, drawn in clusters (m,) or alone."""
        points = model.given(self.posteriors, place)
        return estimate_points(model, points, bags, options, clusters, place)


@dataclass(frozen=True, eq=False)
class Instances:
    """Instances as ``fit`` took them, for methods that work on features.

    Attributes
    ----------
    X : m instances
    unseen : UnseenValues or None
        What the rows hold that training lacks; None: nothing.
    hashes : uint64 array of shape (m,) or None
        Of what tells rows apart; None: of the instances.
    """

    X: Any
    unseen: UnseenValues | None = None
    hashes: Hashes | None = None

    def __len__(self) -> int:
        """Return the number of instances m."""
        return int(_num_samples(self.X))

    @property
    def row_hashes(self) -> Hashes:
        """A hash of each row, by which the rows of a group are ordered."""
        return row_hashes(self.X) if self.hashes is None else self.hashes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return int(8 * (self.X.shape[1] if getattr(self.X, "ndim", 1) == 2 else 1))

    @property
    def points(self) -> NDArray[Any]:
        """What row maps take."""
        return np.asarray(self.X)

    def take(self, positions: Indices) -> Instances:
        """Return the instances at some positions."""
        X, hashes = self.X, self.hashes
        return Instances(
            X[positions] if isinstance(X, np.ndarray) else take_rows(X, positions),
            hashes=None if hashes is None else hashes[positions],
        )

    def estimates(
        self,
        model: AnyModel,
        bags: Bags,
        options: Options,
        clusters: Indices | None = None,
        place: Place = HOST,
    ) -> Estimates:
        """Return the estimates of bags of these instances, drawn in clusters (m,) or alone."""
        return estimate_points(model, model.points(Pool(self.X)), bags, options, clusters, place)


#: What is known of the rows of a table once they are scored.
GroupRows: TypeAlias = ScoredRows | Instances


@dataclass(frozen=True)
class Scorer:
    """How rows of a table become posteriors or instances of a fitted quantifier.

    Attributes
    ----------
    model : model
    scores : names of the score columns in the order of the classes; none: the features are taken
        A single name is that of a column of decided labels.
    missing : {"auto", "drop", "error"}
        What becomes of rows with a missing score or feature. With "auto" they are used where the
        model learnt from rows that lack the same value, and left out otherwise.
    folds : bool
        Whether the fold models that the quantifier holds score the rows too, for the fit check.
    decimal : {".", ","}
        Decimal mark of numbers that are written as text.
    """

    model: AnyModel
    scores: tuple[str, ...] = ()
    missing: str = "auto"
    folds: bool = False
    decimal: str = "."

    @classmethod
    def of(
        cls,
        fitted: Fitted,
        scores: Sequence[str] | None = None,
        missing: str = "auto",
        check_fit: bool = False,
        decimal: str = ".",
    ) -> Scorer:
        """Return the scorer of a quantifier; ``scores`` by default those it was fitted on.

        With ``check_fit`` fold models that the quantifier holds score the rows too.
        """
        if missing not in ("auto", "drop", "error"):
            raise ValueError(f"missing must be 'auto', 'drop' or 'error', got {missing!r}")
        if isinstance(scores, str):
            raise ValueError("scores must be a list of columns, one per class")
        model = model_of(fitted)
        schema = model.table_schema
        if scores is None and schema is not None and schema.scores:
            return cls(model, schema.scores, missing, decimal=decimal)
        if not scores:
            folds = check_fit and model.scorer.fold_classifiers is not None
            return cls(model, (), missing, folds, decimal)
        if not model.takes_posteriors:
            raise ValueError(
                f"{type(fitted).__name__} works on features, not on scores: leave scores out"
            )
        if len(scores) == 1 and model.counts_decisions:
            return cls(model, tuple(scores), missing, decimal=decimal)
        matched = tuple(match_scores(scores, model.classes))
        return cls(model, matched, missing, decimal=decimal)

    @property
    def on_posteriors(self) -> bool:
        """Whether rows become posteriors (or else instances)."""
        has_classifier = self.model.scorer.classifier is not None
        return bool(self.scores) or (has_classifier and self.model.takes_posteriors)

    def columns(self) -> tuple[str, ...] | None:
        """Return the columns that are needed beside the keys; None: all that are no keys."""
        if self.scores:
            return self.scores
        schema = self.model.table_schema
        if schema is not None:
            return schema.feature_names
        return self.model.scorer.feature_names

    def score(
        self,
        frame: Frame,
        keys: tuple[str, ...] = (),
        first: int = 1,
        row_key: str | None = None,
    ) -> tuple[GroupRows, NDArray[np.bool_]]:
        """Return the usable rows, scored, and which rows of the frame are usable, shape (m,).

        Parameters
        ----------
        frame : narwhals frame of m rows
        keys : columns that are not features
        first : int
            Number of the frame's first row, for messages.
        row_key : name of a column, optional
            What tells rows apart; by default their features or scores do.
        """
        k = len(self.model.classes)
        if len(frame) == 0:
            return ScoredRows(np.empty((0, k))), np.empty(0, dtype=np.bool_)
        if self.scores:
            read = self._read_decisions if len(self.scores) == 1 else self._read_scores
            posteriors, usable = read(frame, first)
            hashes = _key_hashes(frame, row_key, usable)
            return ScoredRows(posteriors, hashes=hashes), usable
        X, usable, unseen = self.instances(frame, keys, first)
        hashes = _key_hashes(frame, row_key, usable)
        if not self.on_posteriors:
            return Instances(X, unseen, hashes), usable
        if not usable.any():
            no_hashes = np.empty(0, dtype=np.uint64)
            folds = self._fold_posteriors(X, no_hashes)
            return ScoredRows(np.empty((0, k)), folds, hashes=no_hashes), usable
        posteriors = predict_posteriors(self.model.scorer.classifier, X, self.model.classes)
        hashes = row_hashes(X) if hashes is None else hashes
        return ScoredRows(posteriors, self._fold_posteriors(X, hashes), unseen, hashes), usable

    def _fold_posteriors(self, X: Any, hashes: Hashes) -> Floats | None:
        if not self.folds:
            return None
        from kdey.diagnostics.fit_check import held_fold_models

        models = held_fold_models(self.model)
        return None if models is None else models.posteriors_by(X, hashes)

    def _read_scores(self, frame: Frame, first: int) -> tuple[Floats, NDArray[np.bool_]]:
        require(frame, self.scores, "score column")
        columns = [frame[name] for name in self.scores]
        single = all(str(column.dtype) == "Float32" for column in columns)
        dtype = np.float32 if single else np.float64
        scores: Floats = np.empty((len(frame), len(columns)), dtype=dtype)
        for i, column in enumerate(columns):
            scores[:, i] = numbers(column, dtype, first, self.decimal)
        fault = bad_score(scores)
        if fault is not None:
            raise ValueError(
                f"row {fault[0] + first} {fault[1]}: the columns "
                f"{', '.join(self.scores[:6])} must be posteriors"
            )
        usable = usable_scores(scores)
        self._check_missing(frame, self.scores, usable, first)
        return (scores if usable.all() else scores[usable]), usable

    def _read_decisions(self, frame: Frame, first: int) -> tuple[Floats, NDArray[np.bool_]]:
        """Return decided labels as one-hot rows, and which rows of the frame have one."""
        require(frame, self.scores, "column of decisions")
        column, classes = frame[self.scores[0]], self.model.classes
        usable = ~is_unlabelled(column)
        self._check_missing(frame, self.scores, usable, first)
        rows = np.flatnonzero(usable) + first
        schema = self.model.table_schema
        label_type = "auto" if schema is None else schema.label_type
        labels = match_labels(column.filter(usable.tolist()), classes, rows, label_type)
        return one_hot(labels, classes, f"column {self.scores[0]!r}"), usable

    def instances(
        self, frame: Frame, keys: tuple[str, ...] = (), first: RowNumbers = 1
    ) -> tuple[Any, NDArray[np.bool_], UnseenValues | None]:
        """Return the usable rows as the classifier takes them.

        Returns
        -------
        X : instances
        usable : bool array of shape (m,)
            Which rows of the frame these are.
        unseen : UnseenValues or None
        """
        schema = self.model.table_schema
        if schema is not None:
            return self._table_instances(schema, frame, first)
        names = self.columns()
        if names is None:
            names = self._other_columns(frame, keys)
        require(frame, names)
        usable = np.ones(len(frame), dtype=np.bool_)
        if self.missing != "auto" or not _takes_missing(self.model):
            for name in names:
                usable &= ~missing_in(frame[name])
        self._check_missing(frame, names, usable, first)
        kept = frame if usable.all() else frame.filter(usable.tolist())
        if self.columns() is None:
            return kept.select(names).to_numpy(), usable, None
        return _for_classifier(kept.select(names)), usable, None

    def _table_instances(
        self, schema: TableSchema, frame: Frame, first: RowNumbers
    ) -> tuple[NDArray[Any], NDArray[np.bool_], UnseenValues | None]:
        """Return what :meth:`instances` does, for a model that has a schema of tables."""
        encoded = schema.encode(frame, first, self.decimal)
        usable = ~(encoded.unexpected if self.missing == "auto" else encoded.missing)
        if self.missing == "error" and not usable.all():
            raise ValueError(self._missing_value(schema, frame, usable, first))
        findings = tuple(f for f in encoded.findings if f.what in (UNSEEN, VARYING))
        if not findings:
            return encoded.X[usable], usable, None
        return encoded.X[usable], usable, UnseenValues(encoded.unseen[usable], findings)

    def _missing_value(
        self, schema: TableSchema, frame: Frame, usable: NDArray[np.bool_], first: RowNumbers
    ) -> str:
        """Return the message that names the first missing value of a table."""
        row = int(np.argmin(usable))
        lacking = (
            name
            for name in schema.feature_names
            if schema.missing_in(frame, name, first, self.decimal)[row]
        )
        return _missing_message(next(lacking), row_number(first, row), int((~usable).sum()))

    def _other_columns(self, frame: Frame, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Return all columns but the keys, where training gave no names."""
        expected = self.model.scorer.n_features
        if expected is None:
            raise ValueError(
                "this quantifier was fitted on scores: name the score columns, scores=[...]"
            )
        others = tuple(name for name in frame.columns if name not in keys)
        if len(others) != expected:
            raise ValueError(
                f"the frame has {len(others)} columns beside the keys, but the quantifier was "
                f"fitted on {expected} features without names: fit on a frame, or select columns"
            )
        return others

    def _check_missing(
        self, frame: Frame, names: tuple[str, ...], usable: NDArray[np.bool_], first: RowNumbers
    ) -> None:
        if self.missing != "error" or usable.all():
            return
        row = int(np.argmin(usable))
        empty = [name for name in names if missing_in(frame[name][row : row + 1], numeric=True)[0]]
        lacking = empty[0] if empty else names[0]
        raise ValueError(_missing_message(lacking, row_number(first, row), int((~usable).sum())))


def _takes_missing(model: AnyModel) -> bool:
    """Return whether everything that instances are passed to takes missing values."""
    if isinstance(model, CombinedModel):
        return bool(model.members) and all(map(_takes_missing, model.members))
    inner = model.quantifier if isinstance(model, ForeignModel) else model.scorer.classifier
    if not hasattr(inner, "__sklearn_tags__"):  # a quantifier of another library need not have tags
        return False
    return bool(get_tags(inner).input_tags.allow_nan)


def _key_hashes(frame: Frame, name: str | None, usable: NDArray[np.bool_]) -> Hashes | None:
    """Return the hashes of the column that tells rows apart, of usable rows; None without one."""
    if name is None:
        return None
    require(frame, [name])
    return text_hashes(canonical_column(frame[name]))[usable]


def _missing_message(name: str, row: int, count: int) -> str:
    lacking = count_of(count, "row lacks one", "rows lack one")
    return (
        f"column {name!r} has no value in row {row} ({lacking}): fill them in, or "
        "leave such rows out (missing='drop', --missing drop)"
    )


def _for_classifier(frame: Frame) -> Any:
    """Return a frame as pipelines take it: those of scikit-learn know no columns of pyarrow."""
    if frame.implementation.is_pyarrow():
        if find_spec("pandas") is not None:
            return frame.to_pandas()
        if find_spec("polars") is not None:
            return frame.to_polars()
    return frame.to_native()


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
