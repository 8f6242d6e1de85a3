"""Problems on the simplex: objective, gradient and certificate of many bags at once.

One problem per file; each is a frozen dataclass that holds the data of B bags and answers
``objective``, ``gradient``, ``hessian`` and ``gap`` at one prevalence per bag, shape (B, k).
Solvers live in :mod:`kdey.solvers`; a problem never knows how it is solved.
"""

from kdey.problems.cauchy_schwarz import CauchySchwarz
from kdey.problems.divergence import Divergence
from kdey.problems.histograms import CdfDistance, HistogramCauchySchwarz, MeanHellinger
from kdey.problems.interface import Problem
from kdey.problems.least_squares import LeastSquares, QuadraticMatch
from kdey.problems.mixture import MixtureLikelihood
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
    "Problem",
    "QuadraticMatch",
]
