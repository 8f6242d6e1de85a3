"""What a search works on, and what it finds out about a candidate.

Training and validation data of a search, and the two put together again.

Candidates of a search: settings of a quantifier, checked before any work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from kdey._support.fingerprint import fingerprint
from kdey.bags import Array
from kdey.labels import training_labels
from kdey.protocols import BagProtocol, LabelledBags
from kdey.quantifiers.foreign import QuantifierLike, as_quantifier
from kdey.splits import make_splits


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


def split_off(
    X: Any,
    training: Training,
    fraction: float,
    protocol: BagProtocol,
    random_state: Any,
) -> tuple[Training, Validation]:
    """Return training and validation data, with ``fraction`` of each class in the latter."""
    if isinstance(fraction, bool) or not isinstance(fraction, float) or not 0 < fraction < 1:
        raise ValueError(f"validation must be a fraction in (0, 1), got {fraction!r}")
    codes, classes, weights = training.codes, training.classes, training.weights
    if int(np.bincount(codes).min()) < 2:
        rare = classes[int(np.bincount(codes).argmin())]
        raise ValueError(
            f"class {rare!r} has one instance, too few to split off validation data; "
            "give X_val and y_val"
        )
    (kept, held), *_ = make_splits(fraction, X, codes, classes, random_state=random_state)
    labelled = protocol.bags(classes[codes[held]], classes)
    part = None if weights is None else weights[kept]
    return (
        Training.of(_safe_indexing(X, kept), codes[kept], classes, part),
        Validation.of(_safe_indexing(X, held), labelled),
    )


def joined(training: Training, X_val: Any, y_val: ArrayLike | None) -> Training:
    """Return training and validation data as one; without labels the training data alone.

    Validation instances get weight one where training has weights.
    """
    if y_val is None:
        return training
    labels = np.concatenate([training.classes[training.codes], np.asarray(y_val)])
    codes, classes = training_labels(labels, training.classes)
    weights: Array | None = None
    if training.weights is not None:
        weights = np.concatenate([training.weights, np.ones(len(np.asarray(y_val)))])
    return Training.of(_stack(training.X, X_val), codes, classes, weights)


def _stack(above: Any, below: Any) -> Any:
    if sp.issparse(above) or sp.issparse(below):
        return sp.vstack([above, below], format="csr")
    if hasattr(above, "columns"):
        import narwhals as nw

        frames = [nw.from_native(part, eager_only=True) for part in (above, below)]
        return nw.concat(frames, how="vertical").to_native()
    if isinstance(above, list):
        return [*above, *below]
    stacked: NDArray[Any] = np.concatenate([np.asarray(above), np.asarray(below)])
    return stacked


@dataclass(frozen=True, eq=False)
class Candidate:
    """One setting of the quantifier.

    Attributes
    ----------
    number : int
        Position in the search.
    params : mapping from parameter names to values
    quantifier : unfitted clone with these parameters
    key : str
        Fingerprint of the parameters.
    """

    number: int
    params: Mapping[str, Any]
    quantifier: QuantifierLike
    key: str


def make_candidates(
    quantifier: QuantifierLike, settings: Iterable[Mapping[str, Any]], first: int = 0
) -> list[Candidate]:
    """Return one candidate per setting, numbered from ``first``; unknown names are refused."""
    found = [dict(setting) for setting in settings]
    check_names(quantifier, {name: None for setting in found for name in setting})
    return [
        Candidate(number, params, _with_params(quantifier, params), fingerprint(params))
        for number, params in enumerate(found, start=first)
    ]


def check_names(quantifier: QuantifierLike, names: Iterable[str]) -> None:
    """Raise for a parameter that the quantifier does not have."""
    known = quantifier.get_params(deep=True)
    inner = known.get("classifier")
    for name in names:
        head, _, rest = name.partition("__")
        unset = head == "classifier" and rest and "classifier" in known and inner is None
        if name in known or (unset and rest in _default_classifier(quantifier).get_params()):
            continue
        raise ValueError(
            f"parameter {name!r} is unknown to {type(quantifier).__name__}; it has "
            f"{', '.join(sorted(known))}"
        )


def _default_classifier(quantifier: QuantifierLike) -> Any:
    return as_quantifier(quantifier).inner_estimator()


def _with_params(quantifier: QuantifierLike, params: Mapping[str, Any]) -> Any:
    """Return a clone with the parameters set, the default classifier written out if need be."""
    made = clone(quantifier)
    inside = any(name.startswith("classifier__") for name in params)
    if inside and "classifier" not in params and made.get_params()["classifier"] is None:
        made.set_params(classifier=_default_classifier(made))
    # Values that are estimators are cloned: candidates must not share what they fit.
    return made.set_params(**{name: clone(v, safe=False) for name, v in params.items()})


def grid_dicts(param_grid: Any) -> list[dict[str, list[Any]]]:
    """Return a grid as a list of dicts from names to lists of values."""
    grids = [param_grid] if isinstance(param_grid, Mapping) else list(param_grid)
    return [{name: list(values) for name, values in grid.items()} for grid in grids]


def summary_line(params: Mapping[str, Any]) -> str:
    """Return parameters as text for messages."""
    return ", ".join(f"{name}={value!r}" for name, value in params.items()) or "no parameters"


def numbers_of(values: Sequence[Any]) -> list[Any] | None:
    """Return the distinct values in rising order where all are numbers, else None."""
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in _plain(values)):
        return None
    return sorted(set(_plain(values)))


def _plain(values: Sequence[Any]) -> list[Any]:
    return [v.item() if hasattr(v, "item") and getattr(v, "ndim", 1) == 0 else v for v in values]
