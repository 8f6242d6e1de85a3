"""Model files of JSON, plain arrays and skops, which cannot run code when read.

Here a fitted quantifier is saved to one file and loaded, and what was loaded is checked;
``archive.py`` has the format of the file.

Equal models give equal files. skops names the parts of an object by their memory addresses and
stamps its archive with the current time; :func:`canonical` numbers the parts in the order of their
appearance instead and uses a fixed time stamp.

scikit-learn follows the children of a tree node, and reads the feature that it names, without
checking that this node or feature exists. A crafted or damaged tree would crash the process, so
:func:`check_trees` checks the indices. :func:`check_shapes` compares the shapes of classes,
training data and templates with each other, and :func:`check_answers` lets the quantifier solve a
small bag if the model is of an ordinary size.
"""

from __future__ import annotations

import copy
import io
import json
import logging
import pickle
import re
import sys
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kdey.model import AnyModel, Model
from kdey.persistence.archive import (
    MOST_CLASSES,
    TIME_STAMP,
    ModelFileError,
    Parts,
    check_array_header,
    check_skops,
    decode,
    encode,
    read_archive,
    read_manifest,
    types_outside,
    write_archive,
)
from kdey.posteriors import TrainingPosteriors
from kdey.quantifiers.base import BaseQuantifier, PosteriorsMixin
from kdey.rows import RowMap
from kdey.tables.schema import TableSchema

logger = logging.getLogger(__name__)

__all__ = ["describe", "load", "save"]

_TREE = "quantifier.json"
#: Name of the description of an object inside an archive of skops.
_SCHEMA = "schema.json"
#: Bytes of an array among which its header is; NumPy reads none of more than 10,000.
_MOST_HEADER = 1 << 14
#: Trees of a forest whose nodes are one array.
_TOGETHER = 10
#: Memory addresses in this description: names of parts, and of the files that contain them.
_ADDRESS = re.compile(r'(?<="__id__": )\d+|(?<="file": ")\d+')
#: Types that contain only data, and that skops does not trust by default: for ``trusted=`` of
#: ``skops.io.load``, where a classifier is read from a file of skops.
TRUSTED = (
    "kdey.tables.features.TableFeatures",
    "kdey.tables.schema.TableSchema",
    "numpy.dtype",  # of the values that an imputer was fitted on
    "sklearn.tree._tree.Tree",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.calibration._TemperatureScaling",
    "sklearn._loss.link.Interval",
    "sklearn._loss.link.LogitLink",
    "sklearn._loss.link.MultinomialLogit",
    "sklearn._loss.loss.HalfBinomialLoss",
    "sklearn._loss.loss.HalfMultinomialLoss",
    "sklearn.neighbors._kd_tree.KDTree",  # both are built again, see check_trees
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.metrics._dist_metrics.ChebyshevDistance64",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.metrics._dist_metrics.ManhattanDistance64",
    "sklearn.metrics._dist_metrics.MinkowskiDistance64",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
    *(
        f"sklearn.gaussian_process.kernels.{name}"
        for name in (
            *("CompoundKernel", "ConstantKernel", "DotProduct", "ExpSineSquared", "Exponentiation"),
            *("Matern", "Product", "RationalQuadratic", "RBF", "Sum", "WhiteKernel"),
        )
    ),
)
#: Libraries with functions that read pickles, run code or call whatever they are given, as many of
#: Python's own modules do. Their classes may be trusted, such functions not.
_WITH_DANGERS = (
    *("IPython", "click", "cloudpickle", "dask", "dill", "joblib", "matplotlib", "numpy", "pandas"),
    *("pip", "polars", "pyarrow", "scipy", "setuptools", "skops", "sklearn", "torch"),
)


