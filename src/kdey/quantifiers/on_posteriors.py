"""Quantifiers that can be asked with posteriors instead of instances.

:class:`PosteriorsMixin` has the methods that people with scores of their own use: ``aggregate``,
``aggregate_bags``, ``estimate_posteriors`` and, for services, ``aggregator``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.arrays import on_host
from kdey.bags import Array, Bags, BagsLike
from kdey.intervals import Estimate, Estimates, estimate_solver
from kdey.labelled import Labelled, LabelledEstimate, estimate_labelled
from kdey.matching.base import OneBag, Solution
from kdey.options import Options
from kdey.quantifiers.aggregator import Aggregator
from kdey.quantifiers.base import BaseQuantifier, checked_bags, refuse_selection
from kdey.simplex import check_posteriors


class PosteriorsMixin(BaseQuantifier):
    """Methods that compute prevalences from posteriors, without a classifier."""

    @property
    def takes_posteriors(self) -> bool:
        """True: these quantifiers work on posteriors."""
        return True

    def _solve_posteriors(self, posteriors: NDArray[np.floating], bags: Bags) -> Solution:
        raise NotImplementedError

    def solve_posteriors(
        self,
        posteriors: ArrayLike,
        bags: BagsLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Solution:
        """As :meth:`BaseQuantifier.solve`, from the posteriors of the pool, shape (m, k)."""
        self._check_fitted()
        p = self._checked_posteriors(posteriors)
        return self._solve_posteriors(p, checked_bags(bags, len(p), sample_weight))

    def _checked_posteriors(self, posteriors: Any) -> Any:
        """Return posteriors in the form that is solved: an array, or a tensor on the device."""
        return self._score_matrix(posteriors)

    def _score_matrix(self, posteriors: Any) -> NDArray[np.floating]:
        """Return the posteriors of a bag as a checked array, shape (m, k)."""
        return check_posteriors(posteriors, classes=self.classes_)

    def aggregate(self, posteriors: ArrayLike, sample_weight: ArrayLike | None = None) -> Array:
        """As :meth:`BaseQuantifier.predict`, from the posteriors of the bag, shape (m, k)."""
        self._check_fitted()
        one_bag = self.one_bag() if sample_weight is None else None
        answer = None if one_bag is None else one_bag(posteriors)
        if answer is not None:
            return answer
        prevalence: Array = self.solve_posteriors(posteriors, None, sample_weight).prevalence[0]
        return prevalence

    def aggregator(self) -> Aggregator:
        """Return a callable for many single bags: ``aggregator(posteriors)`` as ``aggregate``.

        What can be prepared is prepared, and float arrays are checked in one pass, so that a bag of
        a few instances takes tens of microseconds; numbers and refusals are the same.
        """
        self._check_fitted()
        return Aggregator(self)

    def one_bag(self) -> OneBag | None:
        """Return a faster way to the same answer for one bag on the host; None if there is none."""
        return None

    def prepare(self) -> None:
        """Compute what the first answer would otherwise wait for."""

    def aggregate_bags(self, posteriors: ArrayLike, bags: BagsLike) -> Array:
        """As :meth:`BaseQuantifier.predict_bags`, from the posteriors of the pool, shape (m, k)."""
        return self.solve_posteriors(posteriors, bags).prevalence

    def estimate_posteriors(
        self,
        posteriors: ArrayLike,
        bags: BagsLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        clusters: ArrayLike | None = None,
        confidence: float = 0.95,
        target: str = "population",
        method: str = "auto",
        check_fit: bool = True,
        labelled: Labelled | None = None,
        selection: ArrayLike | None = None,
        believe: str = "prediction-powered",
        merge: Mapping[Any, Any] | None = None,
        **options: Any,
    ) -> Estimate | Estimates:
        """As :meth:`BaseQuantifier.estimate`, from posteriors of shape (m, k).

        Without ``bags`` all of them are one bag, and one estimate is returned; with ``bags`` as
        :meth:`BaseQuantifier.estimate_bags`, where ``labelled`` is refused.
        """
        interval_options = Options.of(
            confidence=confidence,
            target=target,
            method=method,
            selection=selection,
            believe=believe,
            **options,
        )
        self._check_fitted()
        points = self._checked_posteriors(posteriors)
        p = on_host(points)
        if labelled is not None:
            if bags is not None:
                raise ValueError("labelled is for a single bag, not for bags over a pool")
            return self._labelled_from(
                p, labelled, merge, sample_weight, clusters, interval_options, check_fit
            )
        refuse_selection(selection)
        checked = checked_bags(bags, len(p), sample_weight)
        estimates = self._estimates_from(points, checked, interval_options, clusters)
        if check_fit:
            from kdey.diagnostics import with_fit_checks  # slow to import

            estimates = with_fit_checks(self, estimates, p, checked)
        estimates = estimates if merge is None else estimates.merge(merge)
        return estimates[0] if bags is None else estimates

    def _labelled_from(
        self,
        posteriors: NDArray[np.floating],
        labelled: Labelled,
        merge: Mapping[Any, Any] | None,
        sample_weight: ArrayLike | None,
        clusters: ArrayLike | None,
        options: Options,
        check_fit: bool,
    ) -> LabelledEstimate:
        model = self._labelled_model()
        result = estimate_labelled(
            model,
            posteriors,
            labelled,
            options,
            sample_weight=sample_weight,
            clusters=clusters,
            merge=merge,
        )
        if not check_fit:
            return result
        from kdey.diagnostics import fit_details  # slow to import

        bags = Bags.whole(len(posteriors), sample_weight)
        details = fit_details(self, posteriors, bags, seed=options.random_state)
        return result.with_diagnostics(details[0])

    def _estimates_from(
        self,
        posteriors: NDArray[np.floating],
        bags: Bags,
        options: Options,
        clusters: ArrayLike | None,
    ) -> Estimates:
        solve = partial(self._solve_posteriors, posteriors)
        return estimate_solver(solve, self.classes_, self.prevalence_, bags, options, clusters)
