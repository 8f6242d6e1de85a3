"""Coverage and width where rows are no independent draws: weights, clusters, strata, populations.

Each case redraws training data and a bag, and asks whether the 95 % interval of the second class
contains its share, whether the joint region contains the shares, and whether the interval of the
difference to the bag before contains the true one. "width / oracle" compares the mean width with
that of an oracle that knows the standard deviation of the error over all redraws: 2 x 1.96 of it.
The error is that of the estimate that the interval is built around, moved into [0, 1]: the moment
estimate, whose templates are those of the same training rows. The likelihood of EMQ takes the
posteriors as they are. Its error is smaller where they are right, as in the simulations, and far
larger where they are not; no interval that allows for wrong posteriors can follow it.
Cases of data sets draw training rows and bags from one table, scored out of fold by a logistic
regression, its largest class against the others; clusters and weights are imposed on them.

    python benchmarks/designs.py --redraws 400                 # all cases; stores the summary
    python benchmarks/designs.py --cases "30 clusters" --methods EMQ
    python benchmarks/designs.py --labels                      # with labels of some rows
    python benchmarks/designs.py --tables                      # the stored results

``--labels`` gives a random fifth, or half, of the rows of a bag their labels, and does the same for
the three estimates with labels: ``results/designs-labelled.csv``.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kdey
from cases import DATA, _read
from kdey.options import WAYS
from summaries import read_summary, update_summary

STORED = Path(__file__).parent / "results" / "designs.csv"
STORED_LABELS = STORED.with_name("designs-labelled.csv")

Rng = np.random.Generator


def beta(labels: np.ndarray, rng: Rng) -> np.ndarray:
    """Return the true posteriors of two broad, overlapping Beta classes that are equally common."""
    s = np.where(labels == 1, rng.beta(4, 2, len(labels)), rng.beta(2, 3, len(labels)))
    first, second = 12 * s * (1 - s) ** 2, 20 * s**3 * (1 - s)
    p = second / (first + second)
    return np.column_stack([1 - p, p])


#: Labels, arguments of an estimate, and the true share.
Drawn = tuple[np.ndarray, dict, float]


def independent(rng: Rng, share: float = 0.3, m: int = 500, population: int | None = None) -> Drawn:
    """Return independent rows, of a population without bounds or of so many rows."""
    if population is None:
        return (rng.random(m) < share).astype(int), {}, share
    everyone = (rng.random(population) < share).astype(int)
    return rng.permutation(everyone)[:m], {"fpc": population}, float(everyone.mean())


def weighted(rng: Rng, share: float = 0.8, rest: float = 0.02, m: int = 1_000) -> Drawn:
    """Return rows of which 1.1 % have weight ten and another share."""
    heavy = rng.random(m) < 0.011
    labels = (rng.random(m) < np.where(heavy, share, rest)).astype(int)
    truth = (0.011 * 10 * share + 0.989 * rest) / (0.011 * 10 + 0.989)
    return labels, {"sample_weight": np.where(heavy, 10.0, 1.0)}, truth


def heavier(rng: Rng, share: float = 0.6, rest: float = 0.2, m: int = 1_000) -> Drawn:
    """Return rows of which a tenth have weight five and another share."""
    heavy = rng.random(m) < 0.1
    labels = (rng.random(m) < np.where(heavy, share, rest)).astype(int)
    truth = (0.1 * 5 * share + 0.9 * rest) / (0.1 * 5 + 0.9)
    return labels, {"sample_weight": np.where(heavy, 5.0, 1.0)}, truth


def clustered(rng: Rng, share: float, n_clusters: int, size: int, correlation: float) -> Drawn:
    """Return clusters whose shares have a Beta distribution with this intra-class correlation."""
    if correlation:
        both = 1 / correlation - 1
        shares = rng.beta(share * both, (1 - share) * both, n_clusters)
    else:
        shares = np.full(n_clusters, share)
    labels = (rng.random((n_clusters, size)) < shares[:, None]).astype(int).ravel()
    clusters = np.repeat(np.arange(n_clusters), size)
    return labels, {"clusters": clusters}, share


def stratified(
    rng: Rng, n_strata: int, n_clusters: int, size: int, correlation: float = 0.05
) -> Drawn:
    """Return strata with different shares, and clusters (or rows) drawn from each of them."""
    shares = np.linspace(0.05, 0.75, n_strata)
    drawn = [clustered(rng, share, n_clusters, size, correlation) for share in shares]
    strata = np.repeat(np.arange(n_strata), n_clusters * size)
    labels = np.concatenate([labels for labels, _, _ in drawn])
    arguments = {"variance_strata": strata}
    if size > 1:
        arguments["clusters"] = np.repeat(np.arange(n_strata * n_clusters), size)
    return labels, arguments, float(shares.mean())


def finite(rng: Rng, n_strata: int = 1, share: float = 0.5) -> Drawn:
    """Return a share of the 60 clusters of 15 rows of a population, drawn within strata."""
    n_clusters, size = 60 // n_strata, 15
    if n_strata == 1:
        labels, arguments, _ = clustered(rng, 0.3, n_clusters, size, 0.1)
    else:
        labels, arguments, _ = stratified(rng, n_strata, n_clusters, size, 0.1)
    cluster = arguments["clusters"]
    kept = np.concatenate(
        [
            stratum * n_clusters + rng.permutation(n_clusters)[: int(share * n_clusters)]
            for stratum in range(n_strata)
        ]
    )
    rows = np.flatnonzero(np.isin(cluster, kept))
    drawn = {"clusters": cluster[rows], "fpc": float(60)}
    if n_strata > 1:
        drawn["variance_strata"] = arguments["variance_strata"][rows]
        drawn["fpc"] = np.full(len(rows), float(n_clusters))
    return labels[rows], drawn, float(labels.mean())


CASES: dict[str, Callable[[Rng], Drawn]] = {
    "independent": independent,
    "equal weights": lambda rng: _with_weights(independent(rng)),
    "finite population": lambda rng: independent(rng, population=800),
    "informative weights": weighted,
    "informative weights, opposed": lambda rng: weighted(rng, 0.02, 0.3),
    "ten arbitrary clusters": lambda rng: clustered(rng, 0.27, 10, 200, 0.0),
    "30 clusters": lambda rng: clustered(rng, 0.3, 30, 30, 0.1),
    "30 clusters, share 0.05": lambda rng: clustered(rng, 0.05, 30, 30, 0.1),
    "ten clusters": lambda rng: clustered(rng, 0.3, 10, 50, 0.1),
    "ten clusters, share 0.03": lambda rng: clustered(rng, 0.03, 10, 50, 0.1),
    "four clusters": lambda rng: clustered(rng, 0.3, 4, 100, 0.05),
    "20 clusters, share 0.03": lambda rng: clustered(rng, 0.03, 20, 50, 0.1),
    "20 strata of 25 rows": lambda rng: stratified(rng, 20, 25, 1, 0.0),
    "25 strata of two clusters": lambda rng: stratified(rng, 25, 2, 15),
    "ten strata of three clusters": lambda rng: stratified(rng, 10, 3, 25),
    "30 clusters, absent": lambda rng: clustered(rng, 1e-9, 30, 30, 0.0),
}
#: With labels of some rows: a case, and the share of the rows that has labels.
LABELLED = {
    "independent": (independent, 0.2),
    "finite population": (lambda rng: independent(rng, population=800), 0.2),
    "finite population, half of the labels": (lambda rng: independent(rng, population=800), 0.5),
    "informative weights": (heavier, 0.2),
    "informative weights, 1.1 % heavy": (weighted, 0.2),
    "30 clusters": (CASES["30 clusters"], 0.2),
    "30 of 60 clusters": (finite, 0.2),
    "30 of 60 clusters, half of the labels": (finite, 0.5),
    "20 strata of 25 rows": (CASES["20 strata of 25 rows"], 0.2),
    "20 strata of 25 rows, half of the labels": (CASES["20 strata of 25 rows"], 0.5),
    "25 strata of two clusters": (CASES["25 strata of two clusters"], 0.2),
    "ten strata, three of six clusters": (lambda rng: finite(rng, 10), 0.2),
    "ten strata, three of six clusters, half": (lambda rng: finite(rng, 10), 0.5),
}
METHODS = {
    "PACC": (kdey.PACC, "auto"),
    "EMQ": (kdey.EMQ, "auto"),
    "PACC, bootstrap": (kdey.PACC, "bootstrap"),
}


def _with_weights(drawn: Drawn) -> Drawn:
    labels, arguments, truth = drawn
    return labels, {**arguments, "sample_weight": np.full(len(labels), 2.5)}, truth


#: Data sets whose rows are used: of scikit-learn, and of a folder of public ones.
BUNDLED = {"breast cancer": datasets.load_breast_cancer, "digits": datasets.load_digits}
FILES = {
    "phishing": "uci-extra/phishing",
    "cmc": "uci-extra/cmc",
    "yeast": "uci-extra/yeast",
    "abalone": "uci-extra/abalone",
    "dry-bean": "uci-multi/dry-bean",
}
#: Sets of other benchmarks that take their rows from here.
OTHERS = {
    "spambase": "uci-binary/spambase",
    "wine-q-white": "uci-binary/wine-q-white",
    "academic-success": "uci-multi/academic-success",
    "pendigits": "uci-extra/pendigits",
}
DESIGNS = ("weights", "clusters")


@cache
def scored(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return posteriors out of fold and labels of a data set."""
    if name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True)
    else:
        X, y = _read(DATA / f"{(FILES | OTHERS)[name]}.csv.gz")
    values, counts = np.unique(y, return_counts=True)
    y = (y == values[counts.argmax()]).astype(int)
    some = np.random.default_rng(0).permutation(len(y))[:4_000]
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return cross_val_predict(classifier, X[some], y[some], method="predict_proba"), y[some]


