"""The automatic kernel: against a slow, obvious loop, and in every degenerate case."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import kdey
from kdey import native
from kdey.metrics import absolute_error, relative_absolute_error
from kdey.posteriors import TrainingPosteriors
from kdey.rows import TuningEffort
from kdey.rows.kernel import BandwidthWarning
from kdey.tuning import TuningWarning
from kdey.tuning.trials import TuningPlan, make_hold_outs
from tests.objectives import divergence_at

from .cases import posteriors

KDES = (kdey.KDEyML, kdey.KDEyCS, kdey.KDEyL2, kdey.KDEyHD)


def fitted(make: Any, p: Any, y: Any, **parameters: Any) -> Any:
    return make(random_state=0, **parameters).fit_posteriors(p, y)


@pytest.mark.parametrize("metric", ["ae", "rae"])
@pytest.mark.parametrize("make", KDES[:3])
def test_scores_are_those_of_a_plain_loop(make: Any, metric: str) -> None:
    p, y = posteriors(3, 150)
    q = fitted(make, p, y, tune_for=metric, tune_bag_size=80, precision="double")
    made = make_hold_outs(TrainingPosteriors(p, y), 3, TuningPlan(bag_size=80), 0, TuningEffort())
    for trial in (q.tuning_.trials[0], q.tuning_.best, q.tuning_.trials[-1]):
        errors = []
        for one in made:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fixed = make(bandwidth=trial.value, precision="double", **dict(trial.params))
                t = one.training
                fixed.fit_posteriors(t.posteriors, t.labels, t.weights)
                for b, prevalence in enumerate(one.prevalences):
                    rows = one.bags.indices[one.bags.offsets[b] : one.bags.offsets[b + 1]]
                    bag = np.repeat(one.points[rows], one.bags.bag_weights(b).astype(int), axis=0)
                    found = fixed.aggregate(bag)
                    errors.append(
                        absolute_error(prevalence, found)
                        if metric == "ae"
                        else relative_absolute_error(prevalence, found, bag_size=80)
                    )
        assert trial.score == pytest.approx(np.mean(errors), rel=1e-3)
    assert q.tuning_.metric == metric


@pytest.mark.smoke
@pytest.mark.parametrize("make", KDES)
def test_the_estimate_is_the_weighted_average_of_its_members(make: Any) -> None:
    p, y = posteriors(3, 200)
    extra = {"n_points": 400} if make is kdey.KDEyHD else {}
    q = fitted(make, p, y, **extra)
    members = q.tuning_.members
    assert sum(t.weight for t in members) == pytest.approx(1.0)
    bag = posteriors(3, 90, seed=5)[0]
    alone = [
        fitted(make, p, y, bandwidth=t.value, **dict(t.params), **extra).aggregate(bag)
        for t in members
    ]
    expected = np.average(alone, axis=0, weights=[t.weight for t in members])
    np.testing.assert_allclose(q.aggregate(bag), expected, atol=1e-6)
    assert (q.bandwidth_, q.kernel_) == (members[0].value, dict(members[0].params)["kernel"])
    solution = q.solve_posteriors(bag)
    assert solution.converged.all()
    assert 0 <= solution.gap[0] < 1e-6
    at_own = np.average(
        [divergence_at(fitted(make, p, y, bandwidth=t.value, **dict(t.params), **extra), bag)
         for t in members],
        axis=0, weights=[t.weight for t in members],
    )  # fmt: skip
    assert divergence_at(q, bag)[0] >= at_own[0] - 1e-9


@pytest.mark.parametrize(("average", "most"), [(True, 2), (2, 2), (3, 3), (5, 5), (100, 5)])
def test_weights_fall_with_the_error_and_the_worst_drop_out(average: Any, most: int) -> None:
    p, y = posteriors(3, 200)
    tuning = fitted(kdey.KDEyML, p, y, average=average).tuning_
    best = {}
    for trial in tuning.trials:
        best[trial.setting] = min(best.get(trial.setting, np.inf), trial.score)
    lowest = min(best.values())
    raw = {s: (lowest / e) ** 8 for s, e in sorted(best.items(), key=lambda pair: pair[1])[:most]}
    kept = {s: w for s, w in raw.items() if w >= 0.1}
    assert len(kept) == most  # so that the limit is what decides
    expected = {s: w / sum(kept.values()) for s, w in kept.items()}
    assert {t.setting: t.weight for t in tuning.members} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("parameters", "settings"),
    [
        ({"kernel": "gaussian"}, 1),
        ({"kernel": "aitchison", "shrinkage": 0.01}, 1),
        ({"kernel": "ilr"}, 4),
        ({"average": False}, 5),
        ({"average": 1}, 5),
        ({"average": 0}, 5),
        ({"shrinkage": 1e-3}, 2),
    ],
)
def test_what_is_given_is_kept_and_one_kernel_remains(parameters: Any, settings: int) -> None:
    p, y = posteriors(3, 150)
    q = fitted(kdey.KDEyML, p, y, **parameters)
    assert len({t.setting for t in q.tuning_.trials}) == settings
    if (q.average in (0, 1) and q.average is not True) or q.kernel != "auto":
        assert len(q.tuning_.members) == 1
        assert q.row_map_.references.bandwidth == q.bandwidth_
        lowest = min(t.score for t in q.tuning_.trials)
        assert q.tuning_.best.score == lowest
    if q.kernel != "auto":
        assert q.kernel_ == q.kernel
    if q.shrinkage != "auto" and q.kernel_ != "gaussian":
        assert q.shrinkage_ == q.shrinkage


def test_a_given_bandwidth_chooses_nothing_and_auto_kernel_then_means_gaussian() -> None:
    p, y = posteriors(3, 150)
    plain = kdey.KDEyML(bandwidth=0.1).fit_posteriors(p, y)
    paper = kdey.KDEyML(bandwidth=0.1, kernel="gaussian").fit_posteriors(p, y)
    assert plain.tuning_ is None
    assert (plain.bandwidth_, plain.kernel_) == (0.1, "gaussian")
    np.testing.assert_array_equal(plain.aggregate(p), paper.aggregate(p))
    ratios = kdey.KDEyML(bandwidth=0.5, kernel="aitchison").fit_posteriors(p, y)
    assert ratios.shrinkage_ == 1e-3
    # Fitting again with other parameters forgets the choice.
    again = kdey.KDEyML().fit_posteriors(p, y)
    assert again.tuning_ is not None
    assert again.set_params(bandwidth=0.2).fit_posteriors(p, y).tuning_ is None


def test_a_wide_valley_is_where_theory_wants_it() -> None:
    # Classes far apart need no small bandwidth; overlapping ones do (fact: ML is biased by h).
    far, near = (posteriors(3, 600, sharpness=s) for s in (4.0, 0.7))
    h = [fitted(kdey.KDEyML, *data, kernel="gaussian").bandwidth_ for data in (far, near)]
    assert h[0] > h[1]


def test_the_choice_is_reproducible_and_seeded() -> None:
    p, y = posteriors(4, 200)
    a, b, c = (
        kdey.KDEyML(random_state=s, n_jobs=n).fit_posteriors(p, y)
        for s, n in ((3, None), (3, 2), (4, None))
    )
    assert a.tuning_ == b.tuning_
    assert a.tuning_ != c.tuning_
    assert a.tuning_.seed == 3
    none = [kdey.KDEyML().fit_posteriors(p, y).tuning_ for _ in range(2)]
    assert none[0] == none[1]
    state = [
        kdey.KDEyML(random_state=np.random.RandomState(5)).fit_posteriors(p, y).tuning_
        for _ in range(2)
    ]
    assert state[0] == state[1]


def test_training_weights_equal_repetition() -> None:
    p, y = posteriors(3, 120)
    counts = np.random.default_rng(4).integers(1, 7, size=len(y))
    weighted = kdey.KDEyML().fit_posteriors(p, y, sample_weight=counts)
    repeated = kdey.KDEyML().fit_posteriors(np.repeat(p, counts, axis=0), np.repeat(y, counts))
    assert [(t.setting, t.value) for t in weighted.tuning_.trials] == [
        (t.setting, t.value) for t in repeated.tuning_.trials
    ]
    np.testing.assert_allclose(weighted.aggregate(p), repeated.aggregate(p), atol=1e-4)


@pytest.mark.parametrize("make", KDES)
def test_equal_posteriors_say_that_nothing_can_be_learnt(make: Any) -> None:
    p, y = np.full((60, 3), 1 / 3), np.arange(60) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", TuningWarning)
        with pytest.raises(TuningWarning, match=r"can be learnt .*all equal.*bandwidth=0\.1"):
            make().fit_posteriors(p, y)
        warnings.simplefilter("ignore", TuningWarning)
        q = make(random_state=0).fit_posteriors(p, y)
        assert q.aggregate(p).sum() == pytest.approx(1.0)
    assert q.tuning_.reason is not None
    assert "all equal" in q.tuning_.summary()


def test_two_instances_fall_back() -> None:
    p, y = posteriors(2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BandwidthWarning)
        with pytest.warns(TuningWarning, match="no two classes have instances in more than one"):
            kdey.KDEyML().fit_posteriors(p, y)


@pytest.mark.parametrize("k", [2, 3, 30])
@pytest.mark.parametrize("make", KDES[:3])
def test_perfect_separation(make: Any, k: int) -> None:
    y = np.arange(20 * k) % k
    q = make().fit_posteriors(np.eye(k)[y], y)
    truth = np.arange(1, k + 1) / np.arange(1, k + 1).sum()
    bag = np.repeat(np.eye(k), np.arange(1, k + 1), axis=0)
    np.testing.assert_allclose(q.aggregate(bag), truth, atol=1e-3)
    assert q.tuning_.best.score < 1e-3


@pytest.mark.parametrize("make", KDES)
def test_exact_zeros_and_ones_and_tiny_classes(make: Any) -> None:
    p, y = posteriors(5, 200)
    p = np.round(p, 1)
    p[:, 0] += 1.0 - p.sum(axis=1)
    p = np.clip(p, 0.0, 1.0)
    p /= p.sum(axis=1, keepdims=True)
    keep = (y < 3) | ((y == 3) & (np.cumsum(y == 3) <= 5)) | ((y == 4) & (np.cumsum(y == 4) <= 1))
    p, y = p[keep], y[keep]
    extra = {"n_points": 300} if make is kdey.KDEyHD else {}
    q = fitted(make, p, y, **extra)
    found = q.aggregate(p)
    assert found.shape == (5,)
    assert found.sum() == pytest.approx(1.0)
    assert (found >= 0).all()


def test_two_hundred_classes() -> None:
    p, y = posteriors(200, 1_000, sharpness=4.0)  # five of each
    q = fitted(kdey.KDEyML, p, y, kernel="gaussian")
    assert q.tuning_.n_bags == 20
    assert q.tuning_.best.score < q.tuning_.baseline


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"tune_for": "best"}, "tune_for: metric 'best' is unknown"),
        ({"tune_bag_size": 0}, "tune_bag_size must be"),
        ({"tune_bag_size": 2.5}, "tune_bag_size must be"),
        ({"bandwidth": "wide"}, "bandwidth must be a number or one of auto, scott, silverman"),
        ({"kernel": 3}, "kernel must be one of auto"),
        ({"shrinkage": "much"}, "shrinkage must be a number"),
    ],
)
def test_wrong_parameters_are_refused(parameters: Any, message: str) -> None:
    p, y = posteriors(2, 40)
    with pytest.raises(ValueError, match=message):
        kdey.KDEyML(**parameters).fit_posteriors(p, y)


def test_a_search_over_bandwidths_never_tunes(monkeypatch: pytest.MonkeyPatch) -> None:
    from kdey.tuning import AutomaticKernel

    def refuse(*_: Any) -> None:
        raise AssertionError("a fixed bandwidth must not be tuned")

    monkeypatch.setattr(AutomaticKernel, "choose", refuse)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2)) + 2.0 * np.eye(2)[np.arange(120) % 2]
    protocol = kdey.APP(n_bags=10, bag_size=20)
    search = kdey.GridSearchQ(kdey.KDEyML(cv=3), {"bandwidth": [0.1, 0.2]}, protocol=protocol)
    assert search.fit(X, np.arange(120) % 2).best_estimator_.kernel_ == "gaussian"


def test_a_search_over_classifiers_tunes_each() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3)) + 1.5 * np.eye(3)[np.arange(150) % 3]
    y = np.arange(150) % 3
    protocol = kdey.APP(n_bags=10, bag_size=20)
    grid = {"classifier__C": [0.01, 1.0]}
    quantifier = kdey.KDEyML(LogisticRegression(), cv=3, random_state=0)
    search = kdey.GridSearchQ(quantifier, grid, protocol=protocol, refit=True).fit(X, y)
    assert search.best_estimator_.tuning_ is not None
    expected = clone(quantifier).set_params(**search.best_params_).fit(X, y)
    assert search.best_estimator_.tuning_ == expected.tuning_


@pytest.mark.parametrize("make", KDES[:2])
def test_numpy_chooses_the_same(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    p, y = posteriors(2, 60)
    parameters = {"kernel": "gaussian", "tune_bag_size": 30, "precision": "double"}
    fast = fitted(make, p, y, **parameters)
    monkeypatch.setattr(native, "available", lambda: False)
    slow = fitted(make, p, y, **parameters)
    assert [t.value for t in fast.tuning_.trials] == [t.value for t in slow.tuning_.trials]
    scores = [[t.score for t in q.tuning_.trials] for q in (fast, slow)]
    np.testing.assert_allclose(*scores, rtol=1e-3)
