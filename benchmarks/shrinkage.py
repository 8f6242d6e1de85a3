"""Partial pooling of small groups: error, coverage and kappa on six sets.

Tables of 60 groups: the mean prevalence is drawn from Dirichlet(2, ..., 2), the prevalence of each
group from Dirichlet(kappa mean), and its instances, with replacement, from the part of the set that
is not used for training. EMQ with BCTS on logistic regression is fitted on redrawn splits, so that
the error of the templates is a part of what limits must cover. Of every table we keep

* the mean absolute error of estimates that are pooled, and of separate ones;
* how often 95 % limits cover, on average over groups and for the 15 % of groups whose prevalences
  lie farthest from the mean of all (pooled and separate);
* the median of kappa, whether its 90 % interval holds the true value, and whether groups were
  told apart.

``--run`` adds splits to ``build/benchmarks/shrinkage.jsonl``, all cells in turn, until there are
``--splits``; stopped, it goes on from there. ``--summary`` writes ``results/shrinkage.csv``,
``--table`` prints it. ``--time`` measures 10,000 groups of 30 instances.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from cases import quiet
from kdey.bags import Bags
from kdey.bayes.pooling import GroupTree, ShrunkGroups, TemplateDraws, shrink_groups
from kdey.native import thread_count
from labelled import make_quantifier, split
from summaries import RAW, RESULTS, read_raw, read_summary

FILE, SUMMARY = RAW / "shrinkage.jsonl", RESULTS / "shrinkage.csv"
SETS = (
    *("uci-multi/academic-success", "uci-multi/wine-quality", "uci-multi/dry-bean"),
    *("uci-extra/cmc", "uci-extra/page-blocks", "uci-extra/pendigits"),
)
KAPPAS, SIZES = (5, 50, 500), (10, 30, 100)
GROUPS, FARTHEST = 60, 9
#: Splits from this seed on are the evidence; those before it were looked at in development.
FIRST_SPLIT = 100
KEYS = ("set", "kappa", "size")
MEANS = (
    *("separate error", "pooled error", "separate covered", "pooled covered"),
    *("separate farthest covered", "pooled farthest covered", "separate width", "pooled width"),
    *("kappa found", "kappa covered", "told apart", "shrinkage", "converged", "seconds"),
)


@cache
def scored(name: str, seed: int) -> tuple[Any, np.ndarray, tuple[np.ndarray, ...]]:
    """Return a fitted quantifier, the posteriors of the pool, and its members of each class."""
    X, X_pool, y, y_pool = split(name, seed)
    quantifier = make_quantifier("EMQ-BCTS").fit(X, y)
    members = tuple(np.flatnonzero(y_pool == label) for label in quantifier.classes_)
    return quantifier, quantifier.classifier_.predict_proba(X_pool), members


def draw_groups(
    members: tuple[np.ndarray, ...], kappa: float, size: int, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the prevalences of n groups, and the positions of their instances in the pool."""
    k = len(members)
    mean = rng.dirichlet(np.full(k, 2.0))
    truth = rng.dirichlet(np.maximum(kappa * mean, 1e-3), size=n)
    limits = np.cumsum(truth, axis=1)[:, :-1]
    labels = (rng.random((n, size, 1)) > limits[:, None]).sum(axis=2).ravel()
    positions = np.empty(n * size, dtype=np.int64)
    for i in range(k):
        positions[labels == i] = rng.choice(members[i], int((labels == i).sum()))
    return truth, positions


