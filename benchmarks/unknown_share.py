"""How often the lower bound on the unknown share holds, and how much of the truth it finds.

Every repetition redraws the training set of a real set, without one class, and bags of 300 from the
other rows, without replacement, in which that class has a given share. The bound is that of
estimates, by scores and columns together, but of every bag, whether its checks fail or not. One
line per set and share goes to ``results/unknown_share.csv``; ``--table`` prints what is stored.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from coverage_default import SOURCES, load, make_estimator, split
from kdey.bags import Bags
from kdey.diagnostics import FitChecker, unknown_share_bound
from kdey.diagnostics.default_checks import column_histograms
from printing import markdown
from summaries import RESULTS, read_summary, update_summary

SUMMARY, KEYS = RESULTS / "unknown_share.csv", ("source", "share")
NAMES = ("dry-bean", "pendigits", "yeast", "academic-success")
SHARES, SIZE, LABELS = (0, 20, 40), 300, 600


def bounds(name: str, seed: int, n_bags: int) -> dict[int, list[tuple[float, float]]]:
    """Return the bounds and the true shares of the bags of one redraw, by the nominal share."""
    X, y = load(name)
    rng, k = np.random.default_rng([seed, 29]), int(y.max()) + 1
    training, others = split(y, min(LABELS, SOURCES[name].training), None, 0, rng)
    unknown = seed % k
    training = training[y[training] != unknown]
    quantifier = make_estimator("KDEyML").fit(X[training], y[training])
    model, checker = quantifier.model_, FitChecker.fit(quantifier)
    pools = [others[y[others] == label] for label in range(k)]
    found: dict[int, list[tuple[float, float]]] = {share: [] for share in SHARES}
    for share in SHARES:
        while len(found[share]) < n_bags:
            known = rng.dirichlet(np.ones(k - 1)) * (1 - share / 100)
            counts = rng.multinomial(SIZE, np.insert(known, unknown, share / 100))
            if any(count > len(own) for count, own in zip(counts, pools, strict=True)):
                continue
            rows = np.concatenate(
                [rng.choice(own, n, replace=False) for own, n in zip(pools, counts, strict=True)]
            )
            scores = checker.histogram(checker.models.posteriors(X[rows], seed))
            columns = column_histograms(model, Bags.whole(SIZE), model.columns.codes(X[rows]), None)
            found[share].append((unknown_share_bound([scores, *columns]), share / 100))
    return found


def run(redraws: int, n_bags: int) -> None:
    """Run all sets, and write each as soon as it is done."""
    for name in NAMES:
        made = [bounds(name, seed, n_bags) for seed in range(redraws)]
        rows: list[dict[str, Any]] = []
        for share in SHARES:
            pairs = np.array([pair for part in made for pair in part[share]])
            rows.append(
                {
                    "source": name,
                    "share": share,
                    "bags": len(pairs),
                    "holds": float((pairs[:, 0] <= pairs[:, 1]).mean()),
                    "above zero": float((pairs[:, 0] > 0).mean()),
                    "median": float(np.median(pairs[:, 0])),
                    "largest": float(pairs[:, 0].max()),
                }
            )
        update_summary(SUMMARY, rows, KEYS)
        print(*rows, sep="\n", flush=True)


def table() -> None:
    """Print what is stored."""
    heads = ("bags", "holds", "above zero", "median", "largest")
    lines = [
        [row["source"], f"{int(row['share'])} %", row["bags"]]
        + [f"{float(row[name]):.2f}" for name in heads[1:]]
        for row in read_summary(SUMMARY)
    ]
    print(markdown(["data", "unknown", *heads], lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--redraws", type=int, default=8)
    parser.add_argument("--bags", type=int, default=4)
    asked = parser.parse_args()
    if not asked.table:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(asked.redraws, asked.bags)
    table()
