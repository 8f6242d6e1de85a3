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
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from kdey._fingerprints import fingerprint
from kdey.bags import Array
from kdey.evaluation.protocols import LabelledBags
from kdey.posteriors import predict_posteriors
from kdey.quantifiers import AggregativeQuantifier
from kdey.quantifiers.base import BaseQuantifier as KdeyQuantifier
from kdey.validation import take_rows, training_labels


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

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the quantifier with or without ``quantifier__`` in front.

        QuaPy fits a classifier once for all candidates that share it if it can tell the parameters
        of the classifier by their names, which begin with ``classifier__``.
        """
        own = self.get_params(deep=False)
        super().set_params(
            **{
                name if name.partition("__")[0] in own else f"quantifier__{name}": value
                for name, value in params.items()
            }
        )
        return self

    def fit(self, X: Any, y: Any) -> Self:
        """Fit a clone of the quantifier."""
        self._fitted = clone(self.quantifier).fit(X, y)
        return self

    def predict(self, X: Any) -> Array:
        """Return the prevalences of the bag of all instances of ``X``, shape (k,)."""
        prevalence: Array = self.quantifier_.predict(X)
        return prevalence


class _ClassifiedTraining:
    """A classifier stage that is fitted, before anything is aggregated.

    Parameters
    ----------
    quantifier : AggregativeQuantifier
        Unfitted; its stage is fitted on ``(X, y)``.

    Attributes
    ----------
    stage : FittedStage
    parameters : str
        Fingerprint of the parameters of the stage.
    instance : the first training instance, by which the columns of bags are checked
    y : labels of all training instances, shape (n,)
    classes : array of shape (k,)
    """

    def __init__(self, quantifier: AggregativeQuantifier, X: Any, y: Any) -> None:
        reader, X, _ = quantifier._read_training(X)
        codes, self.classes = training_labels(y)
        quantifier._check_n_classes(len(self.classes))
        unfitted = reader._classifier_stage()
        self.stage = unfitted.fit(X, codes, self.classes, n_jobs=quantifier.n_jobs)
        self.parameters = fingerprint(quantifier._classifier_stage())
        self.instance, self.y = take_rows(X, [0]), self.classes[codes]

    def check_parameters(self, quantifier: AggregativeQuantifier) -> None:
        """Raise ValueError if the quantifier would need another classifier stage than this."""
        if fingerprint(quantifier._classifier_stage()) != self.parameters:
            raise ValueError(
                "a parameter of the classifier or of its folds was changed after the classifier "
                "was fitted: name parameters of the classifier classifier__..., not "
                "quantifier__classifier__..., so that QuaPy sets them first; folds (cv) cannot be "
                "searched in the two steps"
            )

    @property
    def predictions(self) -> tuple[Any, Any]:
        """The posteriors and labels to aggregate; None, None for a method that needs none."""
        training = self.stage.training
        if training.posteriors is None:
            return None, None
        return training.posteriors, self.classes[training.labels]

    def gave(self, predictions: Any, labels: Any) -> bool:
        """Return whether these are the predictions of this stage, or a copy of them."""
        posteriors, known = self.predictions
        if posteriors is None or predictions is None:
            return predictions is None
        return np.array_equal(posteriors, predictions) and np.array_equal(known, labels)


class WrappedAggregative(WrappedQuantifier, AggregativeSoftQuantifier):
    """A quantifier on posteriors, in QuaPy's two steps.

    ``classifier_fit_predict`` and then ``aggregation_fit`` are what ``fit`` does at once;
    ``classify`` and then ``aggregate`` are ``predict``. QuaPy's bootstrap, medians and searches do
    a first step once and a second one many times.
    """

    quantifier: AggregativeQuantifier
    _training: _ClassifiedTraining | None = None
    _classifier: Any = None

    @property
    def classifier(self) -> Any:
        """The classifier, fitted if anything is fitted."""
        if self._classifier is not None:
            return self._classifier
        if self._training is not None:
            return self._training.stage.classifier
        model = vars(self.__dict__.get("_fitted", self.quantifier)).get("model_")
        fitted = None if model is None else model.scorer.classifier
        return self.quantifier._inner_estimator() if fitted is None else fitted

    @classifier.setter
    def classifier(self, classifier: Any) -> None:
        """Use another classifier: a fitted one as it is, an unfitted one at the next fit."""
        self.__dict__.pop("_fitted", None)
        self._training = None
        self.quantifier = clone(self.quantifier)
        try:
            check_is_fitted(classifier)
        except NotFittedError:
            self._classifier = None
            self.quantifier.set_params(classifier=classifier)
        else:
            self._classifier = classifier

    @property
    def classes_(self) -> NDArray[Any]:
        """Classes in the order of the prevalences."""
        if self._training is not None:
            return self._training.classes
        if self._classifier is not None:
            return np.asarray(self._classifier.classes_)
        return super().classes_

    def fit(self, X: Any, y: Any) -> Self:
        """Fit a clone of the quantifier; a fitted classifier that was set is not fitted again."""
        if self._classifier is not None:
            return self.aggregation_fit(self.classify(X), y)
        self._training = None
        return super().fit(X, y)

    def classifier_fit_predict(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Fit the classifier; return the posteriors and labels from which templates are made.

        They are None, None for methods that need none (PCC, CC, EMQ without a calibration).
        """
        self._classifier = None
        self.__dict__.pop("_fitted", None)
        self._training = _ClassifiedTraining(clone(self.quantifier), X, y)
        return self._training.predictions

    def aggregation_fit(self, classif_predictions: Any, labels: Any) -> Self:
        """Make the templates from posteriors.

        ``predict`` works afterwards if there is a classifier, of ``classifier_fit_predict`` or one
        that was set; otherwise only ``aggregate`` does.
        """
        quantifier, training = clone(self.quantifier), self._training
        if training is not None:
            training.check_parameters(quantifier)
        if training is not None and training.gave(classif_predictions, labels):
            quantifier._fit_stage(training.stage, training.instance, training.y)
        else:
            known = None if training is None and self._classifier is None else self.classes_
            quantifier.fit_posteriors(classif_predictions, labels, classes=known)
            if known is not None:
                quantifier.model_ = quantifier.model_.with_scorer(classifier=self.classifier)
        self._fitted = quantifier
        return self

    def classify(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return the posteriors of ``X``, columns in the order of ``classes_``."""
        return predict_posteriors(self.classifier, X, self.classes_)

    def aggregate(self, classif_predictions: Any) -> Array:
        """Return the prevalences of a bag from its posteriors."""
        fitted = self.quantifier_
        assert isinstance(fitted, AggregativeQuantifier)
        return fitted.aggregate(classif_predictions)


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
