"""Count what somebody must know to carry kdey on: files, lines, types, names, files on the way.

``python scripts/weight.py [SRC] [--against OLD_SRC] [--list] [--only NAME ...]`` counts the package
in ``SRC`` (default: ``src`` of this repository) and runs a few journeys of a user with it. For each
journey it prints how many source files have functions that ran, in how many folders, and how many
functions. A journey is run once before it is counted, so that imports do not count. ``--against``
prints the same numbers of another tree beside them, ``--list`` the files of every journey in the
order in which they are met. Each tree runs in a process of its own.

Lines are lines of code: those with a token other than a comment, docstrings left out. Nothing is
enforced: the numbers are for whoever changes the package.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import json
import os
import pkgutil
import subprocess
import sys
import threading
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
#: A name and its number, which is a number or a text.
Count = tuple[str, Any]
#: More parameters than a reader keeps in mind.
MANY = 10

# --------------------------------------------------------------------------------- source code

_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Source:
    """What one file holds.

    Attributes
    ----------
    code, imports : int
        Lines of code, and those of them that belong to imports.
    classes, dataclasses : list of str
        Their names, those inside functions and classes too.
    parameters : list of int
        The number of parameters of every function, ``self`` and ``cls`` aside.
    """

    code: int
    imports: int
    classes: list[str]
    dataclasses: list[str]
    parameters: list[int]

    @classmethod
    def read(cls, path: Path) -> Source:
        """Read a file of Python."""
        text = path.read_text(encoding="utf-8")
        nodes = list(ast.walk(ast.parse(text)))
        documents = (_docstring(node) for node in nodes if isinstance(node, _WITH_DOCSTRING))
        code = _lines_of_tokens(text) - _lines(found for found in documents if found is not None)
        imports = _lines(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
        classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        return cls(
            code=len(code),
            imports=len(code & imports),
            classes=[node.name for node in classes],
            dataclasses=[node.name for node in classes if _is_dataclass(node)],
            parameters=[_n_parameters(node) for node in functions],
        )


def _lines_of_tokens(text: str) -> set[int]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    spans = (range(t.start[0], t.end[0] + 1) for t in tokens if t.type not in _NO_CODE)
    return {line for span in spans for line in span}


def _docstring(node: Any) -> ast.Expr | None:
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return first if isinstance(first.value.value, str) else None
    return None


def _lines(nodes: Iterable[ast.stmt]) -> set[int]:
    return {
        line for node in nodes for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.dump(decorator) for decorator in node.decorator_list)


def _n_parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in taken)


def sources_below(folder: Path) -> dict[Path, Source]:
    """Return the files of a folder, tests left out."""
    paths = sorted(folder.rglob("*.py"))
    here = [path for path in paths if "tests" not in path.relative_to(folder).parts]
    return {path: Source.read(path) for path in here}


def twice(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def counts_of_code(package: Path) -> list[Count]:
    """Return what the files of the package hold, and those of experiments/ beside it."""
    files = sources_below(package)
    code = sum(source.code for source in files.values())
    imports = sum(source.imports for source in files.values())
    classes = [name for source in files.values() for name in source.classes]
    named = [path.name for path in files if path.name not in ("__init__.py", "base.py")]
    parameters = [number for source in files.values() for number in source.parameters]
    counts: list[Count] = [
        ("files", len(files)),
        ("lines of code", code),
        ("of them imports, per cent", round(100 * imports / code, 1)),
        ("lines of code in the longest file", max(source.code for source in files.values())),
        ("folders", len({path.parent for path in files})),
        ("classes", len(classes)),
        ("of them dataclasses", sum(len(source.dataclasses) for source in files.values())),
        ("file names that occur twice (but base)", len(twice(named))),
        ("class names that occur twice", len(twice(classes))),
        (f"functions with more than {MANY} parameters", sum(n > MANY for n in parameters)),
    ]
    experiments = sources_below(package.parents[1] / "experiments").values()
    if experiments:
        more = sum(source.code for source in experiments)
        counts += [
            ("files with experiments/", len(files) + len(experiments)),
            ("lines of code with experiments/", code + more),
        ]
    return counts


# -------------------------------------------------------------------------------- public names


def counts_of_names(source: Path) -> list[Count]:
    """Return how many names, methods and parameters a user meets."""
    import kdey

    further = {
        f"{module}.{name}"
        for module, names in listed_names(kdey).items()
        for name in names
        if name not in kdey.__all__
    }
    counts: list[Count] = [
        ("names in kdey", len(kdey.__all__)),
        ("further names of its subpackages", len(further)),
        ("methods and properties of a quantifier", len(own_names(kdey.KDEyML))),
        ("parameters of predict_groups", n_parameters(kdey.predict_groups)),
        ("parameters of estimate", n_parameters(kdey.KDEyML.estimate)),
        ("parameters of make_report", n_parameters(kdey.make_report)),
        ("modules loaded by `from kdey import KDEyML`", loaded_modules(source)),
    ]
    return counts


def listed_names(package: Any) -> dict[str, list[str]]:
    """Return the ``__all__`` of every public module directly below the package."""
    made = {}
    for module in pkgutil.iter_modules(package.__path__):
        if not module.name.startswith("_"):
            try:
                found = import_module(f"{package.__name__}.{module.name}")
            except ImportError:  # a module of an extra that is not installed
                continue
            made[module.name] = list(getattr(found, "__all__", ()))
    return made


def own_names(quantifier: type) -> list[str]:
    """Return methods and properties, but parameters, fitted attributes and scikit-learn's own."""
    from sklearn.base import BaseEstimator

    not_own = {*dir(BaseEstimator), *inspect.signature(quantifier).parameters}
    return [
        name
        for name in dir(quantifier)
        if not (name.startswith("_") or name.endswith("_") or name in not_own)
        and not (name.startswith("set_") and name.endswith("_request"))
    ]


