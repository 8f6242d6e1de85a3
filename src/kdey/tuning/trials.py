"""Trials of settings on held-out training posteriors: the criterion, the errors, the record.

A :class:`TuningPlan` has the error and the bag size to choose for, a :class:`TrialScorer` evaluates
row specs on hold-outs, a :class:`Lattice` decides which values are evaluated, coarse to fine, and a
:class:`Tuning` is the record of what was tried and chosen, drawn by
:class:`kdey.plots.TuningDisplay`.

**Hold-outs.** The training posteriors are divided into parts. Each part serves as a pool of tuning
bags, and the other parts as the training data of their templates, so that a bag and its templates
have no instance in common. Leaving out only the kernel of each point (leave-one-out) would not
achieve that: the other points of the bag would remain among the references, the templates would fit
the bags on which they are evaluated, and small training sets would look better than they are. Equal
rows of a class are merged and their weights added, so that a weight and as many repetitions lead to
the same parts, the same bags and the same choice.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from kdey._display import (
    MOST_ROWS,
    Overview,
    bar_column,
    muted,
    percentages,
    row_names,
    text_column,
)
from kdey.bags import Bags
from kdey.classifiers import make_splits
from kdey.gpu import match_family_on
from kdey.matching import AnyMatching
from kdey.matching.divergence import MatchDivergence
from kdey.metrics import Metric, get_metric
from kdey.posteriors import TrainingPosteriors
from kdey.rows import Rows, RowSpec, TuningEffort
from kdey.rows.kernel import BandwidthWarning, families, family_rows, fit_family
from kdey.rows.monte_carlo import MonteCarloRows
from kdey.simplex import round_counts, sample_smooth
from kdey.validation import check_count, check_share, choose_device, make_frame

Array = NDArray[np.float64]
Floats = NDArray[np.floating]
Codes = NDArray[np.int64]
Indices = NDArray[np.intp]
#: Number of parts into which the training posteriors are divided.
N_PARTS = 5
#: Fewer bags suffice if there are few rows, which then limit the accuracy, and if there are many
#: classes, because each bag has many prevalences and costs more.
_ROWS_PER_BAG, _BAGS_OF_FEW_ROWS = 4, 50
_BAGS_TIMES_CLASSES, _LEAST_BAGS = 4000, 5
#: Why nothing can be learnt without hold-outs.
NO_HOLD_OUTS = "no two classes have instances in more than one fold"
#: Total number of distinct rows in all pools.
_POOL_ROWS = 5_000
#: The weight of a committee member is (smallest error / its error) to this power. On 22 cases
#: (docs/lab/automatic.md) the error hardly depends on it between 4 and 16.
POWER = 8
#: Members whose weight relative to the best is below this are left out.
LEAST_WEIGHT = 0.1
#: From each evaluated place of a lattice to its errors per bag, shape (n_bags,).
PlaceErrors: TypeAlias = "dict[int, Array]"
#: Number of steps by which the coarse grid may be extended if the best value is at its edge.
_MOST_EXTENSIONS = 3


@dataclass(frozen=True, eq=False)
class HoldOut:
    """A pool of held-out rows with bags, and the training rows of the templates.

    Attributes
    ----------
    training : TrainingPosteriors
        The other parts; the classes that they contain are numbered 0..n_classes-1.
    n_classes : int
    points : array of shape (m, d)
        The pool's distinct rows.
    bags : Bags
        Bags over the pool; weights count how often a row was drawn.
    prevalences : array of shape (n_bags, n_classes)
    """

    training: TrainingPosteriors
    n_classes: int
    points: Floats
    bags: Bags
    prevalences: Array


def make_hold_outs(
    training: TrainingPosteriors,
    n_classes: int,
    plan: TuningPlan,
    seed: int,
    effort: TuningEffort,
) -> list[HoldOut]:
    """Return the hold-outs on which settings are evaluated; empty if no part can be held out.

    The prevalences of bags are uniform over the classes that are present both in the pool and in
    the training rows; instances are drawn with replacement, in proportion to their weights. Large
    training sets use fewer parts as pools (at least two), and classes with too many rows are
    subsampled.

    Parameters
    ----------
    training : TrainingPosteriors
    n_classes : int
    plan : TuningPlan
        The size of bags, and the part of the simplex that prevalences are drawn from.
    seed : int
    effort : TuningEffort
        Upper bounds on the number of bags and of training rows.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(N_PARTS,)))
    rows = make_parts(training, rng)
    part = np.asarray(rows.folds)
    n_tested = int(np.clip(round(_POOL_ROWS * N_PARTS / len(rows.labels)), 2, N_PARTS))
    tested = np.unique(part)[:n_tested]
    by_rows = max(_BAGS_OF_FEW_ROWS, len(rows.labels) // _ROWS_PER_BAG)
    by_classes = max(_LEAST_BAGS, _BAGS_TIMES_CLASSES // n_classes)
    n_bags_total = min(effort.bags, by_rows, by_classes)
    counts = [len(share) for share in np.array_split(np.arange(n_bags_total), len(tested))]
    hold_outs = []
    for number, n_bags in zip(tested, counts, strict=True):
        is_tested = part == number
        pool = _subsample(rows, np.flatnonzero(is_tested), _POOL_ROWS // len(tested), rng)
        rest = _subsample(rows, np.flatnonzero(~is_tested), effort.rows, rng)
        hold_outs.append(_hold_out(pool, rest, plan, n_bags, rng))
    return [hold_out for hold_out in hold_outs if hold_out is not None]


def _hold_out(
    pool: TrainingPosteriors,
    rest: TrainingPosteriors,
    plan: TuningPlan,
    n_bags: int,
    rng: np.random.Generator,
) -> HoldOut | None:
    """Draw the bags; None if fewer than two classes are in both the pool and the rest."""
    present = np.unique(rest.labels)
    pool = pool.take(np.flatnonzero(np.isin(pool.labels, present)))
    testable = np.unique(pool.labels)
    if len(testable) < 2:
        return None
    counts = np.zeros((n_bags, len(present)), dtype=np.int64)
    prevalences = sample_smooth(len(testable), n_bags, rng, plan.smoothest)
    counts[:, np.searchsorted(present, testable)] = round_counts(prevalences, plan.bag_size)
    bags = _draw(np.searchsorted(present, pool.labels), pool.row_weights, counts, rng)
    codes = np.searchsorted(present, rest.labels).astype(np.int64)
    training = TrainingPosteriors(rest.posteriors, codes, rest.weights)
    return HoldOut(training, len(present), pool.required(), bags, counts / plan.bag_size)


def _subsample(
    rows: TrainingPosteriors, positions: Indices, limit: int, rng: np.random.Generator
) -> TrainingPosteriors:
    """Return the rows at ``positions``, or about ``limit`` of them, evenly over the classes."""
    if len(positions) <= limit:
        return rows.take(positions)
    labels = rows.labels[positions]
    names, counts = np.unique(labels, return_counts=True)
    quota, left = 0, limit
    for size, n_open in zip(np.sort(counts), range(len(names), 0, -1), strict=True):
        quota = left // n_open  # what small classes do not need goes to the others
        left -= min(int(size), quota)
    selected = [rng.permutation(positions[labels == name])[:quota] for name in names]
    return rows.take(np.sort(np.concatenate(selected)))


def _draw(labels: Codes, weights: Array, counts: Codes, rng: np.random.Generator) -> Bags:
    """Draw ``counts[b, i]`` rows of class i for bag b, with replacement, by cumulative weight."""
    bags, rows = [], []
    for label in range(counts.shape[1]):
        total = int(counts[:, label].sum())
        if total == 0:
            continue
        members = np.flatnonzero(labels == label)
        shares = np.cumsum(weights[members]) / weights[members].sum()
        picks = np.searchsorted(shares, rng.random(total), side="right")
        rows.append(members[np.minimum(picks, len(members) - 1)])
        bags.append(np.repeat(np.arange(len(counts)), counts[:, label]))
    entries = (np.concatenate(bags), np.concatenate(rows))
    drawn = sp.coo_array((np.ones(len(entries[0])), entries), shape=(len(counts), len(labels)))
    return Bags.from_matrix(drawn.tocsr())


def make_parts(training: TrainingPosteriors, rng: np.random.Generator) -> TrainingPosteriors:
    """Return the distinct training rows, with their part in the place of the fold.

    The folds of a cross-validation are the parts (grouped, if there are more folds than parts): a
    held-out part then comes from another model than the templates, as every later bag does. Without
    folds, clusters are distributed whole, or else the rows of each class at random.
    """
    weights = training.row_weights
    folds = _folds(training)
    if folds is None and training.clusters is not None:
        folds = _cluster_parts(training, rng)
    part = np.zeros(len(weights), np.int64) if folds is None else folds
    parts = TrainingPosteriors(training.required(), training.labels, weights, part)
    merged = _merge_equal(parts.take(np.flatnonzero(weights > 0)))
    return merged if folds is not None else _distribute(merged, rng)


def _folds(training: TrainingPosteriors) -> Codes | None:
    """Return the part of each row from its fold; None if there is only one fold."""
    if training.folds is None:
        return None
    names, folds = np.unique(training.folds, return_inverse=True)
    if len(names) < 2:
        return None
    if training.instances is not None:
        # All rows of an instance that was tested several times must be in the same part.
        _, first, back = np.unique(training.instances, return_index=True, return_inverse=True)
        folds = folds[first][back]
    return np.asarray(folds % N_PARTS, dtype=np.int64)


def _cluster_parts(training: TrainingPosteriors, rng: np.random.Generator) -> Codes:
    """Return parts that leave clusters whole."""
    labels, part = training.labels, np.zeros(len(training.labels), dtype=np.int64)
    _, codes = np.unique(labels, return_inverse=True)
    most = min(N_PARTS, int(np.bincount(codes).max()))
    if most > 1:
        data = (most, labels, codes, np.arange(int(codes.max()) + 1))
        seed = int(rng.integers(2**31 - 1))
        splits = make_splits(*data, random_state=seed, clusters=training.clusters)
        for number, (_, test) in enumerate(splits):
            part[test] = number
    return part


def _merge_equal(rows: TrainingPosteriors) -> TrainingPosteriors:
    """Return the distinct rows in sorted order, with their weights added."""
    part = np.asarray(rows.folds)
    order = np.lexsort((*rows.required().T[::-1], rows.labels, part))
    rows, part = rows.take(order), part[order]
    points = rows.required()
    is_repeated = (points[1:] == points[:-1]).all(axis=1)
    is_repeated &= (rows.labels[1:] == rows.labels[:-1]) & (part[1:] == part[:-1])
    starts = np.flatnonzero(np.concatenate([[True], ~is_repeated]))
    return replace(rows.take(starts), weights=np.add.reduceat(rows.row_weights, starts))


def _distribute(rows: TrainingPosteriors, rng: np.random.Generator) -> TrainingPosteriors:
    """Distribute the rows of each class over the parts, with about equal weight in each.

    A row that stands for at least as many instances as there are parts (trees give many equal
    posteriors) is divided among all parts. In a single part, it would be missing from the
    templates of that part, although much of the class is there.
    """
    weights = rows.row_weights
    shared, whole = np.flatnonzero(weights >= N_PARTS), np.flatnonzero(weights < N_PARTS)
    part = np.empty(len(whole), dtype=np.int64)
    for label in np.unique(rows.labels[whole]):
        members = rng.permutation(np.flatnonzero(rows.labels[whole] == label))
        w = weights[whole[members]]
        middle = (np.cumsum(w) - w / 2) / w.sum()
        part[members] = np.minimum((middle * N_PARTS).astype(np.int64), N_PARTS - 1)
    positions = np.concatenate([whole, np.repeat(shared, N_PARTS)])
    shares = np.where(weights >= N_PARTS, weights / N_PARTS, weights)[positions]
    parts = np.concatenate([part, np.tile(np.arange(N_PARTS), len(shared))])
    return replace(rows.take(positions), weights=shares, folds=parts)


class TuningWarning(UserWarning):
    """No parameter could be chosen from the training data; a fixed setting is used."""


@dataclass(frozen=True)
class Trial:
    """One setting on the tuning bags.

    Attributes
    ----------
    setting : str
        Description of the setting besides ``value``: the geometry, or the kind of histogram.
    params : tuple of (name, value)
    value : float
        The bandwidth, or the number of bins.
    score : float
        Mean error over the tuning bags.
    spread : float
        Standard error of that mean over the bags.
    weight : float
        Share in the estimate; zero if the setting was not chosen.
    """

    setting: str
    params: tuple[tuple[str, Any], ...]
    value: float
    score: float
    spread: float
    weight: float = 0.0


@dataclass(frozen=True, repr=False)
class Tuning:
    """The trials of an automatic choice, in order of setting and value.

    Attributes
    ----------
    parameter : {"bandwidth", "n_bins"}
    trials : tuple of Trial
    metric : str
    bag_size, n_bags, seed : int
    baseline : float
        Mean error of the uniform prevalence on the same bags.
    reason : str or None
        Why nothing could be chosen; None if there was a choice.

    See Also
    --------
    kdey.plots.TuningDisplay : Draw the record of an automatic choice.
    kdey.KDEyML : Kernel densities by maximum likelihood.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> tuning = kdey.KDEyML(random_state=0).fit(X[::2], y[::2]).tuning_
    >>> tuning.parameter
    'bandwidth'
    >>> bool(tuning.best.score < tuning.baseline)
    True
    """

    parameter: str
    trials: tuple[Trial, ...]
    metric: str
    bag_size: int
    n_bags: int
    seed: int
    baseline: float
    reason: str | None = None

    @property
    def members(self) -> tuple[Trial, ...]:
        """The trials with positive weight, heaviest first; their weights sum to one."""
        kept = [trial for trial in self.trials if trial.weight > 0]
        return tuple(sorted(kept, key=lambda trial: -trial.weight))

    @property
    def best(self) -> Trial:
        """The member with the smallest error."""
        return self.members[0]

    @property
    def best_value(self) -> float:
        """The value of the parameter with the smallest error."""
        return self.best.value

    def to_frame(self, backend: str | None = None) -> Any:
        """Return one row per trial as a data frame of pandas, polars or pyarrow."""
        columns: dict[str, Any] = {
            "setting": [trial.setting for trial in self.trials],
            self.parameter: [trial.value for trial in self.trials],
            self.metric: [trial.score for trial in self.trials],
            "standard_error": [trial.spread for trial in self.trials],
            "weight": [trial.weight for trial in self.trials],
        }
        return make_frame(columns, backend)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the errors against the values; needs matplotlib (``pip install 'kdey[plot]'``).

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default a new figure.

        Returns
        -------
        kdey.plots.TuningDisplay
            With ``ax_`` and ``figure_``.
        """
        import kdey  # Displays are a layer above records, so we reach them by the public name.

        return kdey.plots.TuningDisplay.from_tuning(self, ax=ax)

    def overview(self) -> Overview:
        """Return the choice in a sentence, and a table of the ten best trials."""
        best = sorted(self.trials, key=lambda trial: (-trial.weight, trial.score))[:MOST_ROWS]
        more = len(self.trials) - len(best)
        return Overview(
            self.summary(),
            row_names(self.parameter, [f"{trial.value:.3g}" for trial in best]),
            (
                text_column("setting", [t.setting for t in best], numeric=False, importance=7),
                text_column(f"mean {self.metric}", [f"{t.score:.4g}" for t in best], importance=9),
                text_column("std. error", [f"{t.spread:.2g}" for t in best], importance=4),
                text_column("weight", percentages([t.weight for t in best], 0), importance=8),
                bar_column([t.weight for t in best]),
            ),
            (f"and {more:,} more settings; to_frame() has all",) if more else (),
        )

    def __repr__(self) -> str:
        """Return the :meth:`overview` as text."""
        return str(self.overview())

    def _repr_html_(self) -> str:
        return self.overview().html()

    def summary(self) -> str:
        """Return a sentence about the choice."""
        words = self.parameter.replace("n_bins", "number of bins")
        if self.reason is not None:
            return f"No {words} could be chosen: {self.reason}. Used: {_describe(self.best)}."
        error = get_metric(self.metric).title
        return (
            f"Chosen: {self._choice()}. On {self.n_bags} bags of {self.bag_size} held-out training "
            f"instances the best of {len(self.trials)} settings had a mean {error} of "
            f"{self.best.score:.3g}, against {self.baseline:.3g} for answering all classes alike."
        )

    def _choice(self) -> str:
        if len(self.members) == 1:
            return f"{self.parameter} {_describe(self.best)}"
        shares = [f"{_describe(trial)} ({100 * trial.weight:.0f} %)" for trial in self.members]
        return f"the average of {self.parameter} " + ", ".join(shares)


def make_trial(
    setting: str,
    params: dict[str, Any],
    value: float,
    errors: Array | None,
    weight: float | bool = 0.0,
) -> Trial:
    """Return the trial of a setting from its error on each bag; None: it was not tried."""
    errors = np.full(1, np.nan) if errors is None else errors
    spread = float(np.std(errors) / np.sqrt(len(errors)))
    return Trial(
        setting, tuple(params.items()), value, float(np.mean(errors)), spread, float(weight)
    )


def committee_weights(scores: Sequence[float], most_members: int) -> Array:
    r"""Return the weights of the members of a committee, which sum to one.

    .. math:: w_g \propto (e_{\min} / e_g)^8, \quad 0 \text{ where this is below } 0.1

    for the ``most_members`` smallest errors, and zero for the others.
    """
    errors = np.asarray(scores, dtype=np.float64)
    weights = np.zeros(len(errors))
    kept = np.argsort(errors, kind="stable")[:most_members]
    best = kept[0]
    weights[best] = 1.0
    if errors[best] > 0:
        raw = (errors[best] / errors[kept]) ** POWER
        weights[kept] = np.where(raw >= LEAST_WEIGHT, raw, 0.0)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _describe(trial: Trial) -> str:
    return f"{trial.value:.3g} [{trial.setting}]"


@dataclass(frozen=True)
class TuningPlan:
    """The criterion of an automatic choice, as the user specifies it.

    Attributes
    ----------
    tune_for : str or Metric
        The error to minimise: "ae", "rae" or another of :mod:`kdey.metrics`.
    bag_size : int
        Expected size of bags.
    random_state : int, RandomState or None
        Seed of parts and bags. None means the seed 0, so that equal data give equal choices.
    smoothest : float
        Share of the simplex, its smoothest part, from which prevalences are drawn; for ordered
        classes (:func:`kdey.simplex.sample_smooth`). One is the whole simplex.
    device : str
        Where candidates are evaluated (``kdey.validation.device_name``).
    """

    tune_for: Any = "ae"
    bag_size: int = 500
    random_state: Any = None
    smoothest: float = 1.0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.smoothest != 1.0:
            check_share(self.smoothest, "tune_smoothest")
        try:
            get_metric(self.tune_for)
        except ValueError as error:
            raise ValueError(f"tune_for: {error}") from None
        check_count(self.bag_size, "tune_bag_size")

    @property
    def metric(self) -> Metric:
        """The error as a metric."""
        return get_metric(self.tune_for)

    def seed(self) -> int:
        """Return the seed as a number; a RandomState is advanced by one draw."""
        if self.random_state is None:
            return 0
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def record(
        self,
        parameter: str,
        trials: Sequence[Trial],
        seed: int,
        scorer: TrialScorer | None = None,
        reason: str | None = None,
    ) -> Tuning:
        """Return the record of trials on the hold-outs of a scorer; without one nothing was tried.

        Parameters
        ----------
        parameter : str
        trials : sequence of Trial
        seed : int
        scorer : TrialScorer, optional
        reason : str, optional
            Why nothing could be chosen.
        """
        n_bags, baseline = (0, math.nan) if scorer is None else (scorer.n_bags, scorer.baseline())
        return Tuning(
            *(parameter, tuple(trials), self.metric.name, self.bag_size, n_bags, seed),
            *(baseline, reason),
        )

    def record_unlearnt(
        self,
        parameter: str,
        trial: Trial,
        seed: int,
        reason: str = NO_HOLD_OUTS,
        used: str | None = None,
    ) -> Tuning:
        """Warn that nothing can be learnt; return the record of the trial that is used instead.

        Parameters
        ----------
        parameter : str
        trial : Trial
        seed : int
        reason : str
        used : str, optional
            What is used instead, in words; by default the value of the trial.
        """
        warnings.warn(
            f"{parameter}: nothing can be learnt from the training posteriors ({reason}); "
            f"{used or f'using {trial.value:g}'}",
            TuningWarning,
            stacklevel=3,
        )
        return self.record(parameter, [replace(trial, weight=1.0)], seed, reason=reason)


def takes_quick_rows(matching: AnyMatching) -> bool:
    """Return whether rows accurate to six digits of their largest entries are accurate enough.

    They are where the profile of the bag enters without a logarithm or a quotient.
    """
    return isinstance(matching, MatchDivergence) and matching.divergence == "hellinger"


def quick(rows: Rows) -> Rows:
    """Return Monte Carlo rows accurate to six digits, to compare candidates; others as they are."""
    return replace(rows, quick=True) if isinstance(rows, MonteCarloRows) else rows


@dataclass(frozen=True, eq=False)
class TrialScorer:
    """Evaluates row specs by the error of a matching on the bags of all hold-outs."""

    hold_outs: Sequence[HoldOut]
    matching: AnyMatching
    plan: TuningPlan
    n_threads: int = 1

    @property
    def n_bags(self) -> int:
        """Number of the bags of all hold-outs."""
        return sum(len(hold_out.bags) for hold_out in self.hold_outs)

    def errors(self, specs: Sequence[RowSpec]) -> Array:
        """Return the error of each spec on each bag, shape (n_specs, n_bags).

        Specs of one family (the bandwidths of a kernel) share one pass over the distances.
        """
        # Extreme candidates may cause warnings; their errors rule them out.
        quiet = muted(BandwidthWarning, ConvergenceWarning)
        with quiet, np.errstate(divide="ignore", invalid="ignore"):
            device = choose_device(self.plan.device, self._n_pairs(len(specs)))
            if device is not None:
                return self._errors_on_device(specs, device)
            return np.concatenate(
                [self._errors_of(hold_out, specs) for hold_out in self.hold_outs], axis=1
            )

    def _n_pairs(self, n_specs: int) -> float:
        """Return about how many kernel values specs with kernels take."""
        pairs = (float(len(h.training.labels)) * len(h.points) for h in self.hold_outs)
        return n_specs * sum(pairs)

    def baseline(self) -> float:
        """Return the mean error of the uniform prevalence."""
        errors = [
            self.error(hold_out, np.full(hold_out.prevalences.shape, 1.0 / hold_out.n_classes))
            for hold_out in self.hold_outs
        ]
        return float(np.concatenate(errors).mean())

    def _errors_of(self, hold_out: HoldOut, specs: Sequence[RowSpec]) -> Array:
        out = np.empty((len(specs), len(hold_out.bags)))
        for family in families(specs, len(hold_out.points), hold_out.n_classes):
            members = [specs[i] for i in family]
            maps = fit_family(members, hold_out.training, hold_out.n_classes, self.n_threads)
            every = family_rows(maps, hold_out.points, self.n_threads)
            for number, row_map, rows in zip(family, maps, every, strict=True):
                used = quick(rows) if takes_quick_rows(self.matching) else rows
                solution = self.matching.match(row_map, used, hold_out.bags, self.n_threads)
                out[number] = self.error(hold_out, solution.prevalence)
        return out

    def _errors_on_device(self, specs: Sequence[RowSpec], device: Any) -> Array:
        """Return :meth:`errors`, computed on a device for all hold-outs at once."""
        out = [np.empty((len(specs), len(hold_out.bags))) for hold_out in self.hold_outs]
        pool_size = max(len(hold_out.points) for hold_out in self.hold_outs)
        n_classes = max(hold_out.n_classes for hold_out in self.hold_outs)
        samples = [(h.training, h.points, h.n_classes, h.bags) for h in self.hold_outs]
        for family in families(specs, pool_size, n_classes):
            members = [specs[i] for i in family]
            solved = match_family_on(members, self.matching, samples, device, self.n_threads)
            for errors, hold_out, solutions in zip(out, self.hold_outs, solved, strict=True):
                for number, solution in zip(family, solutions, strict=True):
                    errors[number] = self.error(hold_out, solution.prevalence)
        return np.concatenate(out, axis=1)

    def error(self, hold_out: HoldOut, estimated: Array) -> Array:
        """Return the error of estimates of the bags of a hold-out, shape (n_bags,)."""
        metric = self.plan.metric
        return metric.sign * -metric(hold_out.prevalences, estimated, bag_size=self.plan.bag_size)


@dataclass(frozen=True, eq=False)
class Lattice:
    """A lattice of values to search, represented by integers, its places.

    Attributes
    ----------
    errors_at : callable
        From a list of places to their errors per bag, shape (n_places, n_bags).
    low, high : int
        Smallest and largest place allowed.
    step : int
        Distance between the places of a coarse grid.
    """

    errors_at: Callable[[list[int]], Array]
    low: int
    high: int
    step: int

    def scan(self, coarse: Sequence[int]) -> PlaceErrors:
        """Return the errors on a coarse grid, extended if the best place is at its edge."""
        errors = self._evaluate({}, list(coarse))
        for _ in range(_MOST_EXTENSIONS):
            place = best_place(errors)
            if min(errors) < place < max(errors):
                break
            errors = self._evaluate(errors, [place - self.step, place + self.step])
        return errors

    def refine(self, errors: PlaceErrors, strides: Sequence[int]) -> PlaceErrors:
        """Return ``errors`` with those of the neighbours of the best place, coarse to fine."""
        for stride in strides:
            place = best_place(errors)
            errors = self._evaluate(errors, [place - stride, place + stride])
        return errors

    def _evaluate(self, errors: PlaceErrors, places: list[int]) -> PlaceErrors:
        new = [p for p in places if p not in errors and self.low <= p <= self.high]
        return errors | dict(zip(new, self.errors_at(new), strict=True)) if new else errors


def best_place(errors: PlaceErrors) -> int:
    """Return the place of the smallest mean error; the largest one of several."""
    return min(errors, key=lambda place: (float(np.mean(errors[place])), -place))


def smallest_error(errors: PlaceErrors) -> float:
    """Return the smallest mean error."""
    return float(np.mean(errors[best_place(errors)]))
