r"""Estimation with labels: three estimates side by side, a test and a sentence.

The steps: the estimate without labels, the joint estimate under label shift, predictions adapted to
it, from these the prediction-powered estimate and the test, and the labels alone.

No estimate is chosen by the test: choosing by a test with little power gives intervals that cover
too rarely. The prediction-powered estimate is believed unless the caller says otherwise, because
its intervals hold whatever has shifted; the test says what the estimate under label shift is worth.

**The predictions** f of the labels are posteriors adapted to an estimate :math:`\alpha` (see
:mod:`kdey.intervals.moments`). Under label shift their mean in a bag is T times its prevalence,
where column l of T is their mean in training class l. So :math:`z = T^{-1} f` has the mean of the
one-hot labels y, in every class; this is what the test of label shift looks at.

**The test** of label shift by the labels of the bag. Under label shift :math:`z = T^{-1} f` has the
mean of y in every class, so that :math:`d = \overline{(y - z)}_L` has mean zero. Its covariance is
:math:`V = \sum_l (p_l/n + c\, p_l^2/n_l)\, \mathrm{Cov}_l(z)`, with p the shares among the n
labels, :math:`n_l` the training instances of class l and c the inflation of the variance of
templates. The statistic :math:`d' V^- d` would have a chi-square
distribution with k - 1 degrees of freedom if d were normal. With good classifiers and few labels
it is not: a single confusion that training hardly shows is enough to reject. We therefore compare
the statistic with draws of it, in which every label gets the residual of a random training instance
of its class; with more than 500 labels, with the chi-square distribution.

The difference of the estimates with and without label shift could be tested by the difference of
their variances (Hausman); in a prototype this rejected label shift in 18 to 35 % of the bags where
it held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc

from kdey.bags import Array, Bags, sampled_bags
from kdey.intervals.analytic import densities, moment_rows as rows_of_moments, training_rows
from kdey.intervals.checks import Checks
from kdey.intervals.estimate import FEW_FREEDOM, Decisions, Estimate
from kdey.intervals.merging import Merging
from kdey.intervals.moments import PSEUDO_OBSERVATIONS, ClassRows, adapted, class_rows, smoothed
from kdey.labelled.shares import (
    Labelled,
    LabelledSample,
    Shares,
    joint_solution,
    label_shift_shares,
    labelled_sample,
    labels_alone,
    prediction_powered,
    sample_offsets,
    without_labels,
)
from kdey.matching import Solution, exact_solution
from kdey.model import Model
from kdey.options import (
    LABEL_SHIFT,
    LABELLED_NOISE,
    LABELS,
    PREDICTION_POWERED,
    WAYS,
    Options,
)
from kdey.rows import Rows
from kdey.rows.posterior import RatioMap
from kdey.status import FEW_CLUSTERS
from kdey.validation import check_weights

E = TypeVar("E", bound=Estimate)
#: The note of bags in which every instance has a label.
ALL_LABELLED = "every instance has a label, so that the three estimates are the same"
#: The note of methods on features, which predict no labels.
NO_PREDICTIONS = (
    "the method works on features and predicts no labels: the prediction-powered estimate is that "
    "of the labels alone"
)
#: Where labelled rows may differ from the others, beside the names of columns.
SCORES = "scores"
#: Why each estimate may be believed.
_REASONS = {
    PREDICTION_POWERED: "whose intervals are right whatever has changed since training",
    LABELS: "as asked for, which makes no use of the classifier",
    LABEL_SHIFT: "as asked for, which is right only if nothing but the shares has changed",
}


@dataclass(frozen=True, eq=False, repr=False)
class LabelledEstimate(Estimate):
    """Prevalences of one bag of which some instances have labels.

    ``estimate``, ``low`` and ``high`` are those of the way that is believed.

    Attributes
    ----------
    alternatives : dict of str to Estimate
        "label-shift": labels as one-hot rows of the likelihood, valid if only the prevalences have
        changed since training. "labels": shares among the labels. "prediction-powered": mean
        predictions, corrected by the labels, valid whatever has changed.
    believed : str
        The key of the alternative that is believed.
    n_labels : int
    shift_test : LabelShiftTest or None
        The test of label shift; None if the method keeps no training posteriors.
    draw_p_value : float or None
        How probable it is that a random draw differs as much from the bag in its predictions or
        columns as the labelled instances do; None if that was not tested, as where ``selection`` is
        given.
    draw_differs_in : str
        Where the labelled instances differ most: "scores", or the name of a column.
    """

    alternatives: dict[str, Estimate] = field(default_factory=dict)
    believed: str = PREDICTION_POWERED
    n_labels: int = 0
    shift_test: LabelShiftTest | None = None
    draw_p_value: float | None = None
    draw_differs_in: str = SCORES

    @property
    def verdict(self) -> str:
        """Which estimate is believed and why, in one or two sentences."""
        believed, test = self.believed, self.shift_test
        labels = "1 label" if self.n_labels == 1 else f"{self.n_labels:,} labels"
        doubt = self._doubt_of_the_draw
        if doubt is not None:
            return (
                f"the {labels} of this sample may not be a random draw: {doubt}. Estimates that "
                "use labels which were chosen by what they are may be wrong by more than their "
                "intervals say: draw them at random, give the probabilities of selection, "
                "or leave them out"
            )
        first = f"with {labels} of this sample, use the {believed} estimate, {_REASONS[believed]}"
        if test is None:
            return f"{first}; label shift could not be tested, because no training data are kept"
        p = f"p = {test.p_value:.2g}"
        if test.rejected:
            warning = "do not use" if believed != LABEL_SHIFT else "you should not use"
            return (
                f"{first}; the labels contradict label shift ({p}): {warning} the estimate under it"
            )
        widths = {name: float((e.high - e.low).mean()) for name, e in self.alternatives.items()}
        return (
            f"{first}; the labels do not contradict label shift ({p}), under which the intervals "
            f"are {widths[LABEL_SHIFT]:.3f} wide on average instead of "
            f"{widths[PREDICTION_POWERED]:.3f}, but labels cannot prove it"
        )

    @property
    def _doubt_of_the_draw(self) -> str | None:
        """Why the labels may not be a random draw; None if nothing speaks against it."""
        p, test = self.draw_p_value, self.shift_test
        if p is not None and p < _DRAW_LEVEL:
            what = self.draw_differs_in
            where = "their scores" if what == SCORES else f"column {what!r}"
            return f"labelled rows differ from the others in {where} (p = {p:.2g})"
        shift, labels = self.alternatives[LABEL_SHIFT], self.alternatives[LABELS]
        apart = (shift.low > labels.high) | (labels.low > shift.high)
        if p is not None and test is not None and not test.rejected and apart.any():
            where = self.classes[int(np.argmax(apart))]
            return f"the intervals of {where!s} by labels and under label shift lie apart"
        return None

    def with_checks(self, checks: Checks) -> LabelledEstimate:
        """Return the result, and its alternatives, with what was checked of the bag."""

        def checked(part: E) -> E:
            found = {**part.diagnostics, **checks.summary()}
            return replace(part, checks=checks, diagnostics=found)

        parts = {name: checked(part) for name, part in self.alternatives.items()}
        return replace(checked(self), alternatives=parts)

    def merge(self, merge: Mapping[Any, Any]) -> Estimate:
        """Raise ValueError: the intervals of a sum need the labels, so merge when estimating."""
        raise ValueError(
            "the intervals of a sum of classes need the labels themselves: use estimate(..., "
            "labelled=..., merge=...)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate and its alternatives as plain Python values."""
        test = self.shift_test
        return {
            **super().to_dict(),
            "believed": self.believed,
            "n_labels": self.n_labels,
            "verdict": self.verdict,
            "label_shift_test": None if test is None else test.to_dict(),
            "draw_p_value": self.draw_p_value,
            "draw_differs_in": self.draw_differs_in,
            "alternatives": {name: part.to_dict() for name, part in self.alternatives.items()},
        }


