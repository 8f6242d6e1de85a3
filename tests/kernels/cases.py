"""Posteriors to try the kernel on, and how its errors are counted."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from kdey import native

with warnings.catch_warnings():
    warnings.simplefilter("ignore", native.NativeMissingWarning)
    needs_native = pytest.mark.skipif(not native.available(), reason="no native core")


def shares(log_sums):
    """exp(l_ji - max_i l_ji): all that a mixture likelihood sees; zeros where a row has nothing."""
    top = log_sums.max(axis=-1, keepdims=True)
    return np.exp(log_sums - np.where(np.isfinite(top), top, 0.0))


def worst_error(found, wanted):
    """Largest error of the shares; infinite where the rows' levels or their zeros differ."""
    assert found.shape == wanted.shape
    assert not np.isnan(found).any()
    level, level_wanted = found.max(axis=-1), wanted.max(axis=-1)
    if not np.array_equal(np.isfinite(level), np.isfinite(level_wanted)):
        return np.inf
    level, level_wanted = (np.where(np.isfinite(v), v, 0.0) for v in (level, level_wanted))
    if (np.abs(level - level_wanted) > 1e-4 + 1e-12 * np.abs(level_wanted)).any():
        return np.inf
    return np.abs(shares(found) - shares(wanted)).max(initial=0.0)


def pool(rng, n_classes, per_class, spread=0.3):
    """Return posteriors sorted by class and offsets; a class's rows lean towards its corner."""
    lean = spread + 3.0 * np.eye(n_classes)
    rows = [rng.dirichlet(lean[i], per_class) for i in range(n_classes)]
    return np.concatenate(rows), np.arange(n_classes + 1) * per_class


def one_hot_pool(rng, n_classes, per_class):
    """Return posteriors with exact zeros and ones, many of them the same."""
    hot = np.eye(n_classes)[rng.integers(0, n_classes, n_classes * per_class)]
    some = rng.random(len(hot)) < 0.2
    hot[some] = rng.dirichlet(np.full(n_classes, 0.05), int(some.sum()))
    return hot, np.arange(n_classes + 1) * per_class


def class_log_sums_native(
    queries, references, offsets, bandwidths, weights=None, exclude=None, **options
):
    """Return the log-sums of a single call of the native core, which packs nothing beforehand.

    ``block_size`` (references per block) and ``skip`` (whether negligible blocks are skipped)
    affect speed only.
    """
    out = np.empty((len(bandwidths), len(queries), len(offsets) - 1))
    native.call(
        "kdey_class_log_sums",
        *(queries, references, *(int(a.dtype == np.float64) for a in (queries, references))),
        *(*queries.shape[:1], *references.shape, offsets, len(offsets) - 1),
        *(bandwidths, len(bandwidths), weights, exclude, int(options.get("double", False))),
        *(options.get("n_threads", 1), options.get("block_size", 0)),
        *(int(options.get("skip", True)), out),
    )
    return out
