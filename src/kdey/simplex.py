"""The probability simplex: checks, projection, uniform sampling, and the counts behind shares.

A *prevalence* is a point of the simplex, shape (k,); *posteriors* are rows of points of it,
shape (m, k).

Columns with names are matched with the classes by them, never by position: a frame whose columns
stand in another order than the classes must give the same answer. A table is refused where its
names leave open which class a column belongs to.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey import native
from kdey.validation import (
    as_tensor,
    check_share,
    for_numpy,
    import_torch,
    is_tensor,
    refuse_masked,
    refuse_sparse,
)

Array = NDArray[np.float64]
#: Largest accepted distance of a row sum from one. Wide enough for float32 classifiers and for
#: scores written with four decimals, narrow enough to refuse unnormalised scores.
SUM_TOLERANCE = 1e-3
#: Below this distance a row sum is accepted by the native core, which may round sums in another way
#: than NumPy; closer to the tolerance NumPy decides.
CLEAR_TOLERANCE = 0.999 * SUM_TOLERANCE
#: Uniform prevalences whose roughness bounds that of smooth ones.
_ROUGHNESS_DRAWS = 10_000
#: A study of this size leaves no uncertainty that matters.
_LARGEST = 1e7
#: Types of tensors that stay on their device.
_FLOATS = ("float32", "float64")
#: Negative entries down to this are rounding noise and become zero; below it they are an error.
NEGATIVE_TOLERANCE = 1e-8


def check_posteriors(
    posteriors: ArrayLike,
    n_classes: int | None = None,
    *,
    name: str = "posteriors",
    classes: ArrayLike | None = None,
) -> NDArray[np.floating]:
    """Return ``posteriors`` as a float array of shape (m, k), or raise an error that says why not.

    float32 stays float32 (no copy); everything else becomes float64.

    Parameters
    ----------
    posteriors : array-like or data frame of shape (m, k)
        Rows on the simplex; the sum of a row may differ from one by ``SUM_TOLERANCE``. The columns
        of a data frame are matched with the classes by their names
        (``in_class_order``).
    n_classes : int, optional
        Expected number of columns; by default the number of ``classes``, if they are given.
    name : str
        What to call the argument in messages.
    classes : array-like of shape (k,), optional
        The labels in the order that the columns are to have. A data frame with named columns is
        refused without them.

    Raises
    ------
    ValueError
        If the array is empty, masked, has another shape or columns of other classes, or if a row
        is not on the simplex.
    """
    p = _as_float(in_class_order(posteriors, classes, name), name)
    if n_classes is None and classes is not None:
        n_classes = len(np.asarray(classes))
    if p.ndim != 2:
        raise ValueError(f"{name} must have shape (n_instances, n_classes), got shape {p.shape}")
    if p.shape[0] == 0:
        raise ValueError(f"{name} is empty: a bag needs at least one instance")
    if n_classes is not None and p.shape[1] != n_classes:
        raise ValueError(f"{name} has {p.shape[1]} columns, expected one per class: {n_classes}")
    return p if on_simplex(p) else _clipped(p, name)


def on_simplex(posteriors: NDArray[np.floating]) -> bool:
    """Return whether rows of floats, shape (m, k), are known to be on the simplex as they are.

    False says nothing: the rows are then checked by NumPy, which tells what is wrong with them.
    """
    m, k = posteriors.shape
    if not (m and k and posteriors.flags.c_contiguous and native.available()):
        return False
    found = np.empty(2)
    native.call(
        "kdey_check_posteriors", posteriors, int(posteriors.dtype == np.float64), m, k, found
    )
    low, deviation = found.tolist()
    return bool(low >= 0 and deviation < CLEAR_TOLERANCE)


def _clipped(p: NDArray[np.floating], name: str) -> NDArray[np.floating]:
    """Return the rows with negative rounding noise set to zero, or raise ValueError."""
    low = p.min(initial=0.0)
    with np.errstate(invalid="ignore"):  # inf - inf is reported below, with its row
        sums = p.sum(axis=1, dtype=np.float64)
    bad = ~np.isfinite(sums)
    if bad.any():
        raise ValueError(f"{name} contains NaN or infinity (first in row {int(np.argmax(bad))})")
    if low < -NEGATIVE_TOLERANCE:
        row = int(np.argmin(p.min(axis=1)))
        raise ValueError(f"{name} contains negative values (row {row} has {low:.3g})")
    off = np.abs(sums - 1.0)
    if off.max() > SUM_TOLERANCE:
        row = int(np.argmax(off))
        raise ValueError(
            f"{name} must have rows that sum to one (tolerance {SUM_TOLERANCE}); "
            f"row {row} sums to {sums[row]:.6g}"
        )
    return p if low >= 0 else np.maximum(p, 0)


def posteriors_on(
    posteriors: Any, classes: ArrayLike, device: Any, name: str = "posteriors"
) -> Any:
    """Check posteriors as :func:`check_posteriors` does, on the device of the work.

    Parameters
    ----------
    posteriors : array-like, data frame or tensor of shape (m, k)
    classes : array-like of shape (k,)
        The labels, by which the columns of a data frame are matched.
    device : torch.device or None
        None: an array is returned. Otherwise a float tensor on it, not copied if already there.
    name : str
        What to call the argument in messages.
    """
    if device is None:
        return check_posteriors(posteriors, classes=classes, name=name)
    refuse_sparse(posteriors, name)
    values = posteriors if is_tensor(posteriors) else in_class_order(posteriors, classes, name)
    values = values if is_tensor(values) else np.asarray(refuse_masked(values, name))
    n_classes = len(np.asarray(classes))
    if values.ndim == 2 and len(values) and str(values.dtype).rpartition(".")[2] in _FLOATS:
        p = as_tensor(values, device)
        deviation = (p.sum(dim=1, dtype=import_torch(name).float64) - 1.0).abs().amax()
        if p.shape[1] == n_classes and bool((p.amin() >= 0) & (deviation <= SUM_TOLERANCE)):
            return p
    # The check on the host reports whatever is wrong, or clips rounding noise.
    return as_tensor(check_posteriors(posteriors, classes=classes, name=name), device)


def check_prevalence(
    prevalence: ArrayLike,
    n_classes: int | None = None,
    *,
    name: str = "prevalence",
    classes: ArrayLike | None = None,
) -> Array:
    """Return ``prevalence`` as a float64 vector on the simplex, or raise.

    A series of pandas is matched with the classes by its index, as the columns of a data frame are
    by :func:`check_posteriors`.
    """
    if n_classes is None and classes is not None:
        n_classes = len(np.asarray(classes))
    v = _as_float(in_class_order(prevalence, classes, name), name).astype(np.float64)
    if v.ndim != 1:
        raise ValueError(f"{name} must be a vector, got shape {v.shape}")
    return np.asarray(check_posteriors(v[None, :], n_classes, name=name)[0], dtype=np.float64)


def row_sums(values: Array) -> Array:
    """Return the sum of each row of an array (m, k), shape (m, 1).

    Each row is added by itself, so that a sum does not depend on the other rows, in a third of the
    time that ``values.sum(axis=1)`` takes where rows are short. The order of additions follows the
    memory, which must therefore not be that of the caller: a data frame has its columns together.
    """
    return np.asarray(np.einsum("ij->i", np.ascontiguousarray(values)))[:, None]


def softmax_rows(logits: Array) -> Array:
    """Return the softmax of each row of finite logits (m, k), shape (m, k)."""
    p: Array = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= row_sums(p)
    return p


def project(points: ArrayLike) -> Array:
    """Return the Euclidean projection of each row of ``points`` onto the simplex.

    Sort-based algorithm of Held, Wolfe and Crowder (1974), vectorised over rows; ``points`` has
    shape (k,) or (m, k).

    Examples
    --------
    >>> from kdey.simplex import project
    >>> project([0.9, 0.6])
    array([0.65, 0.35])
    """
    v = _as_float(points, "points").astype(np.float64)
    if v.size == 0 or not np.isfinite(v).all():
        raise ValueError("points must be finite and not empty")
    # Moving a row along (1, ..., 1) does not move its projection, and keeps "- 1" below exact
    # enough for rows of any size.
    v -= v.max(axis=-1, keepdims=True)
    u = -np.sort(-v, axis=-1)
    excess = np.cumsum(u, axis=-1) - 1.0
    rank = np.arange(1, v.shape[-1] + 1)
    support = np.count_nonzero(u * rank > excess, axis=-1)
    threshold = np.take_along_axis(excess, np.expand_dims(support - 1, -1), axis=-1)
    return np.asarray(np.maximum(v - threshold / np.expand_dims(support, -1), 0.0))


def sample_uniform(n_classes: int, size: int, random_state: np.random.Generator) -> Array:
    """Draw ``size`` prevalences uniformly from the simplex (Kraemer), shape (size, n_classes).

    The gaps between sorted uniform numbers are uniform on the simplex (Smith and Tromble, 2004).
    """
    cuts = np.sort(random_state.random((size, n_classes - 1)), axis=1)
    return np.diff(cuts, axis=1, prepend=0.0, append=1.0)


def sample_smooth(
    n_classes: int, size: int, random_state: np.random.Generator, share: float
) -> Array:
    """Draw prevalences of ordered classes, uniform among the smoothest ``share`` of the simplex.

    The roughness of a prevalence is the sum of its squared second differences (APP-OQ of Bunse et
    al., 2022). The bound that a ``share`` of uniform prevalences stays below is computed from
    draws that depend on ``n_classes`` alone; candidates above it are drawn again. Fewer than three
    classes have no second difference, and all prevalences are equally smooth.

    Parameters
    ----------
    n_classes : int
    size : int
    random_state : Generator
    share : float
        In (0, 1]; one is the whole simplex.

    Returns
    -------
    array of shape (size, n_classes)
    """
    if n_classes < 3 or share >= 1.0:
        return sample_uniform(n_classes, size, random_state)
    bound = _roughness_bound(n_classes, share)
    kept: list[Array] = []
    while sum(map(len, kept)) < size:
        draws = sample_uniform(n_classes, size, random_state)
        kept.append(draws[_roughness(draws) <= bound])
    return np.concatenate(kept)[:size]


@functools.lru_cache(maxsize=64)
def _roughness_bound(n_classes: int, share: float) -> float:
    """Return the roughness that a share of uniform prevalences stays below."""
    reference = sample_uniform(n_classes, _ROUGHNESS_DRAWS, np.random.default_rng(0))
    return float(np.quantile(_roughness(reference), share))


def _roughness(prevalences: Array) -> Array:
    return np.asarray((np.diff(prevalences, n=2, axis=1) ** 2).sum(axis=1))


def _as_float(values: ArrayLike, name: str) -> NDArray[np.floating]:
    try:
        array = np.asarray(for_numpy(values, name))
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from error
    if array.dtype in (np.float32, np.float64):
        return array
    if array.dtype.kind not in "biufO":  # text that looks like numbers, dates, complex numbers
        raise ValueError(f"{name} must be real numbers, got dtype {array.dtype}")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, got dtype {array.dtype}: {error}") from error


def round_counts(prevalence: ArrayLike, size: int) -> NDArray[np.int64]:
    """Return integer class counts that sum to ``size``, by the method of largest remainders.

    Every class gets the floor of ``prevalence * size``. The remaining instances go, one each, to
    the classes with the largest fractional parts (the first of them on ties). Every count differs
    by less than one from ``prevalence * size``, and a prevalence that is a multiple of 1 / size is
    met exactly.

    Parameters
    ----------
    prevalence : array-like of shape (..., k)
    size : int

    Returns
    -------
    int64 array of shape (..., k)
    """
    p = np.asarray(prevalence, dtype=np.float64)
    share = p / p.sum(axis=-1, keepdims=True) * size
    counts = np.floor(share).astype(np.int64)
    order = np.argsort(counts - share, axis=-1, kind="stable")
    rank = np.argsort(order, axis=-1, kind="stable")
    remaining = size - counts.sum(axis=-1, keepdims=True)
    return np.asarray(counts + (rank < remaining), dtype=np.int64)


def counts_from_interval(
    rate: float, low: float, high: float, confidence: float = 0.95, name: str = "rate"
) -> tuple[float, float]:
    """Return successes and failures of a study whose Wilson interval is as wide as the one given.

    Parameters
    ----------
    rate : float
        The share of successes.
    low, high : float
        Its published interval.
    confidence : float
        The confidence of this interval.
    name : str
        What to call the rate in messages.

    Returns
    -------
    successes, failures : float
        They need not be whole numbers.

    Raises
    ------
    ValueError
        If the rate is not strictly between 0 and 1 and within its interval.
    """
    from scipy.optimize import brentq  # slow to import
    from scipy.special import ndtri

    check_share(confidence, "confidence")
    if not (0.0 < rate < 1.0 and 0.0 <= low <= rate <= high <= 1.0 and low < high):
        raise ValueError(
            f"{name} needs 0 <= low <= rate <= high <= 1 with low below high and a rate strictly "
            f"between 0 and 1, got rate {rate!r} with the interval {low!r} to {high!r}"
        )
    z = float(ndtri(0.5 + 0.5 * confidence))

    def excess(log_size: float) -> float:
        n = float(np.exp(log_size))
        half = z * np.sqrt(rate * (1.0 - rate) / n + z**2 / (4.0 * n**2)) / (1.0 + z**2 / n)
        return float(2.0 * half - (high - low))

    first, last = np.log(1e-3), np.log(_LARGEST)
    if excess(last) > 0:
        size = _LARGEST
    elif excess(first) < 0:
        size = 1e-3
    else:
        size = float(np.exp(brentq(excess, first, last)))
    return size * rate, size * (1.0 - rate)


#: Shorter labels, such as "a" or "1", occur in many names by chance: only whole words count.
_MIN_PART = 3
#: Words of a name: runs of digits, and runs of letters.
_WORDS = re.compile(r"\d+|[^\W\d_]+")


def in_class_order(posteriors: Any, classes: ArrayLike | None, name: str = "posteriors") -> Any:
    """Return the columns of a data frame in the order of the classes; other values unchanged.

    Parameters
    ----------
    posteriors : data frame (pandas, polars, pyarrow, ...), array-like or tensor
        The columns of a frame are named after the classes, perhaps all with the same beginning and
        end (``p_cat``, ``p_dog``). Columns with the names that libraries give by default (0, 1,
        ...; ``column_0``, ...) count as unnamed and keep their order. A series of pandas is a
        single row of a frame.
    classes : array-like of shape (k,), or None
        None if the function that was called does not know the classes: named columns are refused.
    name : str
        What to call the argument in messages.

    Returns
    -------
    array of shape (m, k), for a series (k,), or ``posteriors`` itself if it is neither

    Raises
    ------
    ValueError
        If the columns cannot be matched with the classes.
    """
    columns, values = _named_values(posteriors, name)
    if columns is None:
        return values
    if classes is None:
        if not _is_unnamed(columns):
            raise ValueError(
                f"{name} has named columns ({_first_few(columns)}), but this function does not "
                "know the classes by which to match them: pass an array (to_numpy()) whose "
                "columns are in the order of the other arguments"
            )
        return values
    order = _frame_order(columns, class_texts(classes), name)
    return values if order == list(range(len(order))) else values[..., order]


def in_order_of(reference: Any, values: Any, name: str) -> Any:
    """Return ``values`` with its columns in the order of those of ``reference``.

    Both are data frames or series of pandas with names; ``values`` is returned unchanged if one of
    them has none.

    Parameters
    ----------
    reference, values : data frame, series or array-like
    name : str
        What to call ``values`` in messages.

    Raises
    ------
    ValueError
        If both have names that cannot be matched.
    """
    wanted, columns = (_named_values(part, name)[0] for part in (reference, values))
    if wanted is None or columns is None:
        return values
    if set(wanted) != set(columns) and (_is_unnamed(wanted) or _is_unnamed(columns)):
        return values
    return in_class_order(values, wanted, name)


def match_scores(columns: Sequence[str], classes: NDArray[Any]) -> list[str]:
    """Return the score columns in the order of the classes.

    Columns named after the classes, all with the same beginning and end (``p_cat``, ``p_dog``),
    are matched by name. Where none is named after a class, they keep their order, because they
    were listed in it.

    Parameters
    ----------
    columns : names of k columns
    classes : array of shape (k,)

    Raises
    ------
    ValueError
        If there are not k distinct names, if some but not all are names of classes, or if a column
        named after one class would serve another.
    """
    labels, names = class_texts(classes), list(columns)
    _check_distinct(names, "scores")
    if len(names) != len(labels):
        decided = (
            "; a single column of decided labels is for methods that count them (ACC, CC)"
            if len(names) == 1
            else ""
        )
        raise ValueError(
            f"scores needs one column per class, {len(labels)} ({_first_few(labels)}), "
            f"got {len(names)} ({_first_few(names)}){decided}"
        )
    matched = _match(names, labels, "scores")
    if matched is not None:
        return matched
    _refuse_strangers(names, labels, "scores")
    return names


def class_texts(classes: ArrayLike) -> list[str]:
    """Return the labels as the texts by which columns are named after them.

    Whole numbers have no decimals, so that columns 0, 1 are not taken for classes 1.0, 2.0.
    """
    labels = np.asarray(classes).tolist()
    if all(isinstance(label, float) and label.is_integer() for label in labels):
        labels = [int(label) for label in labels]
    return [str(label) for label in labels]


def _frame_order(columns: list[str], labels: list[str], name: str) -> list[int]:
    """Return the position of each class's column in a frame."""
    _check_distinct(columns, name)
    if len(columns) != len(labels):
        raise ValueError(
            f"{name} has {len(columns)} columns ({_first_few(columns)}), expected one per class: "
            f"{len(labels)} ({_first_few(labels)})"
        )
    matched = _match(columns, labels, name)
    if matched is not None:
        return [columns.index(column) for column in matched]
    if _is_unnamed(columns):
        _refuse_strangers(columns, labels, name)
        return list(range(len(columns)))
    raise ValueError(
        f"{name} has the columns {_first_few(columns)}, which are not named after the classes "
        f"{_first_few(labels)}: rename them, or pass an array with one column per class in this "
        "order"
    )