class Population:
    """Where training rows and bags of one redraw come from."""

    def __init__(self, case: str, rng: Rng) -> None:
        name, _, design = case.partition(", ")
        self.rng, self.design = rng, design
        self.is_synthetic = name not in (*BUNDLED, *FILES)
        if self.is_synthetic:
            self.case = CASES[case]
            return
        # The table is the population: rows are drawn with replacement, for training and for bags.
        self.p, self.y = scored(name)
        self.train = rng.integers(len(self.y), size=600)

    def training(self) -> tuple[np.ndarray, np.ndarray]:
        """Return posteriors and labels."""
        if self.is_synthetic:
            y = np.arange(1_000) % 2
            return beta(y, self.rng), y
        return self.p[self.train], self.y[self.train]

    def bag(self) -> tuple[np.ndarray, dict, float]:
        """Return posteriors, arguments of an estimate, and the true share."""
        rng = self.rng
        if self.is_synthetic:
            labels, arguments, truth = self.case(rng)
            return beta(labels, rng), arguments, truth
        drawn = {
            "weights": lambda: weighted(rng, 0.7, 0.2),
            "clusters": lambda: clustered(rng, 0.3, 30, 30, 0.1),
        }
        labels, arguments, truth = drawn[self.design]()
        own = [np.flatnonzero(self.y == label) for label in (0, 1)]
        rows = np.where(
            labels == 1, rng.choice(own[1], len(labels)), rng.choice(own[0], len(labels))
        )
        return self.p[rows], arguments, truth


