"""Bags and quantifiers carried between QuaPy and kdey.

:func:`from_quapy` takes the exact bags of a QuaPy protocol, position for position, as a protocol
of kdey, and needs nothing but its argument; :func:`to_quapy` and :func:`to_quapy_protocol` make
objects of QuaPy from quantifiers and bags of kdey. They import QuaPy (``quapy_classes`` does) when
they are called, and nothing here does so before.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from kdey.bags import Array, Bags
from kdey.evaluation.protocols import APP, BagProtocol, LabelledBags, realised_prevalences
from kdey.quantifiers import AggregativeQuantifier
from kdey.quantifiers.base import BaseQuantifier
from kdey.simplex import check_posteriors
from kdey.validation import Labels, check_classes, encode_labels

__all__ = ["Replay", "from_quapy", "to_quapy", "to_quapy_protocol"]


@dataclass(frozen=True, eq=False)
class Replay:
    """Bags drawn elsewhere: a protocol for :func:`kdey.evaluate`, with its pool.

    ``kdey.evaluate(quantifier, replay.X, replay.y, replay)`` estimates the very bags.

    Attributes
    ----------
    X : instances of the pool
    y : labels of the pool, shape (pool_size,), or None where the bags have none
    drawn : Bags
        Positions in the pool, in the order in which they were drawn.
    prevalences : float64 array of shape (n_bags, k)
        True prevalence of each bag.
    classes : array of shape (k,), or None
        Names of the columns; None where they have no names and are taken in order.
    """

    X: Any
    y: Labels | None
    drawn: Bags
    prevalences: Array
    classes: Labels | None

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.drawn)

    def bags(self, y: ArrayLike | None = None, classes: ArrayLike | None = None) -> LabelledBags:
        """Return the bags, prevalences ordered as ``classes``.

        Classes that the bags do not know get a prevalence of zero. ``y`` may be left out; where
        given, it must be the labels of the pool.
        """
        if y is not None and self.y is not None and not np.array_equal(np.asarray(y), self.y):
            raise ValueError("y must be the labels of the replayed pool: pass replay.y, or None")
        known = check_classes(self._column_classes() if classes is None else classes)
        return LabelledBags(self.drawn, self._columns(known), known)

    def _column_classes(self) -> Labels:
        return np.arange(self.prevalences.shape[1]) if self.classes is None else self.classes

    def _columns(self, classes: Labels) -> Array:
        """Return the prevalences with one column per wanted class."""
        if self.classes is None:
            if len(classes) != self.prevalences.shape[1]:
                raise ValueError(
                    f"the bags have prevalences of {self.prevalences.shape[1]} classes, but "
                    f"classes has {len(classes)}"
                )
            return self.prevalences
        position = {label: column for column, label in enumerate(classes.tolist())}
        present = self.prevalences.any(axis=0)
        missing = [c for c in self.classes[present].tolist() if c not in position]
        if missing:
            raise ValueError(f"the bags hold classes that are not in classes: {missing[:5]}")
        columns = np.zeros((len(self), len(classes)))
        for label, column in zip(self.classes.tolist(), self.prevalences.T, strict=True):
            if label in position:
                columns[:, position[label]] = column
        return columns


def from_quapy(source: Any, *, classes: ArrayLike | None = None) -> Replay:
    """Return the bags that a QuaPy protocol yields, to be replayed here.

    Parameters
    ----------
    source : QuaPy protocol or LabelledCollection
        ``APP``, ``UPP``, ``NPP``, ``DirichletProtocol`` and whatever else draws positions in one
        collection: the positions are taken, and the pool is the collection itself, not copied.
        ``ProtocolFromIndex``: likewise. ``IterateProtocol``, and any other protocol, which only
        yields ``(X, prevalence)`` (``DomainMixer``, LeQua's): the pool is all that it yields, one
        bag after the other. A ``LabelledCollection`` is one bag of all its instances.
    classes : array-like of shape (k,), optional
        Names of the prevalences' columns, for protocols that yield no labels.

    Notes
    -----
    QuaPy seeds NumPy's global generator while a protocol runs; the replay asks the protocol
    itself, so its bags are those of ``protocol()`` to the last position. A protocol without a seed
    draws other bags at each call and is refused.
    """
    if _is_collection(source):
        return _on_collection(source, [np.arange(len(source.labels))])
    if hasattr(source, "samples_parameters") and hasattr(source, "get_labelled_collection"):
        return _on_collection(source.get_labelled_collection(), _drawn_positions(source))
    if hasattr(source, "indexes") and _is_collection(getattr(source, "data", None)):
        return _on_collection(source.data, source.indexes)
    if hasattr(source, "samples") and all(_is_collection(bag) for bag in source.samples):
        return _from_collections(list(source.samples))
    if not callable(source):
        raise TypeError(
            f"source must be a QuaPy protocol or LabelledCollection, got {type(source).__name__}"
        )
    _check_seed(source)
    return _from_pairs(list(source()), classes)


def _is_collection(source: Any) -> bool:
    return all(hasattr(source, name) for name in ("instances", "labels", "classes_"))


def _check_seed(protocol: Any) -> None:
    if getattr(protocol, "random_state", 0) is None:
        raise ValueError(
            "the protocol has random_state=None and draws other bags at each call: give it a seed"
        )


def _drawn_positions(protocol: Any) -> list[Any]:
    """Return the positions of each bag of a protocol that draws them from one collection."""
    _check_seed(protocol)
    collecting = copy.copy(protocol)
    # The collator is QuaPy's own hook for what a protocol yields; the drawing is untouched.
    collecting.collator = lambda bag, positions: positions
    return list(collecting())


def _on_collection(collection: Any, positions: Sequence[Any]) -> Replay:
    labels, known = np.asarray(collection.labels), np.asarray(collection.classes_)
    drawn = Bags.from_indices(positions, len(labels))
    codes, _ = encode_labels(labels, known)
    prevalences = realised_prevalences(drawn, codes, len(known))
    return Replay(collection.instances, labels, drawn, prevalences, known)


def _from_collections(collections: list[Any]) -> Replay:
    _check_any(collections)
    known = np.asarray(collections[0].classes_)
    for number, collection in enumerate(collections):
        if not np.array_equal(np.asarray(collection.classes_), known):
            raise ValueError(f"bag {number} has other classes than bag 0: {collection.classes_}")
    labels = np.concatenate([np.asarray(c.labels) for c in collections])
    drawn = _consecutive([len(c.labels) for c in collections])
    prevalences = realised_prevalences(drawn, encode_labels(labels, known)[0], len(known))
    return Replay(_stacked([c.instances for c in collections]), labels, drawn, prevalences, known)


def _from_pairs(pairs: list[Any], classes: ArrayLike | None) -> Replay:
    """Return bags that came as pairs of instances and prevalence."""
    _check_any(pairs)
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            'source must yield pairs (X, prevalence); with QuaPy, return_type="sample_prev"'
        )
    parts, prevalence_rows = zip(*pairs, strict=True)
    prevalences = np.asarray(
        check_posteriors(np.asarray(prevalence_rows), name="prevalences"), np.float64
    )
    known = None if classes is None else check_classes(classes)
    if known is not None and len(known) != prevalences.shape[1]:
        raise ValueError(
            f"classes has {len(known)} names, but the prevalences have "
            f"{prevalences.shape[1]} columns"
        )
    sizes = [part.shape[0] if hasattr(part, "shape") else len(part) for part in parts]
    return Replay(_stacked(list(parts)), None, _consecutive(sizes), prevalences, known)


def _check_any(bags: Sequence[Any]) -> None:
    if not bags:
        raise ValueError("source yields no bag: at least one is needed")


def _consecutive(sizes: list[int]) -> Bags:
    """Return bags that lie one after the other in their pool."""
    ends = np.cumsum(sizes)
    return Bags.from_indices(np.split(np.arange(ends[-1]), ends[:-1]), int(ends[-1]))


def _stacked(parts: list[Any]) -> Any:
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def to_quapy(quantifier: BaseQuantifier) -> Any:
    """Return a quantifier of kdey as one of QuaPy, for its evaluation and model selection.

    Parameters
    ----------
    quantifier : quantifier of this package, fitted or not
        A fitted one answers at once. ``fit`` fits a clone, and leaves it as it is.

    Returns
    -------
    wrapped : quapy.method.base.BaseQuantifier
        For methods on posteriors an ``AggregativeQuantifier`` too, so that QuaPy classifies a
        pool once (its ``aggr_speedup``), and that its bootstrap, medians and searches work.
        Parameters are named as those of the quantifier, ``bandwidth``, ``classifier__C``, or as
        nested ones, ``quantifier__bandwidth``. QuaPy fits a classifier once for all candidates
        that share it if its parameters begin with ``classifier__``.
    """
    classes = _quapy_classes()
    if isinstance(quantifier, AggregativeQuantifier):
        return classes.WrappedAggregative(quantifier)
    if not (hasattr(quantifier, "fit") and hasattr(quantifier, "predict")):
        raise TypeError(f"quantifier must have fit and predict, got {type(quantifier).__name__}")
    return classes.WrappedQuantifier(quantifier)


def to_quapy_protocol(
    X: Any, y: ArrayLike, protocol: BagProtocol | None = None, *, classes: ArrayLike | None = None
) -> Any:
    """Return the bags of a protocol of kdey as a QuaPy protocol over a ``LabelledCollection``.

    Parameters
    ----------
    X : array or sparse matrix of m instances
    y : array-like of shape (m,)
    protocol : protocol
        Draws the bags from the labels; default ``APP()``. QuaPy has no weighted bags.
    classes : array-like of shape (k,), optional
        All classes, where some are absent from ``y``. QuaPy sorts them.
    """
    labelled = (APP() if protocol is None else protocol).bags(y, classes)
    if labelled.bags.weights is not None:
        raise ValueError("protocol draws weighted bags, which QuaPy does not have")
    return _quapy_classes().GivenProtocol.over(X, y, labelled)


def _quapy_classes() -> Any:
    try:
        from kdey.interop import quapy_classes
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "quapy":
            raise
        raise ImportError("this needs QuaPy: pip install quapy==0.2.3") from None
    return quapy_classes
