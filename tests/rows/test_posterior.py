"""Posterior and ratio rows against loops over instances."""

from __future__ import annotations

import numpy as np
import pytest

from kdey.calibration import make_calibrator
from kdey.rows.posterior import PosteriorMap, RatioMap

from .cases import posteriors, repeated, training


@pytest.mark.smoke
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("crisp", [False, True])
def test_templates_are_class_means_of_rows(crisp, weighted):
    given = training(4, weighted=weighted)
    made = PosteriorMap(crisp=crisp, adjusted=True).fit(given, 4)
    total, mass = np.zeros((4, 4)), np.zeros(4)
    for j, (p, y) in enumerate(zip(given.required(), given.labels, strict=True)):
        w = 1.0 if given.weights is None else given.weights[j]
        row = np.eye(4)[np.argmax(p)] if crisp else p
        total[:, y] += w * row
        mass[y] += w
    np.testing.assert_allclose(made.templates, total / mass, atol=1e-12)
    np.testing.assert_allclose(made.templates.sum(axis=0), 1)


def test_rows_are_posteriors_or_decisions():
    p = posteriors(3, 10, 0)[0]
    soft = PosteriorMap(crisp=False, adjusted=False).fit(training(3), 3)(p).array
    np.testing.assert_array_equal(soft, p)
    crisp = PosteriorMap(crisp=True, adjusted=False).fit(training(3), 3)(p).array
    np.testing.assert_array_equal(crisp, np.eye(3)[p.argmax(axis=1)])


def test_a_tie_goes_to_the_first_class():
    made = PosteriorMap(crisp=True, adjusted=False).fit(training(3), 3)
    np.testing.assert_array_equal(made(np.array([[0.4, 0.4, 0.2]])).array, [[1, 0, 0]])


def test_methods_that_do_not_adjust_have_no_templates():
    made = PosteriorMap(crisp=True, adjusted=False).fit(training(3), 3)
    assert made.templates.shape == (3, 0)


@pytest.mark.parametrize("weighted", [False, True])
def test_ratio_rows_divide_by_the_training_prevalence(weighted):
    given, p = training(3, weighted=weighted), posteriors(3, 10, 1)[0]
    w = np.ones(len(given.labels)) if given.weights is None else given.weights
    prior = np.array([w[given.labels == i].sum() for i in range(3)]) / w.sum()
    np.testing.assert_allclose(RatioMap().fit(given, 3)(p).array, p / prior)


def test_calibrated_ratio_rows_divide_by_the_mean_calibrated_posterior():
    given, p = training(3, 300), posteriors(3, 10, 1)[0]
    calibrator = make_calibrator("bcts")
    calibrator.fit(given.required(), given.labels)
    prior = calibrator.transform(given.required()).mean(axis=0)
    rows = RatioMap("bcts").fit(given, 3)(p).array
    np.testing.assert_allclose(rows, calibrator.transform(p) / prior, rtol=1e-9)


def test_calibrated_ratio_weights_are_repetitions():
    given, p = training(3, 150, weighted=True), posteriors(3, 10, 1)[0]
    spec = RatioMap("bcts")
    weighted, written = spec.fit(given, 3)(p).array, spec.fit(repeated(given), 3)(p).array
    np.testing.assert_allclose(weighted, written, rtol=1e-5)
