"""The work per instance on one pool, shared by the quantifiers that need the same of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdey.bags import Bags
from kdey.posteriors import Posteriors, predict_posteriors
from kdey.solvers.solution import Solution
from kdey.threads import thread_count

#: From bags over a pool to their solutions; the work per instance is behind it already.
BagSolver: TypeAlias = Callable[[Bags], Solution]


@dataclass(frozen=True, eq=False)
class PoolWork:
    """A pool, with the posteriors that classifiers gave it.

    Attributes
    ----------
    X : instances of the pool
    n_jobs : int, optional
        Native threads in the place of each quantifier's own ``n_jobs``.
    """

    X: Any
    n_jobs: int | None = None
    # The classifier is held beside its posteriors, so that its id stays its own.
    _posteriors: dict[Any, tuple[Any, Posteriors]] = field(default_factory=dict, repr=False)

    def posteriors(self, classifier: Any, classes: NDArray[Any]) -> Posteriors:
        """Return the posteriors of the pool, shape (m, k), computed once per classifier object."""
        key = (id(classifier), tuple(np.asarray(classes).tolist()))
        if key not in self._posteriors:
            made = predict_posteriors(classifier, self.X, classes, stay=True)
            self._posteriors[key] = (classifier, made)
        return self._posteriors[key][1]

    def n_threads(self, own: int | None) -> int:
        """Return the native threads of a quantifier whose own ``n_jobs`` is ``own``."""
        return thread_count(own if self.n_jobs is None else self.n_jobs)
