"""``kdey demo --tables`` writes the tables of beans that the other commands read."""

from __future__ import annotations

import csv
import shlex
from collections import Counter
from pathlib import Path

import pytest

from .cases import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tables."""
    place = tmp_path_factory.mktemp("demo") / "my tables"
    result = run("demo", "--tables", place)
    assert result.exit_code == 0, result.output
    return place


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_tables_are_small_and_hold_what_the_words_say(folder: Path) -> None:
    labelled, new, judged, known = (
        table(folder / f"{name}.csv") for name in ("labelled", "new", "judged", "known")
    )
    assert len(labelled) == 1200
    assert len(new) == len(judged) == len(known) == 3600
    assert {"variety"} == set(labelled[0]) - set(new[0]) == set(known[0]) - set(new[0])
    assert {"supplier", "day"} == set(new[0]) - set(labelled[0])
    assert all(row.items() <= full.items() for row, full in zip(new, known, strict=True))
    assert sum(path.stat().st_size for path in folder.glob("*.csv")) < 600_000
    read = [(row["expert"], full["variety"]) for row, full in zip(judged, known, strict=True)]
    assert sum(said != "" for said, _ in read) == 300
    assert all(said in ("", true) for said, true in read)


def test_deliveries_are_mixed_as_the_words_say(folder: Path) -> None:
    known = table(folder / "known.csv")
    counts = Counter((row["supplier"], row["day"][:7], row["variety"]) for row in known)
    assert counts["hill", "2026-06", "sira"] == 5 * 12
    assert counts["hill", "2026-08", "sira"] == 3 * 32
    assert [key for key in counts if key[2] == "bombay"] == [("port", "2026-08", "bombay")]
    assert {row["variety"] for row in table(folder / "labelled.csv")} == {
        *("barbunya", "cali", "dermason", "seker", "sira")
    }
    beans = [tuple(row.values()) for row in known]
    assert len(set(beans)) == len(beans)


def test_commands_that_are_printed_name_the_files(folder: Path) -> None:
    # tests/documents/test_readme.py runs such commands on the tables.
    printed = run("demo", "--tables", folder).output
    commands = [shlex.split(line) for line in printed.splitlines() if line.startswith("  kdey ")]
    assert [words[1] for words in commands] == ["fit", "estimate", "report", "audit"]
    assert commands[0][2] == str(folder / "labelled.csv")
    assert {words[3] for words in commands[1:3]} == {str(folder / "new.csv")}
    assert commands[0][-1] == commands[1][2] == commands[2][2]
    assert commands[3][2] == str(folder / "judged.csv")


def test_both_measurements_are_features(folder: Path) -> None:
    checked = run("check", folder / "labelled.csv", "--label", "variety", "--no-fit")
    assert checked.exit_code == 0, checked.output
    assert "5 classes (text)" in checked.output
    assert checked.output.count("ignored") == 0


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
