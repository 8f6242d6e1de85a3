"""The features of the moment equation of a likelihood: calibrated posteriors.

Any features give a valid moment equation, but not an equally sharp one. Those of a kernel density
fail with few labels: eight kernels send the other points of their class to the majority, and
leave-one-out rows of seven kernels are not those of eight. Calibrated posteriors have k + 1
parameters only, and are close to the efficient score of the bag's likelihood whichever method
estimates it. All likelihood methods on posteriors therefore share them.
"""

from __future__ import annotations

from kdey._display import muted
from kdey._numerics import Minimum
from kdey.bags import Array
from kdey.calibration import BCTS
from kdey.posteriors import TrainingPosteriors
from kdey.rows.posterior import RatioMap


class RegularisedBCTS(BCTS):
    """BCTS to labels of which one in all, spread over the classes, is taken to be wrong.

    Without it the scale grows without bound where the training posteriors separate the classes, and
    posteriors between those of training would depend on where the fit happened to stop.
    """

    def _minimise(self, p: Array, hot: Array, weights: Array) -> Minimum:
        effective_size = float(weights.sum() ** 2 / (weights**2).sum())
        wrong = 1.0 / (effective_size + 1.0)
        return super()._minimise(p, (1.0 - wrong) * hot + wrong / p.shape[1], weights)


def calibrated_map(training: TrainingPosteriors, n_classes: int) -> RatioMap:
    """Return the map from posteriors to calibrated posteriors over training prevalences.

    Parameters
    ----------
    training : TrainingPosteriors
    n_classes : int

    Returns
    -------
    RatioMap
        Its rows are proportional to the class densities.
    """
    with muted(UserWarning):  # any features are valid, those of an unfinished fit too
        return RatioMap(RegularisedBCTS()).fit(training, n_classes)
