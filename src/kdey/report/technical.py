r"""The technical part: fit, calibration, and three classes as a triangle; figures and sections.

The fit check shows this bag among bags that must fit. The classifier is shown as its training
posteriors show it. Decisions are cut into bins of equal size by the posterior of the predicted
class. With :math:`c_b` the mean posterior of bin b, :math:`r_b` the share of correct predictions in
it and :math:`w_b` its share of all predictions, the expected calibration error is

.. math:: \sum_b w_b |c_b - r_b|

(Guo et al., 2017, with bins of equal size). In a triangle, posteriors have a density, and the
prevalence is a point with its joint region.
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
from kdey.intervals import Estimate
from kdey.intervals.checks import ColumnVerdict
from kdey.intervals.display import bag_names
from kdey.intervals.profile import wilson
from kdey.intervals.region import Region
from kdey.kernels import class_log_sums
from kdey.model import kept_training
from kdey.posteriors import TrainingPosteriors
from kdey.report.drawing import (
    CLAIMED,
    MOST_NARROW,
    OBSERVED,
    SHARES,
    WIDE,
    Axis,
    Drawing,
    Section,
    csv_address,
    draw_across,
    draw_up,
    for_screens,
    heat_figure,
    listed,
    percent,
    shortened,
    text_width,
)
from kdey.report.share_figures import draw_mark
from kdey.report.shown_groups import ClassRow
from kdey.report.words import fit_headline, fit_meaning, quoted
from kdey.simplex import check_posteriors
from kdey.tables.output import Cell, Heading, Row, Table

if TYPE_CHECKING:
    from kdey.report import Report


_MOST_WIDE, _HEIGHT, _LEFT, _TOP, _BOTTOM = 560.0, 200.0, 12.0, 26.0, 40.0
_N_BINS = 30
_LARGEST, _CURVE_LEFT, _CURVE_RIGHT, _CURVE_TOP, _CURVE_BOTTOM = 340.0, 64.0, 26.0, 12.0, 48.0


def fit_figure(check: FitCheck, width: float = WIDE) -> Drawing:
    """Return the histogram of the null statistics with this bag's statistic on it."""
    width = min(width, _MOST_WIDE)
    statistic = check.statistic
    description = (
        f"Histogram of {len(check.null)} bags drawn from training at the estimated shares; this "
        f"bag lies at {statistic:.3g}; p = {check.p_value:.3g}."
    )
    drawing = Drawing(
        "fit", width, _HEIGHT, "Fit of this bag among bags that must fit", description
    )
    low, high = min(statistic, *check.null), max(statistic, *check.null)
    margin = 0.04 * (high - low) or 1.0
    axis = Axis(low - margin, high + margin, _LEFT, width - _LEFT)
    counts, edges = np.histogram(check.null, bins=_N_BINS, range=(axis.low, axis.high))
    bottom = _HEIGHT - _BOTTOM
    up = Axis(0.0, float(counts.max()), bottom, _TOP)
    for count, start, stop in zip(counts, edges[:-1], edges[1:], strict=True):
        if count:
            x, y = axis.at(start), up.at(float(count))
            wide = axis.at(stop) - x - 1
            drawing.add("rect", x=x, y=y, width=wide, height=bottom - y, class_="bar")
    drawing.line(_LEFT, bottom, width - _LEFT, bottom, "axis")
    for value in axis.ticks(5 if width == _MOST_WIDE else 3):
        drawing.words(axis.at(value), bottom + 15, f"{value:.3g}", "tick", "middle")
    drawing.words(width / 2, _HEIGHT - 6, "how well a bag fits (left: badly)", "tick", "middle")
    place = axis.at(statistic)
    drawing.line(place, _TOP - 6, place, bottom, "seen", f"this bag: {statistic:.3g}")
    half = text_width("this bag") / 2
    drawing.words(min(max(place, half), width - half), _TOP - 11, "this bag", "label", "middle")
    return drawing


