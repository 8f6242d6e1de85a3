"""Methods that count decisions, from labels that somebody else decided."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import ArrayLike

from kdey.bags import Array, BagsLike
from kdey.classifiers import one_hot
from kdey.intervals import Estimate, Estimates
from kdey.quantifiers.aggregative import AggregativeQuantifier
from kdey.validation import training_labels


class DecisionsMixin(AggregativeQuantifier):
    """Methods for labels that were decided elsewhere: by rules, people or a language model."""

    def fit_decisions(
        self,
        decisions: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
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

        Raises
        ------
        ValueError
            If a decision is not among the classes.
        """
        known = training_labels(y, classes)[1]
        return self.fit_posteriors(one_hot(decisions, known), y, sample_weight, classes=known)

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
        """As :meth:`aggregate_decisions` with limits, for one bag or for many.

        Bags and options are those of ``estimate_posteriors``.
        """
        rows = one_hot(decisions, self._fitted_model().classes)
        return self.estimate_posteriors(rows, bags, sample_weight, **options)
