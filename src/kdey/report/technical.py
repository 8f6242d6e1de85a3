r"""The technical part: the fit check, the classifier, and what to expect of it here.

The fit check shows this bag among bags that must fit. The classifier is shown as its training
posteriors show it. Decisions are cut into bins of equal size by the posterior of the predicted
class. With :math:`c_b` the mean posterior of bin b, :math:`r_b` the share of correct predictions in
it and :math:`w_b` its share of all predictions, the expected calibration error is

.. math:: \sum_b w_b |c_b - r_b|

(Guo et al., 2017, with bins of equal size).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.bags import Array
from kdey.diagnostics import FitCheck, FitVerdict
from kdey.diagnostics.performance import (
    PER_CLASS,
    Performance,
    estimate_performance,
    lacks_decisions,
)
from kdey.intervals.checks import ColumnVerdict
from kdey.intervals.display import bag_names
from kdey.intervals.profile import wilson
from kdey.model import kept_training
from kdey.posteriors import TrainingPosteriors
from kdey.report.page import (
    CLAIMED,
    OBSERVED,
    File,
    Plot,
    Section,
    csv_file,
    listed,
    percent,
    tick_label,
    ticks,
)
from kdey.report.words import fit_headline, fit_meaning, quoted
from kdey.simplex import check_posteriors
from kdey.tables.output import Cell, Heading, Row, Table

if TYPE_CHECKING:
    from kdey.report import Report


_N_BINS = 30


def fit_plot(check: FitCheck) -> Plot:
    """Return the histogram of the null statistics with this bag's statistic on it."""
    statistic = check.statistic
    low, high = min(statistic, *check.null), max(statistic, *check.null)
    margin = 0.04 * (high - low) or 1.0
    low, high = low - margin, high + margin
    counts, edges = np.histogram(check.null, bins=_N_BINS, range=(low, high))
    top = int(counts.max())
    bars = "".join(
        f"M{start:.5g} 0V{count}H{stop:.5g}V0Z"
        for count, start, stop in zip(counts, edges[:-1], edges[1:], strict=True)
        if count
    )
    return Plot(
        "fit",
        "Fit of this sample among samples that must fit",
        f"{len(check.null)} samples of the same size, drawn from the training data at the "
        f"estimated shares, and as a line this sample, at {statistic:.3g} "
        f"(p = {check.p_value:.3g}).",
        (low, 0.0, high - low, top),
        [("bars", bars), ("seen", f"M{statistic:.5g} 0V{top}")],
        ([(value, f"{value:.3g}") for value in ticks(low, high, 4)], [(0, "0"), (top, f"{top:,}")]),
        ("how well a sample fits (left: badly)", "number of samples"),
    )


def reliability_plot(curve: Reliability) -> Plot:
    """Return the reliability curve with an interval for each bin."""
    low = float(np.floor(10 * min(curve.claimed[0], curve.low.min(), 0.9)) / 10)
    points = list(zip(curve.claimed, curve.observed, strict=True))
    ends = zip(curve.claimed, curve.low, curve.high, strict=True)
    labels = [(value, tick_label(value)) for value in ticks(low, 1.0, 4)]
    return Plot(
        "reliability",
        "Calibration of the classifier",
        f"{len(points)} bins; the expected calibration error is {percent(curve.error)}. Points on "
        "the diagonal are calibrated; below it the classifier is overconfident.",
        (low, low, 1.0 - low, 1.0 - low),
        [
            ("diagonal", f"M{low:.4g} {low:.4g}L1 1"),
            ("interval", "".join(f"M{x:.4f} {a:.4f}V{b:.4f}" for x, a, b in ends)),
            ("curve", "M" + " ".join(f"{x:.4f} {y:.4f}" for x, y in points)),
            ("dot", "".join(f"M{x:.4f} {y:.4f}h0" for x, y in points)),
        ],
        (labels, labels),
        (CLAIMED, OBSERVED),
    )


#: Probability beyond each end of an interval of 95 %.
_TAIL = 0.025
#: Confusions that are listed.
_MOST_CONFUSIONS = 10


@dataclass(frozen=True, eq=False)
class Reliability:
    """The reliability curve of a classifier.

    Attributes
    ----------
    claimed : array of shape (n_bins,)
        Mean posterior of the predicted class.
    observed : array of shape (n_bins,)
        Share of correct predictions.
    low, high : arrays of shape (n_bins,)
        Wilson's 95 % interval of the share.
    counts : int array of shape (n_bins,)
    error : float
        Expected calibration error.
    accuracy : float
    """

    claimed: Array
    observed: Array
    low: Array
    high: Array
    counts: NDArray[np.int64]
    error: float
    accuracy: float


