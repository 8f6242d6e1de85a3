r"""Class densities of instances under redrawn training data.

Templates are learnt from a limited number of training instances. All groups of a table share their
error, so it does not average out over groups. A *template draw* is the Bayesian bootstrap: training
instances get weights from the exponential distribution, and the rows are fitted again.

The rows are calibrated posteriors divided by their mean (``kdey.intervals.features``), whichever
method estimates the groups one by one: the likelihoods of kernel densities count too much for the
limits of many small groups (coverage 0.81 instead of 0.95 in a prototype).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Array, Indices
from kdey.fitted import FittedQuantifier, fitted_stages
from kdey.intervals.features import calibrated_map
from kdey.intervals.model import FittedModel, densities
from kdey.rows.interface import RowMap

#: Rows that are made at once; bounds the memory of what lies between posteriors and rows.
_CHUNK = 1 << 17


@dataclass(frozen=True, eq=False)
class DensityMap:
    """From posteriors to class densities, for one draw of the templates.

    Attributes
    ----------
    row_map : RowMap
    logs : bool
        Whether its rows are logarithms.
    """

    row_map: RowMap
    logs: bool

    def __call__(self, posteriors: NDArray[np.floating], positions: Indices | None = None) -> Array:
        """Return the densities of posteriors at some positions (by default all), shape (m, k).

        They are relative to the largest of each row.
        """
        size = len(posteriors) if positions is None else len(positions)
        k = self.row_map.templates.shape[1] or posteriors.shape[1]
        out = np.empty((size, k))
        for start in range(0, size, _CHUNK):
            stop = min(start + _CHUNK, size)
            part = posteriors[slice(start, stop) if positions is None else positions[start:stop]]
            rows = self.row_map(np.asarray(part, dtype=np.float64)).each()
            out[start:stop] = densities(rows, self.logs)
        return out


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
            return DensityMap(calibrated_map(drawn, model.n_classes), logs=False)
        # Scores of several models, which the rows pool and calibrate.
        assert model.row_spec is not None, "what is learnt has a spec"
        row_map = model.row_spec.fit(drawn, model.n_classes, model.n_threads)
        return DensityMap(row_map, logs=False)
