"""Bags: multisets of instances of a pool, whose class prevalences are to be estimated.

A bag is stored as positions in a pool, with optional weights, and never as copies of the instances.
The work per instance is therefore done once per pool, however many bags there are.

:class:`SampledBags` are bags with what intervals need: weights that sum to one, the clusters in
which instances were drawn, and effective sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from kdey import native
from kdey.options import Options
from kdey.validation import check_weights, for_numpy, group_codes

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
#: Largest number of clusters whose sums are held.
MOST_CLUSTERS = 200
DEFAULTS = Options()


@dataclass(frozen=True, eq=False, init=False)
class Bags:
    """Many bags over one pool, in compressed form.

    ``Bags(index_arrays, pool_size=n)`` takes one array of positions per bag, as
    :meth:`from_indices` does. With ``offsets`` the arguments are the attributes below, which are
    checked when the bags are used.

    Attributes
    ----------
    indices : int64 array of shape (total,)
        Positions in the pool; bag b owns ``indices[offsets[b]:offsets[b + 1]]``.
    offsets : int64 array of shape (n_bags + 1,)
    pool_size : int
    weights : float64 array of shape (total,) or None
        Weight of each drawn instance; None means one each. Only ratios within a bag matter.

    See Also
    --------
    kdey.evaluation.GivenBags : Bags that are given with their prevalences.

    Examples
    --------
    >>> import numpy as np
    >>> from kdey import Bags
    >>> bags = Bags([[0, 1], [1, 2, 3]], pool_size=4)
    >>> len(bags)
    2
    >>> bags.mean(np.array([[0.0], [1.0], [2.0], [3.0]]))
    array([[0.5],
           [2. ]])
    """

    indices: Indices
    offsets: Indices
    pool_size: int
    weights: Array | None

    def __init__(
        self,
        indices: Iterable[ArrayLike] | Indices,
        offsets: Indices | None = None,
        pool_size: int | None = None,
        weights: Iterable[ArrayLike] | Array | None = None,
    ) -> None:
        if pool_size is None:
            raise TypeError(
                "Bags needs pool_size, the number of instances that positions refer to: "
                "Bags(index_arrays, pool_size=len(X)). Methods that take bags with X also take "
                "the list of index arrays itself"
            )
        values: tuple[Any, ...] = (indices, offsets, pool_size, weights)
        if offsets is None:
            bags = Bags.from_indices(indices, pool_size, weights)
            values = (bags.indices, bags.offsets, bags.pool_size, bags.weights)
        for name, value in zip(("indices", "offsets", "pool_size", "weights"), values, strict=True):
            object.__setattr__(self, name, value)  # the class is frozen

    @classmethod
    def whole(cls, pool_size: int, weights: ArrayLike | None = None) -> Bags:
        """Return the whole pool as one bag.

        Parameters
        ----------
        pool_size : int
            Number of instances, at least one.
        weights : array-like of shape (pool_size,), optional
            Weight of each instance; one each by default.
        """
        if pool_size == 0:
            raise ValueError("the bag is empty: a bag needs at least one instance")
        checked = None if weights is None else check_weights(weights, pool_size, may_vanish=True)
        offsets = np.array([0, pool_size], dtype=np.int64)
        return cls(np.arange(pool_size, dtype=np.int64), offsets, pool_size, checked)._check_mass()

    @classmethod
    def from_indices(
        cls,
        bags: Iterable[ArrayLike],
        pool_size: int,
        weights: Iterable[ArrayLike] | None = None,
    ) -> Bags:
        """Return bags from one array of pool positions per bag.

        Parameters
        ----------
        bags : iterable of int array-likes
            Pool positions of the instances of each bag; at least one bag, none of them empty.
        pool_size : int
        weights : iterable of array-likes, optional
            One array of weights per bag, each as long as the bag.
        """
        if not isinstance(bags, Iterable) or isinstance(bags, str | bytes | Mapping):
            raise TypeError(f"bags must be a sequence of index arrays, got {bags!r}")
        rows = [_check_indices(bag, pool_size, number) for number, bag in enumerate(bags)]
        if not rows:
            raise ValueError("bags is empty: at least one bag is needed")
        offsets = offsets_of([len(row) for row in rows])
        flat = None
        if weights is not None:
            parts = list(weights)
            if len(parts) != len(rows):
                raise ValueError(f"got weights for {len(parts)} bags, but {len(rows)} bags")
            flat = np.concatenate(
                [
                    check_weights(w, len(row), name="weights", may_vanish=True)
                    for w, row in zip(parts, rows, strict=True)
                ]
            )
        return cls(np.concatenate(rows), offsets, pool_size, flat)._check_mass()

    @classmethod
    def from_matrix(cls, weights: ArrayLike | sp.sparray | sp.spmatrix) -> Bags:
        """Return bags from a matrix of weights.

        Parameters
        ----------
        weights : array-like or sparse matrix of shape (n_bags, pool_size)
            An instance of weight zero is not in the bag.
        """
        values: Any = for_numpy(weights, "weights")
        if not sp.issparse(values):
            values = np.asarray(values)
        if values.dtype.kind not in "biuf" or values.ndim != 2:
            raise ValueError(
                "weights must be a matrix of numbers of shape (n_bags, pool_size), got "
                f"{values.dtype} of shape {values.shape}"
            )
        # A copy, because removing explicit zeros would change the caller's matrix.
        matrix = sp.csr_array(values, copy=True)
        matrix.eliminate_zeros()
        if matrix.shape[0] == 0:
            return cls.from_indices([], matrix.shape[1])
        splits = matrix.indptr[1:-1]
        return cls.from_indices(
            np.split(matrix.indices, splits), matrix.shape[1], np.split(matrix.data, splits)
        )

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Indices]:
        """Iterate over the pool positions of each bag."""
        for b in range(len(self)):
            yield self.indices[self.offsets[b] : self.offsets[b + 1]]

    def __getitem__(self, part: slice) -> Bags:
        """Return the bags of a contiguous slice, over the same pool."""
        if not isinstance(part, slice):
            raise TypeError(f"bags are taken by slices, got {part!r}; iterate to get single bags")
        start, stop, step = part.indices(len(self))
        if step != 1:
            raise ValueError("only contiguous slices of bags are supported")
        first, last = int(self.offsets[start]), int(self.offsets[max(start, stop)])
        weights = None if self.weights is None else self.weights[first:last]
        offsets = self.offsets[start : max(start, stop) + 1] - first
        return Bags(self.indices[first:last], offsets, self.pool_size, weights)

    @property
    def sizes(self) -> Indices:
        """Number of instances of each bag, shape (n_bags,)."""
        return np.diff(self.offsets)

    def runs(self, most: int) -> Iterator[slice]:
        """Cut the bags into runs of at most ``most`` instances, of at least one bag each."""
        start = 0
        while start < len(self):
            reach = self.offsets[start] + most
            stop = max(start + 1, int(np.searchsorted(self.offsets, reach, side="right")) - 1)
            yield slice(start, stop)
            start = stop

    def bag_weights(self, bag: int) -> Array:
        """Return the weights of one bag's instances, ones where none were given."""
        part = slice(int(self.offsets[bag]), int(self.offsets[bag + 1]))
        return np.ones(part.stop - part.start) if self.weights is None else self.weights[part]

    def matrix(self) -> sp.csr_array:
        """Return the averaging matrix of shape (n_bags, pool_size); its rows sum to one."""
        data = np.ones(len(self.indices)) if self.weights is None else self.weights
        total = np.add.reduceat(data, self.offsets[:-1])
        data = data / np.repeat(total, self.sizes)
        return sp.csr_array((data, self.indices, self.offsets), shape=(len(self), self.pool_size))

    def mean(self, rows: NDArray[np.floating]) -> Array:
        """Return the (weighted) mean row of each bag, shape (n_bags, r)."""
        if rows.ndim != 2 or len(rows) != self.pool_size or not self._suits_native:
            return np.asarray(self.checked().matrix() @ rows, dtype=np.float64)
        values = np.ascontiguousarray(rows, dtype=np.float64)
        means = np.empty((len(self), values.shape[1]))
        native.call(
            "kdey_bag_means",
            *(values, *values.shape, self.indices, self.offsets, self.weights, len(self), means),
        )
        return means

    @property
    def _suits_native(self) -> bool:
        """Whether the native core can read the arrays as they are; it checks positions itself."""
        indices, offsets, weights = self.indices, self.offsets, self.weights
        return (
            native.available()
            and _is_plain(indices, np.int64)
            and _is_plain(offsets, np.int64)
            and (weights is None or _is_plain(weights, np.float64))
            and len(offsets) > 0
            and bool(offsets[-1] == len(indices))
            and (weights is None or len(weights) == len(indices))
        )

    def checked(self) -> Bags:
        """Return the same bags, or raise if the arrays they were made from are not valid.

        The native core and sparse products do not check positions: a position outside the pool, or
        of another integer type, would read unrelated memory.
        """
        indices, offsets = _positions(self.indices, "indices"), _positions(self.offsets, "offsets")
        if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(indices):
            raise ValueError(f"offsets must go from 0 to the number of indices ({len(indices)})")
        if (np.diff(offsets) < 1).any():
            raise ValueError(f"bag {int(np.argmin(np.diff(offsets)))} is empty: offsets must rise")
        if len(indices) and not 0 <= indices.min() <= indices.max() < self.pool_size:
            raise ValueError(f"indices lie outside the pool of {self.pool_size} instances")
        weights = self.weights
        if weights is not None:
            weights = check_weights(weights, len(indices), name="weights", may_vanish=True)
        self._check_mass()
        same = indices is self.indices and offsets is self.offsets and weights is self.weights
        return self if same else Bags(indices, offsets, self.pool_size, weights)

    def _check_mass(self) -> Bags:
        if self.weights is not None:
            mass = np.add.reduceat(self.weights, self.offsets[:-1])
            if not (mass > 0).all():
                raise ValueError(f"the weights of bag {int(np.argmin(mass))} are all zero")
        return self


