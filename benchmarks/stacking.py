"""Ways to combine classifiers and methods, compared on cached posteriors.

    python benchmarks/stacking.py fit --cache FOLDER [--sets NAME ...] [--seeds 0 1 2]
    python benchmarks/stacking.py compare --cache FOLDER      # appends, can be resumed
    python benchmarks/stacking.py table

``fit`` fits the portfolio once per set and seed and keeps the posteriors of training and test
instances: out of fold, by the refitted classifier and by the models of the folds. ``compare`` pools
them in several ways on 1,000 bags of 500 and writes one line per set and seed to
``results/stacking.jsonl``. Contestants see the same features, with categories one-hot. The binary
sets of the paper: ``--group binary``, bags of 100, ``results/stacking_binary.jsonl``. ``--group
log-linear`` compares the pool with a log-linear one that is smoothed in the same way.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

import kdey
from cases import EXTRA, PAPER, Records, geometric_mean, load_case, quiet, spread
from experiments.scores import published_values
from kdey.bags import Bags
from kdey.calibration import BCTS
from kdey.classifiers import make_splits
from kdey.datasets import names
from kdey.evaluation import APP
from kdey.matching.likelihood import MixtureLikelihood, solve_mixture
from kdey.metrics import get_metric
from kdey.posteriors import FittedStage, TrainingPosteriors, cross_fit, predict_posteriors
from kdey.rows.posterior import RatioMap
from kdey.stacking import CLASSIFIERS, portfolio
from kdey.stacking.pooled_classifier import (
    KERNEL_LABELS,
    FittedMember,
    HeldOut,
    MemberMethod,
    fit_member,
    held_out,
    limit_kernels,
    select_members,
)
from kdey.stacking.pooled_rows import SmoothedRatioRows
from kdey.tuning import TuningPlan
from kdey.validation import training_labels
from printing import markdown

METRICS = ("ae", "rae")
SMOOTHED = "log-linear pool, smoothed"
#: Group -> size of bags, the file of results, and ways that are compared; none: all.
GROUPS: dict[str, tuple[int, str, list[str]]] = {
    "multiclass": (500, "stacking.jsonl", []),
    "binary": (100, "stacking_binary.jsonl", []),
    "log-linear": (500, "stacking_log_linear.jsonl", ["Quantifier", SMOOTHED]),
}
SINGLE = [f"{m} on {c}" for c in CLASSIFIERS for m in ("KDEy-ML", "EMQ-BCTS")]
BASE = "KDEy-ML on logistic regression"
#: Errors below this count as this in ratios: a set may have none at all.
FLOOR = 1e-4
#: Power of (smallest error / own error) in the weighted average of estimates.
POWER = 8


@dataclass(frozen=True, eq=False)
class Scored:
    """The posteriors of one classifier on one split.

    Attributes
    ----------
    training : TrainingPosteriors
        Out of fold.
    refit : array of shape (m, k)
        Of the test instances, by the classifier fitted on all training instances.
    folds : array of shape (n_folds, m, k)
        By the models of the folds.
    """

    training: TrainingPosteriors
    refit: np.ndarray
    folds: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Geometric mean of the folds, shape (m, k)."""
        logs = np.log(np.maximum(self.folds, 1e-12)).mean(axis=0)
        p = np.exp(logs - logs.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)


def file_of(cache: Path, name: str, seed: int, classifier: str) -> Path:
    return cache / f"{name.replace('/', '-')}.{seed}.{classifier.replace(' ', '-')}.npz"


