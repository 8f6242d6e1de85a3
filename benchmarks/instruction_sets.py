"""Every instruction set that this machine has, forced: none may be slower than the one below it.

Run ``python benchmarks/instruction_sets.py [--repeats 25]`` (two minutes on an idle core). Kernel
sums, solvers, Gibbs sweeps and quadratic programs run with ``KDEY_ISA`` set to each of them, taking
turns in one process, so that the references of a single query have left the cache. The sampler and
the programs have one code for all sets. The kernel is then compared with the matrix product of its
shape, whose library must use the same instruction set (``OPENBLAS_CORETYPE``), which takes a
process for each.

Times are those of the processor for one thread, the best of all repeats: on a machine that others
use too, the time on the wall says more about them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kdey import KDEyML, native
from kdey.bayes.chains import Chains, gibbs_sweeps
from kdey.kernels import PackedReferences
from kdey.matching.divergence import Divergence, solve_divergence
from kdey.matching.likelihood import solve_mixture
from kdey.matching.squares import LeastSquares, QuadraticMatch, solve_least_squares, solve_quadratic
from kernel import BANDWIDTH, N_CLASSES, N_QUERIES, N_REFERENCES
from printing import markdown, significant
from run import processor
from solvers import mixture, profiles

Work = Callable[[], object]


@dataclass(frozen=True)
class InstructionSet:
    """A name of ``KDEY_ISA``, and that of OpenBLAS' kernels for the same instructions."""

    name: str
    blas: str


SETS = (
    InstructionSet("baseline", "Nehalem"),
    InstructionSet("avx2", "Haswell"),
    InstructionSet("avx512", "SkylakeX"),
)


def available() -> list[InstructionSet]:
    """Return the instruction sets that this machine has, the lowest first."""
    os.environ.pop("KDEY_ISA", None)
    handle = native.library()
    if handle is None:
        raise SystemExit("the native core is missing: see README.md")
    return list(SETS[: handle.kdey_isa() + 1])


def forced(name: str, work: Work) -> Work:
    """Return ``work`` with the instruction set ``name``."""

    def run() -> object:
        os.environ["KDEY_ISA"] = name
        return work()

    return run


def best_times(contestants: dict[str, Work], repeats: int) -> dict[str, float]:
    """Return the shortest processor time of each contestant in seconds; they take turns."""
    times = dict.fromkeys(contestants, np.inf)
    for _ in range(repeats):
        for name, work in contestants.items():
            start = time.thread_time()
            work()
            times[name] = min(times[name], time.thread_time() - start)
    return times


