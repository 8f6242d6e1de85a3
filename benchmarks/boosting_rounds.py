"""Whether boosted trees of 200 rounds are worth more than 100, and whether held-out loss says so.

    python benchmarks/boosting_rounds.py [--sets NAME ...] [--seeds 0 1 2] [--minutes 9]
    python benchmarks/boosting_rounds.py --table

``Quantifier()`` with boosted trees of 100 and of 200 rounds on the same folds, once for every seed
of the folds, on 500 bags of one split of each set; and with boosted trees as the only classifier.
One line per set and seed goes to ``results/boosting_rounds.jsonl``, with the held-out log-loss of
every fold at both numbers of rounds. Runs append and can be resumed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import Any
from unittest import mock

import numpy as np

import kdey
from cases import EXTRA, PAPER, Case, Records, geometric_mean, load_case, quiet, spread
from kdey import stacking
from kdey.classifiers import make_splits
from kdey.validation import training_labels
from printing import markdown

ROUNDS = (100, 200)
#: Small ones first; the last take minutes a fit.
LAST = ("uci-multi/letter", "uci-extra/chess-krk", "uci-extra/mnist-test10k", "text/news20-lsa300")
SETS = tuple(sorted(PAPER + EXTRA, key=lambda name: name in LAST))
NAME = "gradient boosting"
#: Rounds are doubled where this share of the log-loss of the first fold, or less, remains.
WORTH = 0.9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    records = Records("boosting_rounds.jsonl", ("set", "seed"))
    if args.table:
        print_table(records.rows)
        return
    quiet()
    end = time.monotonic() + 60 * args.minutes
    for name in args.sets:
        for seed in args.seeds:
            if time.monotonic() < end and (name, seed) not in records:
                records.add(evaluate(load_case(name, 0), seed))


def evaluate(case: Case, seed: int) -> dict[str, Any]:
    """Return the errors and the losses of one seed of the folds."""
    line: dict[str, Any] = {"set": case.name, "seed": seed}
    bags = case.bags(500, 0)
    with tempfile.TemporaryDirectory() as cache:
        for rounds in ROUNDS:
            efforts = {"default": (5, 100, rounds)}
            for kind, classifiers in (("alone", [NAME]), ("pool", "auto")):
                with mock.patch.object(stacking, "EFFORTS", {**stacking.EFFORTS, **efforts}):
                    start = time.process_time()
                    q = kdey.Quantifier(classifiers, random_state=seed, size_limit=None)
                    q.fit(case.X, case.y, cache=cache)
                    seconds = time.process_time() - start
                answers = q.predict_bags(case.X_test, bags.bags)
                line[f"{kind} {rounds}"] = float(np.abs(answers - bags.prevalences).mean())
                if kind == "alone":
                    line[f"loss {rounds}"] = fold_losses(case, q, seed)
                    line[f"seconds {rounds}"] = round(seconds, 1)
    return line


def fold_losses(case: Case, q: Any, seed: int) -> list[float]:
    """Return the held-out log-loss of every fold."""
    codes, classes = training_labels(case.y)
    losses = []
    models = q.classifier_.models_[NAME]
    splits = make_splits(5, case.X, codes, classes, random_state=seed)
    for model, (_, test) in zip(models, splits, strict=True):
        p = kdey.posteriors.predict_posteriors(model, case.X[test], classes)
        own = p[np.arange(len(test)), codes[test]]
        losses.append(round(-float(np.log(np.maximum(own, 1e-12)).mean()), 5))
    return losses


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print one line per set: ratios of the errors with 200 rounds to those with 100."""
    lines, chosen = [], []
    for name in [n for n in SETS if any(row["set"] == n for row in rows)]:
        own = [row for row in rows if row["set"] == name]
        ratios = {k: [r[f"{k} 200"] / r[f"{k} 100"] for r in own] for k in ("alone", "pool")}
        first = [r["loss 200"][0] / r["loss 100"][0] for r in own]
        whole = [np.mean(r["loss 200"]) / np.mean(r["loss 100"]) for r in own]
        picked = [p if f <= WORTH else 1.0 for p, f in zip(ratios["pool"], first, strict=True)]
        chosen.append(geometric_mean(picked))
        errors = np.array([row["pool 100"] for row in own])
        values = [ratios["alone"], ratios["pool"], first, whole, picked]
        values.append(list(errors / geometric_mean(errors)))
        lines.append([name.split("/")[1], *(spread(v) for v in values)])
    head = ["set", "alone", "pool", "loss, first fold", "loss, all folds", "pool, chosen"]
    print(markdown([*head, "other folds"], lines))
    print(f"geometric mean of the chosen over {len(chosen)} sets: {geometric_mean(chosen):.3f}")


if __name__ == "__main__":
    main()
