"""Splits of the training instances: the parameter ``cv`` turned into row numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from kdey.tensors import for_numpy

Indices = NDArray[np.int64]
Split: TypeAlias = tuple[Indices, Indices]
RandomState: TypeAlias = "int | np.random.RandomState | np.random.Generator | None"


def make_splits(
    cv: Any, X: Any, codes: Indices, classes: NDArray[Any], *, random_state: RandomState = None
) -> list[Split]:
    """Return the splits that ``cv`` describes, as pairs of int64 row numbers (train, test).

    Parameters
    ----------
    cv, X, codes, classes, random_state
        As for :func:`kdey.posteriors.training_posteriors`, except that ``cv`` is not None.

    Returns
    -------
    splits : list of (train, test)
        At least one split; neither of its parts is empty.

    Raises
    ------
    ValueError
        If ``cv`` has none of the accepted forms, or a split refers to rows outside ``X``.
    """
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**31 - 1))
    if isinstance(cv, bool | str | bytes):
        raise ValueError(_cv_message(cv))
    if isinstance(cv, Integral):
        cv = _stratified_folds(int(cv), codes, random_state)
    elif isinstance(cv, Real):
        return [_hold_out(float(cv), codes, random_state)]
    with _without_rare_class_warning(cv, codes):
        pairs = cv.split(X, classes[codes]) if hasattr(cv, "split") else cv
        if not isinstance(pairs, Iterable):
            raise ValueError(_cv_message(cv))
        splits = [_check_split(pair, len(codes), number) for number, pair in enumerate(pairs)]
    if not splits:
        raise ValueError("cv holds no splits")
    return splits


@contextmanager
def _without_rare_class_warning(cv: Any, codes: Indices) -> Iterator[None]:
    """Silence scikit-learn's warning about classes with fewer instances than folds.

    ``training_posteriors`` warns about them once instead of once per split. The warning filters
    belong to the whole process, so they are changed only if scikit-learn would warn.
    """
    counts, n_folds = np.bincount(codes), getattr(cv, "n_splits", 0)
    if counts[counts > 0].min(initial=len(codes)) >= n_folds:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        yield


def _stratified_folds(n_folds: int, codes: Indices, random_state: RandomState) -> Any:
    from sklearn.model_selection import StratifiedKFold  # slow to import

    if n_folds < 2:
        raise ValueError(_cv_message(n_folds))
    largest = int(np.bincount(codes).max())
    if largest < n_folds:
        raise ValueError(f"cv={n_folds} folds, but the largest class has {largest} instances")
    shuffle = random_state is not None
    return StratifiedKFold(n_folds, shuffle=shuffle, random_state=random_state)


def _hold_out(fraction: float, codes: Indices, random_state: RandomState) -> Split:
    """Hold out ``fraction`` of each class: at least one instance, but not the whole class.

    The only instance of a class is held out: the class then has a template, as it has under
    cross-validation.
    """
    if not 0.0 < fraction < 1.0:
        raise ValueError(_cv_message(fraction))
    rng = check_random_state(random_state)
    is_test = np.zeros(len(codes), dtype=bool)
    for code in np.unique(codes):
        members = rng.permutation(np.flatnonzero(codes == code))
        size = min(max(round(fraction * len(members)), 1), max(len(members) - 1, 1))
        is_test[members[:size]] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def _cv_message(cv: object) -> str:
    return (
        "cv must be None, an int >= 2, a fraction in (0, 1), a splitter or an iterable of "
        f"(train, test) index pairs, got {cv!r}"
    )


def _check_split(pair: Any, n_rows: int, number: int) -> Split:
    try:
        train, test = pair
    except (TypeError, ValueError) as error:
        raise ValueError(f"cv: split {number} must be a (train, test) pair") from error
    return (
        _check_part(train, n_rows, f"cv: the train part of split {number}"),
        _check_part(test, n_rows, f"cv: the test part of split {number}"),
    )


def _check_part(part: Any, n_rows: int, name: str) -> Indices:
    rows = np.asarray(for_numpy(part, name))
    if rows.dtype == bool and rows.shape == (n_rows,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or len(rows) == 0 or rows.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold row numbers, at least one")
    if rows.min() < 0 or rows.max() >= n_rows:
        raise ValueError(f"{name} has rows outside X, which has {n_rows}")
    return rows.astype(np.int64)