def estimate_labelled(
    model: Model,
    points: NDArray[Any],
    labelled: Labelled,
    options: Options,
    *,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    merge: Mapping[Any, Any] | None = None,
    X: Any = None,
    n_threads: int = 1,
) -> LabelledEstimate:
    """Return the estimates of the bag of all points, of which some have labels.

    Parameters
    ----------
    model : Model
    points : array of shape (m, d)
        Posteriors or features of all instances, as ``model.takes_posteriors`` says.
    labelled : pair of array-likes of shape (n,)
        Positions of the labelled instances in the bag, and their labels.
    options : Options
        Among them ``selection``, the probability with which each labelled instance was chosen for
        labelling, and ``believe``, the way that is believed.
    sample_weight, clusters : array-likes of shape (m,), optional
        As for ``estimate``.
    merge : mapping, optional
        As for :meth:`kdey.Estimate.merge`.
    X : instances, optional
        Labelled ones are compared with all of them in the columns that the model knows.

    Returns
    -------
    LabelledEstimate

    Raises
    ------
    ValueError
        If labels or options do not fit the bag.
    """
    if options.has_label_noise:
        raise ValueError(LABELLED_NOISE)
    weights = None if sample_weight is None else check_weights(sample_weight, len(points))
    sample = labelled_sample(
        labelled,
        model.classes,
        len(points),
        weights=weights,
        selection=options.selection,
        drawn=sampled_bags(Bags.whole(len(points), weights), clusters, options),
    )
    merging = None if merge is None else Merging.of(merge, model.classes)
    known = X is not None and model.columns is not None and options.check_fit
    codes = model.columns.codes(X) if known and model.columns is not None else None
    return estimate_labelled_bags(
        *(model, points, [sample], options, merging), codes=codes, n_threads=n_threads
    )[0]


