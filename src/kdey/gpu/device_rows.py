r"""Rows and bags on a device.

Kernel rows are computed on the device, and so are those that are hardly more than the posteriors
(``RowMap.tensor_rows``: CC, PCC, ACC, PACC, EMQ). Rows of other likelihoods (DIR, EMQ with a
calibrator of your own) are cheap, so they are computed on the host and copied.

:class:`DeviceBags` gathers the rows of bags, in runs of similar size, and :func:`bag_means`
averages them. :func:`kernel_means` computes mean kernels between bags and points, which Monte Carlo
rows need; it is the device's version of :func:`kdey.kernels.kernel_means`, in float64:

.. math:: q_{bi} = \frac{1}{r_i} \sum_j w_{bj}
          \exp\left(-\frac{\|x_i - u_j\|^2}{2 h^2}\right), \qquad \sum_j w_{bj} = 1

:func:`batch_moments` makes the moment equation of a likelihood (:mod:`kdey.intervals.moments`
explains it) for many bags at once. For bag b, with features

.. math:: \phi_{bi}(x) = \alpha_{bi} D_i(x) / \sum_l \alpha_{bl} D_l(x)

it needs their mean in the bag, their mean in every training class (T) and their covariance within
every class. The host makes a pass over the training rows for each bag; here the passes of many bags
are one product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from kdey.bags import Array, Bags, Indices, offsets_of
from kdey.gpu.sums import DeviceReferences, in_tiles, log_sums_to
from kdey.rows import CompositeRows, RowMap, Rows
from kdey.rows.kernel import ClassReferences, PairwiseMap
from kdey.rows.monte_carlo import MonteCarloMap
from kdey.validation import as_tensor, on_host

#: Numbers (bags x longest bag x classes) in memory at a time.
_NUMBERS = {"cuda": 1 << 27, "cpu": 1 << 22}

#: Kernel values in memory at a time.
_TILE = {"cuda": 1 << 27, "cpu": 1 << 21}


@dataclass(frozen=True, eq=False)
class DeviceBags:
    """Bags over one pool, or over several that follow one another, as tensors on one device.

    Attributes
    ----------
    indices : int64 tensor
        Positions in the pool of each bag.
    starts, ends : int64 tensors of shape (n_bags,)
        Bag b has ``indices[starts[b]:ends[b]]``.
    shifts : int64 tensor of shape (n_bags,)
        Where the pool of each bag begins.
    weights : float64 tensor or None
        In the shape of ``indices``.
    sizes : int64 array of shape (n_bags,)
        On the host.
    """

    indices: torch.Tensor
    starts: torch.Tensor
    ends: torch.Tensor
    shifts: torch.Tensor
    weights: torch.Tensor | None
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, bags: Bags, device: torch.device) -> DeviceBags:
        """Return the bags with their positions and weights on ``device``."""
        return cls.over([bags], [0], device)

    @classmethod
    def over(
        cls, parts: Sequence[Bags], pool_starts: Sequence[int], device: torch.device
    ) -> DeviceBags:
        """Return the bags of several pools, one part after the other.

        Parameters
        ----------
        parts : sequence of Bags
            An object that occurs several times is copied to the device once.
        pool_starts : sequence of int
            Where the pool of each part begins.
        device : torch.device

        Returns
        -------
        DeviceBags
        """
        distinct = list({id(bags): bags for bags in parts}.values())
        slots = offsets_of([len(bags.indices) for bags in distinct])[:-1].tolist()
        first = {id(bags): slot for bags, slot in zip(distinct, slots, strict=True)}
        weights = None
        if any(bags.weights is not None for bags in distinct):
            each = (np.ones(len(b.indices)) if b.weights is None else b.weights for b in distinct)
            weights = _joined([as_tensor(values, device) for values in each])
        shifts = np.repeat(np.asarray(pool_starts, dtype=np.int64), [len(b) for b in parts])
        return cls(
            _joined([as_tensor(bags.indices, device) for bags in distinct]),
            as_tensor(np.concatenate([b.offsets[:-1] + first[id(b)] for b in parts]), device),
            as_tensor(np.concatenate([b.offsets[1:] + first[id(b)] for b in parts]), device),
            as_tensor(shifts, device),
            weights,
            np.concatenate([bags.sizes for bags in parts]),
        )

    def for_each(
        self,
        width: int,
        work: Callable[[NDArray[np.int64], torch.Tensor, torch.Tensor], None],
    ) -> None:
        """Call ``work(bags, positions, weights)`` for parts of the bags that fit the memory.

        Parameters
        ----------
        width : int
            Numbers per instance.
        work : callable
            ``bags`` are the numbers of some bags, ``positions`` and ``weights`` those of their
            instances, as :meth:`gather` returns them.
        """
        for run in self.runs(width):

            def tile(start: int, stop: int, run: NDArray[np.int64] = run) -> None:
                selected = run[start:stop]
                work(selected, *self.gather(selected))

            in_tiles(tile, len(run), len(run))

    def runs(self, width: int) -> Iterator[NDArray[np.int64]]:
        """Yield the numbers of bags that are processed together, with bounded memory.

        Bags are sorted by size, so that padding at most doubles a run. A run exceeds the bound only
        if a single bag does.

        Parameters
        ----------
        width : int
            Numbers per instance.

        Yields
        ------
        int64 array
        """
        order = np.argsort(self.sizes, kind="stable")
        sizes = self.sizes[order]
        limit = _NUMBERS.get(self.indices.device.type, 1 << 24) // width
        start = 0
        while start < len(order):
            longest = np.arange(1, len(order) - start + 1) * sizes[start:]
            stop = start + max(1, int(np.searchsorted(longest, limit, side="right")))
            twice = int(np.searchsorted(sizes, 2 * sizes[start], side="right"))
            stop = min(stop, max(twice, start + 1))
            yield order[start:stop]
            start = stop

    def gather(self, selected: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return positions and weights of the instances of some bags.

        Parameters
        ----------
        selected : int64 array of shape (B,)
            Numbers of the bags.

        Returns
        -------
        positions : int64 tensor of shape (B, n)
            Positions in the pool, or in all pools; n is the size of the largest bag.
        weights : float64 tensor of shape (B, n)
            Zero for the padding of smaller bags.
        """
        device = self.indices.device
        longest = int(self.sizes[selected].max())
        bags = as_tensor(selected, device)
        starts = self.starts[bags][:, None]
        slots = starts + torch.arange(longest, device=device)
        valid = slots < self.ends[bags][:, None]
        slots = torch.where(valid, slots, starts)
        weights = valid.double() if self.weights is None else self.weights[slots] * valid
        return self.indices[slots] + self.shifts[bags][:, None], weights


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    """Return vectors one after the other; a single one as it is."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _of_each_bag(
    values: torch.Tensor,
    bags: Bags,
    function: Callable[[Indices, torch.Tensor, torch.Tensor], torch.Tensor],
) -> Array:
    """Return ``function(bags, rows, shares)``, (B, r), for every bag, in parts that fit the memory.

    ``rows`` (B, n, r) are those of the instances of some bags in float64, and ``shares`` (B, n)
    their weights, which sum to one.
    """
    out = np.empty((len(bags), values.shape[1]))

    def work(selected: Indices, positions: torch.Tensor, weights: torch.Tensor) -> None:
        shares = weights / weights.sum(dim=1, keepdim=True)
        out[selected] = function(selected, values[positions].double(), shares).cpu().numpy()

    DeviceBags.of(bags, values.device).for_each(values.shape[1], work)
    return out


def bag_means(rows: torch.Tensor, bags: Bags) -> Array:
    """Return the mean row of each bag, (n_bags, r), on the host, for rows of shape (m, r)."""
    return _of_each_bag(
        rows, bags, lambda _, each, shares: torch.bmm(shares[:, None, :], each)[:, 0]
    )


def bag_log_means(logs: torch.Tensor, bags: Bags) -> Array:
    """Return the log of each bag's mean row, (n_bags, k), without underflow, from those of rows."""
    return _of_each_bag(
        logs, bags, lambda _, each, shares: (each + shares.log()[:, :, None]).logsumexp(dim=1)
    )


