"""``python -m experiments data``: output, exit codes, errors of one line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from click.testing import Result

from experiments.__main__ import main
from experiments.download import Checksums, check, place
from kdey.datasets.registry import cache_dir, find
from tests.datasets.cases import make_lequa, sparse_text, write_gz, write_letter
from tests.real_data import DATA, needs_data
from tests.runner import invoke_command


def run(*arguments: object) -> Result:
    return invoke_command(main, "data", *arguments)


def one_line(result: Result) -> str:
    assert result.exception is None or isinstance(result.exception, SystemExit)
    (line,) = [line for line in result.output.splitlines() if line.startswith("Error")]
    assert "Traceback" not in result.output
    return line


def test_list_says_where_things_are(tmp_path: Path) -> None:
    write_letter(tmp_path)
    result = run("list", "--data-dir", tmp_path)
    assert result.exit_code == 0
    rows = {line.split()[1]: line for line in result.output.splitlines() if "│" in line}
    assert "directory" in rows["letter"]
    assert "20,000" in rows["letter"]
    assert "missing" in rows["dry-bean"]
    assert "bundled" in rows["wdbc"]
    assert "bundled" in rows["digits-subset"]
    assert {"uci-extra/yeast", "uci-binary/yeast", "T1B", "gasp"} <= set(rows)
    few = run("list", "--group", "uci-multi").output
    assert "letter" in few
    assert "wdbc" not in few


def test_places(tmp_path: Path) -> None:
    cache = cache_dir()
    assert cache is not None
    assert place(find("letter")) == "missing"
    write_letter(cache)
    assert place(find("letter")) == "cache"
    make_lequa().write(tmp_path)
    assert place(find("T1A"), tmp_path) == "directory"
    assert place(find("T1B"), tmp_path) == "missing"


def test_path(tmp_path: Path) -> None:
    write_letter(tmp_path)
    assert run("path", "letter", "--data-dir", tmp_path).output.strip() == str(
        tmp_path / "uci-multi" / "letter.csv.gz"
    )
    missing = run("path", "dry-bean")
    assert missing.exit_code == 2
    assert "uci-multi/dry-bean.csv.gz" in one_line(missing)
    assert run("path", "wine").exit_code == 0
    folder = make_lequa().write_zips(tmp_path)
    assert run("path", "T1A", "--data-dir", tmp_path).output.split()[0] == str(
        folder / "T1A.train_dev.zip"
    )


def test_usage_errors_have_code_2() -> None:
    for arguments in (
        ("path", "leter"),
        ("path", "yeast"),
        ("path",),
        ("fetch",),
        ("fetch", "nothing"),
        ("check", "nothing"),
        ("check", "--data-dir", "/nowhere"),
        ("list", "--group", "uci"),
        ("fetch", "letter", "--retries", "-1"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2, arguments
        assert one_line(result)


def test_a_wrong_environment_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDEY_DATA", "/nowhere")
    for command in (("list",), ("path", "letter"), ("check",)):
        result = run(*command)
        assert result.exit_code == 2
        assert "KDEY_DATA" in one_line(result)


def test_check_reports_contents_and_checksums(tmp_path: Path) -> None:
    write_letter(tmp_path)
    result = run("check", "letter", "--data-dir", tmp_path)
    assert result.exit_code == 1
    assert "sha256 is" in result.output
    assert "200 rows, expected 20000" in result.output
    assert "4 features, expected 16" in result.output
    assert "4 problems" in result.output


def test_check_names_the_bad_cell(tmp_path: Path) -> None:
    write_gz(tmp_path / "uci-multi" / "letter.csv.gz", "a,label\n1,A\nx,B\n")
    result = run("check", "--data-dir", tmp_path)
    assert result.exit_code == 1
    assert "letter.csv.gz, line 3, column 'a'" in result.output


def test_check_of_a_missing_set_fails_only_if_it_is_named(tmp_path: Path) -> None:
    named = run("check", "letter", "gasp", "--data-dir", tmp_path)
    assert named.exit_code == 1
    assert "uci-multi/letter.csv.gz was not found" in named.output
    assert run("check", "--data-dir", tmp_path).exit_code == 0
    assert run("check", "bundled", "wdbc", "--data-dir", tmp_path).exit_code == 0


def test_check_compares_with_the_first_download() -> None:
    cache = cache_dir()
    assert cache is not None
    write_letter(cache)
    path = cache / "uci-multi" / "letter.csv.gz"
    Checksums(cache).record(
        "uci-multi/letter.csv.gz", hashlib.sha256(path.read_bytes()).hexdigest()
    )
    assert not any("sha256" in problem for problem in check(find("letter")))
    write_letter(cache, seed=1)
    (problem,) = [p for p in check(find("letter")) if "sha256" in p]
    assert "at the first download" in problem


def test_check_of_tweets_and_lequa(tmp_path: Path) -> None:
    for part in ("train", "dev", "test"):
        path = tmp_path / "tweets" / f"wa.{part}.feature.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(sparse_text(12, 0))
    lequa = make_lequa()
    folder = lequa.write(tmp_path)
    assert run("check", "wa", "T1A", "--data-dir", tmp_path).exit_code == 0
    (folder / "test_samples" / "4.txt").write_text("0,1\n1,2\n")
    path.write_text("1 1:1\n1 q\n")
    result = run("check", "wa", "T1A", "--data-dir", tmp_path)
    assert result.exit_code == 1
    assert "test_samples/4.txt, line 1: 2 columns, expected 3" in result.output
    assert "wa.test.feature.txt, line 2" in result.output


def test_fetch_prints_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(url: str, part: Path) -> None:
        raise OSError("no network")

    monkeypatch.setattr("experiments.download.resume", broken)
    result = run("fetch", "haberman", "wine", "--retries", "0")
    assert result.exit_code == 1
    assert "haberman.data could not be downloaded: no network" in one_line(result)
    assert "bundled/wine comes with scikit-learn" in result.output


@needs_data("uci-multi")
def test_the_known_copies_pass() -> None:
    result = run("check", "uci-multi", "uci-binary", "abalone", "nursery", "--data-dir", DATA)
    assert result.exit_code == 0, result.output
