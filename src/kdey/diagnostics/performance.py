r"""How well a classifier does on unlabelled data: accuracy, recall, precision, F1, costs.

Under label shift a class is decided for as often as it was in training, so that the confusion
matrix of a bag is

.. math:: C_{ld} = \alpha_l R_{ld}

with :math:`\alpha` the shares of the classes and :math:`R_{ld}` the share of class l that labelled
instances, unseen by the classifier, were decided to be d. Every measure is a function of C.

**Variance.** Let :math:`G_{ld}` be the derivative of a measure by :math:`C_{ld}`,
:math:`h_l = \sum_d G_{ld} R_{ld}` and z the influence of an instance on the shares
(``intervals/moments.py``). A labelled instance of class l that was decided to be d moves the
measure by :math:`\alpha_l (G_{ld} - h'z) / n_l`, since it is part of R and of the templates; an
instance of the bag moves it by :math:`h'z / m`. With V the covariance of the shares, K the
covariance of decisions (one-hot) within class l and X that of decisions and z,

.. math:: \operatorname{Var} = h' V h + \sum_l w_l (G_l' K_l G_l - 2 G_l' X_l h), \qquad
          w_l = \frac{\alpha_l^2}{n_l} \Bigl[ + \frac{\alpha_l}{m} \Bigr]

where the last term is there if the target is the bag and not its population: decisions on the
bag are then as they are, not as they are expected. For accuracy it is
:math:`\operatorname{Var}(R'z) / m + \sum_l \alpha_l^2 \operatorname{Var}_l(\text{correct} - R'z) /
n_l`. Under label shift the recall of a class is that of training.

**Folds.** The decisions of a cross-validation are those of other classifiers, which have seen all
but a fold of the labels: they are a little worse than the one that is watched, and differ from it.
We count the instances as so many fewer, which multiplies the part of K by five quarters with five
folds (measured in ``benchmarks/performance.py``: without it the intervals of two sets of eleven
cover .90 to .93).

**Interval.** Decisions are shares, whose variance depends on the share itself. Of the variance the
part :math:`c\,p(1 - p)`, with c the variance of a measure if decisions were as uncertain as they
can be, therefore moves with p, as in Wilson's interval; the rest is constant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey._display import (
    MOST_ROWS,
    Overview,
    Shown,
    bar_column,
    count_of,
    percentages,
    row_names,
    text_column,
)
from kdey.bags import Array, BagsLike, Indices, joined_clusters, offsets_of
from kdey.intervals import Estimate, Estimates
from kdey.intervals.analytic import AnalyticUncertainty
from kdey.intervals.display import bag_names, in_library, refuse_names
from kdey.intervals.estimate import collect_estimates
from kdey.intervals.moments import ClassRows, features, regularised, selected_rows, smoothed
from kdey.intervals.profile import upper_quantile
from kdey.intervals.region import Uncertainty
from kdey.labelled.shares import score_interval
from kdey.model import AnyModel, Fitted, Model, model_of
from kdey.options import Options
from kdey.validation import as_column, encode_labels, make_frame

#: Measures of the whole bag, and of each class.
OVERALL, PER_CLASS = ("accuracy", "macro_f1"), ("recall", "precision", "f1")
#: Columns of the frame beside the keys.
COLUMNS = ("n", "measure", "class", "estimate", "low", "high", "training", "status")


@dataclass(frozen=True, eq=False)
class LabelledDecisions:
    """Decisions of a classifier on labelled instances that it has not seen.

    Attributes
    ----------
    labels, decisions : int64 arrays of shape (n,)
        Class numbers.
    weights : array of shape (n,)
    n_classes : int
    of_training : bool
        Whether these are the instances of which the templates of the quantifier are made, so that
        errors of shares and of recalls are correlated.
    seen : float
        Share of the labelled instances that each of the classifiers which decided was fitted on.
    clusters : int64 array of shape (n,) or None
        Number of the cluster in which each instance was drawn; None if they were drawn one by one.
    """

    labels: Indices
    decisions: Indices
    weights: Array
    n_classes: int
    of_training: bool
    seen: float = 1.0
    clusters: Indices | None = None

    @cached_property
    def recall(self) -> Array:
        """Row l: how often class l is decided to be each class, shape (k, k)."""
        counts = np.zeros((self.n_classes, self.n_classes))
        np.add.at(counts, (self.labels, self.decisions), self.weights)
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))

    @cached_property
    def sizes(self) -> Array:
        """Number of independent instances of each class that know as much of recalls, (k,)."""
        k, order = self.n_classes, np.argsort(self.labels, kind="stable")
        labels, counts = self.labels[order], np.bincount(self.labels, minlength=k)
        shares = self.weights[order] / np.bincount(self.labels, self.weights, k)[labels]
        clusters = None if self.clusters is None else joined_clusters(self.clusters[order])
        decided, each = np.eye(k)[self.decisions[order]], np.arange(len(order))
        rows = ClassRows(decided.astype(np.float32), offsets_of(counts), shares, each, clusters)
        if clusters is None:
            return rows.sizes
        return rows.worth(decided, 1.0 - (self.recall**2).sum(axis=1))

    @cached_property
    def covariances(self) -> Array:
        """Covariance of decisions within each class, regularised, shape (k, k, k)."""
        each = np.array([np.diag(row) - np.outer(row, row) for row in self.recall])
        return regularised(each, self.recall.T, self.sizes)

    def cross(self, uncertainty: Uncertainty) -> Array:
        """Return the covariance of decisions and z within each class, shape (k, k, k).

        It is zero where the two come from different instances or nothing is known of it, which
        leaves intervals a little too wide where right decisions move the shares to the right class.
        """
        k = self.n_classes
        moments = uncertainty.moments if isinstance(uncertainty, AnalyticUncertainty) else None
        if moments is None or moments.training is None or not self.of_training:
            return np.zeros((k, k, k))
        model = cast("AnalyticUncertainty", uncertainty).model
        assert model.training is not None
        chosen = selected_rows(model.training, k)[moments.training.thin]
        rows = moments.training.thinned
        phi = features(rows.rows, moments.prevalence, moments.projection)
        both = np.hstack([np.eye(k)[self.decisions[chosen]], phi])
        means = np.vstack([self.recall.T, moments.matrix])
        joint = regularised(rows.covariances(both), means, moments.sizes)
        return np.asarray(joint[:, :k, k:] @ moments.inverse.T)


def measures(shares: Array, recall: Array, cost: Array | None = None) -> Array:
    """Return accuracy, macro F1, cost if there is one, and k times each other measure, (M,).

    Parameters
    ----------
    shares : array of shape (k,)
    recall : array of shape (k, k)
        Row l: how often class l is decided to be each class.
    cost : array of shape (k, k), optional
    """
    confusion = shares[:, None] * recall
    right, decided = np.diag(confusion), confusion.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision, f1 = right / decided, 2.0 * right / (shares + decided)
    costs = [] if cost is None else [(cost * confusion).sum()]
    # A class that is neither there nor decided for has no F1, as in scikit-learn.
    overall = [right.sum(), f1[~np.isnan(f1)].mean() if (f1 >= 0).any() else np.nan, *costs]
    return np.concatenate([overall, np.diag(recall), precision, f1])


def measure_slopes(shares: Array, recall: Array, cost: Array | None = None) -> Array:
    """Return the derivatives of :func:`measures` by the confusion, shape (M, k, k)."""
    right, decided, k = shares * np.diag(recall), shares @ recall, len(shares)
    own, eye = np.zeros((k, k, k)), np.eye(k)
    own[np.arange(k), np.arange(k), np.arange(k)] = 1.0
    of_class, of_decision = eye[:, :, None], eye[:, None, :]  # row and column of each measure

    def ratio(factor: float, bottom: Array, spread: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            value = (factor * right / bottom)[:, None, None]
            return np.asarray((factor * own - value * spread) / bottom[:, None, None])

    f1 = ratio(2.0, shares + decided, of_class + of_decision)
    overall = np.array([eye, f1.mean(axis=0), *([] if cost is None else [cost])])
    return np.concatenate(
        [overall, ratio(1.0, shares, of_class), ratio(1.0, decided, of_decision), f1]
    )


@dataclass(frozen=True, eq=False, repr=False)
class Performance(Shown):
    """What a classifier's accuracy and other measures are expected to be on unlabelled bags.

    Attributes
    ----------
    estimates : Estimates
        The shares of the bags, with keys and statuses.
    measures : tuple of (str, label or None)
        Names of the measures: "accuracy", "macro_f1" and, with a cost matrix, "cost" of the whole
        bag, with None; "recall", "precision" and "f1" of each class, with its label.
    estimate, low, high : arrays of shape (n_bags, n_measures)
        NaN where a measure has no value: the precision of a class that is never decided for.
    training : array of shape (n_measures,)
        The same measures on the labelled instances.
    confusion, confusion_low, confusion_high : arrays of shape (n_bags, k, k)
        Share of each bag that is of the class of the row and decided to be that of the column.

    See Also
    --------
    kdey.estimate_performance : Estimate it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    >>> found = kdey.estimate_performance(q, X[1::2])
    >>> value, low, high = found.of("recall", 1)
    >>> bool(low[0] <= value[0] <= high[0])
    True
    """

    estimates: Estimates
    measures: tuple[tuple[str, Any], ...]
    estimate: Array
    low: Array
    high: Array
    training: Array
    confusion: Array
    confusion_low: Array
    confusion_high: Array

    @property
    def classes(self) -> NDArray[Any]:
        """The labels, shape (k,)."""
        return self.estimates.classes

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.estimate)

    def of(self, measure: str, label: Any = None) -> tuple[Array, Array, Array]:
        """Return one measure of every bag.

        Parameters
        ----------
        measure : {"accuracy", "macro_f1", "cost", "recall", "precision", "f1"}
        label : a class, for the last three

        Returns
        -------
        estimate, low, high : arrays of shape (n_bags,)

        Raises
        ------
        ValueError
            If there is no such measure.
        """
        for column, known in enumerate(self.measures):
            if known == (measure, label):
                return self.estimate[:, column], self.low[:, column], self.high[:, column]
        raise ValueError(
            f"there is no measure {measure!r} of {label!r}: there are "
            f"{', '.join(dict.fromkeys(name for name, _ in self.measures))}, the last three of a "
            "class"
        )

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a data frame with one row per bag and measure.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default that of the table for groups, and
            one that is installed otherwise.

        Returns
        -------
        data frame
            With the keys of groups or else ``bag``, the number of the bag; ``n``, its size;
            ``measure``; ``class``, empty for measures of the whole bag; ``estimate``, ``low``,
            ``high``; ``training``, the measure on the labelled instances; and ``status``.
        """
        import narwhals as nw

        n, k = self.estimate.shape
        labels = ["" if name not in PER_CLASS else str(label) for name, label in self.measures]
        columns: dict[str, Any] = {
            "n": np.repeat(self.estimates.size, k),
            "measure": [name for name, _ in self.measures] * n,
            "class": labels * n,
            "estimate": self.estimate.ravel(),
            "low": self.low.ravel(),
            "high": self.high.ravel(),
            "training": np.tile(self.training, n),
            "status": np.repeat(np.array(self.estimates.status, dtype=object), k),
        }
        rows, keys = np.repeat(np.arange(n), k), self.estimates.keys
        if keys is None or not keys.columns:
            return make_frame({"bag": rows, **columns}, backend)
        refuse_names(keys.columns, COLUMNS)
        numbers = nw.from_dict(
            {name: as_column(values) for name, values in columns.items()},
            backend=keys.implementation,
        )
        repeated = nw.maybe_reset_index(keys[rows.tolist()])
        return in_library(nw.concat([repeated, numbers], how="horizontal"), backend)

    def overview(self) -> Overview:
        """Return the accuracy in a sentence, and a table: by class, or of the first ten bags."""
        return self._of_one_bag() if len(self) == 1 else self._of_bags()

    def _of_one_bag(self) -> Overview:
        value, low, high = (part[0] for part in self.of("accuracy"))
        size = count_of(int(self.estimates.size[0]), "instance")
        columns = [
            text_column(name, [_interval_text(*self.of(name, c)) for c in self.classes.tolist()])
            for name in PER_CLASS
        ]
        return Overview(
            f"Expected accuracy on {size}: {100 * value:.1f} % "
            f"({self._level} interval {100 * low:.1f} to {100 * high:.1f} %; "
            f"{100 * self.training[0]:.1f} % on labelled instances).",
            row_names("class", self.classes),
            tuple(columns),
            (f"status of the estimated shares: {self.estimates.status[0]}",),
        )

    def _of_bags(self) -> Overview:
        value, low, high = (part[:MOST_ROWS] for part in self.of("accuracy"))
        more = len(self) - len(value)
        return Overview(
            f"Expected accuracy on {len(self):,} bags, {self._level} intervals; "
            f"{100 * self.training[0]:.1f} % on labelled instances.",
            row_names("bag", bag_names(self.estimates)[:MOST_ROWS]),
            (
                text_column("size", [f"{size:,}" for size in self.estimates.size[:MOST_ROWS]]),
                text_column("accuracy", percentages(value), importance=9),
                text_column("low", percentages(low)),
                text_column("high", percentages(high)),
                bar_column(value, low, high),
            ),
            (f"{more:,} more; to_frame() has all measures of all bags",) if more > 0 else (),
        )

    @property
    def _level(self) -> str:
        return f"{100 * self.estimates.options.confidence:g} %"


