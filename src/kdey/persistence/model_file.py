"""Bytes of skops that depend on the object alone.

skops names the parts of an object by their places in memory and stamps its archive with the time
of day. Parts are numbered in order of appearance here, and time stands still, so that equal models
give equal files.

Save a fitted quantifier to one file, and load it.
"""

from __future__ import annotations

import io
import json
import math
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

from kdey.persistence.archive import ModelFileError, read_archive, read_manifest, write_archive
from kdey.persistence.encoding import Parts, decode, encode, types_outside
from kdey.persistence.untrusted import check_answers, check_trees
from kdey.quantifiers.base import BaseQuantifier

_SCHEMA = "schema.json"
#: Where places in memory stand: names of parts, and the files that hold them.
_PLACE = re.compile(r'(?<="__id__": )\d+|(?<="file": ")\d+')
#: The first moment that a zip archive knows.
_MOMENT = (1980, 1, 1, 0, 0, 0)


def canonical(data: bytes) -> bytes:
    """Return what ``skops.io.dumps`` gave, the same for equal objects."""
    given = zipfile.ZipFile(io.BytesIO(data))
    numbers: dict[str, str] = {}

    def number(place: re.Match[str]) -> str:
        return numbers.setdefault(place.group(), str(len(numbers)))

    schema = _PLACE.sub(number, given.read(_SCHEMA).decode())
    members = {_renamed(name, numbers): given.read(name) for name in given.namelist()}
    members[_SCHEMA] = schema.encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in sorted(members):
            archive.writestr(zipfile.ZipInfo(name, _MOMENT), members[name])
    return out.getvalue()


def _renamed(name: str, numbers: dict[str, str]) -> str:
    stem, dot, suffix = name.partition(".")
    return numbers.get(stem, stem) + dot + suffix


_TREE = "quantifier.json"
#: Types of scikit-learn that hold arrays and that skops asks about.
TRUSTED = (
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
    """Write a fitted quantifier to ``path``; return the path.

    The file holds JSON, plain arrays and, for the classifier, skops' format, none of which can
    run code when read. It is written whole or not at all, and equal models give equal files.

    Parameters
    ----------
    quantifier : fitted quantifier
        Of this package, or of your own with its bases. Of a search, save its
        ``best_estimator_``.
    path : file to write
    use_pickle : bool
        Pickle the classifier, for one that skops cannot write. The file then only loads with
        ``use_pickle=True``, and only files of people you trust should be.

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
            f"save takes quantifiers of kdey, got {type(quantifier).__qualname__}; pickle others"
        )
    if quantifier.answering is not quantifier:
        raise TypeError("a search is not saved: save its best_estimator_")
    check_is_fitted(quantifier, "classes_")
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
    path : file written by :func:`save`
    trusted : names of types
        Types that may be made beside those of kdey, scikit-learn and NumPy: of the classifier
        ("package.Class"), and of quantifiers, row maps and matchings of your own
        ("module:Class", whose modules are imported). A file that needs more is refused with
        their names.
    use_pickle : bool
        Allow a pickled classifier. Unpickling runs code: only for files of people you trust.
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
                f"{source} holds types of somebody else's; if you trust them, load with "
                f"trusted={strange}"
            )
        quantifier = decode(tree, parts)
        check_answers(quantifier)
        return quantifier
    except (ModelFileError, ImportError):
        raise
    except Exception as error:  # what skops and the classes of its parts may raise has no end
        raise ModelFileError(
            f"{source} cannot be read by this kdey (it was written by "
            f"{manifest.get('kdey', 'another version')}): {error}"
        ) from error


def describe(path: str | PathLike[str]) -> dict[str, Any]:
    """Return what a model file says of itself, without making anything it holds."""
    return read_manifest(Path(path))


def _count(members: dict[str, bytes], folder: str) -> int:
    return sum(name.startswith(folder) for name in members)


def _array_bytes(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _array(data: bytes) -> NDArray[Any]:
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"an array of format {version}, which save does not write")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    # NumPy makes room for what the header promises before it looks for it.
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ValueError("an array whose header does not match its bytes")
    stream.seek(0)
    array: NDArray[Any] = np.load(stream, allow_pickle=False)
    return array


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise ImportError(
            "saving a classifier needs skops: pip install 'kdey[save]' (a quantifier fitted by "
            "fit_posteriors is saved without it)"
        ) from None
    return skops.io


def _skops_bytes(value: Any) -> bytes:
    try:
        data = canonical(_skops().dumps(value))
    except (TypeError, AttributeError) as error:
        raise TypeError(
            f"skops cannot write a {type(value).__qualname__} ({error}); save with "
            "use_pickle=True, or freeze the scores and use fit_posteriors"
        ) from error
    return data


def _foreign(
    source: Path, members: dict[str, bytes], number: int, trusted: Sequence[str], use_pickle: bool
) -> Any:
    pickled = members.get(f"foreign/{number}.pickle")
    if pickled is not None:
        if not use_pickle:
            raise ModelFileError(
                f"{source} holds a pickled classifier, which can run code when read; load it with "
                "use_pickle=True if you trust who wrote it"
            )
        return pickle.loads(pickled)
    data = members[f"foreign/{number}.skops"]
    unknown = set(_skops().get_untrusted_types(data=data)) - {*TRUSTED, *trusted}
    if unknown:
        raise ModelFileError(
            f"{source} holds types that are not trusted: {', '.join(sorted(unknown))}; if you know "
            "them, pass their names as trusted"
        )
    made = _skops().loads(data, trusted=[*TRUSTED, *trusted])
    check_trees(made)
    return made


def _versions() -> dict[str, str]:
    import sklearn

    return {"scikit-learn": sklearn.__version__, "numpy": np.__version__}
