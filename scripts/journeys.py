"""Count how much of the package a reader must cross to follow what a user does.

``python scripts/journeys.py [SRC] [--list] [--only NAME ...]`` runs a few journeys (fit and
predict, estimate, report, search, groups on Dask) with the kdey of ``SRC`` (default: ``src`` in
this repository). For each it counts the source files whose functions ran, the folders they lie in,
and how often the journey returns to a folder that it had left. Every journey is run once before it
is counted, so that imports do not count. Below stand numbers of the tree itself: files, modules
that ``from kdey import KDEyML`` loads, files that a single other file imports, file names that
occur more than once.

Returns are counted twice: over every call, which grows with the loops of the data, and over
functions in the order in which each is first called, which is what somebody reads.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

#: Frames of these are part of the function around them, or of an import.
_NOT_FUNCTIONS = ("<module>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


@dataclass(frozen=True)
class Call:
    """One call of a function of the package; ``file`` is relative to the package's folder."""

    file: str
    code: CodeType

    @property
    def folder(self) -> str:
        """Folder of the file; "." for files of the package's own folder."""
        return os.path.dirname(self.file) or "."


@dataclass(frozen=True)
class Journey:
    """What was crossed, in order.

    Attributes
    ----------
    name : str
    calls : list of Call
    """

    name: str
    calls: list[Call]

    @property
    def files(self) -> list[str]:
        """The files in the order of first crossing."""
        return list(dict.fromkeys(call.file for call in self.calls))

    @property
    def folders(self) -> list[str]:
        """The folders in the order of first crossing."""
        return list(dict.fromkeys(call.folder for call in self.calls))

    @property
    def first_calls(self) -> list[Call]:
        """The first call of each function."""
        found: dict[Call, None] = dict.fromkeys(self.calls)
        return list(found)

    def row(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        numbers = (
            len(self.files),
            len(self.folders),
            returns(self.calls),
            returns(self.first_calls),
            len(self.first_calls),
        )
        return (self.name, *(f"{number:,}" for number in numbers))


def returns(calls: Sequence[Call]) -> int:
    """Return how often the calls come back to a folder that they had left."""
    left: set[str] = set()
    count = 0
    for before, after in pairwise(call.folder for call in calls):
        if before != after:
            left.add(before)
            count += after in left
    return count


def record(name: str, journey: Callable[[], Any], package: Path) -> Journey:
    """Run a journey twice, the second time with every call of a function of the package noted."""
    root = f"{package}{os.sep}"
    calls: list[Call] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        inside = code.co_filename.startswith(root) and code.co_name not in _NOT_FUNCTIONS
        if event == "call" and inside:
            calls.append(Call(code.co_filename.removeprefix(root), code))

    journey()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        journey()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Journey(name, calls)


def journeys() -> dict[str, Callable[[], Any]]:
    """Return the journeys by name; what is not part of a journey is done here."""
    import dask
    import dask.dataframe as dd
    import numpy as np
    import pandas as pd
    from sklearn.datasets import load_iris

    import kdey

    X, y = load_iris(return_X_y=True, as_frame=True)
    X = X.iloc[:, [1, 3]].set_axis(["width", "petal"], axis=1)
    known, labels = X[::2], y[::2]
    new = X[1::2]
    table = new.assign(
        field=np.where(np.arange(len(new)) % 3 > 0, "east", "west"),
        day=pd.Timestamp("2026-01-05") + pd.to_timedelta(np.arange(len(new)) % 14, unit="D"),
    )
    parts = dd.from_pandas(table, npartitions=3)
    dask.config.set(scheduler="synchronous")
    fitted = kdey.KDEyML(random_state=0).fit(known, labels)

    def report() -> str:
        quantifier = kdey.KDEyML(random_state=0).fit(known, labels)
        groups = quantifier.predict_groups(
            table, "field", time="day", every="1w", check_fit=True, min_size=5
        ).to_frame()
        made = kdey.make_report(
            quantifier.estimate(new),
            quantifier=quantifier,
            groups=groups,
            by=["field"],
            time="day",
        )
        return made.html()

    def search() -> Any:
        return (
            kdey.GridSearchQ(
                kdey.KDEyML(random_state=0),
                {"bandwidth": [0.05, 0.1, 0.2], "classifier__C": [1.0, 10.0]},
                protocol=kdey.APP(n_bags=20, bag_size=30, random_state=0),
                verbose=False,
            )
            .fit(known, labels)
            .predict(new)
        )

    return {
        "fit and predict, given bandwidth": lambda: (
            kdey.KDEyML(bandwidth=0.1, random_state=0).fit(known, labels).predict(new)
        ),
        "fit and predict, automatic": lambda: (
            kdey.KDEyML(random_state=0).fit(known, labels).predict(new)
        ),
        "estimate": lambda: fitted.estimate(new),
        "report by group and time": report,
        "grid search": search,
        "groups on Dask": lambda: fitted.predict_groups(
            parts, "field", time="day", every="1w"
        ).to_frame(),
    }


def modules_of(package: Path) -> dict[str, Path]:
    """Return the modules of a package by name."""
    made = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        made[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return made


def imported_names(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of everything imported anywhere in a file; the name may be empty."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, ""
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                parts = module.split(".")
                base = parts[: len(parts) - node.level + is_package]
                source = ".".join([*base, *([source] if source else [])])
            for alias in node.names:
                yield source, alias.name


def importers(package: Path) -> dict[str, set[str]]:
    """Return for each module the modules that import it.

    A name that a package hands on counts as imported from the file where it is defined, and the
    ``__init__`` that hands it on does not count as an importer.
    """
    modules = modules_of(package)
    packages = {name for name, path in modules.items() if path.name == "__init__.py"}
    imports = {
        name: set(
            imported_names(ast.parse(path.read_text(encoding="utf-8")), name, name in packages)
        )
        for name, path in modules.items()
    }

    def home(source: str, name: str, depth: int = 0) -> str | None:
        if f"{source}.{name}" in modules:
            return f"{source}.{name}"
        if source in packages and depth < 5:
            for origin, handed_on in imports[source]:
                if handed_on == name and origin in modules:
                    return home(origin, name, depth + 1)
        return source if source in modules else None

    found: dict[str, set[str]] = {name: set() for name in modules}
    for module, imported in imports.items():
        if module in packages:
            continue
        for source, name in imported:
            target = home(source, name)
            if target is not None and target != module:
                found[target].add(module)
    return {name: by for name, by in found.items() if name not in packages}


def loaded_modules(source: Path) -> int:
    """Return how many modules of the package ``from kdey import KDEyML`` loads."""
    code = (
        "import sys; from kdey import KDEyML; "
        "print(sum(name.split('.')[0] == 'kdey' for name in sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(run.stdout)


def tree_rows(source: Path) -> list[tuple[str, str]]:
    """Return numbers of the tree itself."""
    package = source / "kdey"
    paths = list(package.rglob("*.py"))
    named = Counter(path.name for path in paths if path.name != "__init__.py")
    alone = {name: by for name, by in importers(package).items() if len(by) == 1}
    beside = sum(
        name.rpartition(".")[0] == next(iter(by)).rpartition(".")[0] for name, by in alone.items()
    )
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
    return [
        ("Python files", f"{len(paths)}"),
        ("lines in them", f"{lines:,}"),
        ("folders", f"{len({path.parent for path in paths})}"),
        ("kdey modules loaded by `from kdey import KDEyML`", f"{loaded_modules(source)}"),
        ("files with a single importer", f"{len(alone)}"),
        ("... which lies in the same folder", f"{beside}"),
        ("file names that occur more than once", f"{sum(n > 1 for n in named.values())}"),
        ("files under such a name", f"{sum(n for n in named.values() if n > 1)}"),
    ]


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, the first column to the left and the others to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, ["-" * width for width in widths], *rows]:
        first, *rest = row
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        print("  ".join(cells).rstrip())
    print()


def main() -> None:
    """Run the journeys and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", type=Path, default=Path(__file__).parents[1] / "src")
    parser.add_argument("--list", action="store_true", help="the files in order of first crossing")
    parser.add_argument("--only", nargs="+", help="journeys whose name contains one of these")
    options = parser.parse_args()
    source = options.source.resolve()
    sys.path.insert(0, str(source))
    import kdey

    package = source / "kdey"
    if Path(kdey.__file__).parent != package:
        sys.exit(f"kdey was imported from {kdey.__file__}, not from {source}")
    made = [
        record(name, journey, package)
        for name, journey in journeys().items()
        if not options.only or any(part in name for part in options.only)
    ]
    head = ("journey", "files", "folders", "returns: calls", "functions", "functions run")
    print_table(head, [one.row() for one in made])
    print_table((f"tree of kdey {kdey.__version__}", "number"), tree_rows(source))
    if options.list:
        for one in made:
            print(f"{one.name}:")
            print("".join(f"  {number:3d} {file}\n" for number, file in enumerate(one.files, 1)))


if __name__ == "__main__":
    main()
