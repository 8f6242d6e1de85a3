"""Check an installed kdey from outside its sources: core, answers, types, command line.

Run by ``release_check.py`` and ``try_wheels.py``, with the interpreter of the environment that kdey
was installed in. ``--without-command`` leaves the command line out: an emulated interpreter cannot
start another one everywhere.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numpy as np

import kdey
from kdey import native


def check_parts() -> None:
    """Fail where the installation lacks a part, or comes from a source tree."""
    home = Path(kdey.__file__).resolve()
    if "site-packages" not in home.parts:
        raise SystemExit(f"kdey was imported from {home.parent}, not from an installed wheel")
    if not native.available():
        raise SystemExit("the wheel has no native core")
    if not files("kdey").joinpath("py.typed").is_file():
        raise SystemExit("the wheel has no py.typed")
    if version("kdey") != kdey.__version__:
        raise SystemExit(f"metadata say {version('kdey')}, kdey says {kdey.__version__}")


def check_answers() -> None:
    """Fail where a shifted bag of two classes is not estimated well."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 300)
    X = rng.normal(size=(600, 2)) + 2.0 * y[:, None]
    bag = rng.normal(size=(500, 2)) + 2.0 * (np.arange(500) < 400)[:, None]
    for method in (kdey.KDEyML, kdey.KDEyHD, kdey.KDEyCS, kdey.PACC, kdey.EMQ):
        found = method(random_state=0).fit(X, y).predict(bag)
        if abs(found[1] - 0.8) > 0.06:
            raise SystemExit(f"{method.__name__} estimates {found[1]:.3f} where the truth is 0.8")


def check_command() -> None:
    """Fail where ``kdey demo`` does not run."""
    command = shutil.which("kdey", path=str(Path(sys.executable).parent))
    if command is None:
        raise SystemExit("the command kdey was not installed")
    shown = subprocess.run([command, "demo"], capture_output=True, text=True, check=True).stdout
    if "KDEy-ML" not in shown:
        raise SystemExit(f"kdey demo shows no KDEy-ML:\n{shown}")


def main() -> None:
    """Run the checks that the command line asks for."""
    check_parts()
    check_answers()
    core = f"native core ({native.instruction_set()})"
    parts = f"{core}, answers and py.typed"
    if "--without-command" not in sys.argv[1:]:
        check_command()
        parts = f"{core}, answers, py.typed and kdey demo"
    print(f"kdey {kdey.__version__}: {parts} are in order")


if __name__ == "__main__":
    main()
