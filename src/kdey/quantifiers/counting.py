"""Counting, and adjusting by the law of total probability.

CC and PCC count; ACC, PACC, Friedman and RLLS adjust; T50, MAX, ThresholdX, MS and MS2 adjust
counts at thresholds that are chosen in training, and are for two classes.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey.bags import Array
from kdey.bayes.error_rates import check_counts
from kdey.intervals import Estimate
from kdey.matching import AnyMatching
from kdey.matching.histograms import MatchThresholds
from kdey.matching.sqp import Penalised, ShrunkRatios
from kdey.matching.squares import LeastSquares, MatchMeans, Mean
from kdey.model import Model
from kdey.posteriors import FittedStage, TrainingPosteriors
from kdey.quantifiers import AggregativeQuantifier, TunedQuantifier
from kdey.quantifiers.composed import DecisionsMixin
from kdey.rows import RowSpec
from kdey.rows.histogram import ThresholdMap
from kdey.rows.posterior import FriedmanMap, PosteriorMap
from kdey.simplex import check_posteriors, counts_from_interval, in_class_order
from kdey.validation import check_choice, check_classes, refuse_masked


class _Counting(AggregativeQuantifier):
    """The mean row of a bag is its estimate; no training posteriors are needed."""

    cv: Any = field(default=None, init=False)

    _crisp: ClassVar[bool]

    @property
    def _needs_posteriors(self) -> bool:
        """Whether ``fit`` needs training posteriors."""
        return False

    def row_spec(self) -> PosteriorMap:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return PosteriorMap(crisp=self._crisp, adjusted=False)

    def matching(self) -> Mean:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return Mean()


class CC(_Counting, DecisionsMixin):
    """Classify and count: the share of instances that the classifier assigns to each class.

    Biased under label shift; the baseline that every other method corrects (Forman, 2008).
    A classifier needs ``predict`` only. ``fit_decisions`` takes labels that were decided elsewhere.

    See Also
    --------
    kdey.PCC : Mean posterior of a classifier.
    kdey.ACC : Count decisions and adjust by error rates.

    References
    ----------
    Forman, G. (2008). Quantifying counts and costs via classification. Data Mining and
    Knowledge Discovery, 17(2).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import CC
    >>> X, y = load_iris(return_X_y=True)
    >>> q = CC().fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    _crisp = True


class PCC(_Counting):
    """Probabilistic classify and count: the mean posterior (Bella et al., 2010).

    See Also
    --------
    kdey.ACC : Count decisions and adjust by error rates.
    kdey.PACC : Adjust mean posteriors.

    References
    ----------
    Bella, A., Ferri, C., Hernández-Orallo, J. and Ramírez-Quintana, M. J. (2010).
    Quantification via probability estimators. IEEE International Conference on Data Mining.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import PCC
    >>> X, y = load_iris(return_X_y=True)
    >>> q = PCC().fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.4, 0.1])
    """

    _crisp = False


#: Largest number of decisions of a bag, and of counted instances of a class: with more, neither
#: leaves any uncertainty that matters.
_MAX_DECISIONS, _MAX_COUNTED = 10_000_000, 1_000_000


