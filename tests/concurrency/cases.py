"""Small data, fitted quantifiers, and the two routes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import kdey
from kdey import native

from ..evaluation.cases import blobs
from ..quantifiers.methods import classifier

needs_native = pytest.mark.skipif(not native.available(), reason="the native core is not built")
ROUTES = [pytest.param("native", marks=needs_native), "numpy"]
#: What takes seconds in NumPy.
SLOW_IN_NUMPY = ("KDEyML-auto", "OneVsAll")


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return training instances and labels, and a pool."""
    X, y = blobs(160)
    return X, y, blobs(120, seed=1)[0]


def quantifiers() -> dict[str, Any]:
    """Return one quantifier of each kind of problem and wrapper, seeded."""
    shared: dict[str, Any] = {"cv": 3, "random_state": 0}
    return {
        "PACC": kdey.PACC(classifier(), **shared),
        "EMQ": kdey.EMQ(classifier(), calibration="bcts", **shared),
        "DM-CS": kdey.DM(classifier(), divergence="cauchy-schwarz", n_bins=8, **shared),
        "KDEyML": kdey.KDEyML(classifier(), bandwidth=0.1, **shared),
        "KDEyML-auto": kdey.KDEyML(classifier(), tune_bag_size=50, **shared),
        "KDEyCS": kdey.KDEyCS(classifier(), bandwidth=0.1, **shared),
        "KDEyHD": kdey.KDEyHD(classifier(), bandwidth=0.1, n_points=300, **shared),
        "OneVsAll": kdey.OneVsAll(kdey.HDy(classifier(), **shared)),
        "Ensemble": kdey.Ensemble(kdey.PACC(classifier(), **shared), n_members=3, random_state=0),
    }


def answers(quantifier: Any, pool: np.ndarray) -> list[np.ndarray]:
    """Return all that a fitted quantifier says of a pool, as arrays to compare bit by bit."""
    bags = np.arange(120).reshape(6, 20)
    made = [quantifier.predict(pool), quantifier.predict_bags(pool, bags)]
    if native.available() or type(quantifier) is kdey.PACC:  # a bootstrap in NumPy takes seconds
        drawn = {"method": "bootstrap", "n_replicates": 20, "random_state": 3}
        for limits in (
            quantifier.estimate(pool),
            quantifier.estimate_bags(pool, bags[:2], options=kdey.Options(**drawn)),
        ):
            made += [limits.low, limits.high]
    return made


def fit_and_answer(quantifier: Any) -> list[np.ndarray]:
    """Return the answers of a clone fitted here and now."""
    X, y, pool = data()
    return answers(clone(quantifier).fit(X, y), pool)


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    """Return whether two lists of answers are the same to the last bit."""
    return all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))


@contextmanager
def route(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take the native or the NumPy route."""
    with monkeypatch.context() as patch:
        if name == "numpy":
            patch.setenv("KDEY_NATIVE", "0")
            native.library.cache_clear()
        yield
    native.library.cache_clear()