def save(
    quantifier: BaseQuantifier, path: str | PathLike[str], *, use_pickle: bool = False
) -> Path:
    """Write a fitted quantifier to a file.

    The file contains JSON, plain arrays and, for the classifier, the format of skops, none of which
    can run code when read. It is written completely or not at all, and equal models give equal
    files. What :func:`load` would refuse is not written.

    Parameters
    ----------
    quantifier : fitted quantifier
        A quantifier of this package, or your own class derived from its base classes. For a search,
        save its ``best_estimator_``.
    path : path-like
        The file to write.
    use_pickle : bool
        Whether to pickle the classifier, if skops cannot write it. The file then loads only with
        ``use_pickle=True``, which is safe only for files of people you trust.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    TypeError
        If the object is not a quantifier of kdey, is a search, or contains a classifier that skops
        cannot write or that could not be loaded.
    NotFittedError
        If the quantifier is not fitted.

    See Also
    --------
    kdey.load : Read a quantifier from a file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import kdey
    >>> P = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.4, 0.6]])
    >>> q = kdey.PACC().fit_posteriors(P, ["no", "no", "yes", "yes"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = kdey.save(q, Path(folder) / "model.kdey")
    ...     again = kdey.load(path)
    ...
    >>> again.aggregate(P).tolist() == q.aggregate(P).tolist()
    True
    """
    import kdey

    if not isinstance(quantifier, BaseQuantifier):
        raise TypeError(
            f"save accepts quantifiers of kdey, got {type(quantifier).__qualname__}; use pickle "
            "for other objects"
        )
    if hasattr(quantifier, "best_estimator_"):
        raise TypeError("a search cannot be saved: save its best_estimator_")
    check_is_fitted(quantifier, "model_")
    parts = Parts()
    tree = encode(quantifier, parts)
    members: dict[str, bytes | bytearray] = {_TREE: json.dumps(tree).encode()}
    for i, classifier in enumerate(parts.foreign):
        if use_pickle:
            members[f"foreign/{i}.pickle"] = pickle.dumps(classifier)
        else:
            members[f"foreign/{i}.skops"] = _skops_bytes(classifier, parts.arrays)
    members |= {f"arrays/{i}.npy": _array_bytes(a) for i, a in enumerate(parts.arrays)}
    about = {
        "kdey": kdey.__version__,
        "quantifier": type(quantifier).__qualname__,
        "classes": [str(label) for label in quantifier.classes_],
        "foreign": [f"{type(o).__module__}.{type(o).__qualname__}" for o in parts.foreign],
        "libraries": _versions() if parts.foreign else {},
    }
    target = Path(path)
    if not use_pickle:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the first of the next load
                _quantifier(target, dict(members), None, use_pickle=False)
        except Exception as error:  # as load reports them
            raise TypeError(
                f"the model could not be loaded from its file: {error}; save with use_pickle=True, "
                "or compute the posteriors yourself and use fit_posteriors"
            ) from error
    write_archive(target, members, about)
    return target


def load(
    path: str | PathLike[str], *, trusted: Sequence[str] = (), use_pickle: bool = False
) -> BaseQuantifier:
    """Return the quantifier of a model file.

    Parameters
    ----------
    path : path-like
        A file written by :func:`save`.
    trusted : sequence of str
        Names of types that may be created besides those of kdey, scikit-learn and NumPy: types of
        the classifier ("package.Class"), and your own quantifiers, row maps and matchings
        ("module:Class", whose modules are imported). A file that needs other types is refused with
        a message that names them.
    use_pickle : bool
        Whether to allow a pickled classifier. Unpickling runs code: use it only for files of people
        you trust.

    Returns
    -------
    quantifier

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, or contains types that are not trusted.
    ImportError
        If a library that the model needs is not installed.

    See Also
    --------
    kdey.save : Write a quantifier to a file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "iris.kdey"
    ...     _ = kdey.save(kdey.EMQ().fit(X, y), path)
    ...     loaded = kdey.load(path)
    >>> loaded.predict(X).round(1)
    array([0.3, 0.3, 0.3])
    """
    source = Path(path)
    manifest, members = read_archive(source)
    logger.info("%s: reading a model that kdey %s wrote", source, manifest.get("kdey"))
    try:
        return _quantifier(source, members, trusted, use_pickle)
    except (ModelFileError, ImportError):
        raise
    except Exception as error:  # skops and the classes it creates may raise anything
        raise ModelFileError(
            f"{source} cannot be read by this kdey (it was written by "
            f"{manifest.get('kdey', 'another version')}): {error}"
        ) from error


