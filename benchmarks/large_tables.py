"""What ``Quantifier().fit`` costs on large tables: 30 numbers, four classes, up to a million rows.

    python benchmarks/large_tables.py [--rows N ...] [--unbounded N ...]
    python benchmarks/large_tables.py --table

Every fit runs in a process of its own, which says its processor time, its largest memory, the size
of the model file and the mean absolute error on 100 bags of 2,000 new rows. ``--unbounded`` fits
the forest as it is for small tables, without a sample of rows or least leaves, to see what the
bounds cost. One line per fit in ``results/large_tables.csv``.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import kdey
from kdey import stacking
from printing import markdown
from summaries import RESULTS

SUMMARY = RESULTS / "large_tables.csv"
N_CLASSES, N_COLUMNS, N_BAGS, BAG_SIZE = 4, 30, 100, 2_000
COLUMNS = ("rows", "forest", "processor s", "memory MB", "file MB", "mean error")


def table(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of four overlapping classes, each of three clusters, and columns of noise."""
    centres = np.random.default_rng(0).normal(size=(N_CLASSES, 3, N_COLUMNS))
    centres[:, :, N_COLUMNS // 2 :] = 0.0
    rng = np.random.default_rng(seed)
    y, part = rng.integers(N_CLASSES, size=n), rng.integers(3, size=n)
    return 0.6 * centres[y, part] + rng.normal(size=(n, N_COLUMNS)), y


def measure(n: int, bounded: bool) -> dict[str, Any]:
    """Fit in this process and return one line of the table."""
    warnings.simplefilter("ignore")
    if not bounded:
        stacking.TREE_ROWS = sys.maxsize
    X, y = table(n, 1)
    start = time.process_time()
    q = kdey.Quantifier(random_state=0).fit(X, y)
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with tempfile.TemporaryDirectory() as folder:
        size = kdey.save(q, Path(folder) / "model.kdey").stat().st_size / 1e6
    pool, labels = table(50_000, 2)
    protocol = kdey.APP(n_bags=N_BAGS, bag_size=BAG_SIZE, random_state=0)
    bags = protocol.bags(labels)
    answers = q.predict_bags(pool, bags.bags)
    error = float(np.abs(answers - bags.prevalences).mean())
    values = (n, "bounded" if bounded else "unbounded", seconds, memory, size, error)
    return dict(zip(COLUMNS, values, strict=True))


def run(n: int, bounded: bool) -> dict[str, Any]:
    """Measure in a process of its own."""
    call = [sys.executable, __file__, "--one", str(n), *([] if bounded else ["--free"])]
    printed = subprocess.run(call, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(printed.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[20_000, 100_000, 1_000_000])
    parser.add_argument("--unbounded", type=int, nargs="*", default=[])
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--free", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one, not args.free)))
        return
    if args.table:
        with SUMMARY.open(encoding="utf-8", newline="") as stream:
            rows = [[row[name] for name in COLUMNS] for row in csv.DictReader(stream)]
        print(markdown(list(COLUMNS), rows))
        return
    asked = [(n, True) for n in args.rows] + [(n, False) for n in args.unbounded]
    with SUMMARY.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        if stream.tell() == 0:
            writer.writeheader()
        for n, bounded in asked:
            found = run(n, bounded)
            writer.writerow({name: _short(value) for name, value in found.items()})
            stream.flush()


def _short(value: Any) -> Any:
    return float(f"{value:.3g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
