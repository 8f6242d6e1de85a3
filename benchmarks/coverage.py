"""Coverage and width of intervals on known populations and on real sets with redrawn splits.

``--synthetic`` and ``--real`` add repetitions to ``build/benchmarks/coverage.jsonl`` (those it has
are skipped, so a stopped run goes on where it was) and then write the means of every cell that the
file holds to ``results/coverage.csv``. From these ``--summary`` prints one line per kind of data
and ``--table`` every cell. The coverage of the default is measured by ``coverage_default.py``.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from kdey import PACC, KDEyML, Options
from kdey.posteriors import training_posteriors
from populations import BORDER, INNER, REAL, SYNTHETIC, classifier, load
from summaries import RAW, RESULTS, read_raw, read_summary, update_summary

FILE = RAW / "coverage.jsonl"
SUMMARY = RESULTS / "coverage.csv"
LEVELS, TARGETS = (0.9, 0.95), ("population", "bag")
COLUMNS = [(target, level) for target in TARGETS for level in LEVELS]
#: What names a cell of the summary, and the means in it: three for each target and level.
KEYS = ("how", "source", "training", "zone", "size", "method")
MEANS = [
    f"{target} {level:g} {measure}"
    for target, level in COLUMNS
    for measure in ("covered", "width", "joint")
]
TRAINING, SIZES = (200, 1_000, 10_000), (50, 300, 2_000)
#: First seed: lower ones were looked at while the intervals were being chosen.
FIRST = 1_000
REAL_TRAINING, REAL_SIZES = 1_000, (100, 500)


def methods(names: str) -> dict[str, Any]:
    known = {
        "KDEy-ML": lambda: KDEyML(bandwidth=0.1),
        "KDEy-ML auto": lambda: KDEyML(bandwidth="auto"),
        "PACC": PACC,
    }
    return {name: known[name]() for name in names.split(",")}


def judge(made: dict[str, Any], cells: list[dict[str, Any]], how: str) -> list[list[Any]]:
    """Return what every method's intervals did on the cells: a bag each, with its truths.

    One row per method and cell: method, zone, size, then share of classes covered, mean width
    and whether the region held, for every target and level.
    """
    pool = np.concatenate([cell["posteriors"] for cell in cells])
    ends = np.cumsum([len(cell["posteriors"]) for cell in cells])
    bags = np.split(np.arange(len(pool)), ends[:-1])
    out = []
    for name, quantifier in made.items():
        rows: list[list[Any]] = [[name, cell["zone"], cell["size"]] for cell in cells]
        for target, level in COLUMNS:
            found = quantifier.estimate_posteriors(
                pool,
                bags,
                target=target,
                confidence=level,
                options=Options(method=how, n_replicates=300),
            )
            for row, cell, one in zip(rows, cells, found, strict=True):
                truth = cell[target]
                covered = np.mean((one.low <= truth) & (truth <= one.high))
                width = np.mean(one.high - one.low)
                joint = int(one.region.contains(truth))
                row += [round(float(covered), 4), round(float(width), 5), joint]
        out += rows
    return out


def synthetic(source: str, n: int, seed: int, names: str, how: str) -> list[list[Any]]:
    """Draw training data and a bag of every size and zone; return what the intervals did."""
    population = SYNTHETIC[source]
    k = population.n_classes
    rng = np.random.default_rng([seed, n, sorted(SYNTHETIC).index(source)])
    labels = rng.permutation(np.arange(n) % k)
    P = population.draw(labels, rng)
    model = None
    if population.classifier:
        model, training = training_posteriors(
            classifier(), P, labels, range(k), cv=5, random_state=seed
        )
        P, labels = training.required(), training.labels
    cells = []
    for zone, choices in (("inner", INNER[k]), ("border", BORDER[k])):
        for size in SIZES:
            truth = np.array(choices[seed % len(choices)])
            drawn = rng.choice(k, size, p=truth)
            points = population.draw(drawn, rng)
            points = points if model is None else model.predict_proba(points)
            cells.append(_cell(zone, points, drawn, truth))
    made = {name: q.fit_posteriors(P, labels) for name, q in methods(names).items()}
    return judge(made, cells, how)


def real(source: str, n: int, seed: int, names: str, how: str) -> list[list[Any]]:
    """Redraw the split, then a bag of every size at a uniform prevalence."""
    X, y = load(source)
    k = int(y.max()) + 1
    rng = np.random.default_rng([seed, len(X)])
    order = rng.permutation(len(X))
    train, test = order[:n], order[n:]
    model, training = training_posteriors(
        classifier(), X[train], y[train], range(k), cv=5, random_state=seed
    )
    cells = []
    for size in REAL_SIZES:
        truth = rng.dirichlet(np.ones(k))
        drawn = rng.choice(k, size, p=truth)
        rows = np.array([rng.choice(test[y[test] == label]) for label in drawn])
        cells.append(_cell("simplex", model.predict_proba(X[rows]), drawn, truth))
    P, labels = training.required(), training.labels
    made = {name: q.fit_posteriors(P, labels) for name, q in methods(names).items()}
    return judge(made, cells, how)


def _cell(zone: str, points: np.ndarray, drawn: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    shares = np.bincount(drawn, minlength=len(truth)) / len(drawn)
    return {
        **{"zone": zone, "size": len(drawn), "posteriors": points},
        **{"population": truth, "bag": shares},
    }


def jobs(given: argparse.Namespace) -> list[tuple[Any, ...]]:
    """Return what is to be run: function, source, training size, seed, methods, way."""
    out: list[tuple[Any, ...]] = []
    ways = (given.methods, given.how)
    if given.synthetic:
        for n in given.training:
            repeats = given.repeats if n < 10_000 else given.repeats // 2
            out += [
                (synthetic, s, n, r, *ways)
                for r in range(FIRST, FIRST + repeats)
                for s in given.sources
            ]
    if given.real:
        seeds = range(FIRST, FIRST + given.repeats)
        out += [(real, s, REAL_TRAINING, r, *ways) for r in seeds for s in REAL]
    return out


def run(job: tuple[Any, ...]) -> str:
    call, source, n, seed, names, how = job
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = call(source, n, seed, names, how)
    place = {"key": key(job), "source": source, "training": n, "how": how}
    return json.dumps({**place, "rows": rows})


def key(job: tuple[Any, ...]) -> str:
    return "/".join(map(str, job[1:]))


def work(given: argparse.Namespace) -> None:
    done = {record["key"] for record in read_raw(FILE)}
    todo = [job for job in jobs(given) if key(job) not in done]
    print(f"{len(todo)} repetitions to run, {len(done)} in {FILE.name}")
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with FILE.open("a", encoding="utf-8") as file:
        pool = Parallel(n_jobs=given.jobs, return_as="generator_unordered", batch_size=4)
        for line in pool(delayed(run)(job) for job in todo):
            file.write(line + "\n")
            file.flush()


def summarise() -> None:
    """Write the means of every cell that the raw file holds to the summary."""
    cells: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for record in read_raw(FILE):
        for method, zone, size, *values in record["rows"]:
            place = (record["how"], record["source"], record["training"], zone, size, method)
            cells[place].append(values)
    rows = []
    for place in sorted(cells):
        means = [float(np.mean(column)) for column in zip(*cells[place], strict=True)]
        named = dict(zip([*KEYS, "bags", *MEANS], [*place, len(cells[place]), *means], strict=True))
        rows.append(named)
    update_summary(SUMMARY, rows, KEYS)


def gather(how: str) -> dict[tuple[str, ...], tuple[int, np.ndarray]]:
    """Return bags and means, (3 per column), by source, training, zone, size and method."""
    return {
        tuple(row[key] for key in KEYS[1:]): (
            int(row["bags"]),
            np.array([float(row[name]) for name in MEANS]),
        )
        for row in read_summary(SUMMARY)
        if row["how"] == how
    }


def table(how: str) -> None:
    """Print a line per source, training size, zone, bag size and method."""
    print("| data | training | zone | bag | method | bags |", end="")
    print("".join(f" {target} {100 * v:g} % | width | joint |" for target, v in COLUMNS))
    print("|---" * (6 + 3 * len(COLUMNS)) + "|")
    for place, (bags, means) in gather(how).items():
        shown = "".join(f" {value:.3f} |" for value in means)
        print("| " + " | ".join(place) + f" | {bags} |" + shown)


def summary(how: str) -> None:
    """Print, for each kind of data, method, target and level, the mean and the extreme cells."""
    groups: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
    for (source, _, zone, _, method), (_, means) in gather(how).items():
        kind = source if source in REAL else f"synthetic, {zone}"
        groups[kind, method].append(means)
    print(
        "| data | method | target | nominal | cells | mean | lowest | highest | within 2 points |"
    )
    print("|---" * 9 + "|")
    for (kind, method), found in groups.items():
        for number, (target, level) in enumerate(COLUMNS):
            held = np.array([means[3 * number] for means in found])
            near = np.mean(np.abs(held - level) <= 0.02)
            spread = f"{held.mean():.3f} | {held.min():.3f} | {held.max():.3f} | {near:.0%}"
            print(f"| {kind} | {method} | {target} | {level:g} | {len(found)} | {spread} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--synthetic", action="store_true")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--table", action="store_true", help="print every cell")
    parser.add_argument("--summary", action="store_true", help="print means and extreme cells")
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--training", type=int, nargs="+", default=list(TRAINING))
    parser.add_argument("--sources", nargs="+", choices=SYNTHETIC, default=list(SYNTHETIC))
    parser.add_argument("--methods", default="KDEy-ML,PACC", help="also: 'KDEy-ML auto'")
    parser.add_argument("--how", choices=("auto", "bootstrap"), default="auto")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    if given.synthetic or given.real:
        work(given)
        summarise()
    if given.summary:
        summary(given.how)
    if given.table:
        table(given.how)


if __name__ == "__main__":
    main()