def _interval_text(value: Array, low: Array, high: Array) -> str:
    """Return a measure of the first bag as text."""
    if np.isnan(value[0]):
        return "-"
    return f"{100 * value[0]:.1f} % ({100 * low[0]:.0f} to {100 * high[0]:.0f})"


def estimate_performance(
    quantifier: Fitted,
    X: Any,
    *,
    bags: BagsLike | None = None,
    training_decisions: ArrayLike | None = None,
    held_out: tuple[ArrayLike, ArrayLike] | None = None,
    cost: ArrayLike | None = None,
    confidence: float | None = None,
    target: str | None = None,
    options: Options | None = None,
) -> Performance:
    """Estimate how well a classifier does on unlabelled data, with intervals.

    The classifier is that of the quantifier, which decides for the most probable class, unless
    decisions of another one are given. Its decisions on the unlabelled data are not needed: shares
    of classes there, and how often each class was mistaken for each among labelled instances, say
    what to expect. It holds if nothing but the shares has changed, as the shares themselves do.

    Parameters
    ----------
    quantifier : fitted quantifier
    X : instances; or Estimate or Estimates of this quantifier
        Estimates are used as they are, so that groups and periods of a table, weights, clusters and
        posteriors need nothing more: ``estimate_performance(q, q.predict_groups(table, "month"))``.
    bags : Bags or list of index arrays, optional
        Bags over the instances; by default all of them are one bag.
    training_decisions : array-like of shape (n,) or (n, k), optional
        Decisions of another classifier on the n instances that the quantifier was fitted on, or its
        scores in the order of the classes, of which the largest decides. It must not have been
        fitted on them: take those of a cross-validation.
    held_out : (labels, decisions), optional
        Labels of other instances that the classifier has not seen, and its decisions or scores for
        them, in the place of ``training_decisions``.
    cost : array-like of shape (k, k), optional
        What it costs to decide for the class of the column where that of the row is right. The
        measure "cost" is its mean per instance.
    confidence : float in (0, 1), optional
        Nominal coverage of the intervals; 0.95 by default.
    target : {"population", "bag"}, optional
        Whether the measures are those of the population that a bag was drawn from, by default, or
        those of the instances of the bag themselves.
    options : Options, optional
        Everything else; see :class:`kdey.Options`.

    Returns
    -------
    Performance

    Raises
    ------
    ValueError
        If there are no labelled instances with decisions, or arguments do not fit.

    See Also
    --------
    kdey.predict_groups : Estimates of the groups of a table.
    kdey.check_fit : Check whether a bag is a mixture of the training classes.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> q = kdey.KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    >>> found = kdey.estimate_performance(q, X[1::2], bags=[range(25), range(25, 75)])
    >>> found.of("accuracy")[0].round(2)
    array([1.  , 0.94])
    """
    model = model_of(quantifier)
    k = model.n_classes
    known = _labelled_decisions(model, training_decisions, held_out)
    costs = None if cost is None else _checked_cost(cost, k)
    asked: dict[str, Any] = {"confidence": confidence, "target": target, "options": options}
    estimates = _estimates(quantifier, X, bags, asked)
    if estimates.classes.tolist() != model.classes.tolist():
        raise ValueError("the estimates are of merged classes: estimate without merge")
    found = [_of_bag(estimates, bag, known, costs) for bag in range(len(estimates))]
    per_class = [(name, label) for name in PER_CLASS for label in model.classes.tolist()]
    names = [*OVERALL, *(["cost"] if costs is not None else [])]
    mass = np.bincount(known.labels, weights=known.weights, minlength=k)
    n_measures = len(names) + len(per_class)
    values = np.reshape([part[0] for part in found], (len(found), 3, n_measures))
    cells = np.reshape([part[1] for part in found], (len(found), 3, k, k))
    return Performance(
        estimates=estimates,
        measures=(*((name, None) for name in names), *per_class),
        estimate=values[:, 0],
        low=values[:, 1],
        high=values[:, 2],
        training=measures(mass / mass.sum(), known.recall, costs),
        confusion=cells[:, 0],
        confusion_low=cells[:, 1],
        confusion_high=cells[:, 2],
    )


