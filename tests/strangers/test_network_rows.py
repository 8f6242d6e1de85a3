"""Soft histograms, and a network as plain arrays: both without torch."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from benchmarks.histogram_network import (
    NetworkMap,
    _repeated,
    _split,
    quantile_knots,
    soft_histograms,
)
from kdey.posteriors import TrainingPosteriors


def test_a_number_at_a_knot_is_in_its_bin():
    knots = np.array([[0.0, 0.25, 1.0]])
    rows = soft_histograms(knots.T, knots)
    np.testing.assert_allclose(rows, np.eye(3))


def test_a_number_between_two_knots_is_shared():
    knots = np.array([[0.0, 0.5, 1.0], [0.0, 0.1, 0.2]])
    rows = soft_histograms(np.array([[0.25, 0.05], [0.9, 0.9]]), knots)
    np.testing.assert_allclose(rows[0], [0.5, 0.5, 0.0, 0.5, 0.5, 0.0])
    np.testing.assert_allclose(rows[1], [0.0, 0.2, 0.8, 0.0, 0.0, 1.0])  # beyond the last knot


@pytest.mark.parametrize("n_bins", [2, 5, 9])
def test_bins_sum_to_one_and_keep_the_order_of_numbers(n_bins):
    points = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    points[:20] = points[0]  # equal quantiles
    rows = soft_histograms(points, quantile_knots(points, n_bins)).reshape(50, 3, n_bins)
    np.testing.assert_allclose(rows.sum(axis=2), 1.0)
    assert (rows >= 0).all()
    places = rows @ np.arange(n_bins)
    for column in range(3):
        order = np.argsort(points[:, column], kind="stable")
        assert (np.diff(places[order, column]) >= -1e-12).all()


def test_the_network_is_the_formula():
    rng = np.random.default_rng(1)
    weights = (rng.normal(size=(4, 6)), rng.normal(size=(4, 4)), rng.normal(size=(3, 4)))
    biases = (rng.normal(size=4), rng.normal(size=4), rng.normal(size=3))
    centre, spread = rng.normal(size=6), rng.random(6) + 0.5
    network = NetworkMap(centre=centre, spread=spread, weights=weights, biases=biases)
    means = rng.normal(size=(5, 6))
    for found, q in zip(network.answer(means), means, strict=True):
        z = (q - network.centre) / network.spread
        for w, b in zip(weights[:2], biases[:2], strict=True):
            z = np.array([max(0.0, float(row @ z + c)) for row, c in zip(w, b, strict=True)])
        shares = np.exp(weights[2] @ z + biases[2])
        np.testing.assert_allclose(found, shares / shares.sum())


def test_every_class_is_trained_and_validated_on():
    labels = np.repeat([0, 1, 2], [50, 4, 1])
    training, validation = _split(labels, 3, np.random.default_rng(0))
    assert np.bincount(labels[training]).tolist() == [40, 4, 1]
    assert np.bincount(labels[validation]).tolist() == [10, 4, 1]
    assert not set(training[labels[training] == 0]) & set(validation[labels[validation] == 0])


def repeated(weights):
    labels = np.repeat([0, 1], [4, 2])
    training = TrainingPosteriors(np.full((6, 2), 0.5), labels, np.array(weights))
    return np.bincount(_repeated(training, 2, np.random.default_rng(0)), minlength=6).tolist()


def test_whole_weights_are_repetitions():
    assert repeated([3.0, 1.0, 0.0, 0.0, 1.0, 2.0]) == [3, 1, 0, 0, 1, 2]


@pytest.mark.parametrize("scale", [0.1, 1e6])
def test_other_weights_keep_the_sizes_of_classes(scale):
    # Of each class as many as have a weight, in proportion to the weights.
    assert repeated([scale, scale, scale, 0.0, 9 * scale, scale * 1e-9]) == [1, 1, 1, 0, 2, 0]


def test_without_torch(monkeypatch):
    from benchmarks.histogram_network import HistNetQ
    from kdey import APP

    monkeypatch.setitem(sys.modules, "torch", None)
    P, y = np.random.default_rng(0).dirichlet(np.ones(2), 40), np.arange(40) % 2
    with pytest.raises(ImportError, match=r"training a network needs torch: pip install"):
        HistNetQ(protocol=APP(10, 10)).fit_posteriors(P, y)
