"""Protocols: bags with true prevalences from the labels of a pool.

A protocol is a frozen dataclass with one method, ``bags(y, classes=None) -> LabelledBags``. It does
not need X, and its bags are a function of its parameters and the labels.

*Artificial* (APP, GridAPP, DirichletProtocol, AtPrevalences): the protocol chooses the prevalence
of each bag. It becomes integer class counts by largest remainders
(:func:`kdey.simplex.round_counts`), and the prevalence recorded as true is the realised one, counts
/ bag size. Instances of a class are drawn uniformly. ``replace="auto"`` draws a class without
replacement in every bag for which it has enough instances, and with replacement otherwise; True and
False apply to all classes and bags.

*Natural* (NPP): instances are drawn uniformly from the whole pool. *Given* (GivenBags): the bags
exist already, with known prevalences.

Bag b depends only on ``random_state``, b and the pool, so a longer run starts with the bags of a
shorter one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any, Literal, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey._display import written_out
from kdey.bags import Bags, BagsLike, as_bags, offsets_of
from kdey.simplex import Array, check_posteriors, in_class_order, round_counts, sample_uniform
from kdey.validation import Codes, Labels, check_classes, check_count, encode_labels, for_numpy

#: Descriptions of the parameters that protocols share, for their docstrings.
SHARED_PARAMETERS = """
n_bags : int
    Number of bags.
bag_size : int
    Number of instances of each bag.
random_state : int
    Seed of the draws; each bag has its own generator, so that fewer bags are the first of more.
replace : {"auto", True, False}
    Whether an instance may occur more than once in a bag.
"""


@dataclass(frozen=True, eq=False)
class LabelledBags:
    """Bags whose prevalences are known.

    Attributes
    ----------
    bags : Bags
        Positions in the pool.
    prevalences : float64 array of shape (n_bags, k)
        True prevalences, columns in the order of ``classes``.
    classes : array of shape (k,)
    """

    bags: Bags
    prevalences: Array
    classes: Labels

    def __post_init__(self) -> None:
        # Users may write their own protocols, and bags go to the solvers without further checks.
        object.__setattr__(self, "bags", self.bags.checked())

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.bags)

    def __getitem__(self, part: slice) -> LabelledBags:
        """Return the bags of a contiguous slice, over the same pool."""
        return LabelledBags(self.bags[part], self.prevalences[part], self.classes)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of instances of each bag, shape (n_bags,)."""
        return self.bags.sizes


class BagProtocol(Protocol):
    """The interface of a protocol, which draws bags with true prevalences from labels."""

    def bags(self, y: ArrayLike, classes: ArrayLike | None = None) -> LabelledBags:
        """Return bags over a pool.

        Parameters
        ----------
        y : array-like of shape (n,)
            Labels of the pool.
        classes : array-like of shape (k,), optional
            Classes in the order of the prevalences; default: the sorted labels.

        Returns
        -------
        LabelledBags
        """
        ...


def realised_prevalences(bags: Bags, codes: Codes, n_classes: int) -> Array:
    """Return the share of each class in each bag (by weight, if it has weights), (n_bags, k)."""
    # Counting integers, rather than averaging indicators, gives exact shares.
    owner = np.repeat(np.arange(len(bags)), bags.sizes)
    cells = owner * n_classes + codes[bags.indices]
    mass = np.bincount(cells, weights=bags.weights, minlength=len(bags) * n_classes)
    mass = mass.reshape(len(bags), n_classes)
    return np.asarray(mass / mass.sum(axis=1, keepdims=True), dtype=np.float64)


def check_draws(n_bags: Any, bag_size: Any, random_state: Any, replace: Any) -> None:
    """Raise ValueError with the name of the parameter that is not allowed, if there is one."""
    check_count(n_bags, "n_bags")
    check_count(bag_size, "bag_size")
    check_count(random_state, "random_state", least=0)
    if not (isinstance(replace, bool) or (isinstance(replace, str) and replace == "auto")):
        raise ValueError(f'replace must be "auto", True or False, got {replace!r}')


def check_protocol(protocol: Any) -> None:
    """Raise TypeError unless ``protocol`` is an object with a method ``bags``."""
    if isinstance(protocol, type) or not callable(getattr(protocol, "bags", None)):
        raise TypeError(
            f"protocol must be an object with a method bags, such as APP(), got {protocol!r}"
        )


