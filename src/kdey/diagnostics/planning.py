r"""Planning: how large a bag, or how many more labels, intervals of a desired width need.

**Bags and training labels** are planned by the variance parts of an identifiability report. The
part of the bag is proportional to one over its size, the part of the templates to one over the
training size of each class.

**Labels of a new bag**: how many, and of which instances. If the adapted posteriors f are
calibrated, the label of instance j has the residual variance :math:`f_{ji} (1 - f_{ji})` for class
i, so that the variance of the prediction-powered estimate can be foreseen from the bag alone.
Instances are chosen with probabilities

.. math:: \pi_j \propto \tfrac12 + \tfrac12 \, s_j / \bar s, \qquad
          s_j = \Bigl(\sum_i f_{ji} (1 - f_{ji})\Bigr)^{1/2}

half of them evenly, so that no weight exceeds twice the mean and a classifier that is wrong about
its certainty does little harm. They are drawn systematically in the order of the predicted class
and its score, which is a stratification with as many strata as labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey._display import (
    Overview,
    OverviewColumn,
    Shown,
    bar_column,
    percentages,
    row_names,
    text_column,
)
from kdey.bags import Array, Bags, Indices
from kdey.diagnostics.identify import Identifiability, identifiability, z_score
from kdey.intervals import estimate_points
from kdey.intervals.profile import upper_quantile
from kdey.labelled.labelled_estimate import LabelPredictor
from kdey.labelled.shares import relative_variance, score_interval
from kdey.model import Fitted, Model, bag_posteriors, posterior_model
from kdey.options import Options
from kdey.validation import check_count, check_share, make_frame

#: Fewest labels of a plan: limits from fewer say nothing, whatever their formula.
_FEWEST = 5


class Plan(Shown):
    """What plans have in common: a sentence and a table.

    Attributes
    ----------
    classes : array of shape (k,)
    """

    classes: NDArray[Any]

    @property
    def verdict(self) -> str:
        """The meaning of the plan, in a sentence or two."""
        raise NotImplementedError

    def columns(self) -> dict[str, Any]:
        """Return the columns of :meth:`to_frame` by name."""
        raise NotImplementedError

    def shown(self) -> tuple[OverviewColumn, ...]:
        """Return the columns of :meth:`overview`, each of length k."""
        raise NotImplementedError

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a data frame of what is planned: by class, or by instance to label.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
            A bag: ``class``, ``bag_size``, ``floor``. Labels of training: ``class``,
            ``extra_labels``. Labels of a new bag: ``position``, ``selection``.
        """
        return make_frame(self.columns(), backend)

    def overview(self) -> Overview:
        """Return the verdict and a table by class."""
        return Overview(self.verdict, row_names("class", self.classes), self.shown())

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict


def _count_columns(name: str, numbers: Array) -> tuple[OverviewColumn, ...]:
    """Return numbers, which may be infinite, as text and as bars relative to the largest."""
    finite = np.isfinite(numbers)
    largest = max(float(np.max(numbers, initial=0.0, where=finite)), 1.0)
    texts = [f"{number:,.0f}" if np.isfinite(number) else "-" for number in numbers]
    bars = bar_column(np.where(finite, numbers, np.nan) / largest)
    return text_column(name, texts, importance=9), bars


