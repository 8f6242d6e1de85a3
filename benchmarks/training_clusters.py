"""Coverage of 95 % intervals where training rows were drawn in clusters.

In each redraw clusters are drawn, then the rows of each. Bags are independent rows of the same
population at a prevalence of their own. Every redraw is fitted twice, with and without
``clusters=``. Simulated rows have a normal effect of their cluster in the one column that tells two
classes apart; the clusters have both classes (mixed), one (nested), or no effect (independent). In
real sets clusters are cells of k-means in the columns, or (students) the courses that the table
names, drawn in proportion to their size; one classifier is fitted on half of the rows, and the
redraws are of the others. Clusters that lack a class are drawn again ("in two clusters": those in
which a class lies in a single one, too).

The summary has coverage, its standard error over redraws, the mean width, and the width of normal
intervals that know the standard deviation of the estimates (``oracle``).

    OMP_NUM_THREADS=1 python benchmarks/training_clusters.py --redraws 200 [--cases simulated]
    OMP_NUM_THREADS=1 python benchmarks/training_clusters.py --checks --redraws 200
    python benchmarks/training_clusters.py --tables
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kdey
from cases import DATA, _read
from printing import markdown
from summaries import RESULTS

SUMMARY = RESULTS / "training_clusters.csv"
CHECKS = RESULTS / "training_clusters_checks.csv"
SIZE, SD, APART, BAG = 30, 0.6, 1.5, 2_000
SHARES = (0.1, 0.3, 0.5)
#: First seed: lower ones were looked at while the intervals were being written.
FIRST = 10_000
#: Training rows, labels, clusters; a bag and its prevalence.
Redraw: TypeAlias = tuple[Any, NDArray[Any], NDArray[Any], list[tuple[Any, NDArray[np.float64]]]]


def simulated(rng: np.random.Generator, clusters: int, kind: str) -> Redraw:
    """Draw two normal classes whose clusters have effects, and three bags."""
    ids = np.repeat(np.arange(clusters), SIZE)
    y = ids % 2 if kind == "nested" else (rng.random(len(ids)) < 0.5).astype(int)
    effects = rng.normal(0.0, SD, clusters)[ids]
    if kind == "independent":
        effects = rng.normal(0.0, SD, len(ids))

    def rows(y: NDArray[Any], effects: NDArray[Any]) -> NDArray[Any]:
        return np.stack([rng.normal(APART * y + effects), rng.normal(size=len(y))], axis=1)

    bags = []
    for share in SHARES:
        labels = (rng.random(BAG) < share).astype(int)
        bag = rows(labels, rng.normal(0.0, SD, BAG))
        bags.append((bag, np.array([1.0 - share, share])))
    return rows(y, effects), y, ids, bags


#: Sets of the data folder; all but the students have cells of k-means for clusters.
FILES = {
    "dry beans": "uci-multi/dry-bean",
    "students": "uci-multi/academic-success",
    "spam": "uci-binary/spambase",
    "white wine": "uci-binary/wine-q-white",
    "phishing": "uci-extra/phishing",
    "contraception": "uci-extra/cmc",
}


@cache
def population(name: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return rows, labels and clusters of a real set."""
    if name == "digits, halves":
        X, y = load_digits(return_X_y=True)
        y = (y > 4).astype(int)
    else:
        X, y = _read(DATA / f"{FILES[name]}.csv.gz")
    X, y = np.asarray(X, dtype=float), np.unique(y, return_inverse=True)[1]
    if name == "students":
        return np.delete(X, 3, axis=1), y, np.unique(X[:, 3], return_inverse=True)[1]
    return (
        X,
        y,
        KMeans(100, n_init=1, random_state=0).fit_predict(StandardScaler().fit_transform(X)),
    )


