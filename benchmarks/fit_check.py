"""Evidence on the fit check: uniform p-values under label shift, power, covariate shift.

``python benchmarks/fit_check.py`` runs what is not yet in ``build/benchmarks/fit_check.jsonl``
(about 15 minutes on 2 quiet cores), can be stopped at any time, and writes one line per case to
``benchmarks/results/fit_check.csv``; ``--table`` prints tables of ``docs/lab/checks.md``.
Every split is drawn anew, with a classifier and a checker of its own.

``--columns`` measures the column check by simulation instead: the share of bags with an alarm under
label shift, by kind of column and number of labels, in ``benchmarks/results/column_check.csv`` (a
few minutes). ``--columns-table`` prints it.

Kinds of bags: ``null`` differs from training in prevalence only (uniform on the simplex);
``unknown`` has 20 % of a class held out of training; the others change the instances themselves.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kstest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from kdey import PACC, Bags, KDEyML
from kdey.bags import as_bags
from kdey.diagnostics import FitChecker
from kdey.diagnostics.column_check import check_columns
from kdey.tables.templates import learn_columns
from summaries import RAW, RESULTS, read_raw, read_summary, update_summary

DATA = Path(os.environ.get("KDEY_DATA", Path(__file__).parents[2] / "shared" / "data"))
FILE = RAW / "fit_check.jsonl"
SUMMARY = RESULTS / "fit_check.csv"
#: What names a case in the summary.
KEYS = ("case", "data", "size")
BAGS_PER_SPLIT = 5
UNKNOWN_SHARE = 0.2
#: Share of the data to train on: the paper's, but for letter, to save time.
TRAINING_SHARE = {"letter": 0.5}
DEFAULT_TRAINING_SHARE = 0.7

Array = np.ndarray
Change = Callable[[Array, np.random.Generator], Array]


def shift_pixels(X: Array, rng: np.random.Generator) -> Array:
    """Move 8 x 8 images one pixel to the right."""
    images = X.reshape(-1, 8, 8)
    return np.concatenate([np.zeros_like(images[:, :, :1]), images[:, :, :-1]], axis=2).reshape(
        X.shape
    )


def add_noise(X: Array, rng: np.random.Generator) -> Array:
    """Add noise of half a standard deviation to every feature."""
    return X + 0.5 * X.std(axis=0) * rng.normal(size=X.shape)


def scale_units(X: Array, rng: np.random.Generator) -> Array:
    """Measure everything five per cent larger."""
    return X * 1.05


@dataclass(frozen=True)
class Case:
    """One kind of bag on one data set."""

    kind: str
    data: str
    n_splits: int
    size: int = 300
    change: Change | None = None


CASES = (
    *(Case("null", name, 100) for name in ("digits", "academic-success", "dry-bean")),
    Case("unknown", "digits", 20),
    Case("unknown", "digits", 20, 500),
    Case("unknown", "letter", 15),
    Case("unknown", "letter", 20, 500),
    Case("pixels shifted", "digits", 10, change=shift_pixels),
    Case("features noisy", "digits", 10, change=add_noise),
    Case("features noisy", "academic-success", 10, change=add_noise),
    Case("features noisy", "dry-bean", 10, change=add_noise),
    Case("units 5 % larger", "dry-bean", 10, change=scale_units),
    Case("oldest third only", "academic-success", 10),
)


def load(name: str) -> tuple[Array, Array]:
    """Return the features and labels of a data set, without its split column."""
    with gzip.open(DATA / "uci-multi" / f"{name}.csv.gz", "rt") as file:
        header, *rows = list(csv.reader(file))
    keep = [i for i, column in enumerate(header) if column not in ("split", "label")]
    X = np.array([[row[i] for i in keep] for row in rows], dtype=np.float64)
    return X, np.unique([row[-1] for row in rows], return_inverse=True)[1]


def oldest_third(X: Array, name: str) -> Array:
    """Return which students are in the oldest third at enrolment."""
    with gzip.open(DATA / "uci-multi" / f"{name}.csv.gz", "rt") as file:
        header = next(csv.reader(file))
    age = X[:, next(i for i, c in enumerate(header) if c.lower().startswith("age"))]
    return age >= np.quantile(age, 2 / 3)


def draw_bag(y: Array, prevalence: Array, size: int, rng: np.random.Generator) -> Array:
    """Return positions of a bag; a class without enough instances gives all it has."""
    counts = rng.multinomial(size, prevalence)
    own = [rng.permutation(np.flatnonzero(y == i))[:n] for i, n in enumerate(counts)]
    return np.concatenate(own)


def prevalence_of(case: Case, n_classes: int, unknown: int, rng: np.random.Generator) -> Array:
    """Return the prevalence of a bag over the classes of the pool."""
    if case.kind != "unknown":
        return rng.dirichlet(np.ones(n_classes))
    known = (1.0 - UNKNOWN_SHARE) * rng.dirichlet(np.ones(n_classes - 1))
    return np.insert(known, unknown, UNKNOWN_SHARE)


def run_split(job: tuple[int, int]) -> list[dict[str, Any]]:
    """Return the results of the bags of one split."""
    case, seed = CASES[job[0]], job[1]
    rng = np.random.default_rng([seed, job[0]])
    X, y = load(case.data)
    share = TRAINING_SHARE.get(case.data, DEFAULT_TRAINING_SHARE)
    X, X_pool, y, y_pool = train_test_split(X, y, train_size=share, stratify=y, random_state=seed)
    k, unknown = int(y.max()) + 1, int(rng.integers(y.max() + 1))
    if case.kind == "unknown":
        X, y = X[y != unknown], y[y != unknown]
    if case.kind.startswith("oldest"):
        old = oldest_third(X_pool, case.data)
        X_pool, y_pool = X_pool[old], y_pool[old]
    with threadpool_limits(1):
        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        fitted = KDEyML(classifier, cv=5, random_state=seed).fit(X, y)
        crossed, plain = FitChecker.fit(fitted), FitChecker.fit(fitted, held=False)
        out = []
        for number in range(BAGS_PER_SPLIT):
            bag = draw_bag(y_pool, prevalence_of(case, k, unknown, rng), case.size, rng)
            X_bag = X_pool[bag] if case.change is None else case.change(X_pool[bag], rng)
            found = crossed.check(X_bag, random_state=seed + number)
            points = crossed.models.posteriors(X_bag, seed + number)
            (screened,) = crossed.screen(points, Bags.whole(len(bag)), seed=seed + number)
            true = np.bincount(y_pool[bag], minlength=k)[fitted.classes_] / len(bag)
            out.append(
                {
                    "case": case.kind,
                    "data": case.data,
                    "size": case.size,
                    "seed": seed,
                    "bag": number,
                    "p": found.p_value,
                    "p_plain": plain.check(X_bag, random_state=seed + number).p_value,
                    "p_default": screened.p_value,
                    "n_null": screened.n_null,
                    "error": float(np.abs(fitted.predict(X_bag) - true).mean()),
                }
            )
    return out


def open_jobs(fraction: float) -> list[tuple[int, int]]:
    """Return what is not yet done, as (case, seed)."""
    done = {(row["case"], row["data"], row["size"], row["seed"]) for row in read_raw(FILE)}
    return [
        (number, seed)
        for number, case in enumerate(CASES)
        for seed in range(max(1, round(fraction * case.n_splits)))
        if (case.kind, case.data, case.size, seed) not in done
    ]


def run(n_jobs: int, fraction: float) -> None:
    """Run what is open; each finished split is written at once."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    jobs = open_jobs(fraction)
    with get_context("spawn").Pool(n_jobs) as workers, FILE.open("a") as file:
        for number, rows in enumerate(workers.imap_unordered(run_split, jobs), 1):
            file.write("".join(json.dumps(row) + "\n" for row in rows))
            file.flush()
            print(f"\r{number} of {len(jobs)} splits", end="", flush=True)
    print()


