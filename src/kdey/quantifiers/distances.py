"""Matching of distributions by their distance, on posteriors or on features.

Histograms are compared by DM, DMx, HDy, HDx and DyS, distribution functions by SORD and MM, and
mean embeddings by EDy, EDx and KMM.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kdey.matching import AnyMatching, MedianOf
from kdey.matching.divergence import GENERATORS, MatchDivergence
from kdey.matching.histograms import (
    MatchBinary,
    MatchCdf,
    MatchHistograms,
    MatchScores,
)
from kdey.matching.squares import MatchEmbeddings
from kdey.quantifiers import AggregativeQuantifier, FeatureQuantifier, TunedQuantifier
from kdey.rows import CompositeMap, RowSpec, TuningEffort
from kdey.rows.embedding import DISTANCES, KERNELS, EmbeddingMap
from kdey.rows.histogram import HistogramMap, ScoreMap
from kdey.tuning import AutomaticBins, AutomaticChoice
from kdey.validation import check_choice, check_positive

#: Numbers of bins whose median HDy and HDx report (González-Castro et al., 2013).
HDY_BINS = tuple(range(10, 120, 10))
#: Number of tuning bags for problems that need several starts each.
_FEW_BAGS = 50
_NOT_CONVEX = ("cauchy-schwarz", "mean-hellinger")


class _Binned(TunedQuantifier):
    """Base of methods on histograms whose number of bins is a parameter, or chosen at ``fit``."""

    n_bins: Any = "auto"
    cdf = False
    _chosen_at_fit = "n_bins"
    #: What histograms are made of (:class:`~kdey.rows.histogram.HistogramMap`).
    _channels = "posteriors"
    #: Whether the median over several numbers of bins is reported.
    _stacked = False
    #: Whether one start is enough for the problem, so that many tuning bags can be afforded.
    _convex = True

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        if self._tunes:
            effort = TuningEffort() if self._convex else TuningEffort(bags=_FEW_BAGS)
            rows = self._histograms(2)
            return AutomaticBins(rows, self.matching(), self._plan(), self._stacked, effort)
        if not self._stacked:
            return self._histograms(self.n_bins)
        try:
            counts = tuple(self.n_bins)
        except TypeError:
            raise ValueError(
                f'n_bins must be a sequence of integers or "auto", got {self.n_bins!r}'
            ) from None
        if not counts:
            raise ValueError("n_bins must name at least one number of bins")
        return CompositeMap(tuple(map(self._histograms, counts)))

    def _histograms(self, n_bins: int) -> HistogramMap:
        return HistogramMap(n_bins, self.cdf, self._channels)

    @property
    def n_bins_(self) -> Any:
        """The number of bins in use."""
        return self.n_bins if self.tuning_ is None else int(self.tuning_.best_value)


class _ByDivergence(_Binned):
    """Histograms matched by a named divergence."""

    divergence: str = "hellinger"
    cdf: bool = False

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        check_choice(self.divergence, "divergence", [*GENERATORS, *_NOT_CONVEX])
        if self._convex:
            return MatchDivergence(self.divergence)
        return MatchHistograms(self.divergence)

    @property
    def _convex(self) -> bool:  # type: ignore[override]
        return self.divergence not in _NOT_CONVEX


class DM(_ByDivergence, AggregativeQuantifier):
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
        posteriors (``docs/lab/automatic.md``); ``tuning_`` then holds what was tried.
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


class DMx(_ByDivergence, FeatureQuantifier):
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

    n_bins: Any = 8

    _channels = "features"


class HDy(_Binned, AggregativeQuantifier):
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

    n_bins: Any = HDY_BINS

    max_classes = 2
    _channels = "positive"
    _stacked = True

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        # The squared distance has the same minimiser and is convex.
        return MedianOf(MatchDivergence("hellinger"))


class HDx(_Binned, FeatureQuantifier):
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

    n_bins: Any = HDY_BINS

    max_classes = 2
    _channels = "features"
    _stacked = True
    _convex = False

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MedianOf(MatchHistograms("mean-hellinger", binary=True))


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

    criterion: str = "pp-area"
    n_bins: int = 100

    max_classes = 2

    def row_spec(self) -> HistogramMap:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return HistogramMap(self.n_bins, cumulative=True, channels="positive")

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        check_choice(self.criterion, "criterion", _CRITERIA)
        return MatchCdf(_CRITERIA[self.criterion])


class DyS(_Binned, AggregativeQuantifier):
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

    dissimilarity: Any = "topsoe"
    n_bins: Any = 8

    max_classes = 2
    _channels = "positive"

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MatchBinary(self.dissimilarity)


#: Multiples of the median distance that an automatic bandwidth is chosen from.
_MULTIPLES = (1.0, 0.125, 0.25, 0.5, 2.0)


class EDy(AggregativeQuantifier):
    r"""Energy distance between the posteriors of the bag and of the mixture (Castaño et al., 2022).

    .. math:: \min_{\alpha \in \Delta} 2 \sum_i \alpha_i \, \overline{d}(B, T_i)
              - \sum_{ij} \alpha_i \alpha_j \, \overline{d}(T_i, T_j)

    with :math:`\overline{d}` the mean distance between the posteriors of the bag B and of the
    training classes :math:`T_i` (Kawakubo, du Plessis and Sugiyama, 2016). Convex, solved exactly;
    there is no bandwidth and no number of bins. ``fit`` compares all pairs of training instances.

    Parameters
    ----------
    distance : {"manhattan", "euclidean"}
        The distance whose expectations are compared.

    See Also
    --------
    kdey.EDx : Energy distance of features.
    kdey.KMM : Match kernel means of features.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import EDy
    >>> X, y = load_iris(return_X_y=True)
    >>> q = EDy().fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    distance: str = "manhattan"

    def row_spec(self) -> EmbeddingMap:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return EmbeddingMap(check_choice(self.distance, "distance", DISTANCES))

    def matching(self) -> MatchEmbeddings:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MatchEmbeddings()


