"""Automatic numbers of bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kdey
from kdey.metrics import absolute_error
from kdey.posteriors import TrainingPosteriors
from kdey.rows import TuningEffort
from kdey.tuning import TuningWarning
from kdey.tuning.trials import TuningPlan, make_hold_outs

from .cases import posteriors


@pytest.mark.parametrize("divergence", ["hellinger", "topsoe", "cauchy-schwarz"])
def test_scores_are_those_of_a_plain_loop(divergence: str) -> None:
    p, y = posteriors(3, 200)
    q = kdey.DM(divergence=divergence, random_state=0).fit_posteriors(p, y)
    n_bags = 50 if divergence == "cauchy-schwarz" else 200
    made = make_hold_outs(
        TrainingPosteriors(p, y), 3, TuningPlan(bag_size=500), 0, TuningEffort(bags=n_bags)
    )
    for trial in (q.tuning_.trials[0], q.tuning_.best):
        errors = []
        for one in made:
            t = one.training
            fixed = kdey.DM(divergence=divergence, n_bins=int(trial.value))
            fixed.fit_posteriors(t.posteriors, t.labels, t.weights)
            found = fixed.aggregate_bags(one.points, one.bags)
            errors.append(absolute_error(one.prevalences, found))
        assert trial.score == pytest.approx(np.concatenate(errors).mean(), rel=1e-6)
    assert q.n_bins_ == q.tuning_.best.value == q.row_map_.n_bins


@pytest.mark.parametrize(
    "method", [kdey.DM(), kdey.HDy(n_bins="auto"), kdey.DyS(n_bins="auto"), kdey.DM(cdf=True)]
)
def test_the_chosen_number_is_used(method: Any) -> None:
    p, y = posteriors(2, 300)
    q = method.fit_posteriors(p, y)
    assert q.tuning_.parameter == "n_bins"
    lowest = min(t.score for t in q.tuning_.trials)
    assert q.tuning_.best.score == lowest
    bins = (q.n_bins_,) if isinstance(method, kdey.HDy) else q.n_bins_
    fixed = type(method)(n_bins=bins, **({"cdf": True} if getattr(method, "cdf", False) else {}))
    bag = posteriors(2, 80, seed=3)[0]
    np.testing.assert_allclose(q.aggregate(bag), fixed.fit_posteriors(p, y).aggregate(bag))


@pytest.mark.parametrize("method", [kdey.DMx(n_bins="auto"), kdey.HDx(n_bins="auto")])
def test_features_too(method: Any) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = rng.normal(size=(200, 2)) + 1.5 * np.eye(2)[y]
    q = method.fit(X, y)
    assert q.tuning_.n_bags == 50
    assert abs(q.predict(X[y == 1])[1] - 1.0) < 0.2


def test_few_bins_for_few_instances_and_more_for_many() -> None:
    few, many = (kdey.DM().fit_posteriors(*posteriors(4, n, sharpness=0.6)) for n in (60, 20_000))
    assert few.n_bins_ < many.n_bins_


def test_equal_rows_fall_back() -> None:
    p, y = np.full((40, 2), 0.5), np.arange(40) % 2
    with pytest.warns(TuningWarning, match="n_bins: nothing can be learnt"):
        q = kdey.DM().fit_posteriors(p, y)
    assert q.n_bins_ == 8
    assert "number of bins" in q.tuning_.summary()


def test_given_numbers_choose_nothing() -> None:
    q = kdey.DM(n_bins=5).fit_posteriors(*posteriors(3, 90))
    assert q.tuning_ is None
    assert q.n_bins_ == 5
