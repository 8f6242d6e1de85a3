"""Warnings of commands: they name groups, and options instead of parameters of Python."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kdey
from kdey.bags import Bags
from kdey.cli.terminal import printable, reworded
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture

from .cases import rows, run, without, write

SOURCE = Path(kdey.__file__).parent
#: Rooms and files that no command reaches, or whose warnings are about names that go.
NOT_REACHED = {"bayes", "gpu", "interop", "significance", "base_search.py", "searches.py"}
#: Parameters of Python with a value, and attributes.
PYTHON = re.compile(r"\b[a-z_]+=(True|False|None|NaN|nan|'|\")|\b(error_score|max_iter or tol)\b")


def warning_lines(*arguments: Any) -> list[str]:
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return [line for line in done.stderr.splitlines() if line.startswith("warning: ")]


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    return write(tmp_path / "l.csv", without(rows(), "shop", "day"))


def test_a_rare_class(tmp_path: Path) -> None:
    table = without(rows(), "shop", "day")
    rare = [row for row in table if row["kind"] == "bad"][:2]
    path = write(tmp_path / "t.csv", rare + [row for row in table if row["kind"] == "good"])
    lines = warning_lines("fit", path, "--label", "kind", "--method", "pacc", "-o", tmp_path / "m")
    folds, labels = sorted(lines)
    assert folds.startswith("warning: cross-validation: 1 of 2 classes have fewer instances")
    assert "bad (2)" in labels


def test_a_classifier_that_does_not_converge(labelled: Path, tmp_path: Path) -> None:
    rest = ("--method", "cc", "--classifier-option", "max_iter=1", "-o", tmp_path / "m")
    (line,) = warning_lines("fit", labelled, "--label", "kind", *rest)
    assert "--classifier-option max_iter=" in line
    assert "http" not in line


def test_a_solver_that_stops_early() -> None:
    densities = np.random.default_rng(0).dirichlet(np.ones(4), 60)
    problem = MixtureLikelihood.from_log_rows(np.log(densities), Bags.whole(60))
    with pytest.warns(UserWarning, match="raise max_iter or tol") as caught:
        solve_mixture(problem, max_iter=1)
    assert "max_iter" not in reworded(str(caught[0].message))


def test_groups_with_problems_are_named(model: Path, tmp_path: Path) -> None:
    table = [
        {**row, "shop": "CD"[i == 7], "length": "" if i == 3 else row["length"]}
        for i, row in enumerate(without(rows(), "kind"))
    ]
    path = write(tmp_path / "t.csv", table)
    done = run("estimate", model, path, "--by", "shop", "--missing", "drop")
    assert done.exit_code == 0, done.output
    assert done.stderr.splitlines() == [
        "missing values: 1 of 2 groups (shop=C)",
        "too small: 1 of 2 groups (shop=D)",
        "cannot be told: 1 of 2 groups (shop=D)",
    ]
    done = run("estimate", model, path, "--missing", "drop")
    assert done.stderr.splitlines() == ["missing values: the whole table"]
    done = run("estimate", model, path, "--by", "day", "--missing", "drop", "--min-size", 100)
    (small,) = [line for line in done.stderr.splitlines() if line.startswith("too small")]
    assert re.search(r"too small: 28 of 28 groups \(day=2024-01-01.*; .* and 23 more\)", small)


def test_a_group_that_does_not_converge_does_so_by_its_status(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warning of the solver named neither the group nor an option."""
    from sklearn.exceptions import ConvergenceWarning

    from kdey.intervals import estimate_points

    def warned(*args: Any) -> Any:
        warnings.warn("1 bag(s) did not reach a gap", ConvergenceWarning, stacklevel=2)
        return estimate_points(*args)

    monkeypatch.setattr("kdey.groups.answers.estimate_points", warned)
    path = write(tmp_path / "t.csv", without(rows(), "kind"))
    assert warning_lines("estimate", model, path, "--by", "shop") == []


def texts(path: Path) -> Iterator[str]:
    """Yield the constant text of every warning in a file, values shown as ``0``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Call) and node.args):
            continue
        if ast.unparse(node.func) not in ("warnings.warn", "warn"):
            continue
        message = node.args[0]
        parts = message.values if isinstance(message, ast.JoinedStr) else [message]
        yield "".join(str(p.value) if isinstance(p, ast.Constant) else "0" for p in parts)


def test_no_warning_of_the_library_names_a_parameter_of_python() -> None:
    files = [
        path
        for path in SOURCE.rglob("*.py")
        if NOT_REACHED.isdisjoint(path.relative_to(SOURCE).parts) and "cli" not in path.parts
    ]
    found = [text for path in files for text in texts(path)]
    assert len(found) >= 14
    assert [text for text in map(reworded, found) if PYTHON.search(text)] == []
    assert any(PYTHON.search(text) for text in found)  # or the pattern would find nothing at all


def test_characters_that_are_not_seen_are_spelled_out() -> None:
    assert printable("A\u200b \u202eB \x1b[1m ü") == r"A\u200b \u202eB \x1b[1m ü"