def expected_accuracy(
    quantifier: Fitted, estimates: Estimates, bound: float
) -> list[dict[str, float]]:
    """Return the accuracy in bags of one population each, and what its error is made of.

    Parameters
    ----------
    quantifier : fitted quantifier
    estimates : Estimates
        By this quantifier.
    bound : float in (0, 1)
        The accuracy at which errors that all bags share are wanted.

    Returns
    -------
    list of n_bags dict
        ``accuracy``; ``accuracy_noise``, its variance times the number of instances if templates
        and recalls were exact; and ``accuracy_template``, the variance of the rest at the bound.
    """
    known = _labelled_decisions(model_of(quantifier), None, None)
    right, found = np.eye(known.n_classes)[None], []
    for bag in range(len(estimates)):
        spread = _Spread.of(estimates, bag, known)
        uncertainty = estimates.uncertainty_of(int(estimates.positions[bag]))
        shared = uncertainty.template_covariance()
        sampling = spread.covariance if shared is None else spread.covariance - shared
        recall, m = np.diag(known.recall), float(estimates.effective_size[bag])
        noise = max(float(recall @ sampling @ recall), 0.0)
        accuracy = float(np.clip(recall @ spread.centre, 0.0, 1.0))
        variance, of_decisions = (float(part[0]) for part in spread.variances(right))
        # As in score intervals: the part of decisions moves with the accuracy.
        inside = accuracy * (1.0 - accuracy)
        moving = min(of_decisions, max(variance - noise, 0.0) / inside) if inside else of_decisions
        rest = max(variance - noise - moving * inside, 0.0)
        found.append(
            {
                "accuracy": accuracy,
                "accuracy_noise": noise * m,
                "accuracy_template": rest + moving * bound * (1.0 - bound),
            }
        )
    return found