def fit(cache: Path, name: str, seed: int) -> None:
    """Fit the classifiers of the portfolio that the cache lacks."""
    case = load_case(name, seed)
    codes, classes = training_labels(case.y)
    splits = make_splits(5, case.X, codes, classes, random_state=seed)
    for classifier_name, (classifier, _) in portfolio("auto", None, "default", 0).items():
        path = file_of(cache, name, seed, classifier_name)
        if path.exists():
            continue
        start = time.process_time()
        fits = cross_fit(classifier, case.X, codes, classes, splits, refit=True)
        seconds = time.process_time() - start
        np.savez(
            path,
            oof=np.asarray(fits.training.posteriors, dtype=np.float32),
            labels=fits.training.labels,
            folds=fits.training.folds,
            refit=predict_posteriors(fits.classifier, case.X_test, classes).astype(np.float32),
            fold_posteriors=np.array(
                [predict_posteriors(m, case.X_test, classes) for m in fits.fold_models],
                dtype=np.float32,
            ),
            test_labels=np.searchsorted(classes, case.y_test),
            seconds=seconds,
        )
        print(name, seed, classifier_name, f"{seconds:.1f} s", flush=True)


def load(cache: Path, name: str, seed: int) -> tuple[dict[str, Scored], np.ndarray, float]:
    """Return the posteriors of all classifiers, the test labels and the time of the fits."""
    scored, seconds = {}, 0.0
    for classifier in CLASSIFIERS:
        with np.load(file_of(cache, name, seed, classifier)) as data:
            oof = data["oof"].astype(np.float64)
            training = TrainingPosteriors(oof, data["labels"], None, data["folds"])
            refit, folds = (data[f].astype(np.float64) for f in ("refit", "fold_posteriors"))
            scored[classifier] = Scored(training, refit, folds)
            labels, seconds = data["test_labels"], seconds + float(data["seconds"])
    return scored, labels, seconds


def methods(metric: str) -> dict[str, MemberMethod]:
    kernel = kdey.KDEyML(tune_for=metric, average=5, random_state=0).row_spec()
    ratio = kdey.EMQ(calibration="bcts").row_spec()
    return {
        "KDEy-ML": MemberMethod("KDEy-ML", kernel, True),
        "EMQ-BCTS": MemberMethod("EMQ-BCTS", ratio, False),
    }


@dataclass(frozen=True, eq=False)
class Contest:
    """One split and one metric: the members, and the bags of the test instances."""

    scored: dict[str, Scored]
    members: list[FittedMember]
    new: dict[str, np.ndarray]
    refit: dict[str, np.ndarray]
    bags: Any
    metric: str
    bag_size: int

    @property
    def trainings(self) -> dict[str, TrainingPosteriors]:
        """Training posteriors of each classifier."""
        return {name: scored.training for name, scored in self.scored.items()}

    @property
    def prevalence(self) -> np.ndarray:
        """Training prevalence, shape (k,)."""
        return self.members[0].prevalence

    def error(self, estimates: np.ndarray) -> float:
        """Return the mean error of estimates of all bags."""
        metric = get_metric(self.metric)
        return float(np.mean(metric(self.bags.prevalences, estimates, bag_size=self.bag_size)))

    def solve(self, rows: np.ndarray, share: float = 0.0, bags: Bags | None = None) -> np.ndarray:
        """Return the maximum likelihood prevalences of bags, shape (n_bags, k)."""
        problem = MixtureLikelihood(rows, bags or self.bags.bags, pseudo_share=share)
        return solve_mixture(problem).prevalence

    def pooled(self, pool: HeldOut, scores: dict[str, np.ndarray]) -> np.ndarray:
        """Return the pooled posteriors of the test instances, shape (m, k)."""
        parts = [
            w * m.posteriors(scores[m.classifier])
            for w, m in zip(pool.weights, pool.members, strict=True)
        ]
        return np.asarray(sum(parts))

    def smoothed(self, pool: HeldOut, scores: dict[str, np.ndarray]) -> np.ndarray:
        """Return the estimates of a pool as Quantifier makes them."""
        return self.smoothed_by(pool.posteriors, self.pooled(pool, scores))

    def smoothed_by(self, held_out: np.ndarray, new: np.ndarray) -> np.ndarray:
        """Return the estimates that Quantifier makes of pooled posteriors."""
        training = replace(next(iter(self.trainings.values())), posteriors=held_out)
        spec = SmoothedRatioRows(TuningPlan(self.metric, random_state=0))
        row_map = spec.fit(training, len(self.prevalence))
        return self.solve(row_map(new).array, row_map.pseudo_share)

    def recalibrated(self, pool: HeldOut, scores: dict[str, np.ndarray]) -> np.ndarray:
        """Return the estimates of a recalibrated pool without power and pseudo-instances."""
        training = replace(next(iter(self.trainings.values())), posteriors=pool.posteriors)
        row_map = RatioMap("bcts").fit(training, len(self.prevalence))
        return self.solve(row_map(self.pooled(pool, scores)).array)