def n_parameters(function: Callable[..., Any]) -> int:
    """Return the number of parameters; ``**options`` is one, ``self`` is none."""
    return sum(name != "self" for name in inspect.signature(function).parameters)


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


# ------------------------------------------------------------------------------------ journeys

#: Frames of these are part of the function around them, or of an import.
_NOT_FUNCTIONS = ("<module>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
#: What a call of a tree with other parameters or names raises.
_OTHER_INTERFACE = (AttributeError, ImportError, TypeError)


@dataclass(frozen=True)
class Journey:
    """Something that a user does.

    Attributes
    ----------
    ways : callables
        How it is written, on other trees too. The first that works is counted.
    begin : callable
        Makes what the ways take; it does not count.
    """

    ways: Sequence[Callable[[Any], Any]]
    begin: Callable[[], Any] = lambda: None

    def way_of_this_tree(self) -> Callable[[Any], Any]:
        """Run the ways in turn and return the first whose names and parameters this tree has."""
        *others, last = self.ways
        for way in others:
            try:
                way(self.begin())
            except _OTHER_INTERFACE:
                continue
            return way
        last(self.begin())
        return last


def crossed(journey: Journey, package: Path) -> list[CodeType]:
    """Return the functions of the package that a journey runs, in the order of first call."""
    way = journey.way_of_this_tree()
    start = journey.begin()
    root = f"{package}{os.sep}"
    found: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code not in found:
            inside = code.co_filename.startswith(root) and code.co_name not in _NOT_FUNCTIONS
            if inside:
                found[code] = None

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        way(start)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(found)


def journeys() -> dict[str, Journey]:
    """Return the journeys by name."""
    import kdey

    known, labels, new, table = iris_tables()

    def fitted() -> Any:
        return kdey.KDEyML(random_state=0).fit(known, labels)

    def search(_: Any) -> Any:
        protocol = getattr(kdey, "APP", None) or import_module("kdey.evaluation").APP
        return (
            kdey.GridSearchQ(
                kdey.KDEyML(random_state=0),
                {"bandwidth": [0.05, 0.1, 0.2], "classifier__C": [1.0, 10.0]},
                protocol=protocol(n_bags=20, bag_size=30, random_state=0),
                verbose=False,
            )
            .fit(known, labels)
            .predict(new)
        )

    def frames(_: Any) -> Any:
        quantifier = kdey.Quantifier(random_state=0)
        quantifier.fit(known.assign(colour=colours(known)), labels)
        return quantifier.estimate(new.assign(colour=colours(new)))

    made = {
        "fit and predict, given bandwidth": Journey(
            [lambda _: kdey.KDEyML(bandwidth=0.1, random_state=0).fit(known, labels).predict(new)]
        ),
        "fit and predict, automatic": Journey([lambda _: fitted().predict(new)]),
        "estimate": Journey([lambda q: q.estimate(new)], fitted),
        "Quantifier on a frame, fit and estimate": Journey([frames]),
        "groups with pooling": Journey(
            [lambda q: q.predict_groups(table, "field", shrink=True)], fitted
        ),
        **report_journeys(fitted, new, table),
        "grid search": Journey([search]),
    }
    try:
        import dask
        import dask.dataframe as dd
    except ImportError:
        return made
    parts = dd.from_pandas(table, npartitions=3)
    dask.config.set(scheduler="synchronous")
    made["groups on Dask"] = Journey(
        [lambda q: q.predict_groups(parts, "field", time="day", every="1w")], fitted
    )
    return made


def iris_tables() -> tuple[Any, Any, Any, Any]:
    """Return known rows and their labels, new rows, and the new rows with a group and a day."""
    import numpy as np
    import pandas as pd
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True, as_frame=True)
    X = X.iloc[:, [1, 3]].set_axis(["width", "petal"], axis=1)
    new = X[1::2]
    table = new.assign(
        field=np.where(np.arange(len(new)) % 3 > 0, "east", "west"),
        day=pd.Timestamp("2026-01-05") + pd.to_timedelta(np.arange(len(new)) % 14, unit="D"),
    )
    return X[::2], y[::2], new, table


