"""Calibrators: at the optimum of their loss, in agreement with abstention, safe on hard input."""

import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression

from kdey.calibration import (
    BCTS,
    CALIBRATORS,
    NoBiasVectorScaling,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
    centred_logs,
    log_odds,
    make_calibrator,
)

FROZEN = json.loads((Path(__file__).parent / "frozen" / "abstention.json").read_text())
SCALINGS = ["temperature", "bcts", "vector", "nbvs"]
NAMES = [*SCALINGS, "platt"]


def overconfident(seed=0, n=400, k=3, slope=0.5, spread=1.0):
    """Return posteriors, labels, and the true scale and bias behind the labels."""
    rng = np.random.default_rng(seed)
    p = softmax(2.0 * rng.normal(size=(n, k)), axis=1)
    bias = spread * rng.normal(size=k)
    q = softmax(slope * centred_logs(p) + bias, axis=1)
    labels = (np.cumsum(q, axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, k - 1)
    return p, labels, bias - bias.mean()


def log_loss(q, labels, weights=None):
    return -np.average(np.log(q[np.arange(len(q)), labels]), weights=weights)


@pytest.mark.parametrize("case", FROZEN, ids=["k=2", "k=3", "k=5"])
@pytest.mark.parametrize("name", SCALINGS)
def test_agrees_with_abstention(case, name):
    p, labels = np.array(case["posteriors"]), np.array(case["labels"])
    calibrator = make_calibrator(name).fit(p, labels)
    # Its optimiser stops at a relative change of 1e-7: the losses agree to that, and ours is
    # never the larger; posteriors agree to about its square root (at most 1.5e-4 here).
    assert case["loss"][name] - 1e-7 <= calibrator.loss_ <= case["loss"][name] + 1e-12
    np.testing.assert_allclose(calibrator.transform(p), case["calibrated"][name], atol=3e-4)


def scaling_loss(name, z, labels, weights):
    k = z.shape[1]

    def loss(theta):
        scale = theta[0] if name in ("temperature", "bcts") else theta[:k]
        bias = theta[-k:] if name in ("bcts", "vector") else 0.0
        return log_loss(softmax(z * scale + bias, axis=1), labels, weights)

    n_scales = 1 if name in ("temperature", "bcts") else k
    n_biases = k if name in ("bcts", "vector") else 0
    return loss, [(0, None)] * n_scales + [(None, None)] * n_biases


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("slope", [0.5, 0.0, -0.3])
def test_reaches_the_optimum_of_a_general_optimiser(name, k, slope):
    # A slope of zero or below puts the scale at its bound.
    p, labels, _ = overconfident(seed=k, n=200, k=k, slope=slope)
    weights = np.random.default_rng(9).random(200)
    calibrator = make_calibrator(name).fit(p, labels, sample_weight=weights)
    loss, bounds = scaling_loss(name, centred_logs(p), labels, weights)
    start = [1.0 if bound[0] == 0 else 0.0 for bound in bounds]
    found = minimize(
        loss, start, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9}
    )
    assert calibrator.converged_
    assert calibrator.loss_ <= found.fun + 1e-10
    assert calibrator.loss_ >= found.fun - 1e-6
    assert calibrator.loss_ == pytest.approx(
        log_loss(calibrator.transform(p), labels, weights), abs=1e-12
    )
    assert (calibrator.scale_ >= 0).all()


def test_bcts_recovers_scale_and_bias():
    p, labels, bias = overconfident(n=40_000, k=4)
    calibrator = BCTS().fit(p, labels)
    np.testing.assert_allclose(calibrator.scale_, 0.5, atol=0.02)
    np.testing.assert_allclose(calibrator.bias_, bias, atol=0.05)
    assert abs(calibrator.bias_.sum()) < 1e-12


def test_richer_families_fit_no_worse():
    p, labels, _ = overconfident()
    loss = {name: make_calibrator(name).fit(p, labels).loss_ for name in SCALINGS}
    assert loss["vector"] <= min(loss["bcts"], loss["nbvs"]) + 1e-10
    assert max(loss["bcts"], loss["nbvs"]) <= loss["temperature"] + 1e-10
    assert loss["temperature"] < log_loss(p, labels)


