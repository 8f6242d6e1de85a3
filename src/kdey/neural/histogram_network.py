"""HistNetQ: a network on histograms of posteriors, trained on bags."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from kdey._support.docstrings import written_out
from kdey._support.validation import check_choice, check_count, check_positive
from kdey.bags import BagsLike, as_bags
from kdey.class_columns import in_class_order
from kdey.intervals import FittedModel
from kdey.labels import check_classes
from kdey.neural.rows import AskNetwork, NetworkSpec
from kdey.neural.training import TrainingPlan
from kdey.posteriors import predict_posteriors
from kdey.protocols import APP, BagProtocol, LabelledBags
from kdey.quantifiers.aggregative import AggregativeQuantifier
from kdey.quantifiers.base import unfitted_on_failure
from kdey.quantifiers.shared_parameters import SHARED_PARAMETERS
from kdey.rows.histogram import check_n_bins
from kdey.simplex import check_posteriors
from kdey.tuning.search import TuningPlan

#: Errors that a network can minimise.
LOSSES = ("ae", "rae", "se", "nmd")


@written_out(SHARED_PARAMETERS)
class HistNetQ(AggregativeQuantifier):
    """A network on histograms of posteriors, trained on bags (extra ``gpu``).

    After HistNetQ of Pérez-Mon, Moreo, del Coz and González (2024), with histograms of a
    classifier's posteriors where theirs has those of learnt features. A bag is represented by the
    histogram of every posterior, and two hidden layers make a prevalence of it. Training minimises
    the error that you name over bags like yours: of a protocol (:meth:`fit`), or bags whose
    prevalences are known although their instances have no labels (:meth:`fit_bags`).

    It learns which prevalences are usual, and answers accordingly: take it where bags are small and
    alike and the classifier is weak, or where bags with known prevalences show a drift that
    labelled instances do not. Elsewhere the other methods are better and far cheaper; they have
    limits that include the uncertainty of training, and answer bags of any kind
    (:doc:`/which-method`).

    Parameters
    ----------
    classifier : scikit-learn classifier, optional
        As for the other methods.
    protocol : BagProtocol, optional
        Draws the training bags of ``fit`` from the training posteriors; it should resemble the bags
        to come, in size and in prevalences. Default: ``APP(n_bags=4000, bag_size=500)``.
    loss : {"ae", "rae", "se", "nmd"}
        The error to minimise; "nmd" is for ordered classes.
    n_bins : int
        Number of bins of each histogram, between quantiles of the posteriors.
    n_hidden : int
        Size of the two hidden layers.
    n_epochs : int
        Passes over the training bags; the best of them on held-out bags is kept.
    learning_rate : float
        Largest step size.

    Attributes
    ----------
    row_map_ : NetworkMap
        The knots of the histograms, and the network as arrays.

    See Also
    --------
    kdey.KDEyML : Kernel densities by maximum likelihood.
    kdey.Ordered : Penalise rough prevalences of ordered classes.

    References
    ----------
    Pérez-Mon, Moreo, del Coz and González, "Quantification using permutation-invariant networks
    based on histograms", Neural Computing and Applications, 2024.
    """

    #: The classes start from different random numbers, and "nmd" depends on their order.
    orders_classes = True

    def __init__(
        self,
        classifier: Any = None,
        *,
        protocol: BagProtocol | None = None,
        loss: str = "ae",
        n_bins: int = 8,
        n_hidden: int = 128,
        n_epochs: int = 30,
        learning_rate: float = 2e-3,
        cv: Any = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(classifier, cv=cv, random_state=random_state, n_jobs=n_jobs)
        self.protocol = protocol
        self.loss = loss
        self.n_bins = n_bins
        self.n_hidden = n_hidden
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate

    def row_spec(self) -> NetworkSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        check_choice(self.loss, "loss", LOSSES)
        check_count(self.n_hidden, "n_hidden")
        check_count(self.n_epochs, "n_epochs")
        check_positive(self.learning_rate, "learning_rate")
        seed = TuningPlan(random_state=self.random_state).seed()
        plan = TrainingPlan(self.loss, self.n_hidden, self.n_epochs, self.learning_rate, seed)
        protocol = APP(n_bags=4000, bag_size=500) if self.protocol is None else self.protocol
        return NetworkSpec(check_n_bins(self.n_bins), plan, protocol)

    def matching(self) -> AskNetwork:
        """Return the matching, which has no parameters."""
        return AskNetwork()

    @unfitted_on_failure
    def fit_bags(self, X: Any, bags: BagsLike, prevalences: ArrayLike) -> Self:
        """Train on bags with known prevalences, of instances without labels.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of m instances
            The instances of all bags.
        bags : Bags or sequence of index arrays
            Positions in X.
        prevalences : array-like of shape (n_bags, k)
            Columns in the order of the classes of the classifier, or matched by name.

        Raises
        ------
        ValueError
            If neither ``fit`` was called before, nor ``classifier`` is fitted.
        """
        classifier = self._fitted_classifier()
        classes = np.asarray(classifier.classes_)
        posteriors = predict_posteriors(classifier, X, classes)
        self._fit_posterior_bags(posteriors, bags, prevalences, classes)
        self.classifier_ = classifier
        return self

    @unfitted_on_failure
    def fit_posterior_bags(
        self,
        posteriors: ArrayLike,
        bags: BagsLike,
        prevalences: ArrayLike,
        *,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Train on bags with known prevalences, of instances with given posteriors.

        Parameters
        ----------
        posteriors : array-like or data frame of shape (m, k)
        bags : Bags or sequence of index arrays
        prevalences : array-like of shape (n_bags, k)
        classes : array-like of shape (k,), optional
            Names of the classes; default 0..k-1.
        """
        k = np.shape(prevalences)[1]
        names = np.arange(k) if classes is None else np.asarray(classes)
        self._fit_posterior_bags(posteriors, bags, prevalences, names)
        self._forget_classifier()
        return self

    def _fit_posterior_bags(
        self, posteriors: Any, bags: BagsLike, prevalences: ArrayLike, classes: Any
    ) -> None:
        self.stages()  # raises for invalid parameters before any work
        names = check_classes(classes)
        points = np.asarray(check_posteriors(posteriors, classes=names), dtype=np.float64)
        drawn = as_bags(bags, len(points))
        ordered = in_class_order(prevalences, names, "prevalences")
        shares = np.asarray(check_posteriors(ordered, len(names), name="prevalences"))
        if len(shares) != len(drawn):
            raise ValueError(
                f"prevalences has {len(shares)} rows, but there are {len(drawn)} bags: give one "
                "row per bag"
            )
        if len(drawn) < 2:
            raise ValueError("a network needs at least 2 bags to be trained and validated on")
        self._forget_computed()
        self._forget("training_", "_interval_model")
        self.classes_, self.prevalence_ = names, shares.mean(axis=0)
        self.matching_, self.tuning_ = self.matching(), None
        self.row_spec_ = self.row_spec()
        labelled = LabelledBags(drawn, shares.astype(np.float64), names)
        self.row_map_ = self.row_spec_.fit_bags(points, labelled)

    def _fitted_classifier(self) -> Any:
        """Return the classifier of an earlier fit, or the parameter if it is fitted."""
        earlier = vars(self).get("classifier_")
        if earlier is not None:
            return earlier
        inner = self.classifier
        try:
            check_is_fitted(inner)
        except (NotFittedError, TypeError):
            raise ValueError(
                "fit_bags needs a classifier that is already fitted, because instances of bags "
                "have no labels: call fit with labelled instances first, or give a fitted "
                "classifier"
            ) from None
        return inner

    def interval_model(self) -> FittedModel:
        """Return the fitted stages without the training data.

        Limits are bootstraps of the bag: to train the network again for each replicate would take
        hours. The estimates say so in their notes.
        """
        model = super().interval_model()
        if model.training is not None:
            model = FittedModel(
                *(model.classes, model.prevalence, None, model.row_map, model.matching, None),
                *(model.on_posteriors, model.n_threads),
            )
            self._interval_model = model
        return model
