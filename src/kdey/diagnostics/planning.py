"""Planning: how large a bag, or how many more labels, intervals of a desired width need.

Labels of a new bag are planned in :mod:`kdey.labelled.sampling_plan`. The other two plans use the
variance parts of an identifiability report. The part of the bag is proportional to one over its
size, the part of the templates to one over the training size of each class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey._display import OverviewColumn, percentages, text_column
from kdey.arrays import make_frame
from kdey.diagnostics.identify import Identifiability, identifiability, z_score
from kdey.labelled import Plan, SamplingPlan, plan_sample
from kdey.model import Fitted, bag_posteriors, posterior_model
from kdey.options import Options
from kdey.validation import check_count, check_share

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
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
    quantity: ClassVar[str] = "instances in the bag"

    @property
    def needs(self) -> Array:
        """The size of the bag for each class, shape (k,); inf if no bag is large enough."""
        return self.bag_sizes

    def plan_columns(self) -> tuple[OverviewColumn, ...]:
        """Return the columns of :meth:`overview`, each of length k."""
        floors = text_column("width of an endless bag", percentages(self.floors), importance=4)
        return (*super().plan_columns(), floors)

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
            return f"A bag of about {self.bag_size:,.0f} gives intervals of {self.width:g}."
        worst = int(self.floors.argmax())
        return (
            f"No bag gives intervals of {self.width:g} for every class: class "
            f"{self.classes[worst]} stays at {self.floors[worst]:.3g} or wider because there are "
            "too few training labels (see plan_labels)."
        )

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a data frame with one row per class: ``class``, ``bag_size``, ``floor``.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
        """
        table = {"class": self.classes, "bag_size": self.bag_sizes, "floor": self.floors}
        return make_frame(table, backend)


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
    quantity: ClassVar[str] = "additional labels"

    @property
    def needs(self) -> Array:
        """The additional labels of each class, shape (k,)."""
        return self.extra.astype(np.float64)

    @property
    def verdict(self) -> str:
        """The meaning of the plan, in a sentence."""
        if not self.reachable:
            return (
                f"No number of labels gives intervals of {self.width:g}: the bag alone leaves "
                f"{self.floor:.3g}. Use a larger bag (see plan_bag_size)."
            )
        if not self.extra.any():
            return f"The present labels are enough for intervals of {self.width:g}."
        most = int(self.extra.argmax())
        return (
            f"About {int(self.extra.sum()):,} more labels give intervals of {self.width:g}, most "
            f"of class {self.classes[most]} ({int(self.extra[most]):,})."
        )

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a data frame with one row per class: ``class``, ``extra_labels``.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
        """
        return make_frame({"class": self.classes, "extra_labels": self.extra}, backend)


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
    and which, for the prediction-powered limits of ``estimate(labelled=...)``; see
    :mod:`kdey.labelled.sampling_plan`.

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
        Confidence of the limits of a new bag; without one it is that of the report.
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
