"""The gates of a release are recorded as they went, and those that passed are not run again."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "release_run.py"


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("release_run", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "GATES", {"good": "echo 5 passed", "bad": "false", "late": "true"})
    monkeypatch.setattr(module, "RECORD", tmp_path / "record.json")
    monkeypatch.setattr(module, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "commit", lambda: "c0ffee")
    return module


def call(module: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["release_run.py", *words])
    module.main()


def test_a_run_is_recorded_and_goes_on(
    gates: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call(gates, monkeypatch, "--table")
    assert "No gate has been recorded" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="red: bad"):
        call(gates, monkeypatch, "--only", "good", "bad")
    call(gates, monkeypatch, "--table")
    shown = capsys.readouterr().out
    assert "| good | `echo 5 passed` | 0.0 (0.0) | passed | 5 passed |" in shown
    assert "**exit 1**" in shown
    assert "Not run: late." in shown
    with pytest.raises(SystemExit, match="red: bad"):
        call(gates, monkeypatch)
    assert "good:" not in capsys.readouterr().out  # it has passed on this commit
    heads = iter(["f00d", "decaf"])
    monkeypatch.setattr(gates, "commit", lambda: next(heads))
    with pytest.raises(SystemExit, match="late: the last commit is another one now"):
        call(gates, monkeypatch, "--only", "late")
    assert json.loads(gates.RECORD.read_text())["commit"] == "c0ffee"
    monkeypatch.setattr(gates, "commit", lambda: "decaf")
    call(gates, monkeypatch, "--only", "late")
    record = json.loads(gates.RECORD.read_text())
    assert (record["commit"], list(record["gates"])) == ("decaf", ["late"])


def test_the_line_that_tells_most_is_kept(gates: ModuleType) -> None:
    for said, kept in {
        "9 passed in 3 s\nleaving": "9 passed in 3 s",
        "rows: 7 runs\n12 targets, 0 findings in all": "12 targets, 0 findings in all",
        '"flat": true,\n}': '"flat": true,',
        "no network\n": "no network",
    }.items():
        (gates.ROOT / "said").write_text(said)
        gates.GATES["late"] = "cat said"
        assert gates.run("late")["closing"] == kept


def test_what_is_set_for_trying_things_does_not_reach_a_gate(
    gates: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDEY_NATIVE", "0")
    gates.GATES["late"] = "printenv KDEY_NATIVE"
    assert gates.run("late")["status"] == 1
