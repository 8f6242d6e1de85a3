r"""What a fit check found, in numbers and in a sentence.

The fit check: whether a bag looks like a mixture of the training classes.

With p_alpha the mixture of class densities of the posteriors and alpha its maximum likelihood
fit to the bag, the statistic is

.. math:: T = \sum_j w_j\, \phi_\alpha(x_j) - \sum_i \alpha_i\, E_i\, \phi_\alpha, \qquad
          \phi_\alpha = \log(p_\alpha + c)

with :math:`E_i` the mean over training points of class i, each with its own kernel left out: how
much worse the bag fits than its fitted mixture expects. Subtracting what the *fitted* one expects
makes T insensitive, to first order, to the composition of the bag and to the error of alpha: for
any consistent estimate the two cancel. Where one model scored both training and bag, the distance
of :mod:`kdey.diagnostics.fit_statistics` stands beside it, and the smaller of the two p-values
counts, calibrated as such. The null distribution is that of bags drawn from the training points at
alpha and fitted anew.

Estimates with the fit check of every bag among their diagnostics.
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
        Share of null bags that fit no better than this one. Small: more has changed than the
        prevalence.
    p_density, p_distance : float
        P-values of the two statistics alone: is the bag where training had little, and is it
        distributed as the fitted mixture is? The second is NaN where ``cross_fitted`` is False.
    statistic : float
        Of density: how much lower (negative) or higher the bag's mean log-density is than its
        fitted mixture expects.
    null : array of shape (n_null,)
        The statistic of bags of the same size that differ in prevalence only.
    prevalence : array of shape (k,)
        The check's own estimate of the mixture, by maximum likelihood.
    log_densities : array of shape (m,)
        Log of the fitted mixture's density at each instance (floored, no normaliser).
    local_p_values : array of shape (m,)
        For each instance, the share of the fitted mixture with a density no higher.
    unknown_share : float
        Estimated share of instances in excess among those that lie far from every class, a lower
        bound on the share of a class not seen in training; zero where there is no excess.
    unknown_class : bool
        Whether the bag does not fit and that excess is larger than chance gives.
    level : float
        Significance level of ``rejected`` and ``unknown_class``.
    cross_fitted : bool
        Whether the bag was scored by the models that scored the training set. If not, only the
        density is looked at and p-values tend to be too large (see ``docs/trust.md``): a small one
        is still a reason to worry.
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
        """Whether the p-value is below the level."""
        return self.p_value <= self.level

    def worst(self, n: int = 10) -> NDArray[np.int64]:
        """Return the positions of the ``n`` instances that fit worst, worst first."""
        return np.argsort(self.log_densities, kind="stable")[:n]

    def to_frame(self, n: int | None = None, backend: str | None = None) -> Any:
        """Return a frame of the ``n`` worst instances (None: all), worst first.

        Columns: ``instance``, ``log_density``, ``local_p_value``.
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
        """What this means, in a sentence."""
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
        """Return the numbers about the whole bag and the verdict, as plain values."""
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

    Works for every quantifier on posteriors that keeps its training posteriors: the check has
    kernel densities of its own, whatever the method. For many bags make a :class:`FitChecker`
    once.

    Parameters
    ----------
    quantifier : fitted quantifier on posteriors
    X : instances of the bag, optional
    posteriors : array-like of shape (m, k), optional
        In the place of X.
    sample_weight : array-like of shape (m,), optional
    training : (X, y), optional
        What the quantifier was fitted on. The models of its folds are then fitted again and
        score the bag, which makes p-values exact where ``cv`` has several folds. Needs X, and
        not needed where the quantifier holds these models (:func:`hold_fold_models`).
    bandwidth : float or {"scott", "silverman"}
        Of the check's Gaussian kernel on the posteriors.
    n_null : int
        Number of null bags.
    level : float in (0, 1)
        What counts as a small p-value.
    random_state : int, Generator or None
        Draws the null bags, and the fold model of each instance.
    n_jobs : int, optional
        Native threads.

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
    """The part of :func:`check_fit` that depends on training alone, made once for many bags.

    Attributes
    ----------
    quantifier : fitted quantifier
    densities : TrainingDensities
    embedding : Embedding or None
        None where training and bag are scored by different models, whose difference it would see.
    models : FoldModels or None
        None where the bag is scored by the quantifier's own classifier.
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
        """Return the checker of a fitted quantifier; parameters as for :func:`check_fit`.

        ``held`` says whether to use fold models that the quantifier holds: bags must then be
        given as X.
        """
        made = training_of(quantifier)
        kernel, n_threads = default_kernel(bandwidth), thread_count(n_jobs)
        densities = TrainingDensities.fit(made, len(quantifier.classes_), kernel, n_threads)
        warn_single(densities, quantifier.classes_)
        models = fold_models(quantifier, *training) if training is not None else None
        if models is None and held:
            models = held_fold_models(quantifier)
        same = models is not None or made.folds is None or len(np.unique(made.folds)) == 1
        embedding = Embedding.fit(densities, n_threads) if same else None
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
            raise ValueError("the fold models are to score the bag: give X")
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
        """Check a bag whose posteriors (m, k) come from ``models``, or else the classifier."""
        whole = np.arange(len(points), dtype=np.int64)[None]
        given = None if weights is None else weights[None]
        bag = _Points(self.densities.at(points, self.n_threads), self._kernels_at(points))
        alpha, seen, near = self._statistics(bag, whole, given)
        positions = null_positions(self.densities, alpha[0], len(points), n_null, rng)
        # Null bags carry the bag's own weights, in an order of their own.
        shuffled = None if weights is None else rng.permuted(np.tile(weights, (n_null, 1)), axis=1)
        _, null, far = self._statistics(self._training_points, positions, shuffled)
        distances = None if self.embedding is None else np.concatenate([near, far])
        p_value, p_density, p_distance = p_values(np.concatenate([seen, null]), distances)
        local, trained = local_p_values(self.densities, bag.densities, alpha[0])
        share, excessive = unknown_share(local, weights, trained[positions], shuffled, level)
        return FitCheck(
            p_value=p_value,
            p_density=p_density,
            p_distance=p_distance,
            statistic=float(seen[0]),
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
        """Return prevalences, T and distances of bags, positions (n_bags, size) of points."""
        alpha = fit_prevalences(points.densities, positions, weights, self.n_threads)
        logs = points.densities.floored_log(alpha, positions)
        levels = np.average(logs, axis=1, weights=weights) - self.densities.expected_log(alpha)
        if self.embedding is None or points.kernels is None:
            return alpha, levels, np.full(len(positions), np.nan)
        return alpha, levels, self.embedding.distance(points.kernels, positions, weights, alpha)


@dataclass(frozen=True, eq=False)
class _Points:
    """What the statistics need of some points: class densities, and kernels to landmarks."""

    densities: Densities
    kernels: Array | None


def p_values(densities: Array, distances: Array | None) -> tuple[float, float, float]:
    """Return the p-value of the first of several bags, and those of each statistic alone.

    The others are the null. Each statistic is turned into p-values among all bags; a bag's
    smallest one is a statistic again, and is turned into a p-value the same way.
    """
    low = _shares(densities)
    if distances is None:
        return float(low[0]), float(low[0]), float("nan")
    far = _shares(-distances)
    return float(_shares(np.minimum(low, far))[0]), float(low[0]), float(far[0])


def _shares(values: Array) -> Array:
    """Return for each value the share of values no larger."""
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
    """Return the estimates with ``diagnostics["fit"]``.

    Parameters
    ----------
    quantifier : fitted quantifier on posteriors
    estimates : Estimates
        Of these bags.
    posteriors : array of shape (pool_size, k)
    bags : Bags
    X : instances of the pool, optional
        For the fold models, where the quantifier holds them.
    """
    checker = FitChecker.fit(quantifier, n_jobs=quantifier.n_jobs, held=X is not None)
    seed, found = estimates.options.random_state, []
    points = posteriors if checker.models is None else checker.models.posteriors(X, seed)
    for number, where in enumerate(bags):
        weights = None if bags.weights is None else bags.bag_weights(number)
        rng = np.random.default_rng(seed)
        made = checker.check_points(points[where], weights, rng=rng)
        found.append({"fit": made.summary()})
    return replace(estimates, details=found)
