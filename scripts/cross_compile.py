"""Compile the native core for every platform a wheel is made for, with Clang from one machine.

``python scripts/cross_compile.py [target ...]`` in an environment with ``ziglang``, ``cmake`` and
``ninja`` (all on PyPI). It shows that the sources and CMakeLists.txt suit the compiler and the
platform's headers; nothing is run, so it does not show that the answers are right there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Zig's name of a target: CMake's names of its system and processor.
TARGETS = {
    "x86_64-linux-gnu.2.17": ("Linux", "x86_64"),
    "aarch64-linux-gnu.2.17": ("Linux", "aarch64"),
    "x86_64-macos.11.0": ("Darwin", "x86_64"),
    "aarch64-macos.11.0": ("Darwin", "arm64"),
    "x86_64-windows-gnu": ("Windows", "AMD64"),
}
#: Exported by the library on every platform; its presence shows that visibility is right.
SYMBOL = b"kdey_class_log_sums"


def compiler(target: str, folder: Path) -> Path:
    """Return a script that is Clang for ``target``."""
    script = folder / "c++"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang c++ -target {target} "$@"\n')
    script.chmod(0o755)
    return script


def compile_for(target: str, folder: Path) -> Path:
    """Configure and build the library for ``target`` in ``folder``; return it."""
    system, processor = TARGETS[target]
    environment = dict(os.environ)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    defined = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_CXX_COMPILER": str(compiler(target, folder)),
        "CMAKE_SYSTEM_NAME": system,
        "CMAKE_SYSTEM_PROCESSOR": processor,
        # What Zig is told by its target already, CMake must not look for on this machine.
        "CMAKE_OSX_SYSROOT": "",
        "CMAKE_OSX_DEPLOYMENT_TARGET": "",
        "CMAKE_INSTALL_NAME_TOOL": shutil.which("true"),  # for installing, which is not done
    }
    options = [f"-D{name}={value}" for name, value in defined.items()]
    build = folder / "build"
    for command in (
        ["cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja", *options],
        ["cmake", "--build", str(build)],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(
                f"{target}: {' '.join(command[:2])} failed\n{done.stdout}{done.stderr}"
            )
    return build / "_kdey.bin"


def main() -> None:
    """Compile for the targets named, or for all; fail where one does not build."""
    for target in sys.argv[1:] or TARGETS:
        with tempfile.TemporaryDirectory() as folder:
            library = compile_for(target, Path(folder)).read_bytes()
        if SYMBOL not in library:
            raise SystemExit(f"{target}: the library does not export {SYMBOL.decode()}")
        print(f"{target}: {len(library) / 1024:.0f} KiB", flush=True)


if __name__ == "__main__":
    main()
