"""Likelihood methods without kernels: EMQ and DIR."""

from __future__ import annotations

from typing import Any

from kdey.matching.likelihood import ExpectationMaximisation, MaximiseLikelihood
from kdey.quantifiers.aggregative import AggregativeQuantifier
from kdey.rows.posterior import DirichletMap, RatioMap
from kdey.validation import check_choice


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

    def __init__(
        self,
        classifier: Any = None,
        *,
        calibration: Any = None,
        solver: str = "exact",
        tol: float | None = None,
        max_iter: int | None = None,
        cv: Any = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: Any = "cpu",
    ) -> None:
        super().__init__(classifier, cv=cv, random_state=random_state, n_jobs=n_jobs)
        self.device = device
        self.calibration = calibration
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter

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

    def __init__(
        self,
        classifier: Any = None,
        *,
        shrinkage: float = 1e-6,
        cv: Any = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: Any = "cpu",
    ) -> None:
        super().__init__(classifier, cv=cv, random_state=random_state, n_jobs=n_jobs)
        self.device = device
        self.shrinkage = shrinkage

    def row_spec(self) -> DirichletMap:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return DirichletMap(self.shrinkage)

    def matching(self) -> MaximiseLikelihood:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MaximiseLikelihood()
