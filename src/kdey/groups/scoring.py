"""From tables to scored rows: columns are found by name, and the classifier scores the features.

:func:`score` reads a frame in memory, or a file batch by batch; :class:`TableScorer` reads one
batch, wherever it lies (a whole frame, a batch of a file, a partition on a worker). Rows with
missing values are left out and counted.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from kdey._display import count_of, warn
from kdey._fingerprints import Hashes, row_hashes, text_hashes
from kdey.bags import Array, Indices
from kdey.classifiers import one_hot
from kdey.groups.request import Request
from kdey.groups.table import (
    MEMORY,
    UNLABELLED,
    Floats,
    GroupKeys,
    ScoredRows,
    ScoredTable,
    collect,
)
from kdey.model import AnyModel, CombinedModel, Fitted, ForeignModel, model_of
from kdey.posteriors import predict_posteriors
from kdey.simplex import NEGATIVE_TOLERANCE, SUM_TOLERANCE, match_scores
from kdey.tables import (
    RowNumbers,
    as_frame,
    canonical_column,
    canonical_text,
    missing_in,
    numbers,
    require,
    require_names,
    row_number,
)
from kdey.tables.features import TableWarning
from kdey.tables.schema import (
    MISSING,
    Finding,
    LabelType,
    TableSchema,
    is_unlabelled,
    labels_seen,
    match_labels,
)
from kdey.tables.sources import TableError, TableSource, is_frame, open_source
from kdey.tables.templates import Codes
from kdey.validation import refuse_levels

if TYPE_CHECKING:
    from kdey.tables import Frame


#: Squares of larger weights, and sums of many, would be infinite.
_LARGEST_WEIGHT = 1e150

#: Called with a number of rows each time that so many more are done.
OnRows: TypeAlias = Callable[[int], object]


def engine_of(source: Any) -> str | None:
    """Return "dask" or "spark" if a data frame lies there; None for other sources."""
    for engine, library in (("dask", "dask.dataframe"), ("spark", "pyspark.sql")):
        module = sys.modules.get(library)  # which is not imported for it
        if module is not None and isinstance(source, module.DataFrame):
            return engine
    return None


def score(
    quantifier: Fitted,
    source: Any,
    request: Request,
    on_batch: OnRows | None = None,
) -> ScoredTable:
    """Return the rows of a frame in memory or of a file, scored and numbered by group.

    Parameters
    ----------
    quantifier : fitted quantifier, or its model
    source : data frame of pandas, polars or pyarrow, or what ``open_source`` takes
    request : Request
    on_batch : callable, optional
        Called after each batch with the number of its rows.

    Raises
    ------
    TableError
        If a file cannot be read or used; the message begins with its name.
    """
    if is_frame(source):
        scored = _score_frame(quantifier, source, request)
        scored.check_population_sizes(request.options.fpc)
        return scored
    source = open_source(source)
    schema = model_of(quantifier).table_schema
    if request.label is None and schema is not None:
        request = replace(request, label=schema.label)  # known labels are no features
    try:
        scored = _score_file(quantifier, source, request, on_batch)
        scored.check_population_sizes(request.options.fpc)
        return scored
    except TableError:
        raise
    except ValueError as error:
        raise TableError(f"{source.name}: {error}") from error


def _score_frame(quantifier: Fitted, frame: Any, request: Request) -> ScoredTable:
    refuse_levels(frame, "frame")
    table = as_frame(frame)
    if len(table) == 0:
        raise ValueError("frame has no rows")
    scorer = TableScorer.of(quantifier, request)
    scorer.check_columns(table.columns)
    scorer = replace(scorer, request=request.with_time_format([table]))
    scored = collect([scorer.read(table, GroupKeys(request.names))], None)
    return replace(scored, date_format=scorer.request.pattern)


def _score_file(
    quantifier: Fitted, file: TableSource, request: Request, on_batch: OnRows | None
) -> ScoredTable:
    scorer = TableScorer.of(quantifier, request, file.decimal)
    if scorer.model.takes_posteriors and not scorer.on_posteriors:
        raise TableError(
            f"{file.name}: the model was fitted on scores: name the score columns (scores=)"
        )
    scorer.check_columns(file.columns)
    keys = GroupKeys(request.names)
    if request.time is not None:  # looks at that column alone
        file = file.repeatable()
        request = request.with_time_format(file.batches([request.time]), file.first_row)
    scorer = replace(scorer, request=request)
    done: Callable[[int], object] = (lambda _: None) if on_batch is None else on_batch

    def batches() -> Iterator[ScoredTable]:
        position = file.first_row
        for frame in file.batches(scorer.columns, request.by):
            yield scorer.read(frame, keys, position)
            position += len(frame)
            done(len(frame))

    return replace(collect(batches(), MEMORY), date_format=request.pattern)


@dataclass(frozen=True, eq=False)
class TableScorer:
    """How rows of a table become posteriors, or instances, with a group and a design.

    Attributes
    ----------
    model : model
    request : Request
    scores : names of the score columns in the order of the classes; none: the features are taken
        A single name is that of a column of decided labels.
    folds : bool
        Whether the fold models that the quantifier holds score the rows too, for the fit check.
    decimal : {".", ","}
        Decimal mark of numbers that are written as text.
    """

    model: AnyModel
    request: Request
    scores: tuple[str, ...] = ()
    folds: bool = False
    decimal: str = "."

    @classmethod
    def of(cls, quantifier: Fitted, request: Request, decimal: str = ".") -> TableScorer:
        """Return the scorer of a table whose numbers have this decimal mark.

        The score columns are by default those that the quantifier was fitted on.
        """
        model, scores = model_of(quantifier), request.scores
        if isinstance(scores, str):
            raise ValueError("scores must be a list of columns, one per class")
        schema = model.table_schema
        plain = cls(model, request, decimal=decimal)
        if scores is None and schema is not None and schema.scores:
            return replace(plain, scores=schema.scores)
        if not scores:
            checked = request.options.check_fit and model.fold_models is not None
            return replace(plain, folds=checked)
        if not model.takes_posteriors:
            raise ValueError(
                f"{type(quantifier).__name__} works on features, not on scores: leave scores out"
            )
        if len(scores) == 1 and model.counts_decisions:
            return replace(plain, scores=tuple(scores))
        return replace(plain, scores=tuple(match_scores(scores, model.classes)))

    @property
    def on_posteriors(self) -> bool:
        """Whether rows become posteriors (or else instances)."""
        has_classifier = self.model.scorer.classifier is not None
        return bool(self.scores) or (has_classifier and self.model.takes_posteriors)

    @property
    def columns(self) -> list[str] | None:
        """The columns that are read; None: all.

        Columns that had a single value in training are looked at, to warn where they vary.
        """
        needed, schema = self._needed, self.model.table_schema
        if needed is None:
            return None
        constants = () if schema is None or self.scores else schema.constants
        return list(dict.fromkeys([*needed, *self.request.no_features, *constants]))

    @property
    def _needed(self) -> tuple[str, ...] | None:
        """The columns of scores or features; None: all that have no other role."""
        if self.scores:
            return self.scores
        schema = self.model.table_schema
        return self.model.scorer.feature_names if schema is None else schema.feature_names

    def check_columns(self, present: Sequence[str]) -> None:
        """Raise where a table lacks a column; warn where a feature makes the groups."""
        request = self.request
        known = () if self.scores else set(self._needed or ())
        for name in filter(known.__contains__, request.names):
            warn(
                f"groups are made by {name!r}, which is a feature of the model: no group can look "
                f"as training did. Fit without that column (roles={{{name!r}: 'ignored'}})",
                TableWarning,
            )
        require_names(present, request.names, "key column")
        if request.options.key is not None:
            require_names(present, [request.options.key])
        require_names(present, request.design_columns)
        require_names(present, self._needed or (), "score column" if self.scores else "column")

    def read(self, frame: Frame, keys: GroupKeys, first: int = 1) -> ScoredTable:
        """Return the usable rows of a frame.

        Parameters
        ----------
        frame : narwhals frame
        keys : GroupKeys
            Groups that are new get its next numbers.
        first : int
            Number of the frame's first row, for messages.
        """
        request = self.request
        key_columns = self.request.keys(frame, first)
        codes = keys.encode([key_columns[name] for name in keys.names], len(frame))
        rows, usable, unseen, findings = self._score(frame, first)
        own = codes[usable]
        design = {name: values[usable] for name, values in self._design(frame, first).items()}
        rows = replace(rows, groups=own, **design)
        labels: list[Any] = []
        if request.label is not None and request.label in frame.columns:
            classes = self.model.classes
            labels = labels_seen(frame, request.label, classes, first, self._label_type).tolist()
        if rows.weights is not None and not rows.weights.all():
            # An instance of weight zero does not belong to its group.
            rows = rows.take(np.flatnonzero(rows.weights > 0))
        sizes, missing, strange = (
            np.bincount(part, minlength=len(keys)).astype(np.int64)
            for part in (rows.groups, codes[~usable], own[unseen])
        )
        return ScoredTable(
            keys,
            _one_per_group(key_columns, codes),
            rows,
            sizes,
            missing,
            strange,
            np.ones(len(keys)),
            findings,
            Counter(labels),
        )

    def usable(self, frame: Frame) -> NDArray[np.bool_]:
        """Return which rows of a frame are used, without scoring them, shape (m,)."""
        if len(frame) == 0:
            return np.empty(0, dtype=np.bool_)
        used = self._read_given(frame, 1)[1] if self.scores else self.instances(frame)[1]
        name = self.request.weights
        return used if name is None else used & (self._numbers(frame, name, 1) > 0)

    def _score(
        self, frame: Frame, first: int
    ) -> tuple[ScoredRows, NDArray[np.bool_], NDArray[np.bool_], tuple[Finding, ...]]:
        """Return the usable rows without groups and design, and what is known of all rows.

        Returns
        -------
        rows : ScoredRows
        usable : bool array of shape (m,)
            Which rows of the frame these are.
        unseen : bool array, one per usable row
            Which hold a value that training lacks.
        findings : tuple of Finding
        """
        k, no_groups = self.model.n_classes, np.empty(0, dtype=np.int32)
        no_hashes = np.empty(0, dtype=np.uint64)
        # All parts of a table have the same columns.
        folds = None if self.scores else self._fold_posteriors(None, no_hashes)
        nothing = ScoredRows(
            *(_held(np.empty((0, k))), no_hashes, no_groups),
            fold_posteriors=folds,
            column_codes=self._column_codes(None),
        )
        if len(frame) == 0:
            return nothing, np.empty(0, dtype=np.bool_), np.empty(0, dtype=np.bool_), ()
        findings: tuple[Finding, ...] = ()
        if self.scores:
            X, usable = self._read_given(frame, first)
            unseen = np.zeros(len(X), dtype=np.bool_)
        else:
            X, usable, unseen, findings = self.instances(frame, first)
        if not usable.any():
            if not self.scores and not self.on_posteriors:
                nothing = replace(nothing, points=X, on_posteriors=False)
            return nothing, usable, unseen, findings
        key = self.request.options.key
        hashes = row_hashes(X) if key is None else _key_hashes(frame, key, usable)
        if self.scores or not self.on_posteriors:
            points = _held(X) if self.scores else X
            rows = ScoredRows(points, hashes, no_groups, on_posteriors=bool(self.scores))
        else:
            p, folds = self._posteriors(X, hashes)
            rows = ScoredRows(_held(p), hashes, no_groups, fold_posteriors=folds)
        return replace(rows, column_codes=self._column_codes(X)), usable, unseen, findings

    def _column_codes(self, X: Any) -> Codes | None:
        """Return the bins of the columns of instances, None: of no instance; or None."""
        columns = self.model.columns
        if columns is None or self.scores or not self.request.options.check_fit:
            return None
        return np.empty((0, len(columns)), dtype=np.uint8) if X is None else columns.codes(X)

    def _posteriors(self, X: Any, hashes: Hashes) -> tuple[Floats, Floats | None]:
        """Return posteriors by the classifier, and by the fold models where these are asked."""
        scorer = self.model.scorer
        by_fold = scorer.predict_by_fold(X) if self.folds else None
        if by_fold is not None:
            return by_fold[0], self._fold_posteriors(X, hashes, by_fold[1:])
        p = predict_posteriors(scorer.classifier, X, self.model.classes)
        return p, self._fold_posteriors(X, hashes)

    def _fold_posteriors(
        self, X: Any, hashes: Hashes, by_fold: Floats | None = None
    ) -> Floats | None:
        if not self.folds:
            return None
        from kdey.diagnostics.score_check import kept_fold_models  # slow to import

        models = kept_fold_models(self.model)
        return None if models is None else _held(models.posteriors_by(X, hashes, by_fold))

    def _read_given(self, frame: Frame, first: int) -> tuple[Floats, NDArray[np.bool_]]:
        """Return given posteriors, and which rows of the frame have them."""
        if len(self.scores) == 1:
            return self._read_decisions(frame, first)
        return self._read_scores(frame, first)

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
        labels = match_labels(column.filter(usable.tolist()), classes, rows, self._label_type)
        return one_hot(labels, classes, f"column {self.scores[0]!r}"), usable

    def instances(
        self, frame: Frame, first: RowNumbers = 1
    ) -> tuple[Any, NDArray[np.bool_], NDArray[np.bool_], tuple[Finding, ...]]:
        """Return the usable rows as the classifier takes them.

        Returns
        -------
        X : instances
        usable : bool array of shape (m,)
            Which rows of the frame these are.
        unseen : bool array, one per instance
            Which hold a value that training lacks, in some column that is used.
        findings : tuple of Finding
            One per column with such values, also for those that are not used because training has
            a single value.
        """
        schema = self.model.table_schema
        if schema is not None:
            return self._table_instances(schema, frame, first)
        names = self._needed
        if names is None:
            names = self._other_columns(frame, self.request.no_features)
        require(frame, names)
        usable = np.ones(len(frame), dtype=np.bool_)
        if self.request.options.missing != "auto" or not _takes_missing(self.model):
            for name in names:
                usable &= ~missing_in(frame[name])
        self._check_missing(frame, names, usable, first)
        kept = frame if usable.all() else frame.filter(usable.tolist())
        unseen = np.zeros(len(kept), dtype=np.bool_)
        if self._needed is None:
            return kept.select(names).to_numpy(), usable, unseen, ()
        return _for_classifier(kept.select(names)), usable, unseen, ()

    def _table_instances(
        self, schema: TableSchema, frame: Frame, first: RowNumbers
    ) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], tuple[Finding, ...]]:
        """Return what :meth:`instances` does, for a model that has a schema of tables."""
        missing = self.request.options.missing
        encoded = schema.encode(frame, first, self.decimal)
        usable = ~(encoded.unexpected if missing == "auto" else encoded.missing)
        if missing == "error" and not usable.all():
            raise ValueError(self._missing_value(schema, frame, usable, first))
        findings = tuple(f for f in encoded.findings if f.what != MISSING)
        return encoded.X[usable], usable, encoded.unseen[usable], findings

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
        if self.request.options.missing != "error" or usable.all():
            return
        row = int(np.argmin(usable))
        empty = [name for name in names if missing_in(frame[name][row : row + 1], numeric=True)[0]]
        lacking = empty[0] if empty else names[0]
        raise ValueError(_missing_message(lacking, row_number(first, row), int((~usable).sum())))

    def _design(self, frame: Frame, first: int) -> dict[str, Any]:
        """Return what the columns of the design say of the rows of a frame.

        Raises ValueError if a column is not there, a label is no class of the model, or a weight,
        probability, cluster or stratum is missing or not allowed. The message names the row.
        """
        request, design = self.request, dict[str, Any]()
        chosen, strata = request.options.selection, request.options.strata
        require(frame, request.design_columns)
        if request.labelled is not None:
            design["labels"] = labels = self._labels(frame, request.labelled, first)
            if chosen is not None:
                design["selection"] = selection = self._numbers(frame, chosen, first)
                wrong = (labels != UNLABELLED) & ~((selection > 0) & (selection <= 1))
                _refuse(wrong, frame, chosen, first, "a probability above 0 and at most 1")
        if request.weights is not None:
            design["weights"] = weights = self._numbers(frame, request.weights, first)
            wrong = ~((weights >= 0) & (weights <= _LARGEST_WEIGHT))
            what = f"a weight of at least zero that is finite (at most {_LARGEST_WEIGHT:g})"
            _refuse(wrong, frame, request.weights, first, what)
        if request.clusters is not None:
            design["clusters"] = _encoded(frame, request.clusters, first)
        if strata is not None:
            design["strata"] = _encoded(frame, strata, first)
            if request.stratum_shares is not None:
                design["shares"] = self._shares(frame, strata, request.stratum_shares, first)
        if request.options.variance_strata is not None:
            name = request.options.variance_strata
            design["variance_strata"] = _encoded(frame, name, first)
        if isinstance(request.options.fpc, str):
            design["fpc"] = sizes = self._numbers(frame, request.options.fpc, first)
            _refuse(~(sizes > 0), frame, request.options.fpc, first, "a size or share above zero")
        return design

    def _labels(self, frame: Frame, name: str, first: int) -> Indices:
        """Return the class number of each row's label."""
        column = frame[name]
        known = ~is_unlabelled(column)
        rows = np.arange(first, first + len(frame), dtype=np.int64)[known]
        labels = match_labels(
            column.filter(known.tolist()), self.model.classes, rows, self._label_type
        )
        number = {label: code for code, label in enumerate(self.model.classes.tolist())}
        codes = np.full(len(frame), UNLABELLED, dtype=np.int64)
        codes[known] = [number[label] for label in labels.tolist()]
        return codes

    def _shares(self, frame: Frame, strata: str, known: dict[str, float], first: int) -> Array:
        """Return the known share of each row's stratum."""
        texts = canonical_column(frame[strata])
        shares = np.array([known.get(text, np.nan) for text in texts])
        expected = f"one of the strata whose shares are known ({', '.join(list(known)[:6])})"
        _refuse(np.isnan(shares), frame, strata, first, expected)
        return shares

    def _numbers(self, frame: Frame, name: str, first: int) -> Array:
        return np.asarray(numbers(frame[name], np.float64, first, self.decimal), dtype=np.float64)

    @property
    def _label_type(self) -> LabelType:
        schema = self.model.table_schema
        return "auto" if schema is None else schema.label_type