def estimate_labelled_bags(
    model: Model,
    points: NDArray[Any],
    samples: Sequence[LabelledSample],
    options: Options,
    merging: Merging | None = None,
    *,
    test: bool = True,
    codes: NDArray[np.uint8] | None = None,
    n_threads: int = 1,
) -> list[LabelledEstimate]:
    """Return the estimates of many bags, in each of which some instances have labels.

    All bags are solved together, which takes a fraction of the time of one call per bag.

    Parameters
    ----------
    model : Model
    points : array of shape (total size of the samples, d)
        Posteriors or features of all instances, bag after bag.
    samples : sequence of LabelledSample
    options : Options
    merging : Merging, optional
        Groups of classes whose shares are wanted; by default every class by itself.
    test : bool
        Whether to test label shift, which takes most of the time.
    codes : uint8 array of shape (total size of the samples, n_columns), optional
        Bins of the columns that the model knows, in which labelled instances may differ, too.

    Returns
    -------
    list of LabelledEstimate
    """
    if not samples:
        return []
    groups = Merging.identity(model.classes) if merging is None else merging
    runs = [slice(a, b) for a, b in pairwise(sample_offsets(samples).tolist())]
    rows = model.row_map(points, n_threads)
    predictor = LabelPredictor.of(model, points, rows, n_threads)
    bases, solutions = _solve(model, points, rows, samples, options, n_threads)
    bag, of_bags = replace(options, target="bag"), None
    if options.target == "population" and any(sample.unseen < 1.0 for sample in samples):
        of_bags = _solve(model, points, rows, samples, bag, n_threads)
    results = []
    for number, (run, sample) in enumerate(zip(runs, samples, strict=True)):
        base, solution = bases[number], solutions[number]
        shift_test = None
        draw: tuple[float | None, str] = None, SCORES
        f, moments = _predictions(predictor, run, solution, sample)
        shares, notes = _shares(sample, base, solution, f, groups, options)
        if of_bags is not None and sample.unseen < 1.0:
            base_of_bag, whole = of_bags[0][number], of_bags[1][number]
            predicted, _ = _predictions(predictor, run, whole, sample)
            known, _ = _shares(sample, base_of_bag, whole, predicted, groups, bag)
            shares = {
                way: one.of_finite_population(known[way], sample.unseen)
                for way, one in shares.items()
            }
        alternatives = _alternatives(
            model, points[run], sample, shares, notes, solution, groups, options
        )
        if test and f is not None and moments is not None:
            shift_test = label_shift_test(f, moments, sample, options.random_state)
            if base is not None and sample.selection is None:
                names = [] if model.columns is None else [c.name for c in model.columns.columns]
                bins = [] if codes is None else [_one_hot(own) for own in codes[run].T]
                draw = _draw_test(f, names, bins, sample, options.random_state)
        chosen = alternatives[options.believe]
        result = LabelledEstimate(
            **{name: getattr(chosen, name) for name in chosen.__dataclass_fields__},
            alternatives=alternatives,
            believed=options.believe,
            n_labels=sample.n_labels,
            shift_test=shift_test,
            draw_p_value=draw[0],
            draw_differs_in=draw[1],
        )
        told = {"notes": [*chosen.notes, result.verdict]}
        results.append(replace(result, diagnostics={**chosen.diagnostics, **told}))
    return results


