"""Cost of what users wait for: importing kdey, fitting KDEy-CS, estimating bags; one table.

Run with ``OPENBLAS_NUM_THREADS=1 python benchmarks/quantifiers.py``.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

import kdey
from printing import markdown, significant

N_REFERENCES, N_CLASSES, BAG_SIZE, N_BAGS = 20_000, 28, 1_000, 100


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the shortest time of ``work``."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def import_seconds(statement: str) -> float:
    """Return the time a fresh interpreter takes for an import statement, its start included."""
    command = [sys.executable, "-c", statement]
    return seconds(lambda: subprocess.run(command, check=True), 7)


def posteriors(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return posteriors (n, k) that lean towards their labels."""
    labels = rng.integers(N_CLASSES, size=n)
    noise = rng.dirichlet(np.full(N_CLASSES, 0.3), size=n)
    lean = rng.random((n, 1))
    return lean * np.eye(N_CLASSES)[labels] + (1 - lean) * noise, labels


def main() -> None:
    """Measure and print."""
    statements = ("import sys", "import sklearn", "import kdey", "from kdey import KDEyML")
    bare, sklearn, ours, method = (import_seconds(statement) for statement in statements)
    print(
        f"`import sklearn` {sklearn - bare:.2f} s, `import kdey` {ours - bare:.2f} s, "
        f"`from kdey import KDEyML` {method - bare:.2f} s: {method - sklearn:+.2f} s against "
        "scikit-learn.\n"
    )
    rng = np.random.default_rng(0)
    p, y = posteriors(rng, N_REFERENCES)
    pool = posteriors(rng, 5_000)[0]
    bags = [rng.integers(len(pool), size=BAG_SIZE) for _ in range(N_BAGS)]
    print(
        f"{N_REFERENCES:,} references of {N_CLASSES} classes, {N_BAGS} bags of {BAG_SIZE:,} from "
        "a pool of 5,000, two threads, pool work included:\n"
    )
    methods = {
        "PACC": kdey.PACC(n_jobs=2),
        "EMQ": kdey.EMQ(n_jobs=2),
        "DM-HD": kdey.DM(n_bins=8, n_jobs=2),
        "KDEy-ML": kdey.KDEyML(bandwidth=0.1, n_jobs=2),
        "KDEy-CS": kdey.KDEyCS(bandwidth=0.1, n_jobs=2),
        "KDEy-L2": kdey.KDEyL2(bandwidth=0.1, n_jobs=2),
        "KDEy-HD": kdey.KDEyHD(bandwidth=0.1, n_jobs=2, random_state=0),
    }
    rows = []
    for name, method in methods.items():
        fit = seconds(lambda method=method: method.fit_posteriors(p, y))
        one = seconds(lambda method=method: method.aggregate_bags(pool, bags))
        rows.append([name, f"{fit:.3f}", significant(1e3 * one / N_BAGS)])
    print(markdown(["method", "fit, s", "ms a bag"], rows))


if __name__ == "__main__":
    main()
