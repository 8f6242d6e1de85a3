"""Scaling features: fitted on the rows a learner may see, applied to all."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

Scaling = Literal["standard", "tfidf"] | None


def scale(X: Any, fit_rows: NDArray[np.int64], scaling: Scaling) -> tuple[Any, tuple[str, ...]]:
    """Return scaled features and notes on what was done.

    Parameters
    ----------
    X : array or CSR array of shape (n, d)
    fit_rows : int64 array
        Rows of the development part.
    scaling : {"standard", "tfidf", None}
        "standard": each column to mean 0 and variance 1. "tfidf": sublinear counts times inverse
        document frequency, rows of length 1.
    """
    if scaling == "standard":
        done = StandardScaler().fit(X[fit_rows]).transform(X)
        return done, ("columns standardised on the development part",)
    if scaling == "tfidf":
        from sklearn.feature_extraction.text import TfidfTransformer

        done = TfidfTransformer(sublinear_tf=True).fit(X[fit_rows]).transform(X)
        return done.tocsr(), ("sublinear TF-IDF fitted on the development part",)
    return X, ("features as they are, not scaled",)
