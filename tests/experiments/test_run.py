"""Cells are what the protocol says, however a run is cut into pieces."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from experiments.results import Results, ResultsFile, read_results
from experiments.run import Pace, Run, classifier_of, duration, quiet, run
from experiments.settings import METHODS as ALL_METHODS, METRICS
from experiments.tasks import Source, source_of
from kdey import KDEyML, evaluate
from kdey.evaluation.protocols import APP

from .cases import iris, source, tiny

METHODS = ("ACC", "DM-HD", "EMQ", "KDEy-ML")


def plan(**changes: object) -> Run:
    options = {"setting": tiny(), "sources": [source()], "methods": METHODS, "n_jobs": 1} | changes
    return Run(**options)  # type: ignore[arg-type]


def go(path: Path, what: Run) -> Results:
    with ResultsFile(path) as store:
        assert run(what, store, lambda line: None) == []
    return read_results(path)


def same(a: Results, b: Results) -> None:
    assert a.cells.keys() == b.cells.keys()
    for key, cell in a.cells.items():
        np.testing.assert_array_equal(cell.errors, b.cells[key].errors)
        assert (cell.params, cell.config, cell.data) == (
            b.cells[key].params,
            b.cells[key].config,
            b.cells[key].data,
        )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return go(tmp_path_factory.mktemp("whole") / "r.jsonl", plan())


def test_a_cell_is_what_the_protocol_says(whole: Results) -> None:
    setting = tiny()
    assert len(whole.cells) == len(METHODS) * 2
    split = iris().split(0)
    for key, cell in whole.cells.items():
        quantifier = setting.method(key.method).build(classifier_of(setting), 0, 1)
        with quiet():
            fitted = clone(quantifier).set_params(**cell.params)
            fitted.fit(split.development.X, split.development.y)
        bags = APP(setting.n_test, setting.bag_size, random_state=0)
        evaluation = evaluate(fitted, split.test.X, split.test.y, bags, verbose=False)
        expected = evaluation.errors(METRICS[key.metric])
        np.testing.assert_allclose(cell.errors, expected, rtol=2e-3, atol=2e-5)


def test_an_automatic_method_is_fitted_on_the_development_data_without_a_search(
    tmp_path: Path,
) -> None:
    stored = go(tmp_path / "r.jsonl", plan(methods=["KDEy-ML-auto"]))
    split = iris().split(0)
    fitted = KDEyML(random_state=0).fit(split.development.X, split.development.y)
    bags = APP(tiny().n_test, tiny().bag_size, random_state=0)
    evaluation = evaluate(fitted, split.test.X, split.test.y, bags, verbose=False)
    for key, cell in stored.cells.items():
        expected = evaluation.errors(METRICS[key.metric])
        np.testing.assert_allclose(cell.errors, expected, rtol=2e-3, atol=2e-5)
        assert (cell.candidates, cell.validation, cell.params) == (0, None, {})


def test_quantifier_selects_its_classifiers_by_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # For sparse data these are others than for dense ones, which only its own ``fit`` knows.
    low_effort = replace(ALL_METHODS["Quantifier"], options={"effort": "low"})
    monkeypatch.setitem(ALL_METHODS, "Quantifier", low_effort)
    data = iris()
    sparse = replace(data, X=sp.csr_array(np.abs(data.X)))
    what = plan(methods=["Quantifier"], sources=[source_of(sparse)])
    assert len(go(tmp_path / "r.jsonl", what).cells) == 2


def test_bags_are_described_once(whole: Results) -> None:
    ((key, bags),) = whole.bags.items()
    assert key == ("multi", "iris", 0)
    assert (bags.n_classes, bags.n_development, bags.notes) == (3, 105, ("split by the tests",))
    assert bags.shift.shape == (15,)
    assert 0 < bags.shift.min() < bags.shift.max() < 2 / 3


@pytest.mark.smoke
def test_metrics_and_methods_one_by_one_give_the_same(whole: Results, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    for metric in METRICS:
        for method in reversed(METHODS):
            go(path, plan(metrics=[metric], methods=[method]))
    same(whole, read_results(path))


def test_the_number_of_jobs_changes_nothing(whole: Results, tmp_path: Path) -> None:
    stored = go(tmp_path / "r.jsonl", plan(methods=["DM-HD", "KDEy-ML"], n_jobs=2))
    for key, cell in stored.cells.items():
        np.testing.assert_array_equal(cell.errors, whole.cells[key].errors)


def test_a_finished_run_does_nothing(whole: Results, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    go(path, plan())
    before = path.read_bytes()
    broken = Source("iris", 1.0, lambda setting, seed: pytest.fail("made a task"))
    go(path, plan(sources=[broken]))
    assert path.read_bytes() == before


def test_other_seeds_are_other_splits(whole: Results, tmp_path: Path) -> None:
    stored = go(tmp_path / "r.jsonl", plan(methods=["ACC"], seeds=[0, 1]))
    by_seed = {k.seed: c.errors for k, c in stored.cells.items() if k.metric == "mae"}
    assert not np.array_equal(by_seed[0], by_seed[1])
    key = next(k for k in whole.cells if k.method == "ACC" and k.metric == "mae")
    np.testing.assert_array_equal(by_seed[0], whole.cells[key].errors)


def test_cells_of_other_settings_or_data_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    go(path, plan(methods=["ACC"]))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"r\.jsonl holds a cell .*another grid or protocol"):
        go(path, plan(methods=["ACC"], setting=tiny(n_test=16)))
    other = Source("iris", 1.0, lambda s, seed: replace(source().task(s, seed + 1), seed=seed))
    with pytest.raises(ValueError, match="other data of that name"):
        go(path, plan(methods=["PACC"], sources=[other]))
    assert path.read_bytes() == before


def test_one_failure_does_not_stop_the_others(tmp_path: Path) -> None:
    what = plan(methods=["HDy", "ACC"])  # HDy is for two classes
    lines: list[str] = []
    with ResultsFile(tmp_path / "r.jsonl") as store:
        failures = run(what, store, lines.append)
    assert len(failures) == 1
    assert "HDy" in failures[0]
    assert "binary quantifier" in failures[0]
    assert {key.method for key in store.results.cells} == {"ACC"}
    assert any(line.startswith("failed: ") for line in lines)


def test_a_killed_run_goes_on_to_the_same_results(whole: Results, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.experiments.test_run import go, plan\n"
        "go(Path(sys.argv[1]), plan())"
    )
    root = Path(__file__).parents[2]
    for expected in (1, 3):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            cwd=root,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])},
        )
        while process.poll() is None and _cells(path) < expected:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    same(whole, go(path, plan()))


def _cells(path: Path) -> int:
    return path.read_bytes().count(b'"kind":"cell"') if path.exists() else 0


def test_pace_tells_what_is_left() -> None:
    pace = Pace.of({"a": 1.0, "b": 1.0, "c": 2.0})
    pace.skip("a")
    assert (pace.skipped, pace.total) == (1, 3)
    line = pace.completed("b", 0.125)
    assert line.startswith("[2/3] b: 0.12500 (0 s, about")
    assert pace.completed("c", 0.5).endswith("done)")
    assert [duration(s) for s in (3.2, 185, 7810)] == ["3 s", "3 min 05 s", "2 h 10 min"]