def _encoded(frame: Frame, name: str, first: int) -> Indices:
    """Return a number for each value of a column, the same in every batch.

    It is a hash of the canonical text: numbers by order of appearance would depend on other rows.
    """
    missing = is_unlabelled(frame[name])  # empty, as a label may be
    _refuse(missing, frame, name, first, "a value")
    return text_hashes(canonical_column(frame[name])).view(np.int64)


def _refuse(wrong: NDArray[np.bool_], frame: Frame, name: str, first: int, expected: str) -> None:
    """Raise ValueError if some rows of a column are wrong."""
    if wrong.any():
        row = int(np.argmax(wrong))
        value = canonical_text(frame[name][row])
        raise ValueError(
            f"column {name!r} must have {expected} in every row where it is needed, but row "
            f"{row_number(first, row)} has {value!r} ({count_of(int(wrong.sum()), 'such row')})"
        )


def _one_per_group(keys: Frame, codes: NDArray[np.int32]) -> Frame:
    """Return the keys of the groups that a batch has, one row each, by their numbers."""
    if not keys.columns:
        return keys
    rows: list[int] = np.unique(codes, return_index=True)[1].tolist()
    return keys[rows]


def _takes_missing(model: AnyModel) -> bool:
    """Return whether everything that instances are passed to takes missing values."""
    if isinstance(model, CombinedModel):
        return bool(model.members) and all(map(_takes_missing, model.members))
    inner = model.quantifier if isinstance(model, ForeignModel) else model.scorer.classifier
    if not hasattr(inner, "__sklearn_tags__"):  # a quantifier of another library need not have tags
        return False
    return bool(get_tags(inner).input_tags.allow_nan)


def _key_hashes(frame: Frame, name: str, usable: NDArray[np.bool_]) -> Hashes:
    """Return the hashes of the column that tells rows apart, of usable rows."""
    require(frame, [name])
    return text_hashes(canonical_column(frame[name]))[usable]


def _missing_message(name: str, row: int, count: int) -> str:
    lacking = count_of(count, "row lacks one", "rows lack one")
    return (
        f"column {name!r} has no value in row {row} ({lacking}): fill them in, or "
        "leave such rows out (missing='drop')"
    )


def _for_classifier(frame: Frame) -> Any:
    """Return a frame as pipelines take it: those of scikit-learn know no columns of pyarrow."""
    if frame.implementation.is_pyarrow():
        if find_spec("pandas") is not None:
            return frame.to_pandas()
        if find_spec("polars") is not None:
            return frame.to_polars()
    return frame.to_native()


def _held(posteriors: Floats) -> Floats:
    """Return posteriors as they are held: in single precision, which estimates hardly notice."""
    return np.asarray(posteriors, dtype=np.float32)


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
