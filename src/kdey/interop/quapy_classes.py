"""Subclasses of QuaPy's classes: the only module that imports QuaPy.

They are module-level classes, so that QuaPy's parallel searches can pickle them.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from quapy.data import LabelledCollection
from quapy.method.aggregative import AggregativeSoftQuantifier
from quapy.method.base import BaseQuantifier
from quapy.protocol import OnLabelledCollectionProtocol
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from kdey.bags import Array
from kdey.posteriors import predict_posteriors
from kdey.protocols import LabelledBags
from kdey.quantifiers.base import BaseQuantifier as KdeyQuantifier


class WrappedQuantifier(BaseQuantifier):
    """A quantifier of kdey behind QuaPy's ``fit`` and ``predict``."""

    def __init__(self, quantifier: KdeyQuantifier) -> None:
        self.quantifier = quantifier

    @property
    def quantifier_(self) -> KdeyQuantifier:
        """The fitted quantifier: the clone of the last ``fit``, else the one given."""
        fitted: KdeyQuantifier = self.__dict__.get("_fitted", self.quantifier)
        check_is_fitted(fitted, "classes_")
        return fitted

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes in the order of the prevalences."""
        classes: NDArray[Any] = self.quantifier_.classes_
        return classes

    def fit(self, X: Any, y: Any) -> Self:
        """Fit a clone of the quantifier."""
        self._fitted = clone(self.quantifier).fit(X, y)
        return self

    def predict(self, X: Any) -> Array:
        """Return the prevalences of the bag of all instances of ``X``, shape (k,)."""
        prevalence: Array = self.quantifier_.predict(X)
        return prevalence


class WrappedAggregative(WrappedQuantifier, AggregativeSoftQuantifier):
    """A quantifier on posteriors: QuaPy may classify a whole pool once, then ask for bags."""

    @property
    def classifier(self) -> Any:
        """The fitted classifier."""
        return self.quantifier_.classifier_

    def classify(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return the posteriors of ``X``, columns in the order of ``classes_``."""
        return predict_posteriors(self.classifier, X, self.classes_)

    def aggregate(self, classif_predictions: Any) -> Array:
        """Return the prevalences of a bag from its posteriors."""
        prevalence: Array = self.quantifier_.aggregate(classif_predictions)
        return prevalence

    def aggregation_fit(self, classif_predictions: Any, labels: Any) -> Self:
        """Make the templates from posteriors alone: ``aggregate`` works then, ``predict`` not."""
        self._fitted = clone(self.quantifier).fit_posteriors(classif_predictions, labels)
        return self


class GivenProtocol(OnLabelledCollectionProtocol):
    """Bags that exist already, as positions in a collection.

    Unlike ``quapy.protocol.ProtocolFromIndex`` it is a protocol on a labelled collection: QuaPy
    then classifies the pool once, and a search can refit.
    """

    def __init__(self, data: Any, positions: list[NDArray[np.int64]]) -> None:
        super().__init__()  # of the seed nothing is drawn
        self.data = data
        self.positions = positions
        self.sample_size = int(np.mean([len(bag) for bag in positions]))
        self.collator = self.get_collator()

    @classmethod
    def over(cls, X: Any, y: Any, labelled: LabelledBags) -> Self:
        """Return labelled bags over the pool ``(X, y)``."""
        return cls(LabelledCollection(X, y, classes=labelled.classes), list(labelled.bags))

    def samples_parameters(self) -> list[NDArray[np.int64]]:
        """Return the positions of each bag."""
        return self.positions

    def total(self) -> int:
        """Return the number of bags."""
        return len(self.positions)
