"""The critical-difference diagram shows every method, its rank and the groups."""

from __future__ import annotations

import numpy as np
import pytest

from kdey.evaluation.significance import nemenyi
from kdey.plots import CriticalDifferenceDisplay

NAMES = ["KDEy-ML", "KDEy-HD", "EMQ", "PACC", "ACC", "CC", "HDy-OvA"]


@pytest.fixture
def axes():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_diagram_names_every_method_at_its_rank(axes) -> None:
    rng = np.random.default_rng(0)
    errors = rng.random((12, len(NAMES))) + 0.25 * np.arange(len(NAMES))
    results = nemenyi(errors, NAMES)
    display = CriticalDifferenceDisplay.from_results(results, ax=axes)
    texts = [text.get_text() for text in display.ax_.texts]
    for name, rank in zip(NAMES, results.ranks, strict=True):
        assert f"{name} ({rank:.2f})" in texts
        assert any(line.get_xdata()[0] == rank for line in axes.lines)
    bars = [line for line in axes.lines if line.get_linewidth() == 4]
    assert len(bars) == sum(len(group) > 1 for group in results.groups)
    assert display.figure_ is axes.figure
