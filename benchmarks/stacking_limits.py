"""Coverage of the limits of Quantifier, calibration of its pool, and its time.

    python benchmarks/stacking_limits.py [--sets NAME ...] [--redraws 40]    # can be resumed
    python benchmarks/stacking_limits.py --table

Each redraw fits on 1,500 instances (60 % of smaller sets) and estimates 50 bags of 300 of the
others, with prevalences uniform over the simplex. One line per redraw in
``results/stacking_limits.jsonl``.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import kdey
from cases import Records, load_case, quiet
from kdey.calibration import BCTS
from kdey.simplex import sample_uniform
from printing import markdown

SETS = ("uci-multi/academic-success", "uci-multi/dry-bean", "uci-extra/ctg-fhr10")
TRAINING, BAGS, SIZE = 1500, 50, 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--redraws", type=int, default=40)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    records = Records("stacking_limits.jsonl", ("set", "redraw"))
    if args.table:
        print_table(records.rows)
        return
    quiet()
    for redraw in range(args.redraws):
        for name in args.sets:
            if (name, redraw) not in records:
                records.add(run(name, redraw))


def run(name: str, redraw: int) -> dict[str, Any]:
    """Return coverage, width, error, calibration and times of one redraw."""
    case = load_case(name, 0)
    X, y = np.vstack([case.X, case.X_test]), np.concatenate([case.y, case.y_test])
    rng = np.random.default_rng(redraw)
    order = rng.permutation(len(y))
    n = min(TRAINING, int(0.6 * len(y)))
    train, rest = order[:n], order[n:]
    start = time.perf_counter()
    q = kdey.Quantifier(random_state=redraw).fit(X[train], y[train])
    seconds = time.perf_counter() - start
    known = rest[np.isin(y[rest], q.classes_)]
    codes = np.searchsorted(q.classes_, y[known])
    bags, truth = draw_bags(codes, len(q.classes_), rng)
    posteriors = q.classifier_.predict_proba(X[known])
    estimates = q.estimate_posteriors(posteriors, bags)
    covered = (estimates.low <= truth + 1e-12) & (truth <= estimates.high + 1e-12)
    calibrator = BCTS().fit(q.training_.posteriors, q.training_.labels)
    pooled = calibrator.transform(posteriors)
    return {
        "set": name,
        "redraw": redraw,
        "covered": float(covered.mean()),
        "by_class": covered.mean(axis=0).tolist(),
        "width": float((estimates.high - estimates.low).mean()),
        "error": float(np.abs(estimates.estimate - truth).mean()),
        "log_loss": log_loss(pooled, codes),
        "ece": calibration_error(pooled, codes),
        "members": member_scores(q, X[known], codes),
        "fit_s": seconds,
        "beyond_classifiers_ms": time_beyond_classifiers(q, X[known][:1000]),
    }


def draw_bags(codes: np.ndarray, k: int, rng: np.random.Generator) -> tuple[list[Any], np.ndarray]:
    """Return bags of instances drawn independently, and the prevalences of their populations."""
    truth = sample_uniform(k, BAGS, rng)
    members = [np.flatnonzero(codes == i) for i in range(k)]
    bags = []
    for prevalence in truth:
        counts = rng.multinomial(SIZE, prevalence)
        bags.append(
            np.concatenate([rng.choice(m, c) for m, c in zip(members, counts, strict=True)])
        )
    return bags, truth


def member_scores(q: Any, X: np.ndarray, codes: np.ndarray) -> dict[str, list[float]]:
    """Return the log-loss and calibration error of each member on new instances."""
    from kdey.posteriors import predict_posteriors
    from kdey.stacking.pooled_classifier import geometric_mean

    scores = {}
    for member in q.classifier_.members:
        models = q.classifier_.models_[member.classifier]
        scored = [predict_posteriors(model, X, q.classes_) for model in models]
        p = member.posteriors(geometric_mean(models, scored, q.classes_))
        scores[member.name] = [log_loss(p, codes), calibration_error(p, codes)]
    return scores


def log_loss(p: np.ndarray, codes: np.ndarray) -> float:
    return -float(np.log(np.maximum(p[np.arange(len(codes)), codes], 1e-12)).mean())


def calibration_error(p: np.ndarray, codes: np.ndarray, bins: int = 15) -> float:
    """Return the mean difference between confidence and accuracy in bins of confidence."""
    confidence, right = p.max(axis=1), p.argmax(axis=1) == codes
    bin_of = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [
        abs(confidence[bin_of == b].mean() - right[bin_of == b].mean()) * (bin_of == b).mean()
        for b in np.unique(bin_of)
    ]
    return float(np.sum(gaps))


def time_beyond_classifiers(q: Any, X: np.ndarray) -> float:
    """Return the milliseconds of ``predict`` that are not spent in the classifiers."""
    models = [m for fitted in q.classifier_.models_.values() for m in fitted]

    def seconds(call: Any) -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return min(times)

    total = seconds(lambda: q.predict(X))
    return 1000 * (total - seconds(lambda: [m.predict_proba(X) for m in models]))


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print means over redraws."""
    lines = []
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name]

        def mean(key: str, own: list[dict[str, Any]] = own) -> float:
            return float(np.mean([row[key] for row in own]))

        worst = float(np.mean([row["by_class"] for row in own], axis=0).min())
        best = np.mean([min(v[0] for v in row["members"].values()) for row in own])
        lines.append(
            [
                *(name, len(own), mean("covered"), worst, mean("width") / mean("error")),
                *(mean("log_loss"), float(best), mean("ece")),
            ]
        )
    heads = [
        *("set", "redraws", "coverage", "worst class", "width / error", "log-loss"),
        *("best member's", "ECE"),
    ]
    print(markdown(heads, lines))


if __name__ == "__main__":
    main()
