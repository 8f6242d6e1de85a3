r"""A trained network from the mean row of a bag to its prevalence, as plain arrays.

.. math:: \hat\alpha = \mathrm{softmax}(W_3 \, r(W_2 \, r(W_1 z + b_1) + b_2) + b_3), \qquad
          z = (q - m) / s

where q is the mean row of the bag, m and s are the mean and the spread of such rows over the
training bags, and r sets negative numbers to zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kdey.bags import Array


@dataclass(frozen=True, eq=False)
class Network:
    """The parameters of a trained network.

    Attributes
    ----------
    centre, spread : arrays of shape (d,)
        Mean and spread of the mean rows of the training bags.
    weights : tuple of arrays of shape (n_out, n_in)
        One per layer.
    biases : tuple of arrays of shape (n_out,)
    """

    centre: Array
    spread: Array
    weights: tuple[Array, ...]
    biases: tuple[Array, ...]

    def __call__(self, means: Array) -> Array:
        """Return the prevalences of bags from their mean rows.

        Parameters
        ----------
        means : array of shape (n_bags, d)

        Returns
        -------
        array of shape (n_bags, k)
        """
        z = (means - self.centre) / self.spread
        for weights, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            z = np.maximum(z @ weights.T + bias, 0.0)
        logits = z @ self.weights[-1].T + self.biases[-1]
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))