def reliability_figure(curve: Reliability, width: float = WIDE) -> Drawing:
    """Return the reliability curve with an interval for each bin."""
    size = min(_LARGEST, width - _CURVE_LEFT - _CURVE_RIGHT)
    description = (
        f"{len(curve.claimed)} bins; the expected calibration error is {percent(curve.error)}. "
        "Points on the diagonal are calibrated; below it the classifier is overconfident."
    )
    height = _CURVE_TOP + size + _CURVE_BOTTOM
    drawing = Drawing(
        "reliability",
        _CURVE_LEFT + size + _CURVE_RIGHT,
        height,
        "Calibration of the classifier",
        description,
    )
    low = np.floor(10 * min(curve.claimed[0], curve.low.min(), 0.9)) / 10
    across = Axis(low, 1.0, _CURVE_LEFT, _CURVE_LEFT + size)
    up = Axis(low, 1.0, _CURVE_TOP + size, _CURVE_TOP)
    draw_across(drawing, across, _CURVE_TOP, _CURVE_TOP + size)
    draw_up(drawing, up, _CURVE_LEFT, _CURVE_LEFT + size, about=5)
    drawing.line(across.start, up.start, across.stop, up.stop, "diagonal")
    points = []
    for claim, share, lower, upper, n in zip(
        curve.claimed, curve.observed, curve.low, curve.high, curve.counts, strict=True
    ):
        x, y = across.at(claim), up.at(share)
        points.append(f"{x:.1f},{y:.1f}")
        drawing.line(x, up.at(lower), x, up.at(upper), "whisker")
        tip = f"claimed {percent(claim)}, right {percent(share)} of {n:,}"
        drawing.add("circle", tip=tip, cx=x, cy=y, r=4, class_="estimate")
    drawing.add("polyline", points=" ".join(points), class_="curve")
    drawing.words(_CURVE_LEFT + size / 2, height - 8, CLAIMED, "tick", "middle")
    drawing.add(
        "text",
        OBSERVED,
        transform=f"translate(13 {_CURVE_TOP + size / 2:.0f}) rotate(-90)",
        class_="tick",
        text_anchor="middle",
    )
    return drawing


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


def classifier_words(curve: Reliability, confusion: Array, classes: Sequence[str]) -> list[str]:
    """Return how good a classifier is on its training data, in sentences."""
    gap = float(np.sum(curve.counts * (curve.claimed - curve.observed)))
    tendency = "overconfident" if gap > 0 else "underconfident"
    sentences = [
        f"On its training data, the classifier is right for {percent(curve.accuracy)} of the "
        f"instances; its posteriors are off by {percent(curve.error)} on average, and it is "
        f"{tendency}."
    ]
    hard = [name for name, recall in zip(classes, np.diag(confusion), strict=True) if recall < 0.5]
    if hard:
        shown = listed([f"“{name}”" for name in hard[:5]])
        more = f" and {len(hard) - 5} more" if len(hard) > 5 else ""
        sentences.append(f"It misses more than half of {shown}{more}.")
    return sentences


#: Bandwidth of the shading, cells along a side, levels of shade, points drawn.
_BANDWIDTH, _STEPS, _LEVELS, _MOST_POINTS = 0.06, 28, 6, 250
_SIDE, _MARGIN = 180.0, 34.0
#: Directions in which the border of the joint region is searched.
_RAYS = 120
#: Shares of the middle of the simplex that are mixed into the point where rays start, if possible.
_INWARD = (0.1, 0.03, 0.01)


def posteriors_figures(parts: Sequence[tuple[str, Array]], classes: Sequence[str]) -> list[Drawing]:
    """Return a triangle for each named set of posteriors (m, 3): its density and its points."""
    wide = _SIDE + 2 * _MARGIN
    drawings = []
    for number, (label, points) in enumerate(parts):
        means = ", ".join(percent(share) for share in points.mean(axis=0))
        drawing = Drawing(
            f"simplex-{number}",
            wide,
            _height(_SIDE) + 62,
            f"Posteriors of {label}",
            f"Where the posteriors lie, a corner for each class; their mean is {means}.",
        )
        drawing.words(wide / 2, 14, shortened(label, wide - 8), "heading", "middle")
        corners = _corners(_MARGIN, 40, _SIDE)
        _shade(drawing, corners, points, "bag" if number == len(parts) - 1 else f"c{number}")
        _frame(drawing, corners, classes)
        drawings.append(drawing)
    return drawings


