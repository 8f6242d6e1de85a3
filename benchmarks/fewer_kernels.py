"""How many kernels the automatic choice and the pool need, on cached posteriors.

    python benchmarks/stacking.py fit --cache FOLDER            # the posteriors
    python benchmarks/fewer_kernels.py --cache FOLDER           # appends, can be resumed
    python benchmarks/fewer_kernels.py --table

Every kernel costs a pass over the references at each prediction. ``KDEyML()`` averages estimates of
several geometries, each at its best bandwidth; the kernel members of ``Quantifier()`` average
distributions. One tuning per classifier gives the best bandwidth of each geometry, and the ways to
keep all of them, one or two are compared on the same 1,000 bags of 500. One line per set, seed and
metric goes to ``results/fewer_kernels.jsonl``.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import kdey
from cases import EXTRA, PAPER, Records, geometric_mean, quiet
from kdey.evaluation import APP
from kdey.metrics import get_metric
from kdey.posteriors import FittedStage, TrainingPosteriors
from kdey.rows import CompositeMap
from kdey.rows.kernel import KernelDensityMap, KernelSpec
from kdey.stacking import CLASSIFIERS
from kdey.stacking.pooled_classifier import (
    KERNEL_LABELS,
    FittedMember,
    HeldOut,
    MemberMethod,
    fit_member,
    held_out,
    select_members,
)
from kdey.tuning.trials import Trial, TuningPlan, committee_weights, make_hold_outs
from printing import markdown
from stacking import FLOOR, METRICS, Contest, file_of, load, methods, scores_of

BAG_SIZE = 500
#: Which trials are kept, of the best ones of each geometry sorted by their error in tuning.
Choice = Callable[[list[Trial]], list[Trial]]
CHOICES: dict[str, Choice] = {
    "all geometries": lambda trials: trials,
    "best": lambda trials: trials[:1],
    "best two": lambda trials: trials[:2],
    "best three": lambda trials: trials[:3],
    "best gaussian and best log-ratio": lambda trials: [
        next(t for t in trials if (t.setting == "gaussian") == plain) for plain in (True, False)
    ],
}
#: Pools: the geometries of each kernel member, and the most kernels in all members together.
POOLED: dict[str, tuple[str, int | None]] = {
    "all geometries": ("all geometries", None),
    "best": ("best", None),
    "best two": ("best two", None),
    "all, four kernels in all": ("all geometries", 4),
    "all, three kernels in all": ("all geometries", 3),
    "all, two kernels in all": ("all geometries", 2),
    "best two, three kernels in all": ("best two", 3),
}


def best_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Return the best trial of each geometry, smallest error first."""
    best: dict[str, Trial] = {}
    for trial in trials:
        kept = best.get(trial.setting)
        if kept is None or trial.score < kept.score:
            best[trial.setting] = trial
    return sorted(best.values(), key=lambda trial: trial.score)


def spec_of(trial: Trial) -> KernelDensityMap:
    params = dict(trial.params)
    return KernelDensityMap(KernelSpec(trial.value, params["kernel"], params["shrinkage"]))


def shares(trials: Sequence[Trial]) -> np.ndarray:
    return committee_weights([trial.score for trial in trials], True)


def member_of(
    classifier: str, trials: Sequence[Trial], training: TrainingPosteriors, k: int
) -> FittedMember:
    """Return the kernel member that averages the distributions of these trials."""
    kept = [(t, float(w)) for t, w in zip(trials, shares(trials), strict=True) if w > 0]
    spec = CompositeMap(tuple(spec_of(t) for t, _ in kept), tuple(w for _, w in kept))
    return fit_member(classifier, MemberMethod("KDEy-ML", spec, True), training, k)


def estimates_of(
    trial: Trial, training: TrainingPosteriors, posteriors: np.ndarray, bags: Any
) -> np.ndarray:
    """Return the estimates of one kernel, shape (n_bags, k)."""
    q = kdey.KDEyML(bandwidth=trial.value, **dict(trial.params))
    q._fit_stage(FittedStage(None, training), np.zeros((len(training.labels), 1)), training.labels)
    return q.aggregate_bags(posteriors, bags)


def best_pair(
    trials: Sequence[Trial], training: TrainingPosteriors, k: int, metric: str
) -> tuple[int, int]:
    """Return the pair whose average has the smallest error on the held-out bags of the tuning."""
    effort = KernelDensityMap(KernelSpec(1.0, "gaussian", 0.0)).tuning_effort
    hold_outs = make_hold_outs(training, k, TuningPlan(bag_size=BAG_SIZE), 0, effort)
    by_trial = [
        np.concatenate([estimates_of(t, h.training, h.points, h.bags) for h in hold_outs])
        for t in trials
    ]
    true = np.concatenate([h.prevalences for h in hold_outs])
    weights = shares(trials)

    def error(pair: tuple[int, int]) -> float:
        w = weights[list(pair)] / weights[list(pair)].sum()
        mean = w[0] * by_trial[pair[0]] + w[1] * by_trial[pair[1]]
        return float(np.mean(get_metric(metric)(true, mean, bag_size=BAG_SIZE)))

    kept = [i for i, w in enumerate(weights) if w > 0]
    pairs = list(itertools.combinations(kept, 2)) or [(kept[0], kept[0])]
    return min(pairs, key=error)


