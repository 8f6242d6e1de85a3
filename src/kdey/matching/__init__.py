"""Matchings, the last stage of a quantifier: from templates and rows to prevalences."""

from kdey.matching.composite import (
    AverageOf,
    Composite,
    MedianOf,
    average_solution,
    median_solution,
)
from kdey.matching.densities import (
    MatchCauchySchwarz,
    MatchDivergence,
    MatchEmbeddings,
    MatchSquares,
)
from kdey.matching.histograms import MatchBinary, MatchCdf, MatchHistograms, MatchHistogramsBinary
from kdey.matching.interface import AnyMatching, Matching, concatenate, exact_solution
from kdey.matching.likelihood import ExpectationMaximisation, MaximiseLikelihood, check_stopping
from kdey.matching.means import MatchMeans, Mean
from kdey.matching.penalised import Penalised
from kdey.matching.scores import MatchScores, MatchThresholds

__all__ = [
    "AnyMatching",
    "AverageOf",
    "Composite",
    "ExpectationMaximisation",
    "MatchBinary",
    "MatchCauchySchwarz",
    "MatchCdf",
    "MatchDivergence",
    "MatchEmbeddings",
    "MatchHistograms",
    "MatchHistogramsBinary",
    "MatchMeans",
    "MatchScores",
    "MatchSquares",
    "MatchThresholds",
    "Matching",
    "MaximiseLikelihood",
    "Mean",
    "MedianOf",
    "Penalised",
    "average_solution",
    "check_stopping",
    "concatenate",
    "exact_solution",
    "median_solution",
]