def prevalence_triangle(
    estimate: Estimate, rows: Sequence[ClassRow], width: float = WIDE
) -> Drawing:
    """Return the prevalence of three classes as a point, with its joint region."""
    narrow = width <= MOST_NARROW
    side, margin = (width - 60, 30.0) if narrow else (380.0, 60.0)
    top = 110.0 if narrow else 34.0
    description = (
        f"The estimate {', '.join(percent(row.estimate) for row in rows)} with its joint "
        f"{100 * estimate.confidence:g} % region, the uncorrected count and the share in training."
    )
    drawing = Drawing(
        "region",
        width if narrow else side + 2 * margin + 90,
        _height(side) + top + 46,
        "Prevalence of three classes",
        description,
    )
    corners = _corners(margin, top, side)
    _grid(drawing, corners)
    border = region_border(estimate.region, region_middle(estimate))
    if border is not None:
        drawing.add("polygon", points=_points(border @ corners), class_="region")
    _frame(drawing, corners, [row.name for row in rows])
    for kind in ("training", "naive", "estimate"):
        shares = [getattr(row, kind) for row in rows]
        if None not in shares:
            x, y = np.array(shares) @ corners
            _place(drawing, kind, x, y, f"{SHARES[kind]}: {', '.join(percent(v) for v in shares)}")
    _key(drawing, 12.0 if narrow else side + 2 * margin - 40, border is not None)
    return drawing


def region_border(region: Region, inside: Array) -> Array | None:
    """Return points (n, 3) on the border of a region around a point of it; None if it is outside.

    Bisection finds the last place inside along each ray from the point; rays end at the border of
    the simplex.
    """
    if not region.contains(inside):
        return None
    # From a point on an edge of the simplex hardly any ray runs along it: start further inside.
    starts = ((1.0 - share) * inside + share / 3.0 for share in _INWARD)
    inside = next((start for start in starts if region.contains(start)), inside)
    angles = np.linspace(0.0, 2 * np.pi, _RAYS, endpoint=False)
    plane = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ plane
    falling = rays < 0
    ends = np.where(falling, inside / np.where(falling, -rays, 1.0), np.inf).min(axis=1)
    near, far = np.zeros(_RAYS), ends
    for _ in range(30):
        middle = (near + far) / 2
        points = np.clip(inside + middle[:, None] * rays, 0.0, None)
        inside_region = region.contains(points / points.sum(axis=1, keepdims=True))
        near = np.where(inside_region, middle, near)
        far = np.where(inside_region, far, middle)
    return np.asarray(np.clip(inside + near[:, None] * rays, 0.0, 1.0))


def region_middle(estimate: Estimate) -> Array:
    """Return the middle of the region: the corrected estimate where there is one."""
    return estimate.estimate if estimate.corrected is None else estimate.corrected


