"""Coverage and width where training labels are wrong: without a word of it, known, and bounded.

Each case redraws true labels, wrong ones and a bag, and asks whether the 95 % intervals contain the
true shares. "width / best": mean width relative to that of an oracle which trains on true labels
(known noise), or to it and the distance between the ends that the bound leaves (bounds). Classes
are normal, or the rows of real sets that a classifier has scored once (their three most frequent
classes), of which wrong labels are drawn as in the simulations.

    python benchmarks/label_noise.py --redraws 400   # all cases, a few minutes; stores the summary
    python benchmarks/label_noise.py --tables        # the stored results as a table
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

import kdey
from kdey.intervals.label_noise import NoiseRates
from kdey.intervals.merging import Merging
from populations import SCORED, scored, scored_population

STORED = Path(__file__).parent / "results" / "label_noise.csv"
#: C of each case: entry (i, j) is the share of rows with label j that belong to class i.
ONE_SIDED = [[0.9, 0.0], [0.1, 1.0]]
BOTH = [[0.9, 0.1], [0.1, 0.9]]
THREE = [[0.9, 0.0, 0.0], [0.1, 0.9, 0.05], [0.0, 0.1, 0.95]]
#: The case, its C, the true shares of the bag, and the options that are tried.
TRUE, KNOWN, RATES, BOUND, LOOSE = "ignored", "known matrix", "known rates", "bound", "twice it"
WAYS = (TRUE, KNOWN, RATES, BOUND, LOOSE)
CASES = {
    "one-sided": (ONE_SIDED, [0.3, 0.7]),
    "one-sided, rare": (ONE_SIDED, [0.85, 0.15]),
    "both sides": (BOTH, [0.4, 0.6]),
    "both sides, absent": (BOTH, [0.0, 1.0]),
    "three classes": (THREE, [0.5, 0.3, 0.2]),
    "three classes, absent": (THREE, [0.6, 0.4, 0.0]),
    **{
        name: (ONE_SIDED, [0.3, 0.7]) if k == 2 else (THREE, [0.5, 0.3, 0.2])
        for name, (_, k) in SCORED.items()
    },
}
METHODS = {
    "PACC": (kdey.PACC, "auto"),
    "EMQ": (kdey.EMQ, "auto"),
    "PACC, bootstrap": (kdey.PACC, "bootstrap"),
}


def densities(labels: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Return the class densities, up to a factor, of points of normal classes at k corners."""
    x = 2.0 * np.eye(k)[labels] + rng.standard_normal((len(labels), k))
    return np.exp(2.0 * (x - x.max(axis=1, keepdims=True)))


def real_densities(name: str, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return what a classifier takes for the densities, up to a factor, of rows of a real set."""
    codes = scored(name, 3)[1]
    return scored_population(name, 3).draw(labels, rng) / np.bincount(codes)


def posteriors(values: np.ndarray) -> np.ndarray:
    """Return what the best classifier says after training with labels equally frequent."""
    return values / values.sum(axis=1, keepdims=True)


def options_of(way: str, matrix: np.ndarray) -> kdey.Options:
    """Return the options of one way to treat wrong labels."""
    rates = 1.0 - np.diag(matrix)
    asked = {
        TRUE: {},
        KNOWN: {"label_noise": matrix},
        RATES: {"label_noise": rates},
        BOUND: {"label_noise_bound": dict(enumerate(rates))},
        LOOSE: {"label_noise_bound": dict(enumerate(2 * rates))},
    }
    return kdey.Options(**asked[way])


def measure(case: str, method: str, redraws: int, seed: int = 0) -> list[dict[str, object]]:
    """Return one row per way to treat wrong labels."""

    def rows_of(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return real_densities(case, labels, rng) if case in SCORED else densities(labels, k, rng)

    matrix, shares = np.array(CASES[case][0]), np.array(CASES[case][1])
    k, m, n = len(shares), 1_000, 1_000
    ways = WAYS
    hits: dict[str, list] = {way: [] for way in ways}
    widths: dict[str, list] = {way: [] for way in (*ways, "oracle")}
    distances: dict[str, list] = {way: [] for way in ways}
    for number in range(redraws):
        rng = np.random.default_rng([seed, number])
        labels = np.arange(n) % k
        truth = np.array([rng.choice(k, p=matrix[:, j]) for j in labels])
        p, bag = rows_of(truth, rng), rows_of(rng.choice(k, size=m, p=shares), rng)
        quantifier, kind = METHODS[method]
        plain = kdey.Options(check_fit=False, n_replicates=200, method=kind)
        seen, own = posteriors(p @ matrix), posteriors(bag @ matrix)  # those of the labels
        noisy = quantifier().fit_posteriors(seen, labels).estimate_posteriors(own, options=plain)
        clean = quantifier().fit_posteriors(posteriors(p), truth)
        oracle = clean.estimate_posteriors(posteriors(bag), options=plain)
        widths["oracle"].append(oracle.high - oracle.low)
        for way in ways:
            options = options_of(way, matrix)
            made = Merging.asked(None, np.arange(k), options).apply(noisy)
            hits[way].append((made.low <= shares) & (shares <= made.high))
            widths[way].append(made.high - made.low)
            rates = NoiseRates.of(options, np.arange(k))
            low, high = (None, None) if rates is None else rates.functions(np.eye(k))
            at = np.linalg.solve(matrix, shares)
            distances[way].append(np.zeros(k) if low is None else (high - low) @ at)
    rows = []
    for way in ways:
        each = np.mean(hits[way], axis=1)
        best = np.mean(widths["oracle"]) + np.mean(distances[way])
        rows.append(
            {
                "case": case,
                "method": method,
                "way": way,
                "redraws": redraws,
                "covered": round(float(each.mean()), 4),
                "error": round(float(np.std(each) / np.sqrt(redraws)), 4),
                "lowest": round(float(np.mean(hits[way], axis=0).min()), 4),
                "width": round(float(np.mean(widths[way])), 4),
                "ratio": round(float(np.mean(widths[way]) / best), 3),
            }
        )
    return rows


def print_tables() -> None:
    """Print the stored results."""
    with STORED.open(newline="") as file:
        rows = list(csv.DictReader(file))
    print("| noise | method | labels | covered | standard error | lowest class | width / best |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        values = [row["case"], row["method"], row["way"]]
        values += [f"{float(row[name]):.3f}" for name in ("covered", "error", "lowest")]
        print(f"| {' | '.join([*values, format(float(row['ratio']), '.2f')])} |")


def main() -> None:
    """Measure all cases, or print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--redraws", type=int, default=400)
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    arguments = parser.parse_args()
    if arguments.tables:
        print_tables()
        return
    lines = {}
    if STORED.exists():
        with STORED.open(newline="") as file:
            lines = {tuple(row.values())[:3]: row for row in csv.DictReader(file)}
    for case in arguments.cases:
        for method in arguments.methods:
            for row in measure(case, method, arguments.redraws):
                print(*row.values(), flush=True)
                lines[row["case"], row["method"], row["way"]] = row
    order = [(case, method, way) for case in CASES for method in METHODS for way in WAYS]
    with STORED.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(next(iter(lines.values()))), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines[key] for key in order if key in lines)


if __name__ == "__main__":
    main()
