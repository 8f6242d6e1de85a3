r"""The fit check: whether a bag looks like a mixture of the training classes.

With p_alpha the mixture of class densities of the posteriors and alpha its maximum likelihood
fit to the bag, the statistic is

.. math:: T = \sum_j w_j\, \phi_\alpha(x_j) - \sum_i \alpha_i\, E_i\, \phi_\alpha, \qquad
          \phi_\alpha = \log(p_\alpha + c)

with :math:`E_i` the leave-one-out mean over training points of class i. T says how much worse the
bag fits than its fitted mixture predicts. Subtracting the prediction of the *fitted* mixture makes
T insensitive, to first order, to the composition of the bag and to the error of alpha: for any
consistent estimate the two cancel. If the same models scored training set and bag, we also use the
kernel distance of :mod:`kdey.diagnostics.fit_statistics`; the smaller of the two p-values is then
the statistic, calibrated as such. The null distribution is that of bags drawn from the training
points at alpha and fitted in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey._support.frames import make_frame
from kdey._support.threads import thread_count
from kdey._support.validation import check_count, check_share, check_weights
from kdey.bags import Bags
from kdey.diagnostics.densities import (
    Array,
    Densities,
    Indices,
    TrainingDensities,
    default_kernel,
    fit_prevalences,
    warn_single,
)
from kdey.diagnostics.fit_statistics import Embedding, local_p_values, null_positions, unknown_share
from kdey.diagnostics.fold_models import FoldModels, fold_models, held_fold_models
from kdey.fitted import FittedQuantifier, bag_posteriors, training_of
from kdey.intervals import Estimates


@dataclass(frozen=True, eq=False)
class FitCheck:
    """Result of :func:`kdey.check_fit`.

    Attributes
    ----------
    p_value : float
        Share of null bags that fit no better than this one. A small value means that more than the
        prevalence has changed.
    p_density, p_distance : float
        P-values of each statistic alone: does the bag lie where training had few instances, and is
        it distributed like the fitted mixture? The second is NaN if ``cross_fitted`` is False.
    statistic : float
        The statistic T of density: how much lower (negative) or higher the bag's mean log-density
        is than its fitted mixture predicts.
    null : array of shape (n_null,)
        The statistic of bags of the same size that differ in prevalence only.
    prevalence : array of shape (k,)
        The estimate of the mixture that the check uses, by maximum likelihood.
    log_densities : array of shape (m,)
        Logarithm of the fitted mixture's density at each instance (floored, not normalised).
    local_p_values : array of shape (m,)
        For each instance, the share of the fitted mixture with a density no higher.
    unknown_share : float
        Estimated excess share of instances that lie far from every class, a lower bound on the
        share of a class absent from training; zero if there is no excess.
    unknown_class : bool
        Whether the bag does not fit and this excess is larger than chance explains.
    level : float
        Significance level of ``rejected`` and ``unknown_class``.
    cross_fitted : bool
        Whether the models that scored the training set also scored the bag. If not, only the
        density is tested and p-values tend to be too large (see ``docs/trust.md``); a small
        p-value is still a reason to worry.
    """

    p_value: float
    p_density: float
    p_distance: float
    statistic: float
    null: Array
    prevalence: Array
    log_densities: Array
    local_p_values: Array
    unknown_share: float
    unknown_class: bool
    level: float
    cross_fitted: bool

    @property
    def rejected(self) -> bool:
        """Whether the p-value is at most the level."""
        return self.p_value <= self.level

    def worst(self, n: int = 10) -> NDArray[np.int64]:
        """Return the positions of the ``n`` instances that fit worst, starting with the worst."""
        return np.argsort(self.log_densities, kind="stable")[:n]

    def to_frame(self, n: int | None = None, backend: str | None = None) -> Any:
        """Return a data frame of the ``n`` instances that fit worst, starting with the worst.

        Parameters
        ----------
        n : int, optional
            Default: all instances.
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
            With columns ``instance``, ``log_density`` and ``local_p_value``.
        """
        order = self.worst(len(self.log_densities) if n is None else n)
        table = {
            "instance": order,
            "log_density": self.log_densities[order],
            "local_p_value": self.local_p_values[order],
        }
        return make_frame(table, backend)

    @property
    def verdict(self) -> str:
        """The meaning of the result, in a sentence."""
        p = f"p = {self.p_value:.3g}"
        if not self.rejected:
            return f"The bag looks like a mixture of the training classes ({p})."
        if self.unknown_class:
            return (
                f"The bag does not fit the training classes ({p}): at least about "
                f"{self.unknown_share:.0%} of it lies far from all of them, as an unknown class "
                "would."
            )
        return (
            f"The bag does not fit the training classes ({p}): instances of known classes look "
            "different from training, so more than the prevalence has changed."
        )

    def summary(self) -> dict[str, Any]:
        """Return the results for the whole bag and the verdict, as plain values."""
        numbers = ("p_value", "unknown_share", "unknown_class", "rejected", "cross_fitted")
        return {**{name: getattr(self, name) for name in numbers}, "verdict": self.verdict}

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict


DEFAULT_BANDWIDTH = 0.1
N_NULL, LEVEL = 300, 0.05


def check_fit(
    quantifier: FittedQuantifier,
    X: Any = None,
    *,
    posteriors: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    training: tuple[Any, ArrayLike] | None = None,
    bandwidth: float | str = DEFAULT_BANDWIDTH,
    n_null: int = N_NULL,
    level: float = LEVEL,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> FitCheck:
    """Check whether a bag looks like a mixture of the training classes.

    This works for every quantifier on posteriors that keeps its training posteriors, because the
    check computes its own kernel densities whatever the method. For many bags create one
    :class:`FitChecker`.

    Parameters
    ----------
    quantifier : fitted quantifier on posteriors
    X : instances of the bag, optional
    posteriors : array-like of shape (m, k), optional
        Posteriors of the bag, instead of X.
    sample_weight : array-like of shape (m,), optional
    training : (X, y), optional
        The data that the quantifier was fitted on. The models of its folds are then refitted and
        score the bag, which makes p-values exact if ``cv`` has several folds. This requires X. It
        is not necessary if the quantifier keeps these models (:func:`hold_fold_models`).
    bandwidth : float or {"scott", "silverman"}
        Bandwidth of the check's Gaussian kernel on the posteriors.
    n_null : int
        Number of null bags, at least 19.
    level : float in (0, 1)
        Significance level.
    random_state : int, Generator or None
        Source of the null bags, and of the fold model that scores each instance.
    n_jobs : int, optional
        Number of native threads.

    Returns
    -------
    FitCheck

    Raises
    ------
    ValueError
        If the quantifier keeps no training posteriors, or a parameter is not allowed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] > 0]
    >>> training = X[::2], y[::2]
    >>> bool(kdey.check_fit(q, X_bag, training=training, random_state=0).rejected)
    False
    >>> bool(kdey.check_fit(q, X_bag - 1, training=training, random_state=0).rejected)
    True
    """
    checker = FitChecker.fit(
        quantifier, training, bandwidth=bandwidth, n_jobs=n_jobs, held=X is not None
    )
    return checker.check(
        X,
        posteriors=posteriors,
        sample_weight=sample_weight,
        n_null=n_null,
        level=level,
        random_state=random_state,
    )


@dataclass(frozen=True, eq=False)
class FitChecker:
    """The part of :func:`check_fit` that depends only on training, computed once for many bags.

    Attributes
    ----------
    quantifier : fitted quantifier
    densities : TrainingDensities
    embedding : Embedding or None
        None if different models score training set and bag, because it would detect the difference
        between the models.
    models : FoldModels or None
        None if the quantifier's classifier scores the bag.
    n_threads : int
    """

    quantifier: FittedQuantifier
    densities: TrainingDensities
    embedding: Embedding | None
    models: FoldModels | None
    n_threads: int

    @classmethod
    def fit(
        cls,
        quantifier: FittedQuantifier,
        training: tuple[Any, ArrayLike] | None = None,
        *,
        bandwidth: float | str = DEFAULT_BANDWIDTH,
        n_jobs: int | None = None,
        held: bool = True,
    ) -> FitChecker:
        """Return the checker of a fitted quantifier.

        Parameters
        ----------
        quantifier, training, bandwidth, n_jobs
            As for :func:`check_fit`.
        held : bool
            Whether to use fold models that the quantifier keeps. Bags must then be passed as X.

        Returns
        -------
        FitChecker
        """
        known = training_of(quantifier)
        kernel, n_threads = default_kernel(bandwidth), thread_count(n_jobs)
        densities = TrainingDensities.fit(known, len(quantifier.classes_), kernel, n_threads)
        warn_single(densities, quantifier.classes_)
        models = fold_models(quantifier, *training) if training is not None else None
        if models is None and held:
            models = held_fold_models(quantifier)
        same_models = models is not None or known.folds is None or len(np.unique(known.folds)) == 1
        embedding = Embedding.fit(densities, n_threads) if same_models else None
        return cls(quantifier, densities, embedding, models, n_threads)

    def check(
        self,
        X: Any = None,
        *,
        posteriors: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        n_null: int = N_NULL,
        level: float = LEVEL,
        random_state: Any = None,
    ) -> FitCheck:
        """Check one bag; parameters as for :func:`check_fit`."""
        _check_effort(n_null, level)
        rng = np.random.default_rng(random_state)
        if self.models is not None and X is None:
            raise ValueError(
                "the fold models must score the bag, which needs its instances: pass X"
            )
        if self.models is None or posteriors is not None:
            points = bag_posteriors(self.quantifier, X, posteriors)
        else:
            points = self.models.posteriors(X, rng)
        weights = None if sample_weight is None else check_weights(sample_weight, len(points))
        return self.check_points(points, weights, rng, n_null, level)

    def check_points(
        self,
        points: NDArray[np.floating],
        weights: Array | None,
        rng: np.random.Generator,
        n_null: int = N_NULL,
        level: float = LEVEL,
    ) -> FitCheck:
        """Check a bag by its posteriors.

        Parameters
        ----------
        points : array of shape (m, k)
            Posteriors by ``models``, or by the quantifier's classifier if ``models`` is None.
        weights : array of shape (m,) or None
        rng : Generator
        n_null, level
            As for :func:`check_fit`.

        Returns
        -------
        FitCheck
        """
        bag = _Points(self.densities.at(points, self.n_threads), self._kernels_at(points))
        whole = np.arange(len(points), dtype=np.int64)[None]
        alpha, observed, distance = self._statistics(
            bag, whole, None if weights is None else weights[None]
        )
        positions = null_positions(self.densities, alpha[0], len(points), n_null, rng)
        # Null bags have the weights of the bag, each in a random order.
        shuffled = None if weights is None else rng.permuted(np.tile(weights, (n_null, 1)), axis=1)
        _, null, null_distances = self._statistics(self._training_points, positions, shuffled)
        no_distance = self.embedding is None
        distances = None if no_distance else np.concatenate([distance, null_distances])
        p_value, p_density, p_distance = p_values(np.concatenate([observed, null]), distances)
        local, training = local_p_values(self.densities, bag.densities, alpha[0])
        share, excessive = unknown_share(local, weights, training[positions], shuffled, level)
        return FitCheck(
            p_value=p_value,
            p_density=p_density,
            p_distance=p_distance,
            statistic=float(observed[0]),
            null=null,
            prevalence=alpha[0],
            log_densities=bag.densities.floored_log(alpha)[:, 0],
            local_p_values=local,
            unknown_share=share,
            unknown_class=p_value <= level and excessive,
            level=level,
            cross_fitted=self.embedding is not None,
        )

    @property
    def _training_points(self) -> _Points:
        kernels = None if self.embedding is None else self.embedding.kernels
        return _Points(self.densities.held_out, kernels)

    def _kernels_at(self, points: NDArray[np.floating]) -> Array | None:
        return None if self.embedding is None else self.embedding.at(points, self.n_threads)

    def _statistics(
        self, points: _Points, positions: Indices, weights: Array | None
    ) -> tuple[Array, Array, Array]:
        """Return prevalences (n_bags, k), T and distances (n_bags,) of bags.

        ``positions`` and ``weights`` have shape (n_bags, size) and refer to ``points``.
        """
        alpha = fit_prevalences(points.densities, positions, weights, self.n_threads)
        logs = points.densities.floored_log(alpha, positions)
        t = np.average(logs, axis=1, weights=weights) - self.densities.expected_log(alpha)
        if self.embedding is None or points.kernels is None:
            return alpha, t, np.full(len(positions), np.nan)
        return alpha, t, self.embedding.distance(points.kernels, positions, weights, alpha)


@dataclass(frozen=True, eq=False)
class _Points:
    """Class densities of some points, and their kernels to the landmarks (None: not needed)."""

    densities: Densities
    kernels: Array | None


def p_values(densities: Array, distances: Array | None) -> tuple[float, float, float]:
    """Return the p-value of the first bag among several, and those of each statistic alone.

    The other bags are the null. Each statistic is converted into p-values among all bags. The
    smaller of a bag's two p-values is a new statistic, converted into a p-value in the same way.

    Parameters
    ----------
    densities : array of shape (1 + n_null,)
        The statistics T; small values are evidence against the fit.
    distances : array of shape (1 + n_null,) or None
        Large values are evidence against the fit.

    Returns
    -------
    p_value, p_density, p_distance : float
        The last is NaN without distances.
    """
    low = _shares(densities)
    if distances is None:
        return float(low[0]), float(low[0]), float("nan")
    far = _shares(-distances)
    return float(_shares(np.minimum(low, far))[0]), float(low[0]), float(far[0])


def _shares(values: Array) -> Array:
    """Return for each value the share of values that are no larger."""
    return np.asarray(np.searchsorted(np.sort(values), values, side="right") / len(values))


def _check_effort(n_null: int, level: float) -> None:
    check_count(n_null, "n_null", least=19)
    check_share(level, "level")


def with_fit_checks(
    quantifier: FittedQuantifier,
    estimates: Estimates,
    posteriors: NDArray[np.floating],
    bags: Bags,
    X: Any = None,
) -> Estimates:
    """Return the estimates with the fit check of every bag as ``diagnostics["fit"]``.

    Parameters
    ----------
    quantifier : fitted quantifier on posteriors
    estimates : Estimates
        Estimates of these bags.
    posteriors : array of shape (pool_size, k)
    bags : Bags
    X : instances of the pool, optional
        Scored by the fold models if the quantifier keeps them.

    Returns
    -------
    Estimates
    """
    checker = FitChecker.fit(quantifier, n_jobs=quantifier.n_jobs, held=X is not None)
    seed, details = estimates.options.random_state, []
    points = posteriors if checker.models is None else checker.models.posteriors(X, seed)
    for number, positions in enumerate(bags):
        weights = None if bags.weights is None else bags.bag_weights(number)
        rng = np.random.default_rng(seed)
        check = checker.check_points(points[positions], weights, rng=rng)
        details.append({"fit": check.summary()})
    return replace(estimates, details=details)
