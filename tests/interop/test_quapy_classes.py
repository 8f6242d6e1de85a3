"""Quantifiers of kdey inside every class of QuaPy 0.2.3 that takes a quantifier."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import kdey
from kdey.interop import to_quapy
from tests.evaluation.cases import blobs

with warnings.catch_warnings():  # QuaPy's own, while it is imported
    warnings.simplefilter("ignore")
    qp = pytest.importorskip("quapy", reason="QuaPy is not installed: see docs/lab/release.md")
if qp.__version__ != "0.2.3":
    pytest.skip(f"tested against QuaPy 0.2.3, found {qp.__version__}", allow_module_level=True)

from quapy.data import LabelledCollection
from quapy.method.aggregative import PACC, AggregativeMedianEstimator
from quapy.method.base import newOneVsAll
from quapy.method.confidence import AggregativeBootstrap
from quapy.method.meta import MCSQ, SCMQ, Ensemble, MedianEstimator, ensembleFactory
from quapy.model_selection import GridSearchQ, cross_val_predict
from quapy.protocol import UPP


def collection(seed: int, n_classes: int) -> LabelledCollection:
    """Return instances with labels 0, 1, ...: QuaPy's one-vs-all takes labels as positions."""
    X, y = blobs(seed=seed, n=240)
    codes = np.unique(y, return_inverse=True)[1]
    return LabelledCollection(X[codes < n_classes], codes[codes < n_classes])


TRAIN, TEST = collection(0, 3), collection(1, 3)
BINARY, BINARY_TEST = collection(0, 2), collection(1, 2)
GRID = {"classifier__C": [0.01, 1.0]}


def pacc(C: float = 1.0) -> Any:
    return kdey.PACC(LogisticRegression(C=C, max_iter=1000), random_state=0)


def kernel() -> Any:
    return kdey.KDEyML(LogisticRegression(max_iter=1000), bandwidth=0.1, random_state=0)


def bags(data: LabelledCollection) -> Any:
    return UPP(data, sample_size=40, repeats=5, random_state=1)


@pytest.mark.parametrize("method", [kernel(), kdey.EMQ(), kdey.ACC(cv=0.4, random_state=0)])
def test_the_two_steps_are_what_fit_does(method: Any) -> None:
    whole = to_quapy(method).fit(*TRAIN.Xy)
    steps = to_quapy(method)
    predictions, labels = steps.classifier_fit_predict(*TRAIN.Xy)
    assert (predictions is None) == isinstance(method, kdey.EMQ)
    assert steps.classes_.tolist() == [0, 1, 2]
    twin = copy.deepcopy(steps)
    for model in (steps.aggregation_fit(predictions, labels), twin):
        if model is twin:  # the predictions are equal to those of its stage, not the same object
            model.aggregation_fit(copy.deepcopy(predictions), labels)
        np.testing.assert_array_equal(model.predict(TEST.X), whole.predict(TEST.X))
        np.testing.assert_array_equal(
            model.aggregate(model.classify(TEST.X)), whole.predict(TEST.X)
        )


def test_resampled_predictions_keep_the_classifier() -> None:
    model = to_quapy(kernel())
    predictions, labels = model.classifier_fit_predict(*TRAIN.Xy)
    drawn = np.random.default_rng(0).integers(len(labels), size=len(labels))
    model.aggregation_fit(predictions[drawn], labels[drawn])
    alone = kernel().fit_posteriors(predictions[drawn], labels[drawn])
    expected = alone.aggregate(model.classifier.predict_proba(TEST.X))
    np.testing.assert_allclose(model.predict(TEST.X), expected, atol=1e-12)