@dataclass(frozen=True, eq=False, repr=False)
class SamplingPlan(Plan):
    """The instances of a bag to label, for intervals of a desired width.

    Attributes
    ----------
    classes : array of shape (k,)
    width : float
        The desired width of the interval of every class.
    positions : int64 array of shape (n,)
        Row numbers of the instances to label.
    selection : array of shape (n,)
        The probability with which each of them was chosen, for ``estimate(selection=...)``.
    expected_widths : array of shape (k,)
        Width of the prediction-powered interval of each class, if the posteriors, adapted to the
        bag, are calibrated.
    n_without_model : int
        Number of random labels that would be needed without the classifier, possibly more than
        the bag has.
    reachable : bool
        Whether labels of this bag are enough; otherwise the plan names all instances.
    """

    classes: NDArray[Any]
    width: float
    positions: Indices
    selection: Array
    expected_widths: Array
    n_without_model: int
    reachable: bool

    def shown(self) -> tuple[OverviewColumn, ...]:
        """Return the expected widths."""
        widths = self.expected_widths
        name = "expected width of the interval"
        return text_column(name, percentages(widths), importance=9), bar_column(widths)

    def columns(self) -> dict[str, Any]:
        """Return the instances to label, and the probabilities with which they were chosen."""
        return {"position": self.positions, "selection": self.selection}

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.positions)

    @property
    def verdict(self) -> str:
        """The meaning of the plan, in a sentence or two."""
        if not self.reachable:
            return (
                f"No number of labels of this sample gives intervals of {self.width:g}: with all "
                f"of them the widest is {self.expected_widths.max():.3g}. Use a larger sample."
            )
        return (
            f"{self.n_labels:,} labels, of the items in positions, give intervals of "
            f"{self.width:g} if the classifier is calibrated on this sample; labels alone need "
            f"about {self.n_without_model:,}. Pass the probabilities on: estimate(X, "
            "labelled=(plan.positions, labels), selection=plan.selection)."
        )


def plan_sample(
    model: Model,
    points: NDArray[Any],
    width: float,
    options: Options,
    seed: int = 0,
) -> SamplingPlan:
    """Return which instances of a bag to label.

    Parameters
    ----------
    model : Model
    points : array of shape (m, d)
    width : float in (0, 1)
    options : Options
        Confidence, target and ``simultaneous`` of the intervals.
    seed : int
        Seed of the draw.

    Returns
    -------
    SamplingPlan

    Raises
    ------
    TypeError
        If the method predicts no labels.
    """
    bag = Bags.whole(len(points))
    estimate = estimate_points(model, points, bag, options)[0].estimate
    rows = model.row_map(points)
    predictor = LabelPredictor.of(model, points, rows)
    if predictor is None:
        raise TypeError("a plan of labels needs a method on posteriors, which predicts labels")
    f, _ = predictor.predict(slice(None), estimate, float(len(points)))
    forecast = Forecast(f, options)
    n, m = forecast.fewest(width), len(points)
    reachable = n is not None
    chosen = selection_probabilities(f, m if n is None else n)
    positions = draw_systematically(chosen, f, seed)
    return SamplingPlan(
        classes=model.classes,
        width=width,
        positions=positions,
        selection=chosen[positions],
        expected_widths=forecast.widths(m if n is None else n),
        n_without_model=forecast.fewest_alone(width),
        reachable=reachable,
    )


def selection_probabilities(f: Array, n: int) -> Array:
    """Return the probabilities of choosing each of m instances for n labels, shape (m,).

    Parameters
    ----------
    f : array of shape (m, k)
        Predictions.
    n : int
        Expected number of labels, at most m.

    Returns
    -------
    array of shape (m,)
        They sum to n.
    """
    even = np.ones(len(f))
    if n >= len(f):
        return even
    spread = np.sqrt((f * (1.0 - f)).sum(axis=1))
    mixed = even if spread.sum() == 0 else 0.5 * even + 0.5 * spread / spread.mean()
    p = n * mixed / mixed.sum()
    while (p > 1.0).any():  # those above one are certain, the others share the rest
        certain = p >= 1.0
        p[certain] = 1.0
        rest = p[~certain]
        grown = rest * (n - certain.sum()) / rest.sum()
        if np.allclose(grown, rest):
            break
        p[~certain] = grown
    return np.asarray(np.minimum(p, 1.0))


def draw_systematically(probabilities: Array, f: Array, seed: int) -> Indices:
    """Return positions drawn with these probabilities, spread evenly over classes and scores.

    Parameters
    ----------
    probabilities : array of shape (m,)
        They sum to a whole number.
    f : array of shape (m, k)
        Predictions, by which instances are ordered before the draw.
    seed : int

    Returns
    -------
    int64 array of shape (n,)
        Sorted.
    """
    best = f.argmax(axis=1)
    order = np.lexsort((f[np.arange(len(f)), best], best))
    ends = np.cumsum(probabilities[order])
    n = round(float(ends[-1]))
    marks = np.arange(n) + np.random.default_rng(seed).random()
    drawn = np.searchsorted(ends, np.minimum(marks, ends[-1] * (1 - 1e-12)), side="right")
    return np.sort(np.unique(order[np.minimum(drawn, len(f) - 1)])).astype(np.int64)


