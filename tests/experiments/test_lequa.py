"""Given bags as tasks: in files or as positions in a pool, the same cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from experiments import tasks as lequa
from experiments.results import ResultsFile, read_results
from experiments.run import Run, run, run_cells
from experiments.sensitivity import curves
from experiments.tasks import bagged_source
from kdey.bags import Bags
from kdey.evaluation.protocols import APP, GivenBags
from kdey.evaluation.stage_scoring import StageCache

from .cases import Part, iris, tiny


class Pool(NamedTuple):
    X: Any
    protocol: GivenBags


@dataclass(frozen=True)
class Indexed:
    """Bags as positions in a pool, as ``kdey.datasets.IndexBags``."""

    instances: Part
    bags: Any
    prevalences: Any
    shares_pool = True

    def __len__(self) -> int:
        return len(self.bags)

    def pool(self, transform: Any, n_bags: int) -> Pool:
        return Pool(
            transform(self.instances.X), GivenBags(self.bags[:n_bags], self.prevalences[:n_bags])
        )


class Filed:
    """The same bags with instances of their own, as ``kdey.datasets.BagFiles``."""

    shares_pool = False

    def __init__(self, inner: Indexed) -> None:
        self.inner, self.prevalences, self.reads = inner, inner.prevalences, 0

    def __len__(self) -> int:
        return len(self.inner)

    def bag(self, number: int) -> Any:
        self.reads += 1
        return self.inner.instances.X[list(self.inner.bags)[number]]

    def __iter__(self) -> Iterator[Any]:
        return (self.bag(number) for number in range(len(self)))


@dataclass(frozen=True)
class Given:
    train: Part
    validation: Any
    test: Any
    name: str = "T1"
    classes: Any = ("a", "b", "c")
    source: str = "made up"
    notes: tuple[str, ...] = ()


def given() -> Given:
    split = iris().split(0)

    def bags(part: Part, n: int) -> Indexed:
        drawn = APP(n, 40, random_state=n).bags(part.y)
        return Indexed(part, drawn.bags, drawn.prevalences)

    return Given(split.train, bags(split.validation, 12), bags(split.test, 15))


def cells(data: Given) -> dict[str, Any]:
    source = bagged_source(data)
    plan = Run(tiny("lequa"), [source], ["PACC", "KDEy-ML"], n_jobs=1)
    task = source.task(plan.setting, 0)
    return {
        f"{method} {cell.key.metric}": cell
        for method in plan.methods
        for cell in run_cells(plan, task, method, plan.metrics, StageCache())
    }


def test_bags_in_files_give_the_cells_of_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lequa, "_PART", 4)
    data = given()
    filed = Filed(data.test)
    in_memory, in_files = cells(data), cells(Given(data.train, data.validation, filed))
    assert in_memory.keys() == in_files.keys()
    for name, cell in in_memory.items():
        assert cell.errors.shape == (15,)
        np.testing.assert_allclose(in_files[name].errors, cell.errors, rtol=1e-4, atol=1e-6)
    assert filed.reads == 15


def test_curves_do_not_depend_on_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    setting, data = tiny("lequa"), given()
    drawn = []
    for test in (data.test, Filed(data.test)):
        monkeypatch.setattr(lequa, "_PART", 4)
        task = bagged_source(Given(data.train, data.validation, test)).task(setting, 0)
        drawn.append(curves(setting, setting.method("DM-HD"), task, StageCache(), 1))
    for a, b in zip(*drawn, strict=True):
        assert (a.parameter, a.values, a.metric) == (b.parameter, b.values, b.metric)
        np.testing.assert_allclose(a.means, b.means, rtol=1e-4)


def unequal(data: Given) -> Given:
    """Return the same data with test bags of 10, 11, 12, ... instances."""
    test = data.test
    positions = [bag[: 10 + number] for number, bag in enumerate(test.bags)]
    bags = Bags(positions, pool_size=test.bags.pool_size)
    return replace(data, test=Indexed(test.instances, bags, test.prevalences))


def test_the_sizes_of_the_bags_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lequa, "_PART", 4)
    setting = replace(tiny("lequa"), bag_size=77)  # the bags have 40 instances, not 77
    for name, data, size, sizes in (
        ("equal", given(), 40, ()),
        ("unequal", unequal(given()), 17, tuple(range(10, 25))),
    ):
        plan = Run(setting, [bagged_source(data)], ["PACC"], n_jobs=1)
        path = tmp_path / f"{name}.jsonl"
        with ResultsFile(path) as store:
            assert run(plan, store, lambda line: None) == []
        (record,) = read_results(path).bags.values()
        assert (record.bag_size, record.bag_sizes) == (size, sizes)


def test_bags_in_files_may_differ_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lequa, "_PART", 4)
    data = unequal(given())
    task = bagged_source(replace(data, test=Filed(data.test))).task(tiny("lequa"), 0)
    assert task.sizes.tolist() == list(range(10, 25))
    parts = list(task.tests())
    for number, bag in enumerate(data.test.bags):
        part, inside = parts[number // 4], number % 4
        positions = list(part.labelled.bags)[inside]
        expected = data.test.instances.X[bag].astype(np.float32)
        np.testing.assert_array_equal(part.X[positions], expected)


def test_no_more_bags_than_asked_for() -> None:
    setting = tiny("lequa", n_validation=5, n_test=6)
    task = bagged_source(given()).task(setting, 3)
    assert len(task.validation.labelled) == 5
    assert [len(part.labelled) for part in task.tests()] == [6]
    assert task.shift.shape == (6,)
