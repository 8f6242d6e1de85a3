"""Random walks over periods: error and coverage of smooth curves, and of gaps in them.

Series of 40 periods with 30 instances each, of which five in the middle have none. Log-ratios
follow a random walk with steps of standard deviation sigma; instances are drawn, with replacement,
from the part of the set that is not used for training. EMQ with BCTS on logistic regression is
fitted on redrawn splits. Of every series we keep the mean absolute errors of separate and of
smoothed estimates, how often 95 % limits cover (in gaps, too), and the median of sigma.

``--jumps`` draws further series with sigma 0.05, without a gap, whose log-ratios jump by 2 or 0 in
a random direction, at a random place. We keep how often bands cover in the four periods around the
jump and elsewhere, how wide they are, and what was found; of every sixth series also what bands
would be if nobody looked for jumps. There are six draws of the templates instead of twenty.

``--run`` adds splits to ``build/benchmarks/smoothing.jsonl`` until there are ``--splits``; stopped,
it goes on from there. ``--summary`` writes ``results/smoothing.csv``, ``--table`` prints it.
``--jumps`` adds series until there are ``--splits`` on each set; ``results/jumps.csv`` is made and
printed (``--jumps-table``) in the same way.
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
from kdey.bayes import random_walk
from kdey.bayes.random_walk import PeriodTree, smooth_periods
from kdey.bayes.sampling import TemplateDraws
from shrinkage import FIRST_SPLIT, scored
from summaries import RAW, RESULTS, read_raw, read_summary, update_summary

FILE, SUMMARY = RAW / "smoothing.jsonl", RESULTS / "smoothing.csv"
SETS = ("uci-multi/academic-success", "uci-multi/dry-bean", "uci-extra/page-blocks")
SIGMAS = (0.05, 0.2, 0.5)
PERIODS, SIZE, GAP = 40, 30, slice(18, 23)
KEYS = ("set", "sigma")
MEANS = (
    *("separate error", "smooth error", "gap error", "separate covered", "smooth covered"),
    *("gap covered", "separate width", "smooth width", "gap width", "sigma found"),
)

JUMPS_FILE, JUMPS_SUMMARY = RAW / "jumps.jsonl", RESULTS / "jumps.csv"
JUMP_SIZES, JUMP_SIGMA, JUMP_SPLITS = (2, 0), 0.05, 10
JUMP_SETS = (
    *("uci-multi/academic-success", "uci-extra/page-blocks", "uci-binary/spambase"),
    *("uci-multi/dry-bean", "uci-extra/pendigits", "uci-multi/wine-quality"),
)


def outcome_of_jump(name: str, size: int, seed: int) -> dict[str, float]:
    """Return what one series with a jump gave."""
    quantifier, pool, members = scored(name, FIRST_SPLIT + seed % JUMP_SPLITS)
    k = len(members)
    rng = np.random.default_rng([30, JUMP_SETS.index(name), size, seed])
    path = 0.7 * rng.normal(size=k - 1)
    path = path + np.cumsum(JUMP_SIGMA * rng.normal(size=(PERIODS, k - 1)), axis=0)
    place, direction = int(rng.integers(8, PERIODS - 8)), rng.normal(size=k - 1)
    path[place:] += size * direction / np.linalg.norm(direction)
    truth = softmax(path @ np.asarray(helmert(k)), axis=1)
    labels = np.concatenate([rng.choice(k, SIZE, p=p) for p in truth])
    posteriors = pool[[rng.choice(members[label]) for label in labels]]
    offsets = offsets_of(np.full(PERIODS, SIZE))
    tree = PeriodTree(offsets, np.zeros(PERIODS, dtype=np.int64), np.arange(PERIODS, dtype=float))
    near = np.zeros(PERIODS, dtype=bool)
    near[place - 2 : place + 2] = True
    out, look = {}, random_walk._Walk.jumps
    for way in ("jumps", "plain")[: 1 if seed % 6 else 2]:
        if way == "plain":
            random_walk._Walk.jumps = lambda self: []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = smooth_periods(
                TemplateDraws.of(quantifier), posteriors, tree, random_state=seed, n_templates=6
            )
        low, high = made.interval(0.025)
        for part, own in (("near", near), ("elsewhere", ~near)):
            out[f"{way} {part} covered"] = float(((low <= truth) & (truth <= high))[own].mean())
            out[f"{way} {part} width"] = float((high - low)[own].mean())
        if way == "jumps":
            found = np.abs(np.flatnonzero(made.jumped) - place)
            out |= {"found": float((found <= 1).any()), "false": float((found > 1).any())}
    random_walk._Walk.jumps = look
    return out


def run_jumps(splits: int) -> None:
    """Add series with jumps of all sizes on all sets in turn."""
    quiet()
    JUMPS_FILE.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["set"], row["jump"], row["seed"]) for row in read_raw(JUMPS_FILE)}
    for size in JUMP_SIZES:
        for seed in range(splits):
            for name in JUMP_SETS:
                if (name, size, seed) not in done:
                    row = {"set": name, "jump": size, "seed": seed}
                    row |= {k: round(v, 5) for k, v in outcome_of_jump(name, size, seed).items()}
                    with JUMPS_FILE.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")


def summarise_jumps() -> None:
    """Write one line per size of a jump and set, and one of all sets: means over the series."""
    lines, rows = [], list(read_raw(JUMPS_FILE))
    for size in JUMP_SIZES:
        for name in ("all", *JUMP_SETS):
            own = [row for row in rows if row["jump"] == size and name in ("all", row["set"])]
            if not own:
                continue
            names = [key for key in own[0] if key not in ("set", "jump", "seed")]
            means = {n: f"{np.mean([row[n] for row in own if n in row]):.4f}" for n in names}
            error = np.std([row["jumps near covered"] for row in own]) / np.sqrt(len(own))
            place = {"jump": size, "set": name.split("/")[-1], "series": len(own)}
            lines.append({**place, **means, "se": f"{error:.4f}"})
    update_summary(JUMPS_SUMMARY, lines, ("jump", "set"))


def show_jumps() -> None:
    """Print a line for each size of a jump and each set."""
    head = ("jump", "set", "series", "near, before", "near", "se", "elsewhere", "width near")
    print(f"| {' | '.join((*head, 'found', 'false'))} |")
    print("|---" * (len(head) + 2) + "|")
    for row in read_summary(JUMPS_SUMMARY):
        names = ("plain near covered", "jumps near covered", "se", "jumps elsewhere covered")
        shown = [f"{float(row[name]):.3f}" for name in names]
        widths = [f"{float(row[f'{way} near width']):.3f}" for way in ("plain", "jumps")]
        shares = [f"{float(row[name]):.2f}" for name in ("found", "false")]
        cells = [row["jump"], row["set"], row["series"], *shown, " to ".join(widths), *shares]
        print(f"| {' | '.join(cells)} |")


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
    parser.add_argument("--jumps", action="store_true")
    parser.add_argument("--jumps-table", action="store_true")
    arguments = parser.parse_args()
    if arguments.jumps:
        run_jumps(arguments.splits)
    if arguments.summary and JUMPS_FILE.exists():
        summarise_jumps()
    if arguments.jumps_table:
        show_jumps()
    if arguments.run:
        run(arguments.splits)
    if arguments.summary and FILE.exists():
        summarise()
    if arguments.table:
        show()


if __name__ == "__main__":
    main()
