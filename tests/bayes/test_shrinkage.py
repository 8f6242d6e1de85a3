"""Partial pooling: what is recovered, what is said, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kdey import EMQ, PACC, KDEyML, Quantifier
from kdey.bayes import pooling
from kdey.bayes.chains import SamplingWarning
from kdey.bayes.pooling import (
    GroupTree,
    ShrunkGroups,
    drifts,
    shrink_groups,
)
from kdey.bayes.sampling import TemplateDraws
from tests.groups.cases import CLASSES, fitted, posteriors

QUICK = {"n_templates": 4, "n_sweeps": 200, "n_draws": 25, "n_rounds": 1}


def table(
    kappa: float, n_groups: int = 40, size: int = 30, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, GroupTree]:
    """Return true prevalences, posteriors and the tree of groups."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(kappa * np.array([0.5, 0.3, 0.2]), size=n_groups)
    labels = np.concatenate([rng.choice(3, size, p=p) for p in truth])
    return truth, posteriors(labels, rng), GroupTree.of(np.full(n_groups, size))


@pytest.fixture(scope="module")
def templates() -> TemplateDraws:
    return TemplateDraws.of(fitted(PACC))


@pytest.fixture(scope="module")
def pooled(templates: TemplateDraws) -> tuple[np.ndarray, np.ndarray, ShrunkGroups]:
    truth, scores, tree = table(20.0)
    return truth, scores, shrink_groups(templates, scores, tree, **QUICK)


@pytest.mark.smoke
def test_pooling_helps_small_groups(pooled: tuple[np.ndarray, np.ndarray, ShrunkGroups]) -> None:
    truth, scores, drawn = pooled
    separate = fitted(PACC).aggregate_bags(scores, np.arange(len(scores)).reshape(40, 30))
    error, before = (np.abs(x - truth).mean() for x in (drawn.estimate(), separate))
    assert error < 0.85 * before
    low, high = drawn.interval(0.025)
    assert ((low <= truth) & (truth <= high)).mean() > 0.85
    assert ((low <= drawn.estimate()) & (drawn.estimate() <= high)).all()


def test_kappa_is_recovered(pooled: tuple[np.ndarray, np.ndarray, ShrunkGroups]) -> None:
    low, high = np.quantile(pooled[2].kappa, [0.01, 0.99])
    assert low < 20.0 < high
    assert pooled[2].told_apart
    assert pooled[2].template_noise
    assert (pooled[2].shrinkage > 0.1).all()
    assert (pooled[2].shrinkage < 0.95).all()


def test_equal_groups_cannot_be_told_apart(templates: TemplateDraws) -> None:
    _, scores, tree = table(1e6)
    drawn = shrink_groups(templates, scores, tree, **QUICK)
    assert not drawn.told_apart
    assert drawn.shrinkage.mean() > 0.6


def test_large_groups_stand_alone(templates: TemplateDraws) -> None:
    _, scores, tree = table(3.0, n_groups=8, size=400)
    drawn = shrink_groups(templates, scores, tree, **QUICK)
    assert drawn.shrinkage.mean() < 0.2


