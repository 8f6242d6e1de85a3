"""The interface of row maps and rows, and composites of row maps.

A :class:`RowMap` has parameters, and ``fit`` returns it with what it has learnt from training
posteriors (:func:`fitted`): one *template* per class. Called, it turns the instances of a pool into
:class:`Rows`, whose means over bags are compared with the templates. A :class:`RowSpec` can be
fitted too, but ends in a row map of another class: the automatic choices of ``kdey.tuning``.

Everything that another part of the library asks of them is declared here, with a default that is
valid for any method. A new method overrides ``fit``, ``templates`` and ``__call__``. The other
hooks are optional: overriding one makes a computation faster or more accurate, but everything works
without it.

A composite has several row maps of the same instances, whose estimates the matching combines
(``kdey.matching.base``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from kdey._caching import Derived
from kdey.bags import Bags
from kdey.classifiers import ClassifierOutput, strictest
from kdey.posteriors import TrainingPosteriors

if TYPE_CHECKING:
    from kdey.rows.kernel import ClassReferences


Array = NDArray[np.float64]

Indices = NDArray[np.int64]

#: From training weights of n replicates, shape (n, n_training), to templates of shape (n, r, k).
TemplateReplicator: TypeAlias = Callable[[Array], Array]

#: From training weights of n replicates, shape (n, n_training), to densities of shape (n, m, k).
DensityReplicator: TypeAlias = Callable[[Array], Array]

#: Number of kernel values that cost about as much as one row of a method without kernels.
_PAIRS_PER_ROW = 200

#: Numbers in memory at a time for the rows of one family.
_CHUNK = 1 << 25


@dataclass(frozen=True, eq=False)
class Distributions:
    """Cumulative distributions on a line, of classes and of bags.

    Attributes
    ----------
    steps : array of shape (t,)
        Length of the interval on which each column is constant.
    classes : array of shape (t, k)
        Share of each training class at or below the start of the interval.
    bags : array of shape (n_bags, t)
        The same of each bag.
    """

    steps: Array
    classes: Array
    bags: Array


class Rows:
    """Rows of the instances of a pool, which are averaged over bags."""

    #: Whether the rows are on a device (``kdey.gpu``) instead of in NumPy arrays.
    on_device: ClassVar[bool] = False

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

    def log_self(self, bags: Bags, n_threads: int = 1) -> Array:
        """Return the log mean kernel between the instances of each bag, shape (n_bags,)."""
        raise NotImplementedError(f"{type(self).__name__} has no kernel between instances")

    def distributions(self, bags: Bags) -> Distributions:
        """Return the cumulative distributions of classes and bags, if rows are single numbers."""
        raise NotImplementedError(f"{type(self).__name__} has no cumulative distribution")

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

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> RowMap:
        """Return the fitted row map."""
        raise NotImplementedError

    def settle(
        self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1
    ) -> tuple[TuningRecord | None, RowSpec]:
        """Return the record of an automatic choice, and the spec with all parameters chosen.

        They are None and the spec itself if there is nothing to choose; the specs that choose are
        in ``kdey.tuning``.
        """
        return None, self

    def on_device(self, device: str) -> RowSpec:
        """Return the spec whose automatic choice, if it has one, is made on a device.

        ``device`` is a value of ``device=`` (:func:`kdey._parallel.device_name`).
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
    def family(self) -> Hashable | None:
        """A key shared by specs that are computed in one pass; None if each has its own pass."""
        return None

    def fit_together(
        self,
        specs: Sequence[Self],
        training: TrainingPosteriors,
        n_classes: int,
        n_threads: int = 1,
    ) -> Sequence[RowMap]:
        """Return the maps of several specs of one family; this spec is the first."""
        return [spec.fit(training, n_classes, n_threads) for spec in specs]

    def for_tuning(self, seed: int) -> RowSpec:
        """Return a cheaper version for tuning, with the same random draws for all candidates."""
        return self

    @property
    def uses_kernels(self) -> bool:
        """Whether rows are averages over kernels at the training points."""
        return False

    @property
    def tuning_effort(self) -> TuningEffort:
        """Upper bounds on the work of evaluating one setting."""
        return TuningEffort()

    @property
    def members(self) -> tuple[RowSpec, ...]:
        """The specs of a composite's members; otherwise the spec itself."""
        return (self,)

    def keep_members(self, positions: Sequence[int]) -> RowSpec:
        """Return the composite with the members at ``positions`` only, at least one of them."""
        if list(positions) != list(range(len(self.members))):
            raise NotImplementedError(f"{type(self).__name__} keeps all of its members")
        return self


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

    def quick_rows(self, points: NDArray[Any], n_threads: int = 1) -> Rows:
        """Return rows accurate to six digits, which is enough to compare candidates."""
        return self(points, n_threads)

    def rows_together(
        self, maps: Sequence[Self], points: NDArray[Any], n_threads: int = 1
    ) -> Sequence[Rows]:
        """Return the rows of ``points`` under several maps of one family; this map is the first."""
        return [row_map(points, n_threads) for row_map in maps]

    def new_rows(
        self, training: TrainingPosteriors, picks: Indices, n_threads: int = 1
    ) -> NDArray[np.floating]:
        """Return rows of the training instances at ``picks`` as if they were new, shape (n', r).

        A training instance contributes to the templates that it is compared with. If templates are
        a few numbers per class, the effect is of order 1 / n and the plain rows are returned.
        """
        return self(training.required()[picks], n_threads).each()

    def replicate_templates(self, training: TrainingPosteriors) -> TemplateReplicator | None:
        """Return a function from training weights to templates; None if they need a new fit."""
        return None

    def replicate_densities(
        self, points: NDArray[Any], rows: Rows, training: TrainingPosteriors, n_threads: int = 1
    ) -> DensityReplicator | None:
        """Return a function from training weights to densities; None if they need a new fit.

        The densities at ``points`` are relative to the largest entry of each of their ``rows``.
        """
        return None

    def influence_features(self, points: NDArray[Any]) -> Array | None:
        """Return k numbers per instance whose class means the method inverts, shape (m, k).

        None if the method has no such numbers; density ratios are then used in their place.
        """
        return None

    @property
    def has_tensor_rows(self) -> bool:
        """Whether :meth:`tensor_rows` is implemented."""
        return False

    def tensor_rows(self, points: Any) -> Any:
        """Return the rows of posteriors that are a torch tensor (m, d) as a tensor (m, r).

        It is on the same device and made by the tensor's own methods, so that torch need not be
        imported. By default rows are computed on the host.
        """
        raise NotImplementedError(f"{type(self).__name__} has no rows on tensors")

    def class_references(self) -> ClassReferences | None:
        """Return the references of each class of the kernel; None if there is no kernel."""
        return None

    def starting_prevalence(self) -> Array | None:
        """Return the prevalence at which EM starts, shape (k,); None for the uniform one."""
        return None

    @property
    def pseudo_share(self) -> float:
        """Weight of one pseudo-instance per class that a likelihood adds to a bag of weight one.

        Zero for a plain maximum likelihood; see :class:`kdey.matching.MixtureLikelihood`.
        """
        return 0.0

    def n_pairs(self, n_points: int) -> float:
        """Return the approximate cost of the rows of ``n_points`` instances, in kernel values."""
        return float(n_points) * _PAIRS_PER_ROW

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
        n = len(self.members)
        return np.full(n, 1.0 / n)

    def keep_members(self, positions: Sequence[int]) -> RowMap:
        """Return the composite with the members at ``positions`` only, at least one of them."""
        return cast(RowMap, super().keep_members(positions))


