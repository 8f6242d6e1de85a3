"""Checks of a model that was just read: decision trees, and parts that do not fit together.

scikit-learn follows the children of a tree node, and reads the feature that it names, without
checking that this node or feature exists. A crafted or damaged tree would crash the process, so
:func:`check_trees` checks the indices. :func:`check_shapes` compares the shapes of classes,
training data and templates with each other, and :func:`check_answers` lets the quantifier solve a
small bag if the model is of an ordinary size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from kdey.model import AnyModel, Model
from kdey.persistence.bounds import MOST_CLASSES
from kdey.posteriors import TrainingPosteriors
from kdey.quantifiers.base import BaseQuantifier, PosteriorsMixin
from kdey.rows.base import RowMap


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


def check_shapes(quantifier: Any) -> None:
    """Raise ValueError if the classes of a quantifier and the shapes of its parts do not match.

    Memory and time of everything that follows grow with these shapes, and not with the file, in
    which zeros take no space. The check itself allocates nothing of their size.
    """
    if not isinstance(quantifier, BaseQuantifier):
        raise ValueError("it contains no quantifier")
    for _, part in _walk(quantifier, quantifier, set()):
        if isinstance(part, AnyModel):
            try:
                _check_model(part)
            except (AttributeError, LookupError, TypeError) as error:  # a field that is missing
                raise ValueError(f"its parts do not fit together ({error!r:.200})") from error


def _check_model(model: AnyModel) -> None:
    """Raise ValueError unless there is one prevalence, and one template, per class."""
    k = len(model.classes)
    if np.shape(model.classes) != (k,) or k > MOST_CLASSES:
        raise ValueError(f"it has {k} classes, and at most {MOST_CLASSES} are read")
    _check_shape("prevalence", model.prevalence, (k,))
    if not isinstance(model.scorer.n_features, int | np.integer | None):
        raise ValueError("its number of features is no number")
    if not isinstance(model, Model):
        return
    if model.training is not None:
        _check_training(model.training, model)
    if not model.row_map.is_fitted:
        raise ValueError("its row map has not been fitted")
    for _, part in _walk(model.row_map, None, set()):
        if isinstance(part, RowMap) and part.is_fitted:
            _check_templates(part.templates, k)


def _check_training(training: TrainingPosteriors, model: Model) -> None:
    """Raise ValueError unless there is one label and one row of posteriors per instance."""
    labels, n_classes = np.asarray(training.labels), model.n_classes
    n = len(labels)
    _check_shape("labels", labels, (n,))
    if labels.dtype.kind not in "iu":
        raise ValueError("its labels are no codes of classes")
    if n and not 0 <= int(labels.min()) <= int(labels.max()) < n_classes:
        raise ValueError("its labels are codes of classes that it does not have")
    width = model.n_score_columns if model.takes_posteriors else model.scorer.n_features
    if training.posteriors is not None and width is not None:
        _check_shape("posteriors", training.posteriors, (n, int(width)))
    for name, values in (
        ("weights", training.weights),
        ("folds", training.folds),
        ("instances", training.instances),
    ):
        if values is not None:
            _check_shape(name, values, (n,))


def _check_templates(templates: Any, n_classes: int) -> None:
    """Raise ValueError unless there is one column per class, or an empty row per class."""
    shape = np.shape(templates)
    if shape != (n_classes, 0) and shape[1:] != (n_classes,):
        raise ValueError(
            f"its parts do not fit together: templates of shape {shape} for {n_classes} classes"
        )


def _check_shape(name: str, values: Any, expected: tuple[int, ...]) -> None:
    if np.shape(values) != expected:
        raise ValueError(
            f"its parts do not fit together: {name} of shape {np.shape(values)} instead of "
            f"{expected}"
        )


#: Errors of arrays, fields and parameters that do not belong together. All others can wait for the
#: first bag: messages of kdey itself, warnings, a device that this machine does not have.
_MISMATCHES = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError)
_OVERRUNS = (RecursionError, SystemError, NotImplementedError)


#: Instances of the bag that is tried.
_TRIAL_SIZE = 8
#: A trial is made up to this number of classes and features, this number of estimators within each
#: other, and this product of the number of classes and the largest whole number (bins, points,
#: iterations) among the parameters. Beyond it, the trial itself could take minutes and gigabytes.
_MOST_TRIED, _MOST_MEMBERS, _MOST_WORK = 1_000, 1_000, 1_000_000


def check_answers(quantifier: BaseQuantifier) -> None:
    """Let a quantifier solve one small bag, and raise ValueError if its parts do not fit together.

    A file whose checksums match may still contain templates of other classes, or lack a field. It
    is better to learn this when the file is read than from the first bag. Models beyond an ordinary
    size are not tried.
    """
    if quantifier.device not in (None, "cpu", "auto"):
        return  # because initialising a device takes seconds
    if not _can_be_tried(quantifier):
        return
    try:
        if quantifier.takes_posteriors:
            cast(PosteriorsMixin, quantifier).aggregate(_corners(len(quantifier.classes_)))
        else:
            quantifier.predict(np.zeros((2, _width(quantifier))))
    except (*_MISMATCHES, *_OVERRUNS) as error:
        raise ValueError(f"its parts do not fit together ({error!r:.200})") from error
    except Exception:  # It will be raised again, with its message, by the first bag.
        return


def _can_be_tried(quantifier: BaseQuantifier) -> bool:
    """Return whether the bag of a trial takes little time and memory, whatever the file says."""
    k = len(quantifier.classes_)
    if max(k, _width(quantifier)) > _MOST_TRIED:
        return False
    members = 0
    for _, part in _walk(quantifier, quantifier, set()):
        members += isinstance(part, BaseEstimator)
        numbers = vars(part) if hasattr(part, "__dict__") else {}
        # A seed may be any number.
        sizes = [n for name, n in numbers.items() if type(n) is int and name != "random_state"]
        if members > _MOST_MEMBERS or k * max(sizes, default=0) > _MOST_WORK:
            return False
    return True


def _width(quantifier: BaseQuantifier) -> int:
    return quantifier.model_.scorer.n_features or 1


def _corners(n_classes: int) -> NDArray[np.float64]:
    """Return posteriors that are nearly certain of the first classes in turn, shape (m, k)."""
    m = min(n_classes, _TRIAL_SIZE)
    return np.asarray(0.9 * np.eye(m, n_classes) + 0.1 / n_classes)
