"""One search for all metrics finds what a plain loop finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from experiments.run import choose, classifier_of, quiet
from experiments.settings import METHODS, METRICS
from kdey.evaluation.stage_scoring import StageCache
from kdey.metrics import get_metric

from .cases import source, tiny

BOTH = ("mae", "mrae")


@pytest.mark.parametrize("name", ["PACC", "DM-HD", "EMQ", "EMQ-BCTS", "KDEy-CS", "HDy-OvA"])
def test_choice_is_that_of_a_plain_loop(name: str) -> None:
    setting = tiny()
    task, method = source().task(setting, 0), setting.method(name)
    by_hand = choose(method, task, setting, BOTH, StageCache(), 1)
    labelled = task.validation.labelled
    for metric in BOTH:
        errors = []
        grid = list(ParameterGrid(method.param_grid(setting.classifiers, method.grid)))
        for params in grid:
            quantifier = clone(method.build(classifier_of(setting), 0, 1)).set_params(**params)
            with quiet():
                quantifier.fit(task.train.X, task.train.y)
                estimated = quantifier.predict_bags(task.validation.X, labelled.bags)
            measure = get_metric(METRICS[metric])
            errors.append(measure(labelled.prevalences, estimated, bag_size=40).mean())
        assert by_hand[metric].error == pytest.approx(min(errors), rel=1e-4)
        assert by_hand[metric].params == grid[int(np.argmin(errors))]
        assert (by_hand[metric].candidates, by_hand[metric].failed) == (len(grid), 0)


def test_one_metric_sees_what_it_sees_among_several() -> None:
    setting = replace(tiny(), quick=False)
    task = source().task(setting, 0)
    method = replace(
        METHODS["KDEy-ML"], grid={"bandwidth": (0.01, 0.05)}, beyond={"bandwidth": (0.2, 0.3)}
    )
    together = choose(method, task, setting, BOTH, StageCache(), 1)
    for metric in BOTH:
        alone = choose(method, task, setting, [metric], StageCache(), 1)
        assert alone[metric] == together[metric]


def test_a_grid_goes_on_beyond_its_edge_only() -> None:
    setting = tiny(classifiers={"C": (1.0,), "class_weight": (None,)})
    task = source().task(setting, 0)
    method = METHODS["KDEy-ML"]  # at a bandwidth of 9 all of its densities are alike
    inside = replace(method, grid={"bandwidth": (0.05, 0.1, 9.0)}, beyond={"bandwidth": (10.0,)})
    assert choose(inside, task, setting, ["mae"], StageCache(), 1)["mae"].candidates == 3
    edge = replace(method, grid={"bandwidth": (1.0, 0.5)}, beyond={"bandwidth": (0.05, 0.1)})
    chosen = choose(edge, task, setting, ["mae"], StageCache(), 1)["mae"]
    assert chosen.candidates == 4
    assert chosen.params["bandwidth"] in (0.05, 0.1)


def test_failed_candidates_are_counted_and_never_chosen() -> None:
    setting = tiny(classifiers={"C": (-1.0, 1.0), "class_weight": (None,)})
    task = source().task(setting, 0)
    chosen = choose(METHODS["PACC"], task, setting, ["mae"], StageCache(), 1)["mae"]
    assert (chosen.candidates, chosen.failed) == (2, 1)
    assert chosen.params["classifier__C"] == 1.0
