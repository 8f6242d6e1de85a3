r"""Stratified estimates: the prevalence of a population that was sampled stratum by stratum.

Every stratum is a bag of its own, with prevalence :math:`\alpha_h`. The prevalence of the
population is

.. math:: \alpha = \sum_h W_h \alpha_h

where W_h are the shares of the strata in the population: known ones, or those of the (weighted)
instances. Draws from different strata are independent, but all strata are estimated by the same
templates, whose errors add up:

.. math:: V = \sum_h W_h^2 (V_h - E_{hh}) + \sum_{g, h} W_g W_h E_{gh} + B

with V_h the covariance of stratum h and E_gh that of the template errors of two strata. B is the
part of estimated shares: the covariance of :math:`\sum_h \hat W_h \alpha_h`, zero for known
shares and where the target is the bag itself. Label shift is needed within each stratum only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from kdey.bags import Array, Indices
from kdey.intervals.estimate import Estimate
from kdey.intervals.merging import limits_of_sums
from kdey.intervals.region import (
    Region,
    Uncertainty,
    region_from_covariance,
    region_from_draws,
)
from kdey.model import Model


@dataclass(frozen=True, eq=False)
class StratifiedUncertainty(Uncertainty):
    """The uncertainty of a weighted sum of strata.

    Attributes
    ----------
    parts : sequence of Uncertainty
        Those of the strata.
    estimates : array of shape (H, k)
    shares : array of shape (H,)
        They sum to one.
    between : array of shape (k, k)
        The part B of estimated shares.
    seed : int
        Seed of the draws of B, where the strata have bootstrap draws.
    """

    parts: Sequence[Uncertainty]
    estimates: Array
    shares: Array
    between: Array
    seed: int = 0
    method: ClassVar[str] = "none"

    def __post_init__(self) -> None:
        methods = {part.method for part in self.parts if part.method != "none"}
        name = methods.pop() if len(methods) == 1 else "none"
        object.__setattr__(self, "method", name)  # the class is frozen

    @property
    def template_noise(self) -> bool:
        """Whether the limits include the uncertainty that a limited training set leaves."""
        return all(part.template_noise for part in self.parts)

    @property
    def shared_model(self) -> Model | None:
        """The fitted model that all strata share, or None."""
        return self.parts[0].shared_model

    def bootstrap_draws(self) -> Array | None:
        """Return bootstrap draws, shape (n_replicates, k), or None.

        The strata share the replicates of the training data draw by draw.
        """
        draws = [part.bootstrap_draws() for part in self.parts]
        known = [values for values in draws if values is not None]
        if len(known) < len(draws):
            return None
        total = np.tensordot(self.shares, np.array(known), axes=1)
        if self.between.any():
            rng = np.random.default_rng(self.seed)
            values, vectors = np.linalg.eigh(self.between)
            noise = rng.standard_normal(total.shape) * np.sqrt(np.maximum(values, 0.0))
            total = total + noise @ vectors.T
        return np.asarray(total)

    def centre(self) -> Array:
        """Return the estimate before it was moved into the simplex, shape (k,)."""
        centres = [part.centre() for part in self.parts]
        values = [
            estimate if centre is None else centre
            for estimate, centre in zip(self.estimates, centres, strict=True)
        ]
        return np.asarray(self.shares @ np.array(values))

    def freedom(self) -> float:
        """Return the degrees of freedom of the covariance (Satterthwaite)."""
        sizes = self.shares**2 * np.array([np.trace(v) for v in self._covariances()])
        degrees = np.array([part.freedom() for part in self.parts])
        total, uncertain = sizes.sum() + np.trace(self.between), (sizes**2 / degrees).sum()
        return float(max(total**2 / uncertain, 1.0)) if uncertain > 0 else np.inf

    @property
    def n_labels(self) -> float:
        """Number of labels of one random draw with the variance of those of all strata."""
        variance = float((self.shares**2 / [part.n_labels for part in self.parts]).sum())
        return 1.0 / variance if variance > 0 else np.inf

    def covariance(self) -> Array:
        """Return the covariance V of the formula at the top of this file, shape (k, k)."""
        total = self.between + np.tensordot(self.shares**2, self._covariances(), axes=1)
        errors = [part.template_errors() for part in self.parts]
        for h, first in enumerate(errors):
            for g, second in enumerate(errors[:h]):
                if first is not None and second is not None:
                    cross = self.shares[g] * self.shares[h] * first.covariance(second)
                    total = total + cross + cross.T
        return np.asarray(total)

    def _covariances(self) -> Array:
        """Return the covariances of the strata, shape (H, k, k)."""
        covariances = np.array([part.covariance() for part in self.parts])
        # Nothing is known about a stratum of one instance or cluster: every class has the largest
        # variance that a share can have.
        k = covariances.shape[1]
        unknown = ~np.isfinite(covariances).all(axis=(1, 2))
        covariances[unknown] = 0.25 * (np.eye(k) - 1.0 / k) * k / (k - 1)
        return covariances

    def region(self, confidence: float) -> Region:
        """Return the joint region of all classes."""
        draws = self.bootstrap_draws()
        if draws is not None:
            inside = np.clip(draws, 0.0, None)
            inside /= inside.sum(axis=1, keepdims=True)
            estimate = self.shares @ self.estimates
            return region_from_draws(estimate, inside, confidence, self.n_labels)
        return region_from_covariance(self.centre(), self.covariance(), self.freedom(), confidence)


def combine_strata(
    parts: Sequence[Estimate], shares: Array, between: Array | None = None, seed: int = 0
) -> Estimate:
    """Return the estimate of a population from those of its strata.

    Parameters
    ----------
    parts : sequence of H Estimate
        By one quantifier, with the same options.
    shares : array of shape (H,)
        Shares of the strata in the population, positive; they are scaled to sum to one.
    between : array of shape (k, k), optional
        Covariance that estimated shares add, as :func:`share_covariance` returns it.
    seed : int

    Returns
    -------
    Estimate
        Without the classifier's decisions.

    Raises
    ------
    ValueError
        If there is no stratum, or not one positive share for each.
    """
    w = np.asarray(shares, dtype=np.float64)
    if len(parts) == 0 or w.shape != (len(parts),) or not (np.isfinite(w) & (w > 0)).all():
        raise ValueError("strata need one positive share each")
    w = w / w.sum()
    estimates = np.array([part.estimate for part in parts])
    k = estimates.shape[1]
    extra = np.zeros((k, k)) if between is None else between
    uncertainty = StratifiedUncertainty(
        [part.uncertainty for part in parts], estimates, w, extra, seed
    )
    sizes = np.array([part.diagnostics["effective_size"] for part in parts])
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    marks = dict.fromkeys(m for part in parts for m in part.diagnostics.get("marks", ()))
    total = replace(
        parts[0],
        estimate=w @ estimates,
        size=sum(part.size for part in parts),
        gap=float(w @ [part.gap for part in parts]),
        converged=all(part.converged for part in parts),
        uncertainty=uncertainty,
        decisions=None,
        number=0,
        diagnostics={
            "effective_size": float(1.0 / (w**2 / sizes).sum()),
            "notes": list(notes),
            "marks": tuple(marks),
        },
    )
    low, high = limits_of_sums(total.estimate, uncertainty, total)
    return replace(
        total, low=np.minimum(low, total.estimate), high=np.maximum(high, total.estimate)
    )


def share_covariance(
    estimates: Array, strata: Indices, weights: Array, clusters: Indices | None = None
) -> Array:
    """Return the covariance that estimated shares of strata add, shape (k, k).

    Parameters
    ----------
    estimates : array of shape (H, k)
        Prevalences of the strata.
    strata : int array of shape (m,)
        Number of the stratum of each instance, from 0 to H - 1.
    weights : array of shape (m,)
    clusters : int array of shape (m,), optional
        Number of the cluster of each instance; without clusters every instance is drawn alone.

    Returns
    -------
    array of shape (k, k)
    """
    w = weights / weights.sum()
    influence = w[:, None] * (estimates[strata] - w @ estimates[strata])
    if clusters is not None:
        codes = np.unique(clusters, return_inverse=True)[1]
        sums = np.zeros((int(codes.max()) + 1, estimates.shape[1]))
        np.add.at(sums, codes, influence)
        influence = sums
    n = len(influence)
    return np.asarray(influence.T @ influence * n / max(n - 1, 1))