def scores_of(scored: dict[str, Scored]) -> dict[str, np.ndarray]:
    """Return the posteriors by which new instances are scored in Quantifier."""
    return {name: s.mean if name == "gradient boosting" else s.refit for name, s in scored.items()}


def compare(
    cache: Path, name: str, seed: int, n_bags: int, bag_size: int, asked: list[str]
) -> dict[str, Any]:
    """Return the errors of some combinations, or of all, by both metrics."""
    scored, labels, seconds = load(cache, name, seed)
    k = scored[CLASSIFIERS[0]].refit.shape[1]
    bags = APP(n_bags, bag_size, random_state=seed).bags(labels, np.arange(k))
    line: dict[str, Any] = {"set": name, "seed": seed, "seconds": round(seconds, 1)}
    for number, metric in enumerate(METRICS):
        members = [
            fit_member(c, m, s.training, k)
            for c, s in scored.items()
            for m in methods(metric).values()
        ]
        refit = {classifier: s.refit for classifier, s in scored.items()}
        new = scores_of(scored)
        contest = Contest(scored, members, new, refit, bags, metric, bag_size)
        for label, error in contestants(contest, asked).items():
            line.setdefault(label, [None] * len(METRICS))[number] = round(error, 6)
    return line


def contestants(contest: Contest, asked: list[str]) -> dict[str, float]:
    """Return the errors of some combinations, or of all."""
    everything = held_out(contest.members, contest.trainings)
    plain = everything.keep([i for i, m in enumerate(contest.members) if m.method == "EMQ-BCTS"])
    kernels = everything.keep([i for i, m in enumerate(contest.members) if m.method == "KDEy-ML"])
    training = next(iter(contest.trainings.values()))
    enough = len(training.labels) >= KERNEL_LABELS
    uniform = replace(everything, weights=np.full(len(contest.members), 1 / len(contest.members)))
    ways: dict[str, Callable[[], np.ndarray]] = {
        "Quantifier": lambda: contest.smoothed(
            limit_kernels(select_members(everything if enough else plain), contest.trainings),
            contest.new,
        ),
        "pool of all": lambda: contest.smoothed(everything, contest.new),
        "pool without kernels": lambda: contest.smoothed(plain, contest.new),
        "pool of kernels": lambda: contest.smoothed(kernels, contest.new),
        "uniform weights": lambda: contest.smoothed(uniform, contest.new),
        "pool of all, refitted": lambda: contest.smoothed(everything, contest.refit),
        "pool of all, no smoothing": lambda: contest.recalibrated(everything, contest.new),
        "pool of all, refitted, no smoothing": lambda: contest.recalibrated(
            everything, contest.refit
        ),
        "log-linear pool": lambda: contest.solve(log_linear(contest)[1] / contest.prevalence),
        SMOOTHED: lambda: contest.smoothed_by(*log_linear(contest)),
        "mean of posteriors, EMQ-BCTS": lambda: mean_of_posteriors(contest),
    }
    wanted = asked or ways
    errors = {label: contest.error(way()) for label, way in ways.items() if label in wanted}
    if asked:
        return errors
    singles = {m.name: single(contest, m) for m in contest.members}
    errors |= {label: contest.error(estimates) for label, estimates in singles.items()}
    errors["average of estimates"] = contest.error(average_of_estimates(contest, singles))
    alike = np.full_like(contest.bags.prevalences, 1 / len(contest.prevalence))
    errors["all classes alike"] = contest.error(alike)
    return errors