class _Adjusting(AggregativeQuantifier):
    """Least squares between the mean row of a bag and the mean rows of the training classes."""

    _crisp: ClassVar[bool]

    def row_spec(self) -> PosteriorMap:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return PosteriorMap(crisp=self._crisp, adjusted=True)

    def matching(self) -> MatchMeans:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MatchMeans()

    @classmethod
    def from_misclassification(cls, matrix: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Return a fitted quantifier from known misclassification rates, without training data.

        Parameters
        ----------
        matrix : array-like of shape (k, k)
            ``matrix[i, j]`` is the probability that an instance of class j is classified as class i
            (or its mean posterior of class i); columns sum to one.
        classes : array-like of shape (k,), optional
            Names of the classes; default 0..k-1.

        Raises
        ------
        ValueError
            If ``matrix`` is not square, its columns do not sum to one, or ``classes`` has another
            length.

        Examples
        --------
        >>> from kdey import ACC
        >>> q = ACC.from_misclassification([[0.9, 0.2], [0.1, 0.8]], classes=["no", "yes"])
        >>> q.adjust([0.55, 0.45]).round(2)
        array([0.5, 0.5])
        """
        labels = None if classes is None else np.asarray(classes)
        ordered = refuse_masked(in_class_order(matrix, labels, "matrix"), "matrix")
        rates = check_posteriors(np.asarray(ordered, dtype=np.float64).T, name="matrix columns").T
        if rates.shape[0] != rates.shape[1] or len(rates) < 2:
            raise ValueError(f"matrix must be square with at least 2 classes, got {rates.shape}")
        quantifier, k = cls(), len(rates)
        quantifier.model_ = Model(
            _class_names(k, classes),
            np.full(k, np.nan),
            quantifier.row_spec(),
            PosteriorMap(
                cls._crisp,
                adjusted=True,
                templates=np.ascontiguousarray(rates, dtype=np.float64),
            ),
            quantifier.matching(),
        )
        return quantifier

    def adjust(self, observed: ArrayLike) -> Array:
        """Return the prevalences that explain ``observed`` shares of classifier decisions.

        Parameters
        ----------
        observed : array-like of shape (k,) or (n_bags, k)
            Share of each class among the decisions (ACC), or the mean posterior (PACC).

        Returns
        -------
        prevalence : array of the same shape
        """
        ordered = in_class_order(observed, self.classes_, "observed")
        shares = np.asarray(refuse_masked(ordered, "observed"), dtype=np.float64)
        k = len(self.row_map_.templates)
        checked = check_posteriors(np.atleast_2d(shares), k, name="observed").astype(np.float64)
        problem = LeastSquares(self.row_map_.templates, checked)
        prevalence = self.model_.matching.solve(problem).prevalence
        return prevalence if shares.ndim == 2 else np.asarray(prevalence[0])


class ACC(DecisionsMixin, _Adjusting):
    r"""Adjusted classify and count (Forman, 2008; BBSE-hard of Lipton et al., 2018).

    .. math:: \min_{\alpha \in \Delta} \tfrac12 \| M \alpha - q \|^2

    with q the share of decisions for each class in the bag and :math:`M_{ij}` the share of
    decisions for class i among training instances of class j. A classifier needs ``predict`` only.
    ``fit_decisions`` takes labels that were decided elsewhere.

    See Also
    --------
    kdey.PACC : Adjust mean posteriors.
    kdey.CC : Count the decisions of a classifier.

    References
    ----------
    Forman, G. (2008). Quantifying counts and costs via classification. Data Mining and
    Knowledge Discovery, 17(2).

    Lipton, Z., Wang, Y.-X. and Smola, A. (2018). Detecting and correcting for label shift with
    black box predictors. International Conference on Machine Learning.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import ACC
    >>> X, y = load_iris(return_X_y=True)
    >>> q = ACC().fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    _crisp = True

    @classmethod
    def from_counts(cls, counts: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Return a fitted quantifier from the counts of a validation study.

        Its intervals include the uncertainty of the error rates, as if it had been fitted on the
        instances that were counted.

        Parameters
        ----------
        counts : array-like of shape (k, k)
            ``counts[i, j]`` is the number of instances of class j that were classified as class i.
        classes : array-like of shape (k,), optional
            Names of the classes, sorted; default 0..k-1.

        Raises
        ------
        ValueError
            If ``counts`` is not square, has negative entries or a class without instances, or
            ``classes`` has another length.

        Examples
        --------
        >>> from kdey import ACC
        >>> q = ACC.from_counts([[95, 10], [5, 90]], classes=["no", "yes"])
        >>> estimate = q.estimate_counts([880, 120])
        >>> estimate.estimate.round(3), estimate.low.round(2), estimate.high.round(2)
        (array([0.918, 0.082]), array([0.86, 0.03]), array([0.97, 0.14]))
        """
        table = check_counts(counts)
        if table.shape[0] != table.shape[1]:
            raise ValueError(f"counts must be square, got shape {table.shape}")
        if not (table.sum(axis=0) > 0).all():
            empty = int(np.argmin(table.sum(axis=0)))
            raise ValueError(f"counts has no instance of class number {empty}")
        quantifier, k = cls(), len(table)
        names, prevalence = _class_names(k, classes), table.sum(axis=0) / table.sum()
        stage = FittedStage(None, _counted_training(table))
        return quantifier._make_model(stage, names, prevalence=prevalence)

    @classmethod
    def from_rates(
        cls,
        sensitivity: float,
        specificity: float,
        classes: ArrayLike = (0, 1),
        *,
        sensitivity_interval: tuple[float, float] | None = None,
        specificity_interval: tuple[float, float] | None = None,
        confidence: float = 0.95,
    ) -> Self:
        """Return a fitted binary quantifier from a test's sensitivity and specificity.

        This is the estimator of Rogan and Gladen (1978), restricted to [0, 1]. The second of
        ``classes`` is the positive one. Without intervals the rates count as exactly known. With
        intervals, those of the estimates include the uncertainty of the rates: each rate counts as
        the result of a study so large that its Wilson interval is as wide as the one given.

        Parameters
        ----------
        sensitivity, specificity : float in [0, 1]
        classes : array-like of shape (2,)
        sensitivity_interval, specificity_interval : pairs (low, high), optional
            Both or none.
        confidence : float
            Confidence of these intervals.

        Raises
        ------
        ValueError
            If a rate is not in [0, 1] or not within its interval, or only one has an interval.

        Examples
        --------
        >>> from kdey import ACC
        >>> test = ACC.from_rates(sensitivity=0.9, specificity=0.95)
        >>> test.adjust([0.88, 0.12]).round(3)  # 12 % tested positive
        array([0.918, 0.082])
        """
        for name, rate in (("sensitivity", sensitivity), ("specificity", specificity)):
            if not 0.0 <= rate <= 1.0:
                raise ValueError(f"{name} must be in [0, 1], got {rate!r}")
        if sensitivity_interval is None and specificity_interval is None:
            matrix = [[specificity, 1.0 - sensitivity], [1.0 - specificity, sensitivity]]
            return cls.from_misclassification(matrix, classes)
        if sensitivity_interval is None or specificity_interval is None:
            raise ValueError("give intervals of both sensitivity and specificity, or of none")
        yes = counts_from_interval(sensitivity, *sensitivity_interval, confidence, "sensitivity")
        no = counts_from_interval(specificity, *specificity_interval, confidence, "specificity")
        return cls.from_counts([[no[0], yes[1]], [no[1], yes[0]]], classes)

    def estimate_counts(self, observed: ArrayLike, **options: Any) -> Estimate:
        """Return the prevalences of a bag of which only the decisions are known, with intervals.

        Parameters
        ----------
        observed : array-like of shape (k,)
            How many instances of the bag were classified as each class.
        **options
            As for :meth:`estimate` (``confidence``, ``target``, ``options``, ...).

        Returns
        -------
        Estimate

        Raises
        ------
        ValueError
            If ``observed`` does not hold k whole numbers.
        """
        ordered = in_class_order(observed, self.classes_, "observed")
        counts = np.asarray(refuse_masked(ordered, "observed"), dtype=np.float64)
        k = len(self.classes_)
        if counts.shape != (k,) or not np.isfinite(counts).all() or (counts < 0).any():
            raise ValueError(f"observed must hold the number of decisions for each of {k} classes")
        if (counts % 1 != 0).any() or not 0 < counts.sum() <= _MAX_DECISIONS:
            raise ValueError(
                f"observed must hold whole numbers, 1 to {_MAX_DECISIONS:.0e} in all; for shares "
                "of decisions use adjust"
            )
        decisions = np.repeat(np.eye(k), counts.astype(np.int64), axis=0)
        options = {"check_fit": False, **options}
        estimate = self.estimate_posteriors(decisions, **options)
        assert isinstance(estimate, Estimate)
        return estimate


def _class_names(k: int, classes: ArrayLike | None) -> NDArray[Any]:
    """Return the labels of k classes, or raise ValueError."""
    names = np.arange(k) if classes is None else check_classes(classes)
    if names.shape != (k,):
        raise ValueError(f"classes must have shape ({k},), got {names.shape}")
    return names


def _counted_training(table: Array) -> TrainingPosteriors:
    """Return one-hot decisions and labels that have these counts, fractions as weights.

    Parameters
    ----------
    table : array of shape (k, k)
        Entry (i, j): number of instances of class j classified as class i.

    Returns
    -------
    TrainingPosteriors
    """
    capped = table * np.minimum(1.0, _MAX_COUNTED / table.sum(axis=0))
    copies = np.where(capped > 0, np.maximum(np.round(capped), 1.0), 0.0).astype(np.int64)
    decisions, labels = np.nonzero(copies)
    n = copies[decisions, labels]
    weights = np.repeat(capped[decisions, labels] / n, n)
    posteriors = np.eye(len(table))[np.repeat(decisions, n)]
    whole = bool(np.allclose(weights, 1.0))
    return TrainingPosteriors(posteriors, np.repeat(labels, n), None if whole else weights)


class PACC(_Adjusting):
    """Probabilistic adjusted classify and count (Bella et al., 2010; BBSE-soft).

    As :class:`ACC`, with mean posteriors instead of shares of decisions.

    See Also
    --------
    kdey.CC : Count the decisions of a classifier.
    kdey.PCC : Mean posterior of a classifier.

    References
    ----------
    Bella, A., Ferri, C., Hernández-Orallo, J. and Ramírez-Quintana, M. J. (2010).
    Quantification via probability estimators. IEEE International Conference on Data Mining.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import PACC
    >>> X, y = load_iris(return_X_y=True)
    >>> q = PACC().fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    _crisp = False


class Friedman(AggregativeQuantifier):
    """Friedman's method: counts posteriors that reach the training prevalence (FM).

    As :class:`ACC`, with k indicators per instance in the place of one decision: whether the
    posterior of class i is at least the training prevalence of class i (Friedman, 2014).

    See Also
    --------
    kdey.ACC : Count decisions and adjust by error rates.
    kdey.PACC : Adjust mean posteriors.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import Friedman
    >>> X, y = load_iris(return_X_y=True)
    >>> q = Friedman().fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    def row_spec(self) -> FriedmanMap:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return FriedmanMap()

    def matching(self) -> MatchMeans:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MatchMeans()


class RLLS(TunedQuantifier, AggregativeQuantifier):
    r"""Regularised learning under label shift (Azizzadenesheli et al., 2019).

    .. math:: \min_{\alpha \in \Delta} \tfrac12 \| M \alpha - q \|^2
              + \tfrac{\tau}{2} \sum_i (\alpha_i / \pi_i - 1)^2

    :class:`ACC` or :class:`PACC` with the ratios to the training prevalence :math:`\pi` pulled
    towards one, which helps if few labels leave M uncertain. The paper penalises by norms that are
    not squared; the squares have the same purpose, and a certified solution on the simplex.

    Parameters
    ----------
    strength : float, "finite-sample" or "auto"
        :math:`\tau`: a number, the paper's rule for the number of training instances
        (:class:`~kdey.matching.sqp.ShrunkRatios`), or chosen at ``fit`` by the error on
        held-out bags; ``tuning_`` then holds what was tried.
    crisp : bool
        Whether rows are decisions, as in the paper, instead of posteriors.

    See Also
    --------
    kdey.PACC : Adjust mean posteriors.
    kdey.ACC : Count decisions and adjust by error rates.

    References
    ----------
    Azizzadenesheli, K., Liu, A., Yang, F. and Anandkumar, A. (2019). Regularized learning for
    domain adaptation under label shifts. International Conference on Learning Representations.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import RLLS
    >>> X, y = load_iris(return_X_y=True)
    >>> q = RLLS().fit(X[::2], y[::2])
    >>> X_bag = X[1::2][y[1::2] < 2]  # the third class is absent
    >>> q.predict(X_bag).round(1)
    array([0.5, 0.5, 0. ])
    """

    strength: float | str = "finite-sample"
    crisp: bool = False

    _chosen_at_fit = "strength"

    def row_spec(self) -> PosteriorMap:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return PosteriorMap(crisp=bool(self.crisp), adjusted=True)

    def matching(self) -> Penalised:
        """Return the matching for the parameters; raises ValueError if they are invalid.

        A strength that is "auto" is that of the finite-sample rule until ``fit`` has chosen it.
        """
        self._plan()
        if not isinstance(self.strength, str):
            return self._penalised(self.strength)
        check_choice(self.strength, "strength", ["finite-sample", "auto"])
        return self._penalised(None)

    def _penalised(self, strength: float | None) -> Penalised:
        return ShrunkRatios(MatchMeans(), strength)

    @property
    def _chooses_matching(self) -> bool:
        return self._tunes


class _Thresholds(AggregativeQuantifier):
    """Adjusted counting at thresholds that are chosen on the training posteriors."""

    max_classes = 2
    _policy: ClassVar[str]

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return ThresholdMap(self._policy)

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        return MatchMeans()


class T50(_Thresholds):
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


class MAX(_Thresholds):
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


class ThresholdX(_Thresholds):
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


class MS(_Thresholds):
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

    _policy = "all"

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