def _is_plain(values: NDArray[Any], dtype: type[np.generic]) -> bool:
    return values.dtype == dtype and values.flags.c_contiguous


def offsets_of(sizes: ArrayLike) -> Indices:
    """Return the start of each of n consecutive runs and the end of the last, shape (n + 1,)."""
    return np.concatenate([[0], np.cumsum(np.asarray(sizes))]).astype(np.int64)


BagsLike: TypeAlias = "Bags | Sequence[ArrayLike] | NDArray[np.integer] | sp.sparray | sp.spmatrix"


def as_bags(bags: BagsLike, pool_size: int) -> Bags:
    """Return ``bags`` as :class:`Bags` over a pool of ``pool_size`` instances.

    Parameters
    ----------
    bags : Bags, sequence of index arrays, int array (n_bags, size) or sparse weight matrix
        A sparse matrix of shape (n_bags, pool_size) holds weights; everything else holds positions.
    pool_size : int
    """
    if isinstance(bags, Bags):
        if bags.pool_size != pool_size:
            raise ValueError(
                f"bags were made for a pool of {bags.pool_size} instances, got {pool_size}"
            )
        return bags.checked()
    untyped: Any = bags
    if sp.issparse(bags):
        return as_bags(Bags.from_matrix(untyped), pool_size)
    return Bags.from_indices(untyped, pool_size)