def test_mean_calibrated_posterior_is_the_label_prevalence():
    # Stationarity in the bias: what lets EMQ take the mean as the training prevalence.
    p, labels, _ = overconfident(k=5)
    for calibrator in (BCTS(), VectorScaling()):
        mean = calibrator.fit_transform(p, labels).mean(axis=0)
        np.testing.assert_allclose(mean, np.bincount(labels) / len(labels), atol=1e-8)


def test_platt_in_two_classes_is_logistic_regression_on_smoothed_targets():
    p, labels, _ = overconfident(k=2)
    counts = np.bincount(labels)
    target = np.where(labels == 1, (counts[1] + 1) / (counts[1] + 2), 1 / (counts[0] + 2))
    x = log_odds(p)[:, [1]]
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(
        np.concatenate([x, x]),
        np.repeat([1, 0], len(x)),
        sample_weight=np.concatenate([target, 1 - target]),
    )
    calibrated = PlattScaling().fit(p, labels).transform(p)
    np.testing.assert_allclose(calibrated[:, 1], model.predict_proba(x)[:, 1], atol=1e-5)


def test_platt_in_many_classes_is_one_against_the_rest_normalised():
    p, labels, _ = overconfident(k=4)
    platt = PlattScaling().fit(p, labels)
    ones = []
    for i in range(4):
        pair = np.stack([1 - p[:, i], p[:, i]], axis=1)
        ones.append(PlattScaling().fit_transform(pair, (labels == i).astype(int))[:, 1])
    ones = np.stack(ones, axis=1)
    np.testing.assert_allclose(
        platt.transform(p), ones / ones.sum(axis=1, keepdims=True), atol=1e-6
    )
    direct = expit(log_odds(p) * platt.scale_ + platt.bias_)
    np.testing.assert_allclose(
        platt.transform(p), direct / direct.sum(axis=1, keepdims=True), atol=1e-12
    )