@cache
def scored(name: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return posteriors of half of the rows, labels and clusters, by a classifier of the others."""
    X, y, clusters = population(name)
    first = np.random.default_rng(0).random(len(y)) < 0.5
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    p = classifier.fit(X[first], y[first]).predict_proba(X[~first])
    return p, y[~first], clusters[~first]


def real(rng: np.random.Generator, clusters: int, name: str, least: int = 1) -> Redraw:
    """Draw clusters of a real set by their size, so many at least of each class, and three bags."""
    X, y, cells = scored(name)
    sizes, k, bags = np.bincount(cells), int(y.max()) + 1, []
    ids, train = np.repeat(np.arange(clusters), SIZE), np.empty(0, dtype=np.int64)
    while min(len(np.unique(ids[: len(train)][y[train] == label])) for label in range(k)) < least:
        drawn = rng.choice(len(sizes), clusters, p=sizes / sizes.sum())
        rows = [rng.choice(np.flatnonzero(cells == cell), SIZE) for cell in drawn]
        train = np.concatenate(rows)
    for _ in SHARES:
        shares = rng.dirichlet(np.ones(k))
        labels = rng.choice(k, BAG // 4, p=shares)
        bag = np.array([rng.choice(np.flatnonzero(y == label)) for label in labels])
        bags.append((X[bag], shares))
    return X[train], y[train], ids, bags


METHODS: dict[str, Callable[[Any], Any]] = {
    "KDEyML": lambda c: kdey.KDEyML(c, bandwidth=0.1, random_state=0),
    "PACC": lambda c: kdey.PACC(c, random_state=0),
    "EMQ": lambda c: kdey.EMQ(c, calibration="bcts", random_state=0),
    "DM": lambda c: kdey.DM(c, n_bins=8, random_state=0),
}
CASES: dict[str, tuple[Callable[..., Redraw], tuple[Any, ...]]] = {
    "simulated, mixed": (simulated, (30, "mixed")),
    "simulated, nested": (simulated, (30, "nested")),
    "simulated, independent": (simulated, (30, "independent")),
    "simulated, mixed, 10 clusters": (simulated, (10, "mixed")),
    "digits, halves": (real, (40, "digits, halves")),
    "dry beans": (real, (60, "dry beans")),
    "dry beans, classes in two clusters": (real, (60, "dry beans", 2)),
    "students": (real, (40, "students")),
    "spam": (real, (40, "spam")),
    "white wine": (real, (40, "white wine")),
    "phishing": (real, (40, "phishing")),
    "contraception": (real, (40, "contraception")),
}


def outcomes(case: str, method: str, given: bool, seed: int) -> list[dict[str, float]]:
    """Return for every bag and class of one redraw whether it is covered, the width, the error."""
    draw, arguments = CASES[case]
    X, y, ids, bags = draw(np.random.default_rng(seed), *arguments)
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    known_ids, made = ids if given else None, METHODS[method](classifier)
    on_scores = draw is real
    fit, ask = (made.fit_posteriors, "estimate_posteriors") if on_scores else (made.fit, "estimate")
    fitted, out = fit(X, y, clusters=known_ids), []
    for number, (bag, shares) in enumerate(bags):
        estimate = getattr(fitted, ask)(bag, check_fit=False)
        known = estimate.classes
        for place, label in enumerate(known[1:] if len(known) == 2 else known):
            i = place + 1 if len(known) == 2 else place
            low, high, truth = estimate.low[i], estimate.high[i], shares[int(label)]
            out.append(
                {
                    "part": number * 100 + i,
                    "covered": float(low <= truth <= high),
                    "width": float(high - low),
                    "error": float(estimate.estimate[i] - truth),
                }
            )
    return out


def summarise(case: str, method: str, given: bool, redraws: int) -> dict[str, Any]:
    """Return one line of the summary."""
    results = [outcomes(case, method, given, FIRST + seed) for seed in range(redraws)]
    covered = np.array([np.mean([row["covered"] for row in rows]) for rows in results])
    errors: dict[float, list[float]] = {}
    for rows in results:
        for row in rows:
            errors.setdefault(row["part"], []).append(row["error"])
    spreads = [float(np.std(values)) for values in errors.values()]
    flat = [row for rows in results for row in rows]
    return {
        "case": case,
        "method": method,
        "clusters": "given" if given else "not given",
        "redraws": redraws,
        "coverage": round(float(covered.mean()), 4),
        "standard_error": round(float(covered.std() / np.sqrt(redraws)), 4),
        "width": round(float(np.mean([row["width"] for row in flat])), 4),
        "oracle": round(2 * 1.96 * float(np.mean(spreads)), 4),
        "error": round(float(np.mean([abs(row["error"]) for row in flat])), 4),
    }


def run_checks(redraws: int) -> None:
    """Write the share of bags under label shift that do not fit, by check, at level 0.05."""
    lines: list[dict[str, Any]] = []
    for case in ("simulated, mixed",):
        for given in (False, True):
            alarms = []
            for seed in range(redraws):
                X, y, ids, bags = simulated(np.random.default_rng(FIRST + seed), *CASES[case][1])
                fitted = METHODS["PACC"](None).fit(X, y, clusters=ids if given else None)
                checks = fitted.estimate(bags[1][0]).checks
                alarms.append([checks.scores.p_value <= 0.05, checks.columns.p_value <= 0.05])
            for name, share in zip(("scores", "columns"), np.mean(alarms, axis=0), strict=True):
                way = "given" if given else "not given"
                lines.append({"case": case, "check": name, "clusters": way, "alarms": share})
                print(lines[-1], flush=True)
    with CHECKS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def print_tables() -> None:
    """Print the tables of the page: one line for each case and method, and the checks."""
    with SUMMARY.open(encoding="utf-8") as file:
        lines = {(x["case"], x["method"], x["clusters"]): x for x in csv.DictReader(file)}
    rows = []
    for case, method in dict.fromkeys(key[:2] for key in lines):
        if not {(case, method, "not given"), (case, method, "given")} <= lines.keys():
            continue  # it is yet to be run
        plain, given = (lines[case, method, way] for way in ("not given", "given"))
        shown = [f"{float(line['coverage']):.3f}" for line in (plain, given)]
        errors = [f"{float(line['standard_error']):.3f}" for line in (plain, given)]
        widths = [f"{float(line['width']):.3f}" for line in (plain, given)]
        rows.append(
            [
                *(case, method),
                *(f"{c} ± {e}" for c, e in zip(shown, errors, strict=True)),
                *widths,
                f"{float(given['oracle']):.3f}",
            ]
        )
    names = ["rows", "method", "coverage without", "with clusters", "width without", "with"]
    print(markdown([*names, "oracle"], rows))
    if CHECKS.exists():
        with CHECKS.open(encoding="utf-8") as file:
            found = {
                (x["case"], x["check"], x["clusters"]): x["alarms"] for x in csv.DictReader(file)
            }
        print()
        head = ["rows", "check", "alarms without", "alarms with clusters"]
        pairs = dict.fromkeys(key[:2] for key in found)
        ways = ("not given", "given")
        print(markdown(head, [[*pair, *(found[(*pair, way)] for way in ways)] for pair in pairs]))


def main() -> None:
    """Run the cases, and write one line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--redraws", type=int, default=300)
    parser.add_argument("--cases", default="", help="only cases whose name contains this")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--checks", action="store_true")
    parser.add_argument("--methods", nargs="*", default=["KDEyML", "PACC", "EMQ"])
    options = parser.parse_args()
    if options.tables:
        print_tables()
        return
    warnings.simplefilter("ignore")
    if options.checks:
        run_checks(options.redraws)
        return
    lines: dict[tuple[str, ...], dict[str, Any]] = {}
    if SUMMARY.exists():
        with SUMMARY.open(encoding="utf-8") as file:
            for line in csv.DictReader(file):
                lines[line["case"], line["method"], line["clusters"]] = line
    for case in CASES:
        if options.cases not in case:
            continue
        for method in options.methods:
            for given in (False, True):
                line = summarise(case, method, given, options.redraws)
                print(line, flush=True)
                lines[case, method, line["clusters"]] = line
                with SUMMARY.open("w", encoding="utf-8", newline="") as file:
                    writer = csv.DictWriter(file, list(line), lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(lines[key] for key in sorted(lines))


if __name__ == "__main__":
    main()
