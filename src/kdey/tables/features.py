"""A transformer from tables to the features of a model: the first step of its pipeline."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from kdey.tables.schema import MISSING, UNSEEN, VARYING, EncodedTable, Finding, TableSchema
from kdey.tables.survey import learn_schema

#: Name of the step in a pipeline.
STEP = "table"
#: What is said of values that training lacks, by the kind of finding.
_UNSEEN_MESSAGES = {
    UNSEEN: "values that training lacks are read as missing ones",
    VARYING: "columns are not used, because training has a single value of them, and have others "
    "here (fit on a table in which they vary, or leave them out)",
}


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
        By default ``fit`` learns one from the frame (:func:`~kdey.tables.survey.learn_schema`).

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
            Where categories were not seen in training, or a column that had a single value there
            has others, with counts by column.
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
        warn_of_unseen_values(encoded.findings, stacklevel=4)
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


def warn_of_unseen_values(findings: Sequence[Finding], stacklevel: int = 2) -> None:
    """Warn of values that training lacks, once for all columns that are used, and all others."""
    for what, message in _UNSEEN_MESSAGES.items():
        lines = "; ".join(str(finding) for finding in findings if finding.what == what)
        if lines:
            warnings.warn(f"{message}: {lines}", TableWarning, stacklevel=stacklevel + 1)


def unseen_values_note(findings: Iterable[Finding]) -> str | None:
    """Return a sentence about values that training lacks, by column; None if there are none."""
    unseen = [str(finding) for finding in findings if finding.what == UNSEEN]
    if not unseen:
        return None
    return f"values that training lacks are read as missing ones: {'; '.join(unseen)}"


def _warn_of_columns_left_out(schema: TableSchema) -> None:
    left_out = [f"{c.name!r} ({c.reason})" for c in schema.with_role("id", "ignored")]
    if left_out:
        warnings.warn(
            f"columns that are not used as features: {', '.join(left_out)}",
            TableWarning,
            stacklevel=3,
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


def settle_schema(classifier: Any, X: Any) -> tuple[Any, Any, TableSchema | None]:
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
