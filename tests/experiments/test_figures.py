"""Figures are drawn from results, and their numbers are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.figures import by_quantile, draw_figures, shift_figure, simplex_grid
from experiments.results import Curve, Results
from experiments.settings import COMPACT

from .cases import drawn_results

pytest.importorskip("matplotlib")


def curves(stored: Results) -> Results:
    for method, parameter, values in (
        ("DM-HD", "n_bins", (2.0, 8.0, 64.0)),
        ("KDEy-ML", "bandwidth", (0.01, 0.1, 0.2)),
    ):
        for seed in (0, 1):
            means = (0.02 + seed / 100, 0.01, 0.03)
            curve = Curve("digits", method, "mae", seed, "c", parameter, values, means)
            stored.curves[curve.dataset, method, "mae", seed] = curve
    return stored


def test_everything_is_drawn(tmp_path: Path) -> None:
    stored = curves(drawn_results(("digits", "letter"), COMPACT))
    lines: list[str] = []
    paths = list(draw_figures(stored, tmp_path, lines.append))
    names = ("mixture", "representation", "sensitivity-mae", "shift-multi-mae", "shift-multi-mrae")
    assert [path.stem for path in paths] == list(names)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert lines == ["sensitivity-mrae: no results for it yet"]


def test_many_data_sets_share_a_panel() -> None:
    stored = drawn_results(tuple(f"set{i}" for i in range(8)), ("EMQ", "KDEy-ML"))
    figure = shift_figure(stored, "multi", "mae")
    assert len(figure.axes) == 1
    assert len(figure.axes[0].get_lines()) == 2
    assert shift_figure(stored, "binary", "mae") is None


def test_bins_of_the_shift_hold_equally_many_bags() -> None:
    shift = np.random.default_rng(0).permutation(80)
    np.testing.assert_allclose(by_quantile(shift.astype(float), shift, 4), [9.5, 29.5, 49.5, 69.5])


def test_the_grid_covers_the_simplex() -> None:
    grid = simplex_grid(10)
    assert len(grid) == 66
    np.testing.assert_allclose(grid.sum(axis=1), 1)
    assert grid.min() == 0
    assert {tuple(row) for row in np.eye(3)} <= {tuple(row) for row in grid}
