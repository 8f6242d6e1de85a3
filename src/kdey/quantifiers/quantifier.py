"""Quantifier: the best answer from a table, with nothing to choose.

Several classifiers and methods are combined by stacking (``kdey.stacking``). The combination is one
classifier whose posteriors are recalibrated and matched by maximum likelihood, so it is an
aggregative quantifier like the others, with another classifier stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from os import PathLike
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from kdey._display import Words, muted, warn
from kdey.calibration import SeparableWarning
from kdey.matching import AnyMatching
from kdey.matching.likelihood import MaximiseLikelihood
from kdey.model import ONLY_SCORES, InstanceScorer
from kdey.native import thread_count
from kdey.posteriors import FittedStage, given_stage, training_clusters
from kdey.quantifiers import AggregativeQuantifier
from kdey.quantifiers.base import unfitted_on_failure
from kdey.quantifiers.densities import EMQ, KDEyML
from kdey.rows import RowSpec
from kdey.stacking import (
    EFFORTS,
    MemberWarning,
    PooledStage,
    portfolio,
    sampled_rows,
)
from kdey.stacking.pooled_classifier import MemberMethod, PooledClassifier, pool_of, usable_methods
from kdey.stacking.pooled_rows import PooledMap, SmoothedRatioRows, StackRecord
from kdey.tables.features import TableFeatures, is_matrix, table_features
from kdey.tables.schema import TableSchema
from kdey.tuning.trials import Tuning, TuningPlan
from kdey.validation import check_choice, refuse_levels, take_rows

#: Posteriors of one model, or of several by name.
Scores: TypeAlias = "ArrayLike | Mapping[str, ArrayLike]"


class Quantifier(AggregativeQuantifier):
    r"""Several classifiers and methods combined, chosen and weighted by held-out likelihood.

    What to take if you do not want to choose. It needs a table or an array, in which numbers may
    be missing and columns may be categories or texts, and labels.

    Parameters
    ----------
    classifiers : "auto", str, classifier, sequence of these, or mapping from names to classifiers
        "auto" takes logistic regression, extra trees and gradient boosting, each with the
        preparation that it needs; for text and sparse columns naive Bayes instead of boosting, and
        no trees where these have more than 5e8 cells. Names select among them. Other classifiers
        need ``predict_proba``, and a ``FrozenEstimator`` is used without fitting.
    methods : "auto" or sequence of quantifiers
        "auto" takes KDEy-ML and EMQ with BCTS; other methods must maximise a mixture likelihood
        (``DIR()``). Kernel methods take part only if there are 200 labels.
    tune_for : str or Metric
        The error to minimise: "ae", "rae" or another of :mod:`kdey.metrics`.
    effort : {"low", "default", "high"}
        Number of folds, trees and rounds of boosting.
    time_limit : float, optional
        Seconds for the fits of classifiers. Where it is short, classifiers are left out from the
        last to the first, and named in a warning; the first one is always fitted.
    size_limit : float, optional
        Bytes that the models may take in a file; the largest classifiers are left out until they
        fit, and named in a warning.
    schema : TableSchema, optional
        What the columns of a table are taken for (:func:`~kdey.tables.training.learn_schema`); by
        default ``fit`` decides it for a data frame.
    random_state : int, RandomState or None
        Seed of the folds, of the classifiers in the portfolio and of all other draws.
    n_jobs : int, optional
        Number of classifier fits in parallel, and of threads of the native core.

    Attributes
    ----------
    classifier_ : :class:`~kdey.stacking.PooledClassifier`
        The pool as a classifier; absent after ``fit_posteriors``.
    stack_ : :class:`~kdey.stacking.StackRecord`
        Members, weights, held-out losses, and what was left out.
    tuning_ : :class:`~kdey.tuning.Tuning`
        The choice of power and pseudo-instances on held-out bags.

    See Also
    --------
    kdey.KDEyML : Kernel densities by maximum likelihood.
    kdey.EMQ : Maximum likelihood with a classifier's posteriors.
    kdey.GridSearchQ : Search over a grid.

    Notes
    -----
    Every pair of a classifier and a likelihood method is a member with a predictive distribution
    :math:`p^m(i | x)` at the training prevalence :math:`\pi`. Their linear pool
    :math:`p = \sum_m w_m p^m`, with the weights that make the held-out labels most likely, is
    recalibrated, and the prevalences of a bag maximise its likelihood,

    .. math:: \max_{\alpha \in \Delta} \sum_j \log \sum_i \alpha_i \frac{p(i | x_j)}{\pi_i}.

    References
    ----------
    Moreo, A., González, P. and del Coz, J. J. (2025). Kernel density estimation for multiclass
    quantification. Machine Learning, 114, 92. arXiv:2401.00490.

    Saerens, M., Latinne, P. and Decaestecker, C. (2002). Adjusting the outputs of a classifier
    to new a priori probabilities: a simple procedure. Neural Computation, 14(1).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import Quantifier
    >>> X, y = load_iris(return_X_y=True)
    >>> q = Quantifier(effort="low", random_state=0).fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    classifier: Any = field(init=False)
    cv: Any = field(init=False)
    classifiers: Any = field(default="auto", kw_only=False)
    methods: Any = "auto"
    tune_for: Any = "ae"
    effort: str = "default"
    time_limit: float | None = None
    size_limit: float | None = 60e6
    schema: TableSchema | None = None
    device: Any = "cpu"

    @property
    def _draws_at_fit(self) -> bool:
        return True  # bags are drawn to choose the smoothing

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
        cache: str | PathLike[str] | None = None,
    ) -> Self:
        """Fit all classifiers by cross-validation and pool them.

        Of more than 100,000 instances a random sample of this size is used, and a warning says so.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of n instances
            Numbers may be missing (NaN). With a ``schema``, an array holds its features.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
        clusters : array-like of shape (n,), optional
            Id of the cluster (patient, user, document) in which each instance was drawn, if they
            were not drawn one by one: folds leave clusters whole, and intervals allow for it.
        strata : array-like of shape (n,), optional
            The shop, language or season of each instance, where a class looks different in each:
            tables that are estimated with ``strata`` then have templates for each, shrunk towards
            the common ones. Methods that keep no training posteriors refuse it.
        keep_fold_models : bool or "auto"
            Not used: the models of the folds score new instances, and are kept in any case.
        cache : path-like, optional
            A folder for the fits of each classifier. A fit that was stopped goes on from there
            if it is called again with the same data and parameters. The files are pickles, which
            can run code when read: a folder that others can write to is refused.
        """
        stage, X, codes, classes, drawn = self._training_data(X, y, clusters)
        assert isinstance(stage, PooledStage), "this stage fits all classifiers"
        if (rows := sampled_rows(codes, stage.random_state)) is not None:
            warn(
                f"{len(codes):,} training instances: a random sample of {len(rows):,} is used, "
                "beyond which memory and time grow and estimates hardly change",
                MemberWarning,
            )
            X, codes = take_rows(X, rows), codes[rows]
            sample_weight, drawn, strata = (
                None if values is None else np.asarray(values)[rows]
                for values in (sample_weight, drawn, strata)
            )
        data = (X, codes, classes, sample_weight)
        fitted = stage.fit(*data, self.n_jobs, clusters=drawn, cache=cache)
        return self._fit_templates(fitted, *data, drawn)._keep_strata(strata, len(codes))

    def _read_training(self, X: Any) -> tuple[Self, Any, TableSchema | None]:
        """Decide what the columns of a data frame are taken for, unless a schema says it.

        A frame whose columns are numbered instead of named is a matrix.
        """
        refuse_levels(X, "X")
        if self.schema is not None:
            return self, table_features(self.schema, X), self.schema
        if is_matrix(X) or not hasattr(X, "columns"):
            return self, X, None
        names = getattr(X, "column_names", X.columns)  # of Arrow and of the others
        if not any(isinstance(name, str) for name in names):
            return self, np.asarray(X), None
        step = TableFeatures().fit(X)
        # A seed that is a RandomState is shared, not copied, as it is without a table.
        reader = clone(self).set_params(schema=step.schema_, random_state=self.random_state)
        return reader, step.transform(X), step.schema_

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``n_jobs`` also holds for the fitted pool, which scores instances."""
        super().set_params(**params)
        fitted = vars(self).get("model_")
        pool = None if fitted is None else pool_of(fitted.scorer.classifier)
        if pool is not None and "n_jobs" in params:
            pool.n_threads = thread_count(self.n_jobs)
        return self

    def _make_model(self, stage: FittedStage, classes: NDArray[Any], **options: Any) -> Self:
        """Make the model of classifiers or of given scores."""
        with muted(SeparableWarning):  # a pool without errors is nothing to worry about
            return super()._make_model(stage, classes, **options)

    @property
    def stack_(self) -> StackRecord:
        """Members, weights, held-out losses, and what was left out."""
        model, n_threads = self.model_, thread_count(self.n_jobs)
        row_map, pool = model.row_map, pool_of(model.scorer.classifier)
        if isinstance(row_map, PooledMap):
            training = self.training_
            return model.derived("stack", lambda: row_map.record(training, n_threads))
        assert pool is not None, "the stage of a pool returns one"
        record: StackRecord = pool.record_
        return record

    @unfitted_on_failure
    def fit_posteriors(
        self,
        posteriors: Scores,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        strata: ArrayLike | None = None,
    ) -> Self:
        """Pool the methods on given posteriors, without a classifier.

        Parameters
        ----------
        posteriors : array-like of shape (n, k), or mapping from names to such arrays
            Posteriors of labelled instances by one or several models that were not fitted on them
            (judges, annotators' models), one column per class in sorted order. Bags then need
            posteriors of the same models, under the same names.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
        classes : array-like of shape (k,), optional
            The classes, sorted; by default the labels that occur in ``y``.
        clusters : array-like of shape (n,), optional
            Id of the cluster (patient, user, document) in which each instance was drawn, if they
            were not drawn one by one: folds leave clusters whole, and intervals allow for it.
        strata : array-like of shape (n,), optional
            The shop, language or season of each instance, where a class looks different in each:
            tables that are estimated with ``strata`` then have templates for each, shrunk towards
            the common ones. Methods that keep no training posteriors refuse it.
        """
        self._stages()
        codes, known = self._labels(y, classes)
        names = _score_names(posteriors)
        p = InstanceScorer(score_names=names).matrix(posteriors, known)
        drawn = training_clusters(clusters, len(codes))
        stage = given_stage(p, codes, sample_weight, drawn)
        self._forget_features()
        methods = usable_methods(self._member_methods(), stage.training)
        rows = PooledMap(names, methods, SmoothedRatioRows(self._plan()))
        self._make_model(stage, known, rows=rows, score_names=names)
        return self._keep_strata(strata, len(codes))

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return SmoothedRatioRows(self._plan())

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MaximiseLikelihood(log_rows=False)

    def _inner_estimator(self) -> Any:
        """Return the unfitted pool of all classifiers, whose tags say what X may be."""
        try:
            candidates = portfolio(self.classifiers, None, "default")
        except (TypeError, ValueError):  # refused at fit, with a message
            candidates = {}
        return PooledClassifier({name: made for name, (made, _) in candidates.items()}, (), ())

    def _plan(self) -> TuningPlan:
        return TuningPlan(self.tune_for, random_state=self.random_state)

    def _classifier_stage(self) -> PooledStage:
        if self.schema is not None and not isinstance(self.schema, TableSchema):
            raise TypeError(f"schema must be a TableSchema or None, got {self.schema!r}")
        folds, *_ = EFFORTS[check_choice(self.effort, "effort", EFFORTS)]
        return PooledStage(
            self.classifiers,
            folds,
            # Folds are shuffled in any case: tables are often sorted by class or time.
            0 if self.random_state is None else self.random_state,
            self.effort,
            self._member_methods(),
            self.time_limit,
            self.size_limit,
            self.schema,
        )

    def _member_methods(self) -> tuple[MemberMethod, ...]:
        if isinstance(self.methods, str) and self.methods == "auto":
            seed = self.random_state
            named: list[tuple[str, Any]] = [
                # All geometries take part, and the pool keeps the kernels that it needs.
                ("KDEy-ML", KDEyML(tune_for=self.tune_for, average=5, random_state=seed)),
                ("EMQ-BCTS", EMQ(calibration="bcts")),
            ]
        elif isinstance(self.methods, Iterable) and not isinstance(self.methods, str | Mapping):
            named = [(type(method).__name__, method) for method in self.methods]
        else:
            raise ValueError(
                f'methods must be "auto" or a list of quantifiers, got {self.methods!r}'
            )
        if not named:
            raise ValueError('methods is empty: name at least one, or use "auto"')
        return tuple(_member_method(name, method) for name, method in named)

    @property
    def _description(self) -> str:
        """The classifiers and methods of the pool, in a sentence."""
        self._fitted_model()
        return self.stack_.description()

    def summary(self) -> str:
        """Return a sentence or two about the pool and its error on held-out bags."""
        self._fitted_model()
        return self.stack_.summary(self._smoothing())

    def explain(self) -> str:
        """Return in words what the pool consists of, how good it is, and what was left out."""
        self._fitted_model()
        return Words(self.stack_.explanation(self._smoothing(), len(self.classes_)))

    def _smoothing(self) -> Tuning:
        assert isinstance(self.tuning_, Tuning), "the smoothing of the pool is always chosen"
        return self.tuning_


def _member_method(name: str, method: Any) -> MemberMethod:
    likelihood = None
    if isinstance(method, AggregativeQuantifier):
        _, rows, matching = method._stages()
        likelihood = matching.likelihood
    if likelihood is None:
        raise ValueError(
            f"methods: {method!r} does not maximise a mixture likelihood; use KDEyML, EMQ or DIR"
        )
    return MemberMethod(name, rows, likelihood.log_rows)


def _score_names(posteriors: Scores) -> tuple[str, ...]:
    if not isinstance(posteriors, Mapping):
        return (ONLY_SCORES,)
    if not posteriors:
        raise ValueError("posteriors is empty: it must map names to arrays")
    return tuple(str(name) for name in posteriors)
