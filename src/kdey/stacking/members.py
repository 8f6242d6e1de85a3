r"""Members of a pool: a classifier with a likelihood method, as a distribution over the classes.

A likelihood method turns the posteriors of a classifier into densities :math:`D_i(x)` of the
classes. With the training prevalence :math:`\pi` they give a predictive distribution,

.. math:: p(i | x) = \frac{\pi_i D_i(x)}{\sum_l \pi_l D_l(x)},

which is comparable between methods: recalibrated posteriors (EMQ with BCTS) and kernel densities
(KDEy-ML) become numbers of the same kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kdey._support.warnings import muted
from kdey.calibration import SeparableWarning
from kdey.posteriors import TrainingPosteriors
from kdey.rows.interface import Array, RowMap, RowSpec
from kdey.rows.references import BandwidthWarning
from kdey.simplex import row_sums

#: Smallest probability of a class in a predictive distribution. A member that is certain and wrong
#: then costs the pool a bounded amount.
FLOOR = 1e-9


@dataclass(frozen=True)
class MemberMethod:
    """A likelihood method, as it takes part in a pool.

    Attributes
    ----------
    name : str
    rows : RowSpec
    log_rows : bool
        Whether the rows are logarithms of densities.
    has_kernel : bool
        Whether the densities are averages over kernels, which need many labels per class.
    """

    name: str
    rows: RowSpec
    log_rows: bool
    has_kernel: bool = False


@dataclass(frozen=True, eq=False)
class FittedMember:
    """A member fitted to the training posteriors of its classifier.

    Attributes
    ----------
    classifier : str
        Name of the classifier, or of the set of scores.
    method : str
    row_map : RowMap
        From posteriors of the classifier to densities.
    log_rows : bool
    prevalence : array of shape (k,)
        Training prevalence.
    """

    classifier: str
    method: str
    row_map: RowMap
    log_rows: bool
    prevalence: Array

    @property
    def name(self) -> str:
        """The member in words."""
        return f"{self.method} on {self.classifier}"

    @property
    def kernels(self) -> tuple[int, ...]:
        """Positions of the members of a composite row map that are averages over kernels."""
        parts = self.row_map.members
        return tuple(i for i, part in enumerate(parts) if part.class_references() is not None)

    def keep(self, positions: Sequence[int]) -> FittedMember:
        """Return the member with some members of its composite row map."""
        return replace(self, row_map=self.row_map.keep_members(positions))

    def posteriors(self, posteriors: NDArray[np.floating], n_threads: int = 1) -> Array:
        """Return the predictive distributions of new instances, both of shape (m, k).

        Parameters
        ----------
        posteriors : array of shape (m, k)
            Posteriors by the member's classifier.
        n_threads : int
        """
        rows = self.row_map(posteriors, n_threads)
        return self._average([part.each() for part in rows.members])

    def training_posteriors(self, training: TrainingPosteriors, n_threads: int = 1) -> Array:
        """Return the predictive distributions of the training instances as if new, shape (n, k).

        The posteriors come from models that have not seen the instances, and a kernel density
        leaves out the kernel of the instance itself.

        Parameters
        ----------
        training : TrainingPosteriors
            Those that the member was fitted to.
        n_threads : int
        """
        picks = np.arange(len(training.labels))
        return self._average(
            [part.new_rows(training, picks, n_threads) for part in self.row_map.members]
        )

    def _average(self, rows: Sequence[NDArray[np.floating]]) -> Array:
        """Return the average over the members of a composite row map (several kernels)."""
        parts = [predictive(part, self.prevalence, self.log_rows) for part in rows]
        if len(parts) == 1:
            return parts[0]
        return np.asarray(sum(w * p for w, p in zip(self.row_map.shares, parts, strict=True)))


def fit_member(
    classifier: str,
    method: MemberMethod,
    training: TrainingPosteriors,
    n_classes: int,
    n_threads: int = 1,
) -> FittedMember:
    """Return a member fitted to the training posteriors of its classifier.

    Parameters
    ----------
    classifier : str
    method : MemberMethod
    training : TrainingPosteriors
    n_classes : int
    n_threads : int
    """
    # An odd kernel costs a member its weight; the user has chosen no bandwidth to be warned about.
    with muted(BandwidthWarning, SeparableWarning):
        spec = method.rows.settle(training, n_classes, n_threads)[1]
        row_map = spec.fit(training, n_classes, n_threads)
    prevalence = np.bincount(training.labels, weights=training.weights, minlength=n_classes)
    return FittedMember(
        classifier, method.name, row_map, method.log_rows, prevalence / prevalence.sum()
    )


def predictive(rows: NDArray[np.floating], prevalence: Array, log_rows: bool) -> Array:
    """Return the predictive distributions that follow from densities, shape (m, k).

    A row without any positive density says nothing and gives the prevalence.

    Parameters
    ----------
    rows : array of shape (m, k)
        Densities, or their logarithms, on any scale per row.
    prevalence : array of shape (k,)
    log_rows : bool
    """
    values = np.asarray(rows, dtype=np.float64)
    if log_rows:
        largest = values.max(axis=1, keepdims=True)
        values = np.exp(values - np.where(np.isfinite(largest), largest, 0.0))
    joint = values * prevalence
    silent = ~values.any(axis=1)
    if silent.any():
        joint[silent] = prevalence
    # Rows are scaled before the floor, so nothing underflows.
    joint /= row_sums(joint)
    np.maximum(joint, FLOOR, out=joint)
    joint /= row_sums(joint)
    return joint
