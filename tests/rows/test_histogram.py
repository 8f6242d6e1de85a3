"""Histogram rows against np.histogram."""

from __future__ import annotations

import numpy as np
import pytest

from kdey.bags import Bags
from kdey.posteriors import TrainingPosteriors
from kdey.rows import histogram
from kdey.rows.histogram import HistogramMap

from .cases import posteriors, repeated, training


def shares(values, n_bins, low=0.0, high=1.0, weights=None):
    counts = np.histogram(np.clip(values, low, high), n_bins, (low, high), weights=weights)[0]
    return counts / counts.sum()


@pytest.mark.parametrize("n_bins", [2, 8, 13, 64])
@pytest.mark.parametrize("cumulative", [False, True])
def test_posteriors(n_bins, cumulative):
    given = training(3, weighted=True)
    bag = np.vstack([posteriors(3, 50, 1)[0], np.eye(3)])  # zeros and ones exactly
    made = HistogramMap(n_bins, cumulative).fit(given, 3)
    found = made(bag).mean(Bags.whole(len(bag))).reshape(3, n_bins)
    expected = np.array([shares(bag[:, c], n_bins) for c in range(3)])
    own = [given.labels == i for i in range(3)]
    templates = np.array(
        [
            [shares(given.required()[o, c], n_bins, weights=given.weights[o]) for o in own]
            for c in range(3)
        ]
    )
    if cumulative:
        expected, templates = expected.cumsum(axis=-1), templates.cumsum(axis=-1)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    # templates: (channel, class, bin) here, (channel * bin, class) there.
    flat = templates.transpose(0, 2, 1).reshape(3 * n_bins, 3)
    np.testing.assert_allclose(made.templates, flat, atol=1e-12)


@pytest.mark.parametrize("n_bins", [2, 8, 16])
def test_a_value_on_an_edge_belongs_to_the_bin_above(n_bins):
    edges = np.linspace(0, 1, n_bins + 1)
    bag = np.stack([1 - edges, edges], axis=1)
    rows = HistogramMap(n_bins).fit(training(2), 2)(bag)
    np.testing.assert_array_equal(rows.codes[:, 1], [*range(n_bins), n_bins - 1])
    np.testing.assert_allclose(
        rows.mean(Bags.whole(len(bag)))[0, n_bins:], shares(edges, n_bins), atol=1e-12
    )


def test_positive_is_the_last_class_alone():
    made = HistogramMap(5, channels="positive").fit(training(2), 2)
    bag = posteriors(2, 30, 3)[0]
    found = made(bag).mean(Bags.whole(30))
    np.testing.assert_allclose(found, [shares(bag[:, 1], 5)])
    assert made.templates.shape == (5, 2)


def test_features_use_the_training_range_and_clip_to_it():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=80), rng.normal(5, 100, 80), np.full(80, 3.0)])
    y = np.arange(80) % 2
    made = HistogramMap(6, channels="features").fit(TrainingPosteriors(X, y), 2)
    bag = 3 * X  # half of it outside
    found = made(bag).mean(Bags.whole(80)).reshape(3, 6)
    for c in range(2):
        expected = shares(bag[:, c], 6, X[:, c].min(), X[:, c].max())
        np.testing.assert_allclose(found[c], expected, atol=1e-12)
    assert found[2].sum() == 1  # a constant feature: all in one bin, no division by zero


def test_features_of_weight_zero_do_not_set_the_range():
    X, y = np.array([[0.0], [1.0], [0.5], [100.0]]), np.array([0, 1, 0, 1])
    weights = np.array([1.0, 1.0, 1.0, 0.0])
    made = HistogramMap(4, channels="features").fit(TrainingPosteriors(X, y, weights), 2)
    assert (made.low[0], made.high[0]) == (0.0, 1.0)


def test_training_weights_are_repetitions():
    given = training(3, weighted=True)
    weighted, written = HistogramMap(7).fit(given, 3), HistogramMap(7).fit(repeated(given), 3)
    np.testing.assert_allclose(weighted.templates, written.templates, atol=1e-12)


@pytest.mark.parametrize("chunk", [1, 7, 40])
def test_chunks_do_not_matter(chunk, monkeypatch):
    pool, rng = posteriors(3, 50, 1)[0], np.random.default_rng(0)
    made = HistogramMap(6).fit(training(3), 3)
    draws = [rng.integers(50, size=n) for n in (1, 3, 30, 2, 90, 5)]
    bags = Bags.from_indices(draws, 50, [rng.random(len(d)) for d in draws])
    whole = made(pool).mean(bags)
    monkeypatch.setattr(histogram, "_CHUNK", chunk)
    np.testing.assert_array_equal(made(pool).mean(bags), whole)
    for b, draw in enumerate(draws):
        expected = [shares(pool[draw, c], 6, weights=bags.bag_weights(b)) for c in range(3)]
        np.testing.assert_allclose(whole[b].reshape(3, 6), expected, atol=1e-12)


@pytest.mark.parametrize("n_bins", [1, 0, -3, 2.5, True, "8", None])
def test_number_of_bins_is_checked(n_bins):
    with pytest.raises(ValueError, match="n_bins must be an integer of at least 2"):
        HistogramMap(n_bins)
