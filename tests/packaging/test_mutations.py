"""The mutants that `make mutation` tries: what is changed, what is left alone, how it is put in."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
if not SCRIPTS.is_dir():
    pytest.skip("scripts are not shipped", allow_module_level=True)


def _load(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


@pytest.fixture(scope="module")
def mutants():
    return _load("mutations").mutants


def _changes(mutants, source):
    return [mutant.change for mutant in mutants(source, "it.py")]


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("a + b", ["a + b -> a - b"]),
        ("a < b", ["a < b -> a <= b", "a < b -> a >= b"]),
        ("a and b", ["a and b -> a or b"]),
        ("not a", ["not a -> a"]),
        ("a = 3", ["a = 3 -> a = 4"]),
        ("a = True", ["a = True -> a = False"]),
        ("a if b else c", ["a if b else c -> a", "a if b else c -> c"]),
        ("if a:\n    b", ["if a: always", "if a: never", "without b"]),
        ("a = x.max()", ["x.max() -> x.min()"]),
        ("a = np.abs(x)", ["np.abs(x) -> x"]),
        ("a = f(x, y=z)", ["f(x, y=z): without y"]),
        ("a += b", ["a += b -> a -= b"]),
        ("def f(a, b=1):\n    pass", ["b=1 -> 2"]),
        ("def f(*, a, b=1):\n    pass", ["b=1 -> 2"]),
    ],
)
def test_what_is_changed(mutants, source, changes):
    found = _changes(mutants, source)
    assert [change for change in found if change != f"without {source}"] == changes


@pytest.mark.parametrize(
    "source",
    [
        '"""Text."""',
        "import a",
        "a: int | None",
        "__all__ = ['a']",
        "def f(a: 3) -> 4:\n    pass",
        "@dataclass(frozen=True)\nclass A:\n    pass",
        "if a:\n    raise ValueError('text' + str(3))",
    ],
)
def test_what_is_left_alone(mutants, source):
    assert [c for c in _changes(mutants, source) if not c.startswith("if a")] == []


def test_every_mutant_is_another_program_and_the_source_stays(mutants):
    source = "def f(a):\n    return a * 2 + 1 if a > 0 else -a\n"
    made = mutants(source, "it.py")
    results = set()
    for mutant in made:
        space = {}
        exec(mutant.code, space)
        results.add(tuple(space["f"](a) for a in (-2, 0, 1, 3)))
    assert (2, 0, 3, 7) not in results
    assert len({mutant.key for mutant in made}) == len(made)
    assert all(mutant.scope == "f" and not mutant.imported for mutant in made)


def test_code_run_on_import_is_told_from_the_rest(mutants):
    source = "A = 1\ndef early():\n    return 2\ndef late(b=3):\n    return 4 + b\nB = early()\n"
    found = {mutant.change: mutant.imported for mutant in mutants(source, "it.py")}
    assert found == {
        "A = 1 -> A = 2": True,
        "2 -> 3": True,
        "b=3 -> 4": True,
        "4 + b -> 4 - b": False,
        "4 + b -> 5 + b": False,
    }