def single(contest: Contest, member: FittedMember) -> np.ndarray:
    """Return the estimates of one method on one refitted classifier, as its users have them."""
    kernel = kdey.KDEyML(tune_for=contest.metric, random_state=0)
    q = kernel if member.method == "KDEy-ML" else kdey.EMQ(calibration="bcts")
    training = contest.trainings[member.classifier]
    q._fit_stage(FittedStage(None, training), np.zeros((len(training.labels), 1)), training.labels)
    return q.aggregate_bags(contest.refit[member.classifier], contest.bags.bags)


def log_linear(contest: Contest, ridge: float = 1e-3) -> tuple[np.ndarray, np.ndarray]:
    """Return a product of powers of the members, with a bias per class: held out, and new."""
    logs = np.log([m.training_posteriors(contest.trainings[m.classifier]) for m in contest.members])
    labels = next(iter(contest.trainings.values())).labels
    n, k, n_members = len(labels), logs.shape[2], len(logs)

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        out = log_softmax(np.tensordot(theta[:n_members], logs, 1) + theta[n_members:], axis=1)
        residual = np.exp(out)
        residual[np.arange(n), labels] -= 1
        slopes = np.einsum("nk,mnk->m", residual, logs) / n + ridge * theta[:n_members]
        penalty = 0.5 * ridge * float(theta[:n_members] @ theta[:n_members])
        value = -float(out[np.arange(n), labels].mean()) + penalty
        return value, np.concatenate([slopes, residual.sum(axis=0) / n])

    start = np.concatenate([np.full(n_members, 1 / n_members), np.zeros(k)])
    bounds = [(0, None)] * n_members + [(None, None)] * k
    theta = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    new = np.log([m.posteriors(contest.new[m.classifier]) for m in contest.members])
    powers, bias = theta[:n_members], theta[n_members:]
    held, made = (softmax(np.tensordot(powers, x, 1) + bias, axis=1) for x in (logs, new))
    return held, made


def mean_of_posteriors(contest: Contest) -> np.ndarray:
    """Return the estimates of EMQ-BCTS on the mean of the classifiers' posteriors."""
    training = next(iter(contest.trainings.values()))
    mean = np.mean([t.required() for t in contest.trainings.values()], axis=0)
    calibrator = BCTS().fit(mean, training.labels)
    new = calibrator.transform(np.mean(list(contest.refit.values()), axis=0))
    return contest.solve(new / calibrator.transform(mean).mean(axis=0))


def average_of_estimates(contest: Contest, singles: dict[str, np.ndarray]) -> np.ndarray:
    """Return the average of the members' estimates, weighted by their errors on held-out bags."""
    labels = next(iter(contest.trainings.values())).labels
    protocol = APP(200, contest.bag_size, random_state=7)
    bags = protocol.bags(labels, np.arange(len(contest.prevalence)))
    metric = get_metric(contest.metric)
    errors = []
    for m in contest.members:
        rows = m.training_posteriors(contest.trainings[m.classifier]) / m.prevalence
        estimates = contest.solve(rows, bags=bags.bags)
        errors.append(np.mean(metric(bags.prevalences, estimates, bag_size=contest.bag_size)))
    weights = (min(errors) / np.array(errors)) ** POWER
    return np.tensordot(weights / weights.sum(), [singles[m.name] for m in contest.members], 1)


