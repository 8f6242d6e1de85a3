"""Run every benchmark of this folder, each in a process of its own with one BLAS thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = ("kernel.py", "solvers.py", "quantifiers.py")


def main() -> None:
    """Run the scripts one after the other; stop where one fails."""
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    for script in SCRIPTS:
        print(f"\n=== benchmarks/{script}", flush=True)
        subprocess.run([sys.executable, HERE / script], env=environment, check=True)


if __name__ == "__main__":
    main()
