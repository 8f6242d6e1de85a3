"""The base class of all quantifiers: scikit-learn estimators from bags to prevalences.

:class:`BaseQuantifier` has the public methods for instances; those for posteriors are in
:mod:`kdey.quantifiers.on_posteriors`. The work per instance is done once per pool
(:class:`PoolWork`), for all bags.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from kdey._display import (
    Overview,
    bar_column,
    percentages,
    row_names,
    share_decimals,
    text_column,
    warn,
    write_out,
)
from kdey._parallel import thread_count
from kdey.arrays import on_host, refuse_levels, refuse_masked
from kdey.bags import Array, Bags, BagsLike, as_bags
from kdey.intervals import Estimate, Estimates, FittedModel, estimate_solver
from kdey.labelled import Labelled, LabelledEstimate, estimate_labelled
from kdey.matching.base import AnyMatching, Solution
from kdey.options import Options
from kdey.posteriors import ClassifierStage, FittedStage, Posteriors, predict_posteriors
from kdey.quantifiers.shared_parameters import SHARED_PARAMETERS
from kdey.rows.base import RowSpec, TuningRecord
from kdey.status import MOST_UNSEEN, UNSEEN_VALUES
from kdey.tables.schema import TableSchema
from kdey.validation import (
    FewLabelsWarning,
    LabelColumnWarning,
    few_labels_note,
    label_columns_note,
    training_labels,
)

#: From bags over a pool to their solutions; the work per instance is already done.
BagSolver: TypeAlias = Callable[[Bags], Solution]


@dataclass(frozen=True, eq=False)
class PoolWork:
    """A pool with the posteriors of its instances, which are computed once per classifier.

    Attributes
    ----------
    X : instances of the pool
    n_jobs : int, optional
        Native threads; overrides the ``n_jobs`` of quantifiers.
    """

    X: Any
    n_jobs: int | None = None
    # The classifier is kept with its posteriors, so that its id is not reused.
    _posteriors: dict[Any, tuple[Any, Posteriors]] = field(default_factory=dict, repr=False)

    def posteriors(self, classifier: Any, classes: NDArray[Any]) -> Posteriors:
        """Return the posteriors of the pool, shape (m, k), computed once per classifier object."""
        key = (id(classifier), tuple(np.asarray(classes).tolist()))
        if key not in self._posteriors:
            computed = predict_posteriors(classifier, self.X, classes, stay=True)
            self._posteriors[key] = (classifier, computed)
        return self._posteriors[key][1]

    def n_threads(self, n_jobs: int | None) -> int:
        """Return the number of native threads for a quantifier with this ``n_jobs``."""
        return thread_count(n_jobs if self.n_jobs is None else self.n_jobs)


@dataclass(frozen=True, eq=False)
class MethodStages:
    """The stages of a method; a search computes each once for all candidates that share it.

    Attributes
    ----------
    classifier : ClassifierStage
    rows : RowSpec
    matching : Matching
    device : str
    """

    classifier: ClassifierStage
    rows: RowSpec
    matching: AnyMatching
    device: str


@dataclass(frozen=True, eq=False)
class SettledTable:
    """A quantifier and its training instances, once it is decided how tables are read.

    Attributes
    ----------
    quantifier : unfitted quantifier
    X : training instances
        Features of the schema, if there is one.
    schema : TableSchema or None
        None: instances are passed on as they are.
    """

    quantifier: Any
    X: Any
    schema: TableSchema | None = None


Fit = TypeVar("Fit", bound=Callable[..., Any])
T = TypeVar("T")
FittedT = TypeVar("FittedT")


def unfitted_on_failure(fit: Fit) -> Fit:
    """Decorate a method ``fit`` so that a quantifier whose ``fit`` raises is unfitted.

    ``classes_`` is set first. If it stayed, without the rest or with the results of an earlier fit,
    predictions would fail with an unrelated message, or refer to other classes.
    """

    @functools.wraps(fit)
    def run(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return fit(self, *args, **options)
        except BaseException:
            self.__dict__.pop("classes_", None)
            raise

    return cast(Fit, run)


#: The keywords of ``predict_groups``; others are fields of Options.
GROUP_KEYWORDS = (
    *("time", "every", "scores", "weights", "clusters", "labelled", "merge", "confidence"),
    *("shrink", "smooth", "options"),
)


class BaseQuantifier(BaseEstimator):
    """Base of all quantifiers: ``fit(X, y)``, then prevalences of bags.

    Attributes
    ----------
    classes_ : array of shape (k,)
        Sorted labels; prevalences follow this order.
    prevalence_ : array of shape (k,)
        Class prevalences of the training data.
    """

    #: Largest number of classes that the method handles; 2 for binary methods.
    max_classes: int | None = None
    #: Whether the order of the classes matters to the method.
    orders_classes: bool = False
    #: Whether fitting draws random numbers for more than the folds (points, training bags).
    draws_at_fit: bool = False
    # Defaults of parameters that some methods do not have.
    n_jobs: int | None = None
    random_state: Any = None
    device: Any = "cpu"

    def __init_subclass__(cls, **options: Any) -> None:
        """Write out the parameters that the docstring shares with its family."""
        super().__init_subclass__(**options)
        write_out(cls, SHARED_PARAMETERS)

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit on instances ``X`` with labels ``y``; see the class for details."""
        raise NotImplementedError

    @property
    def answering(self) -> BaseQuantifier:
        """The quantifier that gives the answers: itself, or the best one of a search."""
        return self

    @property
    def takes_posteriors(self) -> bool:
        """Whether it works on posteriors, and so has ``aggregate`` and ``estimate_posteriors``."""
        return False

    @property
    def counts_decisions(self) -> bool:
        """Whether it uses no more of a posterior than the class that it decides for."""
        return False

    @property
    def n_score_columns(self) -> int:
        """The number of columns of posteriors that it takes."""
        return len(self.classes_)

    @property
    def fitted_classifier(self) -> Any | None:
        """The classifier that scores instances; None if there is none, or more than one."""
        return vars(self).get("classifier_")

    @property
    def fold_classifiers(self) -> Sequence[Any] | None:
        """The classifiers of the folds if they were kept (``keep_fold_models``), otherwise None."""
        return vars(self).get("fold_classifiers_")

    def keep_fold_classifiers(self, classifiers: Sequence[Any]) -> None:
        """Store the classifiers of the folds in addition to the one fitted on all instances."""
        self.fold_classifiers_ = list(classifiers)
        self._forget_computed()

    def once_per_fit(self, key: str, compute: Callable[[], T]) -> T:
        """Return what ``compute`` returns, computed once per fit under this key.

        It is neither saved nor pickled.
        """
        computed: dict[str, Any] = self.__dict__.setdefault("_computed", {})
        if key not in computed:
            computed[key] = compute()
        return cast(T, computed[key])

    def _forget_computed(self) -> None:
        self.__dict__.pop("_computed", None)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without what can be computed again."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_computed"}

    def replace_classifiers(self, replaced: Callable[[Any], Any]) -> None:
        """Replace the fitted classifier, and those of the folds, by what a function returns.

        They then read tables themselves, so that a layout of columns beside them is dropped.
        """
        self.classifier_ = replaced(self.fitted_classifier)
        if self.fold_classifiers is not None:
            self.keep_fold_classifiers([replaced(model) for model in self.fold_classifiers])
        self.__dict__.pop("table_", None)

    @property
    def table_schema(self) -> TableSchema | None:
        """The columns of the training table (``kdey.tables``); None if there was no table."""
        from kdey.tables.features import classifier_schema  # slow to import

        stored: TableSchema | None = vars(self).get("table_")
        if stored is not None:
            return stored
        return classifier_schema(self.fitted_classifier)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the training features; None if they had no names."""
        names = vars(self).get("feature_names_in_")
        return None if names is None else tuple(str(name) for name in names)

    @property
    def n_features(self) -> int | None:
        """The number of training features; None if it was fitted on posteriors."""
        return vars(self).get("n_features_in_")

    @property
    def tuning_record(self) -> TuningRecord | None:
        """The record of an automatic choice at ``fit``; None if nothing was left to choose."""
        return vars(self).get("tuning_")

    def interval_model(self) -> FittedModel | None:
        """Return the fitted stages of a method with rows and a matching; None for other methods."""
        return None

    def estimate_posteriors(
        self, posteriors: ArrayLike, bags: BagsLike | None = None, **options: Any
    ) -> Estimate | Estimates:
        """Raise TypeError: only quantifiers on posteriors have this method."""
        raise TypeError(f"{type(self).__name__} works on features, not on posteriors")

    def _on_pool(self, pool: PoolWork) -> BagSolver:
        """Do the work per instance; return the map from bags to their solutions."""
        raise NotImplementedError

    def stages(self) -> MethodStages | None:
        """Return the stages for the parameters; None if the method has no separate stages.

        Raises ValueError if parameters are invalid.
        """
        return None

    def settle_table(self, X: Any) -> SettledTable:
        """Return the quantifier and its training instances, once it is decided how to read tables.

        A quantifier that reads tables by a schema learns it from the whole table, so that folds,
        members of wrappers and candidates of searches share it.
        """
        return SettledTable(self, X)

    def summary(self) -> str | None:
        """Return a sentence or two about what ``fit`` chose; None if nothing was left to choose."""
        self._check_fitted()
        return None if self.tuning_record is None else self.tuning_record.summary()

    @property
    def description(self) -> str | None:
        """What gives the answers, in a sentence for readers of a report; None: nothing to say."""
        return None

    def overview(self) -> Overview:
        """Return what was fitted: a sentence, and a table of the classes and their training shares.

        Returns
        -------
        Overview
            Shown as text by a terminal, and as HTML by a notebook.
        """
        check_is_fitted(self, "classes_")
        classes, shares = self.answering.classes_, self.answering.prevalence_
        decimals = share_decimals(shares)
        largest = int(np.argmax(shares))
        chosen = self.summary()
        return Overview(
            f"{type(self).__name__}, fitted on {len(classes)} classes; the most frequent in "
            f"training is {classes[largest]} ({100 * shares[largest]:.{decimals}f} %).",
            row_names("class", classes),
            (text_column("training", percentages(shares, decimals)), bar_column(shares)),
            () if chosen is None else (chosen,),
        )

    def plot(
        self, X: Any, *, truth: ArrayLike | None = None, ax: Any = None, **options: Any
    ) -> Any:
        """Draw the estimate of a bag; needs matplotlib (``pip install 'kdey[plot]'``).

        Parameters
        ----------
        X : instances of the bag
        truth : array-like of shape (k,), optional
            Known shares of the classes, for comparison.
        ax : matplotlib axes, optional
            By default a new figure.
        **options
            As for :meth:`estimate`.

        Returns
        -------
        kdey.IntervalsDisplay
            With ``ax_`` and ``figure_``.
        """
        import kdey  # Displays are a layer above quantifiers: we reach them by the public name.

        return kdey.IntervalsDisplay.from_estimator(self, X, truth=truth, ax=ax, **options)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Return what a notebook shows: scikit-learn's diagram, below the overview once fitted."""
        shown: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in shown and "classes_" in vars(self):
            shown["text/html"] = self.overview().html() + shown["text/html"]
        return shown

    def explain(self) -> str | None:
        """Return in words what ``fit`` chose and why; None if nothing was left to choose."""
        return self.summary()

    def fit_stage(self, stage: FittedStage, X: Any, y: ArrayLike) -> Self:
        """As :meth:`fit`, with a classifier stage that is already fitted on ``(X, y)``."""
        raise NotImplementedError(f"{type(self).__name__} is fitted as a whole")

    def on_pool(self, pool: PoolWork) -> BagSolver:
        """Do the work per instance of a pool; return the map from bags to their solutions.

        Quantifiers that share a classifier and a :class:`~kdey.quantifiers.base.PoolWork` also
        share the posteriors.
        """
        self._check_fitted()
        self._check_points(pool.X)
        return self._on_pool(pool)

    def solve(
        self, X: Any, bags: BagsLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Solution:
        """Return the prevalences of many bags over one pool, with their certificates.

        The work per instance (classifier, rows) is done once for the pool.

        Parameters
        ----------
        X : instances of the pool
        bags : Bags, sequence of index arrays, int array (n_bags, size) or sparse weight matrix
            By default all of X is one bag.
        sample_weight : array of shape (m,), optional
            Weight of each instance in that one bag; not allowed together with ``bags``.

        Returns
        -------
        solution : Solution
            Prevalences of shape (n_bags, k), with objectives, gaps and iterations.
        """
        self._check_fitted()
        self._check_points(X)
        X, _ = self._instances(X)
        checked = checked_bags(bags, _num_samples(X), sample_weight)
        return self._on_pool(PoolWork(X))(checked)

    def predict(self, X: Any, sample_weight: ArrayLike | None = None) -> Array:
        """Return the prevalences of the bag of all instances of ``X``, shape (k,).

        ``sample_weight``, shape (m,), weights the instances of the bag.
        """
        prevalence: Array = self.solve(X, sample_weight=sample_weight).prevalence[0]
        return prevalence

    def predict_bags(self, X: Any, bags: BagsLike) -> Array:
        """Return the prevalences of many bags over the pool ``X``, shape (n_bags, k).

        See :meth:`solve` for what bags can be.
        """
        return self.solve(X, bags).prevalence

    def estimate(
        self,
        X: Any,
        sample_weight: ArrayLike | None = None,
        *,
        clusters: ArrayLike | None = None,
        confidence: float = 0.95,
        target: str = "population",
        method: str = "auto",
        check_fit: bool = True,
        labelled: Labelled | None = None,
        selection: ArrayLike | None = None,
        believe: str = "prediction-powered",
        merge: Mapping[Any, Any] | None = None,
        **options: Any,
    ) -> Estimate:
        """Return the prevalences of the bag of all instances of ``X`` with their limits.

        Parameters
        ----------
        X : instances of the bag
        sample_weight : array-like of shape (m,), optional
            Sampling weights of the instances; they are not counts of repeated instances.
        clusters : array-like of shape (m,), optional
            Ids of the clusters in which instances were drawn; whole clusters are then the
            sampling units.
        confidence, target, method, **options
            See :class:`~kdey.Options`.
        check_fit : bool
            Whether to check that the bag looks like a mixture of the training classes, at level
            0.01; the verdict is ``diagnostics["fit"]`` and enters ``status``. A method that cannot
            be checked says so there. See :func:`kdey.check_fit` for more detail.
        labelled : pair of array-likes of shape (n,), optional
            Positions (row numbers of X) of instances whose labels are known, and these labels. The
            instances must be a random draw from the bag, or ``selection`` must say with which
            probabilities they were chosen. The result is then a
            :class:`~kdey.labelled.LabelledEstimate` with three estimates side by side.
        selection : array-like of shape (n,), optional
            The probability with which each labelled instance was chosen for labelling.
        believe : {"prediction-powered", "label-shift", "labels"}
            Which of the three estimates with labels is the estimate of the result.
        merge : mapping from new label to classes, optional
            Groups of classes whose shares are wanted; see :meth:`kdey.Estimate.merge`.

        Returns
        -------
        estimate : Estimate
        """
        interval_options = Options.of(
            confidence=confidence,
            target=target,
            method=method,
            selection=selection,
            believe=believe,
            **options,
        )
        if labelled is not None:
            return self._estimate_labelled(
                X, labelled, merge, sample_weight, clusters, interval_options, check_fit
            )
        refuse_selection(selection)
        estimates = self._estimate(X, None, sample_weight, clusters, interval_options, check_fit)
        return estimates[0] if merge is None else estimates[0].merge(merge)

    def _estimate_labelled(
        self,
        X: Any,
        labelled: Labelled,
        merge: Mapping[Any, Any] | None,
        sample_weight: ArrayLike | None,
        clusters: ArrayLike | None,
        options: Options,
        check_fit: bool,
    ) -> LabelledEstimate:
        self._check_fitted()
        self._check_points(X)
        model, pool = self._labelled_model(), PoolWork(self._instances(X)[0])
        points = on_host(self._pool_points(pool))
        result = estimate_labelled(
            model,
            points,
            labelled,
            options,
            sample_weight=sample_weight,
            clusters=clusters,
            merge=merge,
        )
        if not check_fit:
            return result
        from kdey.diagnostics import fit_details  # slow to import

        bags = Bags.whole(len(points), sample_weight)
        return result.with_diagnostics(
            fit_details(self, points, bags, pool.X, options.random_state)[0]
        )

    def _labelled_model(self) -> FittedModel:
        """Return the stages that estimates with labels need, or raise TypeError."""
        model = self.interval_model()
        if model is None:
            raise TypeError(
                f"labelled= needs a method with rows and a matching (KDEyML, EMQ, PACC, ...), and "
                f"{type(self).__name__} combines several quantifiers"
            )
        return model

    def estimate_bags(
        self,
        X: Any,
        bags: BagsLike,
        *,
        clusters: ArrayLike | None = None,
        confidence: float = 0.95,
        target: str = "population",
        method: str = "auto",
        check_fit: bool = True,
        merge: Mapping[Any, Any] | None = None,
        **options: Any,
    ) -> Estimates:
        """As :meth:`estimate` for many bags over the pool ``X``, without labels.

        See :meth:`solve` for what bags can be; ``clusters`` has one id per instance of the pool.
        """
        interval_options = Options.of(
            confidence=confidence, target=target, method=method, **options
        )
        estimates = self._estimate(X, bags, None, clusters, interval_options, check_fit)
        return estimates if merge is None else estimates.merge(merge)

    def predict_groups(
        self, source: Any, by: str | Sequence[str] = (), **options: Any
    ) -> Estimates:
        """Return the prevalences of every group of a table, with limits and a status.

        See :func:`kdey.predict_groups`, whose keywords it takes, and :class:`kdey.Options`, whose
        fields may be given as keywords too.
        """
        from kdey.groups import predict_groups  # slow to import

        rare = {name: options.pop(name) for name in list(options) if name not in GROUP_KEYWORDS}
        if rare:
            options["options"] = Options.of(**rare)
        return predict_groups(self, source, by, **options)

    def _estimate(
        self,
        X: Any,
        bags: BagsLike | None,
        sample_weight: ArrayLike | None,
        clusters: ArrayLike | None,
        options: Options,
        check_fit: bool,
    ) -> Estimates:
        self._check_fitted()
        self._check_points(X)
        X, unseen = self._instances(X)
        checked, pool = checked_bags(bags, _num_samples(X), sample_weight), PoolWork(X)
        estimates = self._estimates_on(pool, checked, options, clusters)
        if unseen is not None:
            shares = checked.mean(unseen[:, None].astype(np.float64))[:, 0]
            estimates = estimates.marked(UNSEEN_VALUES, shares > MOST_UNSEEN)
        if not check_fit:
            return estimates
        from kdey.diagnostics import unchecked_reason, with_fit_checks  # slow to import

        may_check = unchecked_reason(self) is None
        posteriors = self._pool_points(pool) if may_check else np.empty((0, len(self.classes_)))
        return with_fit_checks(self, estimates, posteriors, checked, X)

    def _pool_points(self, pool: PoolWork) -> NDArray[Any]:
        """Return the input of the method for a pool: features, or posteriors."""
        raise NotImplementedError

    def _estimates_on(
        self, pool: PoolWork, bags: Bags, options: Options, clusters: ArrayLike | None
    ) -> Estimates:
        solve = self._on_pool(pool)
        return estimate_solver(solve, self.classes_, self.prevalence_, bags, options, clusters)

    def _check_fitted(self) -> None:
        """Raise NotFittedError before ``fit``."""
        # scikit-learn's check asks for the tags, which takes longer than many a solution.
        if "classes_" not in vars(self):
            check_is_fitted(self, "classes_")

    def _check_training_points(self, X: Any) -> None:
        """Store the number and the names of the features, or raise if ``X`` is masked."""
        validate_data(self, refuse_levels(refuse_masked(X, "X"), "X"), skip_check_array=True)

    def _instances(self, X: Any) -> tuple[Any, NDArray[np.bool_] | None]:
        """Return instances as the classifier takes them: the features of a table, if it is one.

        The second value says which rows of a table hold a value that training lacks; None: none.
        """
        schema = self.table_schema
        if schema is None or not schema.feature_names:
            return X, None
        from kdey.tables.features import table_instances  # slow to import

        return table_instances(schema, X)

    def _check_points(self, X: Any) -> None:
        if self._is_plain_matrix(X):
            return
        if _num_samples(refuse_levels(refuse_masked(X, "X"), "X")) == 0:
            raise ValueError("X is empty: a bag needs at least one instance")
        if getattr(X, "ndim", 2) == 1 and self.n_features is not None:
            raise ValueError(
                "Expected 2D array, got 1D array instead. Reshape your data: X must have shape "
                f"(n_instances, {self.n_features})"
            )
        if self.table_schema is None:  # tables are checked by the schema, column by column
            validate_data(self, X, reset=False, skip_check_array=True)

    def _is_plain_matrix(self, X: Any) -> bool:
        """Return whether X is an array of the training width, and training had no column names.

        There is nothing to say about it then, and scikit-learn takes longer to find that out than
        many a method takes for its answer.
        """
        return (
            type(X) is np.ndarray  # a masked array is another type
            and X.ndim == 2
            and len(X) > 0
            and X.shape[1] == self.n_features
            and self.feature_names is None
        )

    def _start_fit(
        self, y: ArrayLike, classes: ArrayLike | None = None, stacklevel: int = 4
    ) -> NDArray[np.int64]:
        """Set ``classes_`` and ``prevalence_``; return the labels as codes.

        The schema of a table that an earlier fit read is dropped.
        """
        self._forget_computed()
        self.__dict__.pop("table_", None)
        codes, self.classes_ = training_labels(y, classes)
        k = len(self.classes_)
        self.check_n_classes(k)
        counts = np.bincount(codes, minlength=k)
        self.prevalence_ = counts / len(codes)
        note = few_labels_note(self.classes_, counts)
        if note is not None:
            warn(note, FewLabelsWarning, stacklevel=stacklevel)
        return codes

    def _warn_of_label_columns(self, settled: SettledTable, codes: NDArray[np.int64]) -> None:
        """Warn if the label itself seems to be among the features of a table."""
        schema = settled.schema
        names = self.feature_names if schema is None else schema.feature_names
        if not names or sp.issparse(settled.X):
            return
        note = label_columns_note(names, settled.X, codes)
        if note is not None:
            warn(note, LabelColumnWarning, stacklevel=4)

    def check_n_classes(self, k: int) -> None:
        """Raise ValueError if the method does not handle ``k`` classes."""
        if self.max_classes is not None and k > self.max_classes:
            raise ValueError(
                f"{type(self).__name__} is a binary quantifier, but y has {k} classes; "
                f"use OneVsAll({type(self).__name__}(...))"
            )

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: a quantifier needs labels and predicts per bag."""
        tags = super().__sklearn_tags__()
        tags.estimator_type = "quantifier"
        tags.target_tags.required = True
        inner = self.inner_estimator()
        # A class is refused at fit, and a quantifier of another library need not have tags.
        if not isinstance(inner, type) and hasattr(inner, "__sklearn_tags__"):
            tags.input_tags = get_tags(inner).input_tags
        return tags

    def inner_estimator(self) -> Any:
        """Return the estimator that X is passed to, whose tags say what X may be; or None."""
        return None


def refuse_selection(selection: ArrayLike | None) -> None:
    """Raise ValueError if probabilities of selection were given without labels."""
    if selection is not None:
        raise ValueError(
            "selection says how labelled instances were chosen: give labelled=(positions, labels)"
        )


def without_fold_models(fitted: FittedT) -> FittedT:
    """Return a fitted member of a wrapper without the models of its folds, which nobody uses."""
    fitted.__dict__.pop("fold_classifiers_", None)
    return fitted


def checked_bags(
    bags: BagsLike | None, pool_size: int, sample_weight: ArrayLike | None = None
) -> Bags:
    """Return ``bags`` over a pool; None means the whole pool, weighted by ``sample_weight``."""
    if bags is None:
        return Bags.whole(pool_size, sample_weight)
    if sample_weight is not None:
        raise ValueError("sample_weight is for a single bag; give weighted Bags instead")
    return as_bags(bags, pool_size)