def _quantifier(
    source: Path,
    members: dict[str, bytes | bytearray],
    trusted: Sequence[str] | None,
    use_pickle: bool,
) -> BaseQuantifier:
    """Return the quantifier of the members of a file; ``trusted`` as for :func:`_check_trusted`."""
    if _TREE not in members:
        raise ModelFileError(f"{source} is not a kdey model file: it has no {_TREE}")
    tree = json.loads(members[_TREE])
    outside = types_outside(tree)
    _check_trusted(source, outside, trusted)
    # Arrays lie where members were read: what is taken away here can be freed.
    arrays = [_array(members.pop(f"arrays/{i}.npy")) for i in range(_count(members, "arrays/"))]
    foreign = [
        _foreign(source, members, i, arrays, trusted, use_pickle)
        for i in range(_count(members, "foreign/"))
    ]
    parts = Parts(arrays, foreign, outside)
    quantifier: BaseQuantifier = decode(tree, parts)
    check_shapes(quantifier)
    check_answers(quantifier)
    return quantifier


def _check_trusted(source: Path, names: set[str], trusted: Sequence[str] | None) -> None:
    """Raise ModelFileError if a type is not trusted; None: whatever the caller may trust is."""
    dangerous = sorted(filter(_is_dangerous, names))
    if dangerous:
        raise ModelFileError(
            f"{source} contains {', '.join(dangerous)}, with which a file can run code: this is "
            "never read"
        )
    unknown = sorted(names - set(names if trusted is None else trusted))
    if unknown:
        raise ModelFileError(
            f"{source} contains types that are not trusted: {', '.join(unknown)}; if you know "
            f"them, load it with trusted={unknown}"
        )


def _is_dangerous(name: str) -> bool:
    """Return whether a name is Python's own, or one of a function of a large library."""
    *modules, last = name.replace(":", ".").split(".")
    root = modules[0] if modules else "builtins"
    if root in _WITH_DANGERS:
        return last.lstrip("_")[:1].islower()
    return root in sys.stdlib_module_names and root != "__main__"


def describe(path: str | PathLike[str]) -> dict[str, Any]:
    """Return the manifest of a model file, without creating any object that it contains.

    Parameters
    ----------
    path : path-like
        A file written by :func:`save`.

    Returns
    -------
    dict
        With, among others, the version of kdey, the class of the quantifier and its classes.

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, or is of another format.
    """
    return read_manifest(Path(path))


def _count(members: dict[str, bytes | bytearray], folder: str) -> int:
    return sum(name.startswith(folder) for name in members)


