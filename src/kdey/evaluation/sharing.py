"""Fitting several quantifiers with one fit per distinct classifier stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import clone

from kdey.fingerprint import fingerprint
from kdey.labels import training_labels
from kdey.stages import FittedStage


def fit_many(
    quantifiers: Mapping[str, Any],
    X: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    n_jobs: int | None = None,
) -> dict[str, Any]:
    """Fit clones of several quantifiers, each distinct classifier stage once.

    Quantifiers that agree on classifier, ``cv`` and ``random_state`` get the very same fitted
    classifier and training posteriors (so that :func:`kdey.evaluate` computes its posteriors
    once); those without such a stage are fitted on their own.

    Parameters
    ----------
    quantifiers : mapping from names to quantifiers
        Unfitted; left as they are.
    X, y, sample_weight : as for ``fit``
    n_jobs : int, optional
        Classifier fits run at once.

    Returns
    -------
    fitted : dict from the names to fitted clones

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> fitted = kdey.fit_many({"ACC": kdey.ACC(), "PACC": kdey.PACC()}, X, y)
    >>> fitted["ACC"].classifier_ is fitted["PACC"].classifier_
    True
    """
    if not isinstance(quantifiers, Mapping):
        raise TypeError(f"quantifiers must map names to quantifiers, got {quantifiers!r}")
    codes, classes = training_labels(y)
    stages: dict[str, FittedStage] = {}
    fitted = {}
    for name, quantifier in quantifiers.items():
        if not hasattr(quantifier, "fit") or isinstance(quantifier, type):
            raise TypeError(f"quantifiers must hold quantifiers, but {name!r} is {quantifier!r}")
        made = clone(quantifier)
        stage = getattr(made, "_classifier_stage", lambda: None)()
        if stage is None:
            extra = {} if sample_weight is None else {"sample_weight": sample_weight}
            fitted[name] = made.fit(X, y, **extra)
            continue
        key = fingerprint(stage)
        if key not in stages:
            stages[key] = stage.fit(X, codes, classes, sample_weight, n_jobs)
        fitted[name] = made.fit_stage(stages[key], X, y)
    return fitted
