"""A method in its own file, outside kdey, has everything that kdey's own methods have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import kdey
from kdey.evaluation import check_quantifier
from kdey.evaluation.contract import quantifier_checks
from kdey.groups import predict_groups
from kdey.matching import IntervalSource
from kdey.matching.squares import MatchMeans
from kdey.persistence.archive import ModelFileError
from kdey.rows import ArrayRows, RowMap, class_means, fitted as fitted_field
from tests.strangers.power import PowerPACC
from tests.strangers.relative import MatchRelative, RelativePACC

TRUSTED = [
    "tests.strangers.power:PowerMap",
    "tests.strangers.relative:MatchRelative",
    "tests.strangers.relative:RelativePACC",
]


def draw(n: int, seed: int, prevalence: tuple[float, ...] = (0.5, 0.3, 0.2)) -> Any:
    """Return posteriors (n, 3) of overlapping classes, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, size=n, p=prevalence)
    p = rng.dirichlet(np.ones(3), size=n) + 1.5 * np.eye(3)[y] * rng.random((n, 1))
    return p / p.sum(axis=1, keepdims=True), y


@pytest.fixture(scope="module")
def fitted() -> RelativePACC:
    return RelativePACC(power=2.0).fit_posteriors(*draw(900, 0))


@pytest.mark.parametrize(
    "check",
    quantifier_checks(RelativePACC(power=2.0)),
    ids=lambda check: check.func.__name__ if hasattr(check, "func") else check.__name__,
)
@pytest.mark.parametrize("kind", [PowerPACC, RelativePACC])
def test_it_keeps_every_promise(check: Any, kind: type[PowerPACC]) -> None:
    check(kind(LogisticRegression(max_iter=1000), power=2.0))


def test_check_quantifier_with_an_open_parameter() -> None:
    check_quantifier(RelativePACC(LogisticRegression(max_iter=1000)))


def test_limits_come_from_derivatives_and_the_estimate_says_so(fitted: RelativePACC) -> None:
    p, _ = draw(600, 1, (0.1, 0.2, 0.7))
    estimate = fitted.estimate_posteriors(p)
    assert estimate.method == "analytic"
    assert (estimate.low < estimate.estimate).all()
    assert (estimate.estimate < estimate.high).all()
    boot = fitted.estimate_posteriors(p, options=kdey.Options(method="bootstrap", random_state=0))
    assert boot.method == "bootstrap"
    widths = (estimate.high - estimate.low) / (boot.high - boot.low)
    assert (widths > 0.75).all()
    assert (widths < 1.5).all()
    share = fitted.estimate_posteriors(p, target="bag")
    assert ((share.high - share.low) < (estimate.high - estimate.low)).all()


@dataclass(frozen=True)
class MatchMeansByDerivatives(MatchMeans):
    interval_source: ClassVar[IntervalSource] = "derivatives"


class PACCByDerivatives(kdey.PACC):
    def matching(self) -> MatchMeansByDerivatives:
        return MatchMeansByDerivatives()


@pytest.mark.parametrize("prevalence", [(0.3, 0.3, 0.4), (0.0, 0.1, 0.9), (0.98, 0.01, 0.01)])
def test_derivatives_give_the_limits_of_the_moment_equation(
    prevalence: tuple[float, ...],
) -> None:
    training, bag = draw(700, 2), draw(300, 3, prevalence)[0]
    exact = kdey.PACC().fit_posteriors(*training).estimate_posteriors(bag)
    numeric = PACCByDerivatives().fit_posteriors(*training).estimate_posteriors(bag)
    np.testing.assert_allclose(numeric.low, exact.low, atol=2e-4)
    np.testing.assert_allclose(numeric.high, exact.high, atol=2e-4)


def test_limits_cover() -> None:
    """95 % limits hold the true prevalence in most of 150 bags with training redrawn."""
    prevalence, inside = (0.15, 0.25, 0.6), []
    for seed in range(150):
        q = RelativePACC(power=2.0).fit_posteriors(*draw(400, 2 * seed))
        estimate = q.estimate_posteriors(draw(250, 2 * seed + 1, prevalence)[0])
        inside.append((estimate.low <= prevalence) & (prevalence <= estimate.high))
    assert np.mean(inside) > 0.91


@dataclass(frozen=True)
class MatchNothing(MatchRelative):
    """Answers the same prevalence to every bag: it has no derivative to speak of."""

    def solve(self, problem: Any, n_threads: int = 1) -> Any:
        solution = super().solve(problem, n_threads)
        solution.prevalence[:] = 1.0 / 3.0
        return solution