class Forecast:
    """Widths of intervals that can be foreseen from the predictions of a bag."""

    def __init__(self, f: Array, options: Options) -> None:
        self.f, self.population = f, options.target == "population"
        self.shares = f.mean(axis=0)
        self.quantile = upper_quantile(options.tail(f.shape[1]), np.inf)

    def widths(self, n: int) -> Array:
        """Return the expected widths with n labels, shape (k,)."""
        m, p = len(self.f), selection_probabilities(self.f, n)
        # Expectations over the draw of the sums in ``prediction_powered``: an instance is drawn
        # with probability p and has the weight 1 / p.
        residual = self.f * (1.0 - self.f)
        squares = (residual / p[:, None]).sum(axis=0)  # of w^2 r^2
        size = m**2 / (1.0 / p).sum()
        s_r = size * squares / (1.0 / p).sum()
        s_y = size * self.shares * (1.0 - self.shares)
        rho = relative_variance(s_r, s_y)
        constant = self.f.var(axis=0) / m if self.population else np.zeros(self.f.shape[1])
        rest = 1.0 if self.population else 1.0 - n / m
        low, high = score_interval(self.shares, constant, rest * rho / size, self.quantile)
        return high - low

    def fewest(self, width: float) -> int | None:
        """Return the smallest number of labels that reaches a width; None if none does."""
        if self.widths(len(self.f)).max() > width:
            return None
        low = min(_FEWEST, len(self.f))
        return _first(lambda n: self.widths(n).max() <= width, low, len(self.f))

    def fewest_alone(self, width: float) -> int:
        """Return the number of random labels whose Wilson interval has a width."""
        low, high = 1, 2
        while self._wilson(high) > width:
            low, high = high, 2 * high
        return _first(lambda n: self._wilson(n) <= width, low, high)

    def _wilson(self, n: int) -> float:
        low, high = score_interval(self.shares, 0.0, 1.0 / n, self.quantile)
        return float((high - low).max())


def _first(reaches: Callable[[int], bool], low: int, high: int) -> int:
    """Return the smallest number from ``low`` to ``high`` that reaches a goal, as ``high`` does."""
    while low < high:
        middle = (low + high) // 2
        if reaches(middle):
            high = middle
        else:
            low = middle + 1
    return high


#: We add two percent of a class's labels at a time, which is fine enough for a plan.
_STEP = 0.02
#: A plan that needs more labels than this counts as unreachable.
_MAX_LABELS = 10_000_000


@dataclass(frozen=True, eq=False, repr=False)
class BagPlan(Plan):
    """The bag size that intervals of a desired width need.

    Attributes
    ----------
    classes : array of shape (k,)
    width : float
        The desired width.
    bag_sizes : array of shape (k,)
        Size for each class, rounded up to two digits; inf if no bag is large enough.
    floors : array of shape (k,)
        The width that remains with an infinitely large bag, due to the templates.
    """

    classes: NDArray[Any]
    width: float
    bag_sizes: Array
    floors: Array

    def shown(self) -> tuple[OverviewColumn, ...]:
        """Return the sizes, and the widths that remain."""
        floors = text_column("width of an endless sample", percentages(self.floors), importance=4)
        return *_count_columns("items in the sample", self.bag_sizes), floors

    def columns(self) -> dict[str, Any]:
        """Return the sizes, and the widths that remain."""
        return {"class": self.classes, "bag_size": self.bag_sizes, "floor": self.floors}

    @property
    def bag_size(self) -> float:
        """Size at which every class has the desired width; inf if there is none."""
        return float(self.bag_sizes.max())

    @property
    def reachable(self) -> bool:
        """Whether a bag can be large enough for all classes."""
        return bool(np.isfinite(self.bag_size))

    @property
    def verdict(self) -> str:
        """The meaning of the plan, in a sentence."""
        if self.reachable:
            return f"A sample of about {self.bag_size:,.0f} gives intervals of {self.width:g}."
        worst = int(self.floors.argmax())
        return (
            f"No sample gives intervals of {self.width:g} for every class: class "
            f"{self.classes[worst]} stays at {self.floors[worst]:.3g} or wider because there are "
            "too few training labels (see plan_labels)."
        )