def _positions(values: ArrayLike, name: str) -> Indices:
    array = np.asarray(for_numpy(values, name))
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be a vector of integers, got shape {array.shape}, dtype {array.dtype}"
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def _check_indices(bag: ArrayLike, pool_size: int, number: int) -> Indices:
    indices = np.asarray(for_numpy(bag, f"bag {number}"))
    if indices.ndim != 1:
        raise ValueError(f"bag {number} must be a vector of positions, got shape {indices.shape}")
    if len(indices) == 0:
        raise ValueError(f"bag {number} is empty: a bag needs at least one instance")
    if indices.dtype.kind not in "iu":
        raise ValueError(f"bag {number} must hold integer positions, got dtype {indices.dtype}")
    if indices.min() < 0 or indices.max() >= pool_size:
        raise ValueError(f"bag {number} has positions outside the pool of {pool_size} instances")
    return indices.astype(np.int64)


@dataclass(frozen=True, eq=False)
class SampledBag:
    """One bag over the rows of a pool, as it was sampled.

    Attributes
    ----------
    indices : int64 array of shape (m,)
        Positions in the pool of the instances with positive weight.
    weights : array of shape (m,)
        Weights that sum to one.
    clusters : int64 array of shape (m,) or None
        Number of the cluster, from 0, in which each instance was drawn.
    unseen : float
        Share of the population that is not in the bag; zero if the target is the bag itself.
    strata : int64 array of shape (m,) or None
        Number of the stratum, from 0, in which each instance was drawn.
    stratum_unseen : array of shape (H,) or None
        As ``unseen``, of each stratum; None if it is that of all.
    """

    indices: Indices
    weights: Array
    clusters: Indices | None
    unseen: float = 1.0
    strata: Indices | None = None
    stratum_unseen: Array | None = None

    @property
    def n_units(self) -> int:
        """Number of independently drawn units: instances, or clusters."""
        if self.clusters is None:
            return len(self.indices)
        return int(self.clusters.max()) + 1

    @cached_property
    def unit_strata(self) -> Indices:
        """Stratum of each unit, shape (n_units,); all zero without strata."""
        strata = np.zeros(self.n_units, dtype=np.int64)
        if self.strata is not None:
            strata[slice(None) if self.clusters is None else self.clusters] = self.strata
        return strata

    @cached_property
    def stratum_sizes(self) -> Indices:
        """Number of units of each stratum, shape (H,)."""
        return np.bincount(self.unit_strata)

    @property
    def freedom(self) -> float:
        """Units minus strata: degrees of freedom of a variance; inf without clusters and strata."""
        if self.clusters is None and self.strata is None:
            return np.inf
        return max(float(self.n_units - len(self.stratum_sizes)), 1.0)

    @property
    def is_lonely(self) -> bool:
        """Whether no stratum (or the whole bag) has two units, so that nothing shows a variance."""
        return self.n_units - len(self.stratum_sizes) < 1

    @property
    def replicate_weights(self) -> Array:
        """Weights of drawn instances: of n units of a stratum a bootstrap draws n - 1, (m,)."""
        if self.strata is None:
            return self.weights
        n = self.stratum_sizes
        return np.asarray(self.weights * (n / np.maximum(n - 1, 1))[self.strata])

    @cached_property
    def effective_size(self) -> float:
        """(sum w)^2 / sum w^2: the number of equally weighted instances with the same variance."""
        return float(1.0 / (self.weights @ self.weights))

    @property
    def is_simple(self) -> bool:
        """Whether instances were drawn one by one, each with the same weight."""
        plain = self.clusters is None and self.strata is None
        return plain and bool((self.weights == self.weights[0]).all())

    def linearised_variance(self, values: Array) -> Array:
        r"""Return the variance of a weighted mean by Taylor linearisation.

        With :math:`u_c` the sum of :math:`w_j (z_j - \bar z)` over the instances of unit c it is

        .. math:: \sum_h (1 - f_h) \frac{n_h}{n_h - 1} \sum_{c \in h} (u_c - \bar u_h)^2

        over the strata h with :math:`n_h` units, of which the population has :math:`n_h / f_h`. A
        stratum with a single unit has :math:`(1 - f_h) u_c^2`: it is compared with the mean of all.

        Parameters
        ----------
        values : array of shape (m, k)

        Returns
        -------
        array of shape (k,)
        """
        return self._variance(values, self.stratum_unseen)

    def _variance(self, values: Array, unseen: Array | None) -> Array:
        return self.variance_of_sum(
            (values - self.weights @ values) * self.weights[:, None], unseen
        )

    def variance_of_sum(self, addends: Array, unseen: Array | None = None) -> Array:
        """Return the variance of what instances add to an estimate, as of a mean above.

        Parameters
        ----------
        addends : array of shape (m, k)
            Each instance's part of the error: its weight times its deviation, where a mean is
            estimated. Instances that add nothing are units of the design all the same.
        unseen : array of shape (H,), optional
            Share of the population of each stratum that was not drawn; by default one.

        Returns
        -------
        array of shape (k,)
        """
        sums, strata, n = addends, self.unit_strata, self.stratum_sizes
        if self.clusters is not None:
            sums = _summed(sums, self.clusters, self.n_units)
        means = _summed(sums, strata, len(n)) / n[:, None]
        means[n == 1] = 0.0
        factors = n / np.maximum(n - 1, 1) * (1.0 if unseen is None else unseen)
        return np.asarray(factors[strata] @ (sums - means[strata]) ** 2)

    def design_effect(self, values: Array) -> Array:
        r"""Return the variance of a weighted mean relative to that of independent draws.

        The variance is :meth:`linearised_variance`, without the correction for finite populations.
        We compare it with that of as many independent draws as the effective size says, whose
        values are not related to their weights.

        Parameters
        ----------
        values : array of shape (m, k)

        Returns
        -------
        array of shape (k,)
            At least one, because few clusters, or few heavy instances, can show too little
            variance by chance. Strata may have less than one: at least what their instances would
            have as independent draws from each, and two per unit of a stratum.
        """
        m = len(values)
        if self.is_simple or self.is_lonely:
            return np.ones(values.shape[1])
        deviation = values - self.weights @ values
        drawn, least = self._variance(values, None), 1.0
        independent = self.weights @ deviation**2 / self.effective_size * m / (m - 1)
        # Values that agree up to rounding have no variance to compare.
        varies = independent > 1e-20 * (1.0 + self.weights @ values**2)
        if self.strata is not None:
            least = min(1.0, 2.0 * len(self.stratum_sizes) / self.n_units)
            drawn = np.maximum(drawn, replace(self, clusters=None)._variance(values, None))
        return np.maximum(np.where(varies, drawn / np.where(varies, independent, 1.0), 1.0), least)


