"""Matching of mean embeddings: EDy on posteriors, EDx and KMM on features."""

from __future__ import annotations

from typing import Any

from kdey.matching.squares import MatchEmbeddings
from kdey.quantifiers.aggregative import AggregativeQuantifier, FeatureQuantifier
from kdey.rows.base import RowSpec
from kdey.rows.embedding import DISTANCES, KERNELS, EmbeddingMap
from kdey.tuning.automatic import AutomaticChoice
from kdey.tuning.trials import TuningPlan
from kdey.validation import check_choice, check_positive

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

    def __init__(
        self,
        classifier: Any = None,
        *,
        distance: str = "manhattan",
        cv: Any = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(classifier, cv=cv, random_state=random_state, n_jobs=n_jobs)
        self.distance = distance

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

    def __init__(
        self,
        *,
        distance: str = "manhattan",
        standardise: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.distance = distance
        self.standardise = standardise
        self.n_jobs = n_jobs

    def row_spec(self) -> EmbeddingMap:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        distance = check_choice(self.distance, "distance", DISTANCES)
        return EmbeddingMap(distance, standardise=bool(self.standardise))

    def matching(self) -> MatchEmbeddings:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MatchEmbeddings()


class KMM(FeatureQuantifier):
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

    def __init__(
        self,
        *,
        kernel: str = "gaussian",
        bandwidth: float | str = "median",
        random_features: int | None = None,
        standardise: bool = True,
        tune_for: Any = "ae",
        tune_bag_size: int = 500,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.random_features = random_features
        self.standardise = standardise
        self.tune_for = tune_for
        self.tune_bag_size = tune_bag_size
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def draws_at_fit(self) -> bool:  # type: ignore[override]
        """Whether fitting draws random numbers."""
        return self.random_features is not None or self._tunes

    @property
    def _tunes(self) -> bool:
        return isinstance(self.bandwidth, str) and self.bandwidth == "auto"

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        check_choice(self.kernel, "kernel", KERNELS)
        if isinstance(self.bandwidth, str):
            check_choice(self.bandwidth, "bandwidth", ["median", "auto"])
        else:
            check_positive(self.bandwidth, "bandwidth")
        plan = TuningPlan(self.tune_for, self.tune_bag_size, self.random_state)
        spec = EmbeddingMap(
            self.kernel,
            "median" if isinstance(self.bandwidth, str) else self.bandwidth,
            self.random_features,
            bool(self.standardise),
            plan.seed(),
        )
        if not self._tunes:
            return spec
        candidates = {multiple: spec.times(multiple) for multiple in _MULTIPLES}
        return AutomaticChoice("bandwidth / median", candidates, self.matching(), plan)

    def matching(self) -> MatchEmbeddings:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MatchEmbeddings()
