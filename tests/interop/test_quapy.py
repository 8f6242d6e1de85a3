"""Against QuaPy 0.2.3 itself: the same bags, and the same estimates on both sides."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import kdey
from kdey.evaluation import LabelledBags
from kdey.interop import from_quapy, to_quapy, to_quapy_protocol
from tests.evaluation.cases import blobs

with warnings.catch_warnings():  # QuaPy's own, while it is imported
    warnings.simplefilter("ignore")
    qp = pytest.importorskip("quapy", reason="QuaPy is not installed: see docs/lab/release.md")
if qp.__version__ != "0.2.3":
    pytest.skip(f"tested against QuaPy 0.2.3, found {qp.__version__}", allow_module_level=True)

from quapy.data import LabelledCollection
from quapy.model_selection import GridSearchQ
from quapy.protocol import (
    APP,
    NPP,
    UPP,
    DirichletProtocol,
    DomainMixer,
    IterateProtocol,
    ProtocolFromIndex,
)

TRAIN, TEST = LabelledCollection(*blobs(seed=0)), LabelledCollection(*blobs(seed=1))
METHODS = {
    "KDEyML": kdey.KDEyML(bandwidth=0.1, random_state=0),
    "KDEyHD": kdey.KDEyHD(bandwidth=0.1, random_state=0),
    "EMQ": kdey.EMQ(),
    "ACC": kdey.ACC(random_state=0),
    "OneVsAll": kdey.OneVsAll(kdey.HDy(random_state=0)),
    "DMx": kdey.DMx(),
    "TrainingPrevalence": kdey.TrainingPrevalence(),
}
PROTOCOLS = {
    "APP": APP(TEST, sample_size=40, n_prevalences=5, repeats=1),
    "UPP": UPP(TEST, sample_size=40, repeats=12, random_state=3),
    "NPP": NPP(TEST, sample_size=40, repeats=5),
    "Dirichlet": DirichletProtocol(TEST, [0.5, 1, 2], sample_size=40, repeats=5),
    "positions": ProtocolFromIndex(TEST, [np.arange(30), np.arange(10, 600, 9)]),
    "given": IterateProtocol([TEST.sampling(30, 0.2, 0.8, random_state=0), TEST]),
    "mixer": DomainMixer(TEST, TRAIN, sample_size=40, repeats=1, mixture_points=3),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    return {name: clone(method).fit(*TRAIN.Xy) for name, method in METHODS.items()}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_replay_holds_the_very_bags(name: str) -> None:
    replay, yielded = from_quapy(PROTOCOLS[name]), list(PROTOCOLS[name]())
    assert len(replay) == len(yielded) > 1
    for bag, replayed, (X, prevalence) in zip(
        replay.drawn, replay.prevalences, yielded, strict=True
    ):
        np.testing.assert_array_equal(replay.X[bag], X)
        np.testing.assert_array_equal(replayed, prevalence)


def test_positions_are_those_quapy_calls_its_index() -> None:
    collected = UPP(TEST, sample_size=40, repeats=12, random_state=3, return_type="index")
    for replayed, theirs in zip(from_quapy(PROTOCOLS["UPP"]).drawn, collected(), strict=True):
        np.testing.assert_array_equal(replayed, theirs)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["UPP", "given", "mixer"])
def test_both_libraries_report_the_same_estimates(
    name: str, method: str, fitted: dict[str, Any]
) -> None:
    quantifier, protocol = fitted[method], PROTOCOLS[name]
    replay = from_quapy(protocol)
    ours = kdey.evaluate(quantifier, replay.X, replay.y, replay, verbose=False)
    for speedup in (True, False):
        true, estimated = qp.evaluation.prediction(
            to_quapy(quantifier), protocol, aggr_speedup=speedup
        )
        np.testing.assert_array_equal(ours.true, true)
        np.testing.assert_allclose(ours.estimated(), estimated, atol=1e-9)
    error = qp.evaluation.evaluate(to_quapy(quantifier), protocol, "mae")
    np.testing.assert_allclose(ours.errors("ae").mean(), error, atol=1e-9)


def test_relative_errors_agree_with_one_epsilon(fitted: dict[str, Any]) -> None:
    replay = from_quapy(PROTOCOLS["UPP"])
    ours = kdey.evaluate(fitted["ACC"], replay.X, replay.y, replay, metrics="rae", verbose=False)
    true, estimated = qp.evaluation.prediction(to_quapy(fitted["ACC"]), PROTOCOLS["UPP"])
    theirs = qp.error.rae(true, estimated, eps=1 / (2 * 40))
    np.testing.assert_allclose(ours.errors("rae"), theirs, rtol=1e-9)


@pytest.mark.parametrize("protocol", [kdey.APP(8, 30), kdey.NPP(5, 50)])
def test_our_bags_in_quapy(protocol: Any, fitted: dict[str, Any]) -> None:
    theirs = to_quapy_protocol(*TEST.Xy, protocol)
    ours = kdey.evaluate(fitted["KDEyML"], *TEST.Xy, protocol, verbose=False)
    for speedup in ("force", False):
        true, estimated = qp.evaluation.prediction(
            to_quapy(fitted["KDEyML"]), theirs, aggr_speedup=speedup
        )
        np.testing.assert_array_equal(ours.true, true)
        np.testing.assert_allclose(ours.estimated(), estimated, atol=1e-9)
    back = from_quapy(theirs)
    np.testing.assert_array_equal(back.drawn.indices, protocol.bags(TEST.y).bags.indices)


def test_quapy_methods_take_our_bags_and_run_in_our_evaluation() -> None:
    model = qp.method.aggregative.PACC(LogisticRegression(max_iter=1000)).fit(*TRAIN.Xy)
    protocol = kdey.APP(6, 40)
    ours = kdey.evaluate(model, *TEST.Xy, protocol, verbose=False)
    _, theirs = qp.evaluation.prediction(model, to_quapy_protocol(*TEST.Xy, protocol))
    np.testing.assert_allclose(ours.estimated(), theirs, atol=1e-6)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_quapys_grid_search_finds_what_a_loop_finds(n_jobs: int) -> None:
    validation = UPP(TEST, sample_size=40, repeats=8)
    grid = {"quantifier__bandwidth": [0.03, 0.3], "quantifier__classifier__C": [0.01, 1.0]}
    base = kdey.KDEyML(LogisticRegression(max_iter=1000), random_state=0)
    search = GridSearchQ(
        to_quapy(base), grid, validation, refit=False, raise_errors=True, n_jobs=n_jobs
    ).fit(*TRAIN.Xy)
    replay, scores = from_quapy(validation), {}
    for h in grid["quantifier__bandwidth"]:
        for C in grid["quantifier__classifier__C"]:
            candidate = clone(base).set_params(bandwidth=h, classifier__C=C).fit(*TRAIN.Xy)
            found = kdey.evaluate(candidate, replay.X, replay.y, replay, verbose=False)
            scores[h, C] = found.errors("ae").mean()
    np.testing.assert_allclose(list(search.param_scores_.values()), list(scores.values()))
    assert tuple(search.best_params_.values()) == min(scores, key=scores.__getitem__)
    assert len(set(scores.values())) == 4, "parameters that change nothing would prove nothing"
    assert not hasattr(base, "classes_"), "the quantifier given is cloned, never fitted"


def test_a_search_refits_on_both_parts() -> None:
    search = GridSearchQ(
        to_quapy(kdey.PACC(random_state=0)),
        {"quantifier__classifier": [LogisticRegression(C=0.1), LogisticRegression(C=1.0)]},
        to_quapy_protocol(*TEST.Xy, kdey.APP(5, 40)),
        raise_errors=True,
    ).fit(*TRAIN.Xy)
    both = TRAIN + TEST
    again = clone(search.best_model().quantifier).fit(*both.Xy)
    np.testing.assert_allclose(search.predict(TEST.X), again.predict(TEST.X), atol=1e-9)


def test_wrapped_quantifiers_copy_pickle_and_clone(fitted: dict[str, Any]) -> None:
    for quantifier in fitted.values():
        wrapped = to_quapy(quantifier)
        assert isinstance(wrapped, qp.method.base.BaseQuantifier)
        expected = quantifier.predict(TEST.X)
        for twin in (wrapped, copy.deepcopy(wrapped), pickle.loads(pickle.dumps(wrapped))):
            np.testing.assert_array_equal(twin.quantify(TEST.X), expected)
        with pytest.raises(NotFittedError):
            clone(wrapped).predict(TEST.X)


def test_fitting_the_wrapper_leaves_the_fitted_one_alone(fitted: dict[str, Any]) -> None:
    wrapped = to_quapy(fitted["ACC"])
    before = fitted["ACC"].predict(TEST.X)
    wrapped.fit(TRAIN.X[:200], TRAIN.y[:200])
    np.testing.assert_array_equal(fitted["ACC"].predict(TEST.X), before)
    assert np.abs(wrapped.predict(TEST.X) - before).max() > 1e-6
    assert wrapped.classes_.tolist() == list("abc")


def test_the_aggregation_can_be_fitted_alone(fitted: dict[str, Any]) -> None:
    training = fitted["KDEyML"].training_
    wrapped = to_quapy(clone(fitted["KDEyML"]))
    wrapped.aggregation_fit(training.posteriors, fitted["KDEyML"].classes_[training.labels])
    posteriors = fitted["KDEyML"].classifier_.predict_proba(TEST.X)
    expected = fitted["KDEyML"].aggregate(posteriors)
    np.testing.assert_array_equal(wrapped.aggregate(posteriors), expected)


def test_what_quapy_has_not_is_refused() -> None:
    class Weighted:
        def bags(self, y: Any, classes: Any = None) -> LabelledBags:
            found = kdey.Bags.whole(len(y), np.arange(1.0, len(y) + 1))
            return LabelledBags(found, np.full((1, 3), 1 / 3), np.array(list("abc")))

    with pytest.raises(ValueError, match="weighted bags"):
        to_quapy_protocol(*TEST.Xy, Weighted())
    with pytest.raises(TypeError, match="fit and predict, got int"):
        to_quapy(3)
