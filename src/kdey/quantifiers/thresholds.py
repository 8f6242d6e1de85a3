"""Binary methods on the score of the positive class: threshold methods (Forman) and SORD.

Forman (2008) adjusts the count of positives at another threshold than 0.5, at which rates are
better known: T50, MAX, ThresholdX; or at many thresholds, of which he takes the median: MS, MS2.
The second class in sorted order is the positive one; for more classes wrap a method in
:class:`~kdey.OneVsAll`.
"""

from __future__ import annotations

from kdey.matching.base import AnyMatching
from kdey.matching.histograms import MatchScores, MatchThresholds
from kdey.matching.squares import MatchMeans
from kdey.quantifiers.aggregative import AggregativeQuantifier
from kdey.rows.base import RowSpec
from kdey.rows.histogram import ScoreMap, ThresholdMap


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