class Constant(RelativePACC):
    def matching(self) -> MatchNothing:
        return MatchNothing()


def test_without_derivatives_there_is_a_bootstrap() -> None:
    q = Constant(power=2.0).fit_posteriors(*draw(300, 4))
    p = draw(200, 5)[0]
    assert q.estimate_posteriors(p).method == "bootstrap"
    with pytest.raises(ValueError, match="is differentiable there"):
        q.estimate_posteriors(p, options=kdey.Options(method="analytic"))


@dataclass(frozen=True)
class BothMap(RowMap):
    templates: Any = fitted_field()

    def fit(self, training: Any, n_classes: int, n_threads: int = 1) -> BothMap:
        rows = self(training.required()).array
        means = class_means(rows, training.labels, n_classes, training.weights)
        return replace(self, templates=means)

    def __call__(self, points: Any, n_threads: int = 1) -> ArrayRows:
        return ArrayRows(np.hstack([points, np.square(points)]))


class BothPACC(kdey.PACC):
    def row_spec(self) -> BothMap:  # type: ignore[override]
        return BothMap()


def test_rows_may_hold_more_numbers_than_there_are_classes() -> None:
    training, p = draw(700, 2), draw(300, 3)[0]
    plain = kdey.PACC().fit_posteriors(*training).estimate_posteriors(p)
    both = BothPACC().fit_posteriors(*training).estimate_posteriors(p)
    assert both.method == "analytic"
    assert ((both.high - both.low) < 1.2 * (plain.high - plain.low)).all()
    assert ((both.low <= plain.estimate) & (plain.estimate <= both.high)).all()


def table(n: int, seed: int) -> pd.DataFrame:
    p = draw(n, seed)[0]
    frame = pd.DataFrame(p, columns=["p_0", "p_1", "p_2"])
    return frame.assign(field=np.where(np.arange(n) % 3 == 0, "east", "west"))


SCORES = ["p_0", "p_1", "p_2"]


def test_groups_in_memory_and_beyond(fitted: RelativePACC, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table(900, 6)
    memory = predict_groups(fitted, frame, "field", scores=SCORES).to_frame()
    assert (memory["low"] < memory["estimate"]).all()
    dd = pytest.importorskip("dask.dataframe")
    partitioned = predict_groups(
        fitted, dd.from_pandas(frame, npartitions=3), "field", scores=SCORES
    ).to_frame()
    columns = ["estimate", "low", "high"]
    np.testing.assert_allclose(partitioned[columns], memory[columns], atol=1e-8)


def test_evaluation_and_search(fitted: RelativePACC) -> None:
    p, y = draw(900, 7)
    results = kdey.evaluate(
        RelativePACC(LogisticRegression(max_iter=1000), power=1.0).fit(p[::2], y[::2]),
        p[1::2],
        y[1::2],
        kdey.APP(40, 100, random_state=0),
        verbose=False,
    )
    assert results.errors("ae", "RelativePACC").mean() < 0.2
    search = kdey.GridSearchQ(
        RelativePACC(LogisticRegression(max_iter=1000)),
        {"power": [1.0, 2.0]},
        protocol=kdey.APP(40, 100, random_state=0),
        verbose=False,
    ).fit(p, y)
    assert search.best_params_["power"] in (1.0, 2.0)
    assert search.predict(p).shape == (3,)


def test_automatic_tuning() -> None:
    q = RelativePACC().fit_posteriors(*draw(600, 8))
    assert q.tuning_.best_value in (0.5, 1.0, 2.0)
    assert q.row_map_.power == q.tuning_.best_value
    assert "power" in q.tuning_.summary()
    scores = [trial.score for trial in q.tuning_.trials]
    assert q.tuning_.best.score == min(scores)


def test_contributing_shows_this_very_file() -> None:
    root = Path(__file__).parents[2]
    page = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    code = (root / "tests" / "strangers" / "power.py").read_text(encoding="utf-8")
    assert code.partition('"""\n\n')[2] in page


def test_model_files(fitted: RelativePACC, tmp_path: Path) -> None:
    path = kdey.save(fitted, tmp_path / "model.kdey")
    with pytest.raises(ModelFileError, match=r"trusted=\['tests.strangers.power:PowerMap'"):
        kdey.load(path)
    again = kdey.load(path, trusted=TRUSTED)
    p = draw(100, 9)[0]
    np.testing.assert_array_equal(again.aggregate(p), fitted.aggregate(p))
