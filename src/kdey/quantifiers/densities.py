"""Methods that compare densities of the classes: KDEy in four ways, EMQ and DIR.

All four KDEy have the model of the paper: the density of class i is the mean of Gaussians at the
training posteriors of class i (``kdey.rows.kernel``), a bag is a mixture of the class
densities, and the estimate is the mixture that matches the bag best. EMQ and DIR are likelihood
methods without kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kdey.kernels import DEFAULT_SHRINKAGE, KERNELS, RULES, Precision
from kdey.matching import AnyMatching, AverageOf
from kdey.matching.divergence import MatchDivergence
from kdey.matching.likelihood import ExpectationMaximisation, MaximiseLikelihood
from kdey.matching.squares import MatchCauchySchwarz, MatchSquares
from kdey.quantifiers import AggregativeQuantifier, TunedQuantifier
from kdey.rows import RowSpec
from kdey.rows.kernel import (
    ClassReferences,
    KernelDensityMap,
    KernelMap,
    KernelSpec,
    OverlapMap,
    class_references,
)
from kdey.rows.monte_carlo import MonteCarloMap
from kdey.rows.posterior import DirichletMap, RatioMap
from kdey.tuning import AutomaticKernel, Geometry
from kdey.validation import check_choice, check_count

#: Geometries whose estimates are averaged by default. Each costs a pass over the training
#: posteriors at every prediction, and more than two lower the error by 1 to 2 % (decision 0023).
_AVERAGED = 2
#: Shrinkages tried with log-ratios.
_SHRINKAGES = (1e-5, 1e-3, 1e-2, 5e-2)


class KDEy(TunedQuantifier, AggregativeQuantifier):
    """Base of the KDEy methods.

    With ``bandwidth="auto"`` the bandwidth, and with ``kernel="auto"`` the geometry too, are chosen
    at ``fit`` by the error on bags drawn from held-out parts of the training posteriors, without
    a further classifier fit (``docs/lab/automatic.md``). The paper's setting is
    ``bandwidth=0.1, kernel="gaussian"``.

    Parameters
    ----------
    bandwidth : "auto", float or {"scott", "silverman"}
        Standard deviation of the Gaussian: chosen at ``fit``, a number, or a rule of thumb.
    kernel : {"auto", "gaussian", "aitchison", "ilr"}
        A Gaussian on the posteriors themselves, or on their log-ratios; "ilr" gives the same
        numbers as "aitchison". "auto" tries both; with a bandwidth that is not "auto" it means
        "gaussian", since a bandwidth is a length in one geometry.
    shrinkage : "auto" or float
        For log-ratios: posteriors become (1 - s) p + s / k first. "auto" is chosen along with an
        automatic bandwidth, and 0.001 without.
    average : bool or int
        With bandwidth and kernel "auto": average the estimates of the two best geometries, each at
        its best bandwidth and weighted by how well it did. A number averages at most so many (there
        are five), and False keeps the best geometry alone.
    precision : {"mixed", "double"}
        Precision of the kernel sums; see :func:`kdey.kernels.class_log_sums`.
    random_state : int, RandomState or None
        Seed of the shuffling of folds and of all other random draws; the automatic choice is
        reproducible even if it is None.

    Attributes
    ----------
    bandwidth_, kernel_, shrinkage_ : float, str and float
        The values in use; those of the heaviest of several geometries.
    tuning_ : :class:`~kdey.tuning.Tuning` or None
        What was tried; None if nothing was chosen automatically.
    """

    bandwidth: float | str = "auto"
    kernel: str = "auto"
    shrinkage: float | str = "auto"
    average: bool | int = True
    precision: Precision = "mixed"
    device: Any = "cpu"

    _chosen_at_fit = "bandwidth"

    @property
    def _most_members(self) -> int:
        """The largest number of geometries to average."""
        if isinstance(self.average, bool | np.bool_):
            most = _AVERAGED if self.average else 1
        else:
            most = max(check_count(self.average, "average", least=0), 1)
        return most if self._tunes and self.kernel == "auto" else 1

    def _method(self, kernel: KernelSpec) -> tuple[KernelMap, AnyMatching]:
        """Return the rows of the method for one kernel, and their matching."""
        raise NotImplementedError

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        plan = self._plan()  # with a fixed bandwidth too: an invalid tune_for is always refused
        rows, matching = self._method(self._kernel_spec())
        if not self._tunes:
            return rows
        free = _geometries(self.kernel, self.shrinkage)
        return AutomaticKernel(rows, free, matching, plan, self._most_members)

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        _, matching = self._method(self._kernel_spec())
        return AverageOf(matching) if self._most_members > 1 else matching

    def _kernel_spec(self) -> KernelSpec:
        """Return the kernel for the parameters, with placeholders for those to be chosen."""
        if not isinstance(self.kernel, str) or self.kernel not in ("auto", *KERNELS):
            names = ", ".join(("auto", *KERNELS))
            raise ValueError(f"kernel must be one of {names}, got {self.kernel!r}")
        if isinstance(self.bandwidth, str) and self.bandwidth not in ("auto", *RULES):
            names = ", ".join(("auto", *RULES))
            raise ValueError(
                f"bandwidth must be a number or one of {names}, got {self.bandwidth!r}"
            )
        kernel = "gaussian" if self.kernel == "auto" else self.kernel
        automatic = isinstance(self.shrinkage, str) and self.shrinkage == "auto"
        shrinkage: Any = DEFAULT_SHRINKAGE if automatic else self.shrinkage
        return KernelSpec(1.0 if self._tunes else self.bandwidth, kernel, shrinkage, self.precision)

    @property
    def bandwidth_(self) -> float:
        """The bandwidth in use; that of the heaviest of several geometries."""
        return self._references().bandwidth

    @property
    def kernel_(self) -> str:
        """The kernel in use."""
        return self._references().spec.kernel

    @property
    def shrinkage_(self) -> float:
        """The shrinkage in use."""
        return self._references().spec.shrinkage

    def _references(self) -> ClassReferences:
        references = class_references(self.model_.row_map)
        assert references is not None, "every KDEy method has a kernel"
        return references


def _geometries(kernel: str, shrinkage: float | str) -> tuple[Geometry, ...]:
    """Return the candidate geometries for the parameters; "auto" means all of them."""
    amounts = _SHRINKAGES if shrinkage == "auto" else (float(shrinkage),)
    plain = (("gaussian", DEFAULT_SHRINKAGE),)
    if kernel == "gaussian":
        return plain
    name = "aitchison" if kernel == "auto" else kernel
    ratios = tuple((name, amount) for amount in amounts)
    return plain + ratios if kernel == "auto" else ratios


class KDEyML(KDEy):
    r"""KDEy by maximum likelihood (the paper's KDEy-ML).

    .. math:: \max_{\alpha \in \Delta} \sum_j \log \sum_i \alpha_i p_i(x_j)

    Convex; solved to a certified gap of 1e-8 in the mean log-likelihood.

    See Also
    --------
    kdey.KDEyHD : Kernel densities by Hellinger distance.
    kdey.KDEyCS : Kernel densities by Cauchy-Schwarz divergence.
    kdey.Quantifier : Several classifiers and methods combined; the default choice.

    References
    ----------
    Moreo, A., González, P. and del Coz, J. J. (2025). Kernel density estimation for multiclass
    quantification. Machine Learning, 114, 92. arXiv:2401.00490.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> from kdey import KDEyML
    >>> X, y = load_iris(return_X_y=True)
    >>> q = KDEyML(ExtraTreesClassifier(random_state=0), random_state=0).fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    >>> estimate = q.estimate(X_bag, confidence=0.95)
    >>> bool(estimate.low[2] == 0.0)
    True
    """

    def _method(self, kernel: KernelSpec) -> tuple[KernelMap, AnyMatching]:
        return KernelDensityMap(kernel), MaximiseLikelihood()


class KDEyCS(KDEy):
    r"""KDEy by Cauchy-Schwarz divergence, in closed form (the paper's KDEy-CS).

    .. math:: \min_{\alpha \in \Delta} -\log a^\top \alpha + \tfrac12 \log \alpha^\top B \alpha

    with a and B the overlaps of the class densities with the bag's and with each other. The
    divergence does not depend on the length of alpha, so its global optimum is a non-negative
    least squares problem, solved exactly.

    See Also
    --------
    kdey.KDEyL2 : Kernel densities by squared distance.
    kdey.KDEyML : Kernel densities by maximum likelihood.

    References
    ----------
    Moreo, A., González, P. and del Coz, J. J. (2025). Kernel density estimation for multiclass
    quantification. Machine Learning, 114, 92. arXiv:2401.00490.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import KDEyCS
    >>> X, y = load_iris(return_X_y=True)
    >>> q = KDEyCS(bandwidth=0.1).fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    def _method(self, kernel: KernelSpec) -> tuple[KernelMap, AnyMatching]:
        return OverlapMap(kernel), MatchCauchySchwarz()


class KDEyL2(KDEy):
    r"""KDEy by integrated squared error between the densities, in closed form.

    .. math:: \min_{\alpha \in \Delta} \tfrac12 \alpha^\top B \alpha - a^\top \alpha

    with the overlaps a and B of :class:`KDEyCS`.

    See Also
    --------
    kdey.KDEyML : Kernel densities by maximum likelihood.
    kdey.KDEyHD : Kernel densities by Hellinger distance.

    References
    ----------
    Moreo, A., González, P. and del Coz, J. J. (2025). Kernel density estimation for multiclass
    quantification. Machine Learning, 114, 92. arXiv:2401.00490.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import KDEyL2
    >>> X, y = load_iris(return_X_y=True)
    >>> q = KDEyL2(bandwidth=0.1).fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    def _method(self, kernel: KernelSpec) -> tuple[KernelMap, AnyMatching]:
        return OverlapMap(kernel), MatchSquares()


class KDEyHD(KDEy):
    r"""KDEy by Monte Carlo f-divergence with importance sampling (the paper's KDEy-HD).

    .. math:: \min_{\alpha \in \Delta} \frac1t \sum_{i=1}^t
              \varphi\left(\frac{p_\alpha(x_i)}{r(x_i)}, \frac{q(x_i)}{r(x_i)}\right)

    at t points drawn at ``fit`` from the uniform mixture r of the class densities.

    Parameters
    ----------
    divergence : str
        An f-divergence by name; "hellinger" (squared) is the paper's.
    n_points : "auto" or int
        Number t of reference points. "auto" takes 500 per class, at least 2,000 and at most 10,000.
    sampling : {"auto", "quasi-random", "plain"}
        How the points are drawn: spread evenly over the densities, which needs fewer of them, or
        independently. "auto" spreads an automatic number of points, and draws a given number
        independently. The paper's setting is ``n_points=10_000``.
    random_state : int, RandomState or None
        Seed of the points, of the shuffling of folds and of all other random draws.

    See Also
    --------
    kdey.KDEyCS : Kernel densities by Cauchy-Schwarz divergence.
    kdey.KDEyL2 : Kernel densities by squared distance.

    Notes
    -----
    The divergence "reverse-kl" is always solved on the host.

    References
    ----------
    Moreo, A., González, P. and del Coz, J. J. (2025). Kernel density estimation for multiclass
    quantification. Machine Learning, 114, 92. arXiv:2401.00490.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import KDEyHD
    >>> X, y = load_iris(return_X_y=True)
    >>> q = KDEyHD(bandwidth=0.1, n_points=1000, random_state=0).fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    divergence: str = "hellinger"
    n_points: int | str = "auto"
    sampling: str = "auto"

    @property
    def _draws_at_fit(self) -> bool:
        return True

    def _method(self, kernel: KernelSpec) -> tuple[KernelMap, AnyMatching]:
        rows = MonteCarloMap(kernel, self.n_points, self.random_state, self.sampling)
        return rows, MatchDivergence(self.divergence)


class EMQ(AggregativeQuantifier):
    r"""Maximum likelihood of the bag given a classifier (Saerens et al., 2002; SLD, MLLS).

    .. math:: \max_{\alpha \in \Delta} \sum_j \log \sum_i \alpha_i \frac{p(i | x_j)}{\pi_i}

    with :math:`\pi` the training prevalence. The problem is convex and solved to a certified
    optimum; ``solver="em"`` gives the iterations of the literature instead.

    Parameters
    ----------
    calibration : {None, "platt", "temperature", "bcts", "vector", "nbvs"} or calibrator
        Recalibrates the posteriors first, on training posteriors made by ``cv``; the training
        prevalence is then the mean calibrated posterior (Alexandari et al., 2020).
    solver : {"exact", "em"}
        The certified solver, or the iterations of expectation maximisation, on the host.
    tol : float, optional
        "exact": certified gap of the mean log-likelihood (default 1e-8). "em": stop when the
        prevalences change by less on average (default 1e-4).
    max_iter : int, optional
        Largest number of iterations; by default that of the solver.
    cv : int, splitter, iterable of splits or float
        How the training posteriors for the calibration are made: cross-validation, or a held-out
        fraction. Without calibration it has no effect.

    See Also
    --------
    kdey.DIR : Maximum likelihood with Dirichlet densities.
    kdey.KDEyML : Kernel densities by maximum likelihood.
    kdey.sample_posterior : Draw from the Bayesian posterior.

    References
    ----------
    Saerens, M., Latinne, P. and Decaestecker, C. (2002). Adjusting the outputs of a classifier
    to new a priori probabilities: a simple procedure. Neural Computation, 14(1).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import EMQ
    >>> X, y = load_iris(return_X_y=True)
    >>> q = EMQ().fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    calibration: Any = None
    solver: str = "exact"
    tol: float | None = None
    max_iter: int | None = None
    device: Any = "cpu"

    @property
    def _needs_posteriors(self) -> bool:
        """Whether ``fit`` needs training posteriors."""
        return self.calibration is not None

    def row_spec(self) -> RatioMap:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return RatioMap(self.calibration)

    def matching(self) -> MaximiseLikelihood:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        matchings = {"exact": MaximiseLikelihood, "em": ExpectationMaximisation}
        check_choice(self.solver, "solver", matchings)
        options = {} if self.tol is None else {"tol": self.tol}
        return matchings[self.solver](log_rows=False, max_iter=self.max_iter, **options)


class DIR(AggregativeQuantifier):
    r"""Maximum likelihood of the bag with one Dirichlet density per class (the paper's DIR).

    .. math:: \max_{\alpha \in \Delta} \sum_j \log \sum_i \alpha_i \mathrm{Dir}(p_j; a_i)

    with :math:`a_i` fitted by maximum likelihood to the training posteriors of class i.

    Parameters
    ----------
    shrinkage : float
        Posteriors become (1 - s) p + s / k first, which keeps exact zeros finite.

    See Also
    --------
    kdey.EMQ : Maximum likelihood with a classifier's posteriors.
    kdey.KDEyML : Kernel densities by maximum likelihood.

    References
    ----------
    Moreo, A., González, P. and del Coz, J. J. (2025). Kernel density estimation for multiclass
    quantification. Machine Learning, 114, 92. arXiv:2401.00490.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import DIR
    >>> X, y = load_iris(return_X_y=True)
    >>> q = DIR().fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    shrinkage: float = 1e-6
    device: Any = "cpu"

    def row_spec(self) -> DirichletMap:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return DirichletMap(self.shrinkage)

    def matching(self) -> MaximiseLikelihood:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MaximiseLikelihood()
