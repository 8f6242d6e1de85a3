"""Run what the wheels of all platforms hold, here or under an emulator.

``python scripts/try_wheels.py [--wheels dist] [target ...]`` in an environment with the dependency
group ``wheels`` (``make test-wheels``), on Debian. The emulators are installed by apt where they
are missing. For every platform the program of ``tests/abi``, which calls each entry of the native
core and checks the answers, is compiled by Zig and run with the core of the wheel:

* Linux x86-64: here; then the wheel is installed in an empty environment, and the commands of the
  README are run there;
* Linux aarch64: by qemu; then the wheel is installed for an aarch64 Python, which checks the
  installation and runs tests of the kernel against NumPy and of the solvers;
* musl: with Debian's musl, on aarch64 by qemu;
* Windows: by Wine;
* macOS: compiled only, as nothing here can run it.

On x86-64 the program runs with every instruction set that this machine has.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from abi_program import compile_program
from arm_root import make_root
from build_wheels import zig
from wheel_targets import Target, targets

ROOT = Path(__file__).parents[1]
WINE = Path("/usr/lib/wine/wine64")
#: What is needed by which targets, and the package of Debian that has it.
QEMU, MUSL = Path("/usr/bin/qemu-aarch64-static"), Path("/lib/ld-musl-x86_64.so.1")
PACKAGES = {QEMU: "qemu-user-static", WINE: "wine64", MUSL: "musl"}
#: Instruction sets in the order in which the core prefers them.
ISAS = ("avx512", "avx2", "baseline")
#: Seconds after which something hangs; emulators are slow.
LIMIT = 3600
#: Hypothesis would take the slowness of an emulator for a fault.
NO_DEADLINE = """\
from hypothesis import HealthCheck, settings

settings.register_profile("emulated", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("emulated")
"""
#: Tests that an emulated processor runs, by folder. NumPy's own path needs no emulator.
EMULATED_TESTS = {
    "kernels": ("test_accuracy.py", "test_packed.py"),
    "matching": ("test_solve_divergence.py", "test_quadratic.py", "test_extremes.py"),
}


@dataclass(frozen=True)
class Machine:
    """How programs of another platform are run.

    Parameters
    ----------
    prefix : sequence of str
        Words before the program.
    variables : mapping
        Added to the environment.
    drive : str
        What paths begin with there.
    """

    prefix: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    drive: str = ""

    def run(self, *words: object, **variables: str) -> str:
        """Run a program and return what it printed; stop if it fails."""
        command = [*self.prefix, *(str(word) for word in words)]
        done = subprocess.run(
            command,
            env={**os.environ, **self.variables, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\nfailed ({done.returncode}):\n{done.stdout}")
        return done.stdout


def require(tool: Path) -> Path:
    """Return a tool, which is installed if it is missing."""
    if not tool.exists():
        package = PACKAGES[tool]
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            raise SystemExit(f"{tool} is missing: install Debian's package {package}")
        install = ["apt-get", "install", "--yes", "--no-install-recommends", package]
        for command in (["apt-get", "update"], install):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return tool


def machine(target: Target, cache: Path) -> Machine | None:
    """Return how programs of a target are run here, or None if they cannot be."""
    if target.system == "Windows":
        # Neither .NET nor HTML is needed, and Wine would ask whether to download them.
        quiet = {"WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml="}
        prefix = {"WINEPREFIX": str((cache / "wine").resolve())}
        return Machine([str(require(WINE))], quiet | prefix, "Z:")
    if target.system == "Darwin":
        return None
    if target.processor == "aarch64":
        return Machine([str(require(QEMU)), "-L", str(make_root(cache / "arm"))])
    return Machine([str(require(MUSL))] if "musl" in target.triple else [])


def try_abi(target: Target, wheel: Path, folder: Path, host: Machine | None) -> None:
    """Run the program of ``tests/abi`` with the core of a wheel."""
    suffix = ".exe" if target.system == "Windows" else ""
    dynamic = ["-dynamic"] if "musl" in target.triple else []  # a static program loads nothing
    # Stripped as the core is, or Zig would compile the libraries of the target once more.
    compiler = [str(zig()), "cc", "-target", target.triple, "-s", *dynamic]
    libraries = ["-lm", "-ldl"] if target.system == "Linux" else []
    program = compile_program(folder / f"abi{suffix}", compiler, libraries)
    if host is None:
        print(f"{target.name}: the program is compiled; it cannot be run here", flush=True)
        return
    with zipfile.ZipFile(wheel) as archive:
        core = Path(archive.extract("kdey/_kdey.bin", folder))
    for isa in ISAS if target.is_x86 else ISAS[-1:]:
        said = host.run(program, f"{host.drive}{core}", KDEY_ISA=isa)
        print(f"{target.name}: {said.strip().splitlines()[-1]}", flush=True)


def readme_commands() -> str:
    """Return the commands and the Python code of the README that are to be run, as a script."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(<!-- not run.*-->\n)?```(sh|python)\n(.*?)```", text, re.DOTALL)
    parts = [
        code if kind == "sh" else f"python - <<'END'\n{code}END\n"
        for skipped, kind, code in blocks
        if not skipped
    ]
    return "set -e\n" + "".join(parts)


