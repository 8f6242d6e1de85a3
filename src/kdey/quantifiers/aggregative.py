"""Quantifiers defined by a row spec and a matching, on posteriors or on features.

A method declares two things, which are made from its parameters at ``fit``:

``row_spec()``
    how instances become rows and classes become templates (``kdey.rows``);
``matching()``
    which problem is solved with them, and how (``kdey.matching``).

Labels, classifiers, cross-validation, pools and checks are handled here for all methods. The
interface of a fitted quantifier is in ``kdey.fitted``, those of rows and matchings are in
``kdey.rows.base`` and ``kdey.matching.base``; all of them have defaults.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from kdey._parallel import choose_device, device_name, posteriors_on, thread_count
from kdey.arrays import for_numpy, in_class_order, on_gpu, on_host, refuse_levels, refuse_masked
from kdey.bags import Array, Bags, BagsLike
from kdey.classifiers import adapt_classifier
from kdey.gpu.route import device_solver
from kdey.intervals import Estimates, FittedModel, estimate_points
from kdey.matching.base import AnyMatching, OneBag, Solution
from kdey.options import Options
from kdey.posteriors import ClassifierStage, FittedStage, TrainingPosteriors
from kdey.quantifiers.base import (
    BagSolver,
    BaseQuantifier,
    MethodStages,
    PoolWork,
    SettledTable,
    checked_bags,
    unfitted_on_failure,
)
from kdey.quantifiers.on_posteriors import PosteriorsMixin
from kdey.rows.base import RowSpec
from kdey.simplex import check_posteriors
from kdey.validation import check_weights

#: Size up to which the models of the folds are kept without being asked for, in bytes.
FOLD_MODELS_BYTES = 200_000_000


def _kept_bytes(keep_fold_models: bool | str) -> float:
    """Return the size up to which the models of the folds are kept; ValueError if not allowed."""
    if isinstance(keep_fold_models, str) and keep_fold_models == "auto":
        return FOLD_MODELS_BYTES
    if isinstance(keep_fold_models, bool):
        return np.inf if keep_fold_models else 0
    raise ValueError(f"keep_fold_models must be True, False or 'auto', got {keep_fold_models!r}")


class RowQuantifier(BaseQuantifier):
    """A quantifier defined by a row spec and a matching (see the module docstring)."""

    training_: TrainingPosteriors

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        raise NotImplementedError

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        raise NotImplementedError

    def _fit_rows(self, training: TrainingPosteriors, device: str | None = None) -> Self:
        """Make the templates; ``device`` makes an automatic choice, by default ``self.device``."""
        k = len(self.classes_)
        mass = np.bincount(training.labels, weights=training.weights, minlength=k)
        if not (mass > 0).all():
            raise ValueError(
                f"class {self.classes_[np.argmin(mass)]!r} has no training instance to build on: "
                "cv and sample_weight must leave some of every class"
            )
        if training.weights is not None:
            self.prevalence_ = mass / mass.sum()
        place = device_name(self.device) if device is None else device
        matching = self.matching()
        spec, n_threads = self.row_spec().on_device(place), thread_count(self.n_jobs)
        self.tuning_, spec = spec.settle(training, k, n_threads)
        self.row_spec_, self.row_map_ = spec, spec.fit(training, k, n_threads)
        self.matching_ = matching
        self.__dict__.pop("_interval_model", None)
        return self

    def with_training(self, training: TrainingPosteriors) -> Self:
        """Return a copy whose templates are made from other training posteriors.

        The classifier is the same, and so are parameters that were chosen at ``fit``.
        """
        changed = copy(self)
        changed._forget_computed()
        changed.__dict__.pop("_interval_model", None)
        k = len(self.classes_)
        mass = np.bincount(training.labels, weights=training.weights, minlength=k)
        changed.prevalence_ = mass / mass.sum()
        changed.training_ = training
        changed.row_map_ = self.row_spec_.fit(training, k, thread_count(self.n_jobs))
        return changed

    def _pool_points(self, pool: PoolWork) -> NDArray[Any]:
        """Return the input of the row map for a pool: posteriors, or features."""
        raise NotImplementedError

    def _on_pool(self, pool: PoolWork) -> BagSolver:
        return self._on_points(self._pool_points(pool), pool.n_threads(self.n_jobs))

    def _estimates_on(
        self, pool: PoolWork, bags: Bags, options: Options, clusters: ArrayLike | None
    ) -> Estimates:
        points = self._pool_points(pool)
        device = self._device(points)
        return estimate_points(self.interval_model(), points, bags, options, clusters, device)

    def interval_model(self) -> FittedModel:
        """Return the fitted stages for interval estimates, whose preparations are cached."""
        threads = thread_count(self.n_jobs)
        model: FittedModel | None = vars(self).get("_interval_model")
        if model is None or model.n_threads != threads:
            model = FittedModel(
                self.classes_,
                self.prevalence_,
                vars(self).get("row_spec_"),  # absent if the templates were given
                self.row_map_,
                self.matching_,
                vars(self).get("training_"),
                self.takes_posteriors,
                threads,
            )
            self._interval_model = model
        return model

    def _device(self, points: Any) -> Any:
        """Return the torch device for ``points``; None for the native core."""
        may_use_device = on_gpu(points) or not (
            isinstance(self.device, str) and self.device == "cpu"
        )
        if not may_use_device or self.matching_.device_problem(self.row_map_) is None:
            return None
        return choose_device(self.device, self.row_map_.n_pairs(len(points)), points)

    def _on_points(self, points: Any, n_threads: int) -> BagSolver:
        device = self._device(points)
        if device is not None:
            return device_solver(self.row_map_, self.matching_, points, device, n_threads)
        rows = self.row_map_(on_host(points), n_threads)
        return partial(self.matching_.match, self.row_map_, rows, n_threads=n_threads)

    def _divergence_at(
        self, points: NDArray[Any], bags: Bags, prevalence: ArrayLike | None
    ) -> Array:
        n_threads = thread_count(self.n_jobs)
        rows = self.row_map_(points, n_threads)
        if prevalence is None:
            prevalences = self.matching_.match(self.row_map_, rows, bags, n_threads).prevalence
        else:
            shape = (len(bags), len(self.classes_))
            ordered = in_class_order(prevalence, self.classes_, "prevalence")
            values = np.asarray(refuse_masked(ordered, "prevalence"), dtype=np.float64)
            repeated = np.broadcast_to(values, shape)
            prevalences = np.asarray(
                check_posteriors(repeated, name="prevalence"), dtype=np.float64
            )
        return self.matching_.full_objective(self.row_map_, rows, bags, prevalences, n_threads)


class FeatureQuantifier(RowQuantifier):
    """A row quantifier on the features themselves, without a classifier (HDx, DMx)."""

    @unfitted_on_failure
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Make the class templates from the features.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
        """
        points = validate_data(self, refuse_levels(for_numpy(X, "X"), "X"), dtype=np.float64)
        codes = self._start_fit(y)
        check_consistent_length(points, codes)
        weights = None if sample_weight is None else check_weights(sample_weight, len(codes))
        self.training_ = TrainingPosteriors(points, codes, weights)
        return self._fit_rows(self.training_)

    def _check_points(self, X: Any) -> None:
        validate_data(self, refuse_levels(for_numpy(X, "X"), "X"), reset=False, dtype=np.float64)

    def _pool_points(self, pool: PoolWork) -> NDArray[Any]:
        points: NDArray[Any] = check_array(on_host(pool.X), dtype=np.float64)
        return points


