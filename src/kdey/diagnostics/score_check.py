r"""The score check, whether the scores of a bag look like a mixture of the training classes.

With p_alpha the mixture of class densities of the posteriors and alpha its maximum likelihood
fit to the bag, the statistic is

.. math:: T = \sum_j w_j\, \phi_\alpha(x_j) - \sum_i \alpha_i\, E_i\, \phi_\alpha, \qquad
          \phi_\alpha = \log(p_\alpha + c)

with :math:`E_i` the leave-one-out mean over training points of class i. T says how much worse the
bag fits than its fitted mixture predicts. Subtracting the prediction of the *fitted* mixture makes
T insensitive, to first order, to the composition of the bag and to the error of alpha: for any
consistent estimate the two cancel. If the same models scored training set and bag, we also use the
kernel distance of :mod:`kdey.diagnostics.score_statistics`; the smaller of the two p-values is then
the statistic, calibrated as such. The null distribution is that of bags drawn from the training
points at alpha and fitted in the same way (:mod:`kdey.diagnostics.score_statistics`).

:meth:`FitChecker.check` looks at one bag in full. :meth:`FitChecker.screen` gives verdicts on many
bags at bounded cost, as ``estimate``, groups and reports need them:

* **Sample.** A bag with more than 10,000 instances is represented by 10,000 of them, drawn at
  random without replacement. Under label shift a random part of a bag is a bag, so the check stays
  exact; it has the power of a bag of that size. At most 10,000 training posteriors serve as
  references, for the same reason. Both numbers shrink beyond 100 classes, to 1,000,000 / k.
* **Early stop.** A bag that obviously fits does not need 300 null bags. We look at the p-value
  after 9, 14, 21, ... of them (:data:`LOOKS`) and stop once six bags, this one among them, fit no
  better than it (Besag and Clifford, 1991). With 300 null bags its p-value would then have been
  about 6 / 301 or more: a p-value below 0.02 always rests on all null bags and is the one that the
  full check gives. At a level above 0.02 all null bags are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _num_samples

from kdey._display import Overview, Shown, bar_column, muted, row_names, text_column
from kdey._fingerprints import row_hashes
from kdey.bags import Array, Bags, Indices, offsets_of
from kdey.diagnostics.column_check import score_histogram, unknown_share_bound
from kdey.diagnostics.score_statistics import (
    DEFAULT_KERNEL,
    Densities,
    NullBags,
    TrainingDensities,
    few_per_class,
    fit_prevalences,
    local_p_values,
    warn_single,
)
from kdey.intervals.checks import FitVerdict, unknown_sentence
from kdey.model import AnyModel, Fitted, Model, bag_posteriors, model_of, training_of
from kdey.native import thread_count
from kdey.posteriors import predict_posteriors
from kdey.validation import check_count, check_share, check_weights, make_frame, take_rows

Floats = NDArray[np.floating]

N_NULL, LEVEL = 300, 0.05
#: Level of the checks that ``estimate``, groups and reports make without being asked: one false
#: alarm in a hundred.
DEFAULT_CHECK_LEVEL = 0.01
#: Numbers of null bags after which a check may stop.
LOOKS = (9, 14, 21, 31, 47, 70, 105, 158, 237)
#: Exceeding null bags at which a check stops: the final p-value is then above 0.02.
ENOUGH = 6
#: The largest level at which a check may stop early.
_MOST_LEVEL = 0.02
#: Instances of a bag that are checked, and training posteriors that serve as references.
MOST_INSTANCES = 10_000
#: Bound on that number times the number of classes.
_MOST_CELLS = 1_000_000
#: Numbers of a temporary array (32 MB).
_CHUNK = 4_000_000
#: Share of distinct training posteriors below which instances count as repeated: those of a table
#: with few distinct rows. The fit check of a forest on 32 distinct rows rejected .097 at level .05
#: where equal rows shared a fold model, and .023 where they did not.
REPEATED = 0.5


def most_instances(n_classes: int) -> int:
    """Return the number of instances of a bag that are checked, and of references."""
    return max(2 * n_classes, min(MOST_INSTANCES, _MOST_CELLS // n_classes))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class FitCheck(Shown, FitVerdict):
    """Result of :func:`kdey.check_fit`: the verdict, and what it rests on.

    Attributes
    ----------
    p_value, level, cross_fitted, size, n_checked, n_null
        See :class:`FitVerdict`.
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
    log_densities : array of shape (n_checked,)
        Logarithm of the fitted mixture's density at each instance (floored, not normalised).
    local_p_values : array of shape (n_checked,)
        For each instance, the share of the fitted mixture with a density no higher.
    instances : int64 array of shape (n_checked,)
        Positions of the checked instances in the bag, ascending.
    unknown_share : float or None
        At least this share of the bag belongs to no training class, by the scores alone; see
        :func:`kdey.diagnostics.unknown_share_bound`. None if ``cross_fitted`` is False, because
        scores of different models cannot be compared in this way.

    See Also
    --------
    kdey.check_fit : Check whether a bag is a mixture of the training classes.
    kdey.plots.FitCheckDisplay : Draw a fit check.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    >>> check = kdey.check_fit(q, X[1::2], random_state=0)
    >>> check.rejected
    False
    >>> len(check.worst(3))
    3
    """

    p_density: float
    p_distance: float
    statistic: float
    null: Array
    prevalence: Array
    log_densities: Array
    local_p_values: Array
    instances: Indices
    unknown_share: float | None

    def worst(self, n: int = 10) -> NDArray[np.int64]:
        """Return the positions in the bag of the ``n`` instances that fit worst, worst first."""
        return self.instances[self._order(n)]

    def to_frame(self, n: int | None = None, backend: str | None = None) -> Any:
        """Return a data frame of the ``n`` instances that fit worst, starting with the worst.

        Parameters
        ----------
        n : int, optional
            Default: all instances that were checked.
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
            With columns ``instance``, ``log_density`` and ``local_p_value``.
        """
        order = self._order(self.n_checked if n is None else n)
        table = {
            "instance": self.instances[order],
            "log_density": self.log_densities[order],
            "local_p_value": self.local_p_values[order],
        }
        return make_frame(table, backend)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the statistic among those of bags that fit.

        Needs matplotlib (``pip install 'kdey[plot]'``).

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default a new figure.

        Returns
        -------
        kdey.plots.FitCheckDisplay
            With ``ax_`` and ``figure_``.
        """
        import kdey  # Displays are a layer above checks, so we reach them by the public name.

        return kdey.plots.FitCheckDisplay.from_check(self, ax=ax)

    def overview(self) -> Overview:
        """Return the verdict, and a table of the p-values of each statistic."""
        parts = [
            ("the check", self.p_value),
            ("density alone", self.p_density),
            ("distance alone", self.p_distance),
        ]
        known = [(name, p) for name, p in parts if not np.isnan(p)]
        remarks = [f"{self.n_null:,} simulated samples that fit; level {self.level:g}"]
        if self.rejected:
            worst = ", ".join(str(place) for place in self.worst(5))
            remarks.append(f"items that fit worst, by position in the sample: {worst}")
            if self.unknown_share:
                remarks.append(unknown_sentence(self.unknown_share))
        return Overview(
            self.verdict,
            row_names("statistic", [name for name, _ in known]),
            (
                text_column("p-value", [f"{p:.3g}" for _, p in known], importance=9),
                bar_column([p for _, p in known]),
            ),
            tuple(remarks),
        )

    def _order(self, n: int) -> Indices:
        return np.argsort(self.log_densities, kind="stable")[:n]