def families(specs: Sequence[RowSpec], pool_size: int, n_classes: int) -> list[list[int]]:
    """Return groups of positions of specs that are computed together, in order of appearance.

    A family is split if the rows of all its members would need too much memory.
    """
    grouped: dict[Hashable, list[int]] = {}
    for number, spec in enumerate(specs):
        key = ("alone", number) if spec.family is None else spec.family
        grouped.setdefault(key, []).append(number)
    limit = max(1, _CHUNK // max(1, pool_size * n_classes))
    return [
        members[start : start + limit]
        for members in grouped.values()
        for start in range(0, len(members), limit)
    ]


def rows_of_family(
    specs: Sequence[RowSpec],
    training: TrainingPosteriors,
    points: NDArray[Any],
    n_classes: int,
    n_threads: int = 1,
    *,
    quick: bool = False,
) -> Iterator[tuple[RowMap, Rows]]:
    """Yield the fitted row map and the rows of ``points`` for each spec of one family.

    Parameters
    ----------
    specs : sequence of RowSpec
        Specs with the same ``family``, or a single spec.
    training : TrainingPosteriors
    points : array of shape (m, d)
    n_classes : int
    n_threads : int
    quick : bool
        Whether rows of specs without a family need to be accurate to six digits only.

    Yields
    ------
    row_map : RowMap
    rows : Rows
    """
    if specs[0].family is not None:
        maps = specs[0].fit_together(specs, training, n_classes, n_threads)
        yield from zip(maps, maps[0].rows_together(maps, points, n_threads), strict=True)
        return
    for spec in specs:
        row_map = spec.fit(training, n_classes, n_threads)
        compute_rows = row_map.quick_rows if quick else row_map
        yield row_map, compute_rows(points, n_threads)


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
class StackedMap(RowMap):
    """Several row maps, the members (HDy's numbers of bins); the first represents the whole.

    Before the fit, members may be any row specs.
    """

    parts: tuple[RowSpec, ...]

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> Self:
        """Return the map with every member fitted."""
        parts = tuple(part.fit(training, n_classes, n_threads) for part in self.parts)
        return replace(self, parts=parts)

    @property
    def is_fitted(self) -> bool:
        """Whether the members are."""
        return isinstance(self.parts[0], RowMap) and self.parts[0].is_fitted

    @property
    def uses_kernels(self) -> bool:
        """Whether any member uses kernels."""
        return any(part.uses_kernels for part in self.parts)

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

    def __iter__(self) -> Iterator[RowMap]:
        """Iterate over the members."""
        return iter(self.members)

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

    def class_references(self) -> ClassReferences | None:
        """Return the references of the first member."""
        return self.members[0].class_references()

    def starting_prevalence(self) -> Array | None:
        """Return the starting prevalence of the first member."""
        return self.members[0].starting_prevalence()

    def n_pairs(self, n_points: int) -> float:
        """Return the total cost of all members, in kernel values."""
        return sum(part.n_pairs(n_points) for part in self.members)


@dataclass(frozen=True)
class CommitteeMap(StackedMap):
    """Members whose estimates are averaged, heaviest first, with ``weights``.

    ``normalised``, shape (n_members,), are the weights divided by their sum.
    """

    weights: tuple[float, ...]
    normalised: Array = fitted()

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> Self:
        """Return the map with every member fitted."""
        shares = np.asarray(self.weights, dtype=np.float64)
        members = super().fit(training, n_classes, n_threads)
        return replace(members, normalised=shares / shares.sum())

    @property
    def shares(self) -> Array:
        """The weights of the members, shape (n_members,)."""
        return self.normalised

    def keep_members(self, positions: Sequence[int]) -> Self:
        """Return the committee of the members at ``positions``, with weights in proportion."""
        kept = replace(
            self,
            parts=tuple(self.parts[i] for i in positions),
            weights=tuple(self.weights[i] for i in positions),
        )
        if not self.is_fitted:
            return kept
        shares = self.normalised[list(positions)]
        return replace(kept, normalised=shares / shares.sum())