@dataclass(frozen=True, eq=False, repr=False)
class LabelPlan(Plan):
    """The additional labels of each class that intervals of a desired width need.

    Attributes
    ----------
    classes : array of shape (k,)
    width : float
        The desired width.
    extra : int array of shape (k,)
        Additional labels of each class, rounded up to two digits.
    floor : float
        The width that remains with infinitely many training data, due to the bag.
    expected_width : float
        Width of the widest class with the additional labels.
    reachable : bool
        Whether any number of labels is enough.
    """

    classes: NDArray[Any]
    width: float
    extra: Indices
    floor: float
    expected_width: float
    reachable: bool

    def shown(self) -> tuple[OverviewColumn, ...]:
        """Return the additional labels."""
        return _count_columns("additional labels", self.extra.astype(np.float64))

    def columns(self) -> dict[str, Any]:
        """Return the additional labels."""
        return {"class": self.classes, "extra_labels": self.extra}

    @property
    def verdict(self) -> str:
        """The meaning of the plan, in a sentence."""
        if not self.reachable:
            return (
                f"No number of labels gives intervals of {self.width:g}: the sample alone leaves "
                f"{self.floor:.3g}. Use a larger sample (see plan_bag_size)."
            )
        if not self.extra.any():
            return f"The present labels are enough for intervals of {self.width:g}."
        most = int(self.extra.argmax())
        return (
            f"About {int(self.extra.sum()):,} more labels give intervals of {self.width:g}, most "
            f"of class {self.classes[most]} ({int(self.extra[most]):,})."
        )


def plan_bag_size(
    source: Identifiability | Fitted, width: float, *, target: str = "population"
) -> BagPlan:
    """Return the bag size at which intervals are expected to be ``width`` wide.

    Parameters
    ----------
    source : Identifiability, or a fitted quantifier
        A report at the expected prevalence, whose confidence is used. For a quantifier it is the
        report at the training prevalence.
    width : float in (0, 1)
    target : {"population", "bag"}

    Returns
    -------
    BagPlan

    Raises
    ------
    ValueError
        If a parameter is not allowed.

    See Also
    --------
    kdey.plan_labels : Plan labels.
    kdey.identifiability : Report how precisely prevalences can be known.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> report = kdey.identifiability(kdey.PACC().fit(X, y), bag_size=200)
    >>> plan = kdey.plan_bag_size(report, width=0.3)
    >>> plan.bag_sizes.round(-1)
    array([40., 50., 50.])
    """
    report = _report(source)
    allowed = _allowed_variance(report, width)
    fixed, per_instance = report.template_variance(), report.bag_variance(1, target)
    room = allowed - fixed
    with np.errstate(divide="ignore"):
        sizes = np.where(room > 0, per_instance / np.where(room > 0, room, 1.0), np.inf)
    z = z_score(report.confidence)
    return BagPlan(report.classes, width, _round_up(np.maximum(sizes, 1.0)), 2 * z * np.sqrt(fixed))


@overload
def plan_labels(
    source: Identifiability | Fitted,
    width: float,
    *,
    bag_size: int | None = None,
    target: str = "population",
) -> LabelPlan: ...


@overload
def plan_labels(
    source: Fitted,
    width: float,
    *,
    X: Any = None,
    posteriors: ArrayLike | None = None,
    target: str = "population",
    confidence: float = 0.95,
    random_state: int = 0,
) -> SamplingPlan: ...


