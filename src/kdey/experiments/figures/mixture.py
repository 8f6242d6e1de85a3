"""The idea of distribution matching: a bag is a mixture of the classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdey.bags import Array
from kdey.quantifiers.kde import KDEyML

_BANDWIDTH = 0.05
#: Beta distributions of the positive posterior in each class, and the share of positives.
_NEGATIVE, _POSITIVE, _SHARE = (2.0, 4.5), (5.0, 2.2), 0.7


def mixture_figure(seed: int = 0) -> Any:
    """Return the figure: class densities on the left, a bag and its best mixture on the right.

    The posteriors are drawn from two Beta distributions; the mixture is what KDEy-ML finds.
    """
    from matplotlib.figure import Figure

    rng = np.random.default_rng(seed)
    negative, positive = rng.beta(*_NEGATIVE, size=600), rng.beta(*_POSITIVE, size=600)
    n_positive = round(400 * _SHARE)
    bag = np.concatenate(
        [rng.beta(*_POSITIVE, size=n_positive), rng.beta(*_NEGATIVE, size=400 - n_positive)]
    )
    estimate = _estimate(negative, positive, bag)
    at = np.linspace(0, 1, 301)
    low, high = _density(negative, at), _density(positive, at)
    figure = Figure(figsize=(8.4, 3.1), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True)
    for values, colour, label in ((low, "tab:blue", "negatives"), (high, "tab:red", "positives")):
        left.fill_between(at, values, color=colour, alpha=0.25)
        left.plot(at, values, color=colour, label=label)
    left.set(title="training: one density per class", ylabel="density")
    mix = (1 - estimate) * low + estimate * high
    right.fill_between(at, _density(bag, at), color="tab:purple", alpha=0.25)
    right.plot(at, _density(bag, at), color="tab:purple", label="bag")
    label = f"mixture, {estimate:.0%} positives (true: {_SHARE:.0%})"
    right.plot(at, mix, color="tab:green", linestyle="--", label=label)
    right.plot(at, (1 - estimate) * low, color="tab:blue", linewidth=0.9, alpha=0.7)
    right.plot(at, estimate * high, color="tab:red", linewidth=0.9, alpha=0.7)
    right.set_title("test: the mixture that matches the bag")
    for ax in (left, right):
        ax.set(xlabel="posterior of the positive class", xlim=(0, 1), ylim=(0, None))
        ax.legend(loc="upper left", frameon=False)
    # Room for the legends above the curves.
    right.set_ylim(0, 1.35 * float(max(_density(bag, at).max(), mix.max())))
    left.set_ylim(0, 1.25 * float(max(low.max(), high.max())))
    return figure


def _estimate(negative: Array, positive: Array, bag: Array) -> float:
    """Return the share of positives in the bag by KDEy-ML."""
    training = np.concatenate([negative, positive])
    labels = np.repeat([0, 1], [len(negative), len(positive)])
    # The simplex of two classes is sqrt(2) long.
    model = KDEyML(bandwidth=_BANDWIDTH * np.sqrt(2)).fit_posteriors(_pairs(training), labels)
    return float(model.aggregate(_pairs(bag))[1])


def _pairs(positive: Array) -> Array:
    return np.stack([1 - positive, positive], axis=1)


def _density(points: Array, at: Array) -> Array:
    z = (at[:, None] - points[None, :]) / _BANDWIDTH
    sums = np.exp(-0.5 * z**2).mean(axis=1)
    return np.asarray(sums / (_BANDWIDTH * np.sqrt(2 * np.pi)), dtype=np.float64)