def summarise() -> None:
    """Write a line per case that the raw file holds to the summary."""
    rows = list(read_raw(FILE))
    lines = []
    for case in CASES:
        key = (case.kind, case.data, case.size)
        own = [row for row in rows if tuple(row[name] for name in KEYS) == key]
        if own:
            lines.append({**dict(zip(KEYS, key, strict=True)), **summary_of(own)})
    update_summary(SUMMARY, lines, KEYS)


def summary_of(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return what the tables say of the bags of a case; ``own`` is without crossed posteriors."""
    column = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    p, own = column["p"], column["p_plain"]
    return {
        "bags": len(rows),
        "uniform": float(kstest(p, "uniform").pvalue),
        "mean": float(p.mean()),
        "rejected": float((p <= 0.05).mean()),
        "own uniform": float(kstest(own, "uniform").pvalue),
        "own mean": float(own.mean()),
        "own rejected": float((own <= 0.05).mean()),
        "rejected at 0.01": float((p <= 0.01).mean()),
        "default mean": float(column["p_default"].mean()),
        "default rejected at 0.01": float((column["p_default"] <= 0.01).mean()),
        "default null bags": float(column["n_null"].mean()),
        "error": float(column["error"].mean()),
    }


#: What the table calls some kinds of bags.
CHANGES = {"null": "shares alone", "unknown": "unknown class, 20 %"}


def table() -> None:
    """Print the tables of docs/lab/checks.md."""
    lines = read_summary(SUMMARY)
    numbers = [{k: float(v) for k, v in line.items() if k not in KEYS} for line in lines]
    print("| data | bags | KS p | mean p | share <= 0.05 | own classifier: KS p, mean p |")
    print("|---|---|---|---|---|---|")
    for line, n in zip(lines, numbers, strict=True):
        if line["case"] == "null":
            print(
                f"| {line['data']} | {line['bags']} | {n['uniform']:.3f} | {n['mean']:.3f} | "
                f"{n['rejected']:.3f} | {n['own uniform']:.1g}, {n['own mean']:.3f} |"
            )
    print("\n| change | data | size | bags | rejected | own | error |")
    print("|---|---|---|---|---|---|---|")
    for line, n in zip(lines, numbers, strict=True):
        print(
            f"| {CHANGES.get(line['case'], line['case'])} | {line['data']} | {line['size']} | "
            f"{line['bags']} | {n['rejected']:.2f} | {n['own rejected']:.2f} | {n['error']:.4f} |"
        )


#: Numbers of labels of each class, rows of bags, and bags of a training set.
LABELS, BAG_SIZES, BAGS_EACH = (20, 60, 200), (300, 2000), 3
COLUMN_SUMMARY = RESULTS / "column_check.csv"


def numbers(y: Array, d: int, rng: np.random.Generator) -> Array:
    """Return d columns with a common part; the first three separate three classes."""
    common = 0.6 * rng.normal(size=(len(y), 1))
    return common + 0.8 * rng.normal(size=(len(y), d)) + 1.2 * np.eye(3, d)[y]


def with_missing(y: Array, rng: np.random.Generator) -> Array:
    """Return numbers of which a tenth to a third is missing, by class."""
    X = numbers(y, 8, rng)
    X[rng.random(X.shape) < np.array([0.1, 0.2, 0.33])[y][:, None]] = np.nan
    return X


def categories(y: Array, rng: np.random.Generator) -> pd.DataFrame:
    """Return columns of 3, 8 and 40 levels, whose frequencies differ by class."""
    frame = {}
    for n in (3, 8, 40):
        each = np.array([np.roll(1.0 / np.arange(1, n + 1), i) for i in range(3)])
        each /= each.sum(axis=1, keepdims=True)
        drawn = np.array([rng.choice(n, p=each[label]) for label in y])
        frame[f"of {n} levels"] = np.array([f"level {i}" for i in drawn], dtype=object)
    return pd.DataFrame(frame)


def texts(y: Array, rng: np.random.Generator) -> Array:
    """Return texts of a dozen words, whose frequencies differ by class."""
    each = 1.0 / np.arange(1, 2001) ** 1.05 * np.exp(0.6 * np.sin(np.outer([1, 2, 3], range(2000))))
    each /= each.sum(axis=1, keepdims=True)
    made = np.empty(len(y), dtype=object)
    for label in range(3):
        rows = np.flatnonzero(y == label)
        words = rng.choice(2000, (len(rows), 12), p=each[label])
        for row, own in zip(rows, words, strict=True):
            made[row] = " ".join(f"word{i}" for i in own)
    return made


COLUMNS: dict[str, Callable[[Array, np.random.Generator], Any]] = {
    "8 numbers": lambda y, rng: numbers(y, 8, rng),
    "300 numbers": lambda y, rng: numbers(y, 300, rng),
    "missing values": with_missing,
    "categories": categories,
    "texts": texts,
}


def run_columns(n_trainings: int) -> None:
    """Measure the level of the column check, with shares that PACC estimates from other columns."""
    lines = []
    for kind, draw in COLUMNS.items():
        for labels in LABELS:
            alarms = dict.fromkeys(BAG_SIZES, 0)
            for seed in range(n_trainings):
                rng = np.random.default_rng([seed, labels, *kind.encode()])
                y = np.repeat(np.arange(3), labels)
                learnt = learn_columns(draw(y, rng), y, 3)
                classifier = LogisticRegression()
                fitted = PACC(classifier, random_state=0).fit(numbers(y, 3, rng), y)
                for size in BAG_SIZES:
                    shares = rng.dirichlet(np.ones(3), BAGS_EACH)
                    found = np.concatenate([rng.choice(3, size, p=share) for share in shares])
                    bags = np.arange(len(found)).reshape(BAGS_EACH, size)
                    made = fitted.estimate_bags(numbers(found, 3, rng), bags, check_fit=False)
                    codes = learnt.codes(draw(found, rng))
                    verdicts = check_columns(learnt, codes, as_bags(bags, len(found)), made, 0.01)
                    alarms[size] += sum(verdict.rejected for verdict in verdicts)
            for size, n in alarms.items():
                bags_made = n_trainings * BAGS_EACH
                lines.append(
                    {"columns": kind, "labels": labels, "size": size, "bags": bags_made}
                    | {"alarms": n}
                )
                print(lines[-1], flush=True)
            update_summary(COLUMN_SUMMARY, lines, ("columns", "labels", "size"))


def column_table() -> None:
    """Print the level of the column check."""
    lines = read_summary(COLUMN_SUMMARY)
    heads = [f"{labels} labels, {size}" for labels, size in places()]
    print(f"| columns | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for kind in COLUMNS:
        cells = {
            (int(line["labels"]), int(line["size"])): int(line["alarms"]) / int(line["bags"])
            for line in lines
            if line["columns"] == kind
        }
        shown = [f"{cells[place]:.3f}" if place in cells else "" for place in places()]
        print(f"| {kind} | {' | '.join(shown)} |")
    shares = [int(line["alarms"]) / int(line["bags"]) for line in lines]
    print(f"\nbags of each cell: {lines[0]['bags']}")
    print(f"cells: mean {np.mean(shares):.4f}, highest {max(shares):.4f}")


def places() -> list[tuple[int, int]]:
    """Return the numbers of labels and rows of the columns of the table."""
    return [(labels, size) for labels in LABELS for size in BAG_SIZES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true", help="print the tables and stop")
    parser.add_argument("--columns", type=int, nargs="?", const=100, help="training sets per cell")
    parser.add_argument("--columns-table", action="store_true", help="print that table and stop")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--fraction", type=float, default=1.0, help="of the splits of each case")
    args = parser.parse_args()
    if args.columns or args.columns_table:
        if args.columns:
            with threadpool_limits(1):
                run_columns(args.columns)
        column_table()
        return
    if not args.table:
        run(args.jobs, args.fraction)
        summarise()
    table()


if __name__ == "__main__":
    main()