def _match(names: list[str], labels: list[str], what: str) -> list[str] | None:
    """Return the names in the order of the labels; None if they are not named after them."""
    spellings = _spellings(names, labels)
    complete = [spelling for spelling in spellings if set(spelling) == set(names)]
    if complete:
        _check_unambiguous(complete, labels, what)
        return complete[0]
    best = max(spellings, key=lambda spelling: len(set(spelling) & set(names)))
    unmatched = [name for name in names if name not in best]
    if 2 * len(unmatched) <= len(names):
        raise ValueError(
            f"{what} names columns after classes, but not {', '.join(map(repr, unmatched))}: "
            f"training has the classes {_first_few(labels)}"
        )
    return None


def _check_unambiguous(complete: list[list[str]], labels: list[str], what: str) -> None:
    """Refuse names that can be read in two ways, such as "aa", "aaa" for classes "a", "aa"."""
    plain = set(labels)
    for spelling in complete:
        for column, label in zip(spelling, labels, strict=True):
            if spelling != complete[0] or (column != label and column in plain):
                raise ValueError(
                    f"{what}: column {column!r} can be read as the name of several classes; "
                    f"rename the columns to {_first_few(labels)}"
                )


def _refuse_strangers(names: list[str], labels: list[str], what: str) -> None:
    """Refuse columns, to be taken in their order, of which one is named after another class."""
    in_each = [_labels_in(column, labels) for column in names]
    everywhere = set.intersection(*map(set, in_each))  # tells no column from another
    for column, label, present in zip(names, labels, in_each, strict=True):
        named = _longest(set(present) - everywhere)
        if named and label not in named:
            raise ValueError(
                f"{what}: column {column!r} is named after class {named[0]!r}, but would be taken "
                f"for class {label!r} by its position: rename the columns after the classes "
                f"({_first_few(labels)}), or so that none of them names a class"
            )


