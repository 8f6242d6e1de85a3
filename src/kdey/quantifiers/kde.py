"""KDEy: kernel densities of the posteriors on the simplex, matched four ways.

All four share the model of the paper: the density of class i is a Gaussian at each training
posterior of class i (``kdey.rows.references``), a bag is a mixture of the class densities, and the
prevalence is the mixture that matches the bag best.
"""

from __future__ import annotations

from typing import Any

from kdey.kernels import DEFAULT_SHRINKAGE
from kdey.matching import (
    MatchCauchySchwarz,
    MatchDivergence,
    Matching,
    MatchSquares,
    MaximiseLikelihood,
)
from kdey.quantifiers.rowwise import AggregativeQuantifier
from kdey.rows.density import DensityRows
from kdey.rows.monte_carlo import MonteCarloSpec
from kdey.rows.overlap import OverlapSpec
from kdey.rows.references import KernelSpec


class KDEy(AggregativeQuantifier):
    """Base of the KDEy methods.

    Parameters
    ----------
    bandwidth : float or {"scott", "silverman"}
        The Gaussian's standard deviation, or a rule of thumb; the fitted number is
        ``row_map_.references.bandwidth``.
    kernel : {"gaussian", "aitchison", "ilr"}
        A Gaussian on the posteriors themselves, or on their log-ratios; "ilr" gives the same
        numbers as "aitchison".
    shrinkage : float
        For log-ratios: posteriors become (1 - s) p + s / k first.
    precision : {"mixed", "double"}
        Of the kernel sums; see :func:`kdey.kernels.class_log_sums`.
    classifier, cv, random_state, n_jobs
        See :class:`~kdey.quantifiers.rowwise.AggregativeQuantifier`.
    """

    def __init__(
        self,
        classifier: Any = None,
        *,
        bandwidth: float | str = 0.1,
        kernel: str = "gaussian",
        shrinkage: float = DEFAULT_SHRINKAGE,
        precision: str = "mixed",
        cv: Any = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(classifier, cv=cv, random_state=random_state, n_jobs=n_jobs)
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.shrinkage = shrinkage
        self.precision = precision

    def _kernel_spec(self) -> KernelSpec:
        return KernelSpec(self.bandwidth, self.kernel, self.shrinkage, self.precision)


class KDEyML(KDEy):
    r"""KDEy by maximum likelihood (the paper's KDEy-ML).

    .. math:: \max_{\alpha \in \Delta} \sum_j \log \sum_i \alpha_i p_i(x_j)

    Convex; solved to a certified gap of 1e-8 in the mean log-likelihood. Parameters are those of
    :class:`KDEy`.
    """

    def _row_spec(self) -> DensityRows:
        return DensityRows(self._kernel_spec())

    def _matching(self) -> Matching:
        return MaximiseLikelihood()


class KDEyCS(KDEy):
    r"""KDEy by Cauchy-Schwarz divergence, in closed form (the paper's KDEy-CS).

    .. math:: \min_{\alpha \in \Delta} -\log a^\top \alpha + \tfrac12 \log \alpha^\top B \alpha

    with a and B the overlaps of the class densities with the bag's and with each other. The
    divergence does not depend on the length of alpha, so its global optimum is a non-negative
    least squares problem, solved exactly. Parameters are those of :class:`KDEy`.
    """

    def _row_spec(self) -> OverlapSpec:
        return OverlapSpec(self._kernel_spec())

    def _matching(self) -> Matching:
        return MatchCauchySchwarz()


class KDEyL2(KDEy):
    r"""KDEy by integrated squared error between the densities, in closed form.

    .. math:: \min_{\alpha \in \Delta} \tfrac12 \alpha^\top B \alpha - a^\top \alpha

    with the overlaps a and B of :class:`KDEyCS`. Parameters are those of :class:`KDEy`.
    """

    def _row_spec(self) -> OverlapSpec:
        return OverlapSpec(self._kernel_spec())

    def _matching(self) -> Matching:
        return MatchSquares()


class KDEyHD(KDEy):
    r"""KDEy by Monte Carlo f-divergence with importance sampling (the paper's KDEy-HD).

    .. math:: \min_{\alpha \in \Delta} \frac1t \sum_{i=1}^t
              \varphi\left(\frac{p_\alpha(x_i)}{r(x_i)}, \frac{q(x_i)}{r(x_i)}\right)

    at t points drawn at ``fit`` from the uniform mixture r of the class densities.

    Parameters
    ----------
    divergence : str
        An f-divergence by name; "hellinger" (squared) is the paper's.
    n_points : int
        Number t of reference points.
    bandwidth, kernel, shrinkage, precision, classifier, cv, random_state, n_jobs
        See :class:`KDEy`; ``random_state`` also draws the points.
    """

    _draws_at_fit = True

    def __init__(
        self,
        classifier: Any = None,
        *,
        divergence: str = "hellinger",
        n_points: int = 10_000,
        bandwidth: float | str = 0.1,
        kernel: str = "gaussian",
        shrinkage: float = DEFAULT_SHRINKAGE,
        precision: str = "mixed",
        cv: Any = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            classifier,
            bandwidth=bandwidth,
            kernel=kernel,
            shrinkage=shrinkage,
            precision=precision,
            cv=cv,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.divergence = divergence
        self.n_points = n_points

    def _row_spec(self) -> MonteCarloSpec:
        return MonteCarloSpec(self._kernel_spec(), self.n_points, self.random_state)

    def _matching(self) -> Matching:
        return MatchDivergence(self.divergence)
