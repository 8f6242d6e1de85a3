"""Posterior distributions of a prevalence by Gibbs sampling.

``sample_posterior`` works under the mixture likelihood of a fitted method, ``sample_error_rates``
with decisions of tests whose error rates are uncertain.
"""

from kdey.bayes.draws import PosteriorDraws, effective_size, split_r_hat
from kdey.bayes.error_rates import ErrorRateDraws, ErrorRates, sample_error_rates
from kdey.bayes.gibbs import gibbs_sweeps
from kdey.bayes.sample import SamplingWarning, sample_posterior, sample_rows

__all__ = [
    "ErrorRateDraws",
    "ErrorRates",
    "PosteriorDraws",
    "SamplingWarning",
    "effective_size",
    "gibbs_sweeps",
    "sample_error_rates",
    "sample_posterior",
    "sample_rows",
    "split_r_hat",
]
