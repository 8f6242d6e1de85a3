"""What kdey 0.1.0 wrote loads, resumes and gives the same answers.

``make_v0_1_0.py`` wrote it; ``cases.py`` holds the inputs and the questions. Answers are those of
another machine, and bits differ between processors: prevalences agree within 1e-6. Limits are made
by another construction since 0.2.0 (decision 18), and the fit is checked by default: limits and
statuses are held to what must be true of them, not to the numbers of 0.1.0.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import kdey
from tests.frozen.cases import (
    FOLDER,
    RUNS,
    Inputs,
    answers,
    estimated_table,
    groups,
    kdey_command,
    limits,
    reproduce,
    result_tables,
    search_answers,
    searches,
)

pytest.importorskip("skops")
pytest.importorskip("pyarrow")
pytest.importorskip("click")
# Classifiers inside were written by scikit-learn 1.6, which later versions remark on.
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.InconsistentVersionWarning",
    "ignore:.*estimate is uniform:sklearn.exceptions.ConvergenceWarning",
)
TOLERANCE = 1e-6
#: Columns of groups whose values are made in another way since 0.2.0.
CHANGED_COLUMNS = ("low", "high", "fit_p_value", "status")
FROZEN: dict[str, Any] = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))


def assert_same(
    found: Any, expected: Any, where: str = "answers", tolerance: float = TOLERANCE
) -> None:
    """The same structure, texts and truths; numbers within the tolerance, NaN where NaN."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key, value in expected.items():
            assert_same(found[key], value, f"{where}, {key}", tolerance)
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, f"{where}[{number}]", tolerance)
    elif isinstance(expected, float):
        near = pytest.approx(expected, rel=TOLERANCE, abs=tolerance, nan_ok=True)
        assert found == near, where
    else:
        assert found == expected, where


# Models


@pytest.mark.parametrize("name", FROZEN["models"])
def test_a_model_answers_as_it_did(name: str, tmp_path: Path) -> None:
    known = FROZEN["models"][name]
    inputs = Inputs(**known["inputs"])
    model = kdey.load(FOLDER / "models" / f"{name}.kdey")
    # What is written anew must be read by the names that are stored today.
    again = kdey.load(kdey.save(model, tmp_path / "again.kdey"))
    for quantifier in (model, again):
        assert_same(answers(quantifier, inputs), known["answers"], name)
        if "limits" in known:
            assert_limits(limits(quantifier, inputs), known["limits"])
        if "groups" in known:
            assert_same_groups(groups(quantifier, inputs), known["groups"], f"{name}, groups")


