"""Planning: how large a bag, or how many more labels, for intervals of a wanted width.

Both read the variance parts of an identifiability report: the bag's falls like one over its
size, the templates' like one over the training size of each class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdey._support.frames import make_frame
from kdey._support.validation import check_share
from kdey.diagnostics.identify import Identifiability, identifiability, z_score
from kdey.fitted import FittedQuantifier

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
#: Share of a class's labels added at a time: fine enough for a plan.
_STEP = 0.02
#: A plan beyond this many labels is called out of reach.
_MOST_LABELS = 10_000_000


@dataclass(frozen=True, eq=False)
class BagPlan:
    """How large a bag must be.

    Attributes
    ----------
    classes : array of shape (k,)
    width : float
        What was asked for.
    bag_sizes : array of shape (k,)
        For each class, rounded up to two digits; inf where no bag is large enough.
    floors : array of shape (k,)
        The width that remains at an infinite bag: that of the templates.
    """

    classes: NDArray[Any]
    width: float
    bag_sizes: Array
    floors: Array

    @property
    def bag_size(self) -> float:
        """Size at which every class has the wanted width; inf where there is none."""
        return float(self.bag_sizes.max())

    @property
    def reachable(self) -> bool:
        """Whether a bag can be large enough for all classes."""
        return bool(np.isfinite(self.bag_size))

    @property
    def verdict(self) -> str:
        """What this means, in a sentence."""
        if self.reachable:
            return f"A bag of about {self.bag_size:,.0f} gives intervals of {self.width:g}."
        worst = int(self.floors.argmax())
        return (
            f"No bag gives intervals of {self.width:g} for every class: class "
            f"{self.classes[worst]} stays at {self.floors[worst]:.3g} or wider for want of "
            "training labels (see plan_labels)."
        )

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a frame with one row per class: ``class``, ``bag_size``, ``floor``."""
        table = {"class": self.classes, "bag_size": self.bag_sizes, "floor": self.floors}
        return make_frame(table, backend)


@dataclass(frozen=True, eq=False)
class LabelPlan:
    """How many more labels of which class.

    Attributes
    ----------
    classes : array of shape (k,)
    width : float
        What was asked for.
    extra : int array of shape (k,)
        More labels of each class, rounded up to two digits.
    floor : float
        The width that remains at infinite training data: that of the bag.
    expected_width : float
        Of the widest class with the extra labels.
    reachable : bool
    """

    classes: NDArray[Any]
    width: float
    extra: Indices
    floor: float
    expected_width: float
    reachable: bool

    @property
    def verdict(self) -> str:
        """What this means, in a sentence."""
        if not self.reachable:
            return (
                f"No number of labels gives intervals of {self.width:g}: the bag alone leaves "
                f"{self.floor:.3g}. Take a larger bag (see plan_bag_size)."
            )
        if not self.extra.any():
            return f"The labels at hand are enough for intervals of {self.width:g}."
        most = int(self.extra.argmax())
        return (
            f"About {int(self.extra.sum()):,} more labels give intervals of {self.width:g}, most "
            f"of class {self.classes[most]} ({int(self.extra[most]):,})."
        )

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a frame with one row per class: ``class``, ``extra_labels``."""
        return make_frame({"class": self.classes, "extra_labels": self.extra}, backend)


def plan_bag_size(
    source: Identifiability | FittedQuantifier, width: float, *, target: str = "population"
) -> BagPlan:
    """Return the bag size at which intervals are expected to be ``width`` wide.

    Parameters
    ----------
    source : Identifiability, or a fitted quantifier
        A report made at the prevalence that is expected, whose confidence is used; a quantifier
        stands for its report at the training prevalence.
    width : float in (0, 1)
    target : {"population", "bag"}

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


def plan_labels(
    source: Identifiability | FittedQuantifier,
    width: float,
    *,
    bag_size: int | None = None,
    target: str = "population",
) -> LabelPlan:
    """Return how many more labels of which class make intervals ``width`` wide.

    Labels are added step by step to the class whose labels lower the variance of the widest
    interval most per label. That more labels also make a better classifier is not counted.

    Parameters
    ----------
    source : Identifiability, or a fitted quantifier
        As for :func:`plan_bag_size`.
    width : float in (0, 1)
    bag_size : int, optional
        Default: the report's.
    target : {"population", "bag"}
    """
    report = _report(source)
    allowed = _allowed_variance(report, width)
    from_bag = report.bag_variance(bag_size, target)
    z = z_score(report.confidence)
    floor = float(2 * z * np.sqrt(from_bag.max()))
    counts = report.training_counts.copy()
    reachable = bool((from_bag < allowed).all())
    while reachable and (from_bag + report.template_variance(counts)).max() > allowed:
        _add_labels(report, from_bag, counts)
        reachable = bool(counts.sum() < _MOST_LABELS)
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


def _report(source: Identifiability | FittedQuantifier) -> Identifiability:
    return source if isinstance(source, Identifiability) else identifiability(source)


def _add_labels(report: Identifiability, from_bag: Array, counts: Array) -> None:
    widest = int((from_bag + report.template_variance(counts)).argmax())
    gain = report.influence.template_parts[:, widest, widest] / counts**2
    best = int(gain.argmax())
    counts[best] += max(1.0, np.floor(_STEP * counts[best]))


def _allowed_variance(report: Identifiability, width: float) -> float:
    # A confidence next to zero has a quantile of zero: any spread will do.
    quantile = max(z_score(report.confidence), 1e-100)
    return float((check_share(width, "width") / (2.0 * quantile)) ** 2)


def _round_up(numbers: Array) -> Array:
    """Return numbers rounded up to two significant digits; zero and inf stay."""
    some = np.isfinite(numbers) & (numbers > 0)
    digits = np.zeros(len(numbers))
    digits[some] = np.maximum(np.floor(np.log10(numbers[some])) - 1.0, 0.0)
    return np.asarray(np.where(some, np.ceil(numbers / 10**digits - 1e-9) * 10**digits, numbers))
