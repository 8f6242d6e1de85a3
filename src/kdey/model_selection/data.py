"""What a search works on, and what it finds out about a candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array
from kdey.fingerprint import fingerprint
from kdey.protocols import LabelledBags


@dataclass(frozen=True, eq=False)
class Training:
    """What candidates are fitted on; ``key`` is its fingerprint."""

    X: Any
    codes: NDArray[np.int64]
    classes: NDArray[Any]
    weights: Array | None
    key: str

    @classmethod
    def of(
        cls, X: Any, codes: NDArray[np.int64], classes: NDArray[Any], weights: Array | None
    ) -> Training:
        """Return the training data with its fingerprint."""
        return cls(X, codes, classes, weights, fingerprint(X, codes, classes, weights))


@dataclass(frozen=True, eq=False)
class Validation:
    """What candidates are scored on; the keys are fingerprints of the pool and of the bags."""

    X: Any
    labelled: LabelledBags
    pool_key: str
    bags_key: str

    @classmethod
    def of(cls, X: Any, labelled: LabelledBags) -> Validation:
        """Return the validation data with its fingerprints."""
        bags = labelled.bags
        drawn = fingerprint(bags.indices, bags.offsets, bags.weights, labelled.prevalences)
        return cls(X, labelled, fingerprint(X), drawn)


@dataclass(frozen=True)
class Score:
    """What is known of one candidate.

    Attributes
    ----------
    means, stds : mapping from metrics to the mean error over bags and its standard deviation
    not_converged : int
        Bags whose solution carries no certificate of the solver's tolerance.
    fit_time, score_time : float
        Seconds; the fit of a classifier stage counts for each of its candidates.
    error : str
        Why there is no score; empty where there is one.
    """

    means: Mapping[str, float]
    stds: Mapping[str, float]
    not_converged: int = 0
    fit_time: float = 0.0
    score_time: float = 0.0
    error: str = ""
