"""Coverage and error where a class looks different in each stratum.

Two normal classes in four shops: the mean of each class in each shop has an effect of its own. A
redraw has labelled rows of every shop and a table of new rows whose prevalence differs by shop.
Two ways are compared, for each shop and for all of them together: nothing is said (none), or
``strata`` are given to ``fit`` and to the estimates. In real sets (the largest class against the
others, scored once) the rows of a class in a shop are drawn with weights that are exponential in
their standardised log-odds, so that they have the effects of the simulation.

    OMP_NUM_THREADS=1 python benchmarks/strata.py --redraws 200
    python benchmarks/strata.py --tables
"""

from __future__ import annotations

import argparse
import csv
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from scipy.stats import beta

import kdey
from designs import scored
from populations import SCORED
from printing import markdown
from summaries import RESULTS, read_summary

SUMMARY = RESULTS / "strata.csv"
SHOPS, ROWS, APART = 4, 400, 1.5
#: Standard deviation of effects, labels of each class in each shop, and clusters of new rows, each
#: of which has rows in every shop and an intra-class correlation of 0.1.
CASES = {
    "different": (0.5, 60, 0),
    "different, few labels": (0.5, 12, 0),
    "alike": (0.0, 60, 0),
    "alike, 20 clusters": (0.0, 60, 20),
    **dict.fromkeys(SCORED, (0.5, 60, 0)),
}
FIRST = 20_000


def redraw(case: str, seed: int) -> tuple[Any, Any, dict[Any, float]]:
    """Return labelled rows, new rows, and the true shares of the second class."""
    rng, (effect, labels, clusters) = np.random.default_rng(seed), CASES[case]
    effects = rng.normal(0.0, effect, (SHOPS, 2)) if effect else np.zeros((SHOPS, 2))

    def rows(shops: Any, y: Any) -> Any:
        x = rng.normal(APART * y + effects[shops, y])
        return pd.DataFrame({"p": expit(APART * (x - APART / 2.0)), "shop": shops, "y": y})

    def real_rows(shops: Any, y: Any) -> Any:
        p, codes = scored(case)
        x = logit(np.clip(p[:, 1], 1e-6, 1.0 - 1e-6))
        drawn = np.empty(len(y), dtype=np.int64)
        for shop in range(SHOPS):
            for code in range(2):
                own, wanted = np.flatnonzero(codes == code), (shops == shop) & (y == code)
                tilt = np.exp(effects[shop, code] * (x[own] - x[own].mean()) / x[own].std())
                drawn[wanted] = rng.choice(own, int(wanted.sum()), p=tilt / tilt.sum())
        return pd.DataFrame({"p": p[drawn, 1], "shop": shops, "y": y})

    make = real_rows if case in SCORED else rows
    shops, y = (part.ravel() for part in np.meshgrid(np.arange(SHOPS), np.arange(2)))
    labelled = make(np.repeat(shops, labels), np.repeat(y, labels))
    shares = rng.uniform(0.1, 0.6, SHOPS)
    new_shops = np.repeat(np.arange(SHOPS), ROWS)
    chances, ids = shares[new_shops], np.arange(len(new_shops)) % max(clusters, 1)
    if clusters:  # a cluster is high or low in all shops alike
        chances = beta.ppf(rng.random(clusters)[ids], 9 * chances, 9 - 9 * chances)
    new = make(new_shops, (rng.random(len(new_shops)) < chances).astype(int)).assign(cluster=ids)
    return labelled, new.drop(columns="y"), {"all": shares.mean(), **dict(enumerate(shares))}


def posteriors(rows: Any) -> Any:
    """Return the posteriors of a classifier that knows the classes of no shop in particular."""
    second = rows["p"].to_numpy()
    return np.stack([1.0 - second, second], axis=1)


def outcomes(case: str, way: str, seed: int) -> list[tuple[str, float, float, float]]:
    """Return for all shops and for each of them whether it is covered, the width and the error."""
    labelled, new, shares = redraw(case, seed)
    strata = labelled["shop"] if way == "fit" else None
    fitted = kdey.PACC().fit_posteriors(posteriors(labelled), labelled["y"], strata=strata)
    scores = posteriors(new)
    table = new[["shop", "cluster"]].assign(
        **{"0": scores[:, 0], "1": scores[:, 1], "store": new["shop"]}
    )
    options = kdey.Options(
        strata=None if way == "none" else "store",
        clusters="cluster" if CASES[case][-1] else None,
        check_fit=False,
    )
    out = []
    for by in ((), "shop"):
        answers = kdey.predict_groups(fitted, table, by, scores=["0", "1"], options=options)
        for number in range(len(answers)):
            truth = shares["all"] if by == () else shares[number]
            low, high = answers.low[number, 1], answers.high[number, 1]
            error = abs(answers.estimate[number, 1] - truth)
            kind = "all" if by == () else "one"
            out.append((kind, float(low <= truth <= high), float(high - low), float(error)))
    return out


def write(table: list[dict[str, Any]]) -> None:
    """Write what is known so far."""
    with SUMMARY.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


def main() -> None:
    """Run the cases, and write one line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--redraws", type=int, default=200)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--tables", action="store_true")
    options = parser.parse_args()
    if options.tables:
        with SUMMARY.open(encoding="utf-8") as file:
            head, *lines = csv.reader(file)
        print(markdown(head, lines))
        return
    warnings.simplefilter("ignore")
    known = read_summary(SUMMARY)
    table: list[dict[str, Any]] = [row for row in known if row["case"] not in options.cases]
    for case in options.cases:
        for way in ("none", "fit"):
            found = [outcomes(case, way, FIRST + seed) for seed in range(options.redraws)]
            for kind in ("all", "one"):
                values = np.array(
                    [np.mean([row[1:] for row in rows if row[0] == kind], axis=0) for rows in found]
                )
                covered, width, error = values.mean(axis=0)
                table.append(
                    {
                        "case": case,
                        "strata given to": way,
                        "shops": kind,
                        "coverage": f"{covered:.3f}",
                        "standard error": f"{values[:, 0].std() / len(values) ** 0.5:.3f}",
                        "width": f"{width:.3f}",
                        "mean error": f"{error:.4f}",
                    }
                )
                print(table[-1], flush=True)
                write(table)


if __name__ == "__main__":
    main()
