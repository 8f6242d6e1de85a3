"""``kdey demo --tables`` writes two tables that the other commands read."""

from __future__ import annotations

import csv
import shlex
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kdey.cli.data_commands import demo_forms

from .cases import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the two tables."""
    place = tmp_path_factory.mktemp("demo") / "my tables"
    result = run("demo", "--tables", place)
    assert result.exit_code == 0, result.output
    return place


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_tables_are_small_and_hold_what_the_words_say(folder: Path) -> None:
    labelled, new = table(folder / "labelled.csv"), table(folder / "new.csv")
    forms = demo_forms()
    assert [int(row["digit"]) for row in labelled] == forms["digits"][forms["labelled"]].tolist()
    assert [row["office"] for row in new] == forms["offices"][forms["new"]].tolist()
    assert {"digit"} == set(labelled[0]) - set(new[0])
    assert {"office", "day"} == set(new[0]) - set(labelled[0])
    assert sum(path.stat().st_size for path in folder.glob("*.csv")) < 100_000
    scans = load_digits().images[::2, ::2, ::2].reshape(len(labelled), -1)
    names = [name for name in labelled[0] if name != "digit"]
    assert np.array_equal([[int(row[name]) for name in names] for row in labelled], scans)


def test_small_digits_are_more_frequent_where_the_words_say() -> None:
    forms = demo_forms()
    small = forms["digits"] < 4
    north = forms["offices"] == "north"
    shares = [
        small[forms["labelled"]].mean(),
        small[forms["new"]].mean(),
        small[forms["new"] & north].mean(),
    ]
    assert shares == sorted(shares)
    assert shares[1] > shares[0] + 0.2
    assert not (forms["labelled"] & forms["new"]).any()


def test_commands_that_are_printed_name_the_files(folder: Path) -> None:
    # tests/documents/test_readme.py runs such commands on the tables.
    printed = run("demo", "--tables", folder).output
    commands = [shlex.split(line) for line in printed.splitlines() if line.startswith("  kdey ")]
    assert [words[1] for words in commands] == ["fit", "estimate", "report"]
    assert commands[0][2] == str(folder / "labelled.csv")
    assert {words[3] for words in commands[1:]} == {str(folder / "new.csv")}
    assert commands[0][-1] == commands[1][2] == commands[2][2]


def test_all_pixels_that_vary_are_features(folder: Path) -> None:
    checked = run("check", folder / "labelled.csv", "--label", "digit", "--no-fit")
    assert checked.exit_code == 0, checked.output
    assert "10 classes (integers)" in checked.output
    constant = (np.ptp(demo_forms()["pixels"][demo_forms()["labelled"]], axis=0) == 0).sum()
    assert checked.output.count("ignored") == constant


def test_files_of_the_user_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("mine\n1\n", encoding="utf-8")
    result = run("demo", "--tables", tmp_path)
    assert result.exit_code == 2
    assert "new.csv exists and is another table" in result.output
    assert (tmp_path / "new.csv").read_text(encoding="utf-8") == "mine\n1\n"
    assert not (tmp_path / "labelled.csv").exists()


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = run("demo", "--tables", tmp_path / "file")
    assert result.exit_code == 2
    assert "is a file" in result.output
