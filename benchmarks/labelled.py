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

The same bags show how often the test of label shift rejects: under label shift (its size), and on
dry-bean with features scaled by 1.02 (its power).

A training set is an eighth of its set, at most 3,000 instances, and redrawn ``SPLITS`` times,
because the errors of templates are the same in all bags of one training set. The rest of the set is
scored once per training set, and bags are drawn from it with replacement: it is their population.
Its own classes differ from those behind the training set as much as an independent sample of its
size does, which is why it must be much larger than the training set: with halves the templates
would have twice the variance that any limits can know of.

A bag has its first 20, 50, 200 and 500 instances labelled in turn. All bags of a training set and a
shift are solved together; the test, most of the time, is made on every fourth. ``--run`` adds one
training set of all cells after another to ``build/benchmarks/labelled.jsonl``; stopped, it goes on
from there. ``--few`` measures intervals and joint regions of populations that are known exactly,
simulated ones and the rows of real sets that a classifier has scored once, with 5 to 50 labels of
the bag, regions also without what score intervals know ("plain joint"), and intervals of bags of
two or three rows by CC: ``results/labelled-few.csv``. ``--summary`` writes
``results/labelled.csv``, ``--table`` prints it, ``--few-table`` that of few labels, ``--figure``
draws ``docs/figures/labelled.png``.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
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
from kdey import CC, EMQ, KDEyML
from kdey.intervals.region import region_from_covariance
from kdey.labelled import estimate_labelled_bags, labelled_sample
from kdey.options import Options
from kdey.simplex import sample_uniform
from populations import BORDER, INNER, SCORED, SYNTHETIC, scored_population
from summaries import RAW, RESULTS, read_raw, read_summary, update_summary

FILE, SUMMARY = RAW / "labelled.jsonl", RESULTS / "labelled.csv"
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "labelled.png"
SETS = (
    *("uci-multi/dry-bean", "uci-multi/academic-success", "uci-multi/wine-quality"),
    *("uci-extra/pendigits", "uci-extra/page-blocks"),
)
SHIFTS = ("label shift", "units", "noise", "covariate shift", "unknown class")
LABELS = (20, 50, 200, 500)
WAYS = ("label-shift", "labels", "prediction-powered")
SIZE, UNKNOWN_SHARE, EXPECTED = 1_000, 0.15, 5.0
#: Training sets, and training instances at most: a part of the set, so that the rest is large.
SPLITS, PART, TRAINING = 40, 8, 3_000
#: Every how many bags label shift is tested.
TESTED = 4
#: Known populations: labels, size of their bags, and sizes of bags without any.
FEW, FEW_SIZE, TINY, FEW_SUMMARY = (5, 20, 50), 300, (2, 3), RESULTS / "labelled-few.csv"
FEW_SETS = ("dirichlet", "beta", "softmax", *SCORED)
KEYS = ("method", "set", "shift", "labels")


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


