"""Arrays, tensors and data frames that users pass, and the frames that they get.

What NumPy would drop on the way is looked after here: names of columns, masks, tensors on a GPU.

Columns with names are matched with the classes by them, never by position: a frame whose columns
stand in another order than the classes must give the same answer. A table is refused where its
names leave open which class a column belongs to.

``numpy.asarray`` returns whatever value lies below a mask, so that a masked posterior or weight
would count as if it were known: everything that users pass as an array goes through
:func:`refuse_masked` before it is converted. Tensors in host memory are read as they are, those on
a GPU are copied first; torch itself is not imported.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing

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


T = TypeVar("T")


def refuse_masked(values: T, name: str) -> T:
    """Return ``values`` unchanged, or raise ValueError if an entry is masked.

    Parameters
    ----------
    values : array-like of any type
        Lists and tuples are searched for masked arrays too, down to their rows.
    name : str
        What to call the argument in the message.
    """
    n_masked = _count_masked(values)
    if n_masked:
        raise ValueError(
            f"{name} is a masked array with {n_masked} masked "
            f"{'entry' if n_masked == 1 else 'entries'}, whose values are unknown: leave their "
            "rows out, or fill them (numpy.ma.filled) with values that you can answer for"
        )
    return values


def _count_masked(values: Any, depth: int = 2) -> int:
    if isinstance(values, np.ma.MaskedArray):
        return int(np.count_nonzero(np.ma.getmaskarray(values)))
    if depth and isinstance(values, list | tuple):
        return sum(_count_masked(value, depth - 1) for value in values)
    return 0


def is_tensor(values: Any) -> bool:
    """Return whether ``values`` is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def on_gpu(values: Any) -> bool:
    """Return whether ``values`` is a tensor in the memory of a GPU."""
    return is_tensor(values) and values.device.type != "cpu"


def on_host(values: Any) -> Any:
    """Return a tensor as an array, without a copy if it is in host memory; other values as is.

    NumPy has no bfloat16, whose numbers become float32.
    """
    if not is_tensor(values):
        return values
    tensor = values.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def for_numpy(values: Any, name: str) -> Any:
    """Return what users pass as an array so that ``numpy.asarray`` reads the values that it has.

    Tensors are brought to the host; masked entries are refused.

    Parameters
    ----------
    values : array-like of any type
    name : str
        What to call the argument in messages.

    Raises
    ------
    ValueError
        If an entry is masked, or a tensor is not dense.
    """
    return refuse_masked(on_host(refuse_sparse(values, name)), name)


def refuse_sparse(values: T, name: str) -> T:
    """Return ``values`` unchanged, or raise ValueError for a tensor whose numbers are not there.

    Parameters
    ----------
    values : array-like of any type
    name : str
        What to call the argument in the message.
    """
    if is_tensor(values):
        tensor: Any = values
        if str(tensor.layout) != "torch.strided":
            raise ValueError(
                f"{name} is a tensor of layout {tensor.layout}: pass {name}.to_dense()"
            )
        if tensor.is_meta:
            raise ValueError(f"{name} is a tensor on the device 'meta', which holds no numbers")
    return values


#: Supported libraries, in order of preference.
BACKENDS = ("pandas", "polars", "pyarrow")


def make_frame(columns: Mapping[str, Any], backend: str | None = None) -> Any:
    """Return named columns as a data frame.

    Parameters
    ----------
    columns : mapping from name to a vector; all of the same length
    backend : {"pandas", "polars", "pyarrow"}, optional
        By default the first of these that is installed.

    Raises
    ------
    ValueError
        If ``backend`` is none of these.
    ImportError
        If none of them is installed.
    """
    import narwhals as nw

    name: Any = _installed() if backend is None else backend
    if name not in BACKENDS:
        raise ValueError(f"backend must be one of {BACKENDS}, got {backend!r}")
    data = {key: as_column(values) for key, values in columns.items()}
    return nw.from_dict(data, backend=name).to_native()


def as_column(values: Sequence[Any] | NDArray[Any]) -> Any:
    """Return values as a column of one type: numbers, or text if the types are mixed.

    None stays a missing value beside text and becomes NaN beside numbers.
    """
    array = np.asarray(values)
    if array.dtype.kind in "biuf" and array.ndim == 1:
        return array
    items = list(values)
    numbers = [value for value in items if value is not None]
    if numbers and all(isinstance(v, int | float | np.number) for v in numbers):
        return np.array([np.nan if v is None else v for v in items], dtype=np.float64)
    return [None if value is None else str(value) for value in items]


def take_rows(X: Any, rows: ArrayLike) -> Any:
    """Return the instances at some positions, in the type that they have.

    Tables of pyarrow are handled here, because scikit-learn 1.6 takes positions for their columns.

    Parameters
    ----------
    X : array, sparse matrix, data frame, table of pyarrow or list
    rows : array-like of int or bool
        Positions, or which instances.
    """
    import narwhals as nw

    if not nw.dependencies.is_pyarrow_table(X):
        return _safe_indexing(X, rows)
    positions = np.asarray(rows)
    return X.take(np.flatnonzero(positions) if positions.dtype == np.bool_ else positions)


def refuse_levels(frame: Any, name: str) -> Any:
    """Return a frame, or raise if its columns have names of several levels (a MultiIndex).

    scikit-learn and narwhals know no such names, and would take the columns by position.

    Parameters
    ----------
    frame : data frame, or anything else, which is returned as it is
    name : str
        What to call it in messages.
    """
    columns: Any = getattr(frame, "columns", None)
    if getattr(columns, "nlevels", 1) > 1:
        raise ValueError(
            f"{name} has columns with names of several levels, such as {columns[0]!r}: give every "
            "column one name, for instance '_'.join(name)"
        )
    return frame


def _installed() -> str:
    for name in BACKENDS:
        if find_spec(name) is not None:
            return name
    raise ImportError(f"data frames need one of {', '.join(BACKENDS)}: install one of them")