def _labels_in(column: str, labels: Iterable[str]) -> list[str]:
    """Return the labels that a name contains as whole words, or if there are none, as parts."""
    folded = column.casefold()
    words = [label for label in labels if _has_words(folded, label.casefold())]
    if words:
        return words
    return [label for label in labels if len(label) >= _MIN_PART and label.casefold() in folded]


def _longest(labels: Iterable[str]) -> list[str]:
    """Return the longest labels, sorted: "cats" and not "cat" is what "p_cats" is named after."""
    ordered = sorted(labels)
    longest = max(map(len, ordered), default=0)
    return [label for label in ordered if len(label) == longest]


def _has_words(text: str, label: str) -> bool:
    """Return whether a label stands in a text as a run of whole words."""
    words, wanted = _WORDS.findall(text), _WORDS.findall(label)
    if not wanted:
        return False
    starts = range(len(words) - len(wanted) + 1)
    return any(words[start : start + len(wanted)] == wanted for start in starts)


def _spellings(columns: list[str], labels: list[str]) -> list[list[str]]:
    """Return the names that columns of all classes would have, for each way to read one column."""
    affixes = {("", "")}
    for column in columns:
        for label in labels:
            affixes |= _affixes(column, label)
    return [[head + label + tail for label in labels] for head, tail in sorted(affixes)]


