"""Build the wheels of all platforms on one machine, by cross compilation.

``python scripts/build_wheels.py [--out dist] [--twice] [target ...]`` in an environment with the
dependency group ``wheels`` (``make wheels``). Zig's Clang brings the headers and the C and C++
libraries of every platform along; the native core needs nothing of Python to be linked. Targets
are listed in ``wheel_targets.py``.

The wheels are built from an sdist, so that nothing of the work tree gets in that git does not
know. Neither the time nor the place of a build is part of its result: files have the time of the
last commit (or that of ``SOURCE_DATE_EPOCH``), and ``--twice`` builds every wheel again from
another sdist in another folder and stops where a byte differs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from wheel_targets import Target, targets

ROOT = Path(__file__).parents[1]
#: The first of January 1980: an archive has no earlier dates.
OLDEST_DATE = "315532800"

#: The compiler of a target. What CMake compiles to identify it is not linked: Zig would compile the
#: C++ library of the target for that, and perhaps another time for the core. Stripping is an option
#: of the whole, for the same reason.
COMPILER = """\
#!/bin/sh
case "$*" in *CMakeCXXCompilerId.cpp*) set -- -c "$@" ;; esac
exec "{zig}" c++ -target {triple} -s "$@"
"""
#: A configuration of CMake. What it compiles to try the compiler is not linked either.
TOOLCHAIN = """\
set(CMAKE_SYSTEM_NAME {system})
set(CMAKE_SYSTEM_PROCESSOR {processor})
set(CMAKE_CXX_COMPILER "{folder}/c++")
set(CMAKE_AR "{folder}/ar")
set(CMAKE_RANLIB "{folder}/ranlib")
set(CMAKE_INSTALL_NAME_TOOL true CACHE STRING "nothing is renamed when the library is installed")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_OSX_SYSROOT "" CACHE STRING "Zig knows it")
set(CMAKE_OSX_DEPLOYMENT_TARGET "" CACHE STRING "it is part of Zig's target")
"""


def zig() -> Path:
    """Return the compiler of the package ``ziglang``."""
    try:
        import ziglang
    except ModuleNotFoundError:
        raise SystemExit(
            "the compiler is missing: run this by `make wheels`, or first "
            "`pip install --group wheels`"
        ) from None
    return Path(ziglang.__file__).with_name("zig")


def source_date() -> str:
    """Return the time that files get, in seconds since 1970."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return os.environ["SOURCE_DATE_EPOCH"]
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return OLDEST_DATE  # not a clone


def run(command: Sequence[str | Path]) -> None:
    """Run a command; on failure stop with what it said."""
    # CMake and Ninja are beside the interpreter, which need not be on the path.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        env={**os.environ, "PATH": path, "SOURCE_DATE_EPOCH": source_date()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\nfailed:\n{done.stdout}")


def unpacked_sdist(folder: Path) -> Path:
    """Build the sdist in a folder and unpack it there; return the unpacked one."""
    run([sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, ROOT])
    (sdist,) = folder.glob("kdey-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return folder / sdist.name.removesuffix(".tar.gz")


def write_toolchain(target: Target, folder: Path) -> Path:
    """Write a CMake toolchain for a target, and the tools that it names, to a folder."""
    scripts = {tool: f'#!/bin/sh\nexec "{zig()}" {tool} "$@"\n' for tool in ("ar", "ranlib")}
    scripts["c++"] = COMPILER.format(zig=zig(), triple=target.triple)
    for tool, text in scripts.items():
        (folder / tool).write_text(text)
        (folder / tool).chmod(0o755)
    file = folder / "toolchain.cmake"
    names = {"system": target.system, "processor": target.processor}
    file.write_text(TOOLCHAIN.format(folder=folder, **names))
    return file


def build_wheel(target: Target, source: Path, folder: Path) -> Path:
    """Build the wheel of a target.

    Parameters
    ----------
    target : Target
    source : path
        The unpacked sdist.
    folder : path
        An empty folder for everything that is made.

    Returns
    -------
    path
        The wheel.
    """
    settings = {
        "build-dir": str(folder / "build"),
        "cmake.toolchain-file": str(write_toolchain(target, folder)),
        "install.strip": "false",  # the linker has done it; the machine's own tool cannot
        "wheel.tags": ";".join(target.tags),
    }
    options = [f"-C{name}={value}" for name, value in settings.items()]
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check"]
    run([*build, *options, "--outdir", folder, source])
    (wheel,) = folder.glob("kdey-*.whl")
    return wheel


def digest(file: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def build(target: Target, source: Path, out: Path) -> Path:
    """Build the wheel of a target, put it in ``out`` and return it."""
    with tempfile.TemporaryDirectory(prefix=f"kdey-{target.name}-") as folder:
        wheel = build_wheel(target, source, Path(folder))
        out.mkdir(parents=True, exist_ok=True)
        kept = out / wheel.name
        kept.write_bytes(wheel.read_bytes())
    return kept


def build_again(target: Target, source: Path, wheel: Path) -> None:
    """Build the wheel of a target once more; stop if it is not the same file."""
    with tempfile.TemporaryDirectory(prefix="again-") as folder:
        again = build(target, source, Path(folder))
        if digest(again) != digest(wheel):
            raise SystemExit(f"{target.name}: a second build of {wheel.name} is another file")


def main() -> None:
    """Build the wheels that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--twice", action="store_true", help="build each again and compare")
    parser.add_argument("target", nargs="*")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="kdey-sdist-") as first,
        tempfile.TemporaryDirectory(prefix="another-sdist-") as second,
    ):
        source = unpacked_sdist(Path(first))
        for target in targets(arguments.target):
            begin = time.monotonic()
            wheel = build(target, source, arguments.out)
            seconds = time.monotonic() - begin
            size = wheel.stat().st_size / 1024
            print(f"{wheel.name}: {size:.0f} KiB, {seconds:.0f} s, sha256 {digest(wheel)}")
            sys.stdout.flush()
        if arguments.twice:
            other = unpacked_sdist(Path(second))
            for target in targets(arguments.target):
                wheel = target.wheel(arguments.out)
                build_again(target, other, wheel)
                print(f"{wheel.name}: a second build is the same file", flush=True)


if __name__ == "__main__":
    main()
