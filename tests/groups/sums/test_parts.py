"""Sums of parts: against slow sums, and put together in any way."""

from __future__ import annotations

import numpy as np
import pytest

from kdey import KDEyML
from kdey.bags import Bags
from kdey.groups.sums import GroupSums, make_batch, merge, plan_of
from kdey.groups.sums.group_sums import GroupedRows
from kdey.groups.sums.limits import ClassSums
from kdey.groups.sums.solve import Mixtures, Trial, solve_mixtures
from kdey.problems import MixtureLikelihood
from tests.groups.sums.cases import make_case


def grouped(sizes: list[int], k: int = 3, seed: int = 0) -> GroupedRows:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = rng.random((offsets[-1], k)).astype(np.float32)
    return GroupedRows(np.arange(len(sizes)) * 2, offsets, (rows,))


def test_sums_are_added_and_log_sums_in_the_log_domain() -> None:
    rng = np.random.default_rng(0)
    parts, values, logs = [], np.zeros((6, 2)), np.zeros(6)
    for groups in ([0, 2, 5], [2], [], [0, 1, 2, 5]):
        v, u = rng.random((len(groups), 2)), rng.random(len(groups))
        fields = ({"a": v}, {"b": np.log(u) - 900.0}) if groups else ({}, {})
        parts.append(GroupSums(np.array(groups, dtype=np.int64), *fields))
        np.add.at(values, groups, v)
        np.add.at(logs, groups, u)
    made = merge(parts)
    assert made.groups.tolist() == [0, 1, 2, 5]
    np.testing.assert_allclose(made.spread("a", 6), values)
    np.testing.assert_allclose(made.logs["b"] + 900, np.log(logs[logs > 0]))


def test_numbers_can_change() -> None:
    given = GroupSums(np.array([0, 1, 2]), {"a": np.array([1.0, 2.0, 3.0])})
    made = given.renumbered(np.array([7, 3, 5]))
    assert made.groups.tolist() == [3, 5, 7]
    assert made.sums["a"].tolist() == [2.0, 3.0, 1.0]


@pytest.mark.parametrize("curved", [True, False])
@pytest.mark.parametrize("sizes", [[1, 5, 3], [200, 1, 97, 2, 96, 95], [20_000, 4]])
def test_likelihood_sums_against_the_problem(sizes: list[int], curved: bool) -> None:
    part, rng = grouped(sizes), np.random.default_rng(1)
    x = rng.dirichlet(np.ones(3), len(sizes))
    made = Trial(part.groups, x, 20, curved=curved)(part)
    rows = part.rows[0].astype(float)
    bags = Bags(np.arange(len(rows)), part.offsets, len(rows))
    problem = MixtureLikelihood(rows, bags)
    n = np.diff(part.offsets).astype(float)
    np.testing.assert_allclose(made.sums["value"] / n, problem.objective(x), rtol=1e-12)
    np.testing.assert_allclose(-made.sums["slope"] / n[:, None], problem.gradient(x), rtol=1e-11)
    if curved:
        expected = problem.hessian(x)
        np.testing.assert_allclose(made.sums["curve"] / n[:, None, None], expected, rtol=1e-11)


def test_only_groups_on_trial_are_summed() -> None:
    part = grouped([4, 200, 7])
    made = Trial(np.array([2, 9]), np.full((2, 3), 1 / 3), 20)(part)
    assert made.groups.tolist() == [2]


def test_products_against_loops() -> None:
    part, rng = grouped([5, 40, 7]), np.random.default_rng(2)
    tilt = rng.dirichlet(np.ones(3), 2)
    made = ClassSums(part.groups[1:], tilt)(part)
    assert made.groups.tolist() == part.groups[1:].tolist()
    for g in range(2):
        rows = part.rows[0][part.offsets[g + 1] : part.offsets[g + 2]].astype(float)
        phi = rows * tilt[g] / (rows @ tilt[g])[:, None]
        expected = np.einsum("nl,ni,nj->lij", phi, phi, phi)
        np.testing.assert_allclose(made.sums["products"][g], expected)


def test_batches_of_any_block_size_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(3, 5, largest=300)
    plan = plan_of(KDEyML(bandwidth=0.1).fit_posteriors(case.training, case.labels))
    sums, rows = make_batch(plan, case.points, case.codes)
    monkeypatch.setattr("kdey.groups.sums.group_sums.BLOCK", 17)
    again, same = make_batch(plan, case.points, case.codes)
    assert rows is not None
    assert same is not None
    np.testing.assert_array_equal(rows.rows[0], same.rows[0])
    np.testing.assert_array_equal(rows.offsets, same.offsets)
    for name, values in sums.sums.items():
        np.testing.assert_allclose(values, again.sums[name], rtol=1e-12)


def test_a_source_that_changes_between_passes_is_refused() -> None:
    class Fickle:
        def total(self, contribution):
            return contribution(grouped([4, 4]))

    given = Mixtures(np.full(5, 4.0), np.zeros(5), np.zeros(5), np.full((5, 3), 1 / 3))
    with pytest.raises(RuntimeError, match="met other groups"):
        solve_mixtures(Fickle(), given, 5)