def _shade(drawing: Drawing, corners: Array, points: Array, kind: str) -> None:
    """Shade the triangle by the density of points, and draw some of the points."""
    cells = simplex_cells(_STEPS)
    middles = cells.mean(axis=1)
    sums = class_log_sums(middles, points, np.array([0, len(points)]), [_BANDWIDTH])
    density = np.exp(sums[0, :, 0] - sums[0, :, 0].max())
    level = np.ceil(_LEVELS * np.sqrt(density) - 0.25).astype(int)
    for number in range(1, _LEVELS + 1):
        chosen = cells[level >= number]
        if len(chosen):
            path = "".join(f"M{_points(cell @ corners).replace(' ', 'L')}z" for cell in chosen)
            drawing.add("path", d=path, class_=f"density {kind}")
    step = max(1, -(-len(points) // _MOST_POINTS))
    for x, y in points[::step] @ corners:
        drawing.add("circle", cx=round(x, 1), cy=round(y, 1), r=1.3, class_="dot")


def simplex_cells(steps: int) -> Array:
    """Return the small triangles of the three-class simplex, shape (steps^2, 3, 3)."""
    upright = [[(i + 1, j), (i, j + 1), (i, j)] for i in range(steps) for j in range(steps - i)]
    turned = [
        [(i + 1, j), (i, j + 1), (i + 1, j + 1)]
        for i in range(steps - 1)
        for j in range(steps - 1 - i)
    ]
    two = np.array(upright + turned, dtype=np.float64) / steps
    return np.concatenate([two, 1.0 - two.sum(axis=2, keepdims=True)], axis=2)


def _corners(left: float, top: float, side: float) -> Array:
    """Return the places of the corners: first class left, second right, third on top."""
    tall = _height(side)
    return np.array([[left, top + tall], [left + side, top + tall], [left + side / 2, top]])


def _height(side: float) -> float:
    return side * float(np.sqrt(3)) / 2


def _frame(drawing: Drawing, corners: Array, classes: Sequence[str]) -> None:
    drawing.add("polygon", points=_points(corners), class_="frame")
    for (x, y), label, anchor, below in zip(
        corners, classes, ("start", "end", "middle"), (16, 16, -7), strict=True
    ):
        # Names of the lower corners start under them and end before the picture does.
        shift = {"start": -24, "end": 24, "middle": 0}[anchor]
        drawing.words(x + shift, y + below, shortened(label, _SIDE / 2 + 22, 11), "tick", anchor)


def _grid(drawing: Drawing, corners: Array) -> None:
    for share in (0.2, 0.4, 0.6, 0.8):
        for i in range(3):
            first, second = np.eye(3)[(i + 1) % 3], np.eye(3)[(i + 2) % 3]
            ends = [share * np.eye(3)[i] + (1 - share) * end for end in (first, second)]
            (x1, y1), (x2, y2) = (end @ corners for end in ends)
            drawing.line(x1, y1, x2, y2, "grid")


def _place(drawing: Drawing, kind: str, x: float, y: float, tip: str | None = None) -> None:
    """Draw a share of all classes; the share in training is a box, as lines have no place here."""
    if kind == "training":
        drawing.add("rect", tip=tip, x=x - 4, y=y - 4, width=8, height=8, class_="training-box")
    else:
        draw_mark(drawing, kind, x, y, tip)


def _key(drawing: Drawing, left: float, with_region: bool) -> None:
    for number, kind in enumerate(("estimate", "naive", "training")):
        y = 24.0 + 22 * number
        _place(drawing, kind, left, y)
        drawing.words(left + 12, y + 4, SHARES[kind], "tick")
    if with_region:
        drawing.add("rect", x=left - 6, y=84, width=12, height=12, class_="region")
        drawing.words(left + 12, 94, "joint region", "tick")


def _points(places: Array) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _fit(report: Report) -> Section | None:
    """Return the section on the fit check of the whole bag."""
    result = report.check
    if result is None:
        return None
    words, figures = [result.verdict], []
    columns = None if report.checks is None else report.checks.columns
    if columns is not None:
        words.append(quoted(columns.verdict))
    if isinstance(result, FitVerdict):
        words += fit_meaning(result, isinstance(columns, ColumnVerdict) and columns.rejected)
    if isinstance(result, FitCheck):
        caption = (
            f"How well this bag fits, among {len(result.null)} bags of the same size that were "
            "drawn from the training data at the estimated shares."
        )
        figures = [for_screens(caption, fit_figure, result)]
    tone = "" if report.checks is None else fit_headline(report.checks)[0]
    return Section("fit", "Does the bag fit?", words, figures, verdict=tone)


def _simplex(report: Report) -> Section | None:
    """Return the section on three classes; None for another number of classes."""
    estimate, quantifier, rows = report.estimate, report.quantifier, report.rows
    if estimate is None or rows is None or len(rows) != 3:
        return None
    # Corners are in the order of training, in which posteriors and regions are.
    in_training = {row.name: row for row in rows}
    corners = [in_training[str(label)] for label in estimate.classes]
    names = [row.name for row in corners]
    caption = "The prevalence as a point of the triangle, with its joint confidence region."
    figures = [for_screens(caption, prevalence_triangle, estimate, corners)]
    merged = quantifier is not None and not np.array_equal(estimate.classes, quantifier.classes_)
    # Posteriors are those of the classes of training.
    points = None if merged else bag_posteriors(estimate)
    if points is not None:
        parts = [("this bag", points)]
        training = kept_training(quantifier)
        if training is not None and training.posteriors is not None:
            trained = [
                (f"training: {name}", training.posteriors[training.labels == code].astype(float))
                for code, name in enumerate(names)
            ]
            parts = [(label, rows) for label, rows in trained if len(rows)] + parts
        figures += posteriors_figures(parts, names)
    words = [
        "The small triangles show the classifier's posteriors. The picture of the bag should look "
        "like a mixture of the pictures of training."
    ]
    return Section("simplex", "The three classes as a triangle", words[: len(figures) - 1], figures)


def bag_posteriors(estimate: Estimate | None) -> Array | None:
    """Return the posteriors (m, k) of an estimate's bag; None where it has none."""
    if estimate is None or estimate.decisions is None:
        return None
    decisions = estimate.decisions
    bag = decisions.bags[estimate.number : estimate.number + 1]
    return np.asarray(decisions.posteriors[bag.indices], dtype=np.float64)


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

    figures = [
        for_screens(f"Calibration, by training posteriors {source}.", reliability_figure, curve),
        for_screens(
            f"Confusion, by training posteriors {source}.",
            heat_figure,
            confusion,
            classes,
            classes,
            name="confusion",
            title="Confusion of the classifier",
            description=f"Share of each true class by predicted class; {percent(curve.accuracy)} "
            "of all are right.",
            axes=("true class", "predicted class, per cent of the true class"),
        ),
    ]
    words = [
        *classifier_words(curve, confusion, classes),
        "The estimate corrects for these mistakes, and methods on densities need no calibrated "
        "posteriors; but the less the classes are confused, the narrower the intervals.",
    ]
    columns = (
        Heading("True class", numeric=False),
        Heading("Predicted", numeric=False),
        Heading("Share of the class"),
    )
    rows = tuple(
        Row((Cell(true), Cell(predicted), Cell(percent(share), round(share, 9))))
        for true, predicted, share in frequent_confusions(confusion, classes)
    )
    tables = [Table("confusions", "Most frequent confusions", columns, rows)] if rows else []
    return Section("classifier", "The classifier", words, figures, tables)


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
    groups = None if report.table is None else report.table.grouped
    if groups is not None:
        by_group = estimate_performance(quantifier, groups)
        files["performance-groups.csv"] = _performance_file(by_group)
        tables.append(_accuracy_of_groups(by_group))
    name = "How well does the classifier do here?"
    return Section("performance", name, words, (), tables, files=files)


def _accuracy_of_groups(found: Performance) -> Table:
    columns = (Heading("Group", numeric=False), Heading("Records"), Heading("Accuracy"))
    rows = tuple(
        Row.named(name, [Cell(f"{size:,}", float(size)), Cell(_measure(found, number, "accuracy"))])
        for number, (name, size) in enumerate(
            zip(bag_names(found.estimates)[:_MOST_SHOWN], found.estimates.size, strict=False)
        )
    )
    more = len(found) - _MOST_SHOWN
    notes = (f"{more:,} more groups are in the file performance-groups.csv.",) if more > 0 else ()
    return Table("accuracy", "Expected accuracy by group", columns, rows, notes)


def _measure(found: Performance, bag: int, measure: str, label: Any = None) -> str:
    """Return a measure of a bag with its interval."""
    value, low, high = (float(part[bag]) for part in found.of(measure, label))
    if np.isnan(value):
        return "–"
    return f"{percent(value)} ({100 * low:.1f}\u2013{100 * high:.1f})"


def _performance_file(found: Performance) -> str:
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
    return csv_address(columns, records)


#: The sections of the technical part, in their order.
SECTIONS = (_fit, _simplex, _classifier, _performance)
