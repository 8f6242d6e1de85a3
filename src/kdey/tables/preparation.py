"""Preparation of columns for a classifier: a plain pipeline of scikit-learn.

What a classifier needs depends on the kinds of the columns and on the classifier. Trees take
numbers as they are, missing ones included; a linear model needs imputed and scaled numbers; naive
Bayes needs numbers that are not negative. Categories become one column each, also for histogram
boosting: a booster that is told of categories holds a function, and model files hold data only.
Texts become TF-IDF weights of words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
from sklearn.utils import get_tags

from kdey.tables.schema import Kind

#: Largest number of columns that one column of categories becomes; rarer ones share the last.
_MOST_CATEGORIES = 100
#: Largest number of words and pairs of words of a column of texts, as sparse or dense columns.
_MOST_WORDS, _MOST_DENSE_WORDS = 50_000, 1_000
#: Kinds that are not numbers to a classifier; dates and scores are.
_OTHERS = ("category", "text")


#: Columns of a sparse matrix: on one scale, as the words of texts are, or each on its own.
SparseColumns: TypeAlias = Literal["alike", "mixed"]
SPARSE_COLUMNS: tuple[SparseColumns, ...] = get_args(SparseColumns)
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

    needs = _Needs.of(classifier)
    if sparse is not None:
        return classifier if sparse == "alike" else _pipeline(_sparse_scaler(), classifier)
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
    """What a classifier needs of its columns."""

    def __init__(
        self,
        *,
        takes_missing: bool,
        is_tree: bool,
        is_dense: bool,
        is_positive: bool,
    ) -> None:
        self.takes_missing = takes_missing
        self.is_tree = is_tree
        self.is_dense = is_dense
        self.is_positive = is_positive

    @classmethod
    def of(cls, classifier: Any) -> _Needs:
        """Return the needs of a classifier, by its tags and its parameters."""
        tags = get_tags(classifier).input_tags
        params = classifier.get_params(deep=False)
        # Trees split on ranks, so the scale of a number does not matter to them.
        is_tree = "max_leaf_nodes" in params
        return cls(
            takes_missing=bool(tags.allow_nan),
            is_tree=is_tree,
            # Some trees take sparse columns, too, but are much slower on them.
            is_dense=is_tree or not tags.sparse,
            is_positive=bool(tags.positive_only),
        )

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


def _sparse_scaler() -> Any:
    from sklearn.preprocessing import MaxAbsScaler

    return MaxAbsScaler()
