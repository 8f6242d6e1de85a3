"""Posterior distributions of prevalences.

``sample_posterior`` works under the mixture likelihood of a fitted method, ``sample_error_rates``
with decisions of tests whose error rates are uncertain. ``shrink_groups`` and ``smooth_periods``
draw the prevalences of many groups or periods that have something in common.
"""

from kdey.bayes.draws import PosteriorDraws, effective_size, split_r_hat
from kdey.bayes.error_rates import ErrorRateDraws, ErrorRates, sample_error_rates
from kdey.bayes.gibbs import gibbs_sweeps
from kdey.bayes.hierarchy import GroupTree, HierarchyChain, hierarchy_sweeps
from kdey.bayes.pooled_draws import PooledDraws
from kdey.bayes.random_walk import PeriodTree, SmoothedPeriods, smooth_periods
from kdey.bayes.sample import SamplingWarning, sample_posterior, sample_rows
from kdey.bayes.shrinkage import ChainEffort, ShrunkGroups, shrink_groups
from kdey.bayes.template_draws import DensityMap, TemplateDraws

__all__ = [
    "ChainEffort",
    "DensityMap",
    "ErrorRateDraws",
    "ErrorRates",
    "GroupTree",
    "HierarchyChain",
    "PeriodTree",
    "PooledDraws",
    "PosteriorDraws",
    "SamplingWarning",
    "ShrunkGroups",
    "SmoothedPeriods",
    "TemplateDraws",
    "effective_size",
    "gibbs_sweeps",
    "hierarchy_sweeps",
    "sample_error_rates",
    "sample_posterior",
    "sample_rows",
    "shrink_groups",
    "smooth_periods",
    "split_r_hat",
]