def _solve(
    model: Model,
    points: NDArray[Any],
    rows: Rows,
    samples: Sequence[LabelledSample],
    options: Options,
    n_threads: int,
) -> tuple[list[Estimate | None], list[Solution]]:
    """Return for each sample the estimate without labels, and the joint solution.

    A sample in which every instance has a label has no estimate without labels.
    """
    bases: list[Estimate | None] = [None] * len(samples)
    solutions = [exact_solution((s.label_weights @ s.one_hot)[None]) for s in samples]
    partial = [number for number, s in enumerate(samples) if len(s.unlabelled)]
    if not partial:
        return bases, solutions
    if len(partial) < len(samples):
        offsets = sample_offsets(samples)
        kept = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in partial])
        points = points[kept]
        rows = model.row_map(points, n_threads)
    chosen = [samples[number] for number in partial]
    unlabelled = list(without_labels(model, points, chosen, options, n_threads))
    joint = joint_solution(model, rows, chosen, unlabelled, n_threads)
    for position, number in enumerate(partial):
        bases[number], solutions[number] = unlabelled[position], joint[position : position + 1]
    return bases, solutions


def _predictions(
    predictor: LabelPredictor | None, run: slice, solution: Solution, sample: LabelledSample
) -> tuple[Array | None, ClassMoments | None]:
    """Return predictions adapted to a solution, and their moments, if a method makes any."""
    if predictor is None:
        return None, None
    return predictor.predict(run, solution.prevalence[0], sample.bag_size)


def _shares(
    sample: LabelledSample,
    base: Estimate | None,
    solution: Solution,
    f: Array | None,
    groups: Merging,
    options: Options,
) -> tuple[dict[str, Shares], list[str]]:
    """Return the shares that each way gives, and notes."""
    tail, population = options.tail(len(groups.names)), options.target == "population"
    y = sample.one_hot @ groups.matrix.T
    shares = dict.fromkeys(WAYS, labels_alone(y, sample, tail, population))
    if base is None:
        return shares, [ALL_LABELLED]
    notes, joint = list(base.diagnostics["notes"]), solution.prevalence[0]
    shares[LABEL_SHIFT] = label_shift_shares(joint, sample, base, groups, options)
    if f is None:
        notes.append(NO_PREDICTIONS)
    else:
        merged = f @ groups.matrix.T
        shares[PREDICTION_POWERED] = prediction_powered(y, merged, sample, tail, population)
    return shares, notes


def _alternatives(
    model: Model,
    points: NDArray[Any],
    sample: LabelledSample,
    shares: dict[str, Shares],
    notes: list[str],
    solution: Solution,
    groups: Merging,
    options: Options,
) -> dict[str, Estimate]:
    """Return the three estimates of one bag."""
    decided = model.takes_posteriors
    decisions = Decisions(points, sample.bag(sample.members)) if decided else None
    counted = groups.decisions(decisions)
    return {
        way: Estimate(
            classes=groups.names,
            estimate=found.estimate,
            low=found.low,
            high=found.high,
            confidence=options.confidence,
            target=options.target,
            simultaneous=options.simultaneous,
            training_prevalence=groups.matrix @ model.prevalence,
            size=len(sample.members),
            gap=float(solution.gap[0]) if way == LABEL_SHIFT else np.nan,
            converged=bool(solution.converged[0]),
            uncertainty=found,
            decisions=counted,
            diagnostics={
                "effective_size": sample.bag_size,
                "effective_labels": sample.label_size,
                "notes": list(notes) if way != LABELS else [],
                "marks": [FEW_CLUSTERS] if sample.freedom < FEW_FREEDOM else [],
            },
        )
        for way, found in shares.items()
    }