def check_fits(bag_size: int, pool_size: int, replace: Any) -> None:
    """Raise ValueError if a bag without replacement would be larger than the pool."""
    if replace is False and bag_size > pool_size:
        raise ValueError(
            f"bag_size={bag_size} is larger than the pool of {pool_size} instances "
            'and replace=False; use smaller bags, or replace="auto"'
        )


Replace: TypeAlias = Literal["auto"] | bool
Counts = NDArray[np.int64]


def bag_generators(seed: int, n_bags: int) -> Iterator[np.random.Generator]:
    """Yield one independent generator per bag; generator b depends only on ``seed`` and b.

    The first 100 of 1,000 bags are therefore the same as those of ``n_bags=100``.
    """
    for bag in range(n_bags):
        yield np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(bag,)))


class _ByClass:
    """The instances of a pool sorted by class, from which bags are drawn.

    Parameters
    ----------
    codes : int64 array of shape (n,)
        Class codes of the instances.
    classes : array of shape (k,)
    """

    def __init__(self, codes: Codes, classes: Labels) -> None:
        self.classes = classes
        self.order = np.argsort(codes, kind="stable")
        #: Number of instances of each class, and where they begin in the order.
        self.available = np.bincount(codes, minlength=len(classes)).astype(np.int64)
        self.starts = np.cumsum(self.available) - self.available

    def draw(self, counts: Counts, replace: Replace, rng: np.random.Generator) -> Codes:
        """Return the sorted positions of a bag with ``counts[i]`` instances of class i.

        Within a class every subset (with replacement: every sequence) is equally likely.
        """
        distinct = counts <= self.available if replace is not True else np.zeros(len(counts), bool)
        # Rejecting repeats is slow if a bag takes more than half of a class: such classes are
        # drawn by a random order of their instances.
        crowded = distinct & (2 * counts > self.available)
        sparse = np.where(crowded, 0, counts)
        parts = [self._draw_sparse(sparse, distinct, rng)]
        parts += [self._draw_crowded(c, counts[c], rng) for c in np.flatnonzero(crowded).tolist()]
        return np.sort(self.order[np.concatenate(parts)])

    def _draw_sparse(
        self, counts: Counts, distinct: NDArray[np.bool_], rng: np.random.Generator
    ) -> Codes:
        """Draw all classes at once, and redraw repeated instances of ``distinct`` classes.

        Keeping the distinct values and redrawing only the repeated ones gives the first counts[i]
        different values of an infinite uniform sequence, which is a uniform subset. Sorting keeps
        the instances of a class together, so that slots and classes stay aligned.
        """
        owner = np.repeat(np.arange(len(counts)), counts)
        slots = self._random_slots(owner, rng)
        while True:
            slots.sort()
            repeated = np.flatnonzero((slots[1:] == slots[:-1]) & distinct[owner[1:]]) + 1
            if len(repeated) == 0:
                return slots
            slots[repeated] = self._random_slots(owner[repeated], rng)

    def _random_slots(self, owner: Codes, rng: np.random.Generator) -> Codes:
        """Return a uniform position in ``order`` for each entry of ``owner``, its class."""
        within = (rng.random(len(owner)) * self.available[owner]).astype(np.int64)
        return np.asarray(self.starts[owner] + within, dtype=np.int64)

    def _draw_crowded(self, label: int, count: int, rng: np.random.Generator) -> Codes:
        """Return the first ``count`` positions of a class in a random order."""
        keys = rng.random(int(self.available[label]))
        return np.asarray(self.starts[label] + np.argsort(keys, kind="stable")[:count])

    def check(self, counts: Counts, replace: Replace) -> None:
        """Raise ValueError if a bag of ``counts``, shape (n_bags, k), cannot be drawn."""
        required = counts.max(axis=0)
        enough = self.available >= required if replace is False else self.available > 0
        short = (required > 0) & ~enough
        if not short.any():
            return
        label = int(np.argmax(short))
        name, need, have = self.classes.tolist()[label], required[label], self.available[label]
        bag = int(np.argmax(counts[:, label]))
        why = "y has none" if have == 0 else f"y has {have} and replace=False"
        raise ValueError(f"bag {bag} needs {need} instances of class {name!r}, but {why}")


