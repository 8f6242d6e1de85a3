"""Distribution matching with histograms: DM and HDy on posteriors, DMx and HDx on features."""

from __future__ import annotations

from typing import Any

from kdey.matching.base import AnyMatching, MedianOf
from kdey.matching.divergence import GENERATORS, MatchDivergence
from kdey.matching.histograms import MatchHistograms, MatchHistogramsBinary
from kdey.quantifiers.aggregative import AggregativeQuantifier, FeatureQuantifier, RowQuantifier
from kdey.rows.base import RowSpec, StackedMap, TuningEffort
from kdey.rows.histogram import HistogramMap
from kdey.tuning.automatic import AutomaticBins
from kdey.tuning.trials import TuningPlan
from kdey.validation import check_choice

#: Numbers of bins whose median HDy and HDx report (González-Castro et al., 2013).
HDY_BINS = tuple(range(10, 120, 10))
#: Number of tuning bags for problems that need several starts each.
_FEW_BAGS = 50
_NOT_CONVEX = ("cauchy-schwarz", "mean-hellinger")


def histogram_matching(divergence: str) -> AnyMatching:
    """Return the matching of histograms for a named divergence; raises ValueError if unknown."""
    check_choice(divergence, "divergence", [*GENERATORS, *_NOT_CONVEX])
    if divergence in _NOT_CONVEX:
        return MatchHistograms(divergence)
    return MatchDivergence(divergence)


class Binned(RowQuantifier):
    """Base of methods on histograms whose number of bins is a parameter, or chosen at ``fit``."""

    n_bins: Any
    tune_for: Any
    tune_bag_size: int

    @property
    def _tunes(self) -> bool:
        return isinstance(self.n_bins, str) and self.n_bins == "auto"

    @property
    def draws_at_fit(self) -> bool:  # type: ignore[override]
        """Whether fitting draws random numbers for more than the folds."""
        return self._tunes

    def _automatic(
        self, rows: HistogramMap, *, stacked: bool = False, convex: bool = True
    ) -> AutomaticBins:
        plan = TuningPlan(self.tune_for, self.tune_bag_size, self.random_state)
        effort = TuningEffort() if convex else TuningEffort(bags=_FEW_BAGS)
        return AutomaticBins(rows, self.matching(), plan, stacked, effort)

    @property
    def n_bins_(self) -> Any:
        """The number of bins in use."""
        return self.n_bins if self.tuning_ is None else int(self.tuning_.best_value)