def measure(case: str, method: str, redraws: int, seed: int = 0) -> dict[str, object]:
    """Return coverages, and the width relative to that of an oracle."""
    quantifier, way = METHODS[method]
    hits, widths, errors, before = [], [], [], None
    for number in range(redraws):
        population = Population(case, np.random.default_rng([seed, number]))
        fitted = quantifier().fit_posteriors(*population.training())
        p, arguments, truth = population.bag()
        design = {name: arguments.pop(name, None) for name in ("fpc", "variance_strata")}
        options = kdey.Options(method=way, n_replicates=200, check_fit=False, **design)
        made = fitted.estimate_posteriors(p, options=options, **arguments)
        inside = [made.low[1] <= truth <= made.high[1]]
        inside.append(made.region.contains([1 - truth, truth]))
        change = made if before is None else kdey.difference(made, before[0])
        moved = truth if before is None else truth - before[1]
        inside.append(change.low[1] <= moved <= change.high[1])
        before = made, truth
        hits.append(inside)
        widths.append(made.high[1] - made.low[1])
        centre = made.uncertainty.centre()
        errors.append(np.clip((made.estimate if centre is None else centre)[1], 0, 1) - truth)
    covered, region, changed = np.mean(hits, axis=0)
    return {
        "case": case,
        "method": method,
        "redraws": redraws,
        "covered": round(float(covered), 4),
        "error": round(float(np.sqrt(max(covered * (1 - covered), 1e-4) / redraws)), 4),
        "region": round(float(region), 4),
        "difference": round(float(changed), 4),
        "width": round(float(np.mean(widths)), 4),
        "ratio": round(float(np.mean(widths) / (2 * 1.96 * np.std(errors))), 3),
    }