def draw_bags(
    codes: Codes,
    classes: Labels,
    counts: Counts,
    replace: Replace,
    generators: Iterable[np.random.Generator],
) -> Bags:
    """Return one bag for each row of ``counts`` (n_bags, k), each by a generator of its own.

    Parameters
    ----------
    codes : int64 array of shape (pool_size,)
        Class codes of the instances of the pool.
    classes : array of shape (k,)
        Their names, for messages.
    counts : int64 array of shape (n_bags, k)
        Instances of each class in each bag.
    replace : {"auto", True, False}
    generators : iterable of n_bags generators

    Raises
    ------
    ValueError
        If the pool does not have enough instances of a class.
    """
    pool = _ByClass(codes, classes)
    pool.check(counts, replace)
    drawn = [pool.draw(row, replace, rng) for row, rng in zip(counts, generators, strict=True)]
    offsets = offsets_of(counts.sum(axis=1))
    return Bags(np.concatenate(drawn), offsets, len(pool.order))


#: Pairs of a class and its share.
NamedShares: TypeAlias = "tuple[tuple[Any, float], ...]"
#: Takes the number of classes, the number of the bag and its generator, and returns a prevalence of
#: shape (k,).
Chooser: TypeAlias = Callable[[int, int, np.random.Generator], Array]


@dataclass(frozen=True)
class _DrawnBags:
    """Base of protocols that draw a number of bags, each at a prevalence that they choose."""

    n_bags: int = 1000
    bag_size: int = 500
    random_state: int = 0
    replace: Replace = "auto"

    def __post_init__(self) -> None:
        check_draws(self.n_bags, self.bag_size, self.random_state, self.replace)

    def bags(self, y: ArrayLike, classes: ArrayLike | None = None) -> LabelledBags:
        """Return bags over the pool labelled ``y``, prevalences ordered as ``classes``."""
        return _draw(self, self.n_bags, self._choose, y, classes)

    def _choose(self, n_classes: int, bag: int, rng: np.random.Generator) -> Array:
        """Return the prevalence of a bag."""
        raise NotImplementedError


@written_out(SHARED_PARAMETERS)
class APP(_DrawnBags):
    """Artificial prevalence protocol: prevalences uniform on the simplex (Kraemer sampling).

    This is the protocol of the paper. :mod:`kdey.evaluation.protocols` explains how prevalences
    become bags.

    Parameters
    ----------
    n_bags : int
    bag_size : int
    random_state : int
        Seed; the bags are a function of it, the parameters and the labels.
    replace : "auto", True or False
        Whether an instance may occur more than once in a bag.

    See Also
    --------
    kdey.evaluation.GridAPP : Bags over a grid of prevalences.
    kdey.NPP : Bags drawn at random.

    Examples
    --------
    >>> import numpy as np
    >>> from kdey import APP
    >>> drawn = APP(n_bags=4, bag_size=100, random_state=0).bags(np.repeat(["a", "b", "c"], 500))
    >>> len(drawn)
    4
    >>> drawn.prevalences.shape
    (4, 3)
    >>> drawn.sizes
    array([100, 100, 100, 100])
    """

    def _choose(self, n_classes: int, bag: int, rng: np.random.Generator) -> Array:
        return np.asarray(sample_uniform(n_classes, 1, rng)[0], dtype=np.float64)


