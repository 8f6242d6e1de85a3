"""Coverage and width of the default's limits, with 5, 8, 20 and all labels of one class.

Every repetition redraws the training set, the class that has few labels, and twenty bags from the
other rows of a real set: half of them with prevalences uniform on the simplex, half with one class
at 0.9 or more. Bags are drawn without replacement, so that each is a fresh sample of the
population. Outcomes go to ``build/benchmarks/coverage_default.jsonl`` (repetitions that it has are
skipped, so a stopped run goes on where it was), and one line per class to
``results/coverage_default.csv``, from which ``--tables`` prints those of docs/lab/coverage.md.

    python benchmarks/coverage_default.py --redraws 200
    python benchmarks/coverage_default.py --estimator Quantifier --redraws 40 --bags 50
    python benchmarks/coverage_default.py --tables
"""

from __future__ import annotations

import argparse
import inspect
import json
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import fsum
from typing import Any

import numpy as np
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import kdey
from cases import DATA, _read
from printing import markdown
from summaries import RAW, RESULTS, read_raw, read_summary, update_summary

FILE = RAW / "coverage_default.jsonl"
SUMMARY = RESULTS / "coverage_default.csv"
LEVELS, TARGETS = (0.9, 0.95), ("population", "bag")
FEW = (0, 5, 8, 20)
#: First seed: lower ones were looked at while the limits were being chosen.
FIRST = 1_000
KEYS = ("estimator", "source", "few", "class", "scarce", "target", "level")
#: A class fails if the upper 99 % bound of its coverage is this far below nominal.
MARGIN = 0.07


@dataclass(frozen=True)
class Source:
    """A real set: its file, the smallest class that is kept, training rows, and size of a bag."""

    file: str
    smallest: int
    training: int
    bag: int


SOURCES = {
    "cmc": Source("uci-extra/cmc", 1, 500, 100),
    "academic-success": Source("uci-multi/academic-success", 1, 500, 300),
    "phishing": Source("uci-extra/phishing", 1, 500, 100),
    "yeast": Source("uci-extra/yeast", 100, 500, 100),
    "wine-quality": Source("uci-multi/wine-quality", 100, 600, 100),
    "abalone": Source("uci-extra/abalone", 200, 600, 100),
    "dry-bean": Source("uci-multi/dry-bean", 1, 600, 300),
    "pendigits": Source("uci-extra/pendigits", 1, 600, 300),
    "ctg.3": Source("uci-binary/ctg.3", 1, 400, 100),
    "spambase": Source("uci-binary/spambase", 1, 400, 300),
    "wine-q-white": Source("uci-binary/wine-q-white", 1, 400, 300),
}


@cache
def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and label codes of a set, without its smallest classes."""
    source = SOURCES[name]
    X, y = _read(DATA / f"{source.file}.csv.gz")
    codes, counts = np.unique(y, return_inverse=True, return_counts=True)[1:]
    keep = counts[codes] >= source.smallest
    return X[keep], np.unique(codes[keep], return_inverse=True)[1]


def make_estimator(name: str) -> Any:
    """Return an estimator by its name in kdey, with standardised logistic regression if it can."""
    kind = getattr(kdey, name)
    if "classifier" not in inspect.signature(kind).parameters:
        return kind()
    return kind(classifier=make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)))


def split(
    y: np.ndarray, n: int, scarce: int | None, few: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the training set and all others."""
    order = rng.permutation(len(y))
    training = order[:n]
    if scarce is not None:
        labels = order[y[order] == scarce][:few]
        training = np.concatenate([training[y[training] != scarce], labels])
    return training, np.setdiff1d(order, training)


