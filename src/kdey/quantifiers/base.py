"""What every quantifier is: a scikit-learn estimator from bags to prevalences."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from kdey._support.threads import thread_count
from kdey.bags import Array, Bags, BagsLike, as_bags
from kdey.fitted import fitted_stages
from kdey.intervals import Estimate, Estimates, FittedModel, IntervalOptions, estimate_solver
from kdey.labels import training_labels
from kdey.matching import AnyMatching
from kdey.posteriors import ClassifierStage, FittedStage, Posteriors, predict_posteriors
from kdey.rows.interface import RowSpec, TuningRecord
from kdey.simplex import check_posteriors
from kdey.solvers.solution import Solution

#: From bags over a pool to their solutions; the work per instance is behind it already.
BagSolver: TypeAlias = Callable[[Bags], Solution]


@dataclass(frozen=True, eq=False)
class PoolWork:
    """A pool, with the posteriors that classifiers gave it.

    Attributes
    ----------
    X : instances of the pool
    n_jobs : int, optional
        Native threads in the place of each quantifier's own ``n_jobs``.
    """

    X: Any
    n_jobs: int | None = None
    # The classifier is held beside its posteriors, so that its id stays its own.
    _posteriors: dict[Any, tuple[Any, Posteriors]] = field(default_factory=dict, repr=False)

    def posteriors(self, classifier: Any, classes: NDArray[Any]) -> Posteriors:
        """Return the posteriors of the pool, shape (m, k), computed once per classifier object."""
        key = (id(classifier), tuple(np.asarray(classes).tolist()))
        if key not in self._posteriors:
            made = predict_posteriors(classifier, self.X, classes, stay=True)
            self._posteriors[key] = (classifier, made)
        return self._posteriors[key][1]

    def n_threads(self, own: int | None) -> int:
        """Return the native threads of a quantifier whose own ``n_jobs`` is ``own``."""
        return thread_count(own if self.n_jobs is None else self.n_jobs)


@dataclass(frozen=True, eq=False)
class MethodStages:
    """The stages of a method, which a search computes once for all candidates that share them.

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


Fit = TypeVar("Fit", bound=Callable[..., Any])


