"""Ordered classes: any convex method with a penalty on rough prevalences."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from kdey.matching.base import AnyMatching
from kdey.matching.penalty import PenalisedMap, Smoothness, penalise
from kdey.matching.squares import Mean
from kdey.posteriors import ClassifierStage
from kdey.quantifiers.aggregative import AggregativeQuantifier
from kdey.quantifiers.base import SettledTable
from kdey.rows.base import RowSpec
from kdey.tuning.automatic import AutomaticStrength
from kdey.tuning.trials import TuningPlan
from kdey.validation import check_choice


class Ordered(AggregativeQuantifier):
    r"""A method for ordered classes: neighbouring classes have similar prevalences.

    .. math:: \min_{\alpha \in \Delta} f(\alpha)
              + \tfrac{\tau}{2} \sum_{i=2}^{k-1} (\alpha_{i-1} - 2 \alpha_i + \alpha_{i+1})^2

    with f the objective of ``quantifier``. ``Ordered(ACC())`` and ``Ordered(PACC())`` are the
    Tikhonov-regularised o-ACC and o-PACC of Bunse et al. (2022); ``Ordered(EMQ())`` and
    ``Ordered(KDEyML())`` maximise a penalised likelihood. (The o-SLD of that paper smooths every
    step of EM by a polynomial instead, which minimises no function.) All are convex and certified.

    Shares that really are rough (all items in the middle class, none beside it) are pulled towards
    a smooth curve, and the limits do not know of it: take the method without the penalty there.

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
    def inner(self) -> AggregativeQuantifier:
        """The quantifier inside; raises TypeError if it has no rows and matching."""
        if not isinstance(self.quantifier, AggregativeQuantifier):
            raise TypeError(
                "quantifier must be a method on posteriors with rows and a matching, such as "
                f"PACC() or KDEyML(), got {self.quantifier!r:.80}"
            )
        return self.quantifier

    @property
    def cv(self) -> Any:
        """How the training posteriors are made."""
        return self.inner.cv

    @property
    def random_state(self) -> Any:
        """The seed of the quantifier inside."""
        return self.inner.random_state

    @property
    def n_jobs(self) -> int | None:  # type: ignore[override]
        """Number of classifier fits in parallel, and of threads."""
        return self.inner.n_jobs

    @property
    def max_classes(self) -> int | None:  # type: ignore[override]
        """Largest number of classes that the quantifier inside handles."""
        return self.inner.max_classes

    def check_n_classes(self, k: int) -> None:
        """Raise ValueError if the quantifier inside does not handle ``k`` classes."""
        if self.max_classes is not None and k > self.max_classes:
            raise ValueError(
                f"{type(self.inner).__name__} is for two classes, and y has {k}: an order needs a "
                "method for all of them at once, such as PACC, EMQ or KDEyML"
            )

    @property
    def needs_posteriors(self) -> bool:
        """Whether ``fit`` needs training posteriors, which an automatic choice does."""
        return self._tunes or self.inner.needs_posteriors

    @property
    def draws_at_fit(self) -> bool:  # type: ignore[override]
        """Whether fitting draws random numbers for more than the folds."""
        return self._tunes or self.inner.draws_at_fit

    @property
    def _tunes(self) -> bool:
        return isinstance(self.strength, str)

    def inner_estimator(self) -> Any:
        """Return the unfitted classifier of the quantifier inside."""
        return self.inner.inner_estimator()

    def settle_table(self, X: Any) -> SettledTable:
        """Settle the schema of the quantifier inside."""
        settled = self.inner.settle_table(X)
        if settled.quantifier is self.inner:
            return SettledTable(self, settled.X, settled.schema)
        ordered = clone(self).set_params(quantifier=settled.quantifier)
        return SettledTable(ordered, settled.X, settled.schema)

    def _classifier_stage(self) -> ClassifierStage:
        if self.inner.needs_posteriors:
            return self.inner.stages().classifier
        return super()._classifier_stage()  # an automatic choice needs posteriors all the same

    def row_spec(self) -> RowSpec:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        plan = TuningPlan(self.tune_for, self.tune_bag_size, self.random_state, self.tune_smoothest)
        rows = self.inner.row_spec()
        if isinstance(self.strength, str):
            check_choice(self.strength, "strength", ["auto"])
            return AutomaticStrength(rows, Smoothness, self.matching(), plan)
        return PenalisedMap(rows, Smoothness(self.strength))

    def matching(self) -> AnyMatching:
        """Return the matching for the parameters; raises ValueError if they are invalid."""
        inner = self.inner.matching()
        if isinstance(inner, Mean):
            raise ValueError(
                f"{type(self.inner).__name__} counts, and minimises nothing that a penalty could "
                "be added to: take ACC, PACC, EMQ, KDEyML or another method that corrects"
            )
        return penalise(inner)