def draw_bags(
    labels: np.ndarray, k: int, size: int, n_bags: int, rng: np.random.Generator
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Return the rows of the bags, the prevalences behind them, and their realised shares.

    Prevalences that ask for more rows of a class than there are get drawn again.
    """
    pools = [np.flatnonzero(labels == label) for label in range(k)]
    bags, truths, shares = [], [], []
    while len(bags) < n_bags:
        truth = rng.dirichlet(np.ones(k))
        if len(bags) % 2:
            truth = 0.1 * truth + 0.9 * np.eye(k)[rng.integers(k)]
        counts = rng.multinomial(size, truth)
        if any(count > len(pool) for count, pool in zip(counts, pools, strict=True)):
            continue
        parts = zip(pools, counts, strict=True)
        bags.append(np.concatenate([rng.choice(pool, n, replace=False) for pool, n in parts]))
        truths.append(truth)
        shares.append(counts / size)
    return bags, np.array(truths), np.array(shares)


def repetition(estimator: str, name: str, few: int, seed: int, n_bags: int) -> dict[str, Any]:
    """Return the outcomes of one redraw: per target and level, sums over the bags by class."""
    X, y = load(name)
    source, k = SOURCES[name], int(y.max()) + 1
    rng = np.random.default_rng([seed, few])
    scarce = seed % k if few else None
    training, others = split(y, source.training, scarce, few, rng)
    bags, truth, shares = draw_bags(y[others], k, source.bag, n_bags, rng)
    quantifier = make_estimator(estimator).fit(X[training], y[training])
    pool = X[others][np.concatenate(bags)]
    parts = np.split(np.arange(len(pool)), np.cumsum([len(bag) for bag in bags])[:-1])
    outcomes = {}
    for target in TARGETS:
        true = truth if target == "population" else shares
        for level in LEVELS:
            made = quantifier.estimate_bags(
                pool, parts, target=target, confidence=level, check_fit=False
            )
            covered = (made.low <= true + 1e-9) & (true <= made.high + 1e-9)
            outcomes[f"{target} {level:g}"] = {
                "covered": covered.sum(axis=0).tolist(),
                "corners": covered[1::2].sum(axis=0).tolist(),
                "width": np.round((made.high - made.low).sum(axis=0), 4).tolist(),
                "error": np.round(np.abs(made.estimate - true).sum(axis=0), 4).tolist(),
            }
    return {"scarce": scarce, "bags": n_bags, "outcomes": outcomes}


def work(options: argparse.Namespace) -> None:
    """Run the repetitions that the raw file does not have."""
    done = {record["key"] for record in read_raw(FILE)}
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with FILE.open("a", encoding="utf-8") as file, threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(FIRST, FIRST + options.redraws):
            for name in options.sources:
                for few in options.few:
                    place = [options.estimator, name, few, seed, options.bags]
                    key = "/".join(map(str, place))
                    if key in done:
                        continue
                    row = {"key": key, "estimator": options.estimator, "source": name, "few": few}
                    row |= repetition(*place)
                    file.write(json.dumps(row, separators=(",", ":")) + "\n")
                    file.flush()


def summarise() -> None:
    """Write one line per class to the summary: means over redraws, and the clustered bound."""
    shares: dict[tuple[Any, ...], list[tuple[float, ...]]] = defaultdict(list)
    for record in read_raw(FILE):
        n = record["bags"]
        for place, outcome in record["outcomes"].items():
            target, level = place.rsplit(" ", 1)
            columns = zip(*(outcome[name] for name in MEASURES), strict=True)
            for label, (covered, corners, width, error) in enumerate(columns):
                role = label == record["scarce"]
                head = (record["estimator"], record["source"], record["few"], label, role)
                values = (covered / n, corners / (n // 2), width / n, error / n)
                shares[*head, target, level].append(values)
    rows = []
    for place, values in sorted(shares.items()):
        table = np.array(values)
        means, r = table.mean(axis=0), len(table)
        spread = float(table[:, 0].std(ddof=1) / np.sqrt(r)) if r > 1 else np.nan
        bound = float(means[0] + stats.t.ppf(0.99, max(r - 1, 1)) * spread)
        named = dict(zip(MEASURES, means.tolist(), strict=True))
        rows.append({**dict(zip(KEYS, place, strict=True)), "redraws": r, **named, "bound": bound})
    update_summary(SUMMARY, rows, KEYS)


MEASURES = ("covered", "corners", "width", "error")


def cells(estimator: str, target: str, level: float) -> Iterator[tuple[Any, ...]]:
    """Yield a line of the table per set and number of labels, means over classes and redraws."""
    key = (estimator, target, f"{level:g}")
    lines = [
        row
        for row in read_summary(SUMMARY)
        if (row["estimator"], row["target"], row["level"]) == key
    ]
    for source in SOURCES:
        for few in FEW:
            cell = [row for row in lines if (row["source"], row["few"]) == (source, str(few))]
            if cell:
                yield (source, few or "all", *_line(cell, level))


def _line(cell: list[dict[str, str]], level: float) -> list[Any]:
    """Return redraws and measures over the classes of a set with so many labels."""
    total = sum(int(row["redraws"]) for row in cell)
    redraws = round(total / len({row["class"] for row in cell}))
    # Exact sums: a product of matrices rounds otherwise on another processor, and a share that lies
    # between two numbers of three decimals would be printed as either.
    covered, corners, width, error = (
        fsum(int(row["redraws"]) * float(row[name]) for row in cell) / total for name in MEASURES
    )
    failing = sum(float(row["bound"]) < level - MARGIN for row in cell if int(row["redraws"]) > 1)
    lowest = min(float(row["covered"]) for row in cell)
    shares = [f"{covered:.3f}", f"{corners:.3f}", f"{lowest:.3f}"]
    return [redraws, *shares, failing, f"{width:.3f}", f"{width / error:.1f}"]


def tables(estimator: str) -> None:
    """Print a table per target and level."""
    head = ["data", "labels", "redraws", "covered", "corners", "lowest class"]
    head += ["classes that fail", "width", "width / error"]
    for target in TARGETS:
        for level in reversed(LEVELS):
            print(f"\n{target}, {level:.0%}\n")
            print(markdown(head, cells(estimator, target, level)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--estimator", default="KDEyML", help="name of a class of kdey")
    parser.add_argument("--redraws", type=int, default=0)
    parser.add_argument("--bags", type=int, default=20)
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--few", nargs="+", type=int, default=list(FEW), help="0: all labels")
    parser.add_argument("--tables", action="store_true")
    options = parser.parse_args()
    if options.redraws:
        work(options)
    if options.redraws or not options.tables:
        summarise()
    if options.tables:
        tables(options.estimator)


if __name__ == "__main__":
    main()