def try_installed(wheel: Path, folder: Path) -> None:
    """Install a wheel of this platform in an empty environment and run the README's commands."""
    home = folder / "env"
    venv.create(home, with_pip=True)
    python, here = home / "bin" / "python", Machine()
    here.run(python, "-m", "pip", "install", "--quiet", f"{wheel}[all]")
    kept = {"PYTHONPATH": "", "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    print(here.run(python, ROOT / "scripts" / "installed_check.py", **kept), end="", flush=True)
    work = folder / "work"
    work.mkdir()
    begin = time.monotonic()
    here.run("sh", "-c", f"cd '{work}'\n{readme_commands()}", **kept)
    print(f"the commands of the README take {time.monotonic() - begin:.0f} s", flush=True)


def try_emulated(wheel: Path, folder: Path, host: Machine, cache: Path) -> None:
    """Install the wheel for aarch64, check it and run tests of kernel and solvers there."""
    packages = folder / "site-packages"
    tags = [f"manylinux_{version}_aarch64" for version in ("2_28", "2_27", "2_17")]
    platforms = [f"--platform={tag}" for tag in (*tags, "manylinux2014_aarch64")]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--no-compile"]
    (python,) = (make_root(cache / "arm") / "usr" / "bin").glob("python3.[0-9][0-9]")
    version = ["--implementation=cp", f"--python-version={python.name.removeprefix('python')}"]
    wanted = [f"{wheel}[cli]", "pytest", "hypothesis"]
    Machine().run(*pip, *platforms, *version, f"--target={packages}", *wanted)
    variables = {"PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}
    check = ROOT / "scripts" / "installed_check.py"
    print(host.run(python, check, "--without-command", **variables), end="", flush=True)
    # The tests from outside the tree, or they would import its sources.
    (folder / "tests").mkdir()
    (folder / "tests" / "__init__.py").touch()
    (folder / "tests" / "conftest.py").write_text(NO_DEADLINE)
    options = ["-q", "-p", "no:cacheprovider", "-k", "native or not numpy", "--rootdir", folder]
    for name, files in EMULATED_TESTS.items():
        home = folder / "tests" / name
        shutil.copytree(ROOT / "tests" / name, home)
        tests = [home / file for file in files]
        said = host.run(python, "-m", "pytest", *options, *tests, **variables)
        print(f"aarch64, {name}: {said.strip().splitlines()[-1]}", flush=True)


def main() -> None:
    """Try the wheels that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", type=Path, default=ROOT / "dist")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "wheels")
    parser.add_argument("target", nargs="*")
    arguments = parser.parse_args()
    cache = arguments.cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    for target in targets(arguments.target):
        wheel, host = target.wheel(arguments.wheels.resolve()), machine(target, cache)
        with tempfile.TemporaryDirectory(prefix=f"kdey-{target.name}-") as folder:
            try_abi(target, wheel, Path(folder), host)
            if target.name == "linux-x86_64":
                try_installed(wheel, Path(folder))
            elif target.name == "linux-aarch64" and host is not None:
                try_emulated(wheel, Path(folder), host, cache)


if __name__ == "__main__":
    main()
