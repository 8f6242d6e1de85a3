r"""The linear pool of predictive distributions: its weights, and the pool as a classifier.

With :math:`p^m(i | x)` the predictive distribution of member m, the pool is

.. math:: p(i | x) = \sum_m w_m p^m(i | x), \qquad
          w = \arg\max_{w \in \Delta} \sum_n \log \sum_m w_m p^m(y_n | x_n) + c \sum_m \log w_m

over the training instances n, each predicted by models that have not seen it (stacking of
predictive distributions). This is the problem that :func:`kdey.solvers.solve_mixture` solves with a
certificate, the members in place of the classes. The pseudo-counts c keep every member in play
where there are few labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import _num_features, _num_samples, check_is_fitted

from kdey._support.threads import run_in_threads
from kdey.bags import Bags
from kdey.posteriors import Posteriors, column_codes, find_weight_parameter, predict_posteriors
from kdey.problems import MixtureLikelihood
from kdey.rows.interface import Array
from kdey.simplex import softmax_rows
from kdey.solvers import solve_mixture
from kdey.stacking.members import FittedMember
from kdey.stacking.portfolio import openmp_threads

#: Pseudo-instances per member that are predicted by this member alone.
PSEUDO_COUNT = 2.0
#: Smallest posterior in the geometric mean of several models.
_LOG_FLOOR = 1e-12


def pool_weights(likelihoods: ArrayLike, sample_weight: ArrayLike | None = None) -> Array:
    """Return the weights of a linear pool that maximise the likelihood of held-out labels.

    Parameters
    ----------
    likelihoods : array-like of shape (n, n_members)
        Probability that each member gave to the true class of each instance.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    weights : array of shape (n_members,)
        Non-negative, with sum one.
    """
    rows = np.asarray(likelihoods, dtype=np.float64)
    n = len(rows)
    w = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    bag = Bags.whole(n, w)
    problem = MixtureLikelihood(rows, bag, pseudo_share=PSEUDO_COUNT / float(w.sum()))
    weights: Array = solve_mixture(problem).prevalence[0]
    return weights


class PooledClassifier(ClassifierMixin, BaseEstimator):
    """A linear pool of members as a classifier.

    ``fit`` fits one model per classifier, with the members and their weights as they are. A
    :class:`~kdey.Quantifier` has a pool whose models come from its cross-validation.

    Parameters
    ----------
    classifiers : mapping from names to classifiers
    members : sequence of FittedMember
    weights : array-like of shape (n_members,)
    n_threads : int
        Threads for the kernels, and models that score instances at the same time.

    Attributes
    ----------
    classes_ : array of shape (k,)
    models_ : dict from the names of classifiers to lists of fitted models
        Several models of one classifier are averaged.
    n_features_in_ : int
    """

    def __init__(
        self,
        classifiers: Mapping[str, Any],
        members: Sequence[FittedMember],
        weights: ArrayLike,
        n_threads: int = 1,
    ) -> None:
        self.classifiers = classifiers
        self.members = members
        self.weights = weights
        self.n_threads = n_threads

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit one model per classifier on instances ``X`` with labels ``y``."""
        models = {}
        for name, classifier in self.classifiers.items():
            parameter = None if sample_weight is None else find_weight_parameter(classifier)
            extra = {} if parameter is None else {parameter: sample_weight}
            with openmp_threads(name, _num_samples(X)):
                models[name] = [clone(classifier).fit(X, y, **extra)]
        return self.set_models(models, np.unique(np.asarray(y)), X)

    def set_models(
        self, models: Mapping[str, Sequence[Any]], classes: NDArray[Any], X: Any
    ) -> Self:
        """Use models that are already fitted.

        Parameters
        ----------
        models : mapping from the names of classifiers to fitted models
        classes : array of shape (k,)
        X : instances that the models were fitted on
        """
        self.models_ = {name: list(fitted) for name, fitted in models.items()}
        self.classes_ = classes
        self.n_features_in_ = _n_features(X)
        return self

    def fold_pools(self) -> list[PooledClassifier]:
        """Return one pool for each fold: of the models that were fitted without it.

        A classifier with a single model, such as a frozen one, has it in all of them.
        """
        pools = []
        for fold in range(max(map(len, self.models_.values()))):
            part = copy(self)
            part.models_ = {
                name: [models[fold if len(models) > 1 else 0]]
                for name, models in self.models_.items()
            }
            pools.append(part)
        return pools

    def predict_proba(self, X: Any) -> Array:
        """Return the pooled posteriors at the training prevalence, shape (m, k)."""
        check_is_fitted(self, "models_")
        jobs = [
            partial(_predict, name, model, X, self.classes_)
            for name, models in self.models_.items()
            for model in models
        ]
        results = iter(run_in_threads(jobs, self.n_threads))
        scores = {
            name: _geometric_mean(models, [next(results) for _ in models], self.classes_)
            for name, models in self.models_.items()
        }
        return pool_posteriors(self.members, np.asarray(self.weights), scores, self.n_threads)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each instance, shape (m,)."""
        posteriors = self.predict_proba(X)
        return np.asarray(self.classes_[posteriors.argmax(axis=1)])

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: X may have the gaps that all classifiers take.

        A sparse matrix at ``fit`` leaves out those that need a dense one.
        """
        tags = super().__sklearn_tags__()
        inner = [get_tags(classifier).input_tags for classifier in self.classifiers.values()]
        tags.input_tags.allow_nan = all(t.allow_nan for t in inner)
        tags.input_tags.sparse = any(t.sparse for t in inner)
        return tags


