"""The named methods: each a row spec and a matching, or a wrapper around other quantifiers.

``base`` has the base class of all quantifiers. Here is that of methods on rows, of posteriors or of
features: a new method is a subclass of :class:`AggregativeQuantifier` (see CONTRIBUTING). It
declares two things, which are made from its parameters at ``fit``:

``row_spec()``
    how instances become rows and classes become templates (``kdey.rows``);
``matching()``
    which problem is solved with them, and how (``kdey.matching``).

Labels, classifiers, cross-validation, pools and checks are handled here for all methods. The
interfaces of rows and matchings are in ``kdey.rows`` and ``kdey.matching``; all of them have
defaults.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length, validate_data

from kdey._display import warn
from kdey.bags import Array
from kdey.classifiers import adapt_classifier
from kdey.matching import AnyMatching
from kdey.model import Model
from kdey.native import thread_count
from kdey.posteriors import (
    ClassifierStage,
    FittedStage,
    TrainingPosteriors,
    given_stage,
    training_clusters,
)
from kdey.quantifiers.base import (
    BaseQuantifier,
    PosteriorsMixin,
    Stages,
    shares_of,
    unfitted_on_failure,
)
from kdey.rows import RowMap, RowSpec, TuningRecord
from kdey.simplex import check_posteriors
from kdey.tuning import choose_strength
from kdey.tuning.trials import TuningPlan
from kdey.validation import (
    RepeatedIdsWarning,
    check_same_rows,
    check_weights,
    device_name,
    for_numpy,
    on_gpu,
    on_host,
    refuse_levels,
)

if TYPE_CHECKING:
    from kdey.quantifiers.updating import Update
    from kdey.tables.schema import TableSchema

__all__ = ["AggregativeQuantifier", "BaseQuantifier", "FeatureQuantifier"]

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

    model_: Model = field(init=False)

    def _plan(self) -> TuningPlan:
        """Return the criterion of an automatic choice; raises ValueError if it is invalid."""
        return TuningPlan(random_state=self.random_state)

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        raise NotImplementedError

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        raise NotImplementedError

    @property
    def row_map_(self) -> RowMap:
        """The fitted row map, with its ``templates``."""
        return self.model_.row_map

    @property
    def tuning_(self) -> TuningRecord | None:
        """The record of an automatic choice; None if nothing was left to choose."""
        return self.model_.tuning

    @property
    def training_(self) -> TrainingPosteriors:
        """The training posteriors or features from which templates were made."""
        if self.model_.training is None:
            raise AttributeError(f"this {type(self).__name__} has no training data")
        return self.model_.training

    def _make_model(
        self,
        stage: FittedStage,
        classes: NDArray[Any],
        *,
        prevalence: Array | None = None,
        device: str | None = None,
        rows: RowSpec | None = None,
        score_names: tuple[str, ...] | None = None,
    ) -> Self:
        """Make the templates, and set the model.

        Parameters
        ----------
        stage : FittedStage
            The training posteriors or features, with the classifier that gives those of bags.
        classes : array of shape (k,)
        prevalence : array of shape (k,), optional
            Of all labels; by default that of the training rows, which is used in any case if they
            have weights.
        device : str, optional
            Makes an automatic choice; by default ``self.device``.
        rows : RowSpec, optional
            By default those of the parameters.
        score_names : tuple of str, optional
            The models whose posteriors are given side by side.
        """
        training, k = stage.training, len(classes)
        mass = np.bincount(training.labels, weights=training.weights, minlength=k)
        if not (mass > 0).all():
            raise ValueError(
                f"class {classes[np.argmin(mass)]!r} has no training instance to build on: "
                "cv and sample_weight must leave some of every class"
            )
        if prevalence is None or training.weights is not None:
            prevalence = mass / mass.sum()
        device = device_name(self.device) if device is None else device
        spec = self.row_spec() if rows is None else rows
        n_threads = thread_count(self.n_jobs)
        matching = self.matching()  # raises for invalid parameters before any work
        tuning, spec = spec.on_device(device).choose(training, k, n_threads)
        if self._chooses_matching:
            plan = replace(self._plan(), device=device)
            data = (training, k, n_threads)
            tuning, matching = choose_strength(spec, self._penalised, plan, *data)
        row_map = spec.fit(training, k, n_threads)
        self.model_ = Model(
            *(classes, prevalence, spec, row_map, matching, training),
            takes_posteriors=self._takes_posteriors,
            scorer=self._scorer(
                classifier=stage.classifier, fold_models=stage.fold_models, score_names=score_names
            ),
            tuning=tuning,
        )
        return self

    def _fit_templates(
        self,
        stage: FittedStage,
        X: Any,
        codes: NDArray[np.int64],
        classes: NDArray[Any],
        sample_weight: ArrayLike | None = None,
        clusters: NDArray[np.int64] | None = None,
    ) -> Self:
        """Make the model, which keeps how the columns of the training data lie in each class."""
        from kdey.tables.templates import learn_columns  # slow to import

        self._make_model(stage, classes, prevalence=shares_of(codes, None, len(classes)))
        weights = None if sample_weight is None else check_weights(sample_weight, len(codes))
        model = self.model_
        columns = learn_columns(
            *(X, codes, model.n_classes),
            schema=model.table_schema,
            names=model.scorer.feature_names,
            weights=weights,
            clusters=clusters,
        )
        self.model_ = replace(model, columns=columns)
        return self

    def _keep_strata(self, strata: ArrayLike | None, n_rows: int) -> Self:
        """Keep with the model the stratum of each of the rows that ``fit`` was given."""
        if strata is None:
            return self
        codes, training = _codes_of_strata(strata, n_rows), self._training_for("strata")
        used = slice(None) if training.instances is None else training.instances
        self.model_ = replace(self.model_, training=replace(training, strata=codes[used]))
        return self

    def _training_for(self, asked: str) -> TrainingPosteriors:
        """Return the training posteriors or features, which ``asked`` cannot do without."""
        training = self.model_.training
        if training is None or training.posteriors is None:
            raise ValueError(
                f"{asked}: this {type(self).__name__} keeps no training posteriors, from which "
                "templates could be made; use a method that does (Quantifier, KDEyML, PACC, EMQ "
                "with calibration)"
            )
        return training

    def update(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        clusters: ArrayLike | None = None,
        strata: ArrayLike | None = None,
    ) -> Update:
        """Learn new labelled rows: templates and calibration change, the classifier does not.

        The rows must be new to the classifier, and those of each class drawn as in the bags to
        come; the shares of the classes among them do not matter. Parameters that ``fit`` chose
        stay. Takes the time of scoring these rows; :doc:`/when-to-refit` says when to fit again.

        Parameters
        ----------
        X : instances, m of them
            Their posteriors, if the quantifier was fitted on posteriors.
        y : array-like of shape (m,)
            Labels among ``classes_``.
        sample_weight : array-like of shape (m,), optional
            On the scale of the weights at ``fit``.
        clusters : array-like of shape (m,), optional
            Id of the cluster in which each row was drawn; none of them may be among those of
            earlier rows.
        strata : array-like of shape (m,), optional
            Needed where ``fit`` had strata.

        Returns
        -------
        Update
            What has changed: rows, shares, errors, and classes whose new rows look different.

        Raises
        ------
        ValueError
            If the method keeps no training posteriors, or y holds a class that it has not seen.
        """
        from kdey.quantifiers.updating import updated  # slow to import

        model, place = self._fitted_model(), self._place()
        assert isinstance(model, Model), "rows and a matching make a model"
        known, instances = self._training_for("update"), None
        check_same_rows(X, y, "y")
        if model.takes_posteriors and model.scorer.classifier is None:
            points = model.points_from_posteriors(X, place)
        else:
            instances = self._read(X)[0]
            points = model.points(instances)
        if (known.strata is None) != (strata is None):
            raise ValueError(
                "strata: the quantifier was fitted without strata"
                if strata is not None
                else "strata: the quantifier was fitted with strata, and needs those of new rows"
            )
        points = on_host(points)
        self.model_, account = updated(
            *(model, points, y),
            X=instances,
            sample_weight=sample_weight,
            clusters=clusters,
            strata=None if strata is None else _codes_of_strata(strata, len(points)),
            place=place,
        )
        return account

    def _penalised(self, strength: float) -> AnyMatching:
        """Return the matching with a penalty, for methods that choose its strength at ``fit``."""
        raise NotImplementedError


def _codes_of_strata(strata: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    """Return what stands for the stratum of each row, whatever the type of its name."""
    from kdey._fingerprints import text_hashes
    from kdey.tables import canonical_text  # slow to import

    values = np.asarray(for_numpy(strata, "strata"))
    if values.shape != (n_rows,):
        raise ValueError(
            f"strata must have one value per instance, shape ({n_rows},), got {values.shape}"
        )
    return text_hashes(map(canonical_text, values.tolist())).view(np.int64)


class TunedQuantifier(RowQuantifier):
    """A row quantifier with a parameter that is chosen at ``fit`` where it is "auto"."""

    tune_for: Any = "ae"
    tune_bag_size: int = 500
    #: Name of that parameter.
    _chosen_at_fit: ClassVar[str]

    @property
    def _tunes(self) -> bool:
        value = getattr(self, self._chosen_at_fit)
        return isinstance(value, str) and value == "auto"

    @property
    def _draws_at_fit(self) -> bool:
        return self._tunes

    def _plan(self) -> TuningPlan:
        return TuningPlan(self.tune_for, self.tune_bag_size, self.random_state)


class FeatureQuantifier(RowQuantifier):
    """A row quantifier on the features themselves, without a classifier (HDx, DMx)."""

    n_jobs: int | None = None

    @unfitted_on_failure
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        clusters: ArrayLike | None = None,
        strata: ArrayLike | None = None,
    ) -> Self:
        """Make the class templates from the features.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
        clusters : array-like of shape (n,), optional
            Id of the cluster (patient, user, document) in which each instance was drawn, if they
            were not drawn one by one: folds leave clusters whole, and intervals allow for it.
        strata : array-like of shape (n,), optional
            The shop, language or season of each instance, where a class looks different in each:
            tables that are estimated with ``strata`` then have templates for each, shrunk towards
            the common ones. Methods that keep no training posteriors refuse it.
        """
        points = validate_data(self, refuse_levels(for_numpy(X, "X"), "X"), dtype=np.float64)
        codes, classes = self._labels(y)
        drawn = training_clusters(clusters, len(codes))
        stage = given_stage(points, codes, sample_weight, drawn)
        self._fit_templates(stage, X, codes, classes, sample_weight, drawn)
        return self._keep_strata(strata, len(codes))

    def _check_points(self, X: Any) -> None:
        validate_data(self, refuse_levels(for_numpy(X, "X"), "X"), reset=False, dtype=np.float64)


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
    model_ : :class:`~kdey.model.Model`
        All that was learnt.
    classifier_ : classifier
        The fitted classifier; absent after ``fit_posteriors``.
    fold_models_ : list of classifiers
        The models of the folds; absent if they were not kept (see ``fit``).
    training_ : :class:`~kdey.posteriors.TrainingPosteriors`
        The training posteriors from which templates were made.
    row_map_ : RowMap
        The fitted row map, with its ``templates``.
    tuning_ : TuningRecord or None
        The record of an automatic choice.
    """

    classifier: Any = field(default=None, kw_only=False)
    cv: Any = 5
    random_state: Any = None
    n_jobs: int | None = None

    @property
    def _needs_posteriors(self) -> bool:
        """Whether ``fit`` needs training posteriors (CC, PCC and plain EMQ do not)."""
        return True

    @property
    def classifier_(self) -> Any:
        """The fitted classifier; absent after ``fit_posteriors``."""
        classifier = self.model_.scorer.classifier
        if classifier is None:
            raise AttributeError(f"this {type(self).__name__} was fitted without a classifier")
        return classifier

    @property
    def fold_models_(self) -> list[Any]:
        """The models of the folds; absent if they were not kept."""
        models = self.model_.scorer.fold_models
        if models is None:
            raise AttributeError(f"this {type(self).__name__} keeps no models of the folds")
        return list(models)

    @unfitted_on_failure
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        clusters: ArrayLike | None = None,
        strata: ArrayLike | None = None,
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
        clusters : array-like of shape (n,), optional
            Id of the cluster (patient, user, document) in which each instance was drawn, if they
            were not drawn one by one: folds leave clusters whole, and intervals allow for it.
        strata : array-like of shape (n,), optional
            The shop, language or season of each instance, where a class looks different in each:
            tables that are estimated with ``strata`` then have templates for each, shrunk towards
            the common ones. Methods that keep no training posteriors refuse it.
        keep_fold_models : bool or "auto"
            Whether to keep the models of the folds (``fold_models_``), with which fit checks
            are sharper; they are part of the model file, too. "auto" keeps them up to 200 MB. It
            changes no estimate, hence it is not a parameter of the quantifier: clones, searches
            and wrappers do not need it.
        """
        keep_bytes = _kept_bytes(keep_fold_models)
        stage, X, codes, classes, drawn = self._training_data(X, y, clusters)
        data = (X, codes, classes, sample_weight)
        fitted = stage.fit(*data, self.n_jobs, keep_bytes, drawn)
        return self._fit_templates(fitted, *data, drawn)._keep_strata(strata, len(codes))

    def _training_data(
        self, X: Any, y: ArrayLike, clusters: ArrayLike | None
    ) -> tuple[ClassifierStage, Any, NDArray[np.int64], NDArray[Any], NDArray[np.int64] | None]:
        """Return the classifier stage, and instances, codes, classes and clusters to fit it on.

        Without clusters, ids that repeat are worth a warning.
        """
        stage, *_ = self._stages()  # raises for invalid parameters before any work
        if clusters is None and hasattr(X, "columns"):
            from kdey.tables.training import repeated_ids_note  # slow to import

            note = repeated_ids_note(X)
            if note:
                warn(note, RepeatedIdsWarning)
        reader, X, schema = self._read_training(X)
        self._remember_features(X)
        codes, classes = self._labels(y)
        check_consistent_length(X, codes)
        self._warn_of_label_columns(X, schema, codes)
        if reader is not self:  # the classifier now knows the table
            stage = reader._classifier_stage()
        return stage, X, codes, classes, training_clusters(clusters, len(codes))

    @unfitted_on_failure
    def _fit_stage(
        self, stage: FittedStage, X: Any, y: ArrayLike, clusters: NDArray[np.int64] | None = None
    ) -> Self:
        self._stages()
        _, X, _ = self._read_training(X)
        self._remember_features(X)
        codes, classes = self._labels(y)
        return self._fit_templates(stage, X, codes, classes, clusters=clusters)

    def _stages(self) -> Stages:
        rows, matching = self.row_spec(), self.matching()
        return self._classifier_stage(), rows, matching

    def _classifier_stage(self) -> ClassifierStage:
        cv = self.cv if self._needs_posteriors else None
        classifier = adapt_classifier(self._inner_estimator(), self.row_spec().needs)
        return ClassifierStage(classifier, cv, self.random_state)

    def _read_training(self, X: Any) -> tuple[Self, Any, TableSchema | None]:
        """Learn the schema of a classifier that begins with the features of a table."""
        inner = self._inner_estimator()
        if not hasattr(inner, "steps"):  # no pipeline, so that nothing reads tables
            return self, X, None
        from kdey.tables.features import learn_schema_once  # slow to import

        classifier, X, schema = learn_schema_once(inner, X)
        reader = self if classifier is inner else clone(self).set_params(classifier=classifier)
        return reader, X, schema

    @unfitted_on_failure
    def fit_posteriors(
        self,
        posteriors: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        strata: ArrayLike | None = None,
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
        clusters : array-like of shape (n,), optional
            Id of the cluster (patient, user, document) in which each instance was drawn, if they
            were not drawn one by one: intervals allow for it.
        strata : array-like of shape (n,), optional
            The shop, language or season of each instance, where a class looks different in each:
            tables that are estimated with ``strata`` then have templates for each, shrunk towards
            the common ones. Methods that keep no training posteriors refuse it.
        """
        codes, known = self._labels(y, classes)
        p = check_posteriors(posteriors, classes=known)
        drawn = training_clusters(clusters, len(codes))
        stage = given_stage(p, codes, sample_weight, drawn)
        self._forget_features()
        device = str(posteriors.device) if on_gpu(posteriors) else None
        self._make_model(stage, known, device=device)
        return self._keep_strata(strata, len(codes))

    def _inner_estimator(self) -> Any:
        """Return the unfitted classifier that X is passed to."""
        from sklearn.linear_model import LogisticRegression  # slow to import

        return LogisticRegression(max_iter=1000) if self.classifier is None else self.classifier

    def _forget_features(self) -> None:
        """Drop what scikit-learn keeps of the instances of an earlier fit."""
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