def _estimates(
    quantifier: Fitted, X: Any, bags: BagsLike | None, asked: dict[str, Any]
) -> Estimates:
    """Return the estimates of bags of instances, or those that were given."""
    if not isinstance(X, Estimate | Estimates):
        estimator: Any = quantifier  # quantifiers are a layer above: known by what they can do
        if not hasattr(estimator, "estimate"):
            raise TypeError("give a fitted quantifier, or estimates in the place of X")
        if bags is not None:
            return cast("Estimates", estimator.estimate_bags(X, bags, **asked))
        X = estimator.estimate(X, **asked)
    elif bags is not None or any(value is not None for value in asked.values()):
        raise ValueError(
            "bags, confidence, target and options are those of the estimates that are given: "
            "leave them out"
        )
    if isinstance(X, Estimates):
        return X
    said = {name: getattr(X, name) for name in ("confidence", "target")}
    one = collect_estimates([X], Options.given(asked["options"], **said))
    return replace(one, statuses=[X.status])


def _labelled_decisions(
    model: AnyModel, training_decisions: ArrayLike | None, held_out: Any
) -> LabelledDecisions:
    """Return the labelled instances from which recalls are counted."""
    k, training = model.n_classes, model.training
    if held_out is not None:
        if training_decisions is not None:
            raise ValueError("give training_decisions or held_out, not both")
        if not isinstance(held_out, tuple) or len(held_out) != 2:
            raise ValueError(f"held_out must be a pair (labels, decisions), got {held_out!r:.80}")
        labels, _ = encode_labels(held_out[0], model.classes)
        decided = _decided(held_out[1], model, len(labels), "the decisions of held_out")
        return _complete(
            LabelledDecisions(labels, decided, np.ones(len(labels)), k, of_training=False), model
        )
    if training is None:
        raise ValueError(
            "this quantifier keeps no labelled instances: give labels and decisions of some "
            "(held_out)"
        )
    weights = np.ones(len(training.labels)) if training.weights is None else training.weights
    if training_decisions is not None:
        rows = training.instances
        n = len(training.labels) if rows is None else None
        decided = _decided(training_decisions, model, n, "training_decisions")
        if rows is not None:
            if len(decided) <= rows.max():
                raise ValueError(
                    f"training_decisions has {len(decided)} instances, but the quantifier was "
                    f"fitted on more than {rows.max()}"
                )
            decided = decided[rows]
    else:
        decided = _own_decisions(model)
    n_folds = 1 if training.folds is None else len(np.unique(training.folds))
    seen = 1.0 - 1.0 / n_folds if n_folds > 1 else 1.0
    known = LabelledDecisions(training.labels, decided, weights, k, True, seen, training.clusters)
    return _complete(known, model)