@pytest.mark.parametrize("name", NAMES)
def test_weights_equal_repetition(name):
    p, labels, _ = overconfident(n=60)
    counts = np.random.default_rng(0).integers(0, 4, 60)
    weighted = make_calibrator(name).fit(p, labels, sample_weight=counts)
    repeated = make_calibrator(name).fit(np.repeat(p, counts, axis=0), np.repeat(labels, counts))
    np.testing.assert_allclose(weighted.transform(p), repeated.transform(p), atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_class_order_does_not_matter(name):
    p, labels, _ = overconfident(k=4)
    order = np.array([2, 0, 3, 1])
    plain = make_calibrator(name).fit(p, labels)
    other = make_calibrator(name).fit(p[:, order], np.argsort(order)[labels])
    np.testing.assert_allclose(
        other.transform(p[:, order]), plain.transform(p)[:, order], atol=1e-7
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_zeros_and_ones_are_taken(name, dtype):
    rng = np.random.default_rng(0)
    p = np.eye(3, dtype=dtype)[rng.integers(0, 3, 200)]
    p[:50] = rng.dirichlet([0.1] * 3, 50)
    labels = np.where(rng.random(200) < 0.7, p.argmax(axis=1), rng.integers(0, 3, 200))
    calibrator = make_calibrator(name).fit(p, labels)
    q = calibrator.transform(np.eye(3))
    assert calibrator.converged_
    assert q.dtype == np.float64
    np.testing.assert_allclose(q.sum(axis=1), 1.0)
    assert 0 < q.min() < q.max() < 1


@pytest.mark.parametrize("name", SCALINGS)
def test_separable_classes_are_told(name):
    p = np.random.default_rng(0).dirichlet([0.5] * 3, 50)
    with pytest.warns(UserWarning, match="posteriors separate the classes without error"):
        calibrator = make_calibrator(name).fit(p, p.argmax(axis=1))
    assert np.isfinite(calibrator.scale_).all()
    np.testing.assert_allclose(calibrator.transform(p).max(axis=1), 1.0, atol=1e-3)


def test_platt_stays_in_doubt_on_separable_classes():
    # Smoothed targets keep its optimum finite where the other losses have none.
    p = np.random.default_rng(0).dirichlet([0.5] * 3, 50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        platt = PlattScaling().fit(p, p.argmax(axis=1))
    assert platt.converged_
    assert np.abs(platt.scale_).max() < 20
    assert platt.transform(p).max(axis=1).min() < 0.9


@pytest.mark.parametrize("name", NAMES)
def test_class_without_labels_is_taken(name):
    p, labels, _ = overconfident(k=3)
    q = make_calibrator(name).fit(p[labels > 0], labels[labels > 0]).transform(p)
    assert np.isfinite(q).all()
    if name in ("bcts", "vector", "platt"):
        assert q[:, 0].mean() < 0.05


def test_many_classes_with_rare_ones_converge():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.2] * 40, 3000)
    labels = np.where(rng.random(3000) < 0.8, p.argmax(axis=1), 0)
    labels[labels == 7] = 0
    labels[0] = 7
    for name in NAMES:
        assert make_calibrator(name).fit(p, labels).converged_


def test_iteration_limit_is_told():
    p, labels, _ = overconfident()
    with pytest.warns(ConvergenceWarning, match="BCTS did not converge in 1 iterations"):
        calibrator = BCTS(max_iter=1).fit(p, labels)
    assert not calibrator.converged_


@pytest.mark.parametrize("name", NAMES)
def test_scikit_learn_manners(name):
    p, labels, _ = overconfident(n=50)
    calibrator = clone(make_calibrator(name).set_params(floor=1e-9))
    assert calibrator.get_params() == {"floor": 1e-9, "tol": 1e-10, "max_iter": 200}
    with pytest.raises(NotFittedError):
        calibrator.transform(p)
    assert calibrator.fit(p, labels) is calibrator
    again = pickle.loads(pickle.dumps(calibrator))
    np.testing.assert_array_equal(again.transform(p), calibrator.transform(p))


def test_names_and_objects_make_calibrators():
    kinds = {
        "platt": PlattScaling,
        "temperature": TemperatureScaling,
        "ts": TemperatureScaling,
        "bcts": BCTS,
        "vector": VectorScaling,
        "vs": VectorScaling,
        "nbvs": NoBiasVectorScaling,
    }
    assert dict(CALIBRATORS) == kinds
    for name, kind in kinds.items():
        assert type(make_calibrator(name)) is kind
    mine = BCTS(tol=1e-6)
    assert make_calibrator(mine) is not mine
    assert make_calibrator(mine).tol == 1e-6


@pytest.mark.parametrize("bad", ["isotonic", BCTS, None, 3])
def test_what_is_no_calibration_is_named(bad):
    with pytest.raises(ValueError, match="calibration must be one of platt, temperature, ts, bcts"):
        make_calibrator(bad)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"P": [[0.5, 0.6]]}, "P must have rows that sum to one"),
        ({"P": [[0.5, np.nan]]}, "P contains NaN"),
        ({"y": [0, 1]}, r"y must have shape \(1,\)"),
        ({"y": [2]}, "y must hold integer codes from 0 to 1"),
        ({"y": [-1]}, "y must hold integer codes"),
        ({"y": ["a"]}, "y must hold integer codes"),
        ({"sample_weight": [1, 1]}, r"sample_weight must have shape \(1,\)"),
        ({"sample_weight": [0]}, "not all zero"),
    ],
)
def test_bad_input_is_named(kwargs, message):
    with pytest.raises(ValueError, match=message):
        BCTS().fit(**{"P": [[0.5, 0.5]], "y": [0], **kwargs})


def test_bad_parameters_and_columns_are_named():
    p, labels, _ = overconfident(n=50)
    with pytest.raises(ValueError, match=r"floor must lie in \(0, 0.5\), got 0"):
        BCTS(floor=0).fit(p, labels)
    with pytest.raises(ValueError, match="P has 2 columns, expected one per class: 3"):
        BCTS().fit(p, labels).transform([[0.5, 0.5]])
