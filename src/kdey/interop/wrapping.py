"""Our quantifiers and bags as objects of QuaPy."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from kdey.protocols import APP, BagProtocol
from kdey.quantifiers.rowwise import AggregativeQuantifier


def to_quapy(quantifier: Any) -> Any:
    """Return a quantifier of ours as one of QuaPy's, for its evaluation and model selection.

    Parameters
    ----------
    quantifier : quantifier of this package, fitted or not
        A fitted one answers at once. ``fit`` fits a clone, and leaves it as it is.

    Returns
    -------
    wrapped : quapy.method.base.BaseQuantifier
        For methods on posteriors an ``AggregativeQuantifier`` too, so that QuaPy classifies a
        pool once (its ``aggr_speedup``). Parameters are named as scikit-learn names nested
        ones: ``quantifier__bandwidth``, ``quantifier__classifier__C``.
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
    """Return the bags of a protocol of ours as a QuaPy protocol over a ``LabelledCollection``.

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
