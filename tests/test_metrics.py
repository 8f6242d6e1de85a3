"""The errors against obvious loops, their bounds, their undefined cases and their names."""

from __future__ import annotations

import pickle
from math import log, sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from kdey import metrics
from kdey.metrics import METRICS, Metric, get_metric, smooth
from kdey.simplex import sample_uniform

Z = 100
SMOOTHED = {"rae", "nrae", "kld", "nkld", "aitchison"}


def _nu(p, z):
    eps = 1 / (2 * z)
    return [(x + eps) / (1 + len(p) * eps) for x in p]


def _rae(a, b, z):
    return sum(abs(x - y) / x for x, y in zip(_nu(a, z), _nu(b, z), strict=True)) / len(a)


def _kld(a, b, z):
    return sum(x * log(x / y) for x, y in zip(_nu(a, z), _nu(b, z), strict=True))


def _clr(p):
    centre = sum(log(x) for x in p) / len(p)
    return [log(x) - centre for x in p]


def _nrae(a, b, z):
    low = min(_nu(a, z))
    return _rae(a, b, z) / ((len(a) - 1 + (1 - low) / low) / len(a))


ORACLES = {
    "ae": lambda a, b, z: sum(abs(x - y) for x, y in zip(a, b, strict=True)) / len(a),
    "nae": lambda a, b, z: ORACLES["ae"](a, b, z) * len(a) / (2 * (1 - min(a))),
    "rae": _rae,
    "nrae": _nrae,
    "se": lambda a, b, z: sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / len(a),
    "kld": _kld,
    "nkld": lambda a, b, z: 2 * np.exp(_kld(a, b, z)) / (1 + np.exp(_kld(a, b, z))) - 1,
    "md": lambda a, b, z: sum(abs(sum(a[:i]) - sum(b[:i])) for i in range(1, len(a))),
    "nmd": lambda a, b, z: ORACLES["md"](a, b, z) / (len(a) - 1),
    "rnod": lambda a, b, z: sqrt(
        sum(
            abs(i - j) * (a[j] - b[j]) ** 2
            for i in range(len(a))
            if a[i] > 0
            for j in range(len(a))
        )
        / sum(x > 0 for x in a)
        / (len(a) - 1)
    ),
    "bray_curtis": lambda a, b, z: sum(abs(x - y) for x, y in zip(a, b, strict=True)) / 2,
    "aitchison": lambda a, b, z: sqrt(
        sum((x - y) ** 2 for x, y in zip(_clr(_nu(a, z)), _clr(_nu(b, z)), strict=True))
    ),
}


@pytest.fixture(params=sorted(METRICS))
def metric(request):
    return METRICS[request.param]


def _pairs(k, n, seed):
    rng = np.random.default_rng(seed)
    a, b = sample_uniform(k, n, rng), sample_uniform(k, n, rng)
    corners = np.eye(k)[rng.integers(0, k, (2, n))]
    return np.concatenate([a, corners[0], a, corners[0]]), np.concatenate(
        [b, corners[1], corners[1], b]
    )


def test_every_metric_has_an_oracle():
    assert set(ORACLES) == set(METRICS)
    assert {name for name, metric in METRICS.items() if metric.needs_bag_size} == SMOOTHED
    assert {name for name, metric in METRICS.items() if metric.ordered} == {"md", "nmd", "rnod"}


@pytest.mark.parametrize("k", [2, 3, 7])
def test_matches_the_loop(metric, k):
    a, b = _pairs(k, 10, seed=k)
    sizes = np.arange(1, len(a) + 1) * 10
    expected = [
        ORACLES[metric.name](x.tolist(), y.tolist(), z) for x, y, z in zip(a, b, sizes, strict=True)
    ]
    got = metric(a, b, bag_size=sizes)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-13)


def test_relative_error_equals_the_form_of_the_paper():
    a, b = _pairs(4, 20, seed=0)
    paper = (np.abs(a - b) / (a + 1 / (2 * Z))).mean(axis=1)
    np.testing.assert_allclose(metrics.relative_absolute_error(a, b, bag_size=Z), paper, rtol=1e-12)


def test_zero_only_where_equal_and_never_negative(metric):
    a, b = _pairs(5, 20, seed=1)
    np.testing.assert_allclose(metric(a, a, bag_size=Z), 0.0, atol=1e-14)
    off = metric(a, b, bag_size=Z)
    different = np.abs(a - b).max(axis=1) > 1e-6
    assert (off[different] > 0).all()
    assert (metric(a, a, bag_size=Z) >= 0).all()


def test_absent_classes_never_give_inf_or_nan(metric):
    corners = np.eye(3)
    values = metric(corners[:, None], corners[None, :], bag_size=1_000_000)
    assert values.shape == (3, 3)
    assert np.isfinite(values).all()


