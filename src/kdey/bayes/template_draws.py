r"""Class densities of instances under redrawn training data.

Templates are learnt from a limited number of training instances. All groups of a table share their
error, so it does not average out over groups. A *template draw* is the Bayesian bootstrap: training
instances get weights from the exponential distribution, and the rows are fitted again.

The rows are calibrated posteriors divided by their mean (``kdey.intervals.features``), whichever
method estimates the groups one by one: the likelihoods of kernel densities count too much for the
limits of many small groups (coverage 0.81 instead of 0.95 in a prototype). Calibrated posteriors
are not exact densities either, which matters where many groups together know their mean well:
:meth:`DensityMap.discrepancy` says by how much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kdey._support.warnings import muted
from kdey.bags import Array, Indices
from kdey.fitted import FittedQuantifier, fitted_stages
from kdey.intervals.features import calibrated_map
from kdey.intervals.model import FittedModel, densities
from kdey.rows.interface import RowMap
from kdey.simplex import project

#: Rows that are made at once; bounds the memory of what lies between posteriors and rows.
_CHUNK = 1 << 17
#: Relative size below which singular values of class means count as zero: classes that can hardly
#: be told apart say nothing about the discrepancy of their densities.
_RCOND = 1e-3


@dataclass(frozen=True, eq=False)
class DensityMap:
    """From posteriors to class densities, for one draw of the templates.

    Attributes
    ----------
    row_map : RowMap
    logs : bool
        Whether its rows are logarithms.
    training : array of shape (n, k) or None
        Densities of the training instances as if they were new; None where nothing was learnt.
    weights : array of shape (n, k) or None
        Weight of each training instance in the mean of each class; columns sum to one.
    """

    row_map: RowMap
    logs: bool
    training: Array | None = None
    weights: Array | None = None

    def __call__(self, posteriors: NDArray[np.floating], positions: Indices | None = None) -> Array:
        """Return the densities of posteriors at some positions (by default all), shape (m, k).

        They are relative to the largest of each row.
        """
        size = len(posteriors) if positions is None else len(positions)
        parts = []
        for start in range(0, size, _CHUNK):
            part = slice(start, min(start + _CHUNK, size))
            points = posteriors[part if positions is None else positions[part]]
            rows = self.row_map(np.asarray(points, dtype=np.float64)).each()
            parts.append(densities(rows, self.logs))
        return np.concatenate(parts)

    def discrepancy(self, mean: Array) -> Array:
        r"""Return how far a mean prevalence may be off because the densities are not exact, (k,).

        Where the densities are those of the classes, the mean class probabilities
        :math:`r_i(x) = \alpha_i D_i(x) / \sum_l \alpha_l D_l(x)` of a population with prevalence
        :math:`\alpha` are :math:`\alpha` itself. Otherwise a likelihood that settles at
        :math:`\alpha` comes from the prevalence that solves :math:`M \alpha^* = \alpha`, where
        :math:`M_{il}` is the mean of :math:`r_i` in training class l. We return
        :math:`\alpha^* - \alpha`, with :math:`\alpha^*` projected onto the simplex.
        """
        if self.training is None or self.weights is None:
            return np.zeros_like(mean)
        joint = self.training * mean
        totals = joint.sum(axis=1, keepdims=True)
        memberships = joint / np.where(totals > 0, totals, 1.0)
        solved = np.linalg.lstsq(memberships.T @ self.weights, mean, rcond=_RCOND)[0]
        return np.asarray(project(solved[None])[0] - mean)


@dataclass(frozen=True, eq=False)
class TemplateDraws:
    """Draws of the templates of a fitted quantifier.

    Attributes
    ----------
    model : FittedModel
    """

    model: FittedModel

    @classmethod
    def of(cls, quantifier: FittedQuantifier) -> TemplateDraws:
        """Return the draws of a quantifier on posteriors.

        Raises
        ------
        TypeError
            If it works on features, or has neither training posteriors nor a likelihood.
        """
        model = fitted_stages(quantifier)
        if not model.is_learnt and model.likelihood is None:
            raise TypeError(
                f"{type(quantifier).__name__} keeps no training posteriors, from which class "
                "densities could be learnt: use a method that does (Quantifier, KDEyML, PACC, EMQ "
                "with calibration)"
            )
        return cls(model)

    @property
    def varies(self) -> bool:
        """Whether draws differ; otherwise nothing was learnt and there is one set of rows."""
        return self.model.is_learnt

    def draw(self, seed: np.random.SeedSequence) -> DensityMap:
        """Return the map of one draw."""
        model = self.model
        if not model.is_learnt:
            assert model.likelihood is not None, "of() has asked for one or the other"
            return DensityMap(model.row_map.members[0], model.likelihood.log_rows)
        training = model.training
        assert training is not None, "it was learnt from something"
        weights = np.random.default_rng(seed).standard_exponential(len(training.labels))
        if training.weights is not None:
            weights *= training.weights
        drawn = replace(training, weights=weights)
        if training.required().shape[1] == model.n_classes:
            row_map: RowMap = calibrated_map(drawn, model.n_classes)
        else:  # scores of several models, which the rows pool and calibrate
            assert model.row_spec is not None, "what is learnt has a spec"
            with muted(UserWarning):  # the fit of the quantifier has said what there is to say
                row_map = model.row_spec.fit(drawn, model.n_classes, model.n_threads)
        rows = row_map.new_rows(drawn, np.arange(len(weights)), model.n_threads)
        shares = np.zeros((len(weights), model.n_classes))
        shares[np.arange(len(weights)), training.labels] = weights
        shares /= shares.sum(axis=0)
        return DensityMap(row_map, False, densities(rows, logs=False), shares)
