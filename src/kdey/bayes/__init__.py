"""The posterior distribution of a prevalence under the mixture likelihood, by Gibbs sampling."""

from kdey.bayes.draws import PosteriorDraws, effective_size, split_r_hat
from kdey.bayes.gibbs import gibbs_sweeps
from kdey.bayes.sample import SamplingWarning, sample_posterior, sample_rows

__all__ = [
    "PosteriorDraws",
    "SamplingWarning",
    "effective_size",
    "gibbs_sweeps",
    "sample_posterior",
    "sample_rows",
    "split_r_hat",
]
