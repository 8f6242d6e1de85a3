"""Points at which KDEy-HD averages its divergence: plain and quasi-random draws.

    python benchmarks/stacking.py fit --cache FOLDER       # the posteriors
    python benchmarks/points.py --cache FOLDER             # appends, can be resumed
    python benchmarks/points.py --table

Posteriors are cached ones. On each set the kernel is chosen once (logistic regression, first
split). The estimates of 100 bags of 500 with several draws of points are compared with those at
100,000 points, and with the true prevalences. Times are processor milliseconds of one bag of 500 by
itself. One line per set goes to ``results/points.jsonl``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import kdey
from cases import EXTRA, PAPER, Records, geometric_mean, quiet
from kdey.bags import Bags
from kdey.evaluation import APP
from kdey.matching.divergence import MatchDivergence
from kdey.posteriors import FittedStage
from kdey.rows.kernel import KernelSpec
from kdey.rows.monte_carlo import MonteCarloMap, resolve_n_points
from printing import markdown
from stacking import file_of, load

CLASSIFIER = "logistic regression"
ORACLE, PLAIN = 100_000, 10_000
BAGS, BAG_SIZE = 100, 500
WAYS = ("plain 10,000", "plain, as many as auto", "quasi-random auto")


def measure(cache: Path, name: str, n_draws: int) -> dict[str, Any]:
    """Return deviations and errors of every way on one set."""
    scored, labels, _ = load(cache, name, 0)
    training, pool = scored[CLASSIFIER].training, scored[CLASSIFIER].refit
    k = pool.shape[1]
    q = kdey.KDEyHD(average=False, random_state=0)
    q._fit_stage(FittedStage(None, training), np.zeros((len(training.labels), 1)), training.labels)
    kernel = KernelSpec(q.bandwidth_, q.kernel_, q.shrinkage_)
    bags = APP(BAGS, BAG_SIZE, random_state=0).bags(labels, np.arange(k))
    matching = MatchDivergence("hellinger")
    auto = resolve_n_points("auto", k)

    def estimates(n_points: int, sampling: str, seed: int) -> np.ndarray:
        row_map = MonteCarloMap(kernel, n_points, seed, sampling).fit(training, k)
        return np.concatenate(
            [matching.match(row_map, rows, run).prevalence
             for rows in [row_map(pool)] for run in rows.runs(bags.bags)]
        )  # fmt: skip

    def milliseconds(n_points: int, sampling: str) -> float:
        row_map = MonteCarloMap(kernel, n_points, 0, sampling).fit(training, k)
        bag = pool[next(iter(bags.bags))]
        spent = []
        for _ in range(7):
            start = time.process_time()
            matching.match(row_map, row_map(bag), Bags.whole(len(bag)))
            spent.append(time.process_time() - start)
        return 1000 * min(spent)

    settings = ((PLAIN, "plain"), (auto, "plain"), (auto, "quasi-random"))
    oracle = estimates(ORACLE, "quasi-random", 1000)
    line: dict[str, Any] = {"set": name, "classes": k, "kernel": q.kernel_, "auto": auto}
    line["oracle"] = round(float(np.abs(oracle - bags.prevalences).mean()), 6)
    for way, (n_points, sampling) in zip(WAYS, settings, strict=True):
        drawn = [estimates(n_points, sampling, seed) for seed in range(n_draws)]
        line[way] = {
            "deviation": round(float(np.mean([np.abs(e - oracle).mean() for e in drawn])), 6),
            "error": round(float(np.mean([np.abs(e - bags.prevalences).mean() for e in drawn])), 6),
            "ms": round(milliseconds(n_points, sampling), 3),
        }
    return line


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print one line per set, and geometric means relative to plain points."""
    lines: list[list[Any]] = []
    for row in rows:
        cells = [row["set"], row["classes"], row["kernel"], f"{row['auto']:,}"]
        for key, digits in (("deviation", 5), ("error", 5), ("ms", 1)):
            cells += [f"{row[way][key]:.{digits}f}" for way in (WAYS if key != "ms" else WAYS[::2])]
        lines.append(cells)
    heads = ["set", "classes", "kernel", "auto"]
    for key in ("deviation", "error"):
        heads += [f"{key}, {way}" for way in WAYS]
    heads += [f"ms, {way}" for way in WAYS[::2]]
    print(markdown(heads, lines))
    base, plain, ours = WAYS
    for key in ("deviation", "error", "ms"):
        ratios = [geometric_mean(r[ours][key] / r[way][key] for r in rows) for way in (base, plain)]
        first, second = (f"{ratio:.3f}" for ratio in ratios)
        print(
            f"\n{key}: quasi-random / plain 10,000 {first}, quasi-random / plain as many {second}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path("build/benchmarks/stacking"))
    parser.add_argument("--sets", nargs="*", default=[*PAPER, *EXTRA])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    records = Records("points.jsonl", ("set",))
    if args.table:
        print_table(records.rows)
        return
    quiet()
    for name in args.sets:
        if (name,) not in records and file_of(args.cache, name, 0, CLASSIFIER).exists():
            records.add(measure(args.cache, name, args.draws))


if __name__ == "__main__":
    main()