def posteriors(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return random queries, references and their classes, of which nothing can be skipped."""
    rng = np.random.default_rng(0)
    queries = rng.dirichlet(np.ones(N_CLASSES), count).astype(np.float32)
    references = rng.dirichlet(np.ones(N_CLASSES), N_REFERENCES).astype(np.float32)
    return queries, references, np.arange(N_REFERENCES) * N_CLASSES // N_REFERENCES


def kernel_work(name: str) -> dict[str, Work]:
    """Return the kernel's tasks, with references packed for the instruction set ``name``."""
    os.environ["KDEY_ISA"] = name
    queries, references, labels = posteriors(N_QUERIES)
    offsets = np.searchsorted(labels, np.arange(N_CLASSES + 1))
    packed = PackedReferences(references, offsets)
    quantifier = KDEyML(bandwidth=BANDWIDTH, n_jobs=1).fit_posteriors(references, labels)
    bandwidths = np.linspace(0.05, 0.5, 10)
    return {
        "KDEyML.aggregate, 1,000 x 20,000 x 28": lambda: quantifier.aggregate(queries),
        "kernel sums, ten bandwidths": lambda: packed.log_sums(queries, bandwidths),
        "kernel sums, one query": lambda: packed.log_sums(queries[:1], [BANDWIDTH]),
    }


def solver_work() -> dict[str, Work]:
    """Return tasks of the solvers, the sampler and the quadratic programs."""
    rng = np.random.default_rng(0)
    bags = mixture(rng, 20, 1000, 28)
    templates, targets, reference = profiles(rng, 5, 10_000, 28)
    hellinger = Divergence(templates, targets, "hellinger", reference)
    topsoe = Divergence(templates, targets, "topsoe", reference)
    weighted = templates / reference[:, None]
    programs = QuadraticMatch(templates.T @ weighted, np.tile(targets @ weighted, (100, 1)))
    rows = rng.gamma(0.3, size=(1000, 28))
    means = rng.dirichlet(np.ones(28), 500)
    squares = LeastSquares(rng.dirichlet(np.ones(28), 28).T, means)

    def sweeps() -> object:
        chains = Chains.dispersed(1, np.ones(28), np.random.SeedSequence(0))
        return gibbs_sweeps(rows, np.ones(28), chains, 20)

    return {
        "20 mixtures 1,000 x 28": lambda: solve_mixture(bags),
        "5 Hellinger t = 10,000, k = 28": lambda: solve_divergence(hellinger),
        "5 Topsoe t = 10,000, k = 28": lambda: solve_divergence(topsoe),
        "20 Gibbs sweeps 1,000 x 28": sweeps,
        "500 quadratic programs k = 28": lambda: solve_quadratic(programs),
        "500 least squares 28 x 28": lambda: solve_least_squares(squares),
    }


def compare_sets(repeats: int) -> None:
    """Print every task's time with each instruction set, and how the sets compare."""
    names = [isa.name for isa in available()]
    shared = solver_work()
    contestants = {}
    for name in names:
        for task, work in (kernel_work(name) | shared).items():
            contestants[f"{name}: {task}"] = forced(name, work)
    times = best_times(contestants, repeats)
    tasks = [key.partition(": ")[2] for key in contestants if key.startswith(names[0])]
    rows = []
    for task in tasks:
        taken = [times[f"{name}: {task}"] for name in names]
        steps = [f"{low / high:.2f}" for low, high in itertools.pairwise(taken)]
        rows.append([task, *(significant(1e3 * t) for t in taken), *steps])
    steps = [f"{high} / {low}" for low, high in itertools.pairwise(names)]
    print(f"Milliseconds on {processor()}, one thread; then how many times faster than below:\n")
    print(markdown(["", *names, *steps], rows))


def beside_product(name: str, repeats: int) -> None:
    """Print, as JSON, the kernel's times and that of the matrix product in this process."""
    queries, references, _ = posteriors(N_QUERIES)
    product = np.empty((N_QUERIES, N_REFERENCES), dtype=np.float32)
    contestants = {"product": lambda: np.dot(queries, references.T, out=product)}
    for task, work in kernel_work(name).items():
        contestants[task] = forced(name, work)
    print(json.dumps(best_times(contestants, repeats)))


def compare_products(repeats: int) -> None:
    """Print the kernel's times as multiples of the matrix product's, a process for each set."""
    rows = []
    for isa in available():
        environment = dict(os.environ, OPENBLAS_CORETYPE=isa.blas, OPENBLAS_NUM_THREADS="1")
        command = [sys.executable, __file__, "--beside", isa.name, "--repeats", str(repeats)]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        product, one, ten, _ = json.loads(done.stdout).values()
        row = [isa.name, significant(1e3 * product)]
        for taken in (one, ten):
            row += [significant(1e3 * taken), f"{taken / product:.2f}"]
        rows.append(row)
    print("\nBeside the matrix product of 1,000 x 28 by 28 x 20,000 (OpenBLAS, the same set):\n")
    head = ["", "product, ms", "aggregate, ms", "ratio", "ten bandwidths, ms", "ratio"]
    print(markdown(head, rows))
    print(
        "\nThe aggregate is this product, 20 million exponentials and a solution. Where two pipes"
        "\nmultiply and add 256 bits each (Zen 4, for AVX-512 too), products and exponentials take"
        "\n15.5 cycles for eight pairs at least, 14 of them the products (docs/lab/decisions/0006)."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--beside", choices=[isa.name for isa in SETS], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.beside:
        beside_product(asked.beside, asked.repeats)
        return
    compare_sets(asked.repeats)
    compare_products(asked.repeats)


if __name__ == "__main__":
    main()