@pytest.mark.parametrize("region", ["intervals", "ellipse", "ellipse-clr", "ellipse-ilr"])
def test_bootstrap_around_a_quantifier_of_kdey(
    region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # QuaPy asks for all processors, and starting processes is most of the time of this test.
    monkeypatch.setattr("quapy.method.confidence.Parallel", lambda n_jobs: list)
    monkeypatch.setattr(
        "quapy.method.confidence.delayed", lambda function: lambda *args: function(*args)
    )
    model = AggregativeBootstrap(to_quapy(pacc()), n_test_samples=60, region=region, random_state=0)
    estimate, limits = model.fit(*TRAIN.Xy).predict_conf(TEST.X)
    plain = pacc().fit(*TRAIN.Xy).predict(TEST.X)
    assert abs(estimate - plain).max() < 0.1
    assert limits.coverage(plain) == 1
    assert abs(model.predict(TEST.X) - plain).max() < 0.1


def test_one_vs_all() -> None:
    model = newOneVsAll(to_quapy(kernel()), n_jobs=1).fit(*TRAIN.Xy)
    assert type(model).__name__ == "OneVsAllAggregative"
    positive = [kernel().fit(TRAIN.X, TRAIN.y == c).predict(TEST.X)[1] for c in range(3)]
    np.testing.assert_allclose(model.predict(TEST.X), positive / np.sum(positive), atol=1e-9)
    for speedup in ("force", False):
        _, estimated = qp.evaluation.prediction(model, bags(TEST), aggr_speedup=speedup)
        assert np.allclose(estimated.sum(axis=1), 1)


@pytest.mark.parametrize("kind", [MedianEstimator, AggregativeMedianEstimator])
def test_medians(kind: Any) -> None:
    model = kind(to_quapy(pacc()), GRID, n_jobs=1).fit(*BINARY.Xy)
    members = [pacc(C).fit(*BINARY.Xy).predict(BINARY_TEST.X) for C in GRID["classifier__C"]]
    expected = np.median(members, axis=0)
    np.testing.assert_allclose(model.predict(BINARY_TEST.X), expected, atol=1e-9)


@pytest.mark.parametrize("name", ["quantifier__classifier__C", "cv"])
def test_a_classifier_that_would_be_set_too_late_is_refused(name: str) -> None:
    """QuaPy takes these names for parameters of the aggregation; they would have no effect."""
    model = AggregativeMedianEstimator(to_quapy(pacc()), {name: [2, 3]}, n_jobs=1)
    with pytest.raises(ValueError, match="name parameters of the classifier classifier__"):
        model.fit(*BINARY.Xy)


@pytest.mark.parametrize("policy", ["ave", "ptr", "ds", "mae"])
def test_ensembles(policy: str) -> None:
    with warnings.catch_warnings():  # scikit-learn's, about QuaPy's own logistic regression
        warnings.simplefilter("ignore")
        model = Ensemble(to_quapy(pacc()), size=4, red_size=2, policy=policy, n_jobs=1)
        estimate = model.fit(*BINARY.Xy).predict(BINARY_TEST.X)
    assert abs(estimate - BINARY_TEST.prevalence()).max() < 0.15


def test_a_factory_of_ensembles() -> None:
    model = ensembleFactory(
        LogisticRegression(), lambda classifier: to_quapy(kdey.PACC(classifier)), size=2, n_jobs=1
    )
    estimate = model.fit(*BINARY.Xy).predict(BINARY_TEST.X)
    assert abs(estimate - BINARY_TEST.prevalence()).max() < 0.15


def test_a_search_fits_each_classifier_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[float] = []
    original = LogisticRegression.fit

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        fits.append(self.C)
        return original(self, *args, **options)

    monkeypatch.setattr(LogisticRegression, "fit", counted)
    scores = []
    for grid in (
        {"classifier__C": [0.01, 1.0], "bandwidth": [0.03, 0.3]},
        {"quantifier__classifier__C": [0.01, 1.0], "quantifier__bandwidth": [0.03, 0.3]},
    ):
        fits.clear()
        search = GridSearchQ(
            to_quapy(kernel()), grid, bags(TEST), refit=False, raise_errors=True, n_jobs=1
        ).fit(*TRAIN.Xy)
        scores.append((list(search.param_scores_.values()), len(fits)))
    (named, n_named), (prefixed, n_prefixed) = scores
    np.testing.assert_allclose(named, prefixed, atol=1e-12)
    assert n_named == n_prefixed / 2 == 12  # two classifiers, five folds and all instances


def test_searches_around_other_classes() -> None:
    inside = GridSearchQ(to_quapy(pacc()), GRID, bags(BINARY_TEST), refit=False, n_jobs=1)
    model = Ensemble(inside, size=2, n_jobs=1).fit(*BINARY.Xy)
    assert model.predict(BINARY_TEST.X).shape == (2,)
    outside = GridSearchQ(
        newOneVsAll(to_quapy(pacc()), n_jobs=1),
        {"binary_quantifier__classifier__C": [0.01, 1.0]},
        bags(TEST),
        refit=False,
        raise_errors=True,
        n_jobs=1,
    ).fit(*TRAIN.Xy)
    assert len(set(outside.param_scores_.values())) == 2


def test_one_classifier_for_several_quantifiers() -> None:
    model = SCMQ(LogisticRegression(max_iter=1000), [to_quapy(pacc()), to_quapy(kdey.EMQ())])
    model.fit_classifier = True  # which QuaPy 0.2.3 forgets, whatever the quantifiers
    model.fit(*TRAIN.Xy)
    classifier = model.classifier
    for member, method in zip(model.quantifiers, (pacc(), kdey.EMQ()), strict=True):
        assert member.classifier is classifier
        assert abs(member.predict(TEST.X) - method.fit(*TRAIN.Xy).predict(TEST.X)).max() < 0.05
    expected = np.median([q.predict(TEST.X) for q in model.quantifiers], axis=0)
    np.testing.assert_allclose(model.predict(TEST.X), expected / expected.sum(), atol=1e-12)


def test_several_classifiers_for_one_quantifier() -> None:
    given = pacc()
    model = MCSQ([LogisticRegression(C=C, max_iter=1000) for C in (0.01, 1.0)], to_quapy(given))
    for member in model.mcsqs:  # MCSQ.fit of QuaPy 0.2.3 fails for QuaPy's own quantifiers, too
        member.fit(*TRAIN.Xy)
    expected = np.median([pacc(C).fit(*TRAIN.Xy).predict(TEST.X) for C in (0.01, 1.0)], axis=0)
    np.testing.assert_allclose(model.quantify(TEST.X), expected / expected.sum(), atol=1e-9)
    assert given.classifier.C == 1.0, "the quantifier given is left as it is"


def test_a_fitted_classifier_that_is_set_is_not_fitted_again() -> None:
    classifier = LogisticRegression(max_iter=1000).fit(*TRAIN.Xy)
    model = to_quapy(pacc())
    assert not hasattr(model.classifier, "classes_")
    model.classifier = classifier
    model.fit(*TEST.Xy)
    assert model.classifier is classifier
    frozen = kdey.PACC(FrozenEstimator(classifier)).fit(*TEST.Xy)
    np.testing.assert_allclose(model.predict(TRAIN.X), frozen.predict(TRAIN.X), atol=1e-9)


def test_cross_validation_and_reports() -> None:
    shares = cross_val_predict(to_quapy(pacc()), TRAIN)
    assert abs(shares - TRAIN.prevalence()).max() < 0.1
    fitted = to_quapy(kernel()).fit(*TRAIN.Xy)
    report = qp.evaluation.evaluation_report(fitted, bags(TEST), error_metrics=["mae", "mse"])
    assert report["mae"].mean() < 0.1


@pytest.mark.parametrize("method", [PACC(LogisticRegression()), to_quapy(pacc())])
def test_what_fails_in_quapy_fails_for_its_own_quantifiers_alike(method: Any) -> None:
    """If one of these begins to work, the page on migration must not call it broken any more."""
    many = AggregativeBootstrap(copy.deepcopy(method), n_train_samples=3, n_test_samples=2)
    with pytest.raises(AttributeError, match="sampling_from_index"):
        many.fit(*TRAIN.Xy)
    held_out = Ensemble(copy.deepcopy(method), size=2, val_split=0.4, n_jobs=1)
    with pytest.raises(TypeError, match="val_split"):
        held_out.fit(*BINARY.Xy)
    with pytest.raises(AttributeError, match="fit_classifier"):
        SCMQ(LogisticRegression(), [copy.deepcopy(method)]).fit(*TRAIN.Xy)
    with pytest.raises(TypeError, match="val_split"):
        MCSQ([LogisticRegression()], copy.deepcopy(method)).fit(TRAIN)
