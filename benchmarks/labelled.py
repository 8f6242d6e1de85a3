"""Estimates with labels of the new data: error and coverage under five kinds of shift.

Five sets, bags of 1,000 instances of which n have labels, EMQ with BCTS on logistic regression:

* ``label shift``: nothing but the prevalences has changed;
* ``units``: all features are multiplied, as by another unit or camera (by 1.02 on dry-bean, by 1.1
  elsewhere);
* ``noise``: half a standard deviation of noise is added to each feature;
* ``covariate shift``: instances are drawn by an exponential tilt along the first principal
  component, which keeps p(y | x);
* ``unknown class``: the last class is absent from training; instances of it, 15 % of each bag, are
  labelled as the first class.

``--test`` measures how often the test of label shift rejects, with training sets redrawn: under
label shift on four sets (its size), and on dry-bean with features scaled by 1.02 (its power).

Pools are scored once and bags are drawn from them with replacement, so that the pool is the
population. ``--run`` adds rounds of 50 bags to ``build/benchmarks/labelled.jsonl``, all cells in
turn, until each has ``--bags``; stopped, it goes on from there. ``--summary`` writes
``results/labelled.csv``, ``--table`` prints it, ``--figure`` draws ``docs/figures/labelled.png``.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cases import DATA, _read, quiet
from kdey import EMQ, KDEyML
from kdey.simplex import sample_uniform
from summaries import RAW, RESULTS, read_raw, read_summary

FILE, SUMMARY = RAW / "labelled.jsonl", RESULTS / "labelled.csv"
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "labelled.png"
SETS = (
    *("uci-multi/dry-bean", "uci-multi/academic-success", "uci-multi/wine-quality"),
    *("uci-extra/pendigits", "uci-extra/page-blocks"),
)
SHIFTS = ("label shift", "units", "noise", "covariate shift", "unknown class")
LABELS = (20, 50, 200, 500)
WAYS = ("label-shift", "labels", "prediction-powered")
SIZE, ROUND, UNKNOWN_SHARE, EXPECTED = 1_000, 50, 0.15, 5.0
#: Training instances at most: sets of the size at which people have labels.
TRAINING = 3_000
KEYS = ("method", "set", "shift", "labels")
TEST_FILE, TEST_SUMMARY = RAW / "labelled-test.jsonl", RESULTS / "labelled-test.csv"
#: Sets of the test, and first seed of its splits: those from 0 to 59 were looked at to design it.
TEST_SETS = SETS[:4]
TEST_FIRST, TEST_BAGS, TEST_LABELS = 1_000, 10, (20, 50, 200)
TEST_KEYS = ("method", "set", "shift", "labels")


@dataclass(frozen=True, eq=False)
class Pool:
    """A fitted quantifier, and a scored population to draw bags from."""

    quantifier: Any
    posteriors: np.ndarray
    codes: np.ndarray
    tilt: np.ndarray | None
    unknown: np.ndarray | None

    def bag(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return posteriors and labels of a bag, and the prevalence of its population."""
        k = len(self.quantifier.classes_)
        if self.tilt is not None:
            w = np.exp(rng.normal() * self.tilt)
            truth = np.bincount(self.codes, weights=w, minlength=k) / w.sum()
            drawn = rng.choice(len(w), SIZE, p=w / w.sum())
            return self.posteriors[drawn], self.codes[drawn], truth
        truth = sample_uniform(k, 1, rng)[0]
        members = [np.flatnonzero((self.codes == i) & ~self._strange) for i in range(k)]
        labels = rng.choice(k, SIZE, p=truth)
        drawn = np.empty(SIZE, dtype=np.int64)
        for i in range(k):
            drawn[labels == i] = rng.choice(members[i], int((labels == i).sum()))
        if self.unknown is not None:
            strange = rng.random(SIZE) < UNKNOWN_SHARE
            drawn[strange] = rng.choice(self.unknown, int(strange.sum()))
            labels = np.where(strange, 0, labels)
            truth = (1 - UNKNOWN_SHARE) * truth + UNKNOWN_SHARE * np.eye(k)[0]
        return self.posteriors[drawn], labels, truth

    @property
    def _strange(self) -> np.ndarray:
        mask = np.zeros(len(self.codes), dtype=bool)
        if self.unknown is not None:
            mask[self.unknown] = True
        return mask


def make_quantifier(method: str) -> Any:
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    if method == "EMQ-BCTS":
        return EMQ(classifier, calibration="bcts", random_state=0)
    return KDEyML(classifier, bandwidth=0.1, random_state=0)