def by_set(rows: list[dict[str, Any]], sets: list[str], label: str, number: int) -> np.ndarray:
    """Return the mean error over the seeds of each set."""
    errors = [np.mean([r[label][number] for r in rows if r["set"] == s]) for s in sets]
    return np.maximum(errors, FLOOR)


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print geometric means over sets, relative to the default of 0.1.0 and to hindsight."""
    sets = list(dict.fromkeys(row["set"] for row in rows))
    labels = [label for label in rows[0] if label not in ("set", "seed", "seconds")]
    for number, metric in enumerate(("MAE", "MRAE")):
        mean = {label: by_set(rows, sets, label, number) for label in labels}
        hindsight = np.min([mean[label] for label in SINGLE], axis=0)
        best = min(SINGLE, key=lambda label: geometric_mean(mean[label]))
        most = int(np.argmin(mean["Quantifier"] / mean[BASE]))
        rest = np.arange(len(sets)) != most
        print(f"\n{metric}, geometric means over {len(sets)} sets and {len(rows)} splits.")
        print(f"Best pair for all sets: {best}. The set that gains most: {sets[most]}.\n")
        lines = [
            [
                label,
                float(np.mean(mean[label])),
                geometric_mean(mean[label] / mean[BASE]),
                geometric_mean((mean[label] / mean[BASE])[rest]),
                geometric_mean(mean[label] / mean[best]),
                geometric_mean(mean[label] / hindsight),
            ]
            for label in labels
        ]
        lines.sort(key=lambda line: float(line[2]))
        heads = [
            "way",
            "mean error",
            f"to {BASE}",
            "without that set",
            "to the best pair",
            "to hindsight",
        ]
        print(markdown(heads, lines))
        print(f"\n{metric} by set:\n")
        columns = [mean[label] for label in ("Quantifier", BASE, best)]
        table = [[s, *(float(c[i]) for c in (*columns, hindsight))] for i, s in enumerate(sets)]
        print(markdown(["set", "Quantifier", BASE, best, "best pair in hindsight"], table))
        print_published(dict(zip(sets, mean["Quantifier"], strict=True)), metric)


def print_published(errors: dict[str, float], metric: str) -> None:
    """Print the errors on the paper's sets beside those that it has for KDEy-ML."""
    published = published_values("multiclass", "UCI-multi", metric.lower())
    lines: list[list[Any]] = []
    for name in PAPER:
        if name in errors:
            value = published[name.split("/")[1], "KDEy-ML"]
            lines.append([name, float(errors[name]), value, float(errors[name] / value)])
    if lines:
        print(f"\n{metric} beside the paper's (KDEy-ML, logistic regression, a grid of 280):\n")
        lines.append(["geometric mean", None, None, geometric_mean(row[3] for row in lines)])
        print(markdown(["set", "Quantifier", "published KDEy-ML", "ratio"], lines))


def print_paired(rows: list[dict[str, Any]]) -> None:
    """Print errors relative to those of Quantifier, paired by split and folds."""
    lines, ratios = [], np.array([np.divide(row[SMOOTHED], row["Quantifier"]) for row in rows])
    for name in dict.fromkeys(row["set"] for row in rows):
        own = ratios[[row["set"] == name for row in rows]]
        lines.append([name, len(own), *(spread(values) for values in own.T)])
    lines.append(["all", len(rows), *(spread(values) for values in ratios.T)])
    print(markdown(["set", "splits", "MAE", "MRAE"], lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=["fit", "compare", "table"])
    parser.add_argument("--cache", type=Path, default=Path("build/benchmarks/stacking"))
    parser.add_argument("--group", choices=list(GROUPS), default="multiclass")
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--bags", type=int, default=1000)
    args = parser.parse_args()
    bag_size, file, asked = GROUPS[args.group]
    records = Records(file, ("set", "seed"))
    if args.task == "table":
        (print_paired if asked else print_table)(records.rows)
        return
    quiet()
    args.cache.mkdir(parents=True, exist_ok=True)
    binary = [f"uci-binary/{name.split('/')[-1]}" for name in names("uci-binary")]
    known = binary if args.group == "binary" else [*PAPER, *EXTRA]
    for seed in args.seeds:
        for name in args.sets or known:
            if args.task == "fit":
                fit(args.cache, name, seed)
                continue
            ready = all(file_of(args.cache, name, seed, c).exists() for c in CLASSIFIERS)
            if ready and (name, seed) not in records:
                records.add(compare(args.cache, name, seed, args.bags, bag_size, asked))


if __name__ == "__main__":
    main()
