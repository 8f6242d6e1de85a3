"""What users pass, checked: arrays, tensors and frames, parameters, weights and labels.

Every error message names the parameter. What NumPy would drop on the way is looked after here:
``numpy.asarray`` returns whatever value lies below a mask, so that a masked posterior or weight
would count as if it were known. Everything that users pass as an array goes through
:func:`refuse_masked` before it is converted. Tensors in host memory are read as they are, those on
a GPU are copied first; torch is imported only if ``device=`` asks for another device than the
native core on the host.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from numbers import Real
from operator import index
from typing import Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d


def check_count(value: Any, name: str, least: int = 1) -> int:
    """Return ``value`` as an int; raises ValueError unless it is at least ``least``."""
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, (bool, np.bool_)) or number < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return number


def is_number(value: Any) -> TypeGuard[float]:
    """Whether ``value`` is a real number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_share(value: Any, name: str) -> float:
    """Return ``value`` as a float; raises ValueError unless it is strictly between 0 and 1."""
    if not is_number(value) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name} must be a number in (0, 1), got {value!r}")
    return float(value)


def check_positive(value: Any, name: str) -> float:
    """Return ``value`` as a float; raises ValueError unless it is positive and finite."""
    if not is_number(value) or not 0.0 < float(value) < float("inf"):
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
#: The same of the clusters in which a class has labels.
FEW_CLUSTERS = 10
#: Number of such classes that a message names.
MAX_NAMED = 5
#: Rows that are looked at first: most columns need no other.
_HEAD = 200


class FewLabelsWarning(UserWarning):
    """Some classes have so few labels that estimates of them, and of others, are uncertain."""


def few_labels_note(
    classes: Labels, counts: NDArray[np.integer], clusters: bool = False
) -> str | None:
    """Return a sentence about the classes with few labels; None if there are none.

    Parameters
    ----------
    classes : array of shape (k,)
    counts : int array of shape (k,)
        Number of labels of each class, or of clusters in which it is labelled.
    clusters : bool
        Whether clusters were counted.

    Returns
    -------
    str or None
    """
    least = FEW_CLUSTERS if clusters else FEW_LABELS
    few = np.flatnonzero(counts < least)
    if len(few) == 0:
        return None
    named = [f"{classes[i]} ({counts[i]})" for i in few[:MAX_NAMED].tolist()]
    if len(few) > MAX_NAMED:
        named.append(f"{len(few) - MAX_NAMED} more")
    which, them = ("class", "it") if len(few) == 1 else ("classes", "them")
    more = f"instances of {them} in more clusters" if clusters else f"more instances of {them}"
    head = (
        f"fewer than {least} clusters with labels of the "
        if clusters
        else f"fewer than {least} labels of the "
    )
    return (
        f"{head}{which} {', '.join(named)}: the intervals of "
        f"{them}, and of classes that look like {them}, are wide; label {more}"
    )


class RepeatedIdsWarning(UserWarning):
    """Ids of persons or things repeat in the training table: its rows may not be independent."""


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
        f"(roles={{{found[0]}: 'ignored'}}) what was made from the label, or will not be known for "
        "new rows"
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


