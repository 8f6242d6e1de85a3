"""From tables to the features of a classifier: a transformer that reads them, and preparation.

:class:`TableFeatures` is the first step of a model's pipeline. :func:`prepare` adds what the
classifier needs of the columns, as a plain pipeline of scikit-learn. Trees take numbers as they
are, missing ones included; a linear model needs imputed and scaled numbers; naive Bayes needs
numbers that are not negative. Categories become one column each, also for histogram boosting: a
booster that is told of categories holds a function, and model files hold data only. Texts become
TF-IDF weights of words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from kdey._display import warn
from kdey.status import MOST_UNSEEN
from kdey.tables.schema import (
    BEYOND,
    MISSING,
    UNSEEN,
    VARYING,
    EncodedTable,
    Finding,
    Kind,
    TableSchema,
)
from kdey.tables.training import learn_schema

#: Name of the step in a pipeline.
STEP = "table"
#: What is said of values that training lacks, by the kind of finding.
_UNSEEN_NOTES = {
    UNSEEN: "values that training lacks are read as missing ones",
    VARYING: "columns are not used, because training has a single value of them, and have others "
    "here (fit on a table in which they vary, or leave them out)",
    BEYOND: "numbers are smaller or larger than all of training, where the model knows nothing",
}


#: Columns that are named one by one; rows from which numbers beyond those of training are many.
_MOST_NAMED, _MANY = 12, 5


class TableWarning(UserWarning):
    """A table differs from the one that a model was fitted on, or columns of it are left out."""


class TableFeatures(TransformerMixin, BaseEstimator):
    """From a data frame to the matrix X of a schema, by the names of columns.

    As the first step of a pipeline it makes every method of a quantifier (``predict``,
    ``estimate``, ``check_fit``, groups, reports) read tables in the same way. Columns may stand in
    any order, and those that the schema does not name are ignored.

    Parameters
    ----------
    schema : TableSchema, optional
        By default ``fit`` learns one from the frame (:func:`~kdey.tables.training.learn_schema`).

    Attributes
    ----------
    schema_ : TableSchema
    n_features_in_ : int
        Number d of columns of X.
    """

    def __init__(self, schema: TableSchema | None = None) -> None:
        self.schema = schema

    def fit(self, X: Any, y: Any = None) -> Self:
        """Take the schema, or learn it from a data frame.

        Parameters
        ----------
        X : data frame, or an array that :meth:`transform` returned
        y : ignored
        """
        if self.schema is None:
            self.schema_ = learn_schema(X)
            _warn_of_columns_left_out(self.schema_)
        else:
            self.schema_ = self.schema
            if is_matrix(X):
                _check_matrix(X, self.schema_)
        self.n_features_in_ = len(self.schema_.feature_names)
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Return the features of a table, shape (m, d).

        Parameters
        ----------
        X : data frame of pandas, polars, pyarrow or narwhals
            An array is taken for features that were made before: it must have d columns, with the
            positions of categories in their columns.

        Raises
        ------
        ValueError
            If a column is absent, holds values of another type, or lacks values where training
            lacks none; the message names it.

        Warns
        -----
        TableWarning
            Where categories were not seen in training, many numbers lie beyond its range, or a
            column that had a single value there has others, with counts by column.
        """
        check_is_fitted(self, "schema_")
        return _check_matrix(X, self.schema_) if is_matrix(X) else self.encode(X).X

    def encode(self, X: Any) -> EncodedTable:
        """Return the features of a data frame, and which rows hold values that training lacks.

        Raises and warns as :meth:`transform` does.
        """
        check_is_fitted(self, "schema_")
        encoded = self.schema_.encode(X)
        _refuse_missing(encoded)
        warn_of_unseen_values(encoded.findings)
        return encoded

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns of X."""
        check_is_fitted(self, "schema_")
        return np.array(self.schema_.feature_names, dtype=object)

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: values may be missing, and may be texts."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.requires_fit = True
        return tags


def is_matrix(X: Any) -> bool:
    """Return whether instances are an array rather than a table with named columns."""
    return isinstance(X, np.ndarray | list | tuple)


def _check_matrix(X: Any, schema: TableSchema) -> NDArray[Any]:
    """Return an array of features; raises ValueError if it cannot be one of this schema."""
    matrix = np.asarray(X)
    names = schema.feature_names
    if matrix.ndim != 2 or matrix.shape[1] != len(names):
        raise ValueError(
            f"X must be a data frame with the columns {', '.join(names[:8])}"
            f"{', ...' if len(names) > 8 else ''}, or an array of {len(names)} features, got "
            f"shape {matrix.shape}"
        )
    for i, column in enumerate(schema.feature_columns):
        if column.kind == "category":
            _check_codes(column.name, matrix[:, i], len(column.categories))
    return matrix if "text" in schema.kinds else _as_floats(matrix)


def _check_codes(name: str, values: NDArray[Any], n_categories: int) -> None:
    try:
        codes = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        codes = np.array([-2.0])  # which is no position
    known = codes[~np.isnan(codes)]
    if ((known < 0) | (known >= n_categories) | (known != np.floor(known))).any():
        raise ValueError(
            f"column {name!r} holds categories, which an array cannot name: give a data frame"
        )


def _as_floats(matrix: NDArray[Any]) -> NDArray[np.float64]:
    try:
        return np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("an array of features must hold numbers: give a data frame") from None


def _refuse_missing(encoded: EncodedTable) -> None:
    for finding in encoded.findings:
        if finding.what == MISSING:
            raise ValueError(
                f"{finding}: fill them in, leave such rows out, or use predict_groups, which "
                "leaves them out and counts them"
            )


def warn_of_unseen_values(findings: Sequence[Finding]) -> None:
    """Warn of values that training lacks, once for all columns that are used, and all others."""
    for what in _UNSEEN_NOTES:
        note = unseen_values_note(findings, what)
        if note is not None:
            warn(note, TableWarning)


def unseen_values_note(findings: Iterable[Finding], what: str = UNSEEN) -> str | None:
    """Return a sentence about findings of one kind, by column; None if there are none.

    A few numbers beyond those of training are no finding: new rows have some under label shift,
    too.
    """
    found = [finding for finding in findings if finding.what == what]
    if what == BEYOND:
        found = [f for f in found if f.count >= _MANY and f.count > MOST_UNSEEN * f.total]
    lines = "; ".join(map(str, found[:_MOST_NAMED]))
    more = f"; {len(found) - _MOST_NAMED:,} more columns" if len(found) > _MOST_NAMED else ""
    return f"{_UNSEEN_NOTES[what]}: {lines}{more}" if found else None


def _warn_of_columns_left_out(schema: TableSchema) -> None:
    left_out = [f"{c.name!r} ({c.reason})" for c in schema.with_role("id", "ignored")]
    if left_out:
        warn(
            f"columns that are not used as features: {', '.join(left_out)}; used are "
            f"{', '.join(schema.feature_names[:20])}{', ...' * (len(schema.feature_names) > 20)}",
            TableWarning,
        )


def classifier_schema(classifier: Any) -> TableSchema | None:
    """Return the schema by which a fitted classifier reads tables; None if it has none."""
    if not isinstance(classifier, Pipeline):
        return None
    first = classifier.steps[0][1]
    return first.schema_ if isinstance(first, TableFeatures) else None


def table_features(schema: TableSchema, X: Any) -> NDArray[Any]:
    """Return the features of a table by a schema; features that were made before are checked.

    Parameters
    ----------
    schema : TableSchema
    X : data frame, or array of features
    """
    return TableFeatures(schema).fit(None).transform(X)


def table_instances(schema: TableSchema, X: Any) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """As :func:`table_features`, with the rows that hold a category that training lacks.

    Returns
    -------
    X : array of shape (m, d)
    unseen : bool array of shape (m,), or None
        None if there is no such row.
    """
    step = TableFeatures(schema).fit(None)
    if is_matrix(X):
        return step.transform(X), None
    encoded = step.encode(X)
    return encoded.X, encoded.unseen if encoded.unseen.any() else None


def learn_schema_once(classifier: Any, X: Any) -> tuple[Any, Any, TableSchema | None]:
    """Return an unfitted classifier and instances for it, once tables are read.

    Where the classifier is a pipeline that begins with :class:`TableFeatures`, its schema is
    settled on the whole table, rather than on each fold of a cross-validation.

    Parameters
    ----------
    classifier : classifier
    X : instances

    Returns
    -------
    classifier, X
        The same, or a clone with a schema and its features.
    schema : TableSchema or None
    """
    first = classifier.steps[0][1] if isinstance(classifier, Pipeline) else None
    if not isinstance(first, TableFeatures):
        return classifier, X, None
    if is_matrix(X):
        return classifier, X, first.schema
    step = clone(first).fit(X)
    settled = clone(classifier)
    settled.steps[0] = (settled.steps[0][0], TableFeatures(step.schema_))
    return settled, step.transform(X), step.schema_


def reading_tables(classifier: Any, schema: TableSchema) -> Pipeline:
    """Return a classifier of X as a pipeline that reads tables by a schema first.

    Parameters
    ----------
    classifier : classifier, fitted or not
        If it is a pipeline, its steps follow the one that reads tables.
    schema : TableSchema
    """
    step = TableFeatures(schema).fit(None)
    steps = classifier.steps if isinstance(classifier, Pipeline) else [("classify", classifier)]
    return Pipeline([(STEP, step), *steps])


#: Largest number of columns that one column of categories becomes; rarer ones share the last.
_MOST_CATEGORIES = 100
#: Largest number of words and pairs of words of a column of texts, as sparse or dense columns.
_MOST_WORDS, _MOST_DENSE_WORDS = 50_000, 1_000
#: Kinds that are not numbers to a classifier; dates and scores are.
_OTHERS = ("category", "text")


#: Columns of a sparse matrix: on one scale, as the words of texts are, or each on its own.
SparseColumns: TypeAlias = Literal["alike", "mixed"]
#: Largest values of columns that are alike: how far apart they may be, and the range of the usual.
_ALIKE, _USUAL = 100.0, (0.01, 100.0)


def sparse_columns(X: Any) -> SparseColumns | None:
    """Return what the columns of a sparse matrix are, by their largest values; None: X is dense.

    Words that are counted, or weighted by TF-IDF, have scales that mean something: to make a rare
    word as large as a frequent one is to overrate it.
    """
    is_sparse: bool = sp.issparse(X)
    if not is_sparse:
        return None
    largest = np.asarray(abs(X.tocsc()).max(axis=0).todense()).ravel()
    largest = largest[largest > 0]
    if len(largest) == 0:
        return "alike"
    middle = float(np.median(largest))
    is_usual = _USUAL[0] <= middle <= _USUAL[1]
    return "alike" if is_usual and largest.max() <= _ALIKE * middle else "mixed"


def prepare(
    classifier: Any, kinds: Sequence[Kind] | None = None, *, sparse: SparseColumns | None = None
) -> Any:
    """Return a pipeline that prepares columns of the given kinds for a classifier.

    Parameters
    ----------
    classifier : unfitted classifier
    kinds : sequence of {"number", "category", "text", "date", "score"} or None
        Kind of each column of X, in order (:attr:`~kdey.tables.schema.TableSchema.kinds`);
        categories are codes, missing values NaN. None means that all columns are numbers.
    sparse : {"alike", "mixed"} or None
        What X is, if it is a sparse matrix of numbers (``sparse_columns``): columns that are
        alike are used as they are, others divided by their largest values.

    Returns
    -------
    pipeline : sklearn.pipeline.Pipeline
        With the steps "prepare" and "classify"; or the classifier itself, if it needs no
        preparation.
    """
    from sklearn.compose import ColumnTransformer  # slow to import
    from sklearn.preprocessing import MaxAbsScaler

    needs = _Needs(classifier)
    if sparse is not None:
        return classifier if sparse == "alike" else _pipeline(MaxAbsScaler(), classifier)
    if kinds is None or set(kinds) <= {"number", "date", "score"}:
        step = needs.number_step()
        return classifier if step is None else _pipeline(step, classifier)
    columns = {kind: [i for i, k in enumerate(kinds) if k == kind] for kind in _OTHERS}
    columns["number"] = [i for i, kind in enumerate(kinds) if kind not in _OTHERS]
    parts: list[tuple[str, Any, Any]] = []
    if columns["category"]:
        parts.append(("categories", needs.category_step(), columns["category"]))
    if columns["number"]:
        step = needs.number_step(from_objects=bool(columns["text"]))
        parts.append(("numbers", "passthrough" if step is None else step, columns["number"]))
    parts += [(f"text {column}", needs.text_step(), column) for column in columns["text"]]
    share = 0.0 if needs.is_dense else 0.3  # of non-zeros, below which the result is sparse
    return _pipeline(ColumnTransformer(parts, sparse_threshold=share), classifier)


def _pipeline(step: Any, classifier: Any) -> Any:
    from sklearn.pipeline import Pipeline

    return Pipeline([("prepare", step), ("classify", classifier)])


class _Needs:
    """What a classifier needs of its columns, by its tags and its parameters."""

    def __init__(self, classifier: Any) -> None:
        tags = get_tags(classifier).input_tags
        self.takes_missing = bool(tags.allow_nan)
        # Trees split on ranks, so the scale of a number does not matter to them.
        self.is_tree = "max_leaf_nodes" in classifier.get_params(deep=False)
        # Some trees take sparse columns, too, but are much slower on them.
        self.is_dense = self.is_tree or not tags.sparse
        self.is_positive = bool(tags.positive_only)

    def number_step(self, from_objects: bool = False) -> Any | None:
        """Return the transformer of columns of numbers; None if they are taken as they are.

        Parameters
        ----------
        from_objects : bool
            Whether X is not an array of floats, because it has texts, too.
        """
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import Pipeline
        from sklearn.preprocessing import MinMaxScaler, StandardScaler

        steps: list[tuple[str, Any]] = []
        if not self.takes_missing:
            # A column of a fold without a single value is kept: folds have the same columns.
            imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
            steps.append(("impute", imputer))
        if self.is_positive:
            steps.append(("scale", MinMaxScaler(clip=True)))
        elif not self.is_tree or (from_objects and not steps):
            # Scaling changes nothing for trees, but turns objects into numbers.
            steps.append(("scale", StandardScaler()))
        if len(steps) > 1:
            return Pipeline(steps)
        return steps[0][1] if steps else None

    def category_step(self) -> Any:
        """Return the transformer of columns of categories, which are codes with NaN as missing."""
        from sklearn.preprocessing import OneHotEncoder

        return OneHotEncoder(
            max_categories=_MOST_CATEGORIES,
            handle_unknown="ignore",
            sparse_output=not self.is_dense,
        )

    def text_step(self) -> Any:
        """Return the transformer of one column of texts."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        most = _MOST_DENSE_WORDS if self.is_dense else _MOST_WORDS
        return TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), max_features=most)
