"""Validation of parameters, weights and labels; every error message names the parameter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from kdey.arrays import for_numpy


def check_count(value: Any, name: str, least: int = 1) -> int:
    """Return ``value`` as an int; raises ValueError unless it is at least ``least``."""
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, (bool, np.bool_)) or number < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return number


def check_share(value: Any, name: str) -> float:
    """Return ``value`` as a float; raises ValueError unless it is strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name} must be a number in (0, 1), got {value!r}")
    return float(value)


def check_positive(value: Any, name: str) -> float:
    """Return ``value`` as a float; raises ValueError unless it is positive and finite."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0.0 < float(value) < float("inf"):
        raise ValueError(f"{name} must be a positive number, got {value!r}")
    return float(value)


def check_choice(value: Any, name: str, allowed: Iterable[str]) -> str:
    """Return ``value``; raises ValueError unless it is one of the names in ``allowed``."""
    names = list(allowed)
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"{name} must be one of {names}, got {value!r}")
    return value


def check_weights(
    weights: ArrayLike, size: int, *, name: str = "sample_weight", may_vanish: bool = False
) -> NDArray[np.float64]:
    """Return ``weights`` as a contiguous float64 array of shape (size,).

    Parameters
    ----------
    weights : array-like of shape (size,)
        Finite and non-negative, with a finite sum.
    size : int
    name : str
        What to call the argument in messages.
    may_vanish : bool
        Whether all weights may be zero.

    Raises
    ------
    ValueError
        If the weights are not such numbers.
    """
    values = for_numpy(weights, name)
    try:
        w = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from error
    if w.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {w.shape}")
    if not np.isfinite(w).all() or (w < 0).any() or not (may_vanish or w.any()):
        condition = " and non-negative" if may_vanish else ", non-negative and not all zero"
        raise ValueError(f"{name} must be finite{condition}")
    with np.errstate(over="ignore"):
        total = w.sum()
    if not np.isfinite(total):
        raise ValueError(f"{name} must have a finite sum: divide it by its largest entry")
    return w


Codes = NDArray[np.int64]
Labels = NDArray[Any]
#: Classes with fewer labels are named at fit and beside every estimate.
FEW_LABELS = 20
#: Number of such classes that a message names.
MAX_NAMED = 5
#: Rows that are looked at first: most columns need no other.
_HEAD = 200


class FewLabelsWarning(UserWarning):
    """Some classes have so few labels that estimates of them, and of others, are uncertain."""


def few_labels_note(classes: Labels, counts: NDArray[np.integer]) -> str | None:
    """Return a sentence about the classes with few labels; None if there are none.

    Parameters
    ----------
    classes : array of shape (k,)
    counts : int array of shape (k,)
        Number of labels of each class.

    Returns
    -------
    str or None
    """
    few = np.flatnonzero(counts < FEW_LABELS)
    if len(few) == 0:
        return None
    named = [f"{classes[i]} ({counts[i]})" for i in few[:MAX_NAMED].tolist()]
    if len(few) > MAX_NAMED:
        named.append(f"{len(few) - MAX_NAMED} more")
    which, them = ("class", "it") if len(few) == 1 else ("classes", "them")
    return (
        f"fewer than {FEW_LABELS} labels of the {which} {', '.join(named)}: the limits of {them}, "
        f"and of classes that look like {them}, are wide; label more instances of {them}"
    )


class LabelColumnWarning(UserWarning):
    """A column of the training table tells the class of every row."""


def label_columns_note(names: Sequence[str], X: ArrayLike, codes: Codes) -> str | None:
    """Return a sentence about columns that tell the class of every row; None if there are none.

    Such a column has one value for each class: as a rule it is the label itself, left in the
    table, and a model that has learnt from it knows nothing else.

    Parameters
    ----------
    names : sequence of str
        Names of the d columns.
    X : array-like of shape (n, d)
    codes : int64 array of shape (n,)

    Returns
    -------
    str or None
    """
    values, k = np.asarray(X), int(codes.max()) + 1
    found = [
        repr(name)
        for name, column in zip(names, values.T, strict=True)
        if _tells_class(column[:_HEAD], codes[:_HEAD], k) and _tells_class(column, codes, k)
    ]
    if not found:
        return None
    which, tell = ("column", "tells") if len(found) == 1 else ("columns", "tell")
    return (
        f"the {which} {', '.join(found[:MAX_NAMED])} {tell} the class of every row: leave out "
        "(--ignore on the command line) what was made from the label, or will not be known for new "
        "rows"
    )


def _tells_class(column: NDArray[Any], codes: Codes, k: int) -> bool:
    """Return whether a column has one value for each class that occurs."""
    try:
        distinct, where = np.unique(column, return_inverse=True)
    except TypeError:  # values that cannot be ordered, such as gaps among texts
        return False
    pairs = np.unique(where.reshape(-1) * k + codes)
    return len(pairs) == len(distinct) == len(np.unique(codes))


def training_labels(y: ArrayLike, classes: ArrayLike | None = None) -> tuple[Codes, Labels]:
    """Return codes and classes of training labels; at least two classes, each with an instance.

    Parameters
    ----------
    y : array-like of shape (n,)
        Integer, string or boolean labels.
    classes : array-like of shape (k,), optional
        All classes, sorted; by default the labels that occur in ``y``.

    Returns
    -------
    codes : int64 array of shape (n,)
    classes : array of shape (k,)

    Raises
    ------
    ValueError
        If ``y`` is empty, has missing values, one class only, or lacks one of ``classes``.
    """
    labels = column_or_1d(_refuse_mixed(for_numpy(y, "y"), "y"), warn=True)
    if len(labels) == 0:
        raise ValueError("y is empty: training needs labelled instances")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y contains NaN or infinity")
    _refuse_missing_labels(labels)
    check_classification_targets(labels)
    codes, known = encode_labels(labels, classes)
    counts = np.bincount(codes, minlength=len(known))
    if (counts == 0).any():
        absent = known[counts == 0].tolist()
        raise ValueError(
            f"classes without a single training instance cannot be estimated: {absent[:5]}"
        )
    if len(known) < 2:
        raise ValueError(
            f"y contains one class only ({known[0]!r}); prevalences need at least 2 classes"
        )
    if not (np.sort(known) == known).all():
        raise ValueError("classes must be sorted")
    return codes, known


def _refuse_missing_labels(labels: Labels) -> None:
    """Raise where a label is missing, or is an empty text."""
    if labels.dtype.kind not in "OU":
        return
    for row, label in enumerate(labels.tolist()):
        if _is_missing(label) or (isinstance(label, str) and not label.strip()):
            raise ValueError(
                f"y has missing values (first in row {row}: {label!r}): leave such rows out of X "
                "and y, or label them"
            )


def check_same_rows(X: Any, y: Any) -> None:
    """Raise where rows of X and y have the same names in another order, as pandas' index says.

    Parameters
    ----------
    X, y : instances and labels of any types
    """
    of_X: Any = getattr(X, "index", None)
    of_y: Any = getattr(y, "index", None)
    if not hasattr(of_X, "equals") or not hasattr(of_y, "equals") or len(of_X) != len(of_y):
        return
    if not of_X.equals(of_y) and set(of_X) == set(of_y):
        raise ValueError(
            "the rows of y have the same index as those of X, but in another order: give "
            "y.loc[X.index], or y.to_numpy() if the first label belongs to the first row"
        )


def encode_labels(y: ArrayLike, classes: ArrayLike | None = None) -> tuple[Codes, Labels]:
    """Return the class position of each label and the classes.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of any sortable type.
    classes : array-like of shape (k,), optional
        The classes in the order of the prevalences; some may be absent from ``y``, but ``y`` may
        hold no other. By default the sorted labels that occur in ``y``.

    Returns
    -------
    codes : int64 array of shape (n,)
    classes : array of shape (k,)
    """
    distinct, inverse = group_codes(y, "y")
    known = distinct if classes is None else check_classes(classes)
    # Python equality keeps 1 and "1" apart, where comparing arrays would turn both into text.
    position = {label: code for code, label in enumerate(known.tolist())}
    unknown = [label for label in distinct.tolist() if label not in position]
    if unknown:
        raise ValueError(f"y has labels that are not in classes: {unknown[:5]}")
    codes = np.array([position[label] for label in distinct.tolist()], dtype=np.int64)
    return codes[inverse], known


def check_classes(classes: ArrayLike) -> Labels:
    """Return ``classes`` as a vector in the same order, or raise if a class occurs twice."""
    distinct, _ = group_codes(classes, "classes")
    known = np.asarray(for_numpy(classes, "classes"))
    if len(distinct) != len(known):
        raise ValueError(f"classes must be distinct, got {known.tolist()}")
    return known


def group_codes(values: ArrayLike, name: str = "groups") -> tuple[Labels, Codes]:
    """Return the sorted distinct values and the position among them of each instance.

    ``name`` is what messages call them.
    """
    array = np.asarray(_refuse_mixed(for_numpy(values, name), name))
    if array.ndim != 1:
        raise ValueError(f"{name} must be a vector, got shape {array.shape}")
    if len(array) == 0:
        raise ValueError(f"{name} is empty")
    if _has_missing(array):
        raise ValueError(f"{name} has missing values")
    try:
        distinct, inverse = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"{name} mixes types that cannot be ordered: {error}") from error
    return distinct, inverse.astype(np.int64)


def _refuse_mixed(values: Any, name: str) -> Any:
    """Return a list unchanged, or raise if NumPy would make different labels of it the same.

    NumPy turns 1 into "1" and NaN into "nan" beside texts, and True into 1 beside numbers.
    """
    if not isinstance(values, list | tuple):
        return values
    texts = [value for value in values if isinstance(value, str)]
    truths = [value for value in values if isinstance(value, bool | np.bool_)]
    for part in (texts, truths):
        if not 0 < len(part) < len(values):
            continue
        kind = str if part is texts else (bool, np.bool_)
        other = next(value for value in values if not isinstance(value, kind))
        if _is_missing(other):
            raise ValueError(f"{name} has missing values")
        raise ValueError(
            f"{name} mixes types: {part[0]!r} is a {type(part[0]).__name__} and {other!r} a "
            f"{type(other).__name__}; give all values the same type"
        )
    return values


def _has_missing(array: Labels) -> bool:
    """Return whether NaN, NaT, None or pandas.NA is among the values."""
    if array.dtype != object:
        return bool((array != array).any())
    return any(_is_missing(value) for value in array.tolist())


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA has no truth value
        return True


def as_numbers(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return ``values`` as a float64 array, or raise naming the parameter."""
    try:
        array = np.asarray(values)
        if not np.iscomplexobj(array):
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from error
    raise ValueError(f"{name} must be real numbers, got dtype {array.dtype}")