def test_draws_do_not_depend_on_threads(templates: TemplateDraws) -> None:
    _, scores, tree = table(10.0, n_groups=6, size=10)
    one, two = (shrink_groups(templates, scores, tree, **QUICK, n_threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one.population, two.population)
    np.testing.assert_array_equal(one.interval(0.05), two.interval(0.05))


def test_positions_put_rows_in_order(templates: TemplateDraws) -> None:
    _, scores, tree = table(10.0, n_groups=6, size=10)
    order = np.random.default_rng(0).permutation(len(scores))
    plain = shrink_groups(templates, scores, tree, **QUICK)
    shuffled = shrink_groups(templates, scores[order], tree, positions=np.argsort(order), **QUICK)
    np.testing.assert_array_equal(plain.population, shuffled.population)


def test_a_group_is_known_better_than_its_population(
    pooled: tuple[np.ndarray, np.ndarray, ShrunkGroups],
) -> None:
    widths = [
        np.diff(pooled[2].interval(0.025, target), axis=0) for target in ("population", "bag")
    ]
    assert widths[1].mean() < widths[0].mean()
    with pytest.raises(ValueError, match="target must be 'population'"):
        pooled[2].draws("week")


def test_parents_pull_their_groups(templates: TemplateDraws) -> None:
    rng = np.random.default_rng(5)
    means = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    parents = np.repeat([0, 1], 15)
    labels = np.concatenate([rng.choice(3, 8, p=means[p]) for p in parents])
    tree = GroupTree.of(np.full(30, 8), parents)
    drawn = shrink_groups(templates, posteriors(labels, rng), tree, **QUICK)
    flat = shrink_groups(
        templates, posteriors(labels, rng), replace(tree, parents=0 * parents), **QUICK
    )
    errors = [np.abs(x.estimate() - means[parents]).mean() for x in (drawn, flat)]
    assert errors[0] < 0.7 * errors[1]
    assert drawn.means.shape == (100, 2, 3)


@pytest.mark.parametrize("quantifier", [fitted(KDEyML), fitted(EMQ, calibration="bcts")])
def test_methods_with_training_posteriors_share_their_rows(quantifier: object) -> None:
    _, scores, _ = table(10.0, n_groups=3, size=10)
    seed = np.random.SeedSequence(3)
    rows = TemplateDraws.of(quantifier).draw(seed)(scores)  # type: ignore[arg-type]
    expected = TemplateDraws.of(fitted(PACC)).draw(seed)(scores)
    np.testing.assert_allclose(rows, expected, rtol=1e-6)


def test_templates_that_were_not_learnt_do_not_vary() -> None:
    draws = TemplateDraws(replace(TemplateDraws.of(fitted(EMQ)).model, training=None))
    _, scores, tree = table(10.0, n_groups=4, size=8)
    first, second = (draws.draw(np.random.SeedSequence(seed))(scores) for seed in (1, 2))
    np.testing.assert_array_equal(first, second)
    drawn = shrink_groups(draws, scores, tree, **QUICK)
    assert not drawn.template_noise
    np.testing.assert_array_equal(drawn.shifts, 0.0)


def test_pools_of_scores_are_refitted() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 40)
    seen = np.where(rng.random(120) < 0.3, rng.integers(0, 3, 120), labels)  # some are wrong
    scores = {name: posteriors(seen, rng) for name in ("a", "b")}
    q = Quantifier(methods=[EMQ(calibration="bcts")], random_state=0)
    q.fit_posteriors(scores, CLASSES[labels])
    draws = TemplateDraws.of(q)
    points = np.hstack([scores["a"], scores["b"]])
    first, second = (draws.draw(np.random.SeedSequence(seed)) for seed in (1, 2))
    assert first(points).shape == (120, 3)
    assert np.abs(first(points) - second(points)).max() > 1e-3


def test_discrepancy_is_large_where_densities_are_wrong(templates: TemplateDraws) -> None:
    drawn = templates.draw(np.random.SeedSequence(0))
    mean = np.array([0.6, 0.3, 0.1])
    right = np.abs(drawn.discrepancy(mean)).sum()
    assert drawn.training is not None
    wrong = replace(drawn, training=drawn.training * np.array([4.0, 1.0, 1.0]))
    assert np.abs(wrong.discrepancy(mean)).sum() > 3 * right
    assert drawn.discrepancy(mean).sum() == pytest.approx(0.0, abs=1e-9)
    unlearnt = replace(drawn, training=None, weights=None)
    np.testing.assert_array_equal(unlearnt.discrepancy(mean), 0.0)


def test_too_much_memory_is_refused(
    templates: TemplateDraws, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, scores, tree = table(10.0, n_groups=6, size=10)
    monkeypatch.setattr(pooling, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"pooling 6 groups of 60 instances .* GiB"):
        shrink_groups(templates, scores, tree, **QUICK)


def test_drifting_chains_are_run_again_and_then_warned_of(
    templates: TemplateDraws, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, scores, tree = table(10.0, n_groups=6, size=10)
    rounds: list[int] = []

    def always(traces: np.ndarray) -> bool:
        rounds.append(traces.shape[1])
        return True

    monkeypatch.setattr("kdey.bayes.pooling.drifts", always)
    effort = {"n_templates": 2, "n_sweeps": 30, "n_draws": 5, "n_rounds": 3}
    with pytest.warns(SamplingWarning, match="concentrations drift"):
        drawn = shrink_groups(templates, scores, tree, **effort)
    assert rounds == [20, 40, 80]
    assert not drawn.converged


def test_drift_is_seen() -> None:
    rng = np.random.default_rng(0)
    still = np.exp(rng.normal(size=(10, 200, 1)))
    assert not drifts(still)
    assert drifts(still * np.exp(np.linspace(0, 2, 200))[:, None])
