"""How ``scripts/tree_values.py`` calls a tree of kdey, and what it keeps of the answers.

The same cases run on two trees whose names, options and results may differ in form: a name is found
wherever it lies, options are given as the tree takes them, and tables are made of whatever comes
back. All that depends on the form of the interface stands here.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

# ------------------------------------------------------------------------------------- answers

#: Columns and keys that are compared as cases of their own, because a change may be meant for them
#: alone: what the check of the fit says, the limits, and the distribution that they come from.
APART = {
    "checks": re.compile(r"fit_p_value|status(_against)?|diagnostics"),
    "limits": re.compile(r"(\w+_)?(low|high)(\[.*\])?"),
    "spread": re.compile(r"covariance|distances|contains|corrected|draws"),
}


@dataclass
class Values:
    """What one case gave: numbers and texts, in order; or the error that it raised."""

    numbers: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    error: str = ""
    apart: dict[str, Values] = field(default_factory=dict)

    def add(self, value: Any) -> None:
        """Take in a value and all that it holds."""
        if isinstance(value, Absent):
            raise AttributeError(f"kdey has no {value.name}")
        if value is None or isinstance(value, str | bytes | type):
            self.texts.append(value if isinstance(value, str) else repr(value))
        elif isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating):
            self.numbers.append(float(value))
        elif isinstance(value, Mapping):
            for key, item in value.items():
                home = self._home(str(key))
                home.add(str(key))
                home.add(item)
        elif isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            self.texts.append(str(value.shape))
            self.numbers.extend(value.astype(np.float64).ravel().tolist())
        elif isinstance(value, np.ndarray | list | tuple):
            for item in value.tolist() if isinstance(value, np.ndarray) else value:
                self.add(item)
        elif hasattr(value, "columns") or hasattr(value, "column_names"):
            self.add(columns_of(value))
        else:
            self.texts.append(str(value))

    def _home(self, key: str) -> Values:
        for name, pattern in APART.items():
            if pattern.fullmatch(key):
                return self.apart.setdefault(name, Values())
        return self


class Record:
    """The cases of a part by name."""

    def __init__(self) -> None:
        self.cases: dict[str, Values] = {}

    def run(self, name: str, case: Callable[[], Any]) -> None:
        """Keep what a case gives; an error is kept too, so that the others are still run."""
        values = self.cases.setdefault(name, Values())
        try:
            values.add(case())
        except Exception as error:
            values.error = f"{type(error).__name__}: {error}"
            return
        for kind, own in values.apart.items():
            self.cases[f"{name} [{kind}]"] = own


def columns_of(frame: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the columns of a frame of any library as lists; dates become texts."""
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True)
    return {name: table[name].to_list() for name in table.columns if name not in without}


# --------------------------------------------------------------------------------------- names

#: Where names are looked for first; then in every other public module directly below the package.
FIRST = ("kdey", "kdey.evaluation", "kdey.plots", "kdey.diagnostics")


@dataclass(frozen=True)
class Absent:
    """Stands for what a tree does not have; a case that would give it is refused.

    It can be called and asked for attributes, so that the other cases of a part still run.
    """

    name: str

    def __call__(self, *given: Any, **options: Any) -> Absent:
        """Return itself."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class Names:
    """The public names of a tree, wherever they lie: ``Names().APP``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _find(name)


@cache
def _find(name: str) -> Any:
    for home in homes():
        try:
            return getattr(import_module(home), name)
        except (ImportError, AttributeError):
            continue
    return Absent(name)


@cache
def homes() -> tuple[str, ...]:
    """Return the modules in which a public name may lie."""
    import kdey

    below = (f"kdey.{found.name}" for found in pkgutil.iter_modules(kdey.__path__))
    return tuple(dict.fromkeys([*FIRST, *(one for one in below if not one.startswith("kdey._"))]))


def public(*names: str) -> Any:
    """Return the first of several full names that this tree has; else the name, found elsewhere."""
    for name in names:
        home, _, attribute = name.rpartition(".")
        try:
            return getattr(import_module(home), attribute)
        except (ImportError, AttributeError):
            continue
    return _find(names[0].rpartition(".")[2])


# --------------------------------------------------------------------------------------- calls


def ask(function: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """Call with options as the function takes them: each by name, or rare ones in one object."""
    if isinstance(function, Absent):
        return function
    taken = inspect.signature(function).parameters
    if "options" in taken and taken["options"].kind is not inspect.Parameter.VAR_KEYWORD:
        rare = {name: value for name, value in options.items() if name not in taken}
        if rare:
            plain = {name: value for name, value in options.items() if name in taken}
            return function(*given, **plain, options=Names().Options(**rare))
    return function(*given, **options)


def estimate(quantifier: Any, X: Any, **options: Any) -> Any:
    """Estimate one bag of instances."""
    return ask(quantifier.estimate, X, **options)


def estimate_bags(quantifier: Any, X: Any, bags: Any, **options: Any) -> Any:
    """Estimate several bags of instances."""
    return ask(quantifier.estimate_bags, X, bags, **options)


def estimate_scores(quantifier: Any, posteriors: Any, *bags: Any, **options: Any) -> Any:
    """Estimate bags of posteriors."""
    return ask(quantifier.estimate_posteriors, posteriors, *bags, **options)


def predict_groups(quantifier: Any, frame: Any, by: Any = (), **options: Any) -> Any:
    """Return the table of the groups of a frame."""
    return _table(Names().predict_groups, quantifier, frame, by, options)


def compare_groups(quantifier: Any, frame: Any, by: Any = (), **options: Any) -> Any:
    """Return the table of comparisons of groups."""
    return _table(Names().compare_groups, quantifier, frame, by, options)


def _table(function: Any, quantifier: Any, frame: Any, by: Any, options: dict[str, Any]) -> Any:
    """Call a function of groups, and make a table of its result where it is none."""
    layout: dict[str, Any] = {}
    if "wide" in options and "wide" not in inspect.signature(function).parameters:
        layout["wide"] = options.pop("wide")
    made = ask(function, quantifier, frame, by, **options)
    return made.to_frame(**layout) if _makes_a_table(made) else made


def _makes_a_table(made: Any) -> bool:
    """Return whether it is no table of a library itself, but gives one."""
    return type(made).__module__.startswith("kdey") and hasattr(made, "to_frame")


def make_report(answer: Any, quantifier: Any, groups: Any = None, **options: Any) -> Any:
    """Make a report of an estimate and of a table of groups, which older trees take by name."""
    function = Names().make_report
    if isinstance(function, Absent) or groups is None:
        return ask(function, answer, quantifier=quantifier, **options)
    if "groups" in inspect.signature(function).parameters:
        return ask(function, answer, quantifier=quantifier, groups=groups, **options)
    return ask(function, answer, groups, quantifier=quantifier, **options)


def command_of(line: tuple[str, ...]) -> tuple[Callable[[], Any], list[str]]:
    """Return what runs a line of the command line, and its ``sys.argv``.

    ``reproduce`` is a command of a package beside ``src``, where the tree has one.
    """
    import kdey

    beside = Path(kdey.__file__).parents[2]
    if line[0] == "reproduce" and (beside / "experiments" / "__main__.py").exists():
        sys.path[:] = [*(path for path in sys.path if path != str(beside)), str(beside)]
        return import_module("experiments.__main__").main, ["experiments", *line[1:]]
    return import_module("kdey.cli").main, ["kdey", *line]