def plan_labels(
    source: Identifiability | Fitted,
    width: float,
    *,
    bag_size: int | None = None,
    target: str = "population",
    X: Any = None,
    posteriors: ArrayLike | None = None,
    confidence: float = 0.95,
    random_state: int = 0,
) -> LabelPlan | SamplingPlan:
    """Return how many more labels make intervals ``width`` wide: of training, or of a new bag.

    Without a bag, the plan is about training data. Labels are added step by step to the class
    whose labels lower the variance of the widest interval most per label. The plan ignores that
    more labels also improve the classifier.

    With ``X`` or ``posteriors`` of a new bag, the plan says how many of its instances to label,
    and which, for the prediction-powered intervals of ``estimate(labelled=...)``; see
    :mod:`kdey.diagnostics.planning`.

    Parameters
    ----------
    source : Identifiability, or a fitted quantifier
        As for :func:`plan_bag_size`; for a new bag, a fitted quantifier on posteriors.
    width : float in (0, 1)
    bag_size : int, optional
        Default: that of the report. Not for a new bag, whose size is known.
    target : {"population", "bag"}
    X : instances of a new bag, optional
    posteriors : array-like of shape (m, k), optional
        Posteriors of a new bag, instead of X.
    confidence : float
        Confidence of the intervals of a new bag; without one it is that of the report.
    random_state : int
        Seed of the draw of instances.

    Returns
    -------
    LabelPlan, or SamplingPlan for a new bag

    Raises
    ------
    TypeError
        If there is a new bag and ``source`` is no fitted quantifier on posteriors.
    ValueError
        If a parameter is not allowed.

    See Also
    --------
    kdey.plan_bag_size : Plan the size of a bag.
    kdey.identifiability : Report how precisely prevalences can be known.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kdey
    >>> X, y = load_iris(return_X_y=True)
    >>> report = kdey.identifiability(kdey.KDEyML(bandwidth=0.1).fit(X, y), bag_size=200)
    >>> kdey.plan_labels(report, 0.5).verdict
    'The present labels are enough for intervals of 0.5.'
    """
    if X is not None or posteriors is not None:
        if isinstance(source, Identifiability):
            raise TypeError("labels of a new bag are planned with the fitted quantifier itself")
        if bag_size is not None:
            raise ValueError("bag_size is not for a new bag, whose size is known")
        points = bag_posteriors(source, X, posteriors)
        options = Options(confidence, target)
        check_share(width, "width")
        seed = check_count(random_state, "random_state", 0)
        return plan_sample(posterior_model(source), points, width, options, seed)
    report = _report(source)
    allowed = _allowed_variance(report, width)
    from_bag = report.bag_variance(bag_size, target)
    z = z_score(report.confidence)
    floor = float(2 * z * np.sqrt(from_bag.max()))
    counts = report.training_counts.copy()
    reachable = bool((from_bag < allowed).all())
    while reachable and (from_bag + report.template_variance(counts)).max() > allowed:
        _add_labels(report, from_bag, counts)
        reachable = bool(counts.sum() < _MAX_LABELS)
    extra = _round_up(counts - report.training_counts) if reachable else np.zeros(len(counts))
    final = from_bag + report.template_variance(report.training_counts + extra)
    return LabelPlan(
        classes=report.classes,
        width=width,
        extra=extra.astype(np.int64),
        floor=floor,
        expected_width=float(2 * z * np.sqrt(final.max())),
        reachable=reachable,
    )


def _report(source: Identifiability | Fitted) -> Identifiability:
    return source if isinstance(source, Identifiability) else identifiability(source)


def _add_labels(report: Identifiability, from_bag: Array, counts: Array) -> None:
    """Add labels, in place, to the class that lowers the largest variance most per label."""
    widest = int((from_bag + report.template_variance(counts)).argmax())
    gain = report.template_parts[:, widest, widest] / counts**2
    best = int(gain.argmax())
    counts[best] += max(1.0, np.floor(_STEP * counts[best]))


def _allowed_variance(report: Identifiability, width: float) -> float:
    """Return the variance at which an interval has the desired width."""
    # At a confidence close to zero the quantile is zero, and any variance is allowed.
    quantile = max(z_score(report.confidence), 1e-100)
    return float((check_share(width, "width") / (2.0 * quantile)) ** 2)


def _round_up(numbers: Array) -> Array:
    """Return numbers rounded up to two significant digits, except zero and inf."""
    positive = np.isfinite(numbers) & (numbers > 0)
    digits = np.zeros(len(numbers))
    digits[positive] = np.maximum(np.floor(np.log10(numbers[positive])) - 1.0, 0.0)
    rounded = np.ceil(numbers / 10**digits - 1e-9) * 10**digits
    return np.asarray(np.where(positive, rounded, numbers))