@written_out(SHARED_PARAMETERS)
@dataclass(frozen=True)
class DirichletProtocol(_DrawnBags):
    """Prevalences from a Dirichlet distribution.

    Parameters
    ----------
    concentration : float or sequence of k floats
        Positive. A single number applies to every class: 1 is uniform on the simplex, smaller
        values favour its corners, larger ones its centre. ``50 * prevalence`` scatters around a
        prevalence.

    See Also
    --------
    kdey.evaluation.AtPrevalences : Bags at prevalences of your choice.
    kdey.APP : Bags with prevalences uniform on the simplex.

    Examples
    --------
    >>> import numpy as np
    >>> from kdey.evaluation import DirichletProtocol
    >>> protocol = DirichletProtocol(n_bags=4, bag_size=100, concentration=50.0)
    >>> drawn = protocol.bags(np.repeat(["a", "b"], 500))
    >>> bool(np.abs(drawn.prevalences - 0.5).max() < 0.4)
    True
    """

    concentration: float | Sequence[float] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            values = np.asarray(self.concentration, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.zeros(0)
        if values.ndim > 1 or values.size == 0 or not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(
                "concentration must be a positive number or one per class, "
                f"got {self.concentration!r}"
            )
        # Plain numbers, so that protocols can be compared, hashed and printed.
        object.__setattr__(
            self, "concentration", tuple(values.tolist()) if values.ndim else float(values)
        )

    def _choose(self, n_classes: int, bag: int, rng: np.random.Generator) -> Array:
        values = np.asarray(self.concentration, dtype=np.float64)
        if values.ndim and len(values) != n_classes:
            raise ValueError(
                f"concentration has {len(values)} entries, but there are {n_classes} classes"
            )
        return rng.dirichlet(np.broadcast_to(values, n_classes))


@written_out(SHARED_PARAMETERS)
@dataclass(frozen=True)
class GridAPP:
    """Artificial prevalences over a regular grid of the simplex, for two or few classes.

    The grid contains every prevalence whose entries are multiples of 1 / (n_prevalences - 1): by
    default 21 for two classes, 0.00, 0.05, ..., 1.00, and C(n_prevalences + k - 2, k - 1) for k
    classes. The bags run through the grid ``repeats`` times; the prevalence of the first class
    rises slowest.

    Parameters
    ----------
    n_prevalences : int
        Grid values per class, at least 2.
    repeats : int
        Bags per grid point.
    max_bags : int
        The protocol refuses to draw more bags than this.

    See Also
    --------
    kdey.NPP : Bags drawn at random.
    kdey.evaluation.DirichletProtocol : Bags with prevalences of a Dirichlet distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from kdey.evaluation import GridAPP
    >>> protocol = GridAPP(n_prevalences=5, repeats=2, bag_size=20)
    >>> protocol.grid(2)[:, 0]
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    >>> len(protocol.bags(np.repeat(["a", "b"], 100)))
    10
    """

    n_prevalences: int = 21
    repeats: int = 10
    bag_size: int = 500
    random_state: int = 0
    replace: Replace = "auto"
    max_bags: int = 100_000

    def __post_init__(self) -> None:
        check_count(self.n_prevalences, "n_prevalences", least=2)
        check_count(self.repeats, "repeats")
        check_count(self.max_bags, "max_bags")
        check_draws(1, self.bag_size, self.random_state, self.replace)

    def grid(self, n_classes: int) -> Array:
        """Return the prevalences of the grid, shape (n_points, n_classes).

        Raises
        ------
        ValueError
            If there would be more than ``max_bags`` bags.
        """
        steps = self.n_prevalences - 1
        n_points = comb(steps + n_classes - 1, n_classes - 1)
        if n_points * self.repeats > self.max_bags:
            raise ValueError(
                f"n_prevalences={self.n_prevalences} with {n_classes} classes makes {n_points} "
                f"grid points, {n_points * self.repeats} bags with repeats={self.repeats}: more "
                f"than max_bags={self.max_bags}; use APP, which samples the simplex"
            )
        # Stars and bars: k - 1 bars among steps + k - 1 places divide the steps into k counts.
        places = combinations(range(steps + n_classes - 1), n_classes - 1)
        bars = np.array(list(places), dtype=np.int64).reshape(n_points, n_classes - 1)
        return (np.diff(bars, prepend=-1, append=steps + n_classes - 1) - 1) / steps

    def bags(self, y: ArrayLike, classes: ArrayLike | None = None) -> LabelledBags:
        """Return bags over the pool labelled ``y``, prevalences ordered as ``classes``."""
        grid = self.grid(len(encode_labels(y, classes)[1]))
        return _draw(
            self, self.repeats * len(grid), lambda k, bag, rng: grid[bag % len(grid)], y, classes
        )


@written_out(SHARED_PARAMETERS)
@dataclass(frozen=True)
class AtPrevalences:
    """Bags at prevalences that you name.

    Parameters
    ----------
    prevalences : array-like of shape (n, k) or (k,), mapping or sequence of mappings
        Wanted prevalences, columns in the order of the classes; or from classes to shares, where
        classes that are not named have none. Counts are rounded to the bag size, and the realised
        prevalences are recorded as true.
    repeats : int
        Bags per prevalence; the bags run through all prevalences ``repeats`` times.

    See Also
    --------
    kdey.APP : Bags with prevalences uniform on the simplex.
    kdey.evaluation.GridAPP : Bags over a grid of prevalences.

    Examples
    --------
    >>> import numpy as np
    >>> from kdey.evaluation import AtPrevalences
    >>> drawn = AtPrevalences([[0.9, 0.1], [0.5, 0.5]], bag_size=100).bags(np.repeat([0, 1], 500))
    >>> drawn.prevalences
    array([[0.9, 0.1],
           [0.5, 0.5]])
    """

    prevalences: ArrayLike | Mapping[Any, float] | Sequence[Mapping[Any, float]]
    repeats: int = 1
    bag_size: int = 500
    random_state: int = 0
    replace: Replace = "auto"

    def __post_init__(self) -> None:
        check_count(self.repeats, "repeats")
        check_draws(1, self.bag_size, self.random_state, self.replace)
        # Plain tuples, so that protocols can be compared, hashed and printed.
        named = _named_shares(self.prevalences)
        if named is not None:
            for pairs in named:
                check_posteriors(np.array([[share for _, share in pairs]]), name="prevalences")
            object.__setattr__(self, "prevalences", named)
            return
        checked = check_posteriors(np.atleast_2d(np.asarray(self.prevalences)), name="prevalences")
        object.__setattr__(self, "prevalences", tuple(map(tuple, checked.tolist())))

    def bags(self, y: ArrayLike, classes: ArrayLike | None = None) -> LabelledBags:
        """Return bags over the pool labelled ``y``, prevalences ordered as ``classes``."""
        named = _named_shares(self.prevalences)
        if named is None:
            rows = np.asarray(self.prevalences, dtype=np.float64)
        else:
            labels = np.unique(np.asarray(y)) if classes is None else np.asarray(classes)
            rows = np.array([_in_class_order(pairs, labels.tolist()) for pairs in named])

        def choose(n_classes: int, bag: int, rng: np.random.Generator) -> Array:
            if rows.shape[1] != n_classes:
                raise ValueError(
                    f"prevalences has {rows.shape[1]} columns, but there are {n_classes} classes"
                )
            return np.asarray(rows[bag % len(rows)])

        return _draw(self, self.repeats * len(rows), choose, y, classes)


def _named_shares(prevalences: Any) -> tuple[NamedShares, ...] | None:
    """Return prevalences as pairs of a class and its share; None if they are arrays."""
    rows = [prevalences] if isinstance(prevalences, Mapping) else prevalences
    if not isinstance(rows, Sequence) or not rows:
        return None
    if all(isinstance(row, Mapping) and row for row in rows):
        return tuple(tuple((label, float(share)) for label, share in row.items()) for row in rows)
    is_pair = isinstance(rows[0], tuple) and rows[0] and isinstance(rows[0][0], tuple)
    return cast("tuple[NamedShares, ...]", rows) if is_pair else None


def _in_class_order(pairs: NamedShares, classes: list[Any]) -> list[float]:
    """Return the shares of all classes, in their order."""
    shares = dict(pairs)
    strangers = [label for label in shares if label not in classes]
    if strangers:
        known = ", ".join(map(repr, classes[:6])) + (", ..." if len(classes) > 6 else "")
        raise ValueError(f"prevalences names {strangers[0]!r}, but the classes are {known}")
    return [shares.get(label, 0.0) for label in classes]


def _draw(
    protocol: _DrawnBags | GridAPP | AtPrevalences,
    n_bags: int,
    choose: Chooser,
    y: ArrayLike,
    classes: ArrayLike | None,
) -> LabelledBags:
    """Return bags at the prevalences that ``choose`` returns."""
    codes, known = encode_labels(y, classes)
    check_fits(protocol.bag_size, len(codes), protocol.replace)
    generators = list(bag_generators(protocol.random_state, n_bags))
    prevalences = [choose(len(known), bag, rng) for bag, rng in enumerate(generators)]
    counts = round_counts(np.stack(prevalences), protocol.bag_size)
    bags = draw_bags(codes, known, counts, protocol.replace, generators)
    return LabelledBags(bags, counts / protocol.bag_size, known)


@written_out(SHARED_PARAMETERS)
class NPP(_DrawnBags):
    """Natural prevalence protocol: bags of instances drawn uniformly from the whole pool.

    Prevalences scatter at random around that of the pool; the realised ones are recorded as true.

    Parameters
    ----------
    replace : "auto", True or False
        "auto" draws without replacement unless the bag is larger than the pool.

    See Also
    --------
    kdey.evaluation.DirichletProtocol : Bags with prevalences of a Dirichlet distribution.
    kdey.evaluation.AtPrevalences : Bags at prevalences of your choice.

    Examples
    --------
    >>> import numpy as np
    >>> from kdey import NPP
    >>> drawn = NPP(n_bags=200, bag_size=100, random_state=0).bags(np.repeat([0, 1], [900, 100]))
    >>> drawn.prevalences.mean(axis=0).round(1)
    array([0.9, 0.1])
    """

    def bags(self, y: ArrayLike, classes: ArrayLike | None = None) -> LabelledBags:
        """Return bags over the pool labelled ``y``, prevalences ordered as ``classes``."""
        codes, known = encode_labels(y, classes)
        check_fits(self.bag_size, len(codes), self.replace)
        # All instances are equally likely, as if they were of one class.
        alike, anything = np.zeros_like(codes), np.array(["any"])
        counts = np.full((self.n_bags, 1), self.bag_size, dtype=np.int64)
        generators = bag_generators(self.random_state, self.n_bags)
        bags = draw_bags(alike, anything, counts, self.replace, generators)
        return LabelledBags(bags, realised_prevalences(bags, codes, len(known)), known)


@dataclass(frozen=True, eq=False)
class GivenBags:
    """Bags with known prevalences, whose instances need no labels (as in the LeQua challenges).

    Parameters
    ----------
    given : Bags, sequence of index arrays, int array (n_bags, size) or sparse weight matrix
        Positions in the pool, in any form that :func:`kdey.bags.as_bags` accepts.
    prevalences : array-like or data frame of shape (n_bags, k)
        True prevalence of each bag, columns in the order of the classes; the columns of a data
        frame are matched with the classes by name.
    pool_size : int, optional
        Needed only for index arrays over a pool without labels.

    See Also
    --------
    kdey.Bags : Many bags over one pool.
    kdey.APP : Bags drawn at random.

    Examples
    --------
    >>> from kdey.evaluation import GivenBags
    >>> protocol = GivenBags([[0, 1], [2, 3, 4]], [[0.5, 0.5], [0.2, 0.8]], pool_size=5)
    >>> drawn = protocol.bags(classes=["a", "b"])
    >>> drawn.sizes
    array([2, 3])
    """

    given: BagsLike
    prevalences: ArrayLike
    pool_size: int | None = None

    def bags(self, y: ArrayLike | None = None, classes: ArrayLike | None = None) -> LabelledBags:
        """Return the bags with their prevalences.

        Parameters
        ----------
        y : array-like of shape (pool_size,), optional
            Labels of the pool, if known; they determine its size and the classes.
        classes : array-like of shape (k,), optional
            Names of the columns of ``prevalences``; by default the sorted labels of ``y``, or
            0, ..., k - 1 without labels.

        Returns
        -------
        LabelledBags

        Raises
        ------
        ValueError
            If bags, prevalences, classes and labels do not fit together.
        """
        labels = self._labels(y, classes)
        ordered = in_class_order(self.prevalences, labels, "prevalences")
        prevalences = np.asarray(check_posteriors(ordered, name="prevalences"), dtype=np.float64)
        known = np.arange(prevalences.shape[1]) if labels is None else labels
        if len(known) != prevalences.shape[1]:
            raise ValueError(
                f"prevalences has {prevalences.shape[1]} columns, but there are {len(known)} "
                "classes"
            )
        bags = as_bags(self.given, self._pool_size(y))
        if len(bags) != len(prevalences):
            raise ValueError(
                f"prevalences has {len(prevalences)} rows, but there are {len(bags)} bags"
            )
        return LabelledBags(bags, prevalences, known)

    def _labels(self, y: ArrayLike | None, classes: ArrayLike | None) -> Labels | None:
        """Return the classes; None if neither they nor labels are known."""
        if y is not None:
            return encode_labels(y, classes)[1]
        return None if classes is None else check_classes(classes)

    def _pool_size(self, y: ArrayLike | None) -> int:
        if y is not None:
            return len(np.asarray(for_numpy(y, "y")))
        if self.pool_size is not None:
            return self.pool_size
        if isinstance(self.given, Bags):
            return self.given.pool_size
        raise ValueError("pool_size is missing: bags over a pool without labels y need it")