def _array_bytes(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _array(data: bytes | bytearray) -> NDArray[Any]:
    """Return the array of a member, which lies where the member was read."""
    stream = io.BytesIO(data[:_MOST_HEADER])
    shape, is_fortran, dtype = check_array_header(stream, len(data))
    order: Literal["F", "C"] = "F" if is_fortran else "C"
    array: NDArray[Any] = np.ndarray(shape, dtype, data, stream.tell(), order=order)
    return np.require(array, requirements="A")


def _skops() -> Any:
    try:
        with _without_array_libraries():
            import skops.io
    except ImportError:
        raise ImportError(
            "saving a classifier needs skops: pip install 'kdey[save]' (a quantifier fitted by "
            "fit_posteriors can be saved without it)"
        ) from None
    return skops.io


@contextmanager
def _without_array_libraries() -> Iterator[None]:
    """Keep torch, Dask and CuPy from being imported for nothing, which takes seconds.

    skops imports all of scikit-learn to list its estimators, adapters of these libraries among it.
    """
    libraries = () if "skops.io" in sys.modules else ("torch", "dask", "cupy")
    adapters = [f"sklearn.externals.array_api_compat.{name}" for name in libraries]
    held_back = [name for name in adapters if name not in sys.modules]
    sys.modules.update(dict.fromkeys(held_back))  # type: ignore[arg-type]  # None: not to be found
    try:
        yield
    finally:
        for name in held_back:
            sys.modules.pop(name, None)


def _skops_bytes(value: Any, arrays: list[NDArray[Any]]) -> bytes:
    """Return what skops writes of a classifier, whose trees are packed into arrays of the file."""
    try:
        data = canonical(_skops().dumps(_with_packed_trees(value, arrays)))
    except (TypeError, AttributeError) as error:
        raise TypeError(
            f"skops cannot write a {type(value).__qualname__} ({error}); save with "
            "use_pickle=True, or compute the posteriors yourself and use fit_posteriors"
        ) from error
    return data


def _with_packed_trees(classifier: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return a classifier whose trees and bins are numbers of a few arrays, which are appended.

    Forests have three arrays and a dozen settings per tree, boosted trees three arrays per tree and
    one per feature, and each would become a file of its own: reading thousands of them took most of
    the time of reading a model. The loss of boosted trees has a compiled part without any data, to
    which scikit-learn before 1.8 gives a name that no file should be trusted with (a module
    ``_loss``, wherever it is found): it is made again, too.
    """
    packed: dict[int, Any] = {}

    def number(*made: NDArray[Any]) -> tuple[int, ...]:
        arrays.extend(made)
        return tuple(range(len(arrays) - len(made), len(arrays)))

    for _, part in _walk(classifier):
        if _is_bin_mapper(part):
            bounds = part.bin_thresholds_
            if bounds and {(b.ndim, b.dtype) for b in bounds} == {(1, np.dtype(np.float64))}:
                lengths = np.array([len(b) for b in bounds], dtype=np.int64)
                packed[id(bounds)] = number(np.concatenate(bounds), lengths)
        elif _is_boosted(part) and any(part._predictors):
            packed[id(part._predictors)] = number(*_packed_boosted(part._predictors))
        elif _is_forest(part) and _are_alike(part.estimators_):
            trees = part.estimators_
            packed[id(trees)] = trees[0], *number(*_packed_forest(trees))
        elif _is_loss(part):
            packed[id(part.closs)] = None
    return copy.deepcopy(classifier, packed) if packed else classifier


def _packed_boosted(rounds: list[list[Any]]) -> tuple[NDArray[Any], ...]:
    """Return the nodes of all boosted trees, their two sets of categories, and how many each has.

    The last array has the number of trees of each round.
    """
    trees = [tree for row in rounds for tree in row]
    parts = [
        (tree.nodes, tree.binned_left_cat_bitsets, tree.raw_left_cat_bitsets) for tree in trees
    ]
    lengths = np.array([[len(array) for array in arrays] for arrays in parts], dtype=np.int64)
    per_round = np.array([len(row) for row in rounds], dtype=np.int64)
    return (*map(np.concatenate, zip(*parts, strict=True)), lengths, per_round)


def _are_alike(trees: list[Any]) -> bool:
    """Return whether trees of a forest differ in nothing but their nodes and seeds."""
    first, *others = ({**vars(tree), "tree_": 0, "random_state": 0} for tree in trees)
    seeds = {type(tree.random_state) for tree in trees}
    return seeds == {int} and all(
        type(tree) is type(trees[0])
        and other.keys() == first.keys()
        and all(np.array_equal(first[name], other[name]) for name in first)
        for tree, other in zip(trees[1:], others, strict=True)
    )


def _packed_forest(trees: list[Any]) -> Iterator[NDArray[Any]]:
    """Yield the numbers of nodes, depths and seeds of a forest, and then its nodes and values.

    They are arrays of a few trees each, so that reading a forest never holds all of it twice.
    """
    states = [tree.tree_.__getstate__() for tree in trees]
    seeds = [tree.random_state for tree in trees]
    counts = [
        (len(s["nodes"]), s["max_depth"], seed) for s, seed in zip(states, seeds, strict=True)
    ]
    yield np.array(counts, dtype=np.int64)
    for start in range(0, len(states), _TOGETHER):
        for name in ("nodes", "values"):
            yield np.concatenate([state[name] for state in states[start : start + _TOGETHER]])


def _unpack_trees(classifier: Any, arrays: list[Any]) -> None:
    """Give trees the arrays back that :func:`_with_packed_trees` packed, and take them away."""

    def take(numbers: Iterable[int]) -> Iterator[NDArray[Any]]:
        for number in numbers:
            array, arrays[number] = arrays[number], None
            yield array

    for _, part in _walk(classifier):
        if _is_bin_mapper(part) and isinstance(part.bin_thresholds_, tuple):
            part.bin_thresholds_ = _split(*take(part.bin_thresholds_))
        elif _is_boosted(part) and isinstance(part._predictors, tuple):
            part._predictors = _unpacked_boosted(*take(part._predictors))
        elif _is_forest(part) and isinstance(part.estimators_, tuple):
            part.estimators_ = _unpacked_forest(part.estimators_[0], take(part.estimators_[1:]))
        elif _is_loss(part):
            part.closs = type(part)().closs


def _unpacked_boosted(
    nodes: NDArray[Any],
    binned: NDArray[Any],
    raw: NDArray[Any],
    lengths: NDArray[Any],
    per_round: NDArray[Any],
) -> list[list[Any]]:
    """Return the boosted trees of each round; parameters as :func:`_packed_boosted` returns."""
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    if lengths.shape != (len(lengths), 3):
        raise ValueError("the nodes of trees do not match their numbers")
    columns = [_split(array, lengths[:, i]) for i, array in enumerate((nodes, binned, raw))]
    trees = [TreePredictor(*arrays) for arrays in zip(*columns, strict=True)]
    return [[trees[i] for i in row] for row in _split(np.arange(len(trees)), per_round)]


def _unpacked_forest(first: Any, arrays: Iterator[NDArray[Any]]) -> list[Any]:
    """Return the trees of a forest, from its first one and what :func:`_packed_forest` yields."""
    from sklearn.tree._tree import Tree

    trees: list[Any] = []
    counts = next(arrays)
    for nodes in arrays:
        lengths, *others = counts[len(trees) : len(trees) + _TOGETHER].T
        parts = _split(nodes, lengths), _split(next(arrays), lengths), *others
        for own_nodes, values, depth, seed in zip(*parts, strict=True):
            inner = Tree(first.tree_.n_features, first.tree_.n_classes, first.tree_.n_outputs)
            state = {"nodes": own_nodes, "values": values, "node_count": len(own_nodes)}
            inner.__setstate__({**state, "max_depth": int(depth)})
            tree = copy.copy(first)
            tree.tree_, tree.random_state = inner, int(seed)
            trees.append(tree)
    if len(trees) != len(counts):
        raise ValueError("the arrays of trees do not match their lengths")
    return trees


def _split(array: NDArray[Any], lengths: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the parts of an array that have these lengths together."""
    whole = lengths.dtype == np.int64 and lengths.ndim == 1 and array.ndim > 0
    if not whole or not ((lengths >= 0) & (lengths <= len(array))).all():
        raise ValueError("the arrays of trees do not match their lengths")
    if lengths.sum() != len(array) or len(lengths) == 0:
        raise ValueError("the arrays of trees do not match their lengths")
    return np.split(array, np.cumsum(lengths)[:-1])


def _is_forest(part: Any) -> bool:
    is_forest = type(part).__name__ in ("ExtraTreesClassifier", "RandomForestClassifier")
    return is_forest and bool(getattr(part, "estimators_", ()))


def _is_boosted(part: Any) -> bool:
    return type(part).__name__ == "HistGradientBoostingClassifier" and hasattr(part, "_predictors")


def _is_loss(part: Any) -> bool:
    return type(part).__name__ in ("HalfBinomialLoss", "HalfMultinomialLoss") and hasattr(
        part, "closs"
    )


def _is_bin_mapper(part: Any) -> bool:
    return type(part).__name__ == "_BinMapper" and hasattr(part, "bin_thresholds_")


def canonical(data: bytes) -> bytes:
    """Return the bytes of ``skops.io.dumps`` in a form that is the same for equal objects."""
    source = zipfile.ZipFile(io.BytesIO(data))
    numbers: dict[str, str] = {}

    def number(address: re.Match[str]) -> str:
        return numbers.setdefault(address.group(), str(len(numbers)))

    schema = _ADDRESS.sub(number, source.read(_SCHEMA).decode())
    members = {_renamed(name, numbers): source.read(name) for name in source.namelist()}
    members[_SCHEMA] = schema.encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(members):
            archive.writestr(zipfile.ZipInfo(name, TIME_STAMP), members[name])
    return buffer.getvalue()


def _renamed(name: str, numbers: dict[str, str]) -> str:
    """Return a file name whose stem, a memory address, is replaced by its number."""
    stem, dot, suffix = name.partition(".")
    return numbers.get(stem, stem) + dot + suffix


def _foreign(
    source: Path,
    members: dict[str, bytes | bytearray],
    number: int,
    arrays: list[Any],
    trusted: Sequence[str] | None,
    use_pickle: bool,
) -> Any:
    """Return a foreign object by its number, or raise if it must not be created."""
    pickled = members.get(f"foreign/{number}.pickle")
    if pickled is not None:
        if not use_pickle:
            raise ModelFileError(
                f"{source} contains a pickled classifier, which can run code when read; load it "
                "with use_pickle=True if you trust its author"
            )
        return pickle.loads(pickled)
    data = members[f"foreign/{number}.skops"]
    check_skops(data)
    skops = _skops()
    try:
        classifier = skops.loads(data, trusted=[*TRUSTED])
    except skops.exceptions.UntrustedTypesFoundException:  # raised before any object is created
        names = set(skops.get_untrusted_types(data=data)) - set(TRUSTED)
        _check_trusted(source, names, trusted)
        classifier = skops.loads(data, trusted=[*TRUSTED, *names])
    _unpack_trees(classifier, arrays)
    check_trees(classifier)
    return classifier


def _versions() -> dict[str, str]:
    import sklearn

    return {"scikit-learn": sklearn.__version__, "numpy": np.__version__}


def check_trees(classifier: Any) -> None:
    """Raise ValueError if a tree inside ``classifier`` has indices outside itself or outside X.

    The index of a classifier by neighbours is built again from its instances, as ``fit`` built it:
    its own numbers are not looked at.
    """
    boosted: dict[int | None, list[Any]] = {}
    for owner, part in _walk(classifier):
        width = getattr(owner, "n_features_in_", None)
        if type(part).__name__ == "Tree":
            if not 0 < part.node_count <= part.capacity:  # it would read memory that is not its own
                raise ValueError("a tree refers to nodes that it does not have")
            inner = np.flatnonzero(part.children_left != -1)
            children = part.children_left[inner], part.children_right[inner]
            own = width if width == part.n_features else None
            _check_nodes(inner, children, np.array(part.node_count), part.feature[inner], own)
        elif type(part).__name__ == "TreePredictor":
            boosted.setdefault(width, []).append(part)
        elif type(part).__name__ in ("KDTree", "BallTree"):
            if getattr(owner, "_tree", None) is not part:
                raise ValueError("an index of neighbours stands where none belongs")
            metric = {"metric": owner.effective_metric_, **owner.effective_metric_params_}
            kind: Any = type(part)
            owner._tree = kind(owner._fit_X, owner.leaf_size, **metric)
    for width, trees in boosted.items():
        _check_boosted(trees, width)


def _check_boosted(trees: Sequence[Any], width: int | None) -> None:
    """Raise ValueError if boosted trees have indices outside themselves or outside X."""
    lengths = np.array([len(tree.nodes) for tree in trees])
    nodes = np.concatenate([tree.nodes for tree in trees])  # one by one takes ten times as long
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    tree_of = np.repeat(np.arange(len(trees)), lengths)[inner]
    numbers = inner - (np.cumsum(lengths) - lengths)[tree_of]
    nodes = nodes[inner]
    children = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
    _check_nodes(numbers, children, lengths, nodes["feature_idx"], width, tree_of)
    n_sets = np.array([len(tree.raw_left_cat_bitsets) for tree in trees])[tree_of]
    if (nodes["bitset_idx"] >= n_sets)[nodes["is_categorical"] != 0].any():
        raise ValueError("a tree refers to categories that it does not have")


def _check_nodes(
    inner: NDArray[np.intp],
    children: Iterable[NDArray[Any]],
    lengths: NDArray[Any],
    features: NDArray[Any],
    width: int | None,
    tree_of: Any = (),
) -> None:
    """Raise ValueError if children or features of inner nodes do not exist.

    Parameters
    ----------
    inner : int array of shape (n,)
        Numbers of the inner nodes in their trees.
    children : iterable of int arrays of shape (n,)
    lengths : int array of shape (n_trees,), or of shape () for one tree
        How many nodes the trees have.
    features : int array of shape (n,)
    width : int or None
        How many features there are.
    tree_of : int array of shape (n,), or () for one tree
    """
    # Children must come after their parents, or following them might never end.
    exist = [((child > inner) & (child < lengths[tree_of])).all() for child in children]
    if not lengths.all() or not all(exist):
        raise ValueError("a tree refers to nodes that it does not have")
    if width is None or (len(features) and not 0 <= features.min() <= features.max() < width):
        raise ValueError("a tree refers to features that its classifier does not have")


def _walk(whole: Any) -> Iterator[tuple[Any, Any]]:
    """Yield all parts of a classifier but plain data, each after the estimator around it.

    What is yielded may be changed before the next part is asked for.
    """
    visited, waiting = set[int](), [(None, whole)]
    while waiting:
        owner, value = waiting.pop()
        if id(value) in visited:
            continue
        visited.add(id(value))
        yield owner, value
        inner = value if isinstance(value, BaseEstimator) else owner
        if inner is value and not hasattr(value, "estimators_features_"):
            _check_members(value)
        parts = [part for part in _parts_of(value) if not _is_plain(part)]
        waiting.extend((inner, part) for part in reversed(parts))


def _parts_of(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, TableSchema):
        return ()  # names and texts, which are checked when it is read
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()
    return getattr(value, "__dict__", {}).values()


def _is_plain(value: Any) -> bool:
    """Return whether this is a number, a text, or an array of such."""
    return type(value) in _PLAIN or (type(value) is np.ndarray and not value.dtype.hasobject)


_PLAIN = (bool, int, float, str, type(None))


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
    for _, part in _walk(quantifier):
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
    for _, part in _walk(model.row_map):
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
        ("clusters", training.clusters),
        ("strata", training.strata),
    ):
        if values is not None:
            _check_shape(name, values, (n,))
    if training.clusters is not None and np.asarray(training.clusters).min(initial=0) < 0:
        raise ValueError("its clusters have negative numbers")


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
        if quantifier.model_.takes_posteriors:
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
    for _, part in _walk(quantifier):
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
