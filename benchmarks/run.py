"""Run the benchmarks of minutes, each in a process of its own with one BLAS thread.

``model_selection.py`` takes longer and is run by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = ("kernel.py", "solvers.py", "quantifiers.py", "evaluation.py")


def main() -> None:
    """Run the scripts one after the other; stop where one fails."""
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    for script in SCRIPTS:
        print(f"\n=== benchmarks/{script}", flush=True)
        command = [sys.executable, HERE / script, *(letter() if script == "kernel.py" else [])]
        subprocess.run(command, env=environment, check=True)


def letter() -> list[str]:
    """Return the option that names the letter data, where the data folder has it."""
    folder = Path(os.environ.get("KDEY_DATA", HERE.parents[1] / "shared" / "data"))
    path = folder / "uci-multi" / "letter.csv.gz"
    if path.exists():
        return ["--letter", str(path)]
    print(f"(no {path.name} in the data folder: the part on real posteriors is left out)")
    return []


if __name__ == "__main__":
    main()