class AggregativeQuantifier(PosteriorsMixin, RowQuantifier):
    """A row quantifier on the posteriors of a classifier.

    Parameters
    ----------
    classifier : scikit-learn classifier, optional
        Any classifier with ``predict_proba``; it is cloned, and a ``FrozenEstimator`` is used
        without fitting. Default: ``LogisticRegression(max_iter=1000)``. Without ``predict_proba``,
        methods that count decisions use ``predict``, and methods that learn templates use
        ``decision_function``, assuming that the scores of a class are distributed in a bag as in
        training (:mod:`kdey.classifiers`).
    cv : int, splitter, iterable of splits or float
        How the training posteriors are made: cross-validation, or a held-out fraction; see
        :func:`kdey.posteriors.training_posteriors`.
    random_state : int, RandomState or None
        Seed of the shuffling of folds and of all other random draws of the method.
    n_jobs : int, optional
        Number of classifier fits in parallel, and of threads of the native core.

    Attributes
    ----------
    classifier_ : classifier
        The fitted classifier; absent after ``fit_posteriors``.
    fold_classifiers_ : list of classifiers
        The models of the folds; absent if they were not kept (see ``fit``).
    training_ : :class:`~kdey.posteriors.TrainingPosteriors`
        The training posteriors from which templates were made.
    row_map_ : RowMap
        The fitted row map, with its ``templates``.
    """

    def __init__(
        self,
        classifier: Any = None,
        *,
        cv: Any = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.classifier = classifier
        self.cv = cv
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def needs_posteriors(self) -> bool:
        """Whether ``fit`` needs training posteriors (CC, PCC and plain EMQ do not)."""
        return True

    @property
    def counts_decisions(self) -> bool:
        """Whether it uses no more of a posterior than the class that it decides for (CC, ACC)."""
        return self.row_spec().needs == "decisions"

    @unfitted_on_failure
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        keep_fold_models: bool | Literal["auto"] = "auto",
    ) -> Self:
        """Fit the classifier and make the class templates from its training posteriors.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of n instances
            Passed to the classifier unchanged.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Used by the classifier, if it accepts weights, and by the templates.
        keep_fold_models : bool or "auto"
            Whether to keep the models of the folds (``fold_classifiers_``), with which fit checks
            are sharper; they are part of the model file, too. "auto" keeps them up to 200 MB. It
            changes no estimate, hence it is not a parameter of the quantifier: clones, searches
            and wrappers do not need it.
        """
        keep_bytes = _kept_bytes(keep_fold_models)
        self.stages()  # raises for invalid parameters before any work
        settled = self.settle_table(X)
        X = settled.X
        self._check_training_points(X)
        codes = self._start_fit(y)
        check_consistent_length(X, codes)
        self._warn_of_label_columns(settled, codes)
        stage = settled.quantifier._classifier_stage()
        return self._fit_from_stage(
            stage.fit(X, codes, self.classes_, sample_weight, self.n_jobs, keep_bytes)
        )

    @unfitted_on_failure
    def fit_stage(self, stage: FittedStage, X: Any, y: ArrayLike) -> Self:
        """As :meth:`fit`, with a classifier stage that is already fitted on ``(X, y)``."""
        self.stages()
        self._check_training_points(X)
        self._start_fit(y)
        return self._fit_from_stage(stage)

    def stages(self) -> MethodStages:
        """Return the stages for the parameters; raises ValueError if they are invalid."""
        rows, matching = self.row_spec(), self.matching()
        return MethodStages(self._classifier_stage(), rows, matching, device_name(self.device))

    def _classifier_stage(self) -> ClassifierStage:
        cv = self.cv if self.needs_posteriors else None
        classifier = adapt_classifier(self.inner_estimator(), self.row_spec().needs)
        return ClassifierStage(classifier, cv, self.random_state)

    def settle_table(self, X: Any) -> SettledTable:
        """Settle the schema of a classifier that begins with the features of a table."""
        from kdey.tables.features import settle_schema  # slow to import

        inner = self.inner_estimator()
        classifier, X, schema = settle_schema(inner, X)
        if classifier is inner:
            return SettledTable(self, X, schema)
        return SettledTable(clone(self).set_params(classifier=classifier), X, schema)

    def _fit_from_stage(self, stage: FittedStage) -> Self:
        self.classifier_, self.training_ = stage.classifier, stage.training
        self._forget("fold_classifiers_", "table_")  # of an earlier fit
        if stage.fold_classifiers is not None:
            self.keep_fold_classifiers(stage.fold_classifiers)
        return self._fit_rows(self.training_)

    @unfitted_on_failure
    def fit_posteriors(
        self,
        posteriors: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Make the class templates from posteriors, without a classifier.

        Parameters
        ----------
        posteriors : array-like, data frame or tensor of shape (n, k)
            Posteriors of labelled instances by a classifier that was not fitted on them, one
            column per class in sorted order; the columns of a data frame are matched by name.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
        classes : array-like of shape (k,), optional
            The classes, sorted; by default the labels that occur in ``y``.
        """
        codes = self._start_fit(y, classes)
        p = check_posteriors(posteriors, classes=self.classes_)
        check_consistent_length(p, codes)
        weights = None if sample_weight is None else check_weights(sample_weight, len(codes))
        self._forget_classifier()
        self.training_ = TrainingPosteriors(p, codes, weights)
        device = device_name(self.device)
        return self._fit_rows(
            self.training_, str(posteriors.device) if on_gpu(posteriors) else device
        )

    def inner_estimator(self) -> Any:
        """Return the unfitted classifier that X is passed to."""
        from sklearn.linear_model import LogisticRegression  # slow to import

        return LogisticRegression(max_iter=1000) if self.classifier is None else self.classifier

    def _forget_classifier(self) -> None:
        self._forget("classifier_", "fold_classifiers_", "n_features_in_", "feature_names_in_")
        self._forget("table_")

    def _forget(self, *names: str) -> None:
        for name in names:
            self.__dict__.pop(name, None)

    def _pool_points(self, pool: PoolWork) -> NDArray[Any]:
        if self.fitted_classifier is None:
            raise ValueError(
                f"this {type(self).__name__} was fitted on posteriors and has no classifier: "
                "use aggregate, aggregate_bags or estimate_posteriors"
            )
        return pool.posteriors(self.fitted_classifier, self.classes_)

    def _estimates_from(
        self,
        posteriors: NDArray[np.floating],
        bags: Bags,
        options: Options,
        clusters: ArrayLike | None,
    ) -> Estimates:
        device = self._device(posteriors)
        return estimate_points(self.interval_model(), posteriors, bags, options, clusters, device)

    def _checked_posteriors(self, posteriors: Any) -> Any:
        device = self._device(posteriors)
        return posteriors_on(posteriors, self.classes_, device)

    def _solve_posteriors(self, posteriors: NDArray[np.floating], bags: Bags) -> Solution:
        return self._on_points(posteriors, thread_count(self.n_jobs))(bags)

    def one_bag(self) -> OneBag | None:
        """Return a faster way to the same answer for one bag on the host; None if there is none."""
        if not (isinstance(self.device, str) and self.device == "cpu"):
            return None
        row_map, matching = self.row_map_, self.matching_
        return row_map.derived("one bag", lambda: matching.one_bag(row_map))

    def prepare(self) -> None:
        """Pack the references of kernels, which otherwise the first answer does."""
        self.row_map_.prepare(thread_count(self.n_jobs))

    def divergence_at(
        self,
        posteriors: ArrayLike,
        prevalence: ArrayLike | None = None,
        bags: BagsLike | None = None,
    ) -> Array:
        """Return the method's full objective, shape (n_bags,).

        It includes the terms that do not depend on the prevalence and that ``solve`` omits (the
        test-test term of Cauchy-Schwarz and L2).

        Parameters
        ----------
        posteriors : array-like of shape (m, k)
        prevalence : array-like of shape (k,) or (n_bags, k), optional
            Where to evaluate; by default at the solution.
        bags : see :meth:`solve`
        """
        self._check_fitted()
        p = check_posteriors(posteriors, classes=self.classes_)
        return self._divergence_at(p, checked_bags(bags, len(p)), prevalence)
