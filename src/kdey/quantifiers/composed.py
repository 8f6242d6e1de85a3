"""Composition of a method from its parts: rows and a matching, by one call."""

from __future__ import annotations

from typing import Any

from kdey.matching.base import AnyMatching, Matching
from kdey.quantifiers.aggregative import AggregativeQuantifier, FeatureQuantifier, RowQuantifier
from kdey.rows.base import RowSpec
from kdey.validation import check_choice


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

    It is an estimator as all others are: limits, groups, evaluation, search and model files work.
    ``docs/composing.md`` has examples.

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
    >>> from kdey.matching import MatchMeans
    >>> from kdey.rows.histogram import HistogramMap
    >>> X, y = load_iris(return_X_y=True)
    >>> q = compose(HistogramMap(8), MatchMeans()).fit(X[::2], y[::2])
    >>> q.predict(X[1::2][y[1::2] < 2]).round(1)
    array([0.5, 0.5, 0. ])
    """
    _check_parts(rows, matching)
    if check_choice(on, "on", ["posteriors", "features"]) == "posteriors":
        return Composed(rows, matching, classifier, cv=cv, random_state=random_state, n_jobs=n_jobs)
    if classifier is not None:
        raise ValueError('a method on="features" has no classifier: leave it out')
    return ComposedOnFeatures(rows, matching, random_state=random_state, n_jobs=n_jobs)


class Composed(AggregativeQuantifier):
    """A method on posteriors made of its parts; see :func:`compose`.

    Parameters
    ----------
    rows : RowSpec
        What an instance and a class contribute.
    matched_by : Matching
        The problem made of them, and its solver.
    """

    def __init__(
        self,
        rows: RowSpec,
        matched_by: AnyMatching,
        classifier: Any = None,
        *,
        cv: Any = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(classifier, cv=cv, random_state=random_state, n_jobs=n_jobs)
        self.rows = rows
        self.matched_by = matched_by

    def row_spec(self) -> RowSpec:
        """Return the rows; raises TypeError if they are no row spec."""
        _check_parts(self.rows, self.matched_by)
        return self.rows

    def matching(self) -> AnyMatching:
        """Return the matching."""
        return self.matched_by


class ComposedOnFeatures(FeatureQuantifier):
    """A method on features made of its parts; see :func:`compose`.

    Parameters
    ----------
    rows : RowSpec
    matched_by : Matching
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads of the native core.
    """

    def __init__(
        self,
        rows: RowSpec,
        matched_by: AnyMatching,
        *,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.rows = rows
        self.matched_by = matched_by
        self.random_state = random_state
        self.n_jobs = n_jobs

    def row_spec(self) -> RowSpec:
        """Return the rows; raises TypeError if they are no row spec."""
        _check_parts(self.rows, self.matched_by)
        return self.rows

    def matching(self) -> AnyMatching:
        """Return the matching."""
        return self.matched_by


def _check_parts(rows: Any, matching: Any) -> None:
    if not isinstance(rows, RowSpec):
        raise TypeError(f"rows must be a row spec, such as PosteriorMap(...), got {rows!r:.80}")
    if not isinstance(matching, Matching):
        raise TypeError(f"matching must be a matching, such as MatchMeans(), got {matching!r:.80}")