def split(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, y = _whole(name)
    n = min(TRAINING, len(y) // PART)
    return tuple(train_test_split(X, y, train_size=n, stratify=y, random_state=seed))


@cache
def _whole(name: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = _read(DATA / f"{name}.csv.gz")
    classes, counts = np.unique(y, return_counts=True)
    keep = np.isin(y, classes[counts >= 80])  # ten for training
    return X[keep], y[keep]


def make_pools(name: str, method: str, seed: int) -> Iterator[tuple[str, Pool]]:
    """Give the pools of a training set under every shift, each scored once."""
    X_train, X, y_train, y = split(name, seed)
    last = np.unique(y)[-1]
    whole = make_quantifier(method).fit(X_train, y_train)
    known = make_quantifier(method).fit(X_train[y_train != last], y_train[y_train != last])
    spread = X_train.std(axis=0)
    noise = np.random.default_rng(seed).normal(size=X.shape)
    moved = {
        "units": X * (1.02 if name.endswith("dry-bean") else 1.1),
        "noise": X + 0.5 * spread * noise,
    }
    for shift in SHIFTS:
        quantifier = known if shift == "unknown class" else whole
        tilt = unknown = None
        if shift == "covariate shift":
            z = (X - X_train.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
            first = np.linalg.svd(z - z.mean(axis=0), full_matrices=False)[2][0]
            tilt = 0.7 * (z @ first) / (z @ first).std()
        if shift == "unknown class":
            unknown = np.flatnonzero(y == last)
        classes = quantifier.classes_.tolist()
        codes = np.array([classes.index(label) if label in classes else 0 for label in y])
        posteriors = quantifier.classifier_.predict_proba(moved.get(shift, X))
        yield shift, Pool(quantifier, posteriors, codes, tilt, unknown)


def count(pool: Pool, bags: int, seed: tuple[int, ...]) -> dict[int, dict[str, Any]]:
    """Return sums over bags for every number of labels: errors, widths, classes covered."""
    rng = np.random.default_rng(list(seed))
    drawn = [pool.bag(rng) for _ in range(bags)]
    points = np.concatenate([p for p, _, _ in drawn])
    positions = [rng.permutation(SIZE) for _ in drawn]
    return {n: _count(pool, drawn, points, [p[:n] for p in positions]) for n in LABELS}


def _count(
    pool: Pool, drawn: list[Any], points: np.ndarray, positions: list[np.ndarray]
) -> dict[str, Any]:
    q, n = pool.quantifier, len(positions[0])
    samples = [
        labelled_sample((p, q.classes_[y[p]]), q.classes_, SIZE)
        for p, (_, y, _) in zip(positions, drawn, strict=True)
    ]
    model, sums = q.model_, defaultdict(float)
    tested = np.arange(len(samples)) % TESTED == 0
    results: dict[int, Any] = {}
    for test in (True, False):
        chosen = np.flatnonzero(tested == test)
        part = points.reshape(len(samples), SIZE, -1)[chosen].reshape(len(chosen) * SIZE, -1)
        answers = estimate_labelled_bags(
            model, part, [samples[i] for i in chosen], Options(), test=test
        )
        results |= dict(zip(chosen.tolist(), answers, strict=True))
    for number, (_, _, truth) in enumerate(drawn):
        result, frequent = results[number], n * truth >= EXPECTED
        sums["frequent"] += int(frequent.sum())
        sums["classes"] += len(truth)
        for way, part in result.alternatives.items():
            covered = (part.low <= truth) & (truth <= part.high)
            sums[f"{way} error"] += float(np.abs(part.estimate - truth).mean())
            sums[f"{way} width"] += float((part.high - part.low).mean())
            sums[f"{way} covered"] += int(covered.sum())
            sums[f"{way} frequent covered"] += int(covered[frequent].sum())
        if result.shift_test is not None:
            sums["tested"] += 1
            sums["rejected"] += int(result.shift_test.rejected)
    return {"bags": len(drawn), **{name: round(value, 6) for name, value in sums.items()}}


def run(method: str, bags: int) -> None:
    """Add training sets to all cells in turn until each has so many bags."""
    quiet()
    FILE.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["method"], row["set"], row["split"]) for row in read_raw(FILE)}
    for number in range(SPLITS):
        for index, name in enumerate(SETS):
            if (method, name, number) in done:
                continue
            rows = []
            for place, (shift, pool) in enumerate(make_pools(name, method, number)):
                for n, sums in count(pool, bags // SPLITS, (18, index, number, place)).items():
                    cell = dict(zip(KEYS, (method, name, shift, n), strict=True))
                    rows.append({**cell, "split": number, **sums})
            with FILE.open("a", encoding="utf-8") as file:
                file.write("".join(json.dumps(row) + "\n" for row in rows))
        print("training set", number + 1, flush=True)


def few(redraws: int, sets: Sequence[str]) -> None:
    """Write the coverage of few labels of the bag, and of bags of two or three rows."""
    quiet()
    rows: list[dict[str, Any]] = []
    for name in sets:
        for n in FEW:
            rows += _few_labels(name, n, redraws)
        for size in TINY:
            rows.append(_tiny_bags(name, size, redraws))
    update_summary(FEW_SUMMARY, rows, ["population", "case"])


def _bags_of_known(
    name: str, size: int, redraws: int, make: Any
) -> Iterator[tuple[Any, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield quantifier, posteriors, labels and prevalence; training sets serve ten bags each."""
    population = SYNTHETIC[name] if name in SYNTHETIC else scored_population(name)
    k = population.n_classes
    truths = INNER[k] + BORDER[k]
    for seed in range(redraws):
        rng = np.random.default_rng([seed, size, k])
        if seed % 10 == 0:
            y = np.repeat(np.arange(k), 200)
            quantifier = make().fit_posteriors(population.draw(y, rng), y)
        truth = np.array(truths[seed % len(truths)])
        labels = rng.choice(k, size, p=truth)
        yield quantifier, population.draw(labels, rng), labels, truth


def _few_labels(name: str, n: int, redraws: int) -> list[dict[str, Any]]:
    found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    bags = _bags_of_known(name, FEW_SIZE, redraws, lambda: EMQ(calibration="bcts"))
    for q, points, labels, truth in bags:
        sample = labelled_sample((np.arange(n), labels[:n]), q.classes_, FEW_SIZE)
        (result,) = estimate_labelled_bags(q.model_, points, [sample], Options(), test=False)
        for way, part in result.alternatives.items():
            u = part.uncertainty
            plain = region_from_covariance(u.unclipped, u.errors, u.degrees, part.confidence)
            inside = (part.low <= truth + 1e-12) & (truth - 1e-12 <= part.high)
            joint, before = (float(r.contains(truth)) for r in (part.region, plain))
            found[way].append((float(inside.mean()), joint, before))
    return [_coverage(name, f"{n} labels, {way}", values) for way, values in found.items()]


def _tiny_bags(name: str, size: int, redraws: int) -> dict[str, Any]:
    values = []
    for q, points, labels, truth in _bags_of_known(name, size, redraws, CC):
        shares = np.bincount(labels, minlength=len(truth)) / size
        made = q.estimate_posteriors(points, target="bag", check_fit=False)
        inside = (made.low <= shares + 1e-12) & (shares - 1e-12 <= made.high)
        values.append((float(inside.mean()), float("nan"), float("nan")))
    return _coverage(name, f"CC, this bag of {size}", values)


def _coverage(name: str, case: str, values: list[tuple[float, ...]]) -> dict[str, Any]:
    """Return means with the standard error of the first."""
    each = np.array(values)
    single, joint, plain = each.mean(axis=0)
    error = each[:, 0].std(ddof=1) / np.sqrt(len(each))
    numbers = {"single": single, "error": error, "joint": joint, "plain joint": plain}
    rounded = {key: f"{value:.4f}" for key, value in numbers.items()}
    return {"population": name, "case": case, **rounded, "n": len(each)}


def summarise() -> None:
    """Write the means of every cell."""
    import csv

    totals: dict[tuple[Any, ...], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    shares: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in read_raw(FILE):
        cell = tuple(row[key] for key in KEYS)
        total = totals[cell]
        if row.get("tested"):
            shares[cell].append(row["rejected"] / row["tested"])
        for name, value in row.items():
            if name not in (*KEYS, "split"):
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
        row["tested"] = int(t["tested"])
        row["rejected"] = t["rejected"] / t["tested"] if t["tested"] else np.nan
        several = len(shares[cell]) > 1
        error = np.std(shares[cell], ddof=1) / len(shares[cell]) ** 0.5 if several else np.nan
        row["rejected error"] = float(error)
        rows.append({key: f"{v:.5g}" if isinstance(v, float) else v for key, v in row.items()})
    with SUMMARY.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def table() -> None:
    """Print error and coverage (classes with five expected labels) of every cell."""
    print(
        "| set | shift | labels | bags | error: label shift / labels / prediction-powered "
        "| coverage | rejected |\n|---|---|---|---|---|---|---|"
    )
    for row in read_summary(SUMMARY):
        errors = " / ".join(f"{float(row[f'{way} error']):.4f}" for way in WAYS)
        covered = " / ".join(f"{float(row[f'{way} frequent covered']):.3f}" for way in WAYS)
        print(
            f"| {row['set'].split('/')[1]} | {row['shift']} | {row['labels']} | {row['bags']} "
            f"| {errors} | {covered} | {float(row['rejected']):.3f} |"
        )


def few_table() -> None:
    """Print coverage of few labels by estimate, and of bags of two or three rows."""
    rows = {(row["population"], row["case"]): row for row in read_summary(FEW_SUMMARY)}
    print(f"| rows | number | {' | '.join(WAYS)} | standard error | lowest region | bags |")
    print("|---" * (len(WAYS) + 5) + "|")
    for name in FEW_SETS:
        for n in FEW:
            own = [rows[name, f"{n} labels, {way}"] for way in WAYS]
            shown = [float(row["single"]) for row in own]
            shown += [max(float(row["error"]) for row in own)]
            shown += [min(float(row["joint"]) for row in own)]
            cells = [name, str(n), *(f"{value:.3f}" for value in shown), own[0]["n"]]
            print(f"| {' | '.join(cells)} |")
    print("\n| rows | in the bag | covered by CC | standard error | bags |\n|---|---|---|---|---|")
    for name in FEW_SETS:
        for size in TINY:
            row = rows[name, f"CC, this bag of {size}"]
            numbers = [f"{float(row[key]):.3f}" for key in ("single", "error")]
            print(f"| {' | '.join([name, str(size), *numbers, row['n']])} |")


def figure() -> None:
    """Draw error and coverage against the number of labels, the mean over sets, by shift."""
    from kdey.plots.style import REFERENCE, new_figure, remove_clutter
    from kdey.report.page import COLOURS

    rows = [row for row in read_summary(SUMMARY) if row["method"] == "EMQ-BCTS"]
    figure = new_figure(13, 5)
    axes = figure.subplots(2, len(SHIFTS), sharex=True, sharey="row")
    colours = dict(zip(WAYS, (COLOURS[1], COLOURS[-1], COLOURS[0]), strict=True))
    names = dict(
        zip(WAYS, ("assuming label shift", "labels alone", "prediction-powered"), strict=True)
    )
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
                low, high = ([f(v) if v else np.nan for v in values] for f in (np.min, np.max))
                axis.fill_between(LABELS, low, high, color=colours[way], alpha=0.12, linewidth=0)
                axis.plot(LABELS, means, "o-", color=colours[way], label=names[way], markersize=4)
        axes[0, column].set_title(shift, fontsize=10)
        axes[1, column].axhline(0.95, **REFERENCE)
        axes[1, column].set_xlabel("labels of the bag")
        axes[1, column].set_xscale("log")
        axes[1, column].set_xticks(LABELS, [str(n) for n in LABELS])
        axes[1, column].minorticks_off()
        for axis in axes[:, column]:
            remove_clutter(axis)
    axes[0, 0].set_yscale("log")
    axes[0, 0].set_ylabel("mean absolute error")
    axes[1, 0].set_ylabel("coverage of 95 % limits")
    axes[0, 0].legend(fontsize=7, frameon=False)
    figure.suptitle("Lines: means over data sets. Bands: from the smallest to the largest.")
    figure.savefig(FIGURE, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--few", type=int, metavar="REDRAWS", help="few labels, tiny bags")
    parser.add_argument("--sets", nargs="+", default=FEW_SETS, help="those of --few")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--few-table", action="store_true")
    parser.add_argument("--figure", action="store_true")
    parser.add_argument("--bags", type=int, default=2_000)
    parser.add_argument("--method", default="EMQ-BCTS", choices=("EMQ-BCTS", "KDEy-ML"))
    options = parser.parse_args()
    if options.run:
        run(options.method, options.bags)
    if options.few:
        few(options.few, options.sets)
    if options.summary:
        summarise()
    if options.table:
        table()
    if options.few_table:
        few_table()
    if options.figure:
        figure()
