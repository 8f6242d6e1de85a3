"""Growth of the defaults: their cost model, a billion rows on a simulated cluster, and memory.

    OPENBLAS_NUM_THREADS=1 python benchmarks/default_growth.py
    python benchmarks/default_growth.py --stream 16      # the peak memory of so many chunks

``growth.py`` has the model of one kernel. Here the rows of KDEy-ML with one kernel, of ``KDEyML()``
and of ``Quantifier()`` on scores are measured over references and classes, by processor time on one
thread, and the model is one of kernels: a part per row, one per kernel, and one for a pool. The
cluster is simulated: tasks of a million rows take what the model says, with log-normal noise; a
scheduler starts one task per millisecond; the sums of a round are merged by a tree. The bill is
core-hours at a price that is an assumption. Where rows have no scores yet, the classifiers of a
pool take the most by far: their time is that of dry-bean in ``results/quantifier_cost.jsonl``.
"""

from __future__ import annotations

import argparse
import heapq
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from kdey.groups.sums import LocalSource, estimate_sums, plan_of
from scipy.optimize import nnls

import kdey
from cases import RESULTS
from growth import best, posteriors
from kdey.options import Options
from kdey.tuning.trials import Trial
from printing import markdown

ROWS = 8_000
#: (references, classes) at which rows are timed.
SIZES = ((1_000, 5), (4_000, 5), (12_000, 5), (4_000, 2), (4_000, 26))
QUANTIFIERS: dict[str, Callable[[], Any]] = {
    "one kernel": lambda: kdey.KDEyML(bandwidth=0.1),
    "KDEyML()": lambda: kdey.KDEyML(random_state=0),
    "Quantifier()": lambda: kdey.Quantifier(random_state=0),
}
#: Terms of the model: functions of references n, classes k, kernels, and whether there is a pool.
TERMS: dict[str, Callable[[int, int, int, bool], float]] = {
    "1": lambda n, k, kernels, pool: 1.0,
    "k": lambda n, k, kernels, pool: float(k),
    "kernels": lambda n, k, kernels, pool: float(kernels),
    "kernels k": lambda n, k, kernels, pool: float(kernels * k),
    "kernels n": lambda n, k, kernels, pool: float(kernels * n),
    "kernels n k": lambda n, k, kernels, pool: float(kernels * n * k),
    "pool": lambda n, k, kernels, pool: float(pool),
    "pool k": lambda n, k, kernels, pool: float(pool * k),
    "pool kernels": lambda n, k, kernels, pool: float(pool * kernels),
}
#: Rounds of a likelihood in which all rows take part, and one for the limits.
ROUNDS = 8
#: Dollars of a core for an hour: an assumption, about what clouds ask for on demand.
PRICE = 0.05
BILLION, PARTITION, CORES = 1_000_000_000, 1_000_000, 16
#: Seconds by which the scheduler starts one task, and by which one level of the tree merges.
DISPATCH, MERGE = 0.001, 0.05
CHUNK, STREAM = 10_000, (4, 16, 64)


@dataclass(frozen=True)
class Timing:
    """The rows of one quantifier at one size: kernels, and seconds per row."""

    name: str
    references: int
    classes: int
    kernels: int
    seconds: float

    def terms(self) -> list[float]:
        """Return the terms of the model."""
        pool = self.name == "Quantifier()"
        return [f(self.references, self.classes, self.kernels, pool) for f in TERMS.values()]


def kernels_of(row_map: Any) -> int:
    """Return how many kernels a row map evaluates."""
    pool = getattr(row_map, "pool", None)
    if pool is not None:
        return sum(len(member.kernels) for member in pool)
    return sum(part.class_references() is not None for part in row_map.members)


def time_rows(name: str, references: int, classes: int) -> Timing:
    rng = np.random.default_rng(0)
    labels = np.arange(references) % classes
    q = QUANTIFIERS[name]().fit_posteriors(posteriors(labels, classes, rng), labels)
    points = posteriors(rng.integers(0, classes, ROWS), classes, rng)
    q.row_map_(points[:100])  # references are packed on first use
    seconds = best(lambda: q.row_map_(points), 5) / ROWS
    return Timing(name, references, classes, kernels_of(q.row_map_), seconds)


def fit_model(timings: list[Timing]) -> np.ndarray:
    """Return seconds per row of each term, none negative, with small relative errors."""
    seconds = np.array([timing.seconds for timing in timings])
    terms = np.array([timing.terms() for timing in timings])
    constants, _ = nnls(terms / seconds[:, None], np.ones(len(seconds)))
    return constants


def print_model(timings: list[Timing], constants: np.ndarray) -> None:
    lines = []
    for t in timings:
        model = float(np.dot(t.terms(), constants))
        size = (f"{t.references:,}", t.classes, t.kernels)
        lines.append([t.name, *size, f"{1e6 * t.seconds:.2f}", f"{1e6 * model:.2f}"])
    head = ["rows of", "references", "classes", "kernels", "microseconds a row", "model"]
    print(markdown(head, lines))
    errors = [abs(float(np.dot(t.terms(), constants)) / t.seconds - 1) for t in timings]
    shown = ", ".join(
        f"{1e9 * c:.3g} {term}" for term, c in zip(TERMS, constants, strict=True) if c > 0
    )
    print(f"\nModel, ns per row: {shown}; median error {100 * np.median(errors):.0f} %.\n")


