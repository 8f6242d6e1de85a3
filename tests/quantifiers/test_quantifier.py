"""Quantifier behind every door of the library."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import kdey
from kdey import APP, GridSearchQ, Ordered, Quantifier, native
from kdey.calibration import BCTS
from kdey.rows.posterior import RatioMap
from kdey.stacking import MemberWarning

# The tests of the contract have a pool on the NumPy path too, without kernels.
pytestmark = pytest.mark.skipif(
    not native.available(), reason="tuning the kernels of a pool takes minutes on the NumPy path"
)

CLASSIFIERS = {"linear": LogisticRegression(), "trees": ExtraTreesClassifier(20, random_state=0)}


def data(n: int, seed: int = 0, k: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.choice(k, size=n, p=np.arange(1, k + 1) / np.arange(1, k + 1).sum())
    return rng.normal(size=(n, 3)) + 1.5 * np.eye(k)[y][:, :3], y


@pytest.fixture(scope="module")
def fitted() -> Quantifier:
    X, y = data(600)
    return Quantifier(CLASSIFIERS, effort="low", random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def bag() -> tuple[np.ndarray, np.ndarray]:
    X, y = data(900, seed=1)
    keep = np.flatnonzero((y == 0) | (np.arange(900) % 3 == 0))
    return X[keep], np.bincount(y[keep], minlength=3) / len(keep)


def test_the_answer_is_near_the_truth(fitted: Quantifier, bag: Any) -> None:
    X, truth = bag
    estimate = fitted.estimate(X)
    assert np.abs(estimate.estimate - truth).mean() < 0.05
    assert (estimate.low <= truth + 0.03).all()
    assert (estimate.high >= truth - 0.03).all()


def test_a_large_table_is_sampled(monkeypatch: pytest.MonkeyPatch, bag: Any) -> None:
    monkeypatch.setattr("kdey.stacking.MOST_ROWS", 300)
    X, y = data(1200)
    weights, shops = np.where(y == 0, 2.0, 1.0), np.arange(1200) % 4
    q = Quantifier("logistic regression", effort="low", random_state=0)
    with pytest.warns(MemberWarning, match="1,200 training instances: a random sample of 30"):
        q.fit(X, y, weights, clusters=np.arange(1200) // 2, strata=shops)
    training = q.model_.training
    assert 300 <= len(training.labels) <= 303
    shares = np.bincount(training.labels) / len(training.labels)
    np.testing.assert_allclose(shares, np.bincount(y) / 1200, atol=0.005)
    np.testing.assert_array_equal(training.weights, np.where(training.labels == 0, 2.0, 1.0))
    assert len(np.unique(training.clusters)) > 250
    assert len(np.unique(training.strata)) == 4
    assert np.abs(q.predict(bag[0]) - bag[1]).mean() < 0.05


def test_it_is_maximum_likelihood_on_the_recalibrated_pool(fitted: Quantifier, bag: Any) -> None:
    """Compare with the plain formulas: pool, BCTS, power, density ratios, mixture."""
    from kdey.bags import Bags
    from kdey.matching.likelihood import MixtureLikelihood, solve_mixture

    X, _ = bag
    training = fitted.training_
    calibrator = BCTS().fit(training.posteriors, training.labels)
    power = dict(fitted.tuning_.best.params)["power"]
    share = fitted.tuning_.best.value

    def sharpened(p: np.ndarray) -> np.ndarray:
        q = calibrator.transform(p) ** power
        return np.asarray(q / q.sum(axis=1, keepdims=True))

    prior = sharpened(training.posteriors).mean(axis=0)
    rows = sharpened(fitted.classifier_.predict_proba(X)) / prior
    problem = MixtureLikelihood(rows, Bags.whole(len(X)), pseudo_share=share)
    assert fitted.predict(X) == pytest.approx(solve_mixture(problem).prevalence[0], abs=1e-5)


def test_training_posteriors_are_out_of_fold(fitted: Quantifier) -> None:
    X, y = data(600)
    seen = fitted.classifier_.predict_proba(X)[np.arange(600), y]
    unseen = fitted.training_.posteriors[np.arange(600), y]
    assert fitted.training_.folds is not None
    assert np.log(unseen).mean() < np.log(seen).mean()


def test_bootstrap_limits_agree_with_analytic_ones(fitted: Quantifier, bag: Any) -> None:
    X, _ = bag
    analytic = fitted.estimate(X)
    drawn = fitted.estimate(
        X, options=kdey.Options(method="bootstrap", n_replicates=100, random_state=0)
    )
    ratio = (drawn.high - drawn.low) / (analytic.high - analytic.low)
    assert (ratio > 0.5).all()
    assert (ratio < 2.0).all()


def test_diagnostics(fitted: Quantifier, bag: Any) -> None:
    X, _ = bag
    assert kdey.check_fit(fitted, X, random_state=0).p_value > 0.001
    checked = kdey.check_fit(fitted, X + 3.0, random_state=0)
    assert checked.p_value < 0.05
    assert "intervals" in str(kdey.identifiability(fitted))
    draws = kdey.sample_posterior(fitted, X, random_state=0)
    assert draws.mean() == pytest.approx(fitted.predict(X), abs=0.05)


def test_groups_in_memory(fitted: Quantifier) -> None:
    pd = pytest.importorskip("pandas")
    X, _ = data(400, seed=2)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(group=np.arange(400) % 4)
    answers = fitted.predict_groups(frame, "group").to_frame()
    alone = np.array([fitted.predict(X[frame.group == g]) for g in range(4)])
    assert answers["estimate"].to_numpy().reshape(4, 3) == pytest.approx(alone, abs=1e-6)


def test_groups_from_sums(fitted: Quantifier) -> None:
    pd = pytest.importorskip("pandas")
    X, _ = data(400, seed=2)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(group=np.arange(400) % 4)
    alone = np.array([fitted.predict(X[frame.group == g]) for g in range(4)])
    assert fitted.row_map_.pseudo_share >= 0
    smoothed = dataclasses.replace(fitted.row_map_, pseudo_share=0.01)
    other = copy.copy(fitted)
    other.model_ = dataclasses.replace(fitted.model_, row_map=smoothed)
    lazy = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)
    for q in (fitted, other):
        answers = q.predict_groups(lazy, "group").to_frame().sort_values(["group", "class"])
        found = answers["estimate"].to_numpy().reshape(4, 3)
        expected = np.array([q.predict(X[frame.group == g]) for g in range(4)])
        assert found == pytest.approx(expected, abs=1e-4)
    assert np.abs(expected - alone).max() > 1e-4


def test_evaluation_and_search() -> None:
    X, y = data(500)
    X_test, y_test = data(400, seed=3)
    protocol = kdey.APP(20, 100, random_state=0)
    q = Quantifier(GaussianNB(), effort="low", random_state=0)
    results = kdey.evaluate({"pool": q.fit(X, y)}, X_test, y_test, protocol)
    assert results.summary is not None
    search = kdey.GridSearchQ(q, {"tune_for": ["ae", "rae"]}, protocol=protocol).fit(X, y)
    assert search.best_estimator_.predict(X_test).sum() == pytest.approx(1.0)


def test_model_files(fitted: Quantifier, bag: Any, tmp_path: Path) -> None:
    pytest.importorskip("skops")
    X, _ = bag
    loaded = kdey.load(kdey.save(fitted, tmp_path / "model.kdey"))
    assert (loaded.predict(X) == fitted.predict(X)).all()
    assert loaded.explain() == fitted.explain()
    assert loaded.estimate(X).low == pytest.approx(fitted.estimate(X).low)


def test_reports(fitted: Quantifier, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("jinja2")
    X, _ = data(300, seed=4)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(group=np.arange(300) % 2)
    groups = fitted.predict_groups(frame, "group").to_frame()
    path = kdey.write_report(
        tmp_path / "report.html", fitted.estimate(X), groups, by="group", quantifier=fitted
    )
    assert path.stat().st_size > 1000


def test_explain_and_summary(fitted: Quantifier) -> None:
    text = fitted.explain()
    for member in fitted.stack_.members:
        assert member.name in text
    assert "for answering all classes alike" in text
    assert "best member" not in text  # its error on bags that it was tuned on is no comparison
    assert fitted.summary().startswith(f"A pool of {len(fitted.stack_.members)} member")
    assert sum(member.weight for member in fitted.stack_.members) == pytest.approx(1.0)


def test_tables_with_gaps_categories_and_texts(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    y = np.where(np.arange(300) % 3 == 0, "bad", "good")
    is_bad = y == "bad"
    nouns = np.array(["room", "staff", "food", "bed", "view", "lobby"])
    praise, blame = np.array(["lovely", "clean", "warm"]), np.array(["dirty", "cold", "rude"])
    words = np.where(is_bad, rng.choice(blame, 300), rng.choice(praise, 300))
    texts = [
        f"The {a} was {w} and the {b} looked {w} when we came back that day number {i}"
        for i, (a, b, w) in enumerate(
            zip(rng.choice(nouns, 300), rng.choice(nouns, 300), words, strict=True)
        )
    ]
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(300) < 0.1, np.nan, rng.normal(size=300) + is_bad),
            "city": np.where(rng.random(300) < 0.5, "Rome", np.where(is_bad, "Oslo", "Bern")),
            "review": texts,
        }
    )
    q = Quantifier(effort="low", random_state=0).fit(frame[:200], y[:200])
    assert {"logistic regression", "naive Bayes"} & set(q.stack_.seconds)
    shuffled = frame[["review", "age", "city"]][200:].assign(extra=1)
    truth = is_bad[200:].mean()
    assert q.predict(shuffled)[0] == pytest.approx(truth, abs=0.1)
    pytest.importorskip("skops")
    loaded = kdey.load(kdey.save(q, tmp_path / "model.kdey"))
    assert loaded.predict(shuffled) == pytest.approx(q.predict(shuffled))


def test_missing_numbers_are_taken(fitted: Quantifier) -> None:
    X, y = data(300)
    X[::7, 1] = np.nan
    names = ["logistic regression", "extra trees"]
    q = Quantifier(names, effort="low", random_state=0).fit(X, y)
    assert q.predict(X) == pytest.approx(np.bincount(y) / 300, abs=0.1)


def scores(y: np.ndarray, strength: float, seed: int) -> np.ndarray:
    p = np.random.default_rng(seed).dirichlet(np.ones(3), size=len(y)) + strength * np.eye(3)[y]
    return np.asarray(p / p.sum(axis=1, keepdims=True))


@pytest.fixture(scope="module")
def judges() -> tuple[Quantifier, Any]:
    y = data(500)[1]
    given = {"A": scores(y, 0.3, 1), "B": scores(y, 0.4, 2), "C": scores(y, 0.0, 3)}
    return Quantifier(random_state=0).fit_posteriors(given, y), given


def test_several_sets_of_scores(judges: Any, tmp_path: Path) -> None:
    q, _ = judges
    y = data(300, seed=5)[1]
    new = {"B": scores(y, 0.4, 12), "A": scores(y, 0.3, 11), "C": scores(y, 0.0, 13)}
    truth = np.bincount(y, minlength=3) / len(y)
    estimate = q.estimate_posteriors(new)
    assert estimate.estimate == pytest.approx(q.aggregate(new))
    assert np.abs(estimate.estimate - truth).mean() < 0.05
    assert estimate.classify_and_count.sum() == pytest.approx(1.0)
    bags = [np.arange(100), np.arange(50, 300)]
    for number, found in enumerate(q.aggregate_bags(new, bags)):
        part = {name: p[bags[number]] for name, p in new.items()}
        assert found == pytest.approx(q.aggregate(part), abs=1e-6)
    pytest.importorskip("skops")
    loaded = kdey.load(kdey.save(q, tmp_path / "judges.kdey"))
    assert loaded.aggregate(new) == pytest.approx(q.aggregate(new))


def test_two_judges_beat_one(judges: Any) -> None:
    q, given = judges
    y = data(500)[1]
    alone = Quantifier(random_state=0).fit_posteriors(given["A"], y)
    assert q.stack_.log_loss < alone.stack_.log_loss
    assert {member.classifier for member in q.stack_.members} >= {"A", "B"}


def test_scores_must_have_the_names_of_the_fit(judges: Any) -> None:
    q, given = judges
    with pytest.raises(ValueError, match="'A', 'B', 'C'"):
        q.aggregate({"A": given["A"]})
    with pytest.raises(ValueError, match="'A', 'B', 'C'"):
        q.aggregate(given["A"])
    with pytest.raises(ValueError, match="one row per instance"):
        q.aggregate({**given, "A": given["A"][:10]})
    with pytest.raises(ValueError, match="columns"):
        q.row_map_(given["A"])


def test_scores_by_name_need_a_fit_on_scores(fitted: Quantifier, judges: Any) -> None:
    with pytest.raises(ValueError, match="fitted on instances"):
        fitted.aggregate(judges[1])


def test_one_set_of_scores_is_checked_like_posteriors(judges: Any) -> None:
    _, given = judges
    y = data(500)[1]
    q = Quantifier(random_state=0).fit_posteriors(given["B"], y)
    assert q.aggregate(given["B"]) == pytest.approx(np.bincount(y) / 500, abs=0.02)
    assert kdey.check_fit(q, posteriors=given["B"], random_state=0).p_value > 0.001
    X, labels = data(300)
    again = q.set_params(classifiers=GaussianNB(), effort="low").fit(X, labels)
    assert isinstance(again.row_map_, RatioMap)  # nothing is left of the scores


def test_relative_errors_get_less_smoothing() -> None:
    """Classes that cannot be told apart: smoothing pays for absolute errors."""
    rng = np.random.default_rng(0)
    y = rng.integers(6, size=900)
    X = rng.normal(size=(900, 2)) + 0.3 * np.stack([y, y % 2], axis=1)
    shares = {}
    for metric in ("ae", "rae"):
        q = Quantifier(GaussianNB(), effort="low", tune_for=metric, random_state=0).fit(X, y)
        shares[metric] = q.tuning_.best.value
    assert shares["ae"] > 0
    assert shares["rae"] <= shares["ae"]


def test_methods_can_be_chosen() -> None:
    X, y = data(500)
    q = Quantifier(GaussianNB(), methods=[kdey.DIR(), kdey.EMQ()], effort="low").fit(X, y)
    assert {member.method for member in q.stack_.members} <= {"DIR", "EMQ"}
    with pytest.raises(ValueError, match="mixture likelihood"):
        Quantifier(methods=[kdey.PACC()]).fit(X, y)


def test_sparse_matrices_come_through_searches_and_wrappers() -> None:
    """Only ``fit`` itself knew that X is sparse: elsewhere members tried to centre its columns."""
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    X = sp.csr_matrix(np.maximum(np.eye(3)[y] + rng.normal(scale=0.7, size=(150, 3)), 0.0))
    pool = Quantifier(["logistic regression", "naive Bayes"], effort="low", random_state=0)
    alone = clone(pool).fit(X, y).predict(X)
    search = GridSearchQ(
        pool, {"tune_for": ["ae"]}, protocol=APP(n_bags=5, bag_size=30, random_state=0)
    )
    assert search.fit(X, y).predict(X) == pytest.approx(alone)
    assert Ordered(pool).fit(X, y).predict(X) == pytest.approx(alone, abs=0.1)