def unfitted_on_failure(fit: Fit) -> Fit:
    """Make a method ``fit`` that raises leave its quantifier unfitted.

    The classes are known before the rest is made; with them, and without the rest or with that of
    an earlier fit, predictions would fail in words of their own, or answer for other classes.
    """

    @functools.wraps(fit)
    def run(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return fit(self, *args, **options)
        except BaseException:
            self.__dict__.pop("classes_", None)
            raise

    return cast(Fit, run)


class BaseQuantifier(BaseEstimator):
    """Base of all quantifiers: ``fit(X, y)``, then prevalences of bags.

    Attributes
    ----------
    classes_ : array of shape (k,)
        Sorted labels; prevalences follow this order.
    prevalence_ : array of shape (k,)
        Class prevalences of the training data.
    """

    #: Largest number of classes the method itself handles; binary methods say 2.
    max_classes: int | None = None
    #: Whether fitting draws at random beyond the folds (Monte Carlo points, training bags).
    draws_at_fit: bool = False
    #: Parameters that not every method has; their values mean "nothing asked for".
    n_jobs: int | None = None
    random_state: Any = None
    device: Any = "cpu"

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit on instances ``X`` with labels ``y``; see the class for what is learnt."""
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
    def fitted_classifier(self) -> Any | None:
        """The one classifier that scores instances; None: there is none, or several."""
        return vars(self).get("classifier_")

    @property
    def fold_classifiers(self) -> Sequence[Any] | None:
        """The classifiers of the folds, where they are kept; see ``hold_fold_models``."""
        return vars(self).get("fold_classifiers_")

    def keep_fold_classifiers(self, classifiers: Sequence[Any]) -> None:
        """Keep the classifiers of the folds beside the one fitted on everything."""
        self.fold_classifiers_ = list(classifiers)

    @property
    def table_layout(self) -> Mapping[str, Any] | None:
        """The columns of the table it was fitted on (``kdey.tables``); None: no table."""
        return vars(self).get("table_")

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features it was fitted on; None: they had no names."""
        names = vars(self).get("feature_names_in_")
        return None if names is None else tuple(str(name) for name in names)

    @property
    def n_features(self) -> int | None:
        """The number of features it was fitted on; None: it was fitted on scores."""
        return vars(self).get("n_features_in_")

    @property
    def tuning_record(self) -> TuningRecord | None:
        """What an automatic choice at ``fit`` tried and chose; None: nothing was chosen."""
        return vars(self).get("tuning_")

    def interval_model(self) -> FittedModel | None:
        """Return the fitted stages of a method given by rows and a matching; None for others."""
        return None

    def estimate_posteriors(
        self, posteriors: ArrayLike, bags: BagsLike | None = None, **options: Any
    ) -> Estimate | Estimates:
        """Raise: only quantifiers on posteriors have it."""
        raise TypeError(f"{type(self).__name__} works on features, not on posteriors")

    def _on_pool(self, pool: PoolWork) -> BagSolver:
        """Do the work per instance; return the map from bags to their solutions."""
        raise NotImplementedError

    def stages(self) -> MethodStages | None:
        """Return the stages made from the parameters; None: the method is fitted as a whole.

        Raises where parameters are invalid.
        """
        return None

    def fit_stage(self, stage: FittedStage, X: Any, y: ArrayLike) -> Self:
        """As :meth:`fit`, with a classifier stage that was fitted on ``(X, y)`` before."""
        raise NotImplementedError(f"{type(self).__name__} is fitted as a whole")

    def on_pool(self, pool: PoolWork) -> BagSolver:
        """Do the work per instance of a pool; return the map from bags to their solutions.

        Quantifiers given the same :class:`~kdey.quantifiers.base.PoolWork` share the posteriors
        of a classifier that they share.
        """
        check_is_fitted(self, "classes_")
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
            Weight of each instance in that one bag.
        """
        check_is_fitted(self, "classes_")
        self._check_points(X)
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
        check_fit: bool = False,
        **options: Any,
    ) -> Estimate:
        """Return the prevalences of the bag of all instances of ``X`` with their limits.

        Parameters
        ----------
        X : instances of the bag
        sample_weight : array-like of shape (m,), optional
            Sampling weights of the instances; they are not counts of repeated instances.
        clusters : array-like of shape (m,), optional
            Ids of the clusters in which instances were drawn; whole clusters are then the units
            of chance.
        confidence, target, method, **options
            See :class:`~kdey.intervals.IntervalOptions`.
        check_fit : bool
            Whether to check that the bag looks like a mixture of the training classes; see
            :func:`kdey.check_fit`, which with the training data at hand is sharper.
        """
        wanted = IntervalOptions(confidence, target, method, **options)
        return self._estimate(X, None, sample_weight, clusters, wanted, check_fit)[0]

    def estimate_bags(
        self,
        X: Any,
        bags: BagsLike,
        *,
        clusters: ArrayLike | None = None,
        confidence: float = 0.95,
        target: str = "population",
        method: str = "auto",
        check_fit: bool = False,
        **options: Any,
    ) -> Estimates:
        """As :meth:`estimate` for many bags over the pool ``X``.

        See :meth:`solve` for what bags can be; ``clusters`` has one id per instance of the pool.
        """
        wanted = IntervalOptions(confidence, target, method, **options)
        return self._estimate(X, bags, None, clusters, wanted, check_fit)

    def predict_groups(self, frame: Any, by: str | Sequence[str] = (), **options: Any) -> Any:
        """Return the prevalences of every group of a data frame, with limits and a status.

        See :func:`kdey.groups.predict_groups` for the options (``scores``, ``time``, ``every``,
        ``wide``, ``check_fit``, ``confidence``, ...) and for the columns; for data frames of Dask
        and Spark :func:`kdey.groups.predict_partitioned`.
        """
        from kdey.groups import predict_groups  # slow to import

        return predict_groups(self, frame, by, **options)

    def _estimate(
        self,
        X: Any,
        bags: BagsLike | None,
        sample_weight: ArrayLike | None,
        clusters: ArrayLike | None,
        options: IntervalOptions,
        check_fit: bool,
    ) -> Estimates:
        check_is_fitted(self, "classes_")
        self._check_points(X)
        checked, pool = checked_bags(bags, _num_samples(X), sample_weight), PoolWork(X)
        made = self._estimates_on(pool, checked, options, clusters)
        if not check_fit:
            return made
        fitted_stages(self)  # or else it has no posteriors to check
        from kdey.diagnostics import with_fit_checks  # slow to import

        return with_fit_checks(self, made, self._pool_points(pool), checked, X)

    def _pool_points(self, pool: PoolWork) -> NDArray[Any]:
        """Return what the method works on: the features, or the posteriors."""
        raise NotImplementedError

    def _estimates_on(
        self, pool: PoolWork, bags: Bags, options: IntervalOptions, clusters: ArrayLike | None
    ) -> Estimates:
        solve = self._on_pool(pool)
        return estimate_solver(solve, self.classes_, self.prevalence_, bags, options, clusters)

    def _check_points(self, X: Any) -> None:
        if _num_samples(X) == 0:
            raise ValueError("X is empty: a bag needs at least one instance")
        if getattr(X, "ndim", 2) == 1 and self.n_features is not None:
            raise ValueError(
                "Expected 2D array, got 1D array instead. Reshape your data: X must have shape "
                f"(n_instances, {self.n_features})"
            )
        validate_data(self, X, reset=False, skip_check_array=True)

    def _start_fit(self, y: ArrayLike, classes: ArrayLike | None = None) -> NDArray[np.int64]:
        """Set ``classes_`` and ``prevalence_``; return the labels as codes."""
        codes, self.classes_ = training_labels(y, classes)
        k = len(self.classes_)
        self.check_n_classes(k)
        self.prevalence_ = np.bincount(codes, minlength=k) / len(codes)
        return codes

    def check_n_classes(self, k: int) -> None:
        """Raise where the method does not handle ``k`` classes."""
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
        if inner is not None and not isinstance(inner, type):  # a class is refused at fit
            tags.input_tags = get_tags(inner).input_tags
        return tags

    def inner_estimator(self) -> Any:
        """Return the estimator that X is handed to, which says what X may be; None: no other."""
        return None


class PosteriorsMixin(BaseQuantifier):
    """Prevalences from given posteriors: "scores in, answer out", no classifier needed."""

    @property
    def takes_posteriors(self) -> bool:
        """Whether it works on posteriors: it does."""
        return True

    def _solve_posteriors(self, posteriors: NDArray[np.floating], bags: Bags) -> Solution:
        raise NotImplementedError

    def solve_posteriors(
        self,
        posteriors: ArrayLike,
        bags: BagsLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Solution:
        """As :meth:`BaseQuantifier.solve`, from the posteriors of the pool, shape (m, k)."""
        check_is_fitted(self, "classes_")
        p = self._checked_posteriors(posteriors)
        return self._solve_posteriors(p, checked_bags(bags, len(p), sample_weight))

    def _checked_posteriors(self, posteriors: Any) -> Any:
        """Return posteriors as they are solved: an array, or a tensor on the device in use."""
        return check_posteriors(posteriors, len(self.classes_))

    def aggregate(self, posteriors: ArrayLike, sample_weight: ArrayLike | None = None) -> Array:
        """As :meth:`BaseQuantifier.predict`, from the posteriors of the bag, shape (m, k)."""
        prevalence: Array = self.solve_posteriors(posteriors, None, sample_weight).prevalence[0]
        return prevalence

    def aggregate_bags(self, posteriors: ArrayLike, bags: BagsLike) -> Array:
        """As :meth:`BaseQuantifier.predict_bags`, from the posteriors of the pool, shape (m, k)."""
        return self.solve_posteriors(posteriors, bags).prevalence

    def estimate_posteriors(
        self,
        posteriors: ArrayLike,
        bags: BagsLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        clusters: ArrayLike | None = None,
        confidence: float = 0.95,
        target: str = "population",
        method: str = "auto",
        check_fit: bool = False,
        **options: Any,
    ) -> Estimate | Estimates:
        """As :meth:`BaseQuantifier.estimate`, from posteriors of shape (m, k).

        Without ``bags`` all of them are one bag, and one estimate is returned; with ``bags`` as
        :meth:`BaseQuantifier.estimate_bags`.
        """
        wanted = IntervalOptions(confidence, target, method, **options)
        check_is_fitted(self, "classes_")
        p = check_posteriors(posteriors, len(self.classes_))
        checked = checked_bags(bags, len(p), sample_weight)
        made = self._estimates_from(p, checked, wanted, clusters)
        if check_fit:
            from kdey.diagnostics import with_fit_checks  # slow to import

            made = with_fit_checks(self, made, p, checked)
        return made[0] if bags is None else made

    def _estimates_from(
        self,
        posteriors: NDArray[np.floating],
        bags: Bags,
        options: IntervalOptions,
        clusters: ArrayLike | None,
    ) -> Estimates:
        solve = partial(self._solve_posteriors, posteriors)
        return estimate_solver(solve, self.classes_, self.prevalence_, bags, options, clusters)


def checked_bags(
    bags: BagsLike | None, pool_size: int, sample_weight: ArrayLike | None = None
) -> Bags:
    """Return ``bags`` over a pool; None means all of it, weighted by ``sample_weight``."""
    if bags is None:
        return Bags.whole(pool_size, sample_weight)
    if sample_weight is not None:
        raise ValueError("sample_weight is for a single bag; give weighted Bags instead")
    return as_bags(bags, pool_size)