def _summed(values: Array, owners: Indices, n: int) -> Array:
    """Return the sums of rows (m, k) by their owners, shape (n, k)."""
    sums = np.zeros((n, values.shape[1]))
    np.add.at(sums, owners, values)
    return sums


@dataclass(frozen=True, eq=False)
class SampledBags(Sequence[SampledBag]):
    """Every bag as it was sampled.

    Single bags are created on access; sizes are computed for all bags at once.

    Attributes
    ----------
    bags : Bags
    codes : int64 array of shape (pool_size,) or None
        Cluster of each instance of the pool.
    options : Options
        Their target and the size of the population.
    strata : int64 array of shape (pool_size,) or None
        Stratum of each instance of the pool.
    """

    bags: Bags
    codes: Indices | None
    options: Options = DEFAULTS
    strata: Indices | None = None

    def __len__(self) -> int:
        """Return the number of bags."""
        return len(self.bags)

    @overload
    def __getitem__(self, index: int) -> SampledBag: ...

    @overload
    def __getitem__(self, index: slice) -> SampledBags: ...

    def __getitem__(self, index: int | slice) -> SampledBag | SampledBags:
        """Return one bag, or those of a contiguous slice."""
        if isinstance(index, slice):
            return SampledBags(self.bags[index], self.codes, self.options, self.strata)
        return self._bag(range(len(self))[index])

    def _bag(self, number: int) -> SampledBag:
        first, last = self.bags.offsets[number : number + 2]
        indices, w = self.bags.indices[first:last], self.bags.bag_weights(number)
        if self.bags.weights is not None:
            indices, w = indices[w > 0], w[w > 0]
        unseen, clusters = float(self.unseen[number]), _consecutive(self.codes, indices)
        if self.strata is None:
            return SampledBag(indices, w / w.sum(), clusters, unseen)
        stratified = self._stratified[number]
        by_stratum = np.full(len(stratified.sizes), unseen)
        if stratified.unseen is not None and self.options.target != "bag":
            by_stratum = stratified.unseen
        strata = _consecutive(self.strata, indices)
        return SampledBag(indices, w / w.sum(), clusters, unseen, strata, by_stratum)

    @cached_property
    def _stratified(self) -> list[_Stratified]:
        """The strata of every bag."""
        assert self.strata is not None, "bags without strata have no units in them"
        found, edges = [], pairwise(self.bags.offsets.tolist())
        fpc = self.options.fpc
        by_row = fpc is not None and np.size(fpc) == self.bags.pool_size > 1
        for number, (start, stop) in enumerate(edges):
            w = self.bags.bag_weights(number)
            indices, w = self.bags.indices[start:stop][w > 0], w[w > 0]
            sizes = np.asarray(fpc, dtype=np.float64)[indices] if by_row else None
            found.append(_Stratified.of(self.strata[indices], self.codes, indices, w, sizes))
        return found

    @cached_property
    def sizes(self) -> Indices:
        """Number of instances with positive weight in each bag, shape (n_bags,)."""
        if self.bags.weights is None:
            return self.bags.sizes
        return np.add.reduceat(self.bags.weights > 0, self.bags.offsets[:-1], dtype=np.int64)

    @cached_property
    def effective_sizes(self) -> Array:
        """(sum w)^2 / sum w^2 of each bag, shape (n_bags,)."""
        w, starts = self.bags.weights, self.bags.offsets[:-1]
        if w is None:
            return self.bags.sizes.astype(np.float64)
        # Weights relative to the largest of their bag, so that squares do not overflow.
        w = w / np.repeat(np.maximum.reduceat(w, starts), self.bags.sizes)
        return np.asarray(np.add.reduceat(w, starts) ** 2 / np.add.reduceat(w * w, starts))

    @property
    def is_simple(self) -> bool:
        """Whether no instance has a weight or a cluster, so that no bag has a design effect."""
        return self.codes is None and self.bags.weights is None and self.strata is None

    @cached_property
    def n_units(self) -> Indices:
        """Number of independently drawn units in each bag, shape (n_bags,)."""
        if self.codes is None:
            return self.sizes
        edges = pairwise(self.bags.offsets.tolist())
        drawn = [
            self.codes[self.bags.indices[start:stop][self.bags.bag_weights(number) > 0]]
            for number, (start, stop) in enumerate(edges)
        ]
        return np.array([len(np.unique(codes)) for codes in drawn], dtype=np.int64)

    @cached_property
    def n_strata(self) -> Indices:
        """Number of strata in each bag, one without strata, shape (n_bags,)."""
        if self.strata is None:
            return np.ones(len(self), dtype=np.int64)
        return np.array([len(each.sizes) for each in self._stratified], dtype=np.int64)

    @property
    def freedom(self) -> Array:
        """Units minus strata of each bag, shape (n_bags,); inf without clusters and strata."""
        if self.codes is None and self.strata is None:
            return np.full(len(self), np.inf)
        freedom: Array = np.maximum(1.0 * self.n_units - self.n_strata, 1.0)
        return freedom

    @property
    def is_lonely(self) -> NDArray[np.bool_]:
        """Whether nothing in a bag shows a variance: no stratum has two units, shape (n_bags,)."""
        return np.asarray(self.n_units - self.n_strata < 1)

    @cached_property
    def unseen(self) -> Array:
        """Share of the population that is not in each bag, shape (n_bags,).

        It is zero if the target is the bag itself, and one if nothing is said of the population.
        """
        size = self.options.fpc
        if self.options.target == "bag" or size is None:
            return np.full(len(self), 1.0 if size is None and self.options.target != "bag" else 0.0)
        if isinstance(size, str):
            raise ValueError(
                f"fpc={size!r} names a column of a table, and this is a bag: give the number of "
                "units of the population, or the share of them that was drawn"
            )
        if self.strata is not None and np.size(size) == self.bags.pool_size > 1:
            parts = [each.total_unseen for each in self._stratified]
            return np.array(parts, dtype=np.float64)
        if np.size(size) not in (1, len(self)):
            raise ValueError(
                "fpc must be one number, or one for each bag; one for each instance goes with "
                f"variance_strata: got {np.size(size)} numbers and {len(self)} bag(s)"
            )
        given = np.broadcast_to(np.asarray(size, dtype=np.float64), len(self))
        return _unseen(given, self.n_units, "bag", "rows" if self.codes is None else "clusters")


