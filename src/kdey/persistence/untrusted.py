"""Checks of a model that was just read: decision trees, and parts that do not fit together.

scikit-learn follows the children of a tree node, and reads the feature that it names, without
checking that this node or feature exists. A crafted or damaged tree would crash the process, so
:func:`check_trees` checks the indices. :func:`check_answers` lets the quantifier solve a small bag.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from kdey.quantifiers.base import BaseQuantifier, PosteriorsMixin


def check_trees(classifier: Any) -> None:
    """Raise ValueError if a tree inside ``classifier`` has indices outside itself or outside X."""
    for owner, part in _walk(classifier, None, set()):
        width = getattr(owner, "n_features_in_", None)
        if type(part).__name__ == "Tree":
            inner = part.children_left != -1
            children = np.stack([part.children_left, part.children_right])
            _check_nodes(inner, children, part.feature, width if width == part.n_features else None)
        elif type(part).__name__ == "TreePredictor":
            nodes = part.nodes
            inner = nodes["is_leaf"] == 0
            children = np.stack([nodes["left"], nodes["right"]]).astype(np.int64)
            _check_nodes(inner, children, nodes["feature_idx"], width)
            sets = nodes["bitset_idx"][inner & (nodes["is_categorical"] != 0)]
            if len(sets) and int(sets.max()) >= len(part.raw_left_cat_bitsets):
                raise ValueError("a tree refers to categories that it does not have")


def _check_nodes(
    inner: NDArray[np.bool_], children: NDArray[Any], features: NDArray[Any], width: int | None
) -> None:
    """Raise ValueError if children (2, n) or features (n,) of inner nodes do not exist."""
    # Children must come after their parents, or following them might never end.
    nodes = np.arange(len(inner))
    forward = (children > nodes) & (children < len(inner))
    if len(inner) == 0 or not forward[:, inner].all():
        raise ValueError("a tree refers to nodes that it does not have")
    used = features[inner]
    if width is None or (len(used) and not 0 <= int(used.min()) <= int(used.max()) < width):
        raise ValueError("a tree refers to features that its classifier does not have")


def _walk(value: Any, owner: Any, visited: set[int]) -> Iterator[tuple[Any, Any]]:
    """Yield all parts of a classifier, each after the innermost estimator that contains it."""
    if id(value) in visited:
        return
    visited.add(id(value))
    yield owner, value
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, list | tuple):
        parts = list(value)
    elif isinstance(value, np.ndarray):
        parts = value.ravel().tolist() if value.dtype.hasobject else []
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    inner = value if isinstance(value, BaseEstimator) else owner
    if inner is value and not hasattr(value, "estimators_features_"):
        _check_members(value)
    for part in parts:
        yield from _walk(part, inner, visited)


def _check_members(ensemble: Any) -> None:
    """Raise ValueError if members that get the ensemble's X have another number of features."""
    members = getattr(ensemble, "estimators_", ())
    for member in members.ravel() if isinstance(members, np.ndarray) else members:
        tree = getattr(member, "tree_", None)
        if tree is not None and tree.n_features != getattr(ensemble, "n_features_in_", None):
            raise ValueError("an ensemble contains a tree with another number of features")


#: Errors of arrays, fields and parameters that do not belong together. All others can wait for the
#: first bag: messages of kdey itself, warnings, a device that this machine does not have.
_MISMATCHES = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError)
_OVERRUNS = (RecursionError, SystemError, NotImplementedError)


def check_answers(quantifier: BaseQuantifier) -> None:
    """Let a quantifier solve one small bag, and raise ValueError if its parts do not fit together.

    A file whose checksums match may still contain templates of other classes, or lack a field. It
    is better to learn this when the file is read than from the first bag.
    """
    if quantifier.device not in (None, "cpu", "auto"):
        return  # because initialising a device takes seconds
    try:
        if quantifier.takes_posteriors:
            cast(PosteriorsMixin, quantifier).aggregate(_corners(len(quantifier.classes_)))
        else:
            quantifier.predict(np.zeros((2, quantifier.n_features or 1)))
    except (*_MISMATCHES, *_OVERRUNS) as error:
        raise ValueError(f"its parts do not fit together ({error!r:.200})") from error
    except Exception:  # It will be raised again, with its message, by the first bag.
        return


def _corners(n_classes: int) -> NDArray[np.float64]:
    """Return posteriors that are nearly certain of each class in turn, shape (k, k)."""
    return np.asarray(0.9 * np.eye(n_classes) + 0.1 / n_classes)
