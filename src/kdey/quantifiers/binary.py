"""Methods of two classes: thresholds (T50, MAX, ThresholdX, MS, MS2), SORD, DyS and MM."""

from __future__ import annotations

from typing import Any

from kdey.matching.base import AnyMatching
from kdey.matching.histograms import MatchBinary, MatchCdf, MatchScores, MatchThresholds
from kdey.matching.squares import MatchMeans
from kdey.quantifiers.aggregative import AggregativeQuantifier
from kdey.quantifiers.histograms import Binned
from kdey.rows.base import RowSpec
from kdey.rows.histogram import HistogramMap, ScoreMap, ThresholdMap
from kdey.validation import check_choice


class _SingleThreshold(AggregativeQuantifier):
    """Adjusted counting at one threshold that is chosen on the training posteriors."""

    max_classes = 2
    _policy: str

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return ThresholdMap(self._policy)

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MatchMeans()


class T50(_SingleThreshold):
    """Adjusted counting at the threshold that half of the positives reach (Forman, 2008), binary.

    See Also
    --------
    kdey.ThresholdX : Threshold where both error rates are equal, binary.
    kdey.MS : Median sweep over thresholds, binary.

    References
    ----------
    Forman, G. (2008). Quantifying counts and costs via classification. Data Mining and
    Knowledge Discovery, 17(2).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import T50
    >>> X, y = load_iris(return_X_y=True)
    >>> q = T50().fit(X[::2], y[::2] == 0)
    >>> q.predict(X[1::2]).round(1)
    array([0.7, 0.3])
    """

    _policy = "t50"


class MAX(_SingleThreshold):
    """Adjusted counting where tpr - fpr is largest (Forman, 2008), binary.

    See Also
    --------
    kdey.T50 : Threshold with half the true positives, binary.
    kdey.ThresholdX : Threshold where both error rates are equal, binary.

    References
    ----------
    Forman, G. (2008). Quantifying counts and costs via classification. Data Mining and
    Knowledge Discovery, 17(2).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import MAX
    >>> X, y = load_iris(return_X_y=True)
    >>> q = MAX().fit(X[::2], y[::2] == 0)
    >>> q.predict(X[1::2]).round(1)
    array([0.7, 0.3])
    """

    _policy = "max"


class ThresholdX(_SingleThreshold):
    """Adjusted counting where the false positive rate equals 1 - tpr (Forman's X, 2008), binary.

    See Also
    --------
    kdey.MS : Median sweep over thresholds, binary.
    kdey.MS2 : Median sweep where the denominator is large, binary.

    References
    ----------
    Forman, G. (2008). Quantifying counts and costs via classification. Data Mining and
    Knowledge Discovery, 17(2).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import ThresholdX
    >>> X, y = load_iris(return_X_y=True)
    >>> q = ThresholdX().fit(X[::2], y[::2] == 0)
    >>> q.predict(X[1::2]).round(1)
    array([0.7, 0.3])
    """

    _policy = "x"


class MS(AggregativeQuantifier):
    """Median sweep: the median of the adjusted counts at all thresholds (Forman, 2008), binary.

    See Also
    --------
    kdey.MS2 : Median sweep where the denominator is large, binary.
    kdey.MAX : Threshold with the largest denominator, binary.

    References
    ----------
    Forman, G. (2008). Quantifying counts and costs via classification. Data Mining and
    Knowledge Discovery, 17(2).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import MS
    >>> X, y = load_iris(return_X_y=True)
    >>> q = MS().fit(X[::2], y[::2] == 0)
    >>> q.predict(X[1::2]).round(1)
    array([0.7, 0.3])
    """

    max_classes = 2
    _policy = "all"

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return ThresholdMap(self._policy)

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MatchThresholds()


class MS2(MS):
    """As :class:`MS`, at thresholds with tpr - fpr > 0.25 only (Forman, 2008), binary.

    Without any such threshold, 0.5 is the only one.

    See Also
    --------
    kdey.MAX : Threshold with the largest denominator, binary.
    kdey.T50 : Threshold with half the true positives, binary.

    References
    ----------
    Forman, G. (2008). Quantifying counts and costs via classification. Data Mining and
    Knowledge Discovery, 17(2).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import MS2
    >>> X, y = load_iris(return_X_y=True)
    >>> q = MS2().fit(X[::2], y[::2] == 0)
    >>> q.predict(X[1::2]).round(1)
    array([0.7, 0.3])
    """

    _policy = "apart"