#: Singular values of T below this share of the largest count as zero.
_CUTOFF = 1e-6
#: Factor of the variance of T in the test of label shift. T comes from classifiers that saw a part
#: of the labels, and from instances that the classifiers of the other folds were fitted on: with
#: redrawn training sets the errors of the moment equation had 1.3 to 1.8 times the variance of
#: means of n_l instances. With factor 2 the test rejected 5 to 9 % under label shift, with factor 3
#: 2 to 4 % (docs/lab/decisions/0020-labels-of-the-bag.md).
TEMPLATE_INFLATION = 3.0
#: With more labels the statistic is compared with a chi-square distribution.
_MOST_DRAWN = 500
#: Labels with smaller p-values of the draw are doubted.
_DRAW_LEVEL = 0.01
#: P-values of the draw above this are not looked at more closely.
_CLEAR = 0.1
#: Labels that are to be expected in a bin of a column, and beside it, for it to be looked at.
_LEAST_EXPECTED = 5.0
#: Number of residuals that are drawn in all, about 30 ms.
_MOST_RESIDUALS = 200_000


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """Moments of z = T^-1 f within the training classes.

    Attributes
    ----------
    inverse : array of shape (k, k)
        T^-1, a pseudo-inverse if classes cannot be distinguished.
    covariances : array of shape (k, k, k)
        Covariance of z within each class.
    sizes : array of shape (k,)
        Effective number of training instances of each class.
    residuals : tuple of k arrays of shape (m_l + k, k)
        z of training instances of each class, minus their mean, followed by the k
        pseudo-observations of the class (see :data:`kdey.intervals.moments.PSEUDO_OBSERVATIONS`).
    """

    inverse: Array
    covariances: Array
    sizes: Array
    residuals: tuple[Array, ...]

    def covariance(self, shares: Array, size: float) -> Array:
        """Return the covariance of a mean of z - y, shape (k, k).

        Parameters
        ----------
        shares : array of shape (k,)
            Shares p of the classes among the instances of the mean.
        size : float
            Effective number n of these instances.

        Returns
        -------
        array of shape (k, k)
            sum_l (p_l / n + c p_l^2 / n_l) Cov_l(z): the second part is that of the templates.
        """
        bag = np.tensordot(shares / size, self.covariances, axes=1)
        return np.asarray(bag + self.template_covariance(shares))

    def template_covariance(self, shares: Array) -> Array:
        """Return the part of the covariance that is due to the templates, shape (k, k)."""
        weights = TEMPLATE_INFLATION * shares**2 / self.sizes
        return np.asarray(np.tensordot(weights, self.covariances, axes=1))

    def draw_means(
        self, codes: NDArray[np.int64], weights: Array, n_draws: int, seed: int
    ) -> Array:
        """Draw weighted means of z - y as they occur under label shift, shape (n_draws, k).

        Every instance gets the residual of a random training instance of its class, and the
        templates get normal errors.

        Parameters
        ----------
        codes : int64 array of shape (n,)
            Classes of the instances.
        weights : array of shape (n,)
            They sum to one.
        n_draws : int
        seed : int

        Returns
        -------
        array of shape (n_draws, k)
        """
        rng, k = np.random.default_rng(seed), len(self.sizes)
        shares = np.bincount(codes, weights=weights, minlength=k).astype(np.float64)
        root = _root(self.template_covariance(shares))
        total = rng.standard_normal((n_draws, k)) @ root.T
        for label in np.unique(codes).tolist():
            pool, w = self.residuals[label], weights[codes == label]
            drawn = rng.integers(len(pool) - k, size=(n_draws, len(w)))
            rare = rng.random(drawn.shape) < PSEUDO_OBSERVATIONS / self.sizes[label]
            drawn[rare] = len(pool) - k + rng.integers(k, size=int(rare.sum()))
            total += np.einsum("bnk,n->bk", pool[drawn], w)
        return total