def pool_of(classifier: Any) -> PooledClassifier | None:
    """Return the pool that is a classifier, or the last step of a pipeline; None: there is none."""
    last = classifier[-1] if isinstance(classifier, Pipeline) else classifier
    return last if isinstance(last, PooledClassifier) else None


def pool_posteriors(
    members: Sequence[FittedMember],
    weights: Array,
    scores: Mapping[str, Posteriors],
    n_threads: int = 1,
) -> Array:
    """Return the pooled posteriors of instances, shape (m, k).

    Parameters
    ----------
    members : sequence of FittedMember
    weights : array of shape (n_members,)
    scores : mapping from the names of classifiers to their posteriors, shape (m, k)
    n_threads : int
    """
    parts = [
        weight * member.posteriors(scores[member.classifier], n_threads)
        for weight, member in zip(weights, members, strict=True)
    ]
    return np.asarray(sum(parts))


def _predict(name: str, model: Any, X: Any, classes: NDArray[Any]) -> Posteriors:
    with openmp_threads(name, _num_samples(X)):
        return predict_posteriors(model, X, classes)


def mean_posteriors(models: Sequence[Any], X: Any, classes: NDArray[Any]) -> Posteriors:
    """Return the normalised geometric mean of the posteriors of several models, shape (m, k).

    BCTS commutes with this mean, so posteriors that were calibrated on one model each stay
    calibrated, but for the noise between the models, which the mean reduces. A model that has not
    seen a class has no say about it.

    Parameters
    ----------
    models : sequence of fitted classifiers
    X : instances, m of them
    classes : array of shape (k,)
    """
    posteriors = [predict_posteriors(model, X, classes) for model in models]
    return _geometric_mean(models, posteriors, classes)


def _geometric_mean(
    models: Sequence[Any], posteriors: Sequence[Posteriors], classes: NDArray[Any]
) -> Posteriors:
    """Return what :func:`mean_posteriors` does, from the posteriors of each model."""
    if len(models) == 1:
        return posteriors[0]
    total: Any = 0.0
    known = np.zeros(len(classes))
    for model, scored in zip(models, posteriors, strict=True):
        seen = np.zeros(len(classes), dtype=np.bool_)
        seen[column_codes(model, classes)] = True
        logs = np.log(np.maximum(scored, _LOG_FLOOR))
        total, known = total + (logs if seen.all() else np.where(seen, logs, 0.0)), known + seen
    logs = np.where(known > 0, total / np.maximum(known, 1), np.log(_LOG_FLOOR))
    return softmax_rows(logs)


def _n_features(X: Any) -> int:
    try:
        return int(_num_features(X))
    except TypeError:  # a list of texts
        return 1