def check_fit(
    quantifier: Fitted,
    X: Any = None,
    *,
    posteriors: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    n_null: int = N_NULL,
    level: float = LEVEL,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> FitCheck:
    """Check whether a bag looks like a mixture of the training classes.

    This works for every quantifier on posteriors that keeps its training posteriors, because the
    check computes its own kernel densities whatever the method. If the quantifier keeps the models
    of its folds (``fit(keep_fold_models=True)``), they score the bag, and p-values are exact. For
    many bags create one :class:`FitChecker`. Of a bag with more than 10,000 instances a random
    sample of that size is checked.

    Parameters
    ----------
    quantifier : fitted quantifier on posteriors
    X : instances of the bag, optional
    posteriors : array-like of shape (m, k), optional
        Posteriors of the bag, instead of X.
    sample_weight : array-like of shape (m,), optional
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

    See Also
    --------
    kdey.FitCheck : Result of a fit check.
    kdey.diagnostics.FitChecker : Fit checks of many bags.
    kdey.identifiability : Report how precisely prevalences can be known.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] > 0]
    >>> bool(kdey.check_fit(q, X_bag, random_state=0).rejected)
    False
    >>> bool(kdey.check_fit(q, X_bag - 1, random_state=0).rejected)
    True
    """
    checker = FitChecker.fit(quantifier, n_jobs=n_jobs, held=X is not None)
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
    cross_fitted : bool
        Whether the same models score training set and bag. Otherwise checks are one-sided, because
        a distance would detect the difference between the models.
    models : FoldModels or None
        None if the quantifier's classifier scores the bag.
    n_threads : int

    See Also
    --------
    kdey.check_fit : Check whether a bag is a mixture of the training classes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    >>> checker = kdey.diagnostics.FitChecker.fit(q)
    >>> checker.quantifier is q
    True
    """

    quantifier: Fitted
    densities: TrainingDensities
    cross_fitted: bool
    models: FoldModels | None
    n_threads: int

    @classmethod
    def fit(
        cls,
        quantifier: Fitted,
        *,
        n_jobs: int | None = None,
        held: bool = True,
        most_references: int | None = None,
    ) -> FitChecker:
        """Return the checker of a fitted quantifier.

        Parameters
        ----------
        quantifier, n_jobs
            As for :func:`check_fit`.
        held : bool
            Whether to use fold models that the quantifier keeps. Bags must then be passed as X.
        most_references : int, optional
            Number of training posteriors to use; by default (and at most) :func:`most_instances`.

        Returns
        -------
        FitChecker
        """
        known = training_of(quantifier)
        model = model_of(quantifier)
        k = model.n_classes
        n_threads, most = thread_count(n_jobs), most_instances(k)
        most = most if most_references is None else min(most, most_references)
        references = few_per_class(known, k, most)
        densities = TrainingDensities.fit(references, k, DEFAULT_KERNEL, n_threads)
        warn_single(densities, model.classes)
        models = kept_fold_models(quantifier) if held else None
        same_models = models is not None or known.folds is None or len(np.unique(known.folds)) == 1
        return cls(quantifier, densities, same_models, models, n_threads)

    @property
    def most_instances(self) -> int:
        """Number of instances of a bag that are checked."""
        return most_instances(self.densities.n_classes)

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
        seed = int(rng.integers(2**63))
        size, instances = len(points), sample_positions(len(points), self.most_instances, seed)
        bag = Bags(
            np.arange(len(instances), dtype=np.int64),
            np.array([0, len(instances)], dtype=np.int64),
            len(instances),
            None if weights is None else weights[instances],
        )
        check = _Comparison.start(self, points[instances], bag, seed)
        for numbers in _looks(n_null):
            check.add_null_bags(numbers, np.zeros(1, dtype=np.int64))
        p_value, p_density, p_distance = (float(p[0]) for p in check.p_values(np.zeros(1, int)))
        histogram = self.histogram(points[instances], bag.weights)
        return FitCheck(
            p_value=p_value,
            p_density=p_density,
            p_distance=p_distance,
            statistic=float(check.statistics[0][0, 0]),
            null=check.statistics[0][0, 1:],
            prevalence=check.prevalences[0],
            log_densities=check.densities.floored_log(check.prevalences[:1])[:, 0],
            local_p_values=check.local_p_values(0)[0],
            instances=instances,
            unknown_share=None if histogram is None else unknown_share_bound([histogram]),
            level=level,
            cross_fitted=self.cross_fitted,
            size=size,
            n_checked=len(instances),
            n_null=n_null,
        )

    def histogram(
        self, points: NDArray[np.floating], weights: Array | None = None
    ) -> tuple[Array, Array] | None:
        """Return the histogram of the scores of training and of a bag (m, k).

        None if other models scored the bag, because it would detect the difference between them.
        """
        if not self.cross_fitted:
            return None
        known, model = training_of(self.quantifier), model_of(self.quantifier)
        training, own = model.pooled(known.required()), model.pooled(points)
        drawn = (known.weights, known.clusters)
        return score_histogram(training, known.labels, own, weights, *drawn)

    def screen(
        self,
        points: NDArray[np.floating],
        bags: Bags,
        *,
        sizes: Indices | None = None,
        hashes: NDArray[np.uint64] | None = None,
        seed: int = 0,
        n_null: int = N_NULL,
        level: float = DEFAULT_CHECK_LEVEL,
    ) -> list[FitVerdict]:
        """Return verdicts on many bags, each at bounded cost (see the module's text).

        The verdict on a bag does not depend on the other bags.

        Parameters
        ----------
        points : array of shape (pool_size, k), in memory or on disk
            Posteriors by ``models``, or by the quantifier's classifier if ``models`` is None.
        bags : Bags
            A sample is drawn of those with more than ``most_instances`` instances.
        sizes : int64 array of shape (n_bags,), optional
            Sizes of the bags before a sample was drawn by the caller; by default those of ``bags``.
        hashes : uint64 array of shape (pool_size,), optional
            Hash of each instance, where ``points`` may hold the posteriors of every fold model,
            shape (pool_size, F k); see ``one_model_each``.
        seed : int
        n_null, level
            As for :func:`check_fit`.

        Returns
        -------
        list of n_bags verdicts
        """
        _check_effort(n_null, level)
        whole = bags.sizes if sizes is None else sizes
        sampled = sample_bags(bags, self.most_instances, seed)
        width = self.densities.n_classes
        width += len(self.densities.landmarks) if self.cross_fitted else 0
        verdicts: list[FitVerdict] = []
        for part in sampled.runs(max(1, 2 * _CHUNK // width)):
            run = sampled[part]
            own = np.asarray(points[run.indices])
            if hashes is not None:
                k = self.densities.n_classes
                own = one_model_each(own, hashes[run.indices], k, run.offsets)
            local = Bags(np.arange(len(own), dtype=np.int64), run.offsets, len(own), run.weights)
            with muted(ConvergenceWarning):  # a null bag is nothing that the caller knows of
                comparison = _Comparison.start(self, own, local, seed)
                p_values, used = comparison.draw_null_bags(n_null, level)
            for number, size in enumerate(whole[part]):
                verdicts.append(
                    FitVerdict(
                        p_value=float(p_values[number]),
                        level=level,
                        cross_fitted=self.cross_fitted,
                        size=int(size),
                        n_checked=int(run.sizes[number]),
                        n_null=int(used[number]),
                    )
                )
        return verdicts


def sample_positions(size: int, most: int, seed: int) -> Indices:
    """Return ascending positions of a random sample of ``most`` of ``size`` instances, or all."""
    if size <= most:
        return np.arange(size, dtype=np.int64)
    drawn = np.random.default_rng(seed).choice(size, most, replace=False, shuffle=False)
    return np.sort(drawn.astype(np.int64))


def sample_bags(bags: Bags, most: int, seed: int) -> Bags:
    """Return bags of at most ``most`` instances: random samples of those that are larger."""
    if bags.sizes.max() <= most:
        return bags
    kept = [
        start + sample_positions(int(size), most, seed)
        for start, size in zip(bags.offsets[:-1], bags.sizes, strict=True)
    ]
    flat = np.concatenate(kept)
    weights = None if bags.weights is None else bags.weights[flat]
    offsets = offsets_of([len(positions) for positions in kept])
    return Bags(bags.indices[flat], offsets, bags.pool_size, weights)


@dataclass(frozen=True, eq=False)
class _Comparison:
    """Some bags, compared with null bags of their own.

    Attributes
    ----------
    checker : FitChecker
    densities : Densities
        Of the points of all bags.
    bags : Bags
        Over these points.
    null : NullBags
    prevalences : array of shape (n_bags, k)
    statistics : two arrays of shape (n_bags, 1 + n_null_so_far)
        The statistics T and the distances, first of the bags and then of their null bags; NaN
        where a null bag was not drawn, and for all distances if the check is one-sided.
    """

    checker: FitChecker
    densities: Densities
    bags: Bags
    null: NullBags
    prevalences: Array
    statistics: list[Array]

    @classmethod
    def start(
        cls, checker: FitChecker, points: NDArray[np.floating], bags: Bags, seed: int
    ) -> _Comparison:
        """Return the comparison of bags, before any null bag was drawn."""
        densities = checker.densities.at(points, checker.n_threads)
        prevalences = fit_prevalences(densities, bags, checker.n_threads)
        features = checker.densities.embed(points) if checker.cross_fitted else None
        observed = _statistics(checker, densities, features, bags, prevalences)
        null = NullBags(checker.densities, seed, int(bags.sizes.max()))
        return cls(
            checker, densities, bags, null, prevalences, [value[:, None] for value in observed]
        )

    def draw_null_bags(self, n_null: int, level: float) -> tuple[Array, Indices]:
        """Draw null bags until each bag has enough of them for a decision at a level.

        Returns
        -------
        p_values : array of shape (n_bags,)
        used : int64 array of shape (n_bags,)
            Number of null bags of each bag.
        """
        active = np.arange(len(self.bags))
        p_values, used = np.ones(len(active)), np.zeros(len(active), dtype=np.int64)
        enough = ENOUGH if level <= _MOST_LEVEL else np.inf
        for numbers in _looks(n_null):
            self.add_null_bags(numbers, active)
            current = self.p_values(active)[0]
            p_values[active], used[active] = current, numbers.stop
            active = active[np.rint(current * (numbers.stop + 1)) < enough]
            if not len(active):
                break
        return p_values, used

    def add_null_bags(self, numbers: range, active: Indices) -> None:
        """Draw some null bags of the ``active`` bags, and add their statistics."""
        added = [np.full((len(self.bags), len(numbers)), np.nan) for _ in range(2)]
        checker, training = self.checker, self.checker.densities
        features = training.features if checker.cross_fitted else None
        for part in self._runs(active, len(numbers)):
            null = self._draw(part, numbers)
            start = np.repeat(self.prevalences[part], len(numbers), axis=0)
            fitted = fit_prevalences(training.held_out, null, checker.n_threads, start)
            values = _statistics(checker, training.held_out, features, null, fitted)
            for column, value in zip(added, values, strict=True):
                column[part] = value.reshape(len(part), -1)
        for i in range(2):
            self.statistics[i] = np.hstack([self.statistics[i], added[i]])

    def p_values(self, active: Indices) -> tuple[Array, Array, Array]:
        """Return the p-values of the ``active`` bags: of both statistics, and of each alone."""
        density, distance = (values[active] for values in self.statistics)
        return p_values(density, distance if self.checker.cross_fitted else None)

    def local_p_values(self, number: int) -> tuple[Array, Array]:
        """Return the local p-values of all points under the mixture of one bag, and of training."""
        return local_p_values(self.checker.densities, self.densities, self.prevalences[number])

    def _draw(self, part: Indices, numbers: range) -> Bags:
        weights = None
        if self.bags.weights is not None:
            weights = [self.bags.bag_weights(int(number)) for number in part]
        return self.null.draw(self.prevalences[part], self.bags.sizes[part], numbers, weights)

    def _runs(self, active: Indices, n_null: int) -> Iterator[Indices]:
        """Cut bags into runs whose null bags have about ``_CHUNK / 4`` instances together."""
        ends = np.cumsum(self.bags.sizes[active] * n_null)
        first = 0
        while first < len(active):
            before = ends[first - 1] if first else 0
            last = int(np.searchsorted(ends, before + _CHUNK // 4, side="right"))
            last = max(first + 1, last)
            yield active[first:last]
            first = last


def _statistics(
    checker: FitChecker,
    densities: Densities,
    features: Array | None,
    bags: Bags,
    prevalences: Array,
) -> tuple[Array, Array]:
    """Return the statistics T and the distances of bags, each of shape (n_bags,).

    The distances are NaN if the check is one-sided.
    """
    t = densities.mean_floored_log(prevalences, bags) - checker.densities.expected_log(prevalences)
    if features is None:
        return t, np.full(len(bags), np.nan)
    return t, checker.densities.distance(features, bags, prevalences)


def _looks(n_null: int) -> list[range]:
    """Return the numbers of null bags between one look at the p-value and the next."""
    later = range(LOOKS[-1] + N_NULL, n_null, N_NULL)
    ends = [*(look for look in (*LOOKS, *later) if look < n_null), n_null]
    return [range(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def p_values(densities: Array, distances: Array | None) -> tuple[Array, Array, Array]:
    """Return the p-value of the first bag of each row, and those of each statistic alone.

    The other bags of a row are the null. Each statistic is converted into p-values among all bags.
    The smaller of a bag's two p-values is a new statistic, converted into a p-value in the same
    way; of bags with the same smaller p-value, the one with the smaller other p-value fits worse,
    because few null bags would otherwise have many ties.

    Parameters
    ----------
    densities : array of shape (n_rows, 1 + n_null)
        The statistics T; small values are evidence against the fit.
    distances : array of shape (n_rows, 1 + n_null) or None
        Large values are evidence against the fit.

    Returns
    -------
    p_value, p_density, p_distance : arrays of shape (n_rows,)
        The last is NaN without distances.
    """
    low = _shares(densities)
    if distances is None:
        return low[:, 0], low[:, 0], np.full(len(low), np.nan)
    far = _shares(-distances)
    # Shares are multiples of 1 / n, so that the second term decides among ties only.
    both = np.minimum(low, far) + np.maximum(low, far) / (low.shape[1] + 1)
    return _shares(both)[:, 0], low[:, 0], far[:, 0]


def _shares(values: Array) -> Array:
    """Return for each value the share of the values of its row that are no larger."""
    from scipy.stats import rankdata  # slow to import

    return np.asarray(rankdata(values, method="max", axis=1) / values.shape[1])


def _check_effort(n_null: int, level: float) -> None:
    check_count(n_null, "n_null", least=19)
    check_share(level, "level")


@dataclass(frozen=True, eq=False)
class FoldModels:
    """Classifiers that were each fitted without one fold, which score bags for the check.

    Training posteriors come from models fitted on a part of the training set, those of a bag from
    the classifier fitted on all of it, which is slightly more confident. A check that compares the
    two would detect this difference. It does not exist if the classifiers of the folds score the
    bag.

    Attributes
    ----------
    models : tuple of F fitted classifiers
    classes : array of shape (k,)
    repeated : bool
        Whether many training instances are equal, so that those of a bag will be, too.
    """

    models: tuple[Any, ...]
    classes: NDArray[Any]
    repeated: bool = False

    def posteriors(self, X: Any, random_state: Any = None, by_fold: Floats | None = None) -> Floats:
        """Return posteriors, each instance being scored by one model chosen at random.

        We use one model per instance rather than the mean of all, because each training posterior
        comes from one model and a mean of models is more confident than each of them.

        Parameters
        ----------
        X : instances
        random_state : int, Generator or None
        by_fold : array of shape (F, m, k), optional
            The posteriors by all models, where they are known.

        Returns
        -------
        array of shape (m, k)
        """
        rng = np.random.default_rng(random_state)
        chosen = rng.permutation(np.arange(_num_samples(X)) % len(self.models))
        return self._scored_by(X, chosen, by_fold)

    def posteriors_by(
        self, X: Any, hashes: NDArray[np.uint64], by_fold: Floats | None = None
    ) -> Floats:
        """As :meth:`posteriors`, where a hash of each instance chooses the model.

        An instance thus has the same posteriors in whatever table, batch and order it comes. Equal
        instances must not all have the same model, though: those of training have not. Where many
        are equal, all models score each, shape (m, F k), and ``one_model_each`` chooses among
        them once the instances of a bag are together. ``by_fold`` are the posteriors by all models,
        shape (F, m, k), where they are known.
        """
        n_models = len(self.models)
        if not self.repeated or n_models == 1:
            return self._scored_by(X, (hashes % np.uint64(n_models)).astype(np.int64), by_fold)
        if not len(hashes):
            return np.empty((0, n_models * len(self.classes)))
        if by_fold is not None:
            return np.hstack(list(by_fold))
        _, first, numbers = np.unique(row_hashes(X), return_index=True, return_inverse=True)
        distinct = take_rows(X, first)
        scored = [predict_posteriors(model, distinct, self.classes) for model in self.models]
        return np.asarray(np.hstack(scored)[numbers])

    def _scored_by(self, X: Any, model: NDArray[np.int64], by_fold: Floats | None = None) -> Floats:
        """Return the posteriors of instances, each by the model with the number given."""
        if by_fold is not None:
            return np.asarray(by_fold[model, np.arange(len(model))])
        out = np.empty((len(model), len(self.classes)))
        for f, fitted in enumerate(self.models):
            rows = np.flatnonzero(model == f)
            if len(rows):
                out[rows] = predict_posteriors(fitted, take_rows(X, rows), self.classes)
        return out


def one_model_each(
    posteriors: Floats,
    hashes: NDArray[np.uint64],
    n_classes: int,
    offsets: Indices | None = None,
) -> Floats:
    """Return the posteriors of instances by one fold model each, shape (m, k).

    Copies of an instance in a bag take the models in turn, from one that the hash chooses, so that
    the result does not depend on the order of the copies.

    Parameters
    ----------
    posteriors : array of shape (m, F k)
        By all models, or by one (F = 1).
    hashes : uint64 array of shape (m,)
    n_classes : int
    offsets : int64 array of shape (n_bags + 1,), optional
        Bag b owns instances ``offsets[b]`` to ``offsets[b + 1]``; by default all are one bag.
    """
    n_models = posteriors.shape[1] // n_classes
    if n_models == 1:
        return posteriors
    ends = np.array([0, len(hashes)]) if offsets is None else offsets
    bags = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    order = np.lexsort((hashes, bags))
    changes = (np.diff(hashes[order]) != 0) | (np.diff(bags[order]) != 0)
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    copies = np.empty(len(order), dtype=np.uint64)
    copies[order] = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
    chosen = ((hashes + copies) % np.uint64(n_models)).astype(np.int64)
    return posteriors.reshape(len(posteriors), n_models, n_classes)[np.arange(len(order)), chosen]


def _are_repeated(model: AnyModel) -> bool:
    """Return whether many training instances are equal, as their posteriors show."""
    training = model.training if isinstance(model, Model) else None
    if training is None or training.posteriors is None:
        return False
    posteriors = training.posteriors

    def compute() -> bool:
        return len(np.unique(row_hashes(posteriors))) < REPEATED * len(posteriors)

    return bool(model.derived("repeated instances", compute))


def kept_fold_models(quantifier: Fitted) -> FoldModels | None:
    """Return the models of the folds that ``fit`` kept, or None if there are none."""
    model = model_of(quantifier)
    models = model.fold_models
    if models is None:
        return None
    return FoldModels(tuple(models), model.classes, _are_repeated(model))