def reliability(posteriors: ArrayLike, labels: ArrayLike, n_bins: int = 10) -> Reliability:
    """Return the reliability of posteriors (n, k) for labels, codes 0..k-1 of shape (n,).

    Bins hold equally many predictions; equal posteriors stay in one bin, so that there may be
    fewer bins than asked for.
    """
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1, got {n_bins!r}")
    p = np.asarray(check_posteriors(posteriors), dtype=np.float64)
    codes = np.asarray(labels)
    if codes.shape != (len(p),):
        raise ValueError(f"labels must have shape ({len(p)},), got {codes.shape}")
    sure, right = p.max(axis=1), p.argmax(axis=1) == codes
    order = np.argsort(sure, kind="stable")
    bins = _bins(sure[order], n_bins)
    counts = np.bincount(bins)
    claimed = np.bincount(bins, weights=sure[order]) / counts
    observed = np.bincount(bins, weights=right[order].astype(np.float64)) / counts
    low, high = wilson(observed, counts.astype(np.float64), _TAIL)
    error = float(counts @ np.abs(claimed - observed) / counts.sum())
    return Reliability(claimed, observed, low, high, counts, error, float(right.mean()))


def _bins(values: Array, n_bins: int) -> NDArray[np.int64]:
    """Return the bin of each of the sorted values, ties in the bin of their first."""
    n = len(values)
    bins = np.arange(n) * min(n_bins, n) // n
    first = np.searchsorted(values, values, side="left")
    return np.unique(bins[first], return_inverse=True)[1].astype(np.int64)


def confusion_shares(training: TrainingPosteriors, k: int) -> Array:
    """Return the share of class i that is taken for j, shape (k, k); NaN for empty classes."""
    places = training.labels * k + training.required().argmax(axis=1)
    counts = np.bincount(places, weights=training.weights, minlength=k * k).reshape(k, k)
    total = counts.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.asarray(counts / np.where(total > 0, total, np.nan), dtype=np.float64)


def frequent_confusions(
    confusion: Array, classes: Sequence[str], most: int = _MOST_CONFUSIONS
) -> list[tuple[str, str, float]]:
    """Return the most frequent confusions: true class, prediction, share of the true class."""
    shares = np.nan_to_num(confusion) * (1 - np.eye(len(classes)))
    order = np.argsort(-shares, axis=None, kind="stable")[:most]
    pairs = [divmod(int(place), len(classes)) for place in order]
    return [(classes[i], classes[j], float(shares[i, j])) for i, j in pairs if shares[i, j] > 0]


def classifier_words(
    curve: Reliability, confusion: Array, classes: Sequence[str], source: str
) -> list[str]:
    """Return how good a classifier is on its training data, in sentences."""
    gap = float(np.sum(curve.counts * (curve.claimed - curve.observed)))
    tendency = "overconfident" if gap > 0 else "underconfident"
    sentences = [
        f"By training posteriors {source}, the classifier is right for {percent(curve.accuracy)} "
        f"of the instances; its posteriors are off by {percent(curve.error)} on average, and it is "
        f"{tendency}."
    ]
    hard = [name for name, recall in zip(classes, np.diag(confusion), strict=True) if recall < 0.5]
    if hard:
        shown = listed([f"“{name}”" for name in hard[:5]])
        more = f" and {len(hard) - 5} more" if len(hard) > 5 else ""
        sentences.append(f"It misses more than half of {shown}{more}.")
    return sentences


def _fit(report: Report) -> Section | None:
    """Return the section on the fit check of the whole bag."""
    if report.checks is None:
        return None
    result, columns = report.checks.scores, report.checks.columns
    words, plots = [result.verdict, quoted(columns.verdict)], []
    if isinstance(result, FitVerdict):
        words += fit_meaning(result, isinstance(columns, ColumnVerdict) and columns.rejected)
    if isinstance(result, FitCheck):
        plots = [fit_plot(result)]
    tone, _ = fit_headline(report.checks)
    return Section("fit", "Does the sample fit?", words, plots=plots, verdict=tone)


def _classifier(report: Report) -> Section | None:
    """Return the section on the classifier; None where no training posteriors are kept."""
    quantifier, training = report.quantifier, kept_training(report.quantifier)
    if quantifier is None or training is None or training.posteriors is None:
        return None
    if not quantifier.model_.takes_posteriors:
        return None
    classes = [str(label) for label in quantifier.classes_]
    curve = reliability(training.posteriors, training.labels)
    confusion = confusion_shares(training, len(classes))
    source = "as given" if training.folds is None else "from models that did not see the instances"
    words = [
        *classifier_words(curve, confusion, classes, source),
        "The estimate corrects for these mistakes, and methods on densities need no calibrated "
        "posteriors; but the less the classes are confused, the narrower the intervals.",
    ]
    tables = [_confusion_table(confusion, classes)] if len(classes) <= _MOST_SHOWN else []
    columns = (
        Heading("True class", numeric=False),
        Heading("Predicted", numeric=False),
        Heading("Share of the class"),
    )
    rows = tuple(
        Row((Cell(true), Cell(predicted), Cell(percent(share), round(share, 9))))
        for true, predicted, share in frequent_confusions(confusion, classes)
    )
    if rows and len(classes) > 3:
        tables.append(Table("confusions", "Most frequent confusions", columns, rows))
    plots = [reliability_plot(curve)]
    return Section("classifier", "The classifier", words, plots=plots, tables=tables)