def averages(trials: list[Trial], by_trial: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the estimates of each choice."""
    out = {}
    for name, choose in CHOICES.items():
        kept = choose(trials)
        parts = zip(shares(kept), kept, strict=True)
        out[name] = np.asarray(sum(w * by_trial[t.setting] for w, t in parts))
    return out


def compare(cache: Path, name: str, seed: int, metric: str, n_bags: int) -> dict[str, Any]:
    """Return the errors of every choice on one split, alone and in the pool."""
    scored, labels, _ = load(cache, name, seed)
    k = scored[CLASSIFIERS[0]].refit.shape[1]
    bags = APP(n_bags, BAG_SIZE, random_state=seed).bags(labels, np.arange(k))
    new = scores_of(scored)
    refit = {classifier: s.refit for classifier, s in scored.items()}
    contest = Contest(scored, [], new, refit, bags, metric, BAG_SIZE)
    line: dict[str, Any] = {"set": name, "seed": seed, "metric": metric}
    best: dict[str, list[Trial]] = {}
    for classifier, s in scored.items():
        tuning, _ = methods(metric)["KDEy-ML"].rows.choose(s.training, k)
        best[classifier] = trials = best_trials(tuning.trials)
        by_trial = {t.setting: estimates_of(t, s.training, s.refit, bags.bags) for t in trials}
        ways = averages(trials, by_trial)
        pair = [trials[i] for i in best_pair(trials, s.training, k, metric)]
        parts = zip(shares(pair), pair, strict=True)
        ways["pair by held-out error"] = np.asarray(sum(w * by_trial[t.setting] for w, t in parts))
        line[classifier] = {way: round(contest.error(e), 6) for way, e in ways.items()}
        line[classifier]["kernels"] = int((shares(trials) > 0).sum())
    line["pool"] = pools(contest, best, k)
    return line


def pools(contest: Contest, best: dict[str, list[Trial]], k: int) -> dict[str, float]:
    """Return the errors of pools whose kernel members keep some of the geometries."""
    trainings = contest.trainings
    ratio = methods(contest.metric)["EMQ-BCTS"]
    plain = [fit_member(c, ratio, t, k) for c, t in trainings.items()]
    errors, pool_of = {}, {}
    for way, (choice, most) in POOLED.items():
        if choice not in pool_of:
            members = list(plain)
            if len(next(iter(trainings.values())).labels) >= KERNEL_LABELS:
                members += [
                    member_of(c, CHOICES[choice](best[c]), t, k) for c, t in trainings.items()
                ]
            pool_of[choice] = select_members(held_out(members, trainings))
        pool = pool_of[choice]
        pool = pool if most is None else within(pool, most, trainings)
        made = replace(contest, members=list(pool.members))
        errors[way] = round(made.error(made.smoothed(pool, contest.new)), 6)
    return errors


def within(pool: HeldOut, most: int, trainings: dict[str, TrainingPosteriors]) -> HeldOut:
    """Return the pool with at most so many kernels, those of the largest weights."""
    shares = {
        (i, j): float(w * share)
        for i, (w, m) in enumerate(zip(pool.weights, pool.members, strict=True))
        for j, share in enumerate(m.row_map.shares)
        if m.method == "KDEy-ML"
    }
    kept = sorted(shares, key=lambda place: -shares[place])[:most]
    members = []
    for i, member in enumerate(pool.members):
        own = sorted(j for m, j in kept if m == i)
        if member.method != "KDEy-ML":
            members.append(member)
        elif own:
            maps = tuple(member.row_map.members[j] for j in own)
            weights = member.row_map.shares[own]
            shares_kept = weights / weights.sum()
            row_map = CompositeMap(maps, tuple(shares_kept))
            members.append(replace(member, row_map=row_map))
    return select_members(held_out(members, trainings))


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print geometric means over sets of the errors relative to all geometries."""
    for metric in METRICS:
        own = [row for row in rows if row["metric"] == metric]
        if not own:
            continue
        sets = list(dict.fromkeys(row["set"] for row in own))
        title = f"M{metric.upper()} relative to all geometries"
        print(f"\n{title}, {len(sets)} sets, {len(own)} splits:\n")
        lines = []
        for way in dict.fromkeys((*CHOICES, "pair by held-out error", *POOLED)):
            cells: list[Any] = [way]
            for part in (*CLASSIFIERS, "pool"):
                ratios = [ratio_of(own, s, part, way) for s in sets]
                cells += [None if None in ratios else f"{geometric_mean(ratios):.3f}"]
                worst = None if None in ratios else f"{max(ratios):.2f}"
                cells += [worst]
            lines.append(cells)
        heads = ["kept"]
        for part in (*CLASSIFIERS, "pool"):
            heads += [part, "worst set"]
        print(markdown(heads, lines))
    kernels = [row[c]["kernels"] for row in rows for c in CLASSIFIERS]
    print(f"\nGeometries of all: {np.mean(kernels):.1f} on average.")


def ratio_of(rows: list[dict[str, Any]], name: str, part: str, way: str) -> Any:
    """Return the mean error over the seeds of a set, relative to that of all geometries."""
    own = [row[part] for row in rows if row["set"] == name]
    if way not in own[0]:
        return None
    error, base = (np.mean([r[w] for r in own]) for w in (way, "all geometries"))
    return float(max(error, FLOOR) / max(base, FLOOR))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path("build/benchmarks/stacking"))
    parser.add_argument("--sets", nargs="*", default=[*PAPER, *EXTRA])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--metrics", nargs="*", choices=METRICS, default=list(METRICS))
    parser.add_argument("--bags", type=int, default=1000)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    records = Records("fewer_kernels.jsonl", ("set", "seed", "metric"))
    if args.table:
        print_table(records.rows)
        return
    quiet()
    for seed, metric, name in itertools.product(args.seeds, args.metrics, args.sets):
        ready = all(file_of(args.cache, name, seed, c).exists() for c in CLASSIFIERS)
        if ready and (name, seed, metric) not in records:
            records.add(compare(args.cache, name, seed, metric, args.bags))


if __name__ == "__main__":
    main()