def test_one_class_has_no_error(metric):
    assert metric([1.0], [1.0], bag_size=Z) == 0.0
    np.testing.assert_array_equal(metric(np.ones((4, 1)), np.ones((4, 1)), bag_size=Z), np.zeros(4))


def test_no_bags_give_no_errors(metric):
    assert metric(np.zeros((0, 3)), np.zeros((0, 3)), bag_size=Z).shape == (0,)


def test_leading_axes_broadcast(metric):
    a, b = _pairs(3, 3, seed=2)
    one = metric(a[0], b, bag_size=np.full(len(b), Z))
    full = metric(np.repeat(a[:1], len(b), axis=0), b, bag_size=Z)
    np.testing.assert_array_equal(one, full)
    assert metric(a[0], b[0], bag_size=Z).shape == ()
    shaped = metric(a.reshape(2, -1, 3), b.reshape(2, -1, 3), bag_size=Z)
    np.testing.assert_array_equal(shaped.ravel(), metric(a, b, bag_size=Z))


@given(st.integers(2, 8), st.integers(0, 2**31))
def test_class_order_matters_to_ordered_metrics_alone(k, seed):
    rng = np.random.default_rng(seed)
    a, b = sample_uniform(k, 5, rng), sample_uniform(k, 5, rng)
    order = rng.permutation(k)
    for metric in METRICS.values():
        if not metric.ordered:
            np.testing.assert_allclose(
                metric(a[:, order], b[:, order], bag_size=Z), metric(a, b, bag_size=Z), rtol=1e-9
            )


@given(st.integers(2, 8), st.integers(1, 10_000), st.integers(0, 2**31))
def test_normalised_metrics_stay_within_one(k, size, seed):
    a = sample_uniform(k, 20, np.random.default_rng(seed))
    a[::2, 0] = 0
    a /= a.sum(axis=1, keepdims=True)
    worst = np.eye(k)[a.argmin(axis=1)]
    for name in ("nae", "nrae", "nkld", "nmd", "bray_curtis"):
        assert (METRICS[name](a, worst, bag_size=size) <= 1 + 1e-12).all()
    np.testing.assert_allclose(METRICS["nae"](a, worst), 1.0)
    assert METRICS["nmd"](np.eye(k)[0], np.eye(k)[-1]) == pytest.approx(1.0)


def test_normalised_relative_error_nears_one_for_large_bags():
    a = np.array([0.2, 0.3, 0.5])
    value = METRICS["nrae"](a, [1.0, 0.0, 0.0], bag_size=10**9)
    assert 1 - 1e-6 < value < 1


def test_smooth_stays_on_the_simplex():
    p = smooth([[1.0, 0.0], [0.25, 0.75]], bag_size=[1, 10])
    np.testing.assert_allclose(p, [[0.75, 0.25], [0.3 / 1.1, 0.8 / 1.1]])


@pytest.mark.parametrize(
    ("true", "estimated", "message"),
    [
        ([0.5, 0.5], [0.5, 0.5, 0.0], "true has 2 classes"),
        ([[0.5, 0.5]] * 3, [[0.5, 0.5]] * 2, "same bags"),
        ([0.5, 0.5], [np.nan, 1.0], "estimated contains NaN"),
        ([0.5, 0.6], [0.5, 0.5], "true must have rows that sum to one"),
        ([0.5, 0.5], [1.5, -0.5], "estimated contains negative"),
        (0.5, [0.5, 0.5], "true must have shape"),
        ([[]], [[]], "true must have shape"),
        (["a", "b"], [0.5, 0.5], "true must be real numbers"),
    ],
)
def test_bad_prevalences_are_refused(metric, true, estimated, message):
    with pytest.raises(ValueError, match=message):
        metric.function(true, estimated, **({"bag_size": Z} if metric.needs_bag_size else {}))


@pytest.mark.parametrize("name", sorted(SMOOTHED))
def test_bag_size_is_checked(name):
    metric, p = METRICS[name], [[0.5, 0.5]] * 2
    with pytest.raises(ValueError, match=f"'{name}' smooths by the bag size: pass bag_size"):
        metric(p, p)
    for bad in (0, -1, np.nan, np.inf, [10, 0]):
        with pytest.raises(ValueError, match="bag_size must be positive"):
            metric(p, p, bag_size=bad)
    with pytest.raises(ValueError, match=r"bag_size must be a number or have shape \(2,\)"):
        metric(p, p, bag_size=[10, 10, 10])


