"""Imports point one way, and the core needs no extra."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kdey

ROOT = Path(kdey.__file__).parent
#: Lowest first. A room may import from itself and from the layers below it; two rooms of one layer
#: must not import each other. A new module or folder is placed here.
LAYERS = (
    ("_display", "_io", "native"),
    ("validation",),
    ("simplex",),
    ("_fingerprints", "status"),
    ("options",),
    ("bags", "classifiers"),
    ("calibration", "kernels", "posteriors"),
    ("rows",),
    ("matching",),
    ("gpu", "metrics", "tables"),
    ("model",),
    ("intervals",),
    ("labelled", "tuning"),
    ("bayes", "diagnostics", "stacking"),
    ("groups",),
    ("quantifiers",),
    ("evaluation",),
    ("datasets",),
    ("interop", "persistence", "report"),
    ("monitoring", "plots"),
    ("__init__",),  # the public names: "from kdey import KDEyML"
    ("cli",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
#: Packages that come with an extra, or with nothing: none may be imported by the core.
EXTRAS = (
    *("pandas", "polars", "pyarrow", "click", "torch", "triton", "matplotlib", "mpltern"),
    *("jinja2", "pooch", "dask", "distributed", "skops", "quapy", "IPython", "tqdm"),
    *("requests", "python_calamine", "xlsxwriter"),
)


def files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def part(path: Path) -> str:
    """Return the first name under ``kdey``: a module, or a folder."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Return the first names under ``kdey`` that a file imports, inside functions too."""
    package = ["kdey", *path.relative_to(ROOT).parts[:-1]]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # "from kdey import native" names a module as much as "from kdey.native import x".
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("kdey.")}
    return {"__init__" if name in kdey.__all__ else name for name in found}


def violations() -> list[str]:
    """Return a sentence for each import that points the wrong way."""
    found = []
    for path in files():
        room = part(path)
        if room not in LEVEL:
            found.append(f"kdey.{room} is new: place it in LAYERS")
            continue
        for name in sorted(imported(path) - {room}):
            where = f"{path.relative_to(ROOT)} imports kdey.{name}"
            if name not in LEVEL:
                found.append(f"{where}, which has no place in LAYERS")
            elif LEVEL[name] >= LEVEL[room]:
                found.append(f"{where}, which is not below kdey.{room}")
    return found


@pytest.mark.smoke
def test_imports_point_down() -> None:
    assert violations() == []


def test_every_placed_name_exists() -> None:
    assert set(LEVEL) <= {part(path) for path in files()}


def test_the_parser_sees_every_way_to_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "rows").mkdir()
    file = tmp_path / "rows" / "a.py"
    file.write_text(
        "import kdey.cli\nfrom kdey import demo\nfrom kdey.solvers.em import x\n"
        "from ..problems import y\nfrom .b import z\n"
        "def f():\n    from kdey.quantifiers.densities import KDEyML\nfrom kdey import DM\n"
    )
    expected = {"cli", "demo", "solvers", "problems", "rows", "quantifiers", "__init__"}
    assert imported(file) == expected


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_core_imports_without_any_extra() -> None:
    _run(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {(*EXTRAS, 'rich')!r}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import kdey\n"
        "import numpy as np\n"
        "X = np.random.default_rng(0).normal(size=(60, 2)); y = (X[:, 0] > 0).astype(int)\n"
        "kdey.KDEyML().fit(X, y).predict(X)"
    )


def test_core_asks_for_no_extra() -> None:
    # Whatever scikit-learn, scipy and the like load by themselves is theirs.
    code = (
        "import sys, sklearn.base, sklearn.utils.validation, sklearn.utils.parallel, scipy.stats, "
        "sklearn.model_selection, sklearn.frozen\n"
        "before = set(sys.modules)\n"
        "import kdey\n"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    assert not set(_run(code).split()) & {*EXTRAS, "rich", "narwhals"}
