"""Posterior distributions of prevalences.

``sample_posterior`` works under the mixture likelihood of a fitted method, ``sample_error_rates``
with decisions of tests whose error rates are uncertain. ``pooling`` and ``random_walk`` draw the
prevalences of many groups or periods that have something in common, and ``each_group`` has
intervals that hold for each group; they are beneath ``shrink`` and ``smooth`` of
:func:`kdey.predict_groups`.
"""

from kdey.bayes.chains import SamplingWarning
from kdey.bayes.error_rates import ErrorRateDraws, ErrorRates, sample_error_rates
from kdey.bayes.sampling import PosteriorDraws, sample_posterior

__all__ = [
    "ErrorRateDraws",
    "ErrorRates",
    "PosteriorDraws",
    "SamplingWarning",
    "sample_error_rates",
    "sample_posterior",
]