def _confusion_table(confusion: Array, classes: Sequence[str]) -> Table:
    """Return a row for each true class, with the shares of it that are taken for each class."""
    columns = (Heading("True class", numeric=False), *(Heading(name) for name in classes))
    rows = tuple(
        Row.named(
            name,
            [Cell(percent(share, 0), float(share), best=i == j) for j, share in enumerate(shares)],
        )
        for i, (name, shares) in enumerate(zip(classes, np.nan_to_num(confusion), strict=True))
    )
    title = "Confusion: how much of each true class is taken for which class"
    return Table("confusion", title, columns, rows)


#: Classes and groups whose accuracy the page shows; all are in its file.
_MOST_SHOWN = 30


def _performance(report: Report) -> Section | None:
    """Return the section on how often the classifier is right about these records."""
    quantifier, estimate, rows = report.quantifier, report.estimate, report.rows
    if quantifier is None or estimate is None or rows is None:
        return None
    known = quantifier.classes_.tolist()
    if lacks_decisions(quantifier.model_) or estimate.classes.tolist() != known:
        return None
    found = estimate_performance(quantifier, estimate)
    accuracy = _measure(found, 0, "accuracy")
    words = [
        "If nothing but the shares of the classes has changed, the classifier decides rightly for "
        f"{accuracy} of these records; it does for {percent(found.training[0])} of the training "
        "examples. Recall is the share of a class that is decided to be it, precision the share of "
        "such decisions that are right, and F1 their harmonic mean."
    ]
    if report.checks is not None and report.checks.rejected:
        words.append("Do not rely on these numbers: the check has found that more has changed.")
    order = [row.name for row in rows[:_MOST_SHOWN]]
    labels = {str(label): label for label in known}
    columns = (Heading("Class", numeric=False), *map(Heading, ("Recall", "Precision", "F1")))
    lines = tuple(
        Row.named(name, [Cell(_measure(found, 0, part, labels[name])) for part in PER_CLASS])
        for name in order
    )
    level = f"{100 * estimate.confidence:g}\u00a0%"
    title = f"What to expect of the classifier, with {level} intervals"
    tables = [Table("performance", title, columns, lines)]
    files = {"performance.csv": _performance_file(found)}
    if report.table is not None and report.table.looks_closer:
        by_group = estimate_performance(quantifier, report.table.answers)
        files["performance-groups.csv"] = _performance_file(by_group)
        tables.append(_accuracy_of_groups(by_group))
    name = "How well does the classifier do here?"
    return Section("performance", name, words, tables=tables, files=files)


def _accuracy_of_groups(found: Performance) -> Table:
    columns = (Heading("Group", numeric=False), Heading("Records"), Heading("Accuracy"))
    rows = tuple(
        Row.named(name, [Cell(f"{size:,}", float(size)), Cell(_measure(found, number, "accuracy"))])
        for number, (name, size) in enumerate(
            zip(bag_names(found.estimates)[:_MOST_SHOWN], found.estimates.size, strict=False)
        )
    )
    more = len(found) - _MOST_SHOWN
    notes = (f"For {more:,} more groups, see the files.",) if more > 0 else ()
    return Table("accuracy", "Expected accuracy by group", columns, rows, notes)


def _measure(found: Performance, bag: int, measure: str, label: Any = None) -> str:
    """Return a measure of a bag with its interval."""
    value, low, high = (float(part[bag]) for part in found.of(measure, label))
    if np.isnan(value):
        return "–"
    return f"{percent(value)} ({100 * low:.1f}\u2013{100 * high:.1f})"


def _performance_file(found: Performance) -> File:
    columns = ["group", "n", "measure", "class", "estimate", "low", "high", "training"]
    numbers = np.stack([found.estimate, found.low, found.high], axis=2).tolist()
    records = [
        [name, size, measure, "" if label is None else label, *ends, training]
        for name, size, bag in zip(
            bag_names(found.estimates), found.estimates.size.tolist(), numbers, strict=True
        )
        for (measure, label), ends, training in zip(
            found.measures, bag, found.training.tolist(), strict=True
        )
    ]
    return csv_file(columns, records, "kdey.estimate_performance")


#: The sections of the technical part, in their order.
SECTIONS = (_fit, _classifier, _performance)