def _affixes(column: str, label: str) -> set[tuple[str, str]]:
    """Return what stands before and after a label in a name, for every place where it occurs."""
    affixes = set()
    start = column.find(label)
    while start >= 0:
        affixes.add((column[:start], column[start + len(label) :]))
        start = column.find(label, start + 1) if label else -1
    return affixes


def _is_unnamed(columns: list[str]) -> bool:
    """Return whether these are the names that pandas or polars give to columns without names."""
    return any(
        columns == [f"{head}{number}" for number in range(len(columns))] for head in ("", "column_")
    )


def _check_distinct(names: list[str], what: str) -> None:
    if len(set(names)) != len(names):
        raise ValueError(f"{what} names a column twice: {', '.join(names)}")


def _first_few(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")


def _named_values(values: Any, name: str) -> tuple[list[str] | None, Any]:
    """Return the names of the columns and an array; None and the values if they have no names."""
    # Arrays and lists are most of what comes here: narwhals need not be imported for them.
    if isinstance(values, np.ndarray | list | tuple):
        return None, values
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(values, pandas.Series):
        return [str(label) for label in values.index], values.to_numpy()
    frame = _as_frame(values, name)
    if frame is None:
        return None, values
    return [str(column) for column in frame.columns], frame.to_numpy()


def _as_frame(values: Any, name: str) -> Any:
    """Return a data frame wrapped by narwhals; None for everything else."""
    import narwhals as nw

    try:
        frame = nw.from_native(_as_table(values), pass_through=True)
    except ValueError as error:  # columns of the same name
        raise ValueError(f"{name}: {error}") from error
    if isinstance(frame, nw.LazyFrame):
        raise ValueError(f"{name} is a lazy data frame: collect or compute it first")
    return frame if isinstance(frame, nw.DataFrame) else None


def _as_table(values: Any) -> Any:
    """Return a record batch of pyarrow, which narwhals does not read, as a table."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(values, pyarrow.RecordBatch):
        return pyarrow.Table.from_batches([values])
    return values