class SORD(AggregativeQuantifier):
    r"""Sample ordinal distance between sorted scores, binary (Maletzke et al., 2019).

    .. math:: \min_{0 \le \alpha \le 1} \int | \alpha F_1(t) + (1 - \alpha) F_0(t) - F_U(t) | \, dt

    with F the cumulative distributions of the score of the positive class: the work needed to move
    the scores of the mixture to those of the bag. No bins are needed (:class:`~kdey.MM` compares
    the same distributions at a fixed number of points). Convex; solved exactly.


    See Also
    --------
    kdey.DyS : Any dissimilarity of histograms, binary.
    kdey.MM : Match distribution functions, binary.

    References
    ----------
    Maletzke, A., dos Reis, D., Cherman, E. and Batista, G. (2019). DyS: a framework for mixture
    models in quantification. AAAI Conference on Artificial Intelligence.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import SORD
    >>> X, y = load_iris(return_X_y=True)
    >>> q = SORD().fit(X[::2], y[::2] == 0)
    >>> q.predict(X[1::2]).round(1)
    array([0.7, 0.3])
    """

    max_classes = 2

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return ScoreMap()

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MatchScores()


#: From the criterion to the norm of the problem.
_CRITERIA = {"ks": "max", "pp-area": "l1"}


class MM(AggregativeQuantifier):
    r"""Mixture model on the cumulative distribution of the positive posterior (Forman, 2005).

    .. math:: \min_{0 \le \alpha \le 1} \| \alpha F_1 + (1 - \alpha) F_0 - F_U \|

    Binary; for more classes wrap it in :class:`~kdey.OneVsAll`.

    Parameters
    ----------
    criterion : {"pp-area", "ks"}
        "pp-area" minimises the L1 norm (equivalent to the PP-area, Firat 2016), exactly; "ks" the
        Kolmogorov-Smirnov distance, the maximum norm.
    n_bins : int
        Points at which the distributions are compared, evenly spaced in [0, 1].

    See Also
    --------
    kdey.SORD : Sorted scores, binary.
    kdey.DyS : Any dissimilarity of histograms, binary.

    References
    ----------
    Forman, G. (2008). Quantifying counts and costs via classification. Data Mining and
    Knowledge Discovery, 17(2).

    Firat, A. (2016). Unified framework for quantification. arXiv:1606.00868.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import MM
    >>> X, y = load_iris(return_X_y=True)
    >>> q = MM().fit(X[::2], y[::2] == 0)
    >>> q.predict(X[1::2]).round(1)
    array([0.7, 0.3])
    """

    max_classes = 2

    def __init__(
        self,
        classifier: Any = None,
        *,
        criterion: str = "pp-area",
        n_bins: int = 100,
        cv: Any = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(classifier, cv=cv, random_state=random_state, n_jobs=n_jobs)
        self.criterion = criterion
        self.n_bins = n_bins

    def row_spec(self) -> HistogramMap:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return HistogramMap(self.n_bins, cumulative=True, channels="positive")

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        check_choice(self.criterion, "criterion", _CRITERIA)
        return MatchCdf(_CRITERIA[self.criterion])


class DyS(Binned, AggregativeQuantifier):
    """Histogram of the positive posterior under any dissimilarity (Maletzke et al., 2019).

    The minimum is found by ternary search, which is exact where the dissimilarity has a single
    valley. Binary; for more classes wrap it in :class:`~kdey.OneVsAll`.

    Parameters
    ----------
    dissimilarity : str or callable
        "topsoe", "hellinger", "prob-symm", "l1", "l2", "ordinal" or another name of
        :mod:`kdey.matching.histograms`, or a function of two arrays of shape (n_bags, n_bins).
    n_bins : int or "auto"
        Number of bins of the histogram; "auto" chooses it at ``fit`` by the error on held-out bags.

    See Also
    --------
    kdey.MM : Match distribution functions, binary.
    kdey.SORD : Sorted scores, binary.

    References
    ----------
    Maletzke, A., dos Reis, D., Cherman, E. and Batista, G. (2019). DyS: a framework for mixture
    models in quantification. AAAI Conference on Artificial Intelligence.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import DyS
    >>> X, y = load_iris(return_X_y=True)
    >>> q = DyS().fit(X[::2], y[::2] == 0)
    >>> q.predict(X[1::2]).round(1)
    array([0.7, 0.3])
    """

    max_classes = 2

    def __init__(
        self,
        classifier: Any = None,
        *,
        dissimilarity: Any = "topsoe",
        n_bins: int | str = 8,
        tune_for: Any = "ae",
        tune_bag_size: int = 500,
        cv: Any = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(classifier, cv=cv, random_state=random_state, n_jobs=n_jobs)
        self.dissimilarity = dissimilarity
        self.n_bins = n_bins
        self.tune_for = tune_for
        self.tune_bag_size = tune_bag_size

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        if self._tunes:
            return self._automatic(HistogramMap(2, channels="positive"))
        return HistogramMap(self.n_bins, channels="positive")

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MatchBinary(self.dissimilarity)