def kernel_means(
    points: torch.Tensor,
    log_scale: torch.Tensor,
    instances: torch.Tensor,
    bags: Bags,
    bandwidth: float,
) -> torch.Tensor:
    """Return the mean kernel of each bag at each point, divided by ``exp(log_scale)``.

    Parameters
    ----------
    points : tensor of shape (t, D)
    log_scale : tensor of shape (t,)
    instances : tensor of shape (m, D)
        Instances of the pool.
    bags : Bags
    bandwidth : float

    Returns
    -------
    tensor of shape (n_bags, t)
    """
    used, columns = np.unique(bags.indices, return_inverse=True)
    u = instances[as_tensor(used, instances.device)]
    centre = u.mean(dim=0)  # distances are more accurate with small norms
    u = u - centre
    norms = (u**2).sum(dim=1, keepdim=True)
    positions = as_tensor(columns.reshape(-1), u.device)
    offsets = as_tensor(bags.offsets[:-1], u.device)
    shares = as_tensor(bags.matrix().data, u.device)
    out = u.new_empty((len(bags), len(points)))
    factor = -0.5 / bandwidth**2

    def work(start: int, stop: int) -> None:
        x = points[start:stop] - centre
        last = factor * (x**2).sum(dim=1) - log_scale[start:stop]
        exponents = torch.addmm(last, u, x.T, alpha=-2.0 * factor).add_(factor * norms)
        # A bag is a weighted sum of rows, which is what torch calls an embedding bag.
        out[:, start:stop] = torch.nn.functional.embedding_bag(
            positions, exponents.exp_(), offsets, mode="sum", per_sample_weights=shares
        )

    in_tiles(work, len(points), _TILE.get(u.device.type, 1 << 22) // len(used))
    return out


@dataclass(frozen=True, eq=False)
class DeviceRows(Rows):
    """Rows on a device.

    Attributes
    ----------
    values : tensor of shape (m, r)
        What the problem needs of each instance: for mixtures, and for kernels between densities,
        logarithms of non-negative numbers (-inf for zero); for a divergence at drawn points the
        instances in the geometry of the kernel; for all others rows whose means are matched.
    """

    values: torch.Tensor

    @property
    def on_device(self) -> bool:
        """True."""
        return True

    def __len__(self) -> int:
        """Return the number of instances m."""
        return len(self.values)

    def mean(self, bags: Bags) -> Array:
        """Return the mean row of each bag, shape (n_bags, r), in float64 on the host."""
        return bag_means(self.values, bags)

    def each(self) -> Array:
        """Return the row of every instance on the host, shape (m, r)."""
        return np.asarray(on_host(self.values.double()))


def device_rows(
    maps: Sequence[RowMap],
    points: Any,
    device: torch.device,
    *,
    log_rows: bool = True,
    averaged: bool = False,
) -> list[Rows]:
    """Return the rows of points under maps of one family, in one pass over the distances.

    Parameters
    ----------
    maps : sequence of RowMap
        Kernel maps that differ only in bandwidth, or a single map of any kind.
    points : array or tensor of shape (m, k)
    device : torch.device
    log_rows : bool
        Whether rows without a kernel are logarithms.
    averaged : bool
        Whether nothing but mean rows is needed.

    Returns
    -------
    list of Rows
        One for each map.
    """
    first = maps[0]
    if first.is_composite:
        parts = [
            device_rows([part], points, device, log_rows=log_rows, averaged=averaged)[0]
            for part in first.members
        ]
        return [CompositeRows(tuple(parts))]
    if isinstance(first, PairwiseMap):
        widths = [cast(PairwiseMap, row_map).kernel_width() for row_map in maps]
        return _kernel_rows(first.references, points, widths, device)
    if isinstance(first, MonteCarloMap):
        x = coordinates(first.references, as_tensor(points, device).double())
        return [DeviceRows(x) for _ in maps]
    tensor_rows = first.tensor_rows
    if tensor_rows is not None:
        rows = tensor_rows(as_tensor(points, device))
    else:
        rows = as_tensor(first(on_host(points)).each(), device)
    return [DeviceRows(rows if log_rows or averaged else rows.log())]


def _kernel_rows(
    refs: ClassReferences, points: Any, widths: Sequence[float], device: torch.device
) -> list[Rows]:
    """Return the log densities of kernels of several bandwidths."""
    x = coordinates(refs, as_tensor(points, device))
    # As the host packs its references once per fit, so they are copied to a device once.
    there = refs.derived(
        f"on {device}",
        lambda: DeviceReferences.of(np.asarray(refs.points), refs.offsets, refs.weights, device),
    )
    sums = log_sums_to(there, x, widths, precision=refs.spec.precision)
    sums -= as_tensor(refs.log_mass, device).to(sums.dtype)
    return [DeviceRows(logs) for logs in sums]


def coordinates(refs: ClassReferences, posteriors: torch.Tensor) -> torch.Tensor:
    """Return posteriors (m, k) in the geometry of the kernel, as ``transform`` on the host."""
    if refs.spec.kernel == "gaussian":
        return posteriors
    k, s = posteriors.shape[1], float(refs.spec.shrinkage)
    mixed = (1.0 - s) * posteriors.double() + s / k
    if not bool(mixed.amin() > 0):
        refs.coordinates(on_host(posteriors))  # raises with the message of the host
    logs = mixed.log()
    return logs - logs.mean(dim=1, keepdim=True)


#: Numbers (bags x training rows x classes) in memory at a time.
_MOMENTS = {"cuda": 1 << 27, "cpu": 1 << 21}


def adapted_bag_means(densities: torch.Tensor, bags: Bags, prevalences: Array) -> Array:
    """Return the mean feature of each bag, shape (n_bags, k).

    Parameters
    ----------
    densities : tensor of shape (m, k)
        Class densities of the instances of the pool, up to a factor per row.
    bags : Bags
    prevalences : array of shape (n_bags, k)
        To which the features of each bag are adapted.

    Returns
    -------
    array of shape (n_bags, k)
    """
    alphas = as_tensor(prevalences, densities.device)

    def adapted(selected: Indices, rows: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        alpha = alphas[as_tensor(selected, densities.device)]
        mixture = torch.bmm(rows, alpha[:, :, None])[:, :, 0]
        return alpha * torch.bmm((shares / mixture)[:, None, :], rows)[:, 0]

    return _of_each_bag(densities, bags, adapted)


@dataclass(frozen=True, eq=False)
class ClassTensors:
    """Training rows of the classes on a device, in float64.

    Attributes
    ----------
    rows : tensor of shape (n, k)
        Class densities, sorted by class.
    weights : tensor of shape (n,)
        Sum to one within each class.
    runs : list of slice
        The rows of each class.
    """

    rows: torch.Tensor
    weights: torch.Tensor
    runs: list[slice]

    @classmethod
    def of(
        cls,
        rows: NDArray[np.floating],
        weights: NDArray[np.floating],
        offsets: Indices,
        device: torch.device,
    ) -> ClassTensors:
        """Return rows on a device; class i owns those from ``offsets[i]`` to ``offsets[i + 1]``."""
        runs = [slice(a, b) for a, b in pairwise(offsets.tolist())]
        return cls(as_tensor(rows, device).double(), as_tensor(weights, device).double(), runs)

    def means(self, alphas: torch.Tensor) -> torch.Tensor:
        """Return T of each bag, shape (B, k, k)."""
        scaled = self.weights / (alphas @ self.rows.T)  # (B, n)
        columns = [scaled[:, run] @ self.rows[run] for run in self.runs]
        return torch.stack(columns, dim=2) * alphas[:, :, None]

    def covariances(self, alphas: torch.Tensor) -> torch.Tensor:
        """Return the covariances of the features within classes, shape (B, k, k, k)."""
        features = self.rows[None] * alphas[:, None, :]
        features = features / features.sum(dim=2, keepdim=True)  # (B, n, k)
        out = []
        for run in self.runs:
            part, w = features[:, run], self.weights[run]
            centred = part - (w @ part)[:, None, :]
            out.append(torch.bmm((centred * w[:, None]).transpose(1, 2), centred))
        return torch.stack(out, dim=1)


def batch_moments(
    training: ClassTensors, thin: ClassTensors, prevalences: Array
) -> tuple[Array, Array]:
    """Return the moments of B bags.

    Parameters
    ----------
    training : ClassTensors
        From which means are computed.
    thin : ClassTensors
        Fewer of them, from which covariances are computed.
    prevalences : array of shape (B, k)
        To which the features of each bag are adapted.

    Returns
    -------
    matrices : array of shape (B, k, k)
        T of each bag: column l is the mean feature of class l.
    covariances : array of shape (B, k, k, k)
        Entry (b, l): covariance of the features within class l, not regularised.
    """
    n_bags, k = prevalences.shape
    device = training.rows.device
    alphas = as_tensor(prevalences, device)
    matrices, covariances = np.empty((n_bags, k, k)), np.empty((n_bags, k, k, k))

    def work(start: int, stop: int) -> None:
        alpha = alphas[start:stop]
        matrices[start:stop] = training.means(alpha).cpu().numpy()
        covariances[start:stop] = thin.covariances(alpha).cpu().numpy()

    width = max(len(training.rows), len(thin.rows) * k)
    in_tiles(work, n_bags, max(1, _MOMENTS.get(device.type, 1 << 21) // width))
    return matrices, covariances
