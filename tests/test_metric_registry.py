"""Metrics by name: titles, spellings, and what is made of a callable."""

from __future__ import annotations

import numpy as np
import pytest

from kdey.metrics import (
    METRICS,
    Metric,
    get_metric,
    normalised_match_distance,
    relative_absolute_error,
    smooth,
)

TITLES = {
    "ae": "absolute error",
    "nae": "normalised absolute error",
    "rae": "relative absolute error",
    "nrae": "normalised relative absolute error",
    "se": "squared error",
    "kld": "Kullback-Leibler divergence",
    "nkld": "normalised Kullback-Leibler divergence",
    "md": "match distance",
    "nmd": "normalised match distance",
    "rnod": "root normalised order-aware divergence",
    "bray_curtis": "Bray-Curtis dissimilarity",
    "aitchison": "Aitchison distance",
}


def test_titles_are_those_of_the_tables():
    assert {name: metric.title for name, metric in METRICS.items()} == TITLES
    assert all(metric.name == name for name, metric in METRICS.items())
    assert all(metric.lower_is_better for metric in METRICS.values())


@pytest.mark.parametrize("name", METRICS)
def test_every_spelling_is_understood(name):
    metric = METRICS[name]
    spelt = metric.function.__name__.replace("_", " ")
    for word in (
        name,
        f" {name.upper()} ",
        f"m{name}",
        spelt,
        spelt.replace(" ", "-"),
        spelt.upper(),
    ):
        assert get_metric(word) is metric
    assert get_metric(metric.function) is metric


class Largest:
    """A callable without a name of its own."""

    def __call__(self, true, estimated):
        return np.abs(np.subtract(true, estimated)).max(axis=-1)


def test_a_callable_is_an_error_named_after_itself():
    def worst_class_error(true, estimated):
        return [1, 2]

    made = get_metric(worst_class_error)
    assert made.name == "worst_class_error"
    assert made.title == "worst class error"
    assert not made.needs_bag_size
    assert not made.ordered
    assert made.sign == -1
    values = made([[0.5, 0.5]] * 2, [[0.5, 0.5]] * 2, bag_size=7)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, [1.0, 2.0])
    assert get_metric(Largest()).name == "Largest"
    assert get_metric(Largest())([0.5, 0.5], [0.2, 0.8]) == pytest.approx(0.3)


def test_larger_may_be_better():
    assert Metric("share", lambda a, b: 0.0, "share", lower_is_better=False).sign == 1


def test_sizes_of_low_precision_cost_none():
    sizes = np.array([3, 7], dtype=np.float32)
    a, b = [[0.2, 0.8], [1.0, 0.0]], [[0.5, 0.5], [0.3, 0.7]]
    exact = relative_absolute_error(a, b, bag_size=[3.0, 7.0])
    np.testing.assert_array_equal(relative_absolute_error(a, b, bag_size=sizes), exact)
    np.testing.assert_array_equal(smooth(a, sizes), smooth(a, [3.0, 7.0]))


def test_one_size_for_all_and_one_for_each_agree_over_several_axes():
    a = np.full((2, 3, 2), 0.5)
    b = np.tile([0.2, 0.8], (2, 3, 1))
    one = relative_absolute_error(a, b, bag_size=10)
    each = relative_absolute_error(a, b, bag_size=np.full((2, 3), 10))
    assert one.shape == (2, 3)
    np.testing.assert_array_equal(one, each)
    with pytest.raises(ValueError, match=r"must be a number or have shape \(2, 3\), got \(3,\)"):
        relative_absolute_error(a, b, bag_size=np.full(3, 10))


def test_the_widest_move_of_ordered_classes_is_one():
    assert normalised_match_distance([1.0, 0.0], [0.0, 1.0]) == 1.0
    assert normalised_match_distance([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]) == 0.5


def test_normalised_error_of_an_even_truth():
    assert METRICS["nae"]([0.5, 0.5], [0.2, 0.8]) == pytest.approx(0.6)


def test_shapes_are_told():
    with pytest.raises(ValueError, match=r"got shapes \(3, 2\) and \(2, 2\)"):
        METRICS["ae"].function([[0.5, 0.5]] * 3, [[0.5, 0.5]] * 2)
    with pytest.raises(
        ValueError, match=r"^estimated must have shape \(..., n_classes\), got shape \(\)"
    ):
        METRICS["ae"].function([0.5, 0.5], 0.5)
    with pytest.raises(ValueError, match=r"^prevalence must have shape"):
        smooth(0.5, 10)
