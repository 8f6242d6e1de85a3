"""Row maps: what an instance, and what a class, contributes to a problem.

This file declares row maps and rows, and has composites of them; each of the other files has one
kind of rows. The rows of a pool are computed once, and a bag is a weighting of them.

A :class:`RowMap` is a frozen dataclass of parameters, and ``fit`` returns it with what it has
learnt from training posteriors (:func:`fitted`): one *template* per class. Called, it turns the
instances of a pool into :class:`Rows`, whose means over bags are compared with the templates. A
:class:`RowSpec` can be fitted too, but ends in a row map of another class: the automatic choices of
``kdey.tuning``.

Everything that another part of the library asks of them is declared here, with a default that is
valid for any method. A new method overrides ``fit``, ``templates`` and ``__call__``. The other
hooks are optional: overriding one makes a computation faster or more accurate, but everything works
without it.

A composite has several row maps of the same instances, whose estimates the matching combines
(``kdey.matching``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Bags, Indices
from kdey.classifiers import ClassifierOutput, strictest
from kdey.posteriors import TrainingPosteriors

__all__ = [
    "ArrayRows",
    "CompositeMap",
    "RowMap",
    "RowSpec",
    "Rows",
    "TuningEffort",
    "class_means",
    "fitted",
]


T = TypeVar("T")
#: From training weights of n replicates, shape (n, n_training), to the templates of each, shape
#: (n, r, k), or to the densities of m points, shape (n, m, k).
Replicator: TypeAlias = Callable[[Array], Array]

#: From a tensor of posteriors to the tensor of their rows.
TensorFunction: TypeAlias = Callable[[Any], Any]


class Derived:
    """Base of frozen objects that keep what is computed from them.

    What is kept is neither pickled nor copied nor stored in model files: it is computed again when
    it is needed.
    """

    def derived(self, name: str, compute: Callable[[], T]) -> T:
        """Return what ``compute`` returns, computed once per object under this name.

        Threads that ask for the same value at the same time may compute it twice, but all of them
        get the same object.
        """
        kept: dict[str, Any] = self.__dict__.setdefault("_derived", {})
        if name not in kept:
            kept.setdefault(name, compute())
        return cast(T, kept[name])

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, without what is computed from them."""
        return {name: value for name, value in vars(self).items() if name != "_derived"}


class Rows:
    """Rows of the instances of a pool, which are averaged over bags."""

    @property
    def on_device(self) -> bool:
        """Whether the rows are on a device (``kdey.gpu``) instead of in NumPy arrays."""
        return False

    def __len__(self) -> int:
        """Return the number of instances m."""
        raise NotImplementedError

    def mean(self, bags: Bags) -> Array:
        """Return the mean row of each bag, shape (n_bags, r)."""
        raise NotImplementedError

    def log_mean(self, bags: Bags) -> Array:
        """Return the logarithm of :meth:`mean`; overridden where tiny rows would underflow."""
        with np.errstate(divide="ignore"):
            return np.log(self.mean(bags))

    def each(self) -> Array:
        """Return the row of every instance, shape (m, r)."""
        m = len(self)
        return self.mean(Bags(np.arange(m, dtype=np.int64), np.arange(m + 1, dtype=np.int64), m))

    def runs(self, bags: Bags) -> Iterable[Bags]:
        """Return the bags cut into runs whose means fit a bounded amount of memory."""
        return [bags]

    @property
    def members(self) -> tuple[Rows, ...]:
        """The rows of each member of a composite, in the order of the row map's members."""
        return (self,)


@dataclass(frozen=True, eq=False)
class ArrayRows(Rows):
    """Rows stored in an array of shape (m, r)."""

    array: Array

    def __len__(self) -> int:
        """Return the number of instances m."""
        return len(self.array)

    def mean(self, bags: Bags) -> Array:
        """Return the mean row of each bag, shape (n_bags, r)."""
        return bags.mean(self.array)

    def each(self) -> Array:
        """Return the array itself."""
        return self.array


class TuningRecord(Protocol):
    """The record of an automatic choice (:class:`kdey.tuning.Tuning`)."""

    @property
    def best_value(self) -> float:
        """The value of the parameter with the smallest error."""

    def summary(self) -> str:
        """Return a sentence about what was tried and chosen."""


