"""Saving a fitted quantifier to one file, and loading it.

Equal models give equal files. skops names the parts of an object by their memory addresses and
stamps its archive with the current time; :func:`canonical` numbers the parts in the order of their
appearance instead and uses a fixed time stamp.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import zipfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kdey.persistence.archive import (
    TIME_STAMP,
    ModelFileError,
    Parts,
    decode,
    encode,
    read_archive,
    read_manifest,
    types_outside,
    write_archive,
)
from kdey.persistence.bounds import check_array_header, check_skops
from kdey.persistence.untrusted import check_answers, check_shapes, check_trees
from kdey.quantifiers.base import BaseQuantifier

_TREE = "quantifier.json"
#: Name of the description of an object inside an archive of skops.
_SCHEMA = "schema.json"
#: Memory addresses in this description: names of parts, and of the files that contain them.
_ADDRESS = re.compile(r'(?<="__id__": )\d+|(?<="file": ")\d+')
#: Types that contain only data, and that skops does not trust by default.
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
)


def save(
    quantifier: BaseQuantifier, path: str | PathLike[str], *, use_pickle: bool = False
) -> Path:
    """Write a fitted quantifier to a file.

    The file contains JSON, plain arrays and, for the classifier, the format of skops, none of which
    can run code when read. It is written completely or not at all, and equal models give equal
    files.

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
        cannot write.
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
    members = {_TREE: json.dumps(tree).encode()}
    members |= {f"arrays/{i}.npy": _array_bytes(a) for i, a in enumerate(parts.arrays)}
    dump = pickle.dumps if use_pickle else _skops_bytes
    suffix = "pickle" if use_pickle else "skops"
    members |= {f"foreign/{i}.{suffix}": dump(o) for i, o in enumerate(parts.foreign)}
    about = {
        "kdey": kdey.__version__,
        "quantifier": type(quantifier).__qualname__,
        "classes": [str(label) for label in quantifier.classes_],
        "foreign": [f"{type(o).__module__}.{type(o).__qualname__}" for o in parts.foreign],
        "libraries": _versions() if parts.foreign else {},
    }
    target = Path(path)
    write_archive(target, members, about)
    return target


def load(
    path: str | PathLike[str], *, trusted: Sequence[str] = (), use_pickle: bool = False
) -> Any:
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
    if _TREE not in members:
        raise ModelFileError(f"{source} is not a kdey model file: it has no {_TREE}")
    try:
        parts = Parts(
            [_array(members[f"arrays/{i}.npy"]) for i in range(_count(members, "arrays/"))],
            [
                _foreign(source, members, i, trusted, use_pickle)
                for i in range(_count(members, "foreign/"))
            ],
            frozenset(trusted),
        )
        tree = json.loads(members[_TREE])
        strange = sorted(types_outside(tree) - parts.trusted)
        if strange:
            raise ModelFileError(
                f"{source} contains types from outside kdey; if you trust them, load it with "
                f"trusted={strange}"
            )
        quantifier = decode(tree, parts)
        check_shapes(quantifier)
        check_answers(quantifier)
        return quantifier
    except (ModelFileError, ImportError):
        raise
    except Exception as error:  # skops and the classes it creates may raise anything
        raise ModelFileError(
            f"{source} cannot be read by this kdey (it was written by "
            f"{manifest.get('kdey', 'another version')}): {error}"
        ) from error


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


def _count(members: dict[str, bytes], folder: str) -> int:
    return sum(name.startswith(folder) for name in members)


def _array_bytes(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _array(data: bytes) -> NDArray[Any]:
    stream = io.BytesIO(data)
    check_array_header(stream, len(data))
    stream.seek(0)
    array: NDArray[Any] = np.load(stream, allow_pickle=False)
    return array


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise ImportError(
            "saving a classifier needs skops: pip install 'kdey[save]' (a quantifier fitted by "
            "fit_posteriors can be saved without it)"
        ) from None
    return skops.io


def _skops_bytes(value: Any) -> bytes:
    try:
        data = canonical(_skops().dumps(value))
    except (TypeError, AttributeError) as error:
        raise TypeError(
            f"skops cannot write a {type(value).__qualname__} ({error}); save with "
            "use_pickle=True, or compute the posteriors yourself and use fit_posteriors"
        ) from error
    return data


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
    source: Path, members: dict[str, bytes], number: int, trusted: Sequence[str], use_pickle: bool
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
    unknown = set(_skops().get_untrusted_types(data=data)) - {*TRUSTED, *trusted}
    if unknown:
        raise ModelFileError(
            f"{source} contains types that are not trusted: {', '.join(sorted(unknown))}; if you "
            "know them, pass their names as trusted"
        )
    classifier = _skops().loads(data, trusted=[*TRUSTED, *trusted])
    check_trees(classifier)
    return classifier


def _versions() -> dict[str, str]:
    import sklearn

    return {"scikit-learn": sklearn.__version__, "numpy": np.__version__}
