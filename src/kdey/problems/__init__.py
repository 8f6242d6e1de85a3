"""Problems on the simplex: objective, gradient and certificate of many bags at once.

A problem is a frozen dataclass with the data of B bags. It computes ``objective``, ``gradient``,
``hessian`` and ``gap`` at one prevalence per bag, shape (B, k). Solvers are in
:mod:`kdey.solvers`; a problem does not depend on how it is solved.
"""

from kdey.problems.cauchy_schwarz import CauchySchwarz
from kdey.problems.divergence import Divergence
from kdey.problems.histograms import CdfDistance, HistogramCauchySchwarz, MeanHellinger
from kdey.problems.interface import Problem
from kdey.problems.least_squares import LeastSquares, QuadraticMatch
from kdey.problems.mixture import MixtureLikelihood
from kdey.problems.penalised import PenalisedProblem
from kdey.problems.separable import GENERATORS, Generator

__all__ = [
    "GENERATORS",
    "CauchySchwarz",
    "CdfDistance",
    "Divergence",
    "Generator",
    "HistogramCauchySchwarz",
    "LeastSquares",
    "MeanHellinger",
    "MixtureLikelihood",
    "PenalisedProblem",
    "Problem",
    "QuadraticMatch",
]