@dataclass(frozen=True)
class TuningEffort:
    """Upper bounds on the work of evaluating one setting, and so on time and memory.

    Attributes
    ----------
    bags : int
        Largest total number of tuning bags.
    rows : int
        Largest number of distinct rows from which the templates of a hold-out are made.
    """

    bags: int = 200
    rows: int = 30_000


def fitted() -> Any:
    """Return a field of a row map that ``fit`` sets; it is None before."""
    return field(default=None, repr=False, compare=False, metadata={"fitted": True})


class RowSpec:
    """Parameters from which rows are fitted. Subclasses are frozen dataclasses."""

    #: Upper bounds on the work of evaluating one setting.
    tuning_effort: ClassVar[TuningEffort] = TuningEffort()

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> RowMap:
        """Return the fitted row map."""
        raise NotImplementedError

    def choose(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> tuple[TuningRecord | None, RowSpec]:
        """Return the record of an automatic choice, and the spec with all parameters chosen.

        They are None and the spec itself if there is nothing to choose; the specs that choose are
        in ``kdey.tuning``.
        """
        return None, self

    def on_device(self, device: str) -> RowSpec:
        """Return the spec whose automatic choice, if it has one, is made on a device.

        ``device`` is a value of ``device=`` (``kdey.validation.device_name``).
        """
        return self

    @property
    def needs(self) -> ClassifierOutput:
        """What a classifier must give: decisions, scores of any kind, or probabilities.

        Templates are learnt from the same numbers that bags have, so that scores are enough unless
        rows read a number as a probability, or count decisions only.
        """
        return "scores"

    @property
    def members(self) -> tuple[RowSpec, ...]:
        """The specs of a composite's members; otherwise the spec itself."""
        return (self,)


class RowMap(RowSpec, Derived):
    """Parameters and, once fitted, templates of the classes and rows of instances.

    Subclasses are frozen dataclasses with a field or a property ``templates``. What ``fit`` learns
    is in fields with the default :func:`fitted`.
    """

    if TYPE_CHECKING:
        # For the type checker only: at run time this property would become the default value of
        # the dataclass field of the same name.
        @property
        def templates(self) -> Array:
            """The templates, one column per class, shape (r, k)."""

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> Rows:
        """Return the rows of ``points``, shape (m, d): posteriors, or features."""
        raise NotImplementedError

    def prepare(self, n_threads: int = 1) -> None:
        """Compute what the first rows would otherwise wait for; by default there is nothing."""

    def new_rows(
        self, training: TrainingPosteriors, picks: Indices, n_threads: int = 1
    ) -> NDArray[np.floating]:
        """Return rows of the training instances at ``picks`` as if they were new, shape (n', r).

        A training instance contributes to the templates that it is compared with. If templates are
        a few numbers per class, the effect is of order 1 / n and the plain rows are returned.
        """
        return self(training.required()[picks], n_threads).each()

    @property
    def tensor_rows(self) -> TensorFunction | None:
        """The function from posteriors that are a torch tensor (m, d) to rows, a tensor (m, r).

        They are on the same device, and made by the tensor's own methods, so that torch need not be
        imported. None: rows are computed on the host.
        """
        return None

    @property
    def pseudo_share(self) -> float:
        """Weight of one pseudo-instance per class that a likelihood adds to a bag of weight one.

        Zero for a plain maximum likelihood; see ``MixtureLikelihood``.
        """
        return 0.0

    @property
    def n_terms(self) -> int:
        """Number of histograms or points over which a divergence is averaged."""
        return 1

    @property
    def is_fitted(self) -> bool:
        """Whether anything has been learnt."""
        learnt = [f.name for f in fields(self) if "fitted" in f.metadata]  # type: ignore[arg-type]
        return not learnt or any(getattr(self, name) is not None for name in learnt)

    @property
    def members(self) -> tuple[RowMap, ...]:
        """The row maps of a composite, heaviest first; otherwise the map itself."""
        return (self,)

    @property
    def is_composite(self) -> bool:
        """Whether the map consists of members."""
        return self.members[0] is not self

    @property
    def shares(self) -> Array:
        """Weights of the members, summing to one, shape (n_members,)."""
        return np.ones(1)


def class_means(rows: Array, labels: Indices, n_classes: int, weights: Array | None) -> Array:
    """Return the (weighted) mean row of each class as columns, shape (r, k).

    Raises ValueError if a class has no instance of positive weight.
    """
    w = np.ones(len(labels)) if weights is None else weights
    onehot = np.zeros((n_classes, len(labels)))
    onehot[labels, np.arange(len(labels))] = w
    mass = onehot.sum(axis=1, keepdims=True)
    if (mass == 0).any():
        absent = int(np.argmin(mass[:, 0]))
        raise ValueError(f"class number {absent} has no training instance of positive weight")
    means: Array = (onehot @ rows / mass).T
    return np.ascontiguousarray(means)


def no_templates(n_classes: int) -> Array:
    """Return the templates of a map that has none, shape (k, 0), which still tells k."""
    return np.empty((n_classes, 0))


@dataclass(frozen=True, eq=False)
class CompositeRows(Rows):
    """The rows of each member; a request for a single set of rows gets those of the first."""

    parts: tuple[Rows, ...]

    @property
    def on_device(self) -> bool:
        """Whether the rows of the members are."""
        return self.parts[0].on_device

    def __len__(self) -> int:
        """Return the number of instances m."""
        return len(self.parts[0])

    def mean(self, bags: Bags) -> Array:
        """Return the mean row of each bag under the first member."""
        return self.parts[0].mean(bags)

    def each(self) -> Array:
        """Return the row of every instance under the first member."""
        return self.parts[0].each()

    @property
    def members(self) -> tuple[Rows, ...]:
        """The rows of each member."""
        return self.parts


@dataclass(frozen=True)
class CompositeMap(RowMap):
    """Several row maps of the same instances, the members: HDy's numbers of bins, several kernels.

    The first member, which is the heaviest, represents the whole.

    Attributes
    ----------
    parts : tuple of RowSpec
        The members; before the fit any row specs, row maps after it.
    weights : tuple of float or None
        Of the members, where their estimates are averaged, on any scale. None: all are equal.
    """

    parts: tuple[RowSpec, ...]
    weights: tuple[float, ...] | None = None

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> CompositeMap:
        """Return the map with every member fitted."""
        parts = tuple(part.fit(training, n_classes, n_threads) for part in self.parts)
        return replace(self, parts=parts)

    @property
    def is_fitted(self) -> bool:
        """Whether the members are."""
        return isinstance(self.parts[0], RowMap) and self.parts[0].is_fitted

    @property
    def needs(self) -> ClassifierOutput:
        """What the most demanding member needs of a classifier."""
        return strictest(part.needs for part in self.parts)

    @property
    def templates(self) -> Array:
        """The templates of the first member."""
        return self.members[0].templates

    @property
    def members(self) -> tuple[RowMap, ...]:
        """The members, heaviest first."""
        return cast(tuple[RowMap, ...], self.parts)

    @property
    def shares(self) -> Array:
        """Weights of the members, summing to one, shape (n_members,)."""
        weights = np.ones(len(self.parts)) if self.weights is None else np.array(self.weights)
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> CompositeRows:
        """Return the rows of ``points`` under each member."""
        return CompositeRows(tuple(part(points, n_threads) for part in self.members))

    def prepare(self, n_threads: int = 1) -> None:
        """Prepare each member."""
        for part in self.members:
            part.prepare(n_threads)

    def new_rows(
        self, training: TrainingPosteriors, picks: Indices, n_threads: int = 1
    ) -> NDArray[np.floating]:
        """Return rows of training instances under the first member, as if they were new."""
        return self.members[0].new_rows(training, picks, n_threads)

    def keep(self, positions: Sequence[int]) -> CompositeMap:
        """Return the composite of the members at ``positions``, with weights in proportion."""
        weights = self.weights
        return replace(
            self,
            parts=tuple(self.parts[i] for i in positions),
            weights=None if weights is None else tuple(weights[i] for i in positions),
        )
