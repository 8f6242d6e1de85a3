"""Training and validation data of a search, and the two put together again."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing

from kdey.bags import Array
from kdey.labels import training_labels
from kdey.model_selection.data import Training, Validation
from kdey.protocols import BagProtocol
from kdey.splits import make_splits


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
