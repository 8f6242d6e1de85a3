"""Submissions to LeQua: written, checked, scored, from the library and the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

import kdey
from experiments.__main__ import main
from experiments.submission import (
    STRENGTHS,
    fit_task,
    read_submission,
    score,
    task_classifier,
    task_quantifier,
    write_submission,
)
from kdey.datasets import load_lequa
from kdey.datasets.lequa import TASKS
from tests.datasets.cases import make_documents, make_lequa, make_samples

from ..runner import invoke_command

pytest.importorskip("click.testing")
ONE_JOB = ("--jobs", 1)  # starting worker processes would take most of the time


def invoke(*arguments: object) -> Result:
    return invoke_command(main, "submission", *arguments)


def drawn(n: int, k: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(k), size=n)


@pytest.mark.parametrize(("n", "k"), [(1000, 2), (5000, 5), (1000, 28)])
def test_what_is_written_is_valid_and_comes_back(tmp_path: Path, n: int, k: int) -> None:
    prevalences = drawn(n, k)
    prevalences[0] = np.eye(k)[0]
    write_submission(tmp_path / "s.csv", prevalences)
    assert (tmp_path / "s.csv").read_text().startswith("id," + ",".join(map(str, range(k))))
    np.testing.assert_allclose(read_submission(tmp_path / "s.csv"), prevalences, atol=1e-15)


def test_what_is_no_prevalence_is_not_written(tmp_path: Path) -> None:
    for rows in ([[0.5, 0.6]], [[1.5, -0.5]], [[np.nan, 1.0]]):
        with pytest.raises(ValueError, match="prevalences"):
            write_submission(tmp_path / "s.csv", rows)
    assert not (tmp_path / "s.csv").exists()


FAULTS = {
    "": "empty",
    "id\n0\n": "at least two classes",
    "id,0\n0,1\n": "at least two classes",
    "0,1\n0,1\n": "at least two classes",
    "sample,0,1\n0,1,0\n1,1,0\n": "expected 'id'",
    "id,1,0\n0,1,0\n1,1,0\n": "expected .* 0, 1",
    "id,0,1\n0,1,0\n": "1 bags, expected 2",
    "id,0,1\n0,1,0\n0,1,0\n": "numbered 0..1",
    "id,0,1\n1,1,0\n2,1,0\n": "numbered 0..1",
    "id,0,1\n0,1,0\n1,0.9,0.0989\n": "line 3: .* do not sum to one",
    "id,0,1\n0,1,0\n1,1.0005,0\n": "line 3: .* above one",
    "id,0,1\n0,1,0\n1,-0.0005,1\n": "line 3: .* negative",
    "id,0,1\n0,1,0\n1,x,1\n": "line 3, column 2: 'x'",
}


@pytest.mark.parametrize("text", FAULTS)
def test_faults_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=FAULTS[text]):
        read_submission(path, n_bags=2)


def test_lines_may_come_in_any_order_and_sums_may_be_off_a_little(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("id,0,1\n1,0.25,0.7505\n0,1,0\n")
    rows = read_submission(tmp_path / "s.csv", "T1", n_bags=2)
    np.testing.assert_array_equal(rows, [[1, 0], [0.25, 0.7505]])
    with pytest.raises(ValueError, match=r"3 columns, expected 29"):
        read_submission(tmp_path / "s.csv", "T2", n_bags=2)
    with pytest.raises(ValueError, match=r"2 bags, expected 1,000 or 5,000"):
        read_submission(tmp_path / "s.csv")


@pytest.mark.parametrize("task", TASKS)
def test_measures_by_their_formulas(task: str) -> None:
    facts = TASKS[task]
    k = facts.n_classes
    true, estimated = drawn(40, k), drawn(40, k, seed=1)
    scores = score(task, true, estimated)
    if facts.ordered:
        steps = np.abs(np.cumsum(true - estimated, axis=1))[:, :-1].sum(axis=1) / (k - 1)
        ratings = np.floor(true @ np.arange(1, k + 1))
        bins = [steps[ratings == r].mean() for r in np.unique(ratings)]
        expected = {"MNMD": steps.mean(), "macro-NMD": np.mean(bins)}
    else:
        eps = 1 / (2 * facts.bag_size)
        a, b = ((p + eps) / (1 + k * eps) for p in (true, estimated))
        expected = {"MRAE": (np.abs(a - b) / a).mean(), "MAE": np.abs(true - estimated).mean()}
    assert scores == pytest.approx(expected)
    assert list(scores) == list(expected)
    with pytest.raises(ValueError, match="must be the same"):
        score(task, true, estimated[:3])


def test_the_strength_for_ordered_classes_is_chosen_by_samples(tmp_path: Path) -> None:
    make_samples(n_samples=12, size=25).write(tmp_path, "T3")
    data = load_lequa("T3", tmp_path)
    method = task_quantifier(TASKS["T3"], kdey.PACC(task_classifier(TASKS["T3"]), cv=2))
    fitted = fit_task(method, data, from_samples=True)
    assert isinstance(fitted, kdey.Ordered)
    assert fitted.strength in STRENGTHS
    assert len(fitted.training_.labels) == len(data.train), "refitted on all samples"
    with pytest.raises(ValueError, match="ordered classes"):
        fit_task(kdey.PACC(), data, from_samples=True)
    with pytest.raises(ValueError, match="one set of instances"):
        fit_task(method, replace(data, training_bags=None), from_samples=True)


@pytest.mark.parametrize("task", ["T1A", "T2A", "T3"])
def test_submit_check_and_score(tmp_path: Path, task: str) -> None:
    make = make_documents if task == "T2A" else make_samples if task == "T3" else make_lequa
    lequa = make()
    folder = lequa.write(tmp_path, task)
    truth = folder / "test_prevalences.txt"
    hidden = tmp_path / "truth.csv"
    truth.rename(hidden)  # the truth is not needed
    out, place = tmp_path / "s.csv", ("--data-dir", tmp_path)
    extra = ("--from-samples",) if task == "T3" else ()
    result = invoke("make", task, out, "--method", "pacc", *place, *extra, *ONE_JOB)
    assert result.exit_code == 0, result.output
    result = invoke("check", out, "--task", task, "--bags", 5)
    assert (result.exit_code, "valid: 5 bags" in result.output) == (0, True)
    result = invoke("score", task, hidden, out, "--bags", 5)
    expected = score(task, lequa.prevalences["test"], read_submission(out, n_bags=5))
    assert result.exit_code == 0, result.output
    for name, value in expected.items():
        assert f"{name}: {value:.5f}" in result.output
    result = invoke("check", out)
    assert (result.exit_code, "not valid" in result.output) == (1, True)


def test_development_bags_are_scored_at_once(tmp_path: Path) -> None:
    lequa = make_lequa()
    texts = {n: t for n, t in lequa.texts.items() if not n.startswith("test")}
    replace(lequa, texts=texts).write(tmp_path, "T4")
    options = ("--part", "dev", "--method", "pacc", "--data-dir", tmp_path, *ONE_JOB)
    result = invoke("make", "T4", tmp_path / "s.csv", *options)
    assert result.exit_code == 0, result.output
    assert "MRAE: " in result.output
    result = invoke("make", "T4", tmp_path / "s.csv", "--data-dir", tmp_path)
    assert result.exit_code == 2
    assert "T4.test.zip" in result.output
