"""Training: the losses are the metrics, and what does best on validation bags is kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.histogram_network import LOSSES, NetworkMap, losses, train
from kdey.metrics import get_metric


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_the_metrics(name):
    rng = np.random.default_rng(0)
    true, estimated = (rng.dirichlet(np.ones(4), 6) for _ in range(2))
    wanted = get_metric(name)(true, estimated, bag_size=50)
    found = losses(50.0)[name](torch.from_numpy(estimated), torch.from_numpy(true))
    np.testing.assert_allclose(found.numpy(), wanted)


def bags(seed, n=300):
    """Return bags whose mean rows are a blurred image of their prevalences."""
    rng = np.random.default_rng(seed)
    prevalences = rng.dirichlet(np.ones(3), n)
    means = prevalences @ BLUR
    return means + 0.01 * rng.normal(size=means.shape), prevalences


BLUR = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
PLAN = NetworkMap(n_hidden=16, n_epochs=30, learning_rate=0.02)


def error(network, held):
    means, prevalences = held
    return float(np.abs(network.answer(means) - prevalences).mean())


def test_it_learns_to_invert():
    network = train(bags(0), bags(1, 60), 100.0, PLAN)
    fresh = bags(2)
    assert error(network, fresh) < 0.3 * float(np.abs(fresh[1] - 1 / 3).mean())


def test_seeds_and_the_global_generator():
    torch.manual_seed(3)
    wanted = torch.rand(1)
    torch.manual_seed(3)
    spec = NetworkMap(n_hidden=8, n_epochs=2, seed=5)
    first, second = (train(bags(0, 80), bags(1, 20), 100.0, spec) for _ in range(2))
    assert torch.rand(1) == wanted
    for a, b in zip(first.weights, second.weights, strict=True):
        np.testing.assert_array_equal(a, b)
    again = NetworkMap(n_hidden=8, n_epochs=2, seed=6)
    other = train(bags(0, 80), bags(1, 20), 100.0, again)
    assert not np.array_equal(other.weights[0], first.weights[0])


def test_the_best_pass_is_kept():
    # Validation bags of another kind: the longer the training, the worse.
    rng = np.random.default_rng(0)
    training, other = bags(0), bags(1, 60)
    scrambled = other[0], other[1][rng.permutation(60)]
    kept = train(training, scrambled, 100.0, PLAN)
    last = train(training, other, 100.0, PLAN)
    assert error(kept, scrambled) < error(last, scrambled)