def test_names():
    assert get_metric("AE") is get_metric("mae") is METRICS["ae"]
    assert get_metric("MRAE") is get_metric("relative-absolute error") is METRICS["rae"]
    assert get_metric(metrics.match_distance) is get_metric("md") is METRICS["md"]
    assert get_metric(METRICS["se"]) is METRICS["se"]
    for name in ("sre", "msre"):
        with pytest.raises(ValueError, match=r"needs the training prevalence: .*ratio_metric\(q"):
            get_metric(name)
    for name in ("bias", "bias_binary"):
        with pytest.raises(ValueError, match=r"one number per class: kdey\.metrics\.bias\("):
            get_metric(name)
    with pytest.raises(ValueError, match="macro_normalised_match_distance"):
        get_metric("macro-NMD")
    with pytest.raises(ValueError, match=r"metric 'mape' is unknown; the names are ae, nae"):
        get_metric("mape")
    with pytest.raises(ValueError, match="metric must be a name"):
        get_metric(3)


def test_registry_cannot_be_changed(metric):
    with pytest.raises(TypeError):
        METRICS["ae"] = metric
    assert pickle.loads(pickle.dumps(metric)) == metric


def test_own_metric():
    def largest(true, estimated, bag_size):
        return np.abs(np.subtract(true, estimated)).max(axis=-1) * bag_size

    own = get_metric(largest)
    assert (own.name, own.needs_bag_size, own.sign) == ("largest", True, -1)
    assert own([0.5, 0.5], [0.2, 0.8], bag_size=10) == pytest.approx(3.0)
    mean = Metric("mean", lambda a, b: np.abs(np.subtract(a, b)).mean(), "mean")
    with pytest.raises(ValueError, match="'mean' must return one value per bag"):
        mean([[0.5, 0.5]] * 2, [[0.5, 0.5]] * 2)


def test_rnod_is_one_where_all_mass_is_at_the_wrong_end():
    assert metrics.get_metric("rnod")([1, 0, 0], [0, 0, 1]) == pytest.approx(1.0)


def test_macro_nmd_averages_bins_of_the_mean_rating():
    true = np.array([[1.0, 0, 0, 0], [0.9, 0.1, 0, 0], [0, 0, 0, 1.0], [0, 1.0, 0, 0]])
    estimated = np.full((4, 4), 0.25)
    errors = metrics.normalised_match_distance(true, estimated)
    # Mean ratings 1, 1.1 | 2 | 4, which belongs to the last bin, [3, 4].
    expected = np.mean([errors[:2].mean(), errors[3], errors[2]])
    assert metrics.macro_normalised_match_distance(true, estimated) == pytest.approx(expected)
    with pytest.raises(ValueError, match="macro-NMD needs"):
        metrics.macro_normalised_match_distance([0.5, 0.5], [0.5, 0.5])


def test_bias_has_a_sign_and_one_entry_per_class():
    np.testing.assert_allclose(metrics.bias([[0.2, 0.8]], [[0.3, 0.7]]), [[0.1, -0.1]])


def test_squared_ratio_error_and_its_metric():
    true, estimated, prior = [0.2, 0.8], [0.4, 0.6], [0.5, 0.5]
    expected = ((0.2 / 0.5 - 0.4 / 0.5) ** 2 + (0.8 / 0.5 - 0.6 / 0.5) ** 2) / 2
    assert metrics.squared_ratio_error(true, estimated, prior) == pytest.approx(expected)
    metric = metrics.ratio_metric(prior)
    assert metric.name == "sre"
    assert metric([true], [estimated])[0] == pytest.approx(expected)
    for bad in ([0.5, 0.3, 0.2], [1.0, 0.0]):
        with pytest.raises(ValueError, match="training must hold 2 positive prevalences"):
            metrics.squared_ratio_error(true, estimated, bad)


def test_aqe_is_the_aitchison_distance():
    assert metrics.get_metric("aqe") is metrics.get_metric("aitchison")
    assert metrics.get_metric("MAQE") is metrics.get_metric("aitchison")


def test_messages_name_the_argument_and_what_to_call_instead():
    masked = np.ma.masked_array([10.0], mask=[True])
    with pytest.raises(ValueError, match=r"^bag_size\b"):
        metrics.relative_absolute_error([[0.2, 0.8]], [[0.3, 0.7]], bag_size=masked)
    columns = {"a": [0.2], "b": [0.8]}
    true, other = pd.DataFrame(columns), pd.DataFrame({"a": [0.3], "c": [0.7]})
    with pytest.raises(ValueError, match=r"^estimated\b"):
        metrics.absolute_error(true, other)
    for name, call in (
        ("sre", r"kdey\.metrics\.ratio_metric\(q\.prevalence_\)"),
        ("bias", r"kdey\.metrics\.bias\(results\.true, results\.estimated\(\)\)"),
        ("macro_nmd", r"kdey\.metrics\.macro_normalised_match_distance\(results\.true, "),
    ):
        with pytest.raises(ValueError, match=call):
            metrics.get_metric(name)