def lacks_decisions(model: AnyModel) -> bool:
    """Return whether no decisions of the quantifier's classifier on unseen labels are known."""
    if not isinstance(model, Model) or not model.takes_posteriors or not model.is_learnt:
        return True
    return model.training is None or model.training.posteriors is None


def _own_decisions(model: AnyModel) -> Indices:
    """Return the decisions of the quantifier's classifier on its training instances."""
    training = model.training
    if not isinstance(model, Model) or lacks_decisions(model):
        raise ValueError(
            "this quantifier keeps no posteriors of training instances that its classifier had not "
            "seen: give decisions for its training instances (training_decisions), or labels and "
            "decisions of others (held_out)"
        )
    assert training is not None
    return np.asarray(np.argmax(model.pooled(training.required()), axis=1), dtype=np.int64)


def _decided(decisions: ArrayLike, model: AnyModel, n: int | None, name: str) -> Indices:
    """Return decisions as class numbers; n is their number, where it is known."""
    try:
        given = np.asarray(decisions)
        is_scores = given.ndim == 2 and given.shape[1] == model.n_classes
        is_finite = not is_scores or bool(np.isfinite(given.astype(np.float64)).all())
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be labels or finite scores: {error}") from error
    if not is_finite:
        raise ValueError(f"{name} must be labels or finite scores")
    if is_scores:
        codes = np.asarray(given.argmax(axis=1), dtype=np.int64)
    elif given.ndim == 1:
        try:
            codes, _ = encode_labels(decisions, model.classes)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: {error}") from error
    else:
        raise ValueError(
            f"{name} must be one label per instance, or scores with {model.n_classes} columns, got "
            f"shape {given.shape}"
        )
    if n is not None and len(codes) != n:
        raise ValueError(f"{name} must have {n} instances, got {len(codes)}")
    return codes