def check_same_rows(X: Any, y: Any, name: str = "y") -> None:
    """Raise where rows of X and y have the same names in another order, as pandas' index says.

    Parameters
    ----------
    X, y : instances, and labels, weights or clusters, of any types
    name : str
        What to call y in messages.
    """
    of_X: Any = getattr(X, "index", None)
    of_y: Any = getattr(y, "index", None)
    if not hasattr(of_X, "equals") or not hasattr(of_y, "equals") or len(of_X) != len(of_y):
        return
    if not of_X.equals(of_y) and set(of_X) == set(of_y):
        raise ValueError(
            f"the rows of {name} have the same index as those of X, but in another order: give "
            f"{name}.loc[X.index], or {name}.to_numpy() if its first value belongs to the first row"
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

    Tensors are brought to the host; masked entries are refused. Whole numbers and truth values of
    pandas' own types (Int64, boolean, those of pyarrow) would become floats, which are not exact
    beyond 2**53: two labels could become one.

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
    return refuse_masked(on_host(refuse_sparse(_without_extension(values), name)), name)


def _without_extension(values: Any) -> Any:
    """Return a column of whole numbers or truth values in a type of pandas' own as an array."""
    plain = getattr(getattr(values, "dtype", None), "numpy_dtype", None)
    if not isinstance(plain, np.dtype) or plain.kind not in "iub" or values.isna().any():
        return values
    return values.to_numpy(dtype=plain)


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


#: Values of ``device=``, besides a ``torch.device`` and "cuda:1", "cuda:2", ...
DEVICES = ("cpu", "auto", "cuda", "torch-cpu")
#: Number of kernel values from which "auto" uses the GPU: about one second of work for two cores,
#: well above the cost of starting a GPU.
AUTO_PAIRS = 2e9


def device_name(device: Any) -> str:
    """Return ``device`` as one of :data:`DEVICES` or "cuda:N"; raises ValueError otherwise.

    "cpu" is the native core; "torch-cpu" (or ``torch.device("cpu")``) is torch on the same
    processor, for tests; "auto" is the GPU if there is one and the work is large enough.
    """
    if isinstance(device, str):
        if device in DEVICES or re.fullmatch(r"cuda:\d+", device):
            return device
    elif type(device).__module__ == "torch" and type(device).__name__ == "device":
        return "torch-cpu" if device.type == "cpu" else str(device)
    raise ValueError(
        f"device must be one of {', '.join(DEVICES)}, 'cuda:N' or a torch.device, got {device!r}"
    )


def choose_device(device: Any, n_pairs: float, points: Any = None) -> Any:
    """Return the torch device to work on; None for the native core.

    Parameters
    ----------
    device : str or torch.device
        See :func:`device_name`.
    n_pairs : float
        Number of kernel values (or operations of about the same cost) to compute.
    points : array or tensor, optional
        The data. A tensor on a GPU is processed there, whatever ``device`` says.

    Raises
    ------
    RuntimeError
        If torch does not see the requested GPU.
    """
    name = device_name(device)
    if on_gpu(points):
        return points.device
    if name == "cpu" or (name == "auto" and n_pairs < AUTO_PAIRS):
        return None
    if name == "auto":
        return _gpu_if_any()
    torch = import_torch(f"device={name!r}")
    if name == "torch-cpu":
        return torch.device("cpu")
    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if n_devices <= int(name.partition(":")[2] or 0):
        raise RuntimeError(
            f"device={name!r}, but torch {torch.__version__} sees {n_devices} CUDA device(s): "
            "install a torch built for CUDA and a driver, or use device='auto' or 'cpu'"
        )
    return torch.device(name)


def _gpu_if_any() -> Any:
    try:
        torch = import_torch("device='auto'")
    except ImportError:
        return None
    return torch.device("cuda") if torch.cuda.is_available() else None


def import_torch(what: str) -> Any:
    """Return the torch module; raises ImportError with the extra that ``what`` needs."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"{what} needs torch: pip install 'kdey[gpu]'") from error
    return torch


def as_tensor(values: Any, device: Any) -> Any:
    """Return an array or tensor as a tensor on ``device``, without a copy if it is there."""
    torch = import_torch("a tensor")
    if is_tensor(values):
        return values.detach().to(device)
    with warnings.catch_warnings():  # torch warns about read-only arrays; nothing is written here
        warnings.filterwarnings("ignore", "The given NumPy array is not writ")
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)


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
    """Return a frame, or raise if its columns have names that would be lost.

    scikit-learn knows no names of several levels (a MultiIndex) and no numbers as names, and takes
    such columns by position: numbers must therefore be in order.

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
    dtype: Any = getattr(columns, "dtype", None)
    is_numbered = isinstance(dtype, np.dtype) and dtype.kind in "iu"
    if is_numbered and not np.all(np.diff(np.asarray(columns)) > 0):
        raise ValueError(
            f"{name} has columns that are numbered, but not in order ({columns[0]}, {columns[1]}, "
            f"...): sort them ({name}.sort_index(axis=1)), or give them texts as names"
        )
    return frame


def _installed() -> str:
    for name in BACKENDS:
        if find_spec(name) is not None:
            return name
    raise ImportError(f"data frames need one of {', '.join(BACKENDS)}: install one of them")