@dataclass(frozen=True, eq=False)
class LabelPredictor:
    """What predictions of many bags over the same points have in common.

    Attributes
    ----------
    values : array of shape (m, k)
        Densities of the points, or their posteriors if no prevalence is known.
    training : ClassRows or None
        The same of the training instances.
    adapts : bool
        Whether predictions are adapted to an estimate; posteriors are used as they are if the
        error rates were given, so that no prevalence is known.
    """

    values: Array
    training: ClassRows | None
    adapts: bool = True

    @classmethod
    def of(
        cls, model: Model, points: NDArray[Any], rows: Rows, n_threads: int = 1
    ) -> LabelPredictor | None:
        """Return the predictor of some points; None for methods on features.

        Likelihood methods predict by their densities (of the heaviest member), other methods on
        posteriors by the posteriors.

        Parameters
        ----------
        model : Model
        points : array of shape (m, d)
        rows : Rows
            Those of the points.

        Returns
        -------
        LabelPredictor or None
        """
        if model.likelihood is not None:
            return cls(rows_of_moments(model, rows.each()), training_rows(model, n_threads))
        if not model.takes_posteriors:
            return None
        if not np.isfinite(model.prevalence).all():
            return cls(np.asarray(points, dtype=np.float64), None, adapts=False)
        ratios = RatioMap(prior=model.prevalence)
        known = _ratio_rows(model, ratios, n_threads)
        return cls(densities(ratios(points).each(), logs=False), known)

    def predict(
        self, run: slice, estimate: Array, size: float
    ) -> tuple[Array, ClassMoments | None]:
        """Return the predictions of some points, adapted to an estimate.

        Parameters
        ----------
        run : slice
            The points of one bag.
        estimate : array of shape (k,)
        size : float
            Effective size of the bag that it was estimated from.

        Returns
        -------
        f : array of shape (m, k)
        moments : ClassMoments or None
            None if the method keeps no training posteriors.
        """
        values, training = self.values[run], self.training
        if not self.adapts:
            return values, None
        smallest = size if training is None else min(size, training.typical_size)
        prevalence = smoothed(estimate, smallest)
        moments = None if training is None else class_moments(training, prevalence)
        return adapted(values, prevalence), moments


def class_moments(training: ClassRows, prevalence: Array) -> ClassMoments:
    """Return the moments of z from the densities of the training instances.

    Parameters
    ----------
    training : ClassRows
    prevalence : array of shape (k,)
        Positive; the densities are adapted to it.

    Returns
    -------
    ClassMoments
    """
    rows, w = training.rows, training.weights
    weighted = w / (rows @ prevalence.astype(np.float32))
    runs = [slice(a, b) for a, b in pairwise(training.offsets.tolist())]
    means = np.array([weighted[run] @ rows[run] for run in runs], dtype=np.float64)
    inverse = np.asarray(np.linalg.pinv(means.T * prevalence[:, None], rcond=_CUTOFF))
    thin = training.thinned
    z = adapted(thin.rows.astype(np.float64), prevalence) @ inverse.T
    runs = [slice(a, b) for a, b in pairwise(thin.offsets.tolist())]
    covariances = np.array([_covariance(z[run], thin.weights[run]) for run in runs])
    steps = _steps(len(prevalence))
    residuals = tuple(
        np.concatenate([z[run] - thin.weights[run] @ z[run], steps[label]])
        for label, run in enumerate(runs)
    )
    sizes = training.sizes
    if training.clusters is not None:
        every = adapted(rows.astype(np.float64), prevalence) @ inverse.T
        variances = np.trace(covariances, axis1=1, axis2=2)
        sizes = training.worth(every, variances)
    covariances = covariances + _pseudo(sizes)
    return ClassMoments(inverse, covariances, sizes, residuals)


def _ratio_rows(model: Model, ratios: RatioMap, n_threads: int) -> ClassRows | None:
    """Return the class rows of posteriors divided by the training prevalence."""
    if model.training is None or not model.is_learnt:
        return None

    def moment_rows(rows: NDArray[np.floating]) -> Array:
        return densities(rows, logs=False)

    return class_rows(ratios, model.training, model.n_classes, moment_rows, n_threads)