def outcome(name: str, kappa: int, size: int, seed: int) -> dict[str, float]:
    """Return what one table gave."""
    quantifier, pool, members = scored(name, seed)
    rng = np.random.default_rng([18, SETS.index(name), kappa, size, seed])
    truth, positions = draw_groups(members, kappa, size, GROUPS, rng)
    posteriors = pool[positions]
    offsets = np.arange(0, GROUPS * size + 1, size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bags = Bags(np.arange(len(positions)), offsets, len(positions))
        separate = quantifier.estimate_posteriors(posteriors, bags, check_fit=False)
        started = time.perf_counter()
        tree = GroupTree.of(np.full(GROUPS, size))
        pooled = shrink_groups(TemplateDraws.of(quantifier), posteriors, tree, random_state=seed)
        seconds = time.perf_counter() - started
    parts = {
        "separate": (separate.estimate, separate.low, separate.high),
        "pooled": (pooled.estimate(), *pooled.interval(0.025)),
    }
    return {**_errors(parts, truth), **_kappa(pooled, kappa), "seconds": seconds}


def _errors(parts: dict[str, tuple[Any, Any, Any]], truth: np.ndarray) -> dict[str, float]:
    far = np.argsort(-np.abs(truth - truth.mean(axis=0)).sum(axis=1))[:FARTHEST]
    out = {}
    for way, (estimate, low, high) in parts.items():
        covered = (low <= truth) & (truth <= high)
        out[f"{way} error"] = float(np.abs(estimate - truth).mean())
        out[f"{way} covered"] = float(covered.mean())
        out[f"{way} farthest covered"] = float(covered[far].mean())
        out[f"{way} width"] = float((high - low).mean())
    return out


def _kappa(pooled: ShrunkGroups, kappa: float) -> dict[str, float]:
    low, middle, high = np.quantile(pooled.kappa, [0.05, 0.5, 0.95])
    return {
        "kappa found": float(middle),
        "kappa covered": float(low <= kappa <= high),
        "told apart": float(pooled.told_apart),
        "shrinkage": float(pooled.shrinkage.mean()),
        "converged": float(pooled.converged),
    }


def cells() -> Iterator[tuple[str, int, int]]:
    for name in SETS:
        for kappa in KAPPAS:
            for size in SIZES:
                yield name, kappa, size


def run(splits: int) -> None:
    """Add splits to all cells in turn."""
    quiet()
    FILE.parent.mkdir(parents=True, exist_ok=True)
    done = {(*(row[key] for key in KEYS), row["split"]) for row in read_raw(FILE)}
    for number in range(FIRST_SPLIT, FIRST_SPLIT + splits):
        for cell in cells():
            if (*cell, number) in done:
                continue
            row = {**dict(zip(KEYS, cell, strict=True)), "split": number}
            row |= {key: round(value, 6) for key, value in outcome(*cell, number).items()}
            with FILE.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        scored.cache_clear()
        print("split", number, flush=True)


def summarise() -> None:
    """Write one line per cell: means over the tables (of kappa, the median)."""
    import csv

    rows = list(read_raw(FILE))
    RESULTS.mkdir(exist_ok=True)
    with SUMMARY.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*KEYS, "tables", *MEANS])
        for cell in cells():
            own = [row for row in rows if tuple(row[key] for key in KEYS) == cell]
            if not own:
                continue
            numbers = [
                np.median([row[name] for row in own])
                if name == "kappa found"
                else np.mean([row[name] for row in own])
                for name in MEANS
            ]
            writer.writerow([*cell, len(own), *(f"{number:.4f}" for number in numbers)])


def show() -> None:
    """Print a line for each kappa and size, over the sets, and sentences about all cells."""
    rows = read_summary(SUMMARY)
    print("| kappa | size | separate | pooled | gain | covered | farthest | kappa found |")
    print("|---|---|---|---|---|---|---|---|")
    for kappa in KAPPAS:
        for size in SIZES:
            own = [r for r in rows if (int(r["kappa"]), int(r["size"])) == (kappa, size)]
            means = {n: np.mean([float(r[n]) for r in own]) for n in MEANS if n != "kappa found"}
            found = [float(row["kappa found"]) for row in own]
            gain = 1 - means["pooled error"] / means["separate error"]
            print(
                f"| {kappa} | {size} | {means['separate error']:.4f} | "
                f"{means['pooled error']:.4f} | {gain:.0%} | {means['pooled covered']:.3f} | "
                f"{means['pooled farthest covered']:.3f} | {min(found):.0f} to {max(found):.0f} |"
            )
    covered = [float(row["pooled covered"]) for row in rows]
    ratios = [float(row["pooled error"]) / float(row["separate error"]) for row in rows]
    print(
        f"coverage of cells: {min(covered):.3f} to {max(covered):.3f}, mean {np.mean(covered):.3f}"
    )
    print(f"pooled over separate error of cells: {min(ratios):.2f} to {max(ratios):.2f}")
    for name in ("separate covered", "pooled farthest covered", "kappa covered"):
        print(f"mean {name}: {np.mean([float(row[name]) for row in rows]):.3f}")
    alike = [float(row["told apart"]) for row in rows if int(row["kappa"]) == KAPPAS[-1]]
    print(f"tables with kappa {KAPPAS[-1]} that are not told apart: {1 - np.mean(alike):.2f}")


def measure(n_groups: int, size: int, n_jobs: int) -> None:
    """Print the seconds that many groups take."""
    quantifier, pool, members = scored("uci-multi/dry-bean", 0)
    truth, positions = draw_groups(members, 50, size, n_groups, np.random.default_rng(0))
    tree = GroupTree.of(np.full(n_groups, size))
    started = time.perf_counter()
    pooled = shrink_groups(
        TemplateDraws.of(quantifier), pool[positions], tree, n_threads=thread_count(n_jobs)
    )
    estimate, (low, high) = pooled.estimate(), pooled.interval(0.025)
    seconds = time.perf_counter() - started
    covered = float(((low <= truth) & (truth <= high)).mean())
    error = float(np.abs(estimate - truth).mean())
    print(
        f"{n_groups:,} groups of {size}, {truth.shape[1]} classes, {thread_count(n_jobs)} threads: "
        f"{seconds:.0f} s; error {error:.4f}, covered {covered:.3f}, "
        f"kappa {np.median(pooled.kappa):.1f}, converged {pooled.converged}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=-1)
    arguments = parser.parse_args()
    if arguments.run:
        run(arguments.splits)
    if arguments.summary:
        summarise()
    if arguments.table:
        show()
    if arguments.time:
        measure(arguments.groups, arguments.size, arguments.jobs)


if __name__ == "__main__":
    main()