def measure_labels(case: str, method: str, redraws: int) -> list[dict[str, object]]:
    """Return coverages and relative widths of the three estimates with labels."""
    draw, part = LABELLED[case]
    found: dict[str, list[tuple[float, ...]]] = {way: [] for way in WAYS}
    for number in range(redraws):
        rng = np.random.default_rng([30, number])
        y = np.arange(1_000) % 2
        fitted = METHODS[method][0]().fit_posteriors(beta(y, rng), y)
        labels, arguments, truth = draw(rng)
        known = rng.permutation(len(labels))[: int(part * len(labels))]
        design = {name: arguments.pop(name, None) for name in ("fpc", "variance_strata")}
        options = kdey.Options(check_fit=False, **design)
        made = fitted.estimate_posteriors(
            beta(labels, rng), labelled=(known, labels[known]), options=options, **arguments
        )
        for way, one in made.alternatives.items():
            inside = one.low[1] <= truth <= one.high[1]
            joint = one.region.contains([1 - truth, truth])
            centre = np.clip(one.uncertainty.unclipped[1], 0, 1)
            found[way].append((inside, joint, one.high[1] - one.low[1], centre - truth))
    rows = []
    for way, values in found.items():
        covered, region, width, _ = np.mean(values, axis=0)
        spread = 2 * 1.96 * np.std(values, axis=0)[3]
        numbers = {
            "covered": covered,
            "error": np.sqrt(max(covered * (1 - covered), 1e-4) / redraws),
            "region": region,
            "ratio": width / spread,
        }
        rounded = {name: f"{value:.4f}" for name, value in numbers.items()}
        rows.append({"case": case, "method": method, "way": way, "redraws": redraws, **rounded})
    return rows


def print_labelled() -> None:
    """Print the stored results of estimates with labels."""
    print("| case | method | estimate | covered | standard error | region | width / oracle |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    order = [(case, method) for case in LABELLED for method in METHODS]
    rows = read_summary(STORED_LABELS)
    for row in sorted(rows, key=lambda row: order.index((row["case"], row["method"]))):
        values = [row["case"], row["method"], row["way"]]
        values += [f"{float(row[name]):.3f}" for name in ("covered", "error", "region")]
        print(f"| {' | '.join([*values, format(float(row['ratio']), '.2f')])} |")


def all_cases() -> list[str]:
    """Return the names of all cases, those of data sets last."""
    return [*CASES, *(f"{name}, {design}" for name in (*BUNDLED, *FILES) for design in DESIGNS)]


def store(row: dict[str, object]) -> None:
    """Put a line into the stored results, in the place of an older one."""
    lines = {}
    if STORED.exists():
        with STORED.open(newline="") as file:
            lines = {(line["case"], line["method"]): line for line in csv.DictReader(file)}
    lines[row["case"], row["method"]] = row
    order = [(case, method) for case in all_cases() for method in METHODS]
    with STORED.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines[key] for key in order if key in lines)


def print_tables() -> None:
    """Print the stored results."""
    with STORED.open(newline="") as file:
        rows = list(csv.DictReader(file))
    print("| case | method | covered | standard error | region | difference | width / oracle |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    names = ("covered", "error", "region", "difference")
    for row in rows:
        values = [row["case"], row["method"], *(f"{float(row[name]):.3f}" for name in names)]
        print(f"| {' | '.join([*values, format(float(row['ratio']), '.2f')])} |")


def main() -> None:
    """Measure cases and print one line for each, or print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--redraws", type=int, default=400)
    parser.add_argument("--labels", action="store_true", help="with labels of some rows")
    parser.add_argument("--tables", action="store_true")
    arguments = parser.parse_args()
    if arguments.tables:
        print_tables()
        print()
        print_labelled()
        return
    warnings.simplefilter("ignore")
    if arguments.labels:
        for case in arguments.cases or LABELLED:
            for method in arguments.methods[:2]:
                rows = measure_labels(case, method, arguments.redraws)
                for row in rows:
                    print(*row.values(), flush=True)
                update_summary(STORED_LABELS, rows, ["case", "method", "way"])
        return
    for case in arguments.cases or all_cases():
        is_synthetic = case in CASES
        for method in arguments.methods if is_synthetic else arguments.methods[:2]:
            row = measure(case, method, arguments.redraws)
            print(*row.values(), flush=True)
            store(row)


if __name__ == "__main__":
    main()
