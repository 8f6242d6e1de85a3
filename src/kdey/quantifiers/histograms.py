"""Distribution matching with class-wise histograms: DM, and the binary HDy."""

from __future__ import annotations

from typing import Any

from kdey.matching import (
    MatchDivergence,
    MatchHistograms,
    MatchHistogramsBinary,
    Matching,
    MedianOf,
)
from kdey.problems.generator import GENERATORS
from kdey.quantifiers.rowwise import AggregativeQuantifier, FeatureQuantifier
from kdey.rows.histogram import HistogramSpec
from kdey.rows.stack import StackedSpec

#: Numbers of bins whose median HDy and HDx report (González-Castro et al., 2013).
HDY_BINS = tuple(range(10, 120, 10))
_NOT_CONVEX = ("cauchy-schwarz", "mean-hellinger")


def histogram_matching(divergence: str) -> Matching:
    """Return the matching of histograms for a divergence by name."""
    if divergence in _NOT_CONVEX:
        return MatchHistograms(divergence)
    if divergence not in GENERATORS:
        names = [*GENERATORS, *_NOT_CONVEX]
        raise ValueError(f"divergence must be one of {names}, got {divergence!r}")
    return MatchDivergence(divergence)


class DM(AggregativeQuantifier):
    r"""Distribution matching with one histogram per class posterior (Firat, 2016; Bunse, 2022).

    .. math:: \min_{\alpha \in \Delta} \frac1k \sum_{c=1}^k D(M_c \alpha, q_c)

    with :math:`q_c` the bag's histogram of the posterior of class c and column i of :math:`M_c`
    that of training class i.

    Parameters
    ----------
    divergence : str
        "hellinger" (squared, the paper's DM-HD), "topsoe" (DM-T), "cauchy-schwarz" (DM-CS),
        "mean-hellinger" (the average of unsquared distances), or any f-divergence by name. The
        f-divergences are convex and certified; the other two keep the best of several starts.
    n_bins : int
    cdf : bool
        Compare cumulative histograms.
    classifier, cv, random_state, n_jobs
        See :class:`~kdey.quantifiers.rowwise.AggregativeQuantifier`.
    """

    def __init__(
        self,
        classifier: Any = None,
        *,
        divergence: str = "hellinger",
        n_bins: int = 8,
        cdf: bool = False,
        cv: Any = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(classifier, cv=cv, random_state=random_state, n_jobs=n_jobs)
        self.divergence = divergence
        self.n_bins = n_bins
        self.cdf = cdf

    def _row_spec(self) -> HistogramSpec:
        return HistogramSpec(self.n_bins, self.cdf)

    def _matching(self) -> Matching:
        return histogram_matching(self.divergence)


class DMx(FeatureQuantifier):
    """Distribution matching with one histogram per feature; no classifier.

    Parameters
    ----------
    divergence, n_bins, cdf
        As for :class:`DM`; bins are equally wide between a feature's training extremes.
    n_jobs : int, optional
        Threads of the native core.
    """

    def __init__(
        self,
        *,
        divergence: str = "hellinger",
        n_bins: int = 8,
        cdf: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.divergence = divergence
        self.n_bins = n_bins
        self.cdf = cdf
        self.n_jobs = n_jobs

    def _row_spec(self) -> HistogramSpec:
        return HistogramSpec(self.n_bins, self.cdf, "features")

    def _matching(self) -> Matching:
        return histogram_matching(self.divergence)


class HDy(AggregativeQuantifier):
    """Hellinger distance between histograms of the positive posterior, binary.

    The median over several numbers of bins (González-Castro, Alaiz-Rodríguez and Alegre, 2013).
    The second class in sorted order is the positive one; for more classes wrap it in
    :class:`~kdey.OneVsAll`.

    Parameters
    ----------
    n_bins : sequence of int
    classifier, cv, random_state, n_jobs
        See :class:`~kdey.quantifiers.rowwise.AggregativeQuantifier`.
    """

    _max_classes = 2

    def __init__(
        self,
        classifier: Any = None,
        *,
        n_bins: Any = HDY_BINS,
        cv: Any = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(classifier, cv=cv, random_state=random_state, n_jobs=n_jobs)
        self.n_bins = n_bins

    def _row_spec(self) -> StackedSpec:
        return _stack(self.n_bins, "positive")

    def _matching(self) -> Matching:
        # The squared distance has the same minimiser and is convex.
        return MedianOf(MatchDivergence("hellinger"))


class HDx(FeatureQuantifier):
    """Mean Hellinger distance between feature histograms, binary; no classifier.

    The median over several numbers of bins (González-Castro et al., 2013).

    Parameters
    ----------
    n_bins : sequence of int
    n_jobs : int, optional
        Threads of the native core.
    """

    _max_classes = 2

    def __init__(self, *, n_bins: Any = HDY_BINS, n_jobs: int | None = None) -> None:
        self.n_bins = n_bins
        self.n_jobs = n_jobs

    def _row_spec(self) -> StackedSpec:
        return _stack(self.n_bins, "features")

    def _matching(self) -> Matching:
        return MedianOf(MatchHistogramsBinary("mean-hellinger"))


def _stack(n_bins: Any, channels: str) -> StackedSpec:
    try:
        counts = tuple(n_bins)
    except TypeError:
        raise ValueError(f"n_bins must be a sequence of integers, got {n_bins!r}") from None
    if not counts:
        raise ValueError("n_bins must name at least one number of bins")
    return StackedSpec(tuple(HistogramSpec(b, channels=channels) for b in counts))