class DM(Binned, AggregativeQuantifier):
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
    n_bins : int or "auto"
        "auto": chosen at ``fit`` by the error on bags from held-out parts of the training
        posteriors (``docs/automatic.md``); ``tuning_`` then holds what was tried.
    cdf : bool
        Whether to compare cumulative histograms.

    See Also
    --------
    kdey.DMx : Match histograms of features.
    kdey.HDy : Hellinger distance of posteriors, binary.

    References
    ----------
    Firat, A. (2016). Unified framework for quantification. arXiv:1606.00868.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import DM
    >>> X, y = load_iris(return_X_y=True)
    >>> q = DM(random_state=0).fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    def __init__(
        self,
        classifier: Any = None,
        *,
        divergence: str = "hellinger",
        n_bins: int | str = "auto",
        cdf: bool = False,
        tune_for: Any = "ae",
        tune_bag_size: int = 500,
        cv: Any = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(classifier, cv=cv, random_state=random_state, n_jobs=n_jobs)
        self.divergence = divergence
        self.n_bins = n_bins
        self.cdf = cdf
        self.tune_for = tune_for
        self.tune_bag_size = tune_bag_size

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        if self._tunes:
            convex = self.divergence not in _NOT_CONVEX
            return self._automatic(HistogramMap(2, self.cdf), convex=convex)
        return HistogramMap(self.n_bins, self.cdf)

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return histogram_matching(self.divergence)


class DMx(Binned, FeatureQuantifier):
    """Distribution matching with one histogram per feature; no classifier.

    Parameters
    ----------
    divergence : str
        "hellinger", "topsoe", "cauchy-schwarz", "mean-hellinger" or any f-divergence by name; see
        :class:`DM`.
    n_bins : int or "auto"
        Bins are equally wide between a feature's training extremes; "auto" chooses their number at
        ``fit`` by the error on held-out bags.
    cdf : bool
        Whether to compare cumulative histograms.

    See Also
    --------
    kdey.HDy : Hellinger distance of posteriors, binary.
    kdey.HDx : Hellinger distance of features, binary.

    References
    ----------
    Firat, A. (2016). Unified framework for quantification. arXiv:1606.00868.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import DMx
    >>> X, y = load_iris(return_X_y=True)
    >>> q = DMx().fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    def __init__(
        self,
        *,
        divergence: str = "hellinger",
        n_bins: int | str = 8,
        cdf: bool = False,
        tune_for: Any = "ae",
        tune_bag_size: int = 500,
        n_jobs: int | None = None,
    ) -> None:
        self.divergence = divergence
        self.n_bins = n_bins
        self.cdf = cdf
        self.tune_for = tune_for
        self.tune_bag_size = tune_bag_size
        self.n_jobs = n_jobs

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        if self._tunes:
            convex = self.divergence not in _NOT_CONVEX
            return self._automatic(HistogramMap(2, self.cdf, "features"), convex=convex)
        return HistogramMap(self.n_bins, self.cdf, "features")

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return histogram_matching(self.divergence)


class HDy(Binned, AggregativeQuantifier):
    """Hellinger distance between histograms of the positive posterior, binary.

    The median over several numbers of bins (González-Castro, Alaiz-Rodríguez and Alegre, 2013).
    The second class in sorted order is the positive one; for more classes wrap it in
    :class:`~kdey.OneVsAll`.

    Parameters
    ----------
    n_bins : sequence of int or "auto"
        Numbers of bins of which the median is taken, or one number, chosen as for :class:`DM`.

    See Also
    --------
    kdey.HDx : Hellinger distance of features, binary.
    kdey.DM : Match histograms of posteriors.

    References
    ----------
    González-Castro, V., Alaiz-Rodríguez, R. and Alegre, E. (2013). Class distribution
    estimation based on the Hellinger distance. Information Sciences, 218.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import HDy
    >>> X, y = load_iris(return_X_y=True)
    >>> q = HDy().fit(X[::2], y[::2] == 0)
    >>> q.classes_
    array([False,  True])
    >>> q.predict(X[1::2]).round(1)
    array([0.7, 0.3])
    """

    max_classes = 2

    def __init__(
        self,
        classifier: Any = None,
        *,
        n_bins: Any = HDY_BINS,
        tune_for: Any = "ae",
        tune_bag_size: int = 500,
        cv: Any = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(classifier, cv=cv, random_state=random_state, n_jobs=n_jobs)
        self.n_bins = n_bins
        self.tune_for = tune_for
        self.tune_bag_size = tune_bag_size

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        if self._tunes:
            return self._automatic(HistogramMap(2, channels="positive"), stacked=True)
        return _stack(self.n_bins, "positive")

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        # The squared distance has the same minimiser and is convex.
        return MedianOf(MatchDivergence("hellinger"))


class HDx(Binned, FeatureQuantifier):
    """Mean Hellinger distance between feature histograms, binary; no classifier.

    The median over several numbers of bins (González-Castro et al., 2013).

    Parameters
    ----------
    n_bins : sequence of int or "auto"
        Numbers of bins of which the median is taken, or one number, chosen as for :class:`DM`.

    See Also
    --------
    kdey.DM : Match histograms of posteriors.
    kdey.DMx : Match histograms of features.

    References
    ----------
    González-Castro, V., Alaiz-Rodríguez, R. and Alegre, E. (2013). Class distribution
    estimation based on the Hellinger distance. Information Sciences, 218.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import HDx
    >>> X, y = load_iris(return_X_y=True)
    >>> q = HDx().fit(X[::2], y[::2] == 0)
    >>> q.predict(X[1::2]).round(1)
    array([0.6, 0.4])
    """

    max_classes = 2

    def __init__(
        self,
        *,
        n_bins: Any = HDY_BINS,
        tune_for: Any = "ae",
        tune_bag_size: int = 500,
        n_jobs: int | None = None,
    ) -> None:
        self.n_bins = n_bins
        self.tune_for = tune_for
        self.tune_bag_size = tune_bag_size
        self.n_jobs = n_jobs

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        if self._tunes:
            rows = HistogramMap(2, channels="features")
            return self._automatic(rows, stacked=True, convex=False)
        return _stack(self.n_bins, "features")

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MedianOf(MatchHistogramsBinary("mean-hellinger"))


def _stack(n_bins: Any, channels: str) -> StackedMap:
    try:
        counts = tuple(n_bins)
    except TypeError:
        raise ValueError(
            f'n_bins must be a sequence of integers or "auto", got {n_bins!r}'
        ) from None
    if not counts:
        raise ValueError("n_bins must name at least one number of bins")
    return StackedMap(tuple(HistogramMap(b, channels=channels) for b in counts))
