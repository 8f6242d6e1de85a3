"""Displays draw the numbers that they are given."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from kdey import APP, CC, PACC, KDEyML, evaluate, make_report
from kdey.metrics import absolute_error
from kdey.plots import (
    BiasDisplay,
    DiagonalDisplay,
    ErrorByShiftDisplay,
    IntervalsDisplay,
    PrevalenceOverTimeDisplay,
    ReliabilityDisplay,
    TuningDisplay,
    write_figures,
)
from kdey.plots.method_displays import binned

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def no_windows() -> Iterator[None]:
    import matplotlib.pyplot as plt

    with matplotlib.rc_context({"backend": "agg"}):
        yield
        plt.close("all")


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any]:
    X, y = load_iris(return_X_y=True)
    return X[:, 1:2], np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="module")
def fitted(data: tuple[Any, Any]) -> dict[str, Any]:
    quantifiers = {"CC": CC(), "PACC": PACC(), "ML": KDEyML(bandwidth=0.1, kernel="gaussian")}
    return {name: q.fit(*data) for name, q in quantifiers.items()}


@pytest.fixture(scope="module")
def results(fitted: dict[str, Any], data: tuple[Any, Any]) -> Any:
    return evaluate(fitted, *data, protocol=APP(60, 50, random_state=0))


def drawn(display: Any) -> Any:
    """Render the figure: what cannot be drawn fails here."""
    display.figure_.canvas.draw()
    return display.ax_


def lines(ax: Any) -> dict[str, Any]:
    return {line.get_label(): line.get_xydata() for line in ax.get_lines()}


@pytest.mark.smoke
def test_intervals(fitted: dict[str, Any], data: tuple[Any, Any]) -> None:
    estimate = fitted["ML"].estimate(data[0][:90])
    truth = np.array([0.5, 0.3, 0.2])
    ax = drawn(IntervalsDisplay.from_estimate(estimate, truth=truth))
    ax.figure.draw_without_rendering()
    assert ax.get_legend().get_window_extent().x1 <= ax.figure.bbox.x1  # nothing is cut off
    order = np.argsort(estimate.estimate, kind="stable")
    lines_drawn = lines(ax)
    np.testing.assert_allclose(
        lines_drawn["estimate, 95 % interval"][:, 0], estimate.estimate[order]
    )
    np.testing.assert_allclose(lines_drawn["known labels"][:, 0], truth[order])
    np.testing.assert_allclose(
        lines_drawn["uncorrected count"][:, 0], estimate.classify_and_count[order]
    )
    spans = [part[:, 0] for part in ax.collections[0].get_segments()]
    np.testing.assert_allclose(spans, np.stack([estimate.low, estimate.high], axis=1)[order])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(estimate.classes[order])
    again = IntervalsDisplay.from_estimator(fitted["ML"], data[0][:90], confidence=0.8)
    assert "estimate, 80 % interval" in lines(drawn(again))


def rows_over(times: list[Any], **more: Any) -> list[dict[str, Any]]:
    return [
        {"t": t, "class": c, "n": 9, "estimate": p, "low": p / 2, "high": 1.0, **more}
        for i, t in enumerate(times)
        for c, p in (("a", 0.1 * i), ("b", 1 - 0.1 * i))
    ]


@pytest.mark.parametrize("times", [["2026-01-01", "2026-02-01"], [3, 1], ["late", "later"]])
def test_prevalence_over_time(times: list[Any]) -> None:
    ax = drawn(PrevalenceOverTimeDisplay.from_results(rows_over(times), "t"))
    found = lines(ax)
    assert list(found) == ["b", "a"]
    expected = [0.1, 0.0] if times == [3, 1] else [0.0, 0.1]
    np.testing.assert_allclose(found["a"][:, 1], expected)
    line = PrevalenceOverTimeDisplay.from_results(rows_over(times), "t", classes=["a"])
    assert list(lines(drawn(line))) == ["a"]


def test_one_series_at_a_time() -> None:
    rows = rows_over([1, 2], city="York") + rows_over([1, 2], city="Leeds")
    with pytest.raises(ValueError, match=r"one of \['York', 'Leeds'\]"):
        PrevalenceOverTimeDisplay.from_results(rows, "t", by=["city"], series="Hull")
    many = PrevalenceOverTimeDisplay.from_results(rows, "t", by=["city"])
    drawn(many)
    assert [ax.get_title() for ax in many.figure_.axes if ax.axison] == ["York", "Leeds"]
    ax = drawn(PrevalenceOverTimeDisplay.from_results(rows, "t", by=["city"], series="York"))
    assert ax.get_title() == "York"
    with pytest.raises(ValueError, match="classes has 'z'"):
        PrevalenceOverTimeDisplay.from_results(rows_over([1]), "t", classes=["z"])


def test_groups_over_time_draw_themselves_by_series() -> None:
    """Towns one after the other on one line, as bags 0 to 5, would show jumps where towns end."""
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b"], 90)
    frame = pd.DataFrame({"x": rng.normal(size=180) + 2 * (y == "b")})
    labels = {"city": ["York", "Leeds"] * 90, "day": pd.to_datetime(["2026-01-05"] * 180)}
    labels["day"] += pd.to_timedelta(np.arange(180) % 3 * 7, unit="D")
    groups = (
        CC().fit(frame, y).predict_groups(frame.assign(**labels), by="city", time="day", every="1w")
    )
    display = groups.plot()
    titles = [ax.get_title() for ax in display.figure_.axes if ax.axison]
    assert titles == ["Leeds", "York"]


def test_calibration(fitted: dict[str, Any]) -> None:
    display = ReliabilityDisplay.from_estimator(fitted["ML"], n_bins=5)
    ax = drawn(display)
    np.testing.assert_allclose(ax.get_lines()[1].get_xdata(), display.shown.claimed)
    np.testing.assert_allclose(ax.get_lines()[1].get_ydata(), display.shown.observed)


def test_diagonal(results: Any) -> None:
    ax = drawn(DiagonalDisplay.from_results(results, label="setosa", n_bins=4))
    lines_drawn = lines(ax)
    at, means, _ = binned(results.true[:, 0], results.estimated("PACC")[:, 0], 4)
    np.testing.assert_allclose(lines_drawn["PACC"], np.stack([at, means], axis=1))
    assert set(results.methods) <= set(lines_drawn)
    with pytest.raises(ValueError, match="label must be one of"):
        DiagonalDisplay.from_results(results, label="rose")


def test_bins_are_means_of_equally_many() -> None:
    at = np.array([3.0, 1.0, 2.0, 4.0])
    places, means, spread = binned(at, 10 * at, 2)
    np.testing.assert_allclose(places, [1.5, 3.5])
    np.testing.assert_allclose(means, [15, 35])
    np.testing.assert_allclose(spread, [5, 5])
    assert len(binned(at, at, 9)[0]) == 4


def test_error_by_shift(results: Any, fitted: dict[str, Any]) -> None:
    prevalence = fitted["CC"].prevalence_
    metric = next(iter(results.methods["CC"].errors))
    ax = drawn(ErrorByShiftDisplay.from_results(results, prevalence, n_bins=3, methods=["CC"]))
    shift = absolute_error(results.true, prevalence)
    at, means, _ = binned(shift, results.errors(metric, "CC"), 3)
    np.testing.assert_allclose(lines(ax)["CC"], np.stack([at, means], axis=1))
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        ErrorByShiftDisplay.from_results(results, [0.5, 0.5])


def medians(boxes: Any) -> list[float]:
    return [line.get_ydata()[0] for line in boxes["medians"]]


def test_bias(results: Any) -> None:
    display = BiasDisplay.from_results(results)
    ax = drawn(display)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["CC", "PACC", "ML"]
    errors = {name: results.estimated(name) - results.true for name in results.methods}
    np.testing.assert_allclose(
        medians(display.boxes_[0]), [np.median(box) for box in errors.values()], atol=1e-12
    )
    display = BiasDisplay.from_results(results, methods=["CC", "ML"], by_class=True)
    ax = drawn(display)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == list(results.classes)
    for boxes, name in zip(display.boxes_, ("CC", "ML"), strict=True):
        np.testing.assert_allclose(medians(boxes), np.median(errors[name], axis=0), atol=1e-12)


def test_a_missing_library_is_named(
    fitted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"matplotlib: pip install 'kdey\[plot\]'"):
        ReliabilityDisplay.from_estimator(fitted["ML"])


def test_displays_draw_on_given_axes(results: Any, fitted: dict[str, Any]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3)
    assert DiagonalDisplay.from_results(results, ax=axes[0]).ax_ is axes[0]
    assert BiasDisplay.from_results(results, ax=axes[1]).figure_ is figure
    assert ReliabilityDisplay.from_estimator(fitted["ML"], ax=axes[2]).ax_ is axes[2]
    assert plt.get_fignums() == [figure.number]
    with pytest.raises(ValueError, match="chosen nothing"):
        TuningDisplay.from_estimator(fitted["ML"])


def test_a_report_becomes_figures_in_files(
    fitted: dict[str, Any], data: tuple[Any, Any], tmp_path: Path
) -> None:
    X, _ = data
    estimate = fitted["ML"].estimate(X[:60])
    groups = rows_over(["2026-01-01", "2026-02-01"], city="York")
    over_time = make_report(estimate, groups, by="city", time="t", quantifier=fitted["ML"])
    written = write_figures(over_time, tmp_path / "new", ["svg", "png"])
    names = ["prevalence", "time", "reliability"]
    assert [path.name for path in written] == [f"{n}.{k}" for n in names for k in ("svg", "png")]
    assert written[0].read_text(encoding="utf-8").startswith("<?xml")
    assert written[1].read_bytes().startswith(b"\x89PNG")
    alone = make_report(rows_over([1, 2]), by="t")
    assert [path.name for path in write_figures(alone, tmp_path)] == ["groups.svg"]
    with pytest.raises(ValueError, match="formats must be of svg, png, pdf, got 'gif'"):
        write_figures(alone, tmp_path, ["gif"])


def test_a_notebook_shows_the_figure_once(
    fitted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It showed the words of a dataclass as well."""
    import matplotlib.pyplot as plt

    shown: list[Any] = []
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=shown.append))
    display = ReliabilityDisplay.from_estimator(fitted["ML"])
    display._ipython_display_()
    assert shown == [], "an open figure is shown by the notebook"
    plt.close(display.figure_)
    display._ipython_display_()
    assert shown == [display.figure_]
