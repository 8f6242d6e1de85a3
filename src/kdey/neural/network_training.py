r"""A trained network from the mean row of a bag to its prevalence, as plain arrays.

.. math:: \hat\alpha = \mathrm{softmax}(W_3 \, r(W_2 \, r(W_1 z + b_1) + b_2) + b_3), \qquad
          z = (q - m) / s

where q is the mean row of the bag, m and s are the mean and the spread of such rows over the
training bags, and r sets negative numbers to zero.

It is trained by torch on bags with known prevalences. The parameters that do best on bags of
instances that training does not see are kept: bags of a small class repeat its few instances, and a
network soon knows them by heart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kdey._parallel import import_torch
from kdey.bags import Array

#: From estimated and true prevalences (B, k), as tensors, to errors (B,).
Loss: TypeAlias = Callable[[Any, Any], Any]
#: Bags per step.
_BATCH = 64
#: Share of the numbers of a layer that a training step sets to zero.
_DROPOUT = 0.2
#: Weight by which parameters shrink, relative to the step size.
_DECAY = 0.01
#: Smallest spread of a row over the training bags, so that a constant one is not divided by zero.
_SMALLEST_SPREAD = 1e-3


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


@dataclass(frozen=True)
class TrainingPlan:
    """How a network is trained.

    Attributes
    ----------
    loss : {"ae", "rae", "se", "nmd"}
        The error to minimise, of :mod:`kdey.metrics`.
    n_hidden : int
        Size of the two hidden layers.
    n_epochs : int
        Passes over the training bags.
    learning_rate : float
        Largest step size.
    seed : int
    """

    loss: str = "ae"
    n_hidden: int = 128
    n_epochs: int = 30
    learning_rate: float = 2e-3
    seed: int = 0


def train(
    training: tuple[Array, Array],
    validation: tuple[Array, Array],
    bag_size: float,
    plan: TrainingPlan,
) -> Network:
    """Return the network that does best on the validation bags among those of all passes.

    Parameters
    ----------
    training, validation : tuples of arrays of shape (n_bags, d) and (n_bags, k)
        Mean rows and prevalences of bags.
    bag_size : float
        Mean size of the training bags.
    plan : TrainingPlan

    Returns
    -------
    Network
    """
    torch = import_torch("training a network")
    rows, prevalences = training
    centre = rows.mean(axis=0)
    spread = np.maximum(rows.std(axis=0), _SMALLEST_SPREAD)

    def tensors(means: Array, truth: Array) -> tuple[Any, Any]:
        z = torch.from_numpy((means - centre) / spread).float()
        return z, torch.from_numpy(truth).float()

    # The generator of torch is global: the caller's stream of random numbers is kept.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.seed)
        layers = _layers(rows.shape[1], plan.n_hidden, prevalences.shape[1])
        loss = losses(bag_size)[plan.loss]
        best = _fit(layers, tensors(*training), tensors(*validation), loss, plan)
    return Network(centre, spread, tuple(best[0::2]), tuple(best[1::2]))


def losses(bag_size: float) -> dict[str, Loss]:
    """Return the errors of :mod:`kdey.metrics` that a network can minimise, on tensors, by name."""
    torch = import_torch("training a network")
    epsilon = 0.5 / bag_size

    def match_distance(p: Any, q: Any) -> Any:
        differences = torch.cumsum(p - q, dim=1)[:, :-1]
        return differences.abs().sum(dim=1) / max(1, p.shape[1] - 1)

    return {
        "ae": lambda p, q: (p - q).abs().mean(dim=1),
        "rae": lambda p, q: ((p - q).abs() / (q + epsilon)).mean(dim=1),
        "se": lambda p, q: ((p - q) ** 2).mean(dim=1),
        "nmd": match_distance,
    }


def _layers(n_in: int, n_hidden: int, n_out: int) -> Any:
    nn = import_torch("training a network").nn
    return nn.Sequential(
        *(nn.Linear(n_in, n_hidden), nn.ReLU(), nn.Dropout(_DROPOUT)),
        *(nn.Linear(n_hidden, n_hidden), nn.ReLU(), nn.Dropout(_DROPOUT)),
        nn.Linear(n_hidden, n_out),
    )


def _fit(
    layers: Any, training: tuple[Any, Any], validation: tuple[Any, Any], loss: Loss, plan: Any
) -> list[Array]:
    """Return the best weights and biases, layer by layer."""
    torch = import_torch("training a network")
    z, truth = training
    batch = min(_BATCH, len(z))
    n_steps = plan.n_epochs * (len(z) // batch)
    optimiser = torch.optim.AdamW(layers.parameters(), plan.learning_rate, weight_decay=_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, plan.learning_rate, total_steps=n_steps + 1
    )
    smallest, best = np.inf, _arrays(layers)
    for _ in range(plan.n_epochs):
        layers.train()
        order = torch.randperm(len(z))
        for start in range(0, len(z) - batch + 1, batch):
            rows = order[start : start + batch]
            optimiser.zero_grad()
            loss(torch.softmax(layers(z[rows]), dim=1), truth[rows]).mean().backward()
            optimiser.step()
            schedule.step()
        layers.eval()
        with torch.no_grad():
            error = float(loss(torch.softmax(layers(validation[0]), dim=1), validation[1]).mean())
        if error < smallest:
            smallest, best = error, _arrays(layers)
    return best


def _arrays(layers: Any) -> list[Array]:
    return [p.detach().double().numpy().copy() for p in layers.parameters()]