@cache
def split(name: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, y = _read(DATA / f"{name}.csv.gz")
    classes, counts = np.unique(y, return_counts=True)
    keep = np.isin(y, classes[counts >= 40])
    X, y = X[keep], y[keep]
    n = min(TRAINING, len(y) // 2)
    return tuple(train_test_split(X, y, train_size=n, stratify=y, random_state=seed))


@cache
def fitted(name: str, method: str, known_only: bool) -> Any:
    X, _, y, _ = split(name)
    keep = y != np.unique(y)[-1] if known_only else np.ones(len(y), dtype=bool)
    return make_quantifier(method).fit(X[keep], y[keep])


@cache
def make_pool(name: str, shift: str, method: str, scale: float | None = None) -> Pool:
    """Return the pool of a set under a shift, scored once."""
    X_train, X, _, y = split(name)
    known_only = shift == "unknown class"
    quantifier = fitted(name, method, known_only)
    tilt = unknown = None
    spread = X_train.std(axis=0)
    if shift == "units":
        X = X * (scale or (1.02 if name.endswith("dry-bean") else 1.1))
    if shift == "noise":
        X = X + 0.5 * spread * np.random.default_rng(0).normal(size=X.shape)
    if shift == "covariate shift":
        z = (X - X_train.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        first = np.linalg.svd(z - z.mean(axis=0), full_matrices=False)[2][0]
        tilt = 0.7 * (z @ first) / (z @ first).std()
    classes = list(quantifier.classes_)
    if known_only:
        unknown = np.flatnonzero(y == np.unique(y)[-1])
    codes = np.array([classes.index(label) if label in classes else 0 for label in y])
    posteriors = quantifier.classifier_.predict_proba(X)
    return Pool(quantifier, posteriors, codes, tilt, unknown)


def one_round(pool: Pool, n: int, seed: tuple[int, ...], n_bags: int = ROUND) -> dict[str, Any]:
    """Return sums over a round of bags: errors, widths, classes covered, rejections."""
    rng = np.random.default_rng(list(seed))
    sums: dict[str, float] = defaultdict(float)
    for _ in range(n_bags):
        p, y, truth = pool.bag(rng)
        positions = rng.choice(SIZE, n, replace=False)
        labels = pool.quantifier.classes_[y[positions]]
        result = pool.quantifier.estimate_posteriors(
            p, labelled=(positions, labels), check_fit=False
        )
        frequent = n * truth >= EXPECTED
        sums["frequent"] += int(frequent.sum())
        sums["classes"] += len(truth)
        for way, part in result.alternatives.items():
            covered = (part.low <= truth) & (truth <= part.high)
            sums[f"{way} error"] += float(np.abs(part.estimate - truth).mean())
            sums[f"{way} width"] += float((part.high - part.low).mean())
            sums[f"{way} covered"] += int(covered.sum())
            sums[f"{way} frequent covered"] += int(covered[frequent].sum())
        sums["rejected"] += int(result.shift_test.rejected)
    return {"bags": n_bags, **{name: round(value, 6) for name, value in sums.items()}}


def cells(method: str) -> Iterator[tuple[str, str, str, int]]:
    for n in LABELS:
        for name in SETS:
            for shift in SHIFTS:
                yield method, name, shift, n


def run(method: str, bags: int, only: str) -> None:
    """Add rounds to all cells in turn until each has so many bags."""
    quiet()
    FILE.parent.mkdir(parents=True, exist_ok=True)
    done = {(*(row[key] for key in KEYS), row["round"]) for row in read_raw(FILE)}
    for number in range(-(-bags // ROUND)):
        for index, cell in enumerate(cells(method)):
            if (*cell, number) in done or only not in f"{cell[1]} {cell[2]}":
                continue
            sums = one_round(make_pool(cell[1], cell[2], method), cell[3], (18, index, number))
            row = {**dict(zip(KEYS, cell, strict=True)), "round": number, **sums}
            with FILE.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        print("round", number, flush=True)


def run_test(method: str, splits: int) -> None:
    """Add redrawn training sets to the rejections of the test."""
    quiet()
    TEST_FILE.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["method"], row["set"], row["split"]) for row in read_raw(TEST_FILE)}
    for number in range(splits):
        for index, name in enumerate(TEST_SETS):
            if (method, name, number) in done:
                continue
            X, X_pool, y, y_pool = split.__wrapped__(name, TEST_FIRST + number)
            quantifier = make_quantifier(method).fit(X, y)
            codes = np.searchsorted(quantifier.classes_, y_pool)
            scales = {"label shift": 1.0, "units": 1.02} if index == 0 else {"label shift": 1.0}
            for shift, scale in scales.items():
                posteriors = quantifier.classifier_.predict_proba(scale * X_pool)
                pool = Pool(quantifier, posteriors, codes, None, None)
                for n in TEST_LABELS:
                    sums = one_round(pool, n, (19, index, number, n), TEST_BAGS)
                    row = dict(zip(TEST_KEYS, (method, name, shift, n), strict=True))
                    row |= {"split": number, "bags": TEST_BAGS, "rejected": sums["rejected"]}
                    with TEST_FILE.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")


def summarise_test() -> None:
    """Write the share of rejections of every cell, with the standard error over splits."""
    shares: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in read_raw(TEST_FILE):
        shares[tuple(row[key] for key in TEST_KEYS)].append(row["rejected"] / row["bags"])
    lines = [",".join((*TEST_KEYS, "splits", "bags", "rejected", "standard error"))]
    for cell, values in sorted(shares.items()):
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        numbers = (len(values), TEST_BAGS * len(values), f"{np.mean(values):.4f}", f"{error:.4f}")
        lines.append(",".join(map(str, (*cell, *numbers))))
    TEST_SUMMARY.write_text("\n".join(lines) + "\n", encoding="utf-8")


def summarise() -> None:
    """Write the means of every cell."""
    import csv

    totals: dict[tuple[Any, ...], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    if not FILE.exists():
        return
    for row in read_raw(FILE):
        total = totals[tuple(row[key] for key in KEYS)]
        for name, value in row.items():
            if name not in (*KEYS, "round"):
                total[name] += value
    rows = []
    for cell, t in sorted(totals.items()):
        row = {**dict(zip(KEYS, cell, strict=True)), "bags": int(t["bags"])}
        for way in WAYS:
            row[f"{way} error"] = t[f"{way} error"] / t["bags"]
            row[f"{way} width"] = t[f"{way} width"] / t["bags"]
            row[f"{way} covered"] = t[f"{way} covered"] / t["classes"]
            frequent = t[f"{way} frequent covered"] / t["frequent"] if t["frequent"] else np.nan
            row[f"{way} frequent covered"] = frequent
        rows.append({key: f"{v:.5g}" if isinstance(v, float) else v for key, v in row.items()})
    with SUMMARY.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def table() -> None:
    """Print error and coverage (classes with five expected labels) of every cell."""
    print(
        "| set | shift | labels | bags | error: label shift / labels / prediction-powered "
        "| coverage |\n|---|---|---|---|---|---|"
    )
    for row in read_summary(SUMMARY):
        errors = " / ".join(f"{float(row[f'{way} error']):.4f}" for way in WAYS)
        covered = " / ".join(f"{float(row[f'{way} frequent covered']):.3f}" for way in WAYS)
        print(
            f"| {row['set'].split('/')[1]} | {row['shift']} | {row['labels']} | {row['bags']} "
            f"| {errors} | {covered} |"
        )
    for row in read_summary(TEST_SUMMARY):
        print(*row.values(), sep=" | ")


def figure() -> None:
    """Draw error and coverage against the number of labels, the mean over sets, by shift."""
    import matplotlib.pyplot as plt

    rows = [row for row in read_summary(SUMMARY) if row["method"] == "EMQ-BCTS"]
    figure, axes = plt.subplots(2, len(SHIFTS), figsize=(13, 5), sharex=True, sharey="row")
    colours = dict(zip(WAYS, ("#b2182b", "#777777", "#2166ac"), strict=True))
    for column, shift in enumerate(SHIFTS):
        for way in WAYS:
            points = [
                [
                    [
                        float(row[f"{way} {what}"])
                        for row in rows
                        if row["shift"] == shift and int(row["labels"]) == n
                    ]
                    for n in LABELS
                ]
                for what in ("error", "covered")
            ]
            for axis, values in zip(axes[:, column], points, strict=True):
                means = [np.mean(v) if v else np.nan for v in values]
                axis.plot(LABELS, means, "o-", color=colours[way], label=way, markersize=4)
        axes[0, column].set_title(shift, fontsize=10)
        axes[1, column].axhline(0.95, color="black", linewidth=0.6, linestyle=":")
        axes[1, column].set_xlabel("labels")
        axes[1, column].set_xscale("log")
        axes[1, column].set_xticks(LABELS, [str(n) for n in LABELS])
        axes[1, column].minorticks_off()
    axes[0, 0].set_yscale("log")
    axes[0, 0].set_ylabel("mean absolute error")
    axes[1, 0].set_ylabel("coverage of 95 % limits")
    axes[0, 0].legend(fontsize=7, frameon=False)
    figure.tight_layout()
    figure.savefig(FIGURE, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--test", type=int, default=0, metavar="SPLITS")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--figure", action="store_true")
    parser.add_argument("--bags", type=int, default=2_000)
    parser.add_argument("--method", default="EMQ-BCTS", choices=("EMQ-BCTS", "KDEy-ML"))
    parser.add_argument("--only", default="", help="part of the name of a set and a shift")
    options = parser.parse_args()
    if options.run:
        run(options.method, options.bags, options.only)
    if options.test:
        run_test(options.method, options.test)
    if options.summary:
        summarise()
        summarise_test()
    if options.table:
        table()
    if options.figure:
        figure()
