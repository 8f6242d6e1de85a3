"""What is done to the columns of a table before a classifier sees them, by their kinds.

All steps are scikit-learn's: numbers are imputed with an indicator and standardised, categories
become one-hot, free texts TF-IDF weights of their words. A classifier that learns from missing
values by itself gets them as NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import get_tags

from kdey.tables.schema import Kind

#: Words of a free text column that are kept, the most frequent first.
WORDS = 5000


def preparation(classifier: Any, kinds: Sequence[Kind]) -> ColumnTransformer:
    """Return an unfitted transformer of the columns of X for a classifier.

    Parameters
    ----------
    classifier : unfitted classifier of scikit-learn
        Its tags say whether it takes missing values and sparse matrices.
    kinds : sequence of str
        The kind of each column of X (:attr:`~kdey.tables.schema.TableSchema.kinds`).

    Returns
    -------
    ColumnTransformer
    """
    tags = get_tags(classifier).input_tags
    positions = {
        "numbers": [i for i, kind in enumerate(kinds) if kind in ("number", "date")],
        "categories": [i for i, kind in enumerate(kinds) if kind == "category"],
    }
    steps = {"numbers": _number_step(tags.allow_nan), "categories": _category_step()}
    parts: list[tuple[str, Any, list[int] | int]] = [
        (name, steps[name], columns) for name, columns in positions.items() if columns
    ]
    # A vectorizer takes one column, as a vector.
    texts = [i for i, kind in enumerate(kinds) if kind == "text"]
    parts += [(f"text {i}", _text_step(), i) for i in texts]
    sparse = 1.0 if texts and tags.sparse else 0.0
    return ColumnTransformer(parts, sparse_threshold=sparse)


def _number_step(takes_missing: bool) -> Any:
    if takes_missing:
        return StandardScaler()  # NaN passes
    # A column of a fold without a single value is kept, so that folds have the same columns.
    imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    return Pipeline([("impute", imputer), ("scale", StandardScaler())])


def _category_step() -> OneHotEncoder:
    """Return one column per category; missing values are one where training has them.

    A category that training lacks is none of them, all zeros, where training misses no value.
    """
    return OneHotEncoder(handle_unknown="ignore", sparse_output=False)


def _text_step() -> TfidfVectorizer:
    return TfidfVectorizer(max_features=WORDS, sublinear_tf=True)
