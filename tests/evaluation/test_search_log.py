"""The log: real kills, damage, foreign logs, full disks."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kdey
from kdey.evaluation.searches import SearchLog
from kdey.evaluation.stage_scoring import Score
from kdey.metrics import Metric
from tests.evaluation.cases import CountingClassifier, blobs

ROOT = Path(__file__).parents[2]
SCORE = Score({"ae": 0.1 + 0.2}, {"ae": 1 / 3}, 2, 0.5, 0.25)


def start(log: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(Path(kdey.__file__).parents[1]), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, str(ROOT / "tests/evaluation/killed_search.py"), str(log)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )


def finish(log: Path, kill_after: float | None = None) -> tuple[str, float]:
    """Run the search, killing it so many seconds after its start; return output and length."""
    with start(log) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        begun = time.monotonic()
        if kill_after is not None:
            time.sleep(kill_after)
            process.kill()
        output = process.stdout.read()
    assert process.returncode == 0 or kill_after is not None
    return output, time.monotonic() - begun


def test_killed_at_random_moments_and_taken_up_again(tmp_path: Path) -> None:
    expected, length = finish(tmp_path / "whole.log")
    log, rng, sizes = tmp_path / "killed.log", random.Random(time.time_ns()), []
    for _ in range(2):
        finish(log, kill_after=rng.uniform(0.0, 0.6) * length)
        sizes.append(log.stat().st_size if log.exists() else 0)
    assert sizes == sorted(sizes), "finished candidates were lost"
    assert finish(log)[0] == expected
    assert len(log.read_bytes().splitlines()) == 1 + 9, "a finished candidate was scored again"


@pytest.fixture
def data() -> tuple[Any, Any]:
    return blobs(250, seed=3)


def search(log: Path, **options: Any) -> kdey.GridSearchQ:
    return kdey.GridSearchQ(
        kdey.KDEyML(CountingClassifier(max_iter=300), cv=3),
        {"bandwidth": [0.1, 0.2], "classifier__C": [0.1, 1.0]},
        **({"protocol": kdey.APP(10, 40), "log": log} | options),
    )


class Weights:
    """What a scoring may read, and no fingerprint of its code can know."""

    factor = 1.0


def weighted_error(true: Any, estimated: Any) -> Any:
    name = "Weights"
    return globals()[name].factor * np.abs(true - estimated).mean(axis=1)


def test_a_scoring_without_a_version_is_not_resumed(
    tmp_path: Path, data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"refit": False, "scoring": weighted_error}
    first = search(tmp_path / "log", **options).fit(*data)
    monkeypatch.setattr(Weights, "factor", 2.0)
    with pytest.warns(UserWarning, match=r"starts anew, because .*'weighted_error'.* version"):
        second = search(tmp_path / "log", **options).fit(*data)
    assert second.best_score_ == pytest.approx(2.0 * first.best_score_)
    assert len((tmp_path / "log").read_bytes().splitlines()) == 1 + 4


def test_a_scoring_with_a_version_is_resumed_until_it_changes(tmp_path: Path, data: Any) -> None:
    def options(version: str) -> dict[str, Any]:
        scoring = Metric("weighted", weighted_error, "weighted error", version=version)
        return {"refit": False, "scoring": scoring}

    first = search(tmp_path / "log", **options("1")).fit(*data)
    CountingClassifier.calls.clear()
    second = search(tmp_path / "log", **options("1")).fit(*data)
    assert not CountingClassifier.calls
    assert second.best_score_ == first.best_score_
    with pytest.raises(ValueError, match="another search"):
        search(tmp_path / "log", **options("2")).fit(*data)


def test_finished_work_is_not_repeated(tmp_path: Path, data: Any) -> None:
    first = search(tmp_path / "log", refit=False).fit(*data)
    CountingClassifier.calls.clear()
    second = search(tmp_path / "log", refit=False, n_jobs=1).fit(*data)
    assert not CountingClassifier.calls
    for name in ("mean_test_score", "std_test_score", "mean_fit_time"):
        assert np.array_equal(first.cv_results_[name], second.cv_results_[name])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[bytes]]:
    """Return the scores of a search, and the lines of its log."""
    path = tmp_path_factory.mktemp("finished") / "log"
    made = search(path, refit=False).fit(*blobs(250, seed=3))
    return made.cv_results_["mean_test_score"], path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("lines", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("cut", [0, 1, 25])
def test_a_log_cut_anywhere_gives_the_same_result(
    tmp_path: Path, data: Any, finished: tuple[Any, list[bytes]], lines: int, cut: int
) -> None:
    whole, full = finished
    path = tmp_path / "log"
    path.write_bytes(b"".join(full[:lines]) + full[lines][:cut])
    again = search(path, refit=False).fit(*data).cv_results_["mean_test_score"]
    assert np.array_equal(whole, again)
    assert len(path.read_bytes().splitlines()) == 5


def test_a_damaged_line_is_left_out_and_done_again(
    tmp_path: Path, data: Any, finished: tuple[Any, list[bytes]]
) -> None:
    whole, full = finished
    path, lines = tmp_path / "log", list(full)
    lines[2] = lines[2].replace(b"0.", b"1.", 1)
    path.write_bytes(b"".join(lines))
    with pytest.warns(UserWarning, match="1 damaged line"):
        again = search(path, refit=False).fit(*data).cv_results_["mean_test_score"]
    assert np.array_equal(whole, again)


def test_foreign_logs_are_refused(tmp_path: Path, data: Any) -> None:
    X, y = data
    path = tmp_path / "log"
    search(path, refit=False).fit(X, y)
    before = path.read_bytes()
    moved = X.copy()
    moved[0, 0] += 1e-9
    with pytest.raises(ValueError, match="belongs to another search"):
        search(path).fit(moved, y)
    for options in (
        {"protocol": kdey.APP(10, 40, random_state=1)},
        {"scoring": "rae"},
        {"random_state": 1},
        {"param_grid": {"bandwidth": [0.1]}},
        {"quantifier": kdey.KDEyML(CountingClassifier(max_iter=300), cv=4)},
    ):
        with pytest.raises(ValueError, match="belongs to another search"):
            search(path).set_params(**options).fit(X, y)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", ["shopping list\n", "shopping list", "eggs\nmilk", "\n", "0"])
def test_a_file_that_is_no_log_is_left_as_it_is(tmp_path: Path, content: str) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(content)
    with pytest.raises(ValueError, match="is not the log of a search"):
        SearchLog(path, "fingerprint")
    assert path.read_text() == content


def test_failures_are_logged_with_their_reason(tmp_path: Path, data: Any) -> None:
    grid = {"bandwidth": [-1.0, 0.1]}
    found = []
    for _ in range(2):
        with pytest.warns(match="1 of 2 candidates failed"):
            one = search(tmp_path / "log").set_params(param_grid=grid).fit(*data)
        found.append(one.cv_results_["error"].tolist())
    assert found[0] == found[1]
    assert "bandwidth" in found[0][0]


def test_scores_come_back_to_the_bit(tmp_path: Path) -> None:
    with SearchLog(tmp_path / "log", "f") as log:
        log.append("a", SCORE)
        log.append("b", Score({"ae": float("nan")}, {"ae": float("nan")}, error="é\n"))
    with SearchLog(tmp_path / "log", "f") as log:
        assert log.scores["a"] == SCORE
        assert log.scores["b"].error == "é\n"
        assert np.isnan(log.scores["b"].means["ae"])


def test_unwritable_places_are_refused_before_any_work(tmp_path: Path, data: Any) -> None:
    CountingClassifier.calls.clear()
    with pytest.raises(OSError, match="cannot write the log"):
        search(tmp_path / "missing" / "log").fit(*data)
    with pytest.raises(OSError, match="cannot write the log"):
        search(tmp_path).fit(*data)
    assert not CountingClassifier.calls


@pytest.mark.parametrize("written", [0, 7])
def test_a_full_disk_loses_nothing_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    path = tmp_path / "log"
    real = os.write
    with SearchLog(path, "f") as log:
        log.append("a", SCORE)
        before = path.read_bytes()
        calls = []

        def full(file: int, content: bytes) -> int:
            calls.append(content)
            if len(calls) == 1 and written:
                return real(file, content[:written])
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left on device") as caught:
            log.append("b", SCORE)
        assert caught.value.errno == errno.ENOSPC
        assert str(path) in str(caught.value)
        assert path.read_bytes() == before
        monkeypatch.undo()
        log.append("b", SCORE)
    with SearchLog(path, "f") as log:
        assert set(log.scores) == {"a", "b"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs limits on file sizes")
def test_a_real_limit_on_the_size_of_files(tmp_path: Path) -> None:
    script = (
        "import resource, sys; from kdey.evaluation.searches import SearchLog\n"
        "from kdey.evaluation.stage_scoring import Score\n"
        "log = SearchLog(sys.argv[1], 'f'); n = 0\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    while True:\n"
        "        log.append(str(n), Score({'ae': 0.5}, {'ae': 0.5})); n += 1\n"
        "except OSError as error:\n"
        "    print(n, error)\n"
    )
    path = os.pathsep.join([str(Path(kdey.__file__).parents[1]), str(ROOT)])
    out = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "log")],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": path},
    ).stdout
    assert "cannot write the log" in out
    with SearchLog(tmp_path / "log", "f") as log:
        assert len(log.scores) == int(out.split()[0]) > 0
