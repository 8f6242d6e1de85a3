"""Bags on a device: gathered whole, in runs of bounded size, halved where memory is short."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kdey.bags import Bags
from kdey.gpu import device_rows, solve
from kdey.gpu.device_rows import DeviceBags, DeviceRows
from kdey.gpu.sums import in_tiles
from kdey.matching.likelihood import MaximiseLikelihood


def unequal(seed=0, pool=50, weighted=False):
    rng = np.random.default_rng(seed)
    sizes = [1, 40, 3, 3, 7, 200, 1, 12]
    drawn = [rng.integers(0, pool, size) for size in sizes]
    weights = [rng.random(size) + 0.1 for size in sizes] if weighted else None
    return Bags.from_indices(drawn, pool, weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_gather(place, weighted):
    bags = unequal(weighted=weighted)
    which = np.array([1, 0, 5])
    places, weights = DeviceBags.of(bags, place).gather(which)
    assert places.shape == weights.shape == (3, 200)
    for row, b in enumerate(which):
        held = weights[row] > 0
        assert places[row][held].tolist() == list(bags)[b].tolist()
        np.testing.assert_allclose(weights[row][held].cpu(), bags.bag_weights(b))


def test_bags_of_several_pools(place):
    first, second = unequal(0, pool=50), unequal(1, pool=30, weighted=True)
    bags = DeviceBags.over([first, second, first], [0, 50, 80], place)
    assert len(bags.indices) == len(first.indices) + len(second.indices)
    assert bags.sizes.tolist() == [*first.sizes, *second.sizes, *first.sizes]
    for part, start, number in ((first, 0, 5), (second, 50, 13), (first, 80, 21)):
        positions, weights = bags.gather(np.array([number]))
        assert (positions[0].cpu().numpy() - start).tolist() == list(part)[5].tolist()
        np.testing.assert_allclose(weights[0].cpu(), part.bag_weights(5))


@pytest.mark.parametrize("numbers", [1, 60, 500, 1 << 20])
def test_runs_cover_every_bag_once(monkeypatch, numbers):
    monkeypatch.setattr(device_rows, "_NUMBERS", {"cpu": numbers})
    held = DeviceBags.of(unequal(), torch.device("cpu"))
    runs = list(held.runs(3))
    assert sorted(np.concatenate(runs).tolist()) == list(range(8))
    for run in runs:
        sizes = held.sizes[run]
        assert sizes.max() <= 2 * sizes.min()
        assert len(run) == 1 or 3 * len(run) * sizes.max() <= numbers


def test_short_of_memory_while_solving(monkeypatch):
    rng = np.random.default_rng(1)
    logs = torch.from_numpy(np.log(rng.dirichlet(np.ones(4), 50)))
    bags = unequal()
    wanted = solve.maximise_likelihood(logs, DeviceBags.of(bags, logs.device), 1e-8, 100)
    inner, refused = solve.solve_interior, []

    def one_at_a_time(loss, *rest):
        if len(loss.rows) > 1:
            refused.append(len(loss.rows))
            raise torch.OutOfMemoryError("CUDA out of memory")
        return inner(loss, *rest)

    monkeypatch.setattr(solve, "solve_interior", one_at_a_time)
    found = solve.maximise_likelihood(logs, DeviceBags.of(bags, logs.device), 1e-8, 100)
    assert refused
    np.testing.assert_allclose(found.prevalence, wanted.prevalence, atol=1e-9)


@pytest.mark.parametrize("kinds", ["alike", "classes", "memory"])
def test_several_rows_are_solved_as_one_after_the_other(monkeypatch, place, kinds):
    rng = np.random.default_rng(2)
    widths = [3, 4, 4] if kinds == "classes" else [4, 4, 4]
    logs = [torch.from_numpy(np.log(rng.dirichlet(np.ones(k), 50))).to(place) for k in widths]
    logs[1] = logs[1].float()
    parts = [
        (DeviceRows(part), bags)
        for part, bags in zip(logs, (unequal(), unequal(3, weighted=True), unequal(4)), strict=True)
    ]
    if kinds == "memory":
        join = torch.cat

        def short(tensors):
            if tensors[0].ndim == 2:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return join(tensors)

        monkeypatch.setattr(torch, "cat", short)
    found = solve.solve_mixtures(MaximiseLikelihood(), parts)
    monkeypatch.undo()
    for (rows, bags), solution in zip(parts, found, strict=True):
        wanted = solve.maximise_likelihood(
            rows.values, DeviceBags.of(bags, rows.values.device), 1e-8, 100
        )
        np.testing.assert_allclose(solution.prevalence, wanted.prevalence, atol=1e-6)
        np.testing.assert_allclose(solution.objective, wanted.objective, atol=1e-6)
        assert solution.converged.all()


def test_tiles_come_in_order_and_once():
    seen = []

    def work(start, stop):
        if stop - start > 3:
            raise torch.OutOfMemoryError
        seen.extend(range(start, stop))

    assert in_tiles(work, 20, 16) <= 3
    assert seen == list(range(20))
    assert in_tiles(lambda start, stop: None, 0, 4) == 4
