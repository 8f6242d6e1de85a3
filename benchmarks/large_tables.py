"""What ``Quantifier().fit`` costs on large tables, up to a million rows, and with many classes.

    python benchmarks/large_tables.py [--rows N ...] [--words N ...] [--classes K ...]
    python benchmarks/large_tables.py --table

Every fit runs in a process of its own, which says its processor time, its largest memory, the size
of the model file and the mean absolute error on 100 bags of 2,000 new rows. ``--unbounded`` fits
the forest as it is for small tables, without a sample of rows or least leaves, to see what the
bounds cost. ``--words`` fits on as many texts of 40 words in a vocabulary of 50,000, as counts in a
sparse matrix. All these have four classes, and tables 30 numbers; ``--classes`` fits on 10,000 rows
of as many classes. One line per fit in ``results/large_tables.csv``.
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
import scipy.sparse as sp

import kdey
from kdey import stacking
from printing import markdown
from summaries import RESULTS

SUMMARY = RESULTS / "large_tables.csv"
FEW, N_COLUMNS, N_WORDS, N_BAGS, BAG_SIZE = 4, 30, 50_000, 100, 2_000
COLUMNS = ("rows", "classes", "forest", "processor s", "memory MB", "file MB", "mean error")


def table(n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of overlapping classes, each of three clusters, and columns of noise."""
    centres = np.random.default_rng(0).normal(size=(k, 3, N_COLUMNS))
    centres[:, :, N_COLUMNS // 2 :] = 0.0
    rng = np.random.default_rng(seed)
    y, part = rng.integers(k, size=n), rng.integers(3, size=n)
    return 0.6 * centres[y, part] + rng.normal(size=(n, N_COLUMNS)), y


def words(n: int, k: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return counts of words of classes whose frequencies differ by a factor of e^0.2."""
    common = np.random.default_rng(0)
    frequencies = np.exp(0.2 * common.normal(size=(k, N_WORDS)))
    shares = np.cumsum(frequencies / np.arange(1, N_WORDS + 1), axis=1)
    rng = np.random.default_rng(seed)
    y, lengths = rng.integers(k, size=n), 1 + rng.poisson(40, size=n)
    label = np.repeat(y, lengths)
    found = np.empty(len(label), dtype=np.int32)
    for i in range(k):
        own = label == i
        found[own] = np.searchsorted(shares[i], shares[i, -1] * rng.random(own.sum()))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    X = sp.csr_matrix((np.ones(len(found)), found, starts), shape=(n, N_WORDS))
    X.sum_duplicates()
    return X, y


def measure(n: int, k: int, kind: str) -> dict[str, Any]:
    """Fit in this process and return one line of the table."""
    warnings.simplefilter("ignore")
    if kind == "unbounded":
        stacking.TREE_ROWS = sys.maxsize
    draw = words if kind == "words" else table
    X, y = draw(n, k, 1)
    start = time.process_time()
    q = kdey.Quantifier(random_state=0).fit(X, y)
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with tempfile.TemporaryDirectory() as folder:
        size = kdey.save(q, Path(folder) / "model.kdey").stat().st_size / 1e6
    pool, labels = draw(50_000, k, 2)
    protocol = kdey.APP(n_bags=N_BAGS, bag_size=BAG_SIZE, random_state=0)
    bags = protocol.bags(labels)
    answers = q.predict_bags(pool, bags.bags)
    error = float(np.abs(answers - bags.prevalences).mean())
    values = (n, k, kind, seconds, memory, size, error)
    return dict(zip(COLUMNS, values, strict=True))


def run(n: int, k: int, kind: str) -> dict[str, Any]:
    """Measure in a process of its own."""
    call = [sys.executable, __file__, "--one", str(n), str(k), "--kind", kind]
    printed = subprocess.run(call, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(printed.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[20_000, 100_000, 1_000_000])
    parser.add_argument("--unbounded", type=int, nargs="*", default=[])
    parser.add_argument("--words", type=int, nargs="*", default=[])
    parser.add_argument("--classes", type=int, nargs="*", default=[], help="of 10,000 rows")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--one", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(*args.one, args.kind)))
        return
    if args.table:
        with SUMMARY.open(encoding="utf-8", newline="") as stream:
            rows = [[row[name] for name in COLUMNS] for row in csv.DictReader(stream)]
        rows.sort(key=lambda row: (row[2] == "words", int(row[1]), int(row[0])))
        print(markdown(list(COLUMNS), rows))
        return
    kinds = {"bounded": args.rows, "unbounded": args.unbounded, "words": args.words}
    asked = [(n, FEW, kind) for kind, sizes in kinds.items() for n in sizes]
    asked += [(10_000, k, "bounded") for k in args.classes]
    with SUMMARY.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        if stream.tell() == 0:
            writer.writeheader()
        for n, k, kind in asked:
            found = run(n, k, kind)
            writer.writerow({name: _short(value) for name, value in found.items()})
            stream.flush()


def _short(value: Any) -> Any:
    return float(f"{value:.3g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