def _unseen(given: Array, n_units: Indices, what: str, units: str) -> Array:
    """Return the share of populations that was not drawn, by their sizes or drawn shares."""
    drawn = np.where(given <= 1.0, given, n_units / np.maximum(given, 1.0))
    wrong = np.flatnonzero(drawn > 1.0 + 1e-9)
    if len(wrong):
        b = int(wrong[0])
        raise ValueError(
            f"fpc says that the population has {given[b]:g} {units}, but {what} {b} has "
            f"{n_units[b]}: give the size of the population that the {what} was drawn from"
        )
    return np.asarray(np.clip(1.0 - drawn, 0.0, 1.0))


def _consecutive(codes: Indices | None, indices: Indices) -> Indices | None:
    """Return the codes of some instances, numbered from zero without gaps, or None."""
    if codes is None:
        return None
    return np.unique(codes[indices], return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Stratified:
    """The strata of one bag.

    Attributes
    ----------
    sizes : int64 array of shape (H,)
        Number of units.
    shares : array of shape (H,)
        Of the weights.
    unseen : array of shape (H,) or None
        Share of the units of the population that were not drawn.
    """

    sizes: Indices
    shares: Array
    unseen: Array | None

    @classmethod
    def of(
        cls,
        strata: Indices,
        codes: Indices | None,
        indices: Indices,
        weights: Array,
        populations: Array | None,
    ) -> _Stratified:
        strata = np.unique(strata, return_inverse=True)[1]
        units = np.arange(len(indices)) if codes is None else codes[indices]
        pairs = np.unique(np.stack([units, strata]), axis=1)
        if len(np.unique(units)) < pairs.shape[1]:
            raise ValueError(
                "a cluster has rows in several strata, but clusters are drawn within strata: give "
                "clusters ids of their own in each stratum, or leave the strata out"
            )
        sizes = np.bincount(pairs[1]).astype(np.int64)
        shares = np.bincount(strata, weights=weights)
        if populations is None:
            return cls(sizes, shares / shares.sum(), None)
        given = np.empty(len(sizes))
        given[strata] = populations
        if not (given[strata] == populations).all():
            raise ValueError("fpc must have one value for all rows of a stratum")
        named = "rows" if codes is None else "clusters"
        return cls(sizes, shares / shares.sum(), _unseen(given, sizes, "stratum", named))

    @property
    def total_unseen(self) -> float:
        """The share of the variance that remains if the strata vary alike."""
        assert self.unseen is not None, "populations are given"
        parts = self.shares**2 / self.sizes
        return float(parts @ self.unseen / parts.sum())


def sampled_bags(
    bags: Bags, clusters: ArrayLike | None, options: Options = DEFAULTS
) -> SampledBags:
    """Return every bag with its weights and clusters.

    Parameters
    ----------
    bags : Bags
    clusters : array-like of shape (pool_size,) or None
        Id of the cluster in which each instance of the pool was drawn.
    options : Options
        Their target and the size of the population.

    Returns
    -------
    SampledBags

    Raises
    ------
    ValueError
        If ``clusters`` has another shape, missing ids, or ids that cannot be ordered.
    """
    for name in ("strata", "variance_strata"):
        given = getattr(options, name)
        if isinstance(given, str):
            raise ValueError(
                f"{name}={given!r} names a column of a table, and this is a bag: give "
                + (
                    "variance_strata, one id per instance"
                    if name == "variance_strata"
                    else "predict_groups a data frame with this column (by=() for one group); "
                    "variance_strata, one id per instance, decides the variance only"
                )
            )
    codes = None if clusters is None else cluster_codes(clusters, bags.pool_size)
    if options.variance_strata is None:
        return SampledBags(bags, codes, options)
    strata = cluster_codes(options.variance_strata, bags.pool_size, "variance_strata")
    return SampledBags(bags, codes, options, strata)


def cluster_codes(values: ArrayLike, pool_size: int, name: str = "clusters") -> Indices:
    """Return the number of each instance's cluster or stratum, from 0, shape (pool_size,)."""
    ids = np.asarray(for_numpy(values, name))
    if ids.shape != (pool_size,):
        raise ValueError(
            f"{name} must hold one id per instance, shape ({pool_size},), got {ids.shape}"
        )
    if ids.dtype.kind == "f" and not np.isfinite(ids).all():
        raise ValueError(f"{name} contains NaN or infinity: give every instance an id")
    if np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries: give every instance an id")
    return group_codes(ids, name)[1]


def joined_clusters(clusters: Indices) -> Indices:
    """Return numbers of clusters, of which many are joined at random to ``MOST_CLUSTERS``.

    Sums over independent clusters are independent sums, so that variances stay right.
    """
    names, codes = np.unique(clusters, return_inverse=True)
    if len(names) <= MOST_CLUSTERS:
        return np.asarray(codes, dtype=np.int64)
    numbers = np.random.default_rng(0).permutation(len(names)) % MOST_CLUSTERS
    return np.asarray(numbers[codes], dtype=np.int64)


def cluster_factors(shares: Array) -> Array:
    """Return by what sums of squares over clusters are too small, shape (k,).

    With the shares w_c of clusters in a mean, deviations from this mean have a sum of squares that
    is too small by 1 - 2 sum w^3 / sum w^2 + sum w^2 where the instances of a cluster are alike:
    1 - 1/C for C equal clusters.

    Parameters
    ----------
    shares : array of shape (n_clusters, k)
        They sum to one for each of the k means. The factor of a single cluster is one.
    """
    squares, cubes = (shares**2).sum(axis=0), (shares**3).sum(axis=0)
    left = 1.0 - 2.0 * cubes / squares + squares
    return np.where(left > 1e-6, 1.0 / np.maximum(left, 1e-6), 1.0)
