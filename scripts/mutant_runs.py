"""Running tests against mutants: each in a fork of a process that has all of them collected.

A mutant inside a function is put in place by giving that function, and what it made before
(a ``lambda`` in a table, say), the changed code. What runs on import cannot be changed so: there
the fork forgets the package and the tests, and imports them again.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.util
import os
import resource
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from coverage import Coverage
from mutations import Mutant

SOURCE = Path(__file__).parents[1] / "src"
MEMORY = 8 << 30
BROKEN = 3
#: Nothing is written, hypothesis (imported by then) draws the same examples each time.
OPTIONS = (
    *("-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-profile=mutation"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)


@dataclass
class Reach:
    """How long each test takes (processor seconds), and which tests run a line of a file."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)

    def tests(self, mutant: Mutant) -> list[str]:
        """Return the tests that reach a mutant, the quickest first.

        What runs on import may show in any test of a file that has one which runs a line of the
        module: these come after the tests of the changed line itself.
        """
        by_line = self.lines.get(mutant.file, {})
        near = {test for line in mutant.lines for test in by_line.get(line, [])}
        if not mutant.imported:
            return sorted(near, key=lambda test: (self.seconds[test], test))
        files = {test.split("::")[0] for tests in by_line.values() for test in tests}
        far = [test for test in self.seconds if test.split("::")[0] in files]
        return sorted(far, key=lambda test: (test not in near, self.seconds[test], test))


class Session:
    """A pytest plugin: instead of running the collected tests it calls ``work(self)``."""

    def __init__(self, work: Callable[[Session], None]) -> None:
        self.work = work
        self.items: dict[str, Any] = {}
        self.functions: list[FunctionType] = []
        self.failed: Any = None
        self.reach = Reach()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the last failure."""
        self.failed = report if report.failed else self.failed

    def pytest_runtestloop(self, session: Any) -> bool:
        """Take the place of pytest's loop over the tests."""
        self.items = {item.nodeid: item for item in session.items}
        self.work(self)
        return True

    def measure(self, packages: list[str]) -> None:
        """Run all tests once, and note what each of them reaches."""
        coverage = Coverage(data_file=None, source=packages, config_file=False)
        coverage.start()
        for name, item in self.items.items():
            coverage.switch_context(name)
            begun = _clock()
            self._run(item, None)
            if self.failed is not None:
                raise SystemExit(f"{name} fails by itself:\n{self.failed.longreprtext}")
            self.reach.seconds[name] = _clock() - begun
        coverage.stop()
        data = coverage.get_data()
        for file in data.measured_files():
            name = str(Path(file).relative_to(SOURCE))
            self.reach.lines[name] = data.contexts_by_lineno(file)
        functions = (o for o in gc.get_objects() if isinstance(o, FunctionType))
        self.functions = [f for f in functions if (f.__module__ or "").startswith("kdey.")]
        # What is here now is not looked at again by the collector, nor copied by it in a fork.
        gc.freeze()

    def attempt(self, mutant: Mutant) -> tuple[str, str]:
        """Return killed, timeout, survived or not reached; and the test that killed."""
        tests = self.reach.tests(mutant)
        if not tests:
            return "not reached", ""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            _begin(sum(self.reach.seconds[test] for test in tests))
            _leave(self._import_again if mutant.imported else self._patch, mutant, tests, writing)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            killer = pipe.read()
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            return "timeout" if os.WTERMSIG(status) in (9, 24) else "killed", "a signal"
        if os.WEXITSTATUS(status) == BROKEN:
            raise SystemExit(f"{mutant.key} cannot be tried:\n{killer}")
        return ("killed", killer) if killer else ("survived", "")

    def _patch(self, mutant: Mutant, tests: list[str]) -> str:
        _replace(mutant, self.functions)
        items = [self.items[test] for test in tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            self._run(item, following)
            if self.failed is not None:
                return str(item.nodeid)
        return ""

    def _run(self, item: Any, following: Any) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def _import_again(self, mutant: Mutant, tests: list[str]) -> str:
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None) or ""
            if name.split(".")[0] == "kdey" or file.startswith(str(SOURCE.parent / "tests")):
                del sys.modules[name]
        sys.meta_path.insert(0, _Changed(mutant))
        files = sorted({test.split("::")[0] for test in tests})
        chosen = _Chosen(tests)
        failed = pytest.main([*OPTIONS, *files], plugins=[chosen])
        return (chosen.last or "on import") if failed else ""


class _Chosen:
    """A pytest plugin that keeps the chosen tests, in their order, and notes the last one."""

    def __init__(self, tests: list[str]) -> None:
        self.rank = {test: i for i, test in enumerate(tests)}
        self.last = ""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        kept = [item for item in items if item.nodeid in self.rank]
        items[:] = sorted(kept, key=lambda item: self.rank[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.last = nodeid


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An importer that gives one module other code."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != _module(self.mutant):
            return None
        spec = importlib.util.spec_from_file_location(name, SOURCE / self.mutant.file)
        assert spec is not None
        spec.loader = self
        return spec

    def exec_module(self, module: ModuleType) -> None:
        exec(self.mutant.code, module.__dict__)


def _module(mutant: Mutant) -> str:
    return mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _replace(mutant: Mutant, functions: list[FunctionType]) -> None:
    """Give every function made from the mutant's scope its changed code."""
    new = next(code for code in _codes(mutant.code) if code.co_qualname == mutant.scope)
    mine = [f for f in functions if f.__module__ == _module(mutant)]
    old = next(f.__code__ for f in mine if f.__code__.co_qualname == mutant.scope)
    pairs = {old: new}
    if len(_codes(old)) == len(_codes(new)):
        pairs = dict(zip(_codes(old), _codes(new), strict=True))
    for function in mine:
        function.__code__ = pairs.get(function.__code__, function.__code__)


def _leave(
    run: Callable[[Mutant, list[str]], str], mutant: Mutant, tests: list[str], pipe: int
) -> None:
    """Run the tests in a fork, send the name of the one that failed, and end the process."""
    try:
        killer = run(mutant, tests)
        os.write(pipe, killer.encode())
        os._exit(0)
    except BaseException:
        os.write(pipe, traceback.format_exc().encode())
    finally:
        os._exit(BROKEN)


def _codes(code: CodeType) -> list[CodeType]:
    """Return a code object and all those within it."""
    inner = [c for const in code.co_consts if isinstance(const, CodeType) for c in _codes(const)]
    return [code, *inner]


def _begin(seconds: float) -> None:
    """Make a fork silent, and bound what a mutant that has lost its way can take."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    limit = int(10 + 5 * seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def _clock() -> float:
    return sum(os.times()[:2])
