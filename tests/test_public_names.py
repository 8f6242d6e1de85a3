"""After ``import kdey`` everything public is there, and nothing is loaded before it is used."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import kdey

RNG = np.random.default_rng(1)
Y = np.repeat([0, 1], 50)
X = RNG.normal(size=(100, 2)) + Y[:, None]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "use",
    [
        "kdey.metrics.absolute_error([0.5, 0.5], [0.4, 0.6])",
        "kdey.plots.IntervalsDisplay",
        "kdey.evaluation.protocols.APP",
        "kdey.datasets.load_dataset",
        "kdey.interop.from_quapy",
        "kdey.diagnostics.unknown_share_bound",
    ],
)
def test_packages_are_there_after_import(use: str) -> None:
    run(f"import kdey; {use}")


def test_packages_are_listed() -> None:
    assert {"metrics", "plots", "evaluation", "datasets", "interop"} <= set(dir(kdey))


def test_import_loads_no_package() -> None:
    code = (
        "import sys, kdey; "
        "print(*[m for m in sys.modules if m.startswith('kdey.')], 'numpy' in sys.modules)"
    )
    *loaded, numpy = run(code).split()
    assert loaded == []
    assert numpy == "False"


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'kdey' has no attribute 'metric'"):
        kdey.metric  # noqa: B018


def test_results_know_every_name_of_a_metric() -> None:
    def own(true, estimated):
        return np.abs(true - estimated).max(axis=1)

    fitted = kdey.PACC().fit(X, Y)
    metrics = ["mae", "relative_absolute_error", own]
    results = kdey.evaluate(
        fitted, X, Y, kdey.APP(4, 20, random_state=0), metrics=metrics, verbose=False
    )
    for name in ("mae", "ae", "MAE", "absolute_error", kdey.metrics.absolute_error):
        np.testing.assert_array_equal(results.errors(name), results.errors("ae"))
    np.testing.assert_array_equal(results.errors("mrae"), results.errors("rae"))
    np.testing.assert_array_equal(results.errors(own), results.errors("own"))
    for unknown in ("kld", "nothing", 3):
        with pytest.raises(ValueError, match=r"metric must be one of \['ae', 'rae', 'own'\]"):
            results.errors(unknown)


def test_estimates_and_results_plot_themselves() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    fitted = kdey.PACC().fit(X, Y)
    estimate = fitted.estimate(X)
    axes = pyplot.figure().add_subplot()
    display = estimate.plot(truth=[0.25, 0.75], ax=axes)
    assert isinstance(display, kdey.plots.IntervalsDisplay)
    assert display.ax_ is axes
    named = estimate.plot(truth=pd.Series({1: 0.75, 0: 0.25}))
    assert [row.truth for row in named.rows] == [0.25, 0.75]
    results = kdey.evaluate(fitted, X, Y, kdey.APP(4, 20, random_state=0), verbose=False)
    assert isinstance(results.plot(), kdey.plots.DiagonalDisplay)
    assert isinstance(results.plot("bias"), kdey.plots.BiasDisplay)
    shift = results.plot("shift", training_prevalence=fitted.prevalence_, metric="mae")
    assert isinstance(shift, kdey.plots.ErrorByShiftDisplay)
    with pytest.raises(ValueError, match="kind must be one of"):
        results.plot("pie")
    pyplot.close("all")


def test_bags_take_index_arrays() -> None:
    arrays = [np.array([0, 1, 2]), np.array([5, 5])]
    bags = kdey.Bags(arrays, pool_size=100)
    expected = kdey.Bags.from_indices(arrays, 100)
    np.testing.assert_array_equal(bags.indices, expected.indices)
    np.testing.assert_array_equal(bags.offsets, expected.offsets)
    weighted = kdey.Bags(arrays, pool_size=100, weights=[[1.0, 2.0, 3.0], [1.0, 1.0]])
    np.testing.assert_array_equal(weighted.weights, [1.0, 2.0, 3.0, 1.0, 1.0])
    fitted = kdey.PACC().fit(X, Y)
    np.testing.assert_array_equal(fitted.predict_bags(X, bags), fitted.predict_bags(X, arrays))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([[0, 1]],), TypeError, r"Bags needs pool_size.*pool_size=len\(X\)"),
        (([[0, 9]], None, 5), ValueError, "bag 0 has positions outside the pool of 5"),
        (([[]], None, 5), ValueError, "bag 0 is empty"),
        ((3, None, 5), TypeError, "bags must be a sequence of index arrays"),
    ],
)
def test_bags_refuse_what_is_no_list_of_index_arrays(arguments, error, message) -> None:
    with pytest.raises(error, match=message):
        kdey.Bags(*arguments)
