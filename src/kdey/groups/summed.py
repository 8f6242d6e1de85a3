"""Answers from sums: groups of which no more than a part is ever held."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdey.bags import Array, Indices
from kdey.groups.answers import GroupAnswers
from kdey.groups.settings import GroupSettings
from kdey.groups.solve import group_status
from kdey.sums import SummedEstimates


def check_summable(settings: GroupSettings) -> None:
    """Raise where sums cannot give what is asked for."""
    if settings.check_fit:
        raise ValueError(
            "check_fit needs all instances of a group at once: leave it out, or take the groups "
            "in question into memory"
        )


def summed_answers(
    quantifier: Any,
    made: SummedEstimates,
    n_groups: int,
    missing: Indices,
    settings: GroupSettings,
) -> GroupAnswers:
    """Return the answers of groups 0..n_groups - 1; those without an instance are "empty".

    Parameters
    ----------
    quantifier : fitted quantifier
    made : SummedEstimates
    n_groups : int
    missing : int64 array of shape (n_groups,)
        Instances of each group that were left out.
    settings : GroupSettings
    """
    k = len(quantifier.classes_)

    def everywhere(values: Array) -> Array:
        out = np.full((n_groups, k), np.nan)
        out[made.groups] = values
        return out

    sizes = np.zeros(n_groups, dtype=np.int64)
    sizes[made.groups] = made.sizes
    converged = np.ones(n_groups, dtype=np.bool_)
    converged[made.groups] = made.solution.converged
    unchecked = np.full(n_groups, np.nan)
    return GroupAnswers(
        classes=np.asarray(quantifier.classes_),
        sizes=sizes,
        missing=missing,
        estimate=everywhere(made.solution.prevalence),
        low=everywhere(made.low),
        high=everywhere(made.high),
        classify_and_count=everywhere(made.decisions),
        training_prevalence=np.asarray(quantifier.prevalence_),
        fit_p_value=unchecked,
        status=group_status(sizes, missing, unchecked, converged, settings),
    )