def _complete(known: LabelledDecisions, model: AnyModel) -> LabelledDecisions:
    """Return the decisions; raises ValueError if a class has no labelled instance."""
    mass = np.bincount(known.labels, weights=known.weights, minlength=known.n_classes)
    if not (mass > 0).all():
        label = model.classes[int(np.argmin(mass))]
        raise ValueError(f"class {label!r} has no labelled instance with a decision")
    return known


def _checked_cost(cost: ArrayLike, k: int) -> Array:
    message = (
        f"cost must be finite numbers of shape {(k, k)}, a row per class and a column per decision"
    )
    try:
        costs = np.asarray(cost, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{message}, got {cost!r:.80}") from error
    if costs.shape != (k, k) or not np.isfinite(costs).all():
        raise ValueError(f"{message}, got shape {costs.shape}")
    return costs


def _of_bag(
    estimates: Estimates, bag: int, known: LabelledDecisions, cost: Array | None
) -> tuple[Array, Array]:
    """Return measures (3, M) and the confusion (3, k, k) of one bag, with intervals."""
    shares, recall = estimates.estimate[bag], known.recall
    values, confusion = measures(shares, recall, cost), shares[:, None] * recall
    if not np.isfinite(shares).all():
        return np.full((3, len(values)), np.nan), np.tile(confusion, (3, 1, 1))
    spread, value_range = _Spread.of(estimates, bag, known), np.tile([[0.0], [1.0]], len(values))
    if cost is not None:
        value_range[:, len(OVERALL)] = cost.min(), max(cost.max(), cost.min() + 1e-12)
    variances = spread.variances(measure_slopes(spread.mix, recall, cost))
    ends = spread.interval(values, measures(spread.centre, recall, cost), *variances, value_range)
    there = (spread.centre[:, None] * recall).ravel()
    cells = spread.interval(confusion.ravel(), there, *spread.cell_variances(), None)
    return np.array([values, *ends]), np.array(
        [confusion, *(part.reshape(confusion.shape) for part in cells)]
    )


@dataclass(frozen=True, eq=False)
class _Spread:
    """The variances of one bag.

    Attributes
    ----------
    known : LabelledDecisions
    centre : array of shape (k,)
        The shares that intervals are built around: the estimate without smoothing bias.
    mix : array of shape (k,)
        Shares without zeros, at which variances are taken.
    covariance : array of shape (k, k)
        Of the shares.
    cross : array of shape (k, k, k)
        Of decisions and z.
    weights, own : arrays of shape (k,)
        The w of the formula at the top of this file, and those of decisions by themselves, which
        are larger where the classifiers of folds decided.
    quantile : float
    """

    known: LabelledDecisions
    centre: Array
    mix: Array
    covariance: Array
    cross: Array
    weights: Array
    own: Array
    quantile: float

    @classmethod
    def of(cls, estimates: Estimates, bag: int, known: LabelledDecisions) -> _Spread:
        uncertainty = estimates.uncertainty_of(int(estimates.positions[bag]))
        m, shares = float(estimates.effective_size[bag]), estimates.estimate[bag]
        corrected = uncertainty.corrected()
        seen = float(estimates.options.target == "bag")
        mix = smoothed(shares, m)
        if isinstance(uncertainty, AnalyticUncertainty):
            seen, mix = 1.0 - uncertainty.unseen, uncertainty.mix
        tail = (1.0 - estimates.options.confidence) / 2.0
        weights, of_bag = mix**2 / known.sizes, seen * mix / m
        return cls(
            known,
            shares if corrected is None else corrected,
            mix,
            uncertainty.covariance(),
            known.cross(uncertainty),
            weights + of_bag,
            weights / known.seen + of_bag,
            upper_quantile(tail, uncertainty.freedom()),
        )

    def variances(self, slopes: Array) -> tuple[Array, Array]:
        """Return the variances of measures with slopes (M, k, k), and the largest by decisions."""
        h = (slopes * self.known.recall).sum(axis=2)
        shares = np.einsum("mi,ij,mj->m", h, self.covariance, h)
        decided = np.einsum(
            "l,mld,lde,mle->m", self.own, slopes, self.known.covariances, slopes, optimize=True
        )
        both = np.einsum("l,mld,ldi,mi->m", self.weights, slopes, self.cross, h, optimize=True)
        ranges = slopes.max(axis=2) - slopes.min(axis=2)
        return shares + decided - 2.0 * both, np.asarray(ranges**2 @ self.own)

    def cell_variances(self) -> tuple[Array, Array]:
        """Return the same for the cells of the confusion, each of shape (k * k,)."""
        k, recall = self.known.n_classes, self.known.recall
        each = np.arange(k)
        decided = np.diagonal(self.known.covariances, axis1=1, axis2=2)
        both = self.cross[each, :, each]
        variance = recall**2 * np.diag(self.covariance)[:, None]
        variance = variance + self.own[:, None] * decided
        variance = variance - 2.0 * self.weights[:, None] * recall * both
        return variance.ravel(), np.repeat(self.own, k)

    def interval(
        self,
        values: Array,
        centres: Array,
        variances: Array,
        slopes: Array,
        value_range: Array | None,
    ) -> tuple[Array, Array]:
        """Return intervals of measures, which contain the values.

        Parameters
        ----------
        values, centres : arrays of shape (M,)
            The estimates, and what intervals are built around.
        variances, slopes : arrays of shape (M,)
            Variances, and those that decisions as uncertain as can be would give.
        value_range : array of shape (2, M), or None
            The smallest and largest value that a measure can have; None: zero and one.
        """
        first, width = 0.0, 1.0
        if value_range is not None:
            first, width = value_range[0], value_range[1] - value_range[0]
        p = np.clip((centres - first) / width, 0.0, 1.0)
        v, c = variances / np.square(width), slopes / np.square(width)
        with np.errstate(invalid="ignore", divide="ignore"):
            v = np.maximum(v, 1e-12)
            c = np.where(p * (1.0 - p) > 0.0, np.minimum(c, v / (p * (1.0 - p))), c)
            constant = np.maximum(v - c * p * (1.0 - p), 0.0)
            low, high = score_interval(p, constant, c, self.quantile)
        unknown = ~np.isfinite(low + high) & np.isfinite(values)
        low, high = np.where(unknown, 0.0, low), np.where(unknown, 1.0, high)
        low, high = first + width * low, first + width * high
        return np.minimum(low, values), np.maximum(high, values)
