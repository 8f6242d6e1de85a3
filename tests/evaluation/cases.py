"""Small labelled data, and a classifier that counts its fits and predictions."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import numpy as np
from sklearn.linear_model import LogisticRegression


def blobs(n: int = 600, n_classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return overlapping Gaussian classes, features (n, 4) and labels as text."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(scale=1.3, size=(n_classes, 4))
    codes = rng.integers(0, n_classes, n)
    return centres[codes] + rng.normal(size=(n, 4)), np.array(list("abcdefgh"))[codes]


class CountingClassifier(LogisticRegression):
    """Logistic regression that counts its calls, for all instances together."""

    calls: ClassVar[Counter[str]] = Counter()

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CountingClassifier:
        self.calls["fit"] += 1
        return super().fit(X, y, sample_weight)

    def predict_proba(self, X: Any) -> Any:
        self.calls["predict_proba"] += 1
        return super().predict_proba(X)
