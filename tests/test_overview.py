"""Objects show a sentence, a table that fits an 80-column terminal, and a plot."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

import kdey
from kdey._display import (
    LINE_WIDTH,
    Overview,
    bar_column,
    bar_text,
    percentages,
    row_names,
    share_decimals,
    shorten,
    text_column,
)

#: What shows itself: name, a part of its first line, and the display that draws it.
SHOWN = [
    ("estimate", "largest estimated share", "IntervalsDisplay"),
    ("estimates", "Estimated shares of 12 bags", "PrevalenceOverTimeDisplay"),
    ("check", "(p = ", "FitCheckDisplay"),
    ("report", "intervals are expected to be", "IdentifiabilityDisplay"),
    ("tuning", "Chosen: ", "TuningDisplay"),
    ("results", "has the smallest mean absolute error", "DiagonalDisplay"),
    ("bag_plan", "A sample of about", ""),
    ("label_plan", "more labels give intervals", ""),
    ("sampling_plan", "labels, of the items", ""),
]


@pytest.fixture(scope="module")
def objects() -> SimpleNamespace:
    X, codes = load_iris(return_X_y=True)
    y = np.array(["<b>setosa</b>", "versicolor", "virginica"])[codes]
    q = kdey.KDEyML(random_state=0).fit(X[::2], y[::2])
    pool = X[1::2]
    report = kdey.identifiability(q)
    fitted = {"CC": kdey.CC().fit(X[::2], y[::2]), "KDEy": q}
    return SimpleNamespace(
        quantifier=q,
        pool=pool,
        estimate=q.estimate(pool[:40], check_fit=False),
        estimates=q.estimate_bags(pool, [np.arange(20 + b) for b in range(12)], check_fit=False),
        check=kdey.check_fit(q, pool, random_state=0),
        report=report,
        tuning=q.tuning_,
        results=kdey.evaluate(
            fitted, pool, y[1::2], kdey.APP(8, 30, random_state=0), verbose=False
        ),
        bag_plan=kdey.plan_bag_size(report, 0.2),
        label_plan=kdey.plan_labels(report, 0.1, bag_size=500),
        sampling_plan=kdey.plan_labels(q, 0.3, X=pool),
    )


@pytest.fixture
def no_windows() -> Iterator[None]:
    matplotlib = pytest.importorskip("matplotlib")
    import matplotlib.pyplot as plt

    with matplotlib.rc_context({"backend": "agg"}):
        yield
        plt.close("all")


@pytest.mark.parametrize(("name", "words", "display"), SHOWN)
def test_sentence_comes_first_and_the_table_fits(
    objects: SimpleNamespace, name: str, words: str, display: str
) -> None:
    shown = getattr(objects, name)
    text = repr(shown)
    first, *lines = text.splitlines()
    assert words in first
    assert first.endswith((".", ")"))
    assert lines == str(shown.overview()).splitlines()[1:]
    assert all(len(line) <= LINE_WIDTH for line in shown.overview().table_lines())
    assert text.isascii()


@pytest.mark.parametrize(("name", "words", "display"), SHOWN)
def test_html_has_the_sentence_and_escapes_labels(
    objects: SimpleNamespace, name: str, words: str, display: str
) -> None:
    page = getattr(objects, name)._repr_html_()
    assert words in page
    assert "<table>" in page
    assert "<b>" not in page


@pytest.mark.parametrize(("name", "display"), [(name, shown) for name, _, shown in SHOWN if shown])
@pytest.mark.usefixtures("no_windows")
def test_each_draws_itself(objects: SimpleNamespace, name: str, display: str) -> None:
    drawn = getattr(objects, name).plot()
    assert isinstance(drawn, getattr(kdey.plots, display))
    assert drawn.figure_ is drawn.ax_.figure


def test_fitted_quantifiers_show_their_classes(objects: SimpleNamespace) -> None:
    q = objects.quantifier
    assert "KDEyML, fitted on 3 classes" in str(q.overview())
    assert q.tuning_.summary() in str(q.overview())
    page = q._repr_mimebundle_()["text/html"]
    assert "fitted on 3 classes" in page
    assert "&lt;b&gt;setosa" in page
    assert "fitted on" not in kdey.KDEyML()._repr_mimebundle_()["text/html"]
    assert repr(q) == "KDEyML(random_state=0)"


@pytest.mark.usefixtures("no_windows")
def test_fitted_quantifiers_draw_a_bag(objects: SimpleNamespace) -> None:
    drawn = objects.quantifier.plot(objects.pool, check_fit=False)
    assert isinstance(drawn, kdey.plots.IntervalsDisplay)


@pytest.mark.usefixtures("no_windows")
def test_bags_are_numbered_by_whole_numbers(objects: SimpleNamespace) -> None:
    drawn = objects.estimates[:2].plot()
    assert all(tick == round(tick) for tick in drawn.ax_.get_xticks())


def test_printed_verdicts_stay_sentences(objects: SimpleNamespace) -> None:
    for shown in (objects.check, objects.report, objects.bag_plan, objects.sampling_plan):
        assert str(shown) == shown.verdict


def test_bars_show_limits() -> None:
    assert bar_text((0.5, 0.25, 0.75)) == "#" * 5 + "=" * 5 + "-" * 5
    assert bar_text((1.2, -0.1, 1.3)) == "=" * 20
    column = bar_column([0.1, np.nan], [np.nan, 0.0], [np.nan, 1.0])
    assert column.texts == ["##", ""]


def test_columns_give_way_and_digits_do_not() -> None:
    names = row_names("class", ["x" * 100, "y"])
    columns = tuple(
        text_column(f"column {i}", ["0.123456789012345"] * 2, importance=i) for i in (9, 3, 1, 2)
    )
    table = Overview("A sentence.", names, columns, ("a remark",)).table_lines()
    assert all(len(line) <= LINE_WIDTH for line in table)
    assert "column 9" in table[0]
    assert "column 3" in table[0]
    assert table[1].count("0.123456789012345") == 2
    assert table[-1] == "(no room for: column 1, column 2; to_frame() has all)"


def test_printed_estimates_fit_with_long_names(objects: SimpleNamespace) -> None:
    merged = objects.estimate.merge({"n" * 70: ["versicolor", "virginica"]})
    lines = str(merged).splitlines()[1:]
    assert all(len(line) <= LINE_WIDTH for line in lines if not line.startswith("("))
    assert lines[0].split() == ["class", "estimate", "low", "high"]
    assert f"{merged.high[0]:.4f}" in lines[1]


def test_many_classes_are_left_out_by_size() -> None:
    rng = np.random.default_rng(0)
    posteriors = rng.dirichlet(np.full(30, 0.2), size=300)
    labels = np.repeat(np.arange(30), 10)
    q = kdey.PCC().fit_posteriors(posteriors, labels)
    shown = q.estimate_posteriors(posteriors, [np.arange(50)], check_fit=False)
    lines = shown.overview().table_lines()
    assert str(int(shown.estimate[0].argmax())) in lines[0].split()
    assert "more; to_frame() has all" in lines[-1]


def test_percentages_have_two_decimals_where_shares_are_small() -> None:
    assert share_decimals(np.array([0.5, 1e-9])) == 1
    assert share_decimals(np.array([0.5, 0.002])) == 2
    assert percentages([0.0213, np.nan], 2) == ["2.13 %", "-"]


def test_names_keep_beginning_and_end() -> None:
    assert shorten("abcdefghij", 10) == "abcdefghij"
    assert shorten("abcdefghijk", 8) == "abc...jk"


def test_an_empty_list_of_estimates_has_no_plot(objects: SimpleNamespace) -> None:
    pytest.importorskip("matplotlib")
    nothing: Any = objects.estimates[:0]
    assert repr(nothing).startswith("Estimated shares of 0 bags;")
    with pytest.raises(ValueError, match="no estimates to draw"):
        nothing.plot()
