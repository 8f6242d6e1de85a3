"""``python -m experiments``, on a stand-in for the data sets."""

from __future__ import annotations

import types
from pathlib import Path

import pytest

from experiments import settings, tasks
from experiments.results import read_results

from .cases import Data, iris, tiny

testing = pytest.importorskip("click.testing")


@pytest.fixture
def datasets(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Replace the data sets of tasks: one bundled set, and others whose files are missing."""

    def names(group: str) -> list[str]:
        return ["iris"] if group.startswith("bundled") else ["letter"]

    def load_dataset(name: str) -> Data:
        if "iris" not in name:
            raise FileNotFoundError(f"{name}.csv.gz was not found; download it")
        return iris()

    monkeypatch.setattr(tasks, "names", names)
    monkeypatch.setattr(tasks, "load_dataset", load_dataset)
    small = {name: tiny(name, quick=False) for name in settings.SETTINGS}
    for name, setting in small.items():
        monkeypatch.setitem(settings.SETTINGS, name, setting)
    return tasks


def invoke(*args: object) -> testing.Result:
    from experiments.__main__ import main

    from .. import runner

    return runner.invoke_command(main, *args)


def test_a_quick_run_without_data_says_what_it_runs_on(
    datasets: types.ModuleType, tmp_path: Path
) -> None:
    run = ("multi", "--quick", "--jobs", 1, "--methods", "ACC", "EMQ", "--results", tmp_path)
    first = invoke(*run)
    assert first.exit_code == 0, first.output
    assert "letter.csv.gz was not found" in first.stderr
    assert "Running on bundled instead: iris" in first.stderr
    assert "[4/4]" in first.stderr
    assert "stand-ins for UCI-multi" in first.stdout
    assert {key.method for key in read_results(tmp_path / "multi-quick.jsonl").cells} == {
        "ACC",
        "EMQ",
    }
    assert "4 of 4 cells are in" in invoke(*run).stderr


def test_missing_data_are_an_error_of_one_line(datasets: types.ModuleType, tmp_path: Path) -> None:
    result = invoke("multi", "--results", tmp_path)
    assert result.exit_code == 2
    assert result.stderr == "Error: letter.csv.gz was not found; download it\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("multi", "--methods", "HDy"), "method 'HDy' is unknown here"),
        (("multi", "--metric", "mse"), "mse"),
        (("tables",), "results"),
    ],
)
def test_bad_arguments_are_told(
    datasets: types.ModuleType, tmp_path: Path, args: tuple[str, ...], message: str
) -> None:
    result = invoke(*args, "--results", tmp_path / "results.jsonl")
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_runs_curves_tables_and_figures_from_start_to_end(
    datasets: types.ModuleType, tmp_path: Path
) -> None:
    here = ("--results", tmp_path / "results")
    selection = ("--datasets", "iris", "--seeds", 0, 1, "--jobs", 1)
    assert invoke("multi", *selection, "--methods", "EMQ", "KDEy-ML", *here).exit_code == 0
    assert invoke("sensitivity", "--datasets", "iris", "--jobs", 1, *here).exit_code == 0
    document = tmp_path / "doc.md"
    marked = "<!-- tables: {0} -->\n<!-- end of tables: {0} -->\n"
    document.write_text(marked.format("multi") + marked.format("rules"))
    result = invoke("tables", *here, "--out", tmp_path / "t", "--document", document, "--quiet")
    assert result.exit_code == 0, result.output
    assert "KDEy-ML against EMQ" in document.read_text()
    assert "| Silverman |" in document.read_text()
    assert (tmp_path / "t" / "multi-mae-spread.csv").exists()
    drawn = invoke("figures", *here, "--out", tmp_path / "f")
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "f" / "sensitivity-mae.png").exists()


def test_a_damaged_results_file_is_named(datasets: types.ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "multi.jsonl"
    path.write_text("nonsense\n")
    result = invoke("tables", "--results", path)
    assert result.exit_code == 2
    assert f"{path}, line 1: damaged" in result.stderr


def test_approximate_tweets_run_under_their_own_names(
    datasets: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        datasets, "names", lambda group: ["iris" if group == "tweets-approx" else "hcr"]
    )
    result = invoke("tweets", "--methods", "ACC", "--jobs", 1, "--results", tmp_path)
    assert result.exit_code == 0, result.output
    assert "Running on tweets-approx instead" in result.stderr


def test_an_option_without_its_values_is_refused(tmp_path: Path) -> None:
    """It was dropped, and all data sets ran in the place of those that were forgotten."""
    for rest in (("--datasets",), ("--datasets", "--quick"), ("--seeds", "--quick")):
        done = invoke("multi", "--results", tmp_path / "r.jsonl", *rest)
        assert done.exit_code == 2
        assert f"'{rest[0]}' requires an argument" in done.stderr
