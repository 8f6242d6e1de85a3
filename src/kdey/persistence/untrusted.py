"""Trees of a classifier from a model file: their numbers must lead somewhere.

scikit-learn follows the children of a node, and reads the feature it asks for, without looking
whether there is such a node or feature: a crafted or damaged tree would end the process.

A first answer of a quantifier that was just read, for parts that do not fit together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from kdey.quantifiers.base import BaseQuantifier, PosteriorsMixin


def check_trees(classifier: Any) -> None:
    """Raise ValueError where a tree inside ``classifier`` leads outside itself or of X."""
    for owner, part in _inside(classifier, None, set()):
        width = getattr(owner, "n_features_in_", None)
        if type(part).__name__ == "Tree":
            inner = part.children_left != -1
            children = np.stack([part.children_left, part.children_right])
            _check(inner, children, part.feature, width if width == part.n_features else None)
        elif type(part).__name__ == "TreePredictor":
            nodes = part.nodes
            inner = nodes["is_leaf"] == 0
            children = np.stack([nodes["left"], nodes["right"]]).astype(np.int64)
            _check(inner, children, nodes["feature_idx"], width)
            sets = nodes["bitset_idx"][inner & (nodes["is_categorical"] != 0)]
            if len(sets) and int(sets.max()) >= len(part.raw_left_cat_bitsets):
                raise ValueError("a tree asks for categories that it does not have")


def _check(
    inner: NDArray[np.bool_], children: NDArray[Any], features: NDArray[Any], width: int | None
) -> None:
    # Children come after their parents, or following them would never end.
    own = np.arange(len(inner))
    forward = (children > own) & (children < len(inner))
    if len(inner) == 0 or not forward[:, inner].all():
        raise ValueError("a tree leads to nodes that it does not have")
    asked = features[inner]
    if width is None or (len(asked) and not 0 <= int(asked.min()) <= int(asked.max()) < width):
        raise ValueError("a tree asks for features that its classifier does not take")


def _inside(value: Any, owner: Any, seen: set[int]) -> Iterator[tuple[Any, Any]]:
    """Yield what a classifier is made of, each beside the innermost estimator that holds it."""
    if id(value) in seen:
        return
    seen.add(id(value))
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
        yield from _inside(part, inner, seen)


def _check_members(ensemble: Any) -> None:
    """Raise where members that are handed the ensemble's own X take X of another width."""
    members = getattr(ensemble, "estimators_", ())
    for member in members.ravel() if isinstance(members, np.ndarray) else members:
        tree = getattr(member, "tree_", None)
        if tree is not None and tree.n_features != getattr(ensemble, "n_features_in_", None):
            raise ValueError("an ensemble holds a tree that takes other features than it does")


#: What arrays, fields and parameters that do not belong together end in. Anything else is left to
#: the first bag: a refusal in words, a warning, a device that this machine has not.
_MISFITS = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError)
_OVERRUNS = (RecursionError, SystemError, NotImplementedError)


def check_answers(quantifier: BaseQuantifier) -> None:
    """Ask ``quantifier`` for one small bag; raise ValueError where its parts do not fit together.

    A file with checksums that match may still hold, say, templates of other classes, or lack a
    field. Better to hear of it where the file is read than from the first bag.
    """
    if quantifier.device not in (None, "cpu", "auto"):
        return  # making a device ready takes seconds
    try:
        if quantifier.takes_posteriors:
            cast(PosteriorsMixin, quantifier).aggregate(_corners(len(quantifier.classes_)))
        else:
            quantifier.predict(np.zeros((2, quantifier.n_features or 1)))
    except (*_MISFITS, *_OVERRUNS) as error:
        raise ValueError(f"its parts do not fit together ({error!r:.200})") from error
    except Exception:  # said again, with its own words, when a bag is asked for
        return


def _corners(n_classes: int) -> NDArray[np.float64]:
    """Return posteriors that are nearly sure of each class in turn, shape (k, k)."""
    return np.asarray(0.9 * np.eye(n_classes) + 0.1 / n_classes)
