"""Ensemble: one quantifier fitted on training bags of different prevalences (EHDy)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from kdey.bags import Array, Bags
from kdey.matching.base import Solution
from kdey.metrics import absolute_error
from kdey.model import Combination, CombinedModel, CombinedPoints, Floats, Pool
from kdey.posteriors import ClassifierStage
from kdey.quantifiers.composed import QuantifierLike
from kdey.quantifiers.wrappers import Part, WrapperQuantifier, combined_solution
from kdey.rows.histogram import HistogramRows
from kdey.simplex import sample_uniform
from kdey.tables.schema import TableSchema
from kdey.validation import check_choice

Indices = NDArray[np.int64]
_REDUCTIONS = ("mean", "median")
_SELECTIONS = ("all", "prevalence", "accuracy", "distribution")
#: Bins per class of the histograms by which training bags are compared with a bag.
_BINS = 8


@dataclass(frozen=True, eq=False)
class Votes(Combination):
    """The mean or median of members, or of those that suit a bag.

    Attributes
    ----------
    reduction : {"mean", "median"}
    selection : {"all", "prevalence", "accuracy", "distribution"}
    n_kept : int
        How many members a selection for each bag keeps.
    selected : array of the numbers of the members that are used at all
    prevalences : array of shape (n_members, k)
        Of the training bags.
    histograms : array of shape (n_members, k, n_bins) or None
        Of the posteriors of the training bags.
    reference_classifier : classifier or None
        Gives the posteriors by which bags are compared.
    """

    reduction: str
    selection: str
    n_kept: int
    selected: NDArray[np.int64]
    prevalences: Array
    histograms: Array | None = None
    reference_classifier: Any = None

    def combine(self, parts: list[Solution], points: CombinedPoints, bags: Bags) -> Solution:
        """Return the mean or median of the members that are kept for each bag."""
        votes = np.stack([part.prevalence for part in parts])
        keep = np.zeros(votes.shape[:2], dtype=np.bool_)
        keep[self.selected] = True
        if self.selection == "prevalence":
            first = self._reduce(votes, keep)
            keep = self._nearest(np.abs(self.prevalences[:, None, :] - first).sum(axis=2))
        elif self.histograms is not None and points.posteriors is not None:
            own = _histograms(points.posteriors, bags)
            keep = self._nearest(_hellinger(self.histograms, own))
        return combined_solution(self._reduce(votes, keep), parts)

    def _nearest(self, distance: Array) -> NDArray[np.bool_]:
        """Return which members are used for which bag, from distances (n_members, n_bags)."""
        rank = distance.argsort(axis=0, kind="stable").argsort(axis=0)
        return np.asarray(rank < self.n_kept)

    def _reduce(self, votes: Array, keep: NDArray[np.bool_]) -> Array:
        kept = np.where(keep[:, :, None], votes, np.nan)
        reduce = np.nanmean if self.reduction == "mean" else np.nanmedian
        merged = reduce(kept, axis=0)
        return np.asarray(merged / merged.sum(axis=1, keepdims=True))


class Ensemble(WrapperQuantifier):
    """Many copies of a quantifier, fitted on training bags of different prevalences.

    Training prevalences are drawn uniformly from the simplex (Pérez-Gállego, Quevedo and
    del Coz, 2017; with HDy inside it is EHDy).

    Parameters
    ----------
    quantifier : quantifier
        Cloned for every member.
    n_members : int
    size : int, optional
        Instances per training bag; default: the size of the training set.
    min_per_class : int
        Smallest number of instances of each class in a bag (drawn with replacement if the class
        has fewer).
    reduction : {"mean", "median"}
    selection : {"all", "prevalence", "accuracy", "distribution"}
        Which members are averaged. "prevalence": for each bag, those whose training prevalence is
        closest to a first estimate by all of them. "accuracy": at ``fit``, those with the smallest
        absolute error on the training bags of the others. "distribution": for each bag, those
        whose training bag has the most similar posteriors, by the mean Hellinger distance of
        histograms; posteriors come from a cross-validated logistic regression, or are those given
        to ``fit_posteriors`` (Pérez-Gállego, Castaño, Quevedo and del Coz, 2019).
    n_selected : int, optional
        How many members a selection keeps; default: half of them.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Number of members fitted in parallel.

    Attributes
    ----------
    model_ : :class:`~kdey.model.CombinedModel`
        Its ``combination`` has the prevalences of the training bags, and the numbers of the members
        that "accuracy" keeps.

    See Also
    --------
    kdey.Median : Median over settings of a method.
    kdey.Quantifier : Several classifiers and methods combined; the default choice.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import PACC, Ensemble
    >>> X, y = load_iris(return_X_y=True)
    >>> q = Ensemble(PACC(), n_members=3, random_state=0).fit(X[::2], y[::2])
    >>> q.predict(X[1::2][y[1::2] < 2]).round(1)
    array([0.5, 0.5, 0. ])
    """

    draws_at_fit = True

    def __init__(
        self,
        quantifier: QuantifierLike,
        *,
        n_members: int = 30,
        size: int | None = None,
        min_per_class: int = 5,
        reduction: str = "mean",
        selection: str = "all",
        n_selected: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.quantifier = quantifier
        self.n_members = n_members
        self.size = size
        self.min_per_class = min_per_class
        self.reduction = reduction
        self.selection = selection
        self.n_selected = n_selected
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _parts(
        self, quantifier: QuantifierLike, codes: Indices, classes: NDArray[Any]
    ) -> list[Part]:
        """Draw the training bags."""
        self._check_parameters()
        rng, k = check_random_state(self.random_state), len(classes)
        # RandomState is scikit-learn's convention; the simplex draws from a Generator.
        generator = np.random.default_rng(rng.randint(2**31 - 1))
        prevalences = sample_uniform(k, self.n_members, generator)
        size = len(codes) if self.size is None else self.size
        members = [np.flatnonzero(codes == i) for i in range(k)]
        counts = np.maximum(np.round(prevalences * size).astype(np.int64), self.min_per_class)
        parts = []
        for row in counts:
            pairs = zip(members, row, strict=True)
            rows = np.concatenate([generator.choice(m, n, replace=n > len(m)) for m, n in pairs])
            parts.append(Part(quantifier, classes[codes[rows]], rows))
        return parts

    def _check_parameters(self) -> None:
        check_choice(self.reduction, "reduction", _REDUCTIONS)
        check_choice(self.selection, "selection", _SELECTIONS)
        for name in ("n_members", "min_per_class", "size", "n_selected"):
            value = getattr(self, name)
            optional = name in ("size", "n_selected") and value is None
            if not optional and not (isinstance(value, int | np.integer) and value >= 1):
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
        if self.n_selected is not None and self.n_selected > self.n_members:
            raise ValueError(
                f"n_selected must be at most n_members={self.n_members}, got {self.n_selected}"
            )

    def _combination(self, classes: NDArray[Any]) -> Votes:
        kept = max(1, self.n_members // 2) if self.n_selected is None else int(self.n_selected)
        everybody = np.arange(self.n_members)
        unknown = np.full((self.n_members, len(classes)), np.nan)  # until bags are drawn
        return Votes(self.reduction, self.selection, kept, everybody, unknown)

    def _completed(
        self,
        model: CombinedModel,
        parts: Sequence[Part],
        codes: Indices,
        points: CombinedPoints | Pool,
        sample_weight: Array | None,
    ) -> CombinedModel:
        """Describe the training bags, and select members by their accuracy on those of others."""
        votes, k = model.combination, model.n_classes
        assert isinstance(votes, Votes)
        draws = [np.asarray(part.rows) for part in parts]
        bags = Bags.from_indices(draws, len(codes))
        counts = np.stack([np.bincount(codes[draw], minlength=k) for draw in draws])
        votes = replace(votes, prevalences=counts / counts.sum(axis=1, keepdims=True))
        if self.selection == "distribution":
            if isinstance(points, Pool):
                stage = self._reference_stage(model.table_schema)
                fitted = stage.fit(points.X, codes, model.classes, sample_weight, self.n_jobs)
                posteriors: Floats = fitted.training.required()
                votes = replace(votes, reference_classifier=fitted.classifier)
            else:
                posteriors = points.posteriors
            votes = replace(votes, histograms=_histograms(posteriors, bags))
        if self.selection == "accuracy":
            known = model.points(points) if isinstance(points, Pool) else points
            votes = replace(votes, selected=_most_accurate(model, votes, known, bags))
        return replace(model, combination=votes)

    def _reference_stage(self, schema: TableSchema | None) -> ClassifierStage:
        """Return the classifier by which bags are compared, with its folds."""
        from sklearn.linear_model import LogisticRegression  # slow to import

        classifier: Any = LogisticRegression(max_iter=1000)
        if schema is not None:
            from kdey.tables.features import prepare, reading_tables

            classifier = reading_tables(prepare(classifier, schema.kinds), schema)
        return ClassifierStage(classifier, 5, 0)


def _most_accurate(
    model: CombinedModel, votes: Votes, points: CombinedPoints, bags: Bags
) -> NDArray[np.int64]:
    """Return the members with the smallest error on the training bags of the others."""
    errors = np.stack(
        [
            absolute_error(votes.prevalences, member.solver(part)(bags).prevalence)
            for member, part in zip(model.members, points.parts, strict=True)
        ]
    )
    np.fill_diagonal(errors, 0.0)  # a member is not judged by its own training bag
    best = np.argsort(errors.sum(axis=1), kind="stable")[: votes.n_kept]
    return np.sort(best)


def _histograms(posteriors: NDArray[np.floating], bags: Bags) -> Array:
    """Return the histograms of each bag, one per class, shape (n_bags, k, n_bins)."""
    codes = np.minimum((np.asarray(posteriors) * _BINS).astype(np.int64), _BINS - 1)
    return HistogramRows(codes, _BINS, cumulative=False).mean(bags).reshape(len(bags), -1, _BINS)


def _hellinger(members: Array, bags: Array) -> Array:
    """Return the Hellinger distance of histograms, averaged over classes, (n_members, n_bags)."""
    differences = np.sqrt(members)[:, None] - np.sqrt(bags)
    return np.asarray(np.sqrt((differences**2).sum(axis=3)).mean(axis=2))
