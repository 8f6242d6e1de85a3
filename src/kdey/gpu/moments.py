r"""The moment equation of a likelihood for many bags at once, on a device.

:mod:`kdey.intervals.moments` explains the equation. For bag b, with features

.. math:: \phi_{bi}(x) = \alpha_{bi} D_i(x) / \sum_l \alpha_{bl} D_l(x)

it needs their mean in the bag, their mean in every training class (T) and their covariance within
every class. The host makes a pass over the training rows for each bag; here the passes of many bags
are one product.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from kdey._support.device import as_tensor
from kdey.bags import Array, Bags, Indices
from kdey.gpu.bags import DeviceBags, in_tiles

#: Numbers (bags x training rows x classes) in memory at a time.
_NUMBERS = {"cuda": 1 << 27, "cpu": 1 << 21}


@dataclass(frozen=True, eq=False)
class SortedRows:
    """Training rows sorted by class.

    Attributes
    ----------
    rows : array of shape (n, k)
        Class densities.
    weights : array of shape (n,)
        Sum to one within each class.
    offsets : int64 array of shape (k + 1,)
    """

    rows: NDArray[np.floating]
    weights: NDArray[np.floating]
    offsets: Indices


@dataclass(frozen=True, eq=False)
class BatchMoments:
    """Moments of B bags.

    Attributes
    ----------
    matrices : array of shape (B, k, k)
        T of each bag: column l is the mean feature of class l.
    covariances : array of shape (B, k, k, k)
        Entry (b, l): covariance of the features within class l, not regularised.
    """

    matrices: Array
    covariances: Array


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
    device_bags = DeviceBags.of(bags, densities.device)
    alphas = as_tensor(prevalences, densities.device)
    out = np.empty(prevalences.shape)
    for run in device_bags.runs(densities.shape[1]):

        def work(start: int, stop: int, run: NDArray[np.int64] = run) -> None:
            selected = run[start:stop]
            positions, weights = device_bags.gather(selected)
            shares = weights / weights.sum(dim=1, keepdim=True)
            rows = densities[positions].double()
            alpha = alphas[as_tensor(selected, densities.device)]
            mixture = torch.bmm(rows, alpha[:, :, None])[:, :, 0]
            means = alpha * torch.bmm((shares / mixture)[:, None, :], rows)[:, 0]
            out[selected] = means.cpu().numpy()

        in_tiles(work, len(run), len(run))
    return out


def batch_moments(
    training: SortedRows, thin: SortedRows, prevalences: Array, device: torch.device
) -> BatchMoments:
    """Return the moments of bags.

    Parameters
    ----------
    training : SortedRows
        From which means are computed.
    thin : SortedRows
        Fewer of them, from which covariances are computed.
    prevalences : array of shape (B, k)
        To which the features of each bag are adapted.
    device : torch.device

    Returns
    -------
    BatchMoments
    """
    n_bags, k = prevalences.shape
    alphas = as_tensor(prevalences, device)
    means = _ClassProducts.of(training, device)
    spreads = _ClassProducts.of(thin, device)
    matrices, covariances = np.empty((n_bags, k, k)), np.empty((n_bags, k, k, k))

    def work(start: int, stop: int) -> None:
        alpha = alphas[start:stop]
        matrices[start:stop] = means.means(alpha).cpu().numpy()
        covariances[start:stop] = spreads.covariances(alpha).cpu().numpy()

    width = max(len(training.rows), len(thin.rows) * k)
    in_tiles(work, n_bags, max(1, _NUMBERS.get(device.type, 1 << 21) // width))
    return BatchMoments(matrices, covariances)


@dataclass(frozen=True, eq=False)
class _ClassProducts:
    """Training rows on a device, in float64."""

    rows: torch.Tensor
    weights: torch.Tensor
    runs: list[slice]

    @classmethod
    def of(cls, training: SortedRows, device: torch.device) -> _ClassProducts:
        runs = [slice(a, b) for a, b in pairwise(training.offsets.tolist())]
        return cls(
            as_tensor(training.rows, device).double(),
            as_tensor(training.weights, device).double(),
            runs,
        )

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
