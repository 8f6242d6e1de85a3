"""Speed of the kernel log-sums: ratios measured in one run, printed as a table.

Run ``OPENBLAS_NUM_THREADS=1 python benchmarks/kernel.py [--letter letter.csv.gz]``: the product of
matrices it compares with must not use more threads than the kernel. Times are the best of several
repeats, the contestants taking turns so that a busy machine hurts them alike.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdey import native
from kdey.kernels import class_log_sums, class_log_sums_numpy
from printing import markdown, significant

N_QUERIES, N_REFERENCES, N_CLASSES, BANDWIDTH = 1_000, 20_000, 28, 0.1
N_TRAIN = 14_000


def best_times(contestants: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the shortest time of each contestant in seconds, over rounds of all of them."""
    times = dict.fromkeys(contestants, np.inf)
    for _ in range(repeats):
        for name, work in contestants.items():
            start = time.perf_counter()
            work()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def show(title: str, times: dict[str, float], base: str) -> None:
    """Print times and how many times slower than ``base`` each is."""
    rows = [
        (name, significant(1e3 * seconds), f"{seconds / times[base]:.2f}")
        for name, seconds in times.items()
    ]
    print(f"\n{title}\n\n{markdown(['', 'ms', 'times slower'], rows)}")


def without_skipping(
    queries: np.ndarray, references: np.ndarray, offsets: np.ndarray, bandwidths: np.ndarray
) -> np.ndarray:
    """Return the log-sums of the native core, computed for every block, however far away."""
    out = np.empty((len(bandwidths), len(queries), len(offsets) - 1))
    native.call(
        "kdey_class_log_sums",
        *(queries, references, *(int(a.dtype == np.float64) for a in (queries, references))),
        *(len(queries), *references.shape, offsets, len(offsets) - 1),
        *(bandwidths, len(bandwidths), None, None, 0, 1, 0, 0, out),
    )
    return out


def random_posteriors(repeats: int) -> None:
    """Dirichlet-random posteriors, where nothing can be skipped."""
    rng = np.random.default_rng(0)
    queries = rng.dirichlet(np.ones(N_CLASSES), N_QUERIES).astype(np.float32)
    references = rng.dirichlet(np.ones(N_CLASSES), N_REFERENCES).astype(np.float32)
    offsets = np.linspace(0, N_REFERENCES, N_CLASSES + 1).astype(np.int64)
    h, many = np.array([BANDWIDTH]), np.linspace(0.05, 0.5, 10)
    product = np.empty((N_QUERIES, N_REFERENCES), dtype=np.float32)
    arguments = (queries, references, offsets)
    contestants: dict[str, Callable[[], object]] = {
        "kernel, 1 thread": lambda: class_log_sums(*arguments, h),
        "kernel, 1 thread, skipping off": lambda: without_skipping(*arguments, h),
        "kernel, 2 threads": lambda: class_log_sums(*arguments, h, n_threads=2),
        "kernel, 10 bandwidths": lambda: class_log_sums(*arguments, many),
        "kernel, double": lambda: class_log_sums(*arguments, h, precision="double"),
        "sgemm of the same shape": lambda: np.dot(queries, references.T, out=product),
    }
    times = best_times(contestants, repeats)
    densities = [
        KernelDensity(bandwidth=BANDWIDTH).fit(references[a:b])
        for a, b in itertools.pairwise(offsets)
    ]
    slow: dict[str, Callable[[], object]] = {
        "NumPy route": lambda: class_log_sums_numpy(*arguments, h),
        "sklearn KernelDensity per class": lambda: [d.score_samples(queries) for d in densities],
    }
    times |= best_times(slow, 2)
    show(
        f"{N_QUERIES:,} queries x {N_REFERENCES:,} references x {N_CLASSES} classes, "
        f"h = {BANDWIDTH}:",
        times,
        "kernel, 1 thread",
    )
    one, two = times["kernel, 1 thread"], times["kernel, 2 threads"]
    print(f"\nTwo threads are {one / two:.2f} times as fast as one.")


def letter_posteriors(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return queries, references and offsets: logistic regression on the letter data."""
    table = pd.read_csv(path).sample(frac=1.0, random_state=0)
    labels = table.pop("label").to_numpy()
    x = table.to_numpy(dtype=np.float64)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    train, y = x[:N_TRAIN], labels[:N_TRAIN]
    held_out = cross_val_predict(model, train, y, cv=3, method="predict_proba")
    order = np.argsort(y, kind="stable")
    counts = np.unique(y, return_counts=True)[1]
    queries = model.fit(train, y).predict_proba(x[N_TRAIN:])
    return queries, held_out[order], np.concatenate([[0], np.cumsum(counts)])


def letter(path: Path, repeats: int) -> None:
    """Real posteriors, where most blocks are too far away to matter."""
    arguments = letter_posteriors(path)
    rows = []
    for bandwidth in (0.1, 0.03, 0.01):
        h = np.array([bandwidth])
        contestants: dict[str, Callable[[], object]] = {
            "skipping on": lambda h=h: class_log_sums(*arguments, h),
            "skipping off": lambda h=h: without_skipping(*arguments, h),
        }
        times = best_times(contestants, repeats)
        on, off = times["skipping on"], times["skipping off"]
        rows.append([f"{bandwidth:g}", significant(1e3 * on), f"{off / on:.2f}"])
    print("\nSkipping of far blocks on letter's posteriors, 6,000 x 14,000 x 26:\n")
    print(markdown(["bandwidth", "ms", "times faster than without"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--letter", type=Path, help="letter.csv.gz with a column named label")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    random_posteriors(options.repeats)
    if options.letter is not None:
        letter(options.letter, options.repeats)


if __name__ == "__main__":
    main()