def _covariance(values: Array, weights: NDArray[np.floating]) -> Array:
    """Return the unbiased covariance of values (n, k) with weights that sum to one."""
    centred = values - weights @ values
    free = 1.0 - weights @ weights
    total = (centred * weights[:, None]).T @ centred
    return np.asarray(total / free if free > 1e-9 else total)


def _root(covariance: Array) -> Array:
    """Return a matrix whose product with its transpose is the covariance, (k, k)."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _steps(k: int) -> Array:
    """Return the pseudo-observations of each class: row (l, j) is e_j - e_l, shape (k, k, k)."""
    return np.asarray(np.eye(k)[None, :, :] - np.eye(k)[:, None, :])


def _pseudo(sizes: Array) -> Array:
    """Return the covariances that pseudo-observations add, shape (k, k, k).

    A class without a single error among n instances may still have an error rate of order 1 / n:
    we add 0.75 observations per class, spread evenly over the classes.
    """
    k = len(sizes)
    steps = _steps(k)
    spread = np.einsum("lja,ljb->lab", steps, steps) / k
    return np.asarray(PSEUDO_OBSERVATIONS * spread / sizes[:, None, None])


@dataclass(frozen=True)
class LabelShiftTest:
    """The result of the test.

    Attributes
    ----------
    statistic : float
    freedom : int
        Degrees of freedom.
    p_value : float
        Probability of such labels, or more extreme ones, under label shift.
    level : float
        P-values below this reject label shift.
    """

    statistic: float
    freedom: int
    p_value: float
    level: float = 0.05

    @property
    def rejected(self) -> bool:
        """Whether the labels contradict label shift at the level."""
        return self.p_value < self.level

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {**vars(self), "rejected": self.rejected}


def label_shift_test(
    f: Array, moments: ClassMoments, sample: LabelledSample, seed: int = 0
) -> LabelShiftTest:
    """Return the test of label shift.

    Parameters
    ----------
    f : array of shape (size, k)
        Predictions of all instances, adapted to an estimate.
    moments : ClassMoments
        Those of the same predictions.
    sample : LabelledSample
    seed : int
        Seed of the draws.

    Returns
    -------
    LabelShiftTest
    """
    y, w = sample.one_hot, sample.label_weights
    error = y - f[sample.positions] @ moments.inverse.T
    d = w @ error
    influence = np.zeros(f.shape)
    influence[sample.positions] = w[:, None] * (error - d)
    effect = max(float(sample.design_effect(influence).max()), 1.0)
    covariance = effect * moments.covariance(w @ y, sample.label_size)
    basis = np.linalg.qr(np.eye(len(d))[:, 1:] - 1.0 / len(d))[0]  # vectors that sum to zero
    precision = np.linalg.pinv(basis.T @ covariance @ basis, hermitian=True)

    def statistics(means: Array) -> Array:
        inside = means @ basis
        return np.asarray(((inside @ precision) * inside).sum(axis=1))

    statistic = float(statistics(d[None])[0])
    if sample.n_labels > _MOST_DRAWN:
        p_value = float(chdtrc(len(d) - 1, statistic))
    else:
        n_draws = min(max(_MOST_RESIDUALS // sample.n_labels, 199), 999)
        # Clusters widen the draws as they widen V.
        null = effect * statistics(moments.draw_means(sample.codes, w, n_draws, seed))
        p_value = float((1 + (null >= statistic).sum()) / (n_draws + 1))
    return LabelShiftTest(statistic, len(d) - 1, p_value)


def _one_hot(bins: NDArray[np.uint8]) -> Array:
    """Return in which of its bins each instance lies, shape (size, number of bins in use)."""
    return np.asarray(bins[:, None] == np.unique(bins), dtype=np.float64)


def _draw_test(
    f: Array, names: Sequence[str], bins: Sequence[Array], sample: LabelledSample, seed: int
) -> tuple[float | None, str]:
    """Return the p-value of labels being a random draw, by scores and columns, and where it fails.

    Scores and columns have half of the level each, so that many columns hide no scores.
    """
    by_scores, _ = random_draw_p_value([f], sample, seed)
    if not bins:
        return by_scores, SCORES
    n = sample.n_labels
    shares = [sample.shares(sample.members) @ own[sample.members] for own in bins]
    # Bins that few labels can be expected in are no ground for a test.
    common = [
        own[:, (n * share >= _LEAST_EXPECTED) & (n * (1.0 - share) >= _LEAST_EXPECTED)]
        for own, share in zip(bins, shares, strict=True)
    ]
    by_columns, place = random_draw_p_value(common, sample, seed)
    if by_columns < by_scores:
        return min(1.0, 2.0 * by_columns), names[place]
    return min(1.0, 2.0 * by_scores), SCORES


def random_draw_p_value(
    blocks: Sequence[Array], sample: LabelledSample, seed: int = 0
) -> tuple[float, int]:
    """Return the p-value of labelled instances being a random draw of their bag.

    The means of the labelled instances are compared with those of the bag, and the block that
    differs most decides. Of few labels, whose means are far from normal, random draws of as many
    instances tell what is usual.

    Parameters
    ----------
    blocks : sequence of arrays of shape (size, d)
        Numbers of all instances, such as predictions; each block is tested by itself.
    sample : LabelledSample
        Without probabilities of selection.
    seed : int
        Seed of the draws.

    Returns
    -------
    p_value : float
        For all blocks together.
    place : int
        The block that differs most.
    """
    tests = {i: _BlockOfMeans.of(block, sample) for i, block in enumerate(blocks)}
    used = {i: test for i, test in tests.items() if test is not None}
    if not used:
        return 1.0, 0
    w, rows = sample.label_weights, sample.positions
    found = {i: test.p_value(w @ test.z[rows], test.factor) for i, test in used.items()}
    place = min(found, key=lambda i: found[i])
    p_value = min(1.0, len(used) * found[place])
    if p_value > _CLEAR or sample.n_labels > _MOST_DRAWN:
        return p_value, place
    rng, n_draws, members = np.random.default_rng(seed), 999, sample.members
    z = np.concatenate([test.z for test in used.values()], axis=1)
    ends = np.cumsum([test.z.shape[1] for test in used.values()])[:-1]
    extreme = 0
    for _ in range(n_draws):
        rows = members[rng.choice(len(members), sample.n_labels, replace=False)]
        means = np.split(np.average(z[rows], axis=0, weights=sample.weights[rows]), ends)
        drawn = zip(used.values(), means, strict=True)
        extreme += min(t.p_value(mean, t.left) for t, mean in drawn) <= found[place]
    return (1 + extreme) / (n_draws + 1), place


@dataclass(frozen=True, eq=False)
class _BlockOfMeans:
    """Numbers of all instances, made uncorrelated; means of random draws have a known variance.

    Attributes
    ----------
    z : array of shape (size, d)
        Of mean zero and variance one in the bag.
    left : float
        Variance of the mean of as many instances, drawn without replacement.
    factor : float
        The same, times the design effect of the labelled instances.
    """

    z: Array
    left: float
    factor: float

    @classmethod
    def of(cls, f: Array, sample: LabelledSample) -> _BlockOfMeans | None:
        """Return the block of numbers ``f``; None if they do not vary."""
        members = sample.members
        share = sample.shares(members)
        centred = np.zeros(f.shape)
        centred[members] = f[members] - share @ f[members]
        values, vectors = np.linalg.eigh((centred[members] * share[:, None]).T @ centred[members])
        kept = values > max(_CUTOFF * float(values.max(initial=0.0)), np.finfo(np.float64).tiny)
        left = 1.0 / sample.label_size - 1.0 / sample.bag_size
        if not kept.any() or left <= 0.0:
            return None
        z = centred @ (vectors[:, kept] / np.sqrt(values[kept]))
        influence = np.zeros(z.shape)
        influence[sample.positions] = sample.label_weights[:, None] * z[sample.positions]
        return cls(z, left, max(float(sample.design_effect(influence).max()), 1.0) * left)

    def p_value(self, mean: Array, variance: float) -> float:
        """Return the p-value of a mean by the chi-square distribution."""
        return float(chdtrc(len(mean), float((mean**2).sum()) / variance))