def colours(frame: Any) -> Any:
    """Return a column of texts."""
    return ["blue" if width > 3 else "red" for width in frame["width"]]


def report_journeys(fitted: Callable[[], Any], new: Any, table: Any) -> dict[str, Journey]:
    """Return how a report by group and time is made: from the table, and from its groups alone."""
    import kdey

    by: dict[str, Any] = {"by": ["field"], "time": "day"}
    weekly = {**by, "every": "1w"}

    def begin() -> Any:
        quantifier = fitted()
        return quantifier, quantifier.estimate(new), quantifier.predict_groups(table, **weekly)

    def page(answers: Any, **given: Any) -> str:
        quantifier, estimate, groups = answers
        made = kdey.make_report(estimate, groups, quantifier=quantifier, **given)
        return str(made.html())

    return {
        "report by group and time, with the fit": Journey(
            [
                lambda _: kdey.make_report(fitted(), table, **weekly).html(),
                lambda _: page(begin(), **by),
                lambda _: page(begin()),
            ]
        ),
        "the page of such a report": Journey([lambda a: page(a, **by), page], begin),
    }


def counts_of_journeys(package: Path, only: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return files, folders and functions of every journey; or why it could not be run."""
    made: dict[str, dict[str, Any]] = {}
    for name, journey in journeys().items():
        if only and not any(part in name for part in only):
            continue
        try:
            functions = crossed(journey, package)
        except Exception as error:
            made[name] = {"error": f"{type(error).__name__}: {error}"}
            continue
        files = list(dict.fromkeys(os.path.relpath(f.co_filename, package) for f in functions))
        made[name] = {
            "files": files,
            "folders": len({os.path.dirname(file) for file in files}),
            "functions": len(functions),
        }
    return made


# ------------------------------------------------------------------------------------- running


def weigh(source: Path, only: Sequence[str]) -> dict[str, Any]:
    """Return all counts of the tree that is on the path."""
    import kdey

    package = source / "kdey"
    if Path(kdey.__file__).parent != package:
        sys.exit(f"kdey was imported from {kdey.__file__}, not from {source}")
    return {
        "code": counts_of_code(package),
        "names": counts_of_names(source),
        "journeys": counts_of_journeys(package, only),
    }


def in_process(source: Path, only: Sequence[str]) -> dict[str, Any]:
    """Weigh a tree in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, str(source), "--json"]
    run = subprocess.run(
        [*command, *(["--only", *only] if only else [])],
        env=os.environ | {"PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if run.returncode:
        sys.exit(f"{source} could not be weighed; see above")
    return dict(json.loads(run.stdout.splitlines()[-1]))


def text(value: Any) -> str:
    """Return a number with separators; nothing for what a tree does not have."""
    return "" if value is None else f"{value:,}"


def print_counts(title: str, trees: Sequence[list[Count]]) -> None:
    """Print the counts of one tree, or of two beside each other."""
    columns = [dict(tree) for tree in trees]
    names = list(dict.fromkeys(name for column in columns for name in column))
    head = (title, *("before", "after")[-len(trees) :])
    print_table(head, [(name, *(text(c.get(name)) for c in columns)) for name in names])


def print_journeys(trees: Sequence[dict[str, dict[str, Any]]]) -> None:
    """Print what the journeys cross."""
    names = list(dict.fromkeys(name for tree in trees for name in tree))
    before = ["before"] if len(trees) > 1 else []
    rows = []
    for name in names:
        found = [tree.get(name, {}) for tree in trees]
        files = [text(len(one["files"])) if "files" in one else "failed" for one in found]
        last = found[-1]
        rows.append((name, *files, text(last.get("folders")), text(last.get("functions"))))
    print_table(("journey", *before, "files", "folders", "functions"), rows)
    for tree in trees:
        for name, one in tree.items():
            if "error" in one:
                print(f"{name}: {one['error']}\n")


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
    """Weigh one tree or two and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", type=Path, default=ROOT / "src")
    parser.add_argument("--against", type=Path, metavar="OLD_SRC", help="another tree, beside it")
    parser.add_argument("--list", action="store_true", help="the files in order of first crossing")
    parser.add_argument("--only", nargs="+", default=[], help="journeys so named")
    parser.add_argument("--json", action="store_true", help="numbers of one tree, for a program")
    options = parser.parse_args()
    source = options.source.resolve()
    if options.json:
        sys.path.insert(0, str(source))
        print(json.dumps(weigh(source, options.only)))
        return
    sources = [source] if options.against is None else [options.against.resolve(), source]
    trees = [in_process(one, options.only) for one in sources]
    print_counts("code of the package", [tree["code"] for tree in trees])
    print_counts("what a user meets", [tree["names"] for tree in trees])
    print_journeys([tree["journeys"] for tree in trees])
    if options.list:
        for name, one in trees[-1]["journeys"].items():
            print(f"{name}:")
            for number, file in enumerate(one.get("files", ()), 1):
                print(f"  {number:3d} {file}")


if __name__ == "__main__":
    main()