def round_seconds(classes: int, references: int) -> float:
    """Return the seconds per row of one round of a likelihood with one kernel."""
    rng = np.random.default_rng(0)
    labels = np.arange(references) % classes
    q = kdey.KDEyML(bandwidth=0.1).fit_posteriors(posteriors(labels, classes, rng), labels)
    points = posteriors(rng.integers(0, classes, ROWS), classes, rng)
    source = LocalSource(lambda: [(points, np.arange(ROWS) % 10, None)])
    source.first(plan_of(q), True)
    trial = Trial(np.arange(10), np.full((10, classes), 1.0 / classes), 10)
    return best(lambda: source.total(trial), 5) / ROWS


def simulate(task_seconds: list[float], machines: int, rng: np.random.Generator) -> float:
    """Return the seconds of a run: one pass of partitions after the other on all cores.

    Parameters
    ----------
    task_seconds : list of float
        Of one partition in each pass.
    machines : int
    rng : Generator
    """
    clock, n_tasks = 0.0, BILLION // PARTITION
    for mean in task_seconds:
        free = [clock] * (machines * CORES)
        heapq.heapify(free)
        end = clock
        for task in range(n_tasks):
            start = max(heapq.heappop(free), clock + DISPATCH * task)
            done = start + mean * float(rng.lognormal(-0.02, 0.2))
            heapq.heappush(free, done)
            end = max(end, done)
        clock = end + MERGE * np.ceil(np.log(n_tasks) / np.log(8))
    return clock


def print_plan(constants: np.ndarray, classes: int = 5, references: int = 2_000) -> None:
    """Print what a billion rows of scores take on clusters of several sizes."""
    a_round, rng, lines = round_seconds(classes, references), np.random.default_rng(0), []
    read = 48 / (BILLION * 0.2)  # 48 bytes a row at 200 MB a second and core
    # KDEyML() solves one likelihood per kernel, and Quantifier() one in all.
    for name, kernels, likelihoods, scoring in (
        *(("one kernel", 1, 1, 0.0), ("KDEyML()", 2, 2, 0.0), ("Quantifier()", 3, 1, 0.0)),
        ("Quantifier() from features", 3, 1, scoring_seconds()),
    ):
        pool = name.startswith("Quantifier")
        terms = [f(references, classes, kernels, pool) for f in TERMS.values()]
        first = read + scoring + float(np.dot(terms, constants))
        passes = [PARTITION * first] + [PARTITION * a_round * likelihoods] * ROUNDS
        for machines in (1, 4, 16):
            seconds = simulate(passes, machines, rng)
            hours = seconds * machines * CORES / 3600
            shown = (f"{seconds / 60:.1f}", f"{hours:.2f}", f"{PRICE * hours:.2f}")
            lines.append([name, machines, f"{1e6 * first:.1f}", *shown])
    head = ["", "machines of 16 cores", "microseconds a row", "minutes", "core-hours", "dollars"]
    print(
        f"A billion rows of {classes} classes, {references:,} references, 1,000 partitions, "
        f"{ROUNDS} rounds of {1e9 * a_round:.0f} ns a row and kernel, simulated from the model; "
        f"{PRICE} dollars a core-hour are assumed:\n"
    )
    print(markdown(head, lines))


def scoring_seconds() -> float:
    """Return the seconds per row of the classifiers of a pool, as measured on dry-bean."""
    lines = (RESULTS / "quantifier_cost.jsonl").read_text().splitlines()
    rows = {row["set"]: row for row in map(json.loads, lines)}
    return float(rows["uci-multi/dry-bean"]["classifiers_ms"]) / 1000 / 1000


def stream(n_chunks: int) -> None:
    """Estimate ten groups from chunks that are made as they are read, and print the peak memory."""
    rng = np.random.default_rng(0)
    labels = np.arange(1_000) % 5
    q = kdey.KDEyML(bandwidth=0.1).fit_posteriors(posteriors(labels, 5, rng), labels)

    def chunks() -> Iterator[Any]:
        for number in range(n_chunks):
            made = np.random.default_rng(number)
            points = posteriors(made.integers(0, 5, CHUNK), 5, made)
            yield points, np.arange(CHUNK) % 10, None

    estimate_sums(q, LocalSource(chunks, keep=False), Options())
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def print_memory() -> None:
    """Print the peak memory of streams of several lengths, each in a process of its own."""
    lines = []
    for n_chunks in STREAM:
        command = [sys.executable, __file__, "--stream", str(n_chunks)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        lines.append([n_chunks, f"{n_chunks * CHUNK:,}", f"{float(done.stdout):.0f}"])
    print("\nA stream of chunks that are made as they are read, in every round anew:\n")
    print(markdown([f"chunks of {CHUNK:,} rows", "rows", "peak memory, MiB"], lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stream", type=int, help="only this: a stream of so many chunks")
    args = parser.parse_args()
    if args.stream is not None:
        stream(args.stream)
        return
    timings = [time_rows(name, n, k) for name in QUANTIFIERS for n, k in SIZES]
    constants = fit_model(timings)
    print_model(timings, constants)
    print_plan(constants)
    print_memory()


if __name__ == "__main__":
    main()
