"""Quantifiers from parts: rows and matchings, decisions, penalties, other libraries."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from kdey.bags import Array, BagsLike
from kdey.classifiers import one_hot
from kdey.intervals import Estimate, Estimates
from kdey.matching import AnyMatching, Composite, Matching
from kdey.matching.sqp import SmoothShares
from kdey.matching.squares import Mean
from kdey.model import AnyModel, BagSolver, ForeignModel, Scored
from kdey.native import thread_count
from kdey.posteriors import ClassifierStage
from kdey.quantifiers import AggregativeQuantifier, FeatureQuantifier, RowQuantifier
from kdey.quantifiers.base import BaseQuantifier, shares_of
from kdey.rows import RowSpec
from kdey.tables.schema import TableSchema
from kdey.tuning import STRENGTHS
from kdey.tuning.trials import TuningPlan
from kdey.validation import check_choice, refuse_masked, training_labels


def compose(
    rows: RowSpec,
    matching: AnyMatching,
    classifier: Any = None,
    *,
    on: str = "posteriors",
    cv: Any = 5,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> RowQuantifier:
    """Return the method that turns instances into ``rows`` and solves them by ``matching``.

    It is an estimator as all others are: intervals, groups, evaluation, search and model files
    work. ``docs/tutorials/researcher.md`` has examples.

    Parameters
    ----------
    rows : RowSpec
        What an instance and a class contribute (``kdey.rows``). A spec that chooses a parameter,
        such as :class:`~kdey.tuning.AutomaticChoice`, does so at ``fit``.
    matching : Matching
        The problem made of them, and its solver (``kdey.matching``).
    classifier : scikit-learn classifier, optional
        Default: ``LogisticRegression(max_iter=1000)``. Not allowed on features.
    on : {"posteriors", "features"}
        What rows are made of.
    cv : int, splitter, iterable of splits or float
        How the training posteriors are made: cross-validation, or a held-out fraction.
    random_state : int, RandomState or None
        Seed of the shuffling of folds and of all other random draws of the method.
    n_jobs : int, optional
        Number of classifier fits in parallel, and of threads of the native core.

    Returns
    -------
    Composed or ComposedOnFeatures
        Unfitted.

    Raises
    ------
    TypeError
        If ``rows`` is no row spec or ``matching`` no matching.
    ValueError
        If ``on`` is unknown, or a classifier is given for features.

    See Also
    --------
    kdey.KDEyML : Kernel densities by maximum likelihood.
    kdey.PACC : Adjust mean posteriors.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import compose
    >>> from kdey.matching.squares import MatchMeans
    >>> from kdey.rows.histogram import HistogramMap
    >>> X, y = load_iris(return_X_y=True)
    >>> q = compose(HistogramMap(8), MatchMeans()).fit(X[::2], y[::2])
    >>> q.predict(X[1::2][y[1::2] < 2]).round(1)
    array([0.5, 0.5, 0. ])
    """
    _check_parts(rows, matching)
    check_choice(on, "on", ["posteriors", "features"])
    given = {"rows": rows, "matched_by": matching, "random_state": random_state, "n_jobs": n_jobs}
    if on == "posteriors":
        return Composed(classifier, cv=cv, **given)
    if classifier is not None:
        raise ValueError('a method on="features" has no classifier: leave it out')
    return ComposedOnFeatures(**given)


class _FromParts(RowQuantifier):
    """A method whose rows and matching are parameters."""

    rows: RowSpec
    matched_by: AnyMatching

    def row_spec(self) -> RowSpec:
        """Return the rows; raises TypeError if they are no row spec."""
        _check_parts(self.rows, self.matched_by)
        return self.rows

    def matching(self) -> AnyMatching:
        """Return the matching."""
        return self.matched_by


class Composed(_FromParts, AggregativeQuantifier):
    """A method on posteriors made of its parts; see :func:`compose`.

    Parameters
    ----------
    rows : RowSpec
        What an instance and a class contribute.
    matched_by : Matching
        The problem made of them, and its solver.
    """


class ComposedOnFeatures(_FromParts, FeatureQuantifier):
    """A method on features made of its parts; see :func:`compose`.

    Parameters
    ----------
    rows : RowSpec
    matched_by : Matching
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads of the native core.
    """

    random_state: Any = None


def _check_parts(rows: Any, matching: Any) -> None:
    if not isinstance(rows, RowSpec):
        raise TypeError(f"rows must be a row spec, such as PosteriorMap(...), got {rows!r:.80}")
    if not isinstance(matching, Matching):
        raise TypeError(f"matching must be a matching, such as MatchMeans(), got {matching!r:.80}")


class DecisionsMixin(AggregativeQuantifier):
    """Methods for labels that were decided elsewhere: by rules, people or a language model."""

    def fit_decisions(
        self,
        decisions: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Learn how often instances of each class are decided for which class.

        Parameters
        ----------
        decisions : array-like of shape (n,)
            Decided labels of instances whose true labels are known and were not known to whoever
            decided.
        y : array-like of shape (n,)
            True labels.
        sample_weight : array-like of shape (n,), optional
        classes : array-like of shape (k,), optional
            The classes, sorted; by default the labels that occur in ``y``.
        clusters : array-like of shape (n,), optional
            Id of the cluster in which each instance was drawn; see :meth:`fit_posteriors`.

        Raises
        ------
        ValueError
            If a decision is not among the classes.
        """
        known = training_labels(y, classes)[1]
        rows, drawn = one_hot(decisions, known), {"classes": known, "clusters": clusters}
        return self.fit_posteriors(rows, y, sample_weight, **drawn)

    def aggregate_decisions(
        self, decisions: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Array:
        """Return the prevalences of a bag from the decided labels of its instances, shape (k,)."""
        classes = self._fitted_model().classes
        return self.aggregate(one_hot(decisions, classes), sample_weight)

    def estimate_decisions(
        self,
        decisions: ArrayLike,
        bags: BagsLike | None = None,
        sample_weight: ArrayLike | None = None,
        **options: Any,
    ) -> Estimate | Estimates:
        """As :meth:`aggregate_decisions` with intervals, for one bag or for many.

        Bags and options are those of ``estimate_posteriors``.
        """
        rows = one_hot(decisions, self._fitted_model().classes)
        return self.estimate_posteriors(rows, bags, sample_weight, **options)


class QuantifierLike(Protocol):
    """Anything with ``fit`` and ``predict`` for bags: quantifiers of kdey or of other libraries."""

    def fit(self, X: Any, y: Any) -> Any:
        """Fit on instances ``X`` with labels ``y``."""

    def predict(self, X: Any) -> Any:
        """Return the prevalences of the bag of all instances of ``X``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, as scikit-learn's estimators do."""


class ForeignQuantifier(BaseQuantifier):
    """Adapter for objects with ``predict_bags(X, bags)`` or ``predict(X)``.

    See :class:`~kdey.model.ForeignModel` for its answers.

    Parameters
    ----------
    quantifier : object
        Not cloned; ``fit`` fits it in place.
    classes : array-like of shape (k,), optional
        The labels of its prevalences, in their order, if it has no ``classes_``; by default the
        sorted labels of ``fit``.
    """

    quantifier: Any = field(kw_only=False)
    classes: ArrayLike | None = field(default=None, kw_only=False)

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Fit the quantifier inside, which must take weights and clusters if they are given."""
        given = {"sample_weight": sample_weight, "clusters": clusters}
        extra = {name: value for name, value in given.items() if value is not None}
        self.quantifier.fit(X, y, **extra)
        codes, known = training_labels(y, self.classes)
        self._training = known, shares_of(codes, None, len(known))
        return self

    @property
    def model_(self) -> ForeignModel:  # type: ignore[override]
        """The quantifier inside, with its classes, or the labels that it was fitted on."""
        fallback, shares = vars(self).get("_training", (self.classes, None))
        classes = getattr(self.quantifier, "classes_", fallback)
        if classes is None:
            raise AttributeError(
                f"{type(self.quantifier).__name__} has no classes_: fit it first, and if it never "
                "has them, set them to the sorted labels in fit"
            )
        known = np.asarray(classes)
        prevalence = np.full(len(known), np.nan) if shares is None else shares
        return ForeignModel(known, prevalence, self.quantifier)

    def _fitted_model(self) -> AnyModel:
        return self.model_

    def _check_points(self, X: Any) -> None:
        """Leave the check of features to the quantifier inside, which knows its training data."""
        refuse_masked(X, "X")


def as_quantifier(quantifier: QuantifierLike, classes: ArrayLike | None = None) -> BaseQuantifier:
    """Return a quantifier of kdey unchanged, and any other object wrapped.

    Parameters
    ----------
    quantifier : quantifier
    classes : array-like of shape (k,), optional
        The labels that it was fitted on, for objects without ``classes_``.
    """
    if isinstance(quantifier, BaseQuantifier):
        return quantifier
    return ForeignQuantifier(quantifier, classes)


def pool_solver(
    quantifier: QuantifierLike, X: Any, n_jobs: int | None = None, scored: Scored | None = None
) -> BagSolver:
    """Do the work per instance of a pool; return the map from bags to their solutions.

    Parameters
    ----------
    quantifier : fitted quantifier
    X : instances of the pool
    n_jobs : int, optional
        Native threads; overrides the ``n_jobs`` of the quantifier.
    scored : dict, optional
        Posteriors of these instances, which quantifiers with the same classifier share.
    """
    shell = as_quantifier(quantifier)
    model, place = shell._fitted_model(), shell._place()
    shell._check_points(X)
    if n_jobs is not None:
        place = replace(place, n_threads=thread_count(n_jobs))
    return model.solver(model.points(X, scored), place)


def read_training(
    quantifier: QuantifierLike, X: Any
) -> tuple[QuantifierLike, Any, TableSchema | None]:
    """Return a quantifier, its training instances, and the schema of their table.

    Quantifiers of other libraries, and those that do not read tables by a schema, are returned as
    they are, with None for the schema.
    """
    reader, features, schema = as_quantifier(quantifier)._read_training(X)
    return (quantifier, X, None) if schema is None else (reader, features, schema)


def check_is_quantifier(quantifier: Any) -> None:
    """Raise TypeError unless ``quantifier`` is an instance with ``fit`` and ``predict``."""
    if isinstance(quantifier, type):
        name = quantifier.__name__
        raise TypeError(f"quantifier must be an instance, got the class {name}: pass {name}(...)")
    needed = ("fit", "predict", "get_params", "set_params")
    absent = [name for name in needed if not callable(getattr(quantifier, name, None))]
    if absent:
        raise TypeError(
            f"quantifier must have {', '.join(needed)}, but {quantifier!r:.60} has no "
            f"{', '.join(absent)}; get_params and set_params come with sklearn.base.BaseEstimator"
        )


class Ordered(AggregativeQuantifier):
    r"""A method for ordered classes: neighbouring classes have similar prevalences.

    .. math:: \min_{\alpha \in \Delta} f(\alpha)
              + \tfrac{\tau}{2} \sum_{i=2}^{k-1} (\alpha_{i-1} - 2 \alpha_i + \alpha_{i+1})^2

    with f the objective of ``quantifier``. ``Ordered(ACC())`` and ``Ordered(PACC())`` are the
    Tikhonov-regularised o-ACC and o-PACC of Bunse et al. (2022); ``Ordered(EMQ())`` and
    ``Ordered(KDEyML())`` maximise a penalised likelihood. (The o-SLD of that paper smooths every
    step of EM by a polynomial instead, which minimises no function.) All are convex and certified.

    Shares that really are rough (all items in the middle class, none beside it) are pulled towards
    a smooth curve, and the intervals do not know of it: take the method without the penalty there.

    The order is that of ``classes_``, which are sorted: number the classes if their names do not
    sort in their order. Two classes have no second difference, and the penalty vanishes.

    Parameters
    ----------
    quantifier : AggregativeQuantifier
        A method with a convex problem: ACC, PACC, EMQ, DIR, KDEyML, KDEyL2, KDEyHD, EDy, DM with an
        f-divergence; or a pool of several, Quantifier.
    strength : float or "auto"
        :math:`\tau`. "auto": chosen at ``fit`` by the error on smooth bags from held-out parts of
        the training posteriors, after a bandwidth that is itself "auto".
    tune_for : str
        The error that the automatic choice minimises; the match distance respects the order.
    tune_bag_size : int
        Expected size of bags, for the automatic choice.
    tune_smoothest : float
        Bags of the automatic choice have prevalences from the smoothest part of the simplex, of
        this share (:func:`kdey.simplex.sample_smooth`).

    Attributes
    ----------
    tuning_ : :class:`~kdey.tuning.Tuning` of the strength, or None if it was a number

    See Also
    --------
    kdey.PACC : Adjust mean posteriors.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import PACC, Ordered
    >>> X, y = load_iris(return_X_y=True)
    >>> q = Ordered(PACC(), strength=0.001).fit(X[::2], y[::2])
    >>> q.predict(X[1::2]).round(1)
    array([0.3, 0.3, 0.3])
    """

    orders_classes = True

    def __init__(
        self,
        quantifier: AggregativeQuantifier,
        *,
        strength: float | str = "auto",
        tune_for: Any = "nmd",
        tune_bag_size: int = 500,
        tune_smoothest: float = 0.2,
    ) -> None:
        self.quantifier = quantifier
        self.strength = strength
        self.tune_for = tune_for
        self.tune_bag_size = tune_bag_size
        self.tune_smoothest = tune_smoothest

    @property
    def _inner(self) -> AggregativeQuantifier:
        """The quantifier inside; raises TypeError if it has no rows and matching."""
        if not isinstance(self.quantifier, AggregativeQuantifier):
            raise TypeError(
                "quantifier must be a method on posteriors with rows and a matching, such as "
                f"PACC() or KDEyML(), got {self.quantifier!r:.80}"
            )
        return self.quantifier

    @property  # type: ignore[misc]
    def cv(self) -> Any:
        """How the training posteriors are made."""
        return self._inner.cv

    @property  # type: ignore[misc]
    def random_state(self) -> Any:
        """The seed of the quantifier inside."""
        return self._inner.random_state

    @property  # type: ignore[misc]
    def n_jobs(self) -> int | None:  # type: ignore[override]
        """Number of classifier fits in parallel, and of threads."""
        return self._inner.n_jobs

    @property
    def max_classes(self) -> int | None:  # type: ignore[override]
        """Largest number of classes that the quantifier inside handles."""
        return self._inner.max_classes

    def _check_n_classes(self, k: int) -> None:
        """Raise ValueError if the quantifier inside does not handle ``k`` classes."""
        if self.max_classes is not None and k > self.max_classes:
            raise ValueError(
                f"{type(self._inner).__name__} is for two classes, and y has {k}: an order needs a "
                "method for all of them at once, such as PACC, EMQ or KDEyML"
            )

    @property
    def _needs_posteriors(self) -> bool:
        """Whether ``fit`` needs training posteriors, which an automatic choice does."""
        return self._tunes or self._inner._needs_posteriors

    @property
    def _draws_at_fit(self) -> bool:
        return self._tunes or self._inner._draws_at_fit

    @property
    def _tunes(self) -> bool:
        return isinstance(self.strength, str)

    @property
    def _chooses_matching(self) -> bool:
        return self._tunes

    def _inner_estimator(self) -> Any:
        return self._inner._inner_estimator()

    def _read_training(self, X: Any) -> tuple[Self, Any, TableSchema | None]:
        """Learn the schema by the quantifier inside."""
        reader, X, schema = self._inner._read_training(X)
        if reader is self._inner:
            return self, X, schema
        return clone(self).set_params(quantifier=reader), X, schema

    def _classifier_stage(self) -> ClassifierStage:
        if self._inner._needs_posteriors:
            return self._inner._classifier_stage()
        return super()._classifier_stage()  # an automatic choice needs posteriors all the same

    def _plan(self) -> TuningPlan:
        seed = self.random_state
        return TuningPlan(self.tune_for, self.tune_bag_size, seed, self.tune_smoothest)

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        return self._inner.row_spec()

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid.

        An automatic strength is the first of those that are tried until ``fit`` has chosen it.
        """
        self._plan()
        if isinstance(self.strength, str):
            check_choice(self.strength, "strength", ["auto"])
            return self._penalised(STRENGTHS[0])
        return self._penalised(self.strength)

    def _penalised(self, strength: float) -> AnyMatching:
        inner = self._inner.matching()
        if isinstance(inner, Mean):
            raise ValueError(
                f"{type(self._inner).__name__} counts, and minimises nothing that a penalty could "
                "be added to: take ACC, PACC, EMQ, KDEyML or another method that corrects"
            )
        if isinstance(inner, Composite):  # every member has the penalty
            return replace(inner, inner=SmoothShares(inner.inner, strength))
        return SmoothShares(inner, strength)
