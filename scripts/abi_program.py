"""Compile the program of ``tests/abi``, which calls every entry of the native core.

``python scripts/abi_program.py --out PROGRAM [compiler ...]``, then ``PROGRAM src/kdey/_kdey.bin``.
The program gets the names of the entries from ``src/native/kdey.h``, and fails if it does not call
one of them: an entry without a call is an entry that is not tested on other platforms.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEADER = ROOT / "src" / "native" / "kdey.h"
SOURCES = ROOT / "tests" / "abi"


def entries(header: Path = HEADER) -> list[str]:
    """Return the names of the functions that the header declares, in its order."""
    text = re.sub(r"//.*", "", header.read_text(encoding="utf-8"))
    return re.findall(r"\bKDEY_API\b[^;(]*?\b(kdey_\w+)\(", text)


def compile_program(
    out: Path,
    compiler: Sequence[str] = ("cc",),
    libraries: Sequence[str] = ("-ldl", "-lm"),
    header: Path = HEADER,
) -> Path:
    """Compile the program.

    Parameters
    ----------
    out : path
        The program.
    compiler : sequence of str
        The compiler and the options that choose its target.
    libraries : sequence of str
        Options for the linker.
    header : path
        Declares the entries.

    Returns
    -------
    path
        The program.
    """
    names = " ".join(f"X({name})" for name in entries(header))
    options = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", f"-DKDEY_ENTRIES={names}"]
    sources = sorted(str(path) for path in SOURCES.glob("*.c"))
    command = [*compiler, *options, f"-I{header.parent}", *sources, "-o", str(out), *libraries]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(compiler)} does not compile {SOURCES}:\n{done.stderr}")
    return out


def main() -> None:
    """Compile as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="PROGRAM")
    parser.add_argument("compiler", nargs="*", default=["cc"])
    arguments = parser.parse_args()
    compile_program(arguments.out, arguments.compiler)


if __name__ == "__main__":
    main()
