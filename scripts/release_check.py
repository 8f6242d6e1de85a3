"""Build sdist and wheel, and try them as a stranger would.

``python scripts/release_check.py [--out dist]`` in an environment with the extra ``release``
(``make release-check``). In this order:

1. the sdist is built from the tree, and the wheel from that sdist alone;
2. both hold what they should and nothing that they should not;
3. on Linux, auditwheel names the oldest system that the wheel runs on;
4. the wheel is installed in an empty environment, from downloaded dependencies, with no compiler,
   CMake or package index within reach, in less than 30 seconds of processor time (the wall
   clock, shown beside it, would measure who else is at work);
5. ``installed_check.py`` passes there, and ``kdey demo`` with it;
6. mypy, strict, sees kdey's types from a consumer's file, and sees a misuse too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LIMIT = 30.0
COMPILERS = ("cc", "gcc", "c++", "g++", "clang", "clang++", "cmake", "ninja", "make")
IN_WHEEL = ("kdey/_kdey.bin", "kdey/py.typed", "kdey/datasets/catalogue.csv")
IN_SDIST = ("CMakeLists.txt", "src/native/kdey.h", "src/kdey/py.typed", "LICENSE", "CITATION.cff")
#: Beginnings of names that must not be shipped.
NOT_IN_WHEEL = ("tests/", "src/", "benchmarks/", "scripts/")
NOT_IN_SDIST = (".ci/", "results/", "shared/", "dist/", "build/")

CONSUMER = """\
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

from kdey import APP, Estimate, KDEyML, evaluate
from kdey.evaluation import Results

X, y = np.zeros((4, 1)), np.array([0, 1, 0, 1])
quantifier = KDEyML(bandwidth=0.1).fit(X, y)
assert_type(quantifier, KDEyML)
assert_type(quantifier.predict(X), NDArray[np.float64])
assert_type(quantifier.estimate(X), Estimate)
assert_type(evaluate(quantifier, X, y, APP()), Results)
"""
MISUSE = 'from kdey import APP\n\nAPP(n_bags="many")\n'


def run(*command: object, **options: Any) -> str:
    """Run a command and return what it said; on failure stop with that."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\nfailed:\n{done.stdout}{done.stderr}")
    return str(done.stdout)


def build(out: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it; return both."""
    run(sys.executable, "-m", "build", "--outdir", out, ROOT)
    (sdist,), (wheel,) = out.glob("kdey-*.tar.gz"), out.glob("kdey-*.whl")
    return sdist, wheel


def check_contents(sdist: Path, wheel: Path) -> None:
    """Stop where a file is missing from sdist or wheel, or should not be there."""
    in_wheel = zipfile.ZipFile(wheel).namelist()
    with tarfile.open(sdist) as archive:
        in_sdist = [name.partition("/")[2] for name in archive.getnames()]
    for where, names, wanted, unwanted in (
        (wheel.name, in_wheel, IN_WHEEL, NOT_IN_WHEEL),
        (sdist.name, in_sdist, IN_SDIST, NOT_IN_SDIST),
    ):
        missing = sorted(set(wanted) - set(names))
        strays = [name for name in names if name.startswith(unwanted)]
        if missing or strays:
            raise SystemExit(f"{where} lacks {missing}, and should not hold {strays[:5]}")


def repair(wheel: Path, out: Path) -> Path:
    """Return the wheel under the tag of the oldest Linux it runs on; elsewhere as it is."""
    if sys.platform != "linux":
        return wheel
    beside = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    run(
        sys.executable, "-m", "auditwheel", "repair", wheel, "--wheel-dir", out,
        env={**os.environ, **beside},
    )  # fmt: skip
    (repaired,) = out.glob("kdey-*manylinux*.whl")
    return repaired


def bare_environment(python: Path) -> dict[str, str]:
    """Return variables under which no compiler is found, and no package index either."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON", "C"))}
    made = {**kept, "PATH": str(python.parent), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    found = [tool for tool in COMPILERS if shutil.which(tool, path=made["PATH"])]
    if found:
        raise SystemExit(f"the empty environment has {found}")
    return made


def download(wheel: Path, folder: Path) -> Path:
    """Return a folder that holds the dependencies of the wheel with its command line."""
    cached = folder / "dependencies"
    run(sys.executable, "-m", "pip", "download", "--quiet", "--dest", cached, f"{wheel}[cli]")
    return cached


def install(wheel: Path, folder: Path) -> tuple[Path, dict[str, str]]:
    """Install the wheel with its command line in an empty environment, within the limit.

    Returns the environment's interpreter and variables.
    """
    cached, home = download(wheel, folder), folder / "env"
    venv.create(home, with_pip=True)
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    variables = bare_environment(python)
    start = time.perf_counter(), children_seconds()
    run(
        python, "-m", "pip", "install", "--quiet", "--find-links", cached, f"{wheel}[cli]",
        env=variables, cwd=folder,
    )  # fmt: skip
    wall, spent = time.perf_counter() - start[0], children_seconds() - start[1]
    print(f"installed without a compiler in {spent:.1f} s of processor time, {wall:.1f} s in all")
    if (spent or wall) > LIMIT:
        raise SystemExit(f"the installation took more than {LIMIT:.0f} s")
    return python, variables


def children_seconds() -> float:
    """Return the processor time of all commands run so far; 0 where the system does not say."""
    times = os.times()
    return times.children_user + times.children_system


def check_types(python: Path, folder: Path) -> None:
    """Stop where a strict consumer does not see kdey's types."""
    # mypy must not see this tree's configuration, nor its sources.
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--python-executable"]
    (folder / "consumer.py").write_text(CONSUMER)
    run(*command, python, "consumer.py", cwd=folder)
    (folder / "misuse.py").write_text(MISUSE)
    words = [str(word) for word in (*command, python, "misuse.py")]
    said = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False).stdout
    if "arg-type" not in said:
        raise SystemExit(f"mypy should refuse {MISUSE!r}, but says:\n{said}")


def main() -> None:
    """Go through the steps of the module's docstring."""
    parser = argparse.ArgumentParser(description="Build sdist and wheel, and try them.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where they are left")
    out = parser.parse_args().out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    sdist, wheel = build(out)
    check_contents(sdist, wheel)
    wheel = repair(wheel, out)
    print(f"built {sdist.name} and {wheel.name}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        python, variables = install(wheel, folder)
        check = ROOT / "scripts" / "installed_check.py"
        print(run(python, check, env=variables, cwd=folder), end="", flush=True)
        check_types(python, folder)
        print("a strict consumer sees the types")


if __name__ == "__main__":
    main()