class EDx(FeatureQuantifier):
    """Energy distance between the features of the bag and of the mixture; no classifier.

    As :class:`EDy`, with features in the place of posteriors (Kawakubo et al., 2016).

    Parameters
    ----------
    distance : {"manhattan", "euclidean"}
        The distance whose expectations are compared.
    standardise : bool
        Whether features are divided by their training standard deviation, so that their units do
        not matter.

    See Also
    --------
    kdey.KMM : Match kernel means of features.
    kdey.EDy : Energy distance of posteriors.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import EDx
    >>> X, y = load_iris(return_X_y=True)
    >>> q = EDx().fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    distance: str = "manhattan"
    standardise: bool = True

    def row_spec(self) -> EmbeddingMap:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        distance = check_choice(self.distance, "distance", DISTANCES)
        return EmbeddingMap(distance, standardise=bool(self.standardise))

    def matching(self) -> MatchEmbeddings:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MatchEmbeddings()


class KMM(TunedQuantifier, FeatureQuantifier):
    r"""Kernel mean matching of the features; no classifier (Zhang et al., 2013; Iyer et al., 2014).

    .. math:: \min_{\alpha \in \Delta} \Big\| \sum_i \alpha_i \mu_i - \mu_B \Big\|^2

    with :math:`\mu_i` and :math:`\mu_B` the mean embeddings of training class i and of the bag in
    the space of the kernel. Convex, solved exactly.

    Parameters
    ----------
    kernel : {"gaussian", "laplacian"}
        The kernel of the embedding.
    bandwidth : float, "median" or "auto"
        Width of the kernel: a number, the median distance between training instances, or chosen at
        ``fit`` among multiples of that median by the error on held-out bags; ``tuning_`` then
        holds what was tried.
    random_features : int, optional
        Number of random features that approximate the kernel. By default all pairs of instances
        are computed, whose number grows with the square of the training set.
    standardise : bool
        Whether features are divided by their training standard deviation.
    random_state : int, RandomState or None
        Seed of the random features and of the automatic choice; None means the seed 0.

    See Also
    --------
    kdey.EDy : Energy distance of posteriors.
    kdey.EDx : Energy distance of features.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import KMM
    >>> X, y = load_iris(return_X_y=True)
    >>> q = KMM().fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    kernel: str = "gaussian"
    bandwidth: float | str = "median"
    random_features: int | None = None
    standardise: bool = True
    random_state: Any = None

    _chosen_at_fit = "bandwidth"

    @property
    def _draws_at_fit(self) -> bool:
        return self.random_features is not None or self._tunes

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        check_choice(self.kernel, "kernel", KERNELS)
        if isinstance(self.bandwidth, str):
            check_choice(self.bandwidth, "bandwidth", ["median", "auto"])
        else:
            check_positive(self.bandwidth, "bandwidth")
        plan = self._plan()
        spec = EmbeddingMap(
            self.kernel,
            "median" if isinstance(self.bandwidth, str) else self.bandwidth,
            self.random_features,
            bool(self.standardise),
            plan.seed(),
        )
        if not self._tunes:
            return spec
        candidates = {multiple: replace(spec, multiple=multiple) for multiple in _MULTIPLES}
        return AutomaticChoice("bandwidth / median", candidates, self.matching(), plan)

    def matching(self) -> MatchEmbeddings:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MatchEmbeddings()
