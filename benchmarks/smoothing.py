"""Random walks over periods: error and coverage of smooth curves, and of gaps in them.

Series of 40 periods with 30 instances each, of which five in the middle have none. Log-ratios
follow a random walk with steps of standard deviation sigma; instances are drawn, with replacement,
from the part of the set that is not used for training. EMQ with BCTS on logistic regression is
fitted on redrawn splits. Of every series we keep the mean absolute errors of separate and of
smoothed estimates, how often 95 % limits cover (in gaps, too), and the median of sigma.

``--run`` adds splits to ``build/benchmarks/smoothing.jsonl`` until there are ``--splits``; stopped,
it goes on from there. ``--summary`` writes ``results/smoothing.csv``, ``--table`` prints it.
"""

from __future__ import annotations

import argparse
import csv
import json
import warnings
from collections.abc import Iterator

import numpy as np
from scipy.linalg import helmert
from scipy.special import softmax

from cases import quiet
from kdey.bags import Bags, offsets_of
from kdey.bayes.pooling import TemplateDraws
from kdey.bayes.random_walk import PeriodTree, smooth_periods
from shrinkage import FIRST_SPLIT, scored
from summaries import RAW, RESULTS, read_raw, read_summary

FILE, SUMMARY = RAW / "smoothing.jsonl", RESULTS / "smoothing.csv"
SETS = ("uci-multi/academic-success", "uci-multi/dry-bean", "uci-extra/page-blocks")
SIGMAS = (0.05, 0.2, 0.5)
PERIODS, SIZE, GAP = 40, 30, slice(18, 23)
KEYS = ("set", "sigma")
MEANS = (
    *("separate error", "smooth error", "gap error", "separate covered", "smooth covered"),
    *("gap covered", "separate width", "smooth width", "gap width", "sigma found"),
)


def outcome(name: str, sigma: float, seed: int) -> dict[str, float]:
    """Return what one series gave."""
    quantifier, pool, members = scored(name, seed)
    k = len(members)
    rng = np.random.default_rng([18, SETS.index(name), SIGMAS.index(sigma), seed])
    steps = sigma * rng.normal(size=(PERIODS, k - 1))
    path = 0.7 * rng.normal(size=k - 1) + np.cumsum(steps, axis=0)
    truth = softmax(path @ np.asarray(helmert(k)), axis=1)
    sizes = np.full(PERIODS, SIZE)
    sizes[GAP] = 0
    labels = np.concatenate([rng.choice(k, n, p=p) for n, p in zip(sizes, truth, strict=True)])
    posteriors = pool[[rng.choice(members[label]) for label in labels.astype(int)]]
    full = sizes > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bags = Bags(np.arange(len(labels)), offsets_of(sizes[full]), len(labels))
        separate = quantifier.estimate_posteriors(posteriors, bags, check_fit=False)
        tree = PeriodTree(
            offsets_of(sizes), np.zeros(PERIODS, dtype=np.int64), np.arange(PERIODS, dtype=float)
        )
        smooth = smooth_periods(TemplateDraws.of(quantifier), posteriors, tree, random_state=seed)
    estimate, (low, high) = smooth.estimate(), smooth.interval(0.025)
    parts = {
        "separate": (separate.estimate, separate.low, separate.high, truth[full]),
        "smooth": (estimate[full], low[full], high[full], truth[full]),
        "gap": (estimate[~full], low[~full], high[~full], truth[~full]),
    }
    out = {"sigma found": float(np.median(smooth.sigma))}
    for way, (centre, first, last, true) in parts.items():
        out[f"{way} error"] = float(np.abs(centre - true).mean())
        out[f"{way} covered"] = float(((first <= true) & (true <= last)).mean())
        out[f"{way} width"] = float((last - first).mean())
    return out


def cells() -> Iterator[tuple[str, float]]:
    for name in SETS:
        for sigma in SIGMAS:
            yield name, sigma


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
    """Write one line per cell: means over the series."""
    rows = list(read_raw(FILE))
    with SUMMARY.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*KEYS, "series", *MEANS])
        for cell in cells():
            own = [row for row in rows if tuple(row[key] for key in KEYS) == cell]
            if own:
                means = [np.mean([row[name] for row in own]) for name in MEANS]
                writer.writerow([*cell, len(own), *(f"{mean:.4f}" for mean in means)])


def show() -> None:
    """Print a line for each set and sigma, and means over them."""
    print("| set | sigma | series | separate | smooth | covered | in the gap | sigma found |")
    print("|---|---|---|---|---|---|---|---|")
    for row in read_summary(SUMMARY):
        print(
            f"| {row['set'].split('/')[1]} | {row['sigma']} | {row['series']} | "
            f"{float(row['separate error']):.3f} | {float(row['smooth error']):.3f} | "
            f"{float(row['smooth covered']):.3f} | {float(row['gap covered']):.3f} | "
            f"{float(row['sigma found']):.2f} |"
        )
    for name in ("separate covered", "smooth covered", "gap covered"):
        mean = np.mean([float(row[name]) for row in read_summary(SUMMARY)])
        print(f"mean {name}: {mean:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.run:
        run(arguments.splits)
    if arguments.summary:
        summarise()
    if arguments.table:
        show()


if __name__ == "__main__":
    main()