def assert_limits(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """The same questions are answered, by limits in order; decisions are counted as they were."""
    assert found.keys() == expected.keys()
    assert_same(found["counted"], expected["counted"])
    for name in set(found) - {"counted"}:
        low, high = np.array(found[name])
        assert low.shape == np.shape(expected[name])[1:]
        assert np.all((low >= 0) & (low <= high) & (high <= 1)), name
        assert low.sum() <= 1 + 1e-9, name
        assert high.sum() >= 1 - 1e-9, name


def assert_same_groups(found: dict[str, Any], expected: dict[str, Any], where: str) -> None:
    """All columns are as they were but limits, which hold the estimate, and the fit check."""
    assert found.keys() == expected.keys(), where
    for name, column in expected.items():
        if name not in CHANGED_COLUMNS:
            assert_same(found[name], column, f"{where}, {name}")
    low, estimate, high = (np.array(found[name], float) for name in ("low", "estimate", "high"))
    known = ~np.isnan(estimate)
    assert np.all((low[known] <= estimate[known]) & (estimate[known] <= high[known])), where
    # What was the matter with a group still is.
    for now, then in zip(found["status"], expected["status"], strict=True):
        assert set(then.split("; ")) - {"ok"} <= set(now.split("; ")), where


def test_every_model_file_is_asked() -> None:
    stored = {path.stem for path in (FOLDER / "models").iterdir()}
    assert stored == {*FROZEN["models"], "table"}


def test_the_model_of_a_table_answers_as_it_did() -> None:
    model, known = FOLDER / "models" / "table.kdey", FROZEN["table"]
    found = estimated_table(model, FOLDER / "new.csv")
    assert found.keys() == known.keys()
    for name, column in known.items():
        if name in ("estimate", "classify_and_count", "training_prevalence"):
            assert [float(one) for one in found[name]] == pytest.approx(
                [float(one) for one in column], abs=TOLERANCE
            )
        elif name not in CHANGED_COLUMNS:
            assert found[name] == column
    assert all(
        float(low) <= float(estimate) <= float(high)
        for low, estimate, high in zip(
            *(found[n] for n in ("low", "estimate", "high")), strict=True
        )
    )
    facts = json.loads(kdey_command("inspect", model, "--json"))
    assert facts["method"] == "KDEyML"
    assert facts["written by"] == "kdey 0.1.0"
    assert facts["columns of categories"] == {"colour": ["blue", "red"]}


# Searches


@pytest.fixture(autouse=True)
def data_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out a folder of data sets: its iris may be another one than that of the results."""
    monkeypatch.delenv("KDEY_DATA", raising=False)


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which every fit of a classifier, or of a method on features, adds a name."""
    made: list[str] = []
    for kind in (GaussianNB, LogisticRegression, kdey.DMx, kdey.HDx):
        _count(kind, made, monkeypatch)
    return made


def _count(kind: Any, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    fit = kind.fit

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        made.append(kind.__name__)
        return fit(self, *args, **options)

    monkeypatch.setattr(kind, "fit", counted)


def _copied(name: str, folder: Path) -> Path:
    return Path(shutil.copy(FOLDER / "searches" / f"{name}.log", folder / "search.log"))


@pytest.mark.filterwarnings("ignore::kdey.model_selection.GridEdgeWarning")
@pytest.mark.parametrize("name", FROZEN["searches"])
def test_a_finished_search_fits_nothing(name: str, tmp_path: Path, fits: list[str]) -> None:
    if name == "optuna":
        pytest.importorskip("optuna")
    log = _copied(name, tmp_path)
    before = log.read_bytes()
    search, (X, y) = searches()[name]
    search.set_params(log=log).fit(X, y)
    assert fits == []
    assert log.read_bytes() == before
    assert_same(search_answers(search), FROZEN["searches"][name], name)


@pytest.mark.filterwarnings("ignore::kdey.model_selection.GridEdgeWarning")
def test_a_stopped_search_goes_on(tmp_path: Path, fits: list[str]) -> None:
    log = _copied("kdeyml-stopped", tmp_path)
    before = log.read_bytes()
    search, (X, y) = searches()["kdeyml"]
    search.set_params(log=log).fit(X, y)
    # One of two classifiers was done: the other is fitted on three folds and on all of them.
    assert fits == ["GaussianNB"] * 4
    whole = before[: before.rindex(b"\n") + 1]
    after = log.read_bytes()
    assert after.startswith(whole)
    assert after.count(b"\n") == whole.count(b"\n") + 3
    known = FROZEN["searches"]["kdeyml"]
    assert search_answers(search)["best"] == known["best"]
    for name, values in known["scores"].items():
        # Densities are in single precision.
        np.testing.assert_allclose(search.cv_results_[name], values, atol=1e-5)


@pytest.mark.filterwarnings("ignore::kdey.model_selection.GridEdgeWarning")
def test_the_log_of_another_search_is_refused(tmp_path: Path) -> None:
    log = _copied("kdeyml", tmp_path)
    search, (X, y) = searches()["kdeycs"]
    with pytest.raises(ValueError, match="another search"):
        search.set_params(log=log).fit(X, y)
    search, (X, y) = searches()["kdeyml"]
    with pytest.raises(ValueError, match="another search"):
        search.set_params(log=log).fit(X + 0.5, y)


# Results of experiments


@pytest.mark.parametrize("name", FROZEN["results"])
def test_a_results_file_makes_the_same_tables(name: str, tmp_path: Path) -> None:
    found = result_tables(FOLDER / "results" / f"{name}.jsonl", tmp_path / "tables")
    known = {
        table: {(row, column) for row, column, _ in values}
        for table, values in FROZEN["results"][name].items()
    }
    # Tables may have more columns than then, such as the number of bags of a pair.
    for table, values in found.items():
        found[table] = [value for value in values if (value[0], value[1]) in known.get(table, ())]
    assert_same(found, FROZEN["results"][name])


@pytest.mark.parametrize("name", RUNS)
def test_finished_experiments_are_not_run_again(name: str, tmp_path: Path, fits: list[str]) -> None:
    path = Path(shutil.copy(FOLDER / "results" / f"{name}.jsonl", tmp_path / f"{name}.jsonl"))
    before = path.read_bytes()
    reproduce(name, path)
    assert fits == []
    assert path.read_bytes() == before


def test_stopped_experiments_go_on(tmp_path: Path, fits: list[str]) -> None:
    path = Path(shutil.copy(FOLDER / "results" / "binary.jsonl", tmp_path / "binary.jsonl"))
    lines = path.read_bytes().splitlines(keepends=True)
    cells = [json.loads(line) for line in lines]
    lost = next(i for i, one in enumerate(cells) if one.get("method") == "ACC")
    path.write_bytes(b"".join([*lines[:lost], *lines[lost + 1 :]]))
    reproduce("binary", path)
    made = path.read_bytes().splitlines(keepends=True)
    assert made[:-1] == [*lines[:lost], *lines[lost + 1 :]]
    again = json.loads(made[-1])
    for part in ("experiment", "dataset", "method", "metric", "seed", "config", "data", "params"):
        assert again[part] == cells[lost][part]
    assert again["mean"] == pytest.approx(cells[lost]["mean"], abs=1e-3)
    # For ACC alone: one classifier on the training data, one on the development data.
    assert fits == ["LogisticRegression"] * 2
