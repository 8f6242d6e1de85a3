"""A fitted quantifier prepared to answer for one bag of posteriors after the other.

``aggregate`` takes whatever holds posteriors: lists, data frames with named columns, tensors. A
service that scores small bags all day has float arrays, and finding that out is half of the time
that such a bag takes. :class:`Aggregator` looks at float arrays in one native pass and leaves
everything else, bad input included, to the model, so that answers and messages are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kdey.bags import Array, Bags
from kdey.matching.base import Solution
from kdey.model import AnyModel, Model, Place
from kdey.simplex import on_simplex

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class Aggregator:
    """The prevalence of one bag of posteriors after the other, from a fitted quantifier.

    Made by the method ``aggregator`` of a quantifier. It keeps answering for the
    fit that it was made from when the quantifier is fitted again, can be shared by threads, and
    can be pickled.

    Parameters
    ----------
    model : model on posteriors
    place : Place

    Attributes
    ----------
    classes : array of shape (k,)
        The labels, in the order of the prevalences.
    """

    def __init__(self, model: AnyModel, place: Place) -> None:
        self._model, self._place = model, place
        model.prepare(place)
        self.classes = model.classes
        # Scores of several models side by side do not sum to one, tensors go to a device, and
        # members have posteriors of their own.
        single = isinstance(model, Model) and model.n_score_columns == len(self.classes)
        self._takes_arrays = place.is_host and single
        self._one_bag = model.one_bag(place)
        self._bag = Bags.whole(1)  # the last bag, because sizes often repeat

    def __call__(self, posteriors: Any) -> Array:
        """Return the prevalences of a bag, as ``aggregate`` does.

        Parameters
        ----------
        posteriors : array of shape (m, k)
            C-contiguous arrays of float32 or float64 are the fast case; ``aggregate`` says what
            else is allowed.

        Returns
        -------
        prevalence : array of shape (k,)

        Raises
        ------
        ValueError
            If there is no row, another number of columns, or a row that is not on the simplex.
        """
        if self._one_bag is not None:
            answer = self._one_bag(posteriors)
            if answer is not None:
                return answer
        prevalence: Array = self.solve(posteriors).prevalence[0]
        return prevalence

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the model alone: what was prepared may not be pickled."""
        return Aggregator, (self._model, self._place)

    def solve(self, posteriors: Any) -> Solution:
        """Return the prevalence with its objective and gap, as ``solve_posteriors`` does."""
        p = posteriors
        if not (self._takes_arrays and self._is_checked(p)):
            p = self._model.given(p, self._place)
        bag = self._bag
        if bag.pool_size != len(p):
            self._bag = bag = Bags.whole(len(p))
        return self._model.solver(p, self._place)(bag)

    def _is_checked(self, posteriors: Any) -> bool:
        """Return whether posteriors are an array that needs no further look."""
        return (
            type(posteriors) is np.ndarray  # a masked array is another type
            and posteriors.ndim == 2
            and posteriors.dtype in _FLOATS
            and posteriors.shape[1] == len(self.classes)
            and on_simplex(posteriors)
        )
