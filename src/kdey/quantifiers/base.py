"""What every quantifier is: a scikit-learn estimator from bags to prevalences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from kdey.bags import Array, Bags, BagsLike, as_bags
from kdey.distributed import predict_groups
from kdey.fitted import check_aggregative
from kdey.inference import Estimate, Estimates, IntervalOptions, estimate_solver
from kdey.labels import training_labels
from kdey.quantifiers.pool import BagSolver, PoolWork
from kdey.simplex import check_posteriors
from kdey.solvers.solution import Solution
from kdey.stages import ClassifierStage


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
    _max_classes: int | None = None
    #: Whether fitting draws at random beyond the folds (Monte Carlo points, training bags).
    _draws_at_fit: bool = False

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit on instances ``X`` with labels ``y``; see the class for what is learnt."""
        raise NotImplementedError

    def _on_pool(self, pool: PoolWork) -> BagSolver:
        """Do the work per instance; return the map from bags to their solutions."""
        raise NotImplementedError

    def _classifier_stage(self) -> ClassifierStage | None:
        """Return the stage that can be fitted once for several quantifiers; None: there is none."""
        return None

    def on_pool(self, pool: PoolWork) -> BagSolver:
        """Do the work per instance of a pool; return the map from bags to their solutions.

        Quantifiers given the same :class:`~kdey.quantifiers.pool.PoolWork` share the posteriors
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
            See :class:`~kdey.inference.IntervalOptions`.
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
        and Spark :func:`kdey.distributed.predict_partitioned`.
        """
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
        check_aggregative(self)
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
        if getattr(X, "ndim", 2) == 1 and hasattr(self, "n_features_in_"):
            raise ValueError(
                "Expected 2D array, got 1D array instead. Reshape your data: X must have shape "
                f"(n_instances, {self.n_features_in_})"
            )
        validate_data(self, X, reset=False, skip_check_array=True)

    def _start_fit(self, y: ArrayLike, classes: ArrayLike | None = None) -> NDArray[np.int64]:
        """Set ``classes_`` and ``prevalence_``; return the labels as codes."""
        codes, self.classes_ = training_labels(y, classes)
        k = len(self.classes_)
        self._check_n_classes(k)
        self.prevalence_ = np.bincount(codes, minlength=k) / len(codes)
        return codes

    def _check_n_classes(self, k: int) -> None:
        if self._max_classes is not None and k > self._max_classes:
            raise ValueError(
                f"{type(self).__name__} is a binary quantifier, but y has {k} classes; "
                f"use OneVsAll({type(self).__name__}(...))"
            )

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: a quantifier needs labels and predicts per bag."""
        tags = super().__sklearn_tags__()
        tags.estimator_type = "quantifier"
        tags.target_tags.required = True
        inner = self._inner()
        if inner is not None and not isinstance(inner, type):  # a class is refused at fit
            tags.input_tags = get_tags(inner).input_tags
        return tags

    def _inner(self) -> Any:
        """Return the estimator that X is handed to, which says what X may be; None: ours."""
        return getattr(self, "quantifier", None)


class PosteriorsMixin:
    """Prevalences from given posteriors: "scores in, answer out", no classifier needed."""

    classes_: NDArray[Any]
    prevalence_: Array

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
