"""Cost of the automatic choice beyond classifier fits: seconds and memory, method by method.

    python benchmarks/tuning.py [--jobs 2] [--methods KDEyML,KDEyCS,...]

Letter-sized (14,000 training points, 26 classes) and large (100,000 points, 10 classes) training
posteriors. Each choice runs in a process of its own, whose growth in memory is that of the choice.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np

import kdey
from intervals import posteriors

SIZES = {"letter-sized": (14_000, 26), "large": (100_000, 10)}
METHODS = "KDEyML,KDEyCS,KDEyL2,KDEyHD,DM"


def measure(name: str, n: int, k: int, n_jobs: int) -> tuple[float, float]:
    """Return seconds and MB that the choice adds to a fit with given settings."""
    labels = np.arange(n) % k
    P = posteriors(np.random.default_rng(0), labels, k)
    given = {"n_bins": 8} if name == "DM" else {"bandwidth": 0.1}
    make = getattr(kdey, name)
    start = time.perf_counter()
    make(**given, n_jobs=n_jobs).fit_posteriors(P, labels)
    plain, before = time.perf_counter() - start, peak()
    start = time.perf_counter()
    make(n_jobs=n_jobs).fit_posteriors(P, labels)
    return time.perf_counter() - start - plain, peak() - before


def peak() -> float:
    """Return the largest memory this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--one", choices=list(SIZES), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        n, k = SIZES[args.one]
        seconds, memory = measure(args.methods, n, k, args.jobs)
        shown = f"{n:,} x {k} ({args.one})"
        print(f"| {shown} | {args.methods} | {seconds:.1f} | {memory:.0f} |")
        return
    print("| training posteriors | method | seconds | added memory (MB) |")
    print("|---|---|---|---|", flush=True)
    for size in SIZES:
        for name in args.methods.split(","):
            given = ["--one", size, "--methods", name, "--jobs", str(args.jobs)]
            subprocess.run([sys.executable, __file__, *given], check=True)


if __name__ == "__main__":
    main()
