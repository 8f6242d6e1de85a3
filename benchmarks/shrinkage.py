"""Partial pooling of small groups: error, coverage and kappa on six sets.

Tables of 60 groups: the mean prevalence is drawn from Dirichlet(2, ..., 2), the prevalence of each
group from Dirichlet(kappa mean), and its instances, with replacement, from the part of the set that
is not used for training. EMQ with BCTS on logistic regression is fitted on redrawn splits, so that
the error of the templates is a part of what limits must cover. Of every table we keep

* the mean absolute error of estimates that are pooled, and of separate ones;
* how often 95 % limits cover, on average over groups and for the 15 % of groups whose prevalences
  lie farthest from the mean of all (pooled and separate);
* the median of kappa, whether its 90 % interval holds the true value, and whether groups were
  told apart.

``--kinds`` draws other tables, of 30 groups, half of 15 and half of 60 instances, on ``--sets``:
equal groups, groups that differ, groups whose share goes with their size, and groups that are alike
but for four *moderate* outliers (two standard errors off in a random class) and a *far* one (85 %
of it is of the rarest class). Of each we keep how often intervals cover and how wide they are, by
the kind and the size of a group, for four ways: separate, pooled without setting any group apart,
pooled with outliers set apart ("average-group"), and valid for each group ("each-group"). Chains
are short: six draws of the templates, 150 sweeps. ``--flags`` keeps of further such tables whether
groups are said not to belong, or to be alike.

``--run`` adds splits to ``build/benchmarks/shrinkage.jsonl``, all cells in turn, until there are
``--splits``; stopped, it goes on from there. ``--summary`` writes ``results/shrinkage.csv``,
``--table`` prints it. ``--kinds`` adds tables until there are ``--splits`` of each kind on each
set (``--flags`` likewise), ``--summary`` writes ``results/outliers.csv`` and
``results/outlier_flags.csv``, too, and ``--kinds-table`` prints them. ``--time``
measures 10,000 groups of 30 instances.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cases import quiet
from kdey.bags import Bags, offsets_of
from kdey.bayes.each_group import LEVELS, SeparateEnds, lean_on_others, learn_others
from kdey.bayes.pooling import GroupTree, ShrunkGroups, shrink_groups
from kdey.bayes.sampling import TemplateDraws
from kdey.native import thread_count
from labelled import make_quantifier, split
from summaries import RAW, RESULTS, read_raw, read_summary, update_summary

FILE, SUMMARY = RAW / "shrinkage.jsonl", RESULTS / "shrinkage.csv"
SETS = (
    *("uci-multi/academic-success", "uci-multi/wine-quality", "uci-multi/dry-bean"),
    *("uci-extra/cmc", "uci-extra/page-blocks", "uci-extra/pendigits"),
)
KAPPAS, SIZES = (5, 50, 500), (10, 30, 100)
GROUPS, FARTHEST = 60, 9
#: Splits from this seed on are the evidence; those before it were looked at in development.
FIRST_SPLIT = 100
KEYS = ("set", "kappa", "size")
MEANS = (
    *("separate error", "pooled error", "separate covered", "pooled covered"),
    *("separate farthest covered", "pooled farthest covered", "separate width", "pooled width"),
    *("kappa found", "kappa covered", "told apart", "shrinkage", "converged", "seconds"),
)

KINDS_FILE, KINDS_SUMMARY = RAW / "outliers.jsonl", RESULTS / "outliers.csv"
FLAGS_FILE, FLAGS_SUMMARY = RAW / "outlier_flags.jsonl", RESULTS / "outlier_flags.csv"
FLAGS = ("far flagged", "other flagged", "alike")
KINDS_SETS = (
    *("uci-multi/academic-success", "uci-extra/page-blocks", "uci-binary/spambase"),
    *("uci-multi/wine-quality", "uci-multi/dry-bean", "uci-extra/pendigits"),
)
#: What is added to the kind of tables of the last three sets.
OTHER_SETS = ", other sets"
#: Kinds of tables, by the concentration of their groups.
TABLES = {"outlier": 200.0, "equal": 1e6, "mixed": 200.0, "different": 10.0}
#: Splits of each set.
KINDS_SPLITS, KINDS_GROUPS, MODERATE, FAR = 10, 30, slice(0, 4), 5
TAIL = 0.025
WAYS = ("separate", "pooled", "average-group", "each-group")
EFFORT = {"n_templates": 6, "n_sweeps": 150, "n_rounds": 2}


@cache
def scored(name: str, seed: int) -> tuple[Any, np.ndarray, tuple[np.ndarray, ...]]:
    """Return a fitted quantifier, the posteriors of the pool, and its members of each class."""
    X, X_pool, y, y_pool = split(name, seed)
    quantifier = make_quantifier("EMQ-BCTS").fit(X, y)
    members = tuple(np.flatnonzero(y_pool == label) for label in quantifier.classes_)
    return quantifier, quantifier.classifier_.predict_proba(X_pool), members


def draw_groups(
    members: tuple[np.ndarray, ...], kappa: float, size: int, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the prevalences of n groups, and the positions of their instances in the pool."""
    k = len(members)
    mean = rng.dirichlet(np.full(k, 2.0))
    truth = rng.dirichlet(np.maximum(kappa * mean, 1e-3), size=n)
    limits = np.cumsum(truth, axis=1)[:, :-1]
    labels = (rng.random((n, size, 1)) > limits[:, None]).sum(axis=2).ravel()
    positions = np.empty(n * size, dtype=np.int64)
    for i in range(k):
        positions[labels == i] = rng.choice(members[i], int((labels == i).sum()))
    return truth, positions


def outcome(name: str, kappa: int, size: int, seed: int) -> dict[str, float]:
    """Return what one table gave."""
    quantifier, pool, members = scored(name, seed)
    rng = np.random.default_rng([18, SETS.index(name), kappa, size, seed])
    truth, positions = draw_groups(members, kappa, size, GROUPS, rng)
    posteriors = pool[positions]
    offsets = np.arange(0, GROUPS * size + 1, size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bags = Bags(np.arange(len(positions)), offsets, len(positions))
        separate = quantifier.estimate_posteriors(posteriors, bags, check_fit=False)
        started = time.perf_counter()
        tree = GroupTree.of(np.full(GROUPS, size))
        pooled = shrink_groups(TemplateDraws.of(quantifier), posteriors, tree, random_state=seed)
        seconds = time.perf_counter() - started
    parts = {
        "separate": (separate.estimate, separate.low, separate.high),
        "pooled": (pooled.estimate(), *pooled.interval(0.025)),
    }
    return {**_errors(parts, truth), **_kappa(pooled, kappa), "seconds": seconds}


def _errors(parts: dict[str, tuple[Any, Any, Any]], truth: np.ndarray) -> dict[str, float]:
    far = np.argsort(-np.abs(truth - truth.mean(axis=0)).sum(axis=1))[:FARTHEST]
    out = {}
    for way, (estimate, low, high) in parts.items():
        covered = (low <= truth) & (truth <= high)
        out[f"{way} error"] = float(np.abs(estimate - truth).mean())
        out[f"{way} covered"] = float(covered.mean())
        out[f"{way} farthest covered"] = float(covered[far].mean())
        out[f"{way} width"] = float((high - low).mean())
    return out


def _kappa(pooled: ShrunkGroups, kappa: float) -> dict[str, float]:
    low, middle, high = np.quantile(pooled.kappa, [0.05, 0.5, 0.95])
    return {
        "kappa found": float(middle),
        "kappa covered": float(low <= kappa <= high),
        "told apart": float(pooled.told_apart),
        "shrinkage": float(pooled.shrinkage.mean()),
        "converged": float(pooled.converged),
    }


def draw_kinds(
    members: tuple[np.ndarray, ...], table: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the shares of groups of a kind of table, their sizes, and positions in the pool."""
    k = len(members)
    mean = rng.dirichlet(np.full(k, 3.0))
    sizes = np.where(np.arange(KINDS_GROUPS) % 2 == 0, 15, 60)
    truth = rng.dirichlet(np.maximum(TABLES[table] * mean, 1e-3), size=KINDS_GROUPS)

    def with_share(label: int, share: float) -> np.ndarray:
        out = mean * (1.0 - share) / (1.0 - mean[label])
        out[label] = share
        return out

    if table == "mixed":
        label = int(mean.argmax())
        truth[sizes == 60] = with_share(label, 0.6 * mean[label])
    if table == "outlier":
        for group in range(*MODERATE.indices(KINDS_GROUPS)):
            label = int(rng.integers(k))
            error = np.sqrt(mean[label] * (1.0 - mean[label]) / sizes[group])
            truth[group] = with_share(label, min(mean[label] + 2.0 * error, 0.95))
        truth[FAR] = with_share(int(mean.argmin()), 0.85)
    labels = [rng.choice(k, n, p=p) for n, p in zip(sizes, truth, strict=True)]
    positions = [rng.choice(members[label]) for label in np.concatenate(labels)]
    return truth, sizes, np.array(positions)


def outcome_of_kind(name: str, table: str, seed: int) -> dict[str, float]:
    """Return what one table of a kind gave: coverage and width of each kind of group."""
    quantifier, pool, members = scored(name, FIRST_SPLIT + seed % KINDS_SPLITS)
    rng = np.random.default_rng([30, KINDS_SETS.index(name), sorted(TABLES).index(table), seed])
    truth, sizes, positions = draw_kinds(members, table, rng)
    posteriors, made = pool[positions], {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made["separate"], ends = separate_ends(quantifier, posteriors, sizes)
        templates, tree = TemplateDraws.of(quantifier), GroupTree.of(sizes)
        plain = shrink_groups(templates, posteriors, tree, random_state=seed, **EFFORT)
        for way in WAYS[2:]:
            made[way] = lean_on_others(
                *(templates, posteriors, sizes, ends, TAIL),
                **{"covers": way, "random_state": seed, **EFFORT},
            )
    shown = {way: (e.estimate, e.low, e.high) for way, e in made.items()}
    shown["pooled"] = (plain.estimate(), *plain.interval(TAIL))
    kinds = np.full(KINDS_GROUPS, "typical", dtype=object)
    if table == "outlier":
        kinds[MODERATE], kinds[FAR] = "moderate", "far"
    out = {}
    for way, (estimate, low, high) in shown.items():
        covered = ((low <= truth) & (truth <= high)).mean(axis=1)
        width, error = (high - low).mean(axis=1), np.abs(estimate - truth).mean(axis=1)
        for kind in dict.fromkeys(kinds.tolist()):
            for size in (15, 60):
                own = (kinds == kind) & (sizes == size)
                if own.any():
                    for what, values in zip(MEASURES, (covered, width, error), strict=True):
                        out[f"{kind} {size} {way} {what}"] = float(values[own].mean())
    return out


def flags_of_kind(name: str, table: str, seed: int) -> dict[str, float]:
    """Return what is said of the groups of a table of a kind."""
    quantifier, pool, members = scored(name, FIRST_SPLIT + seed % KINDS_SPLITS)
    rng = np.random.default_rng([30, KINDS_SETS.index(name), sorted(TABLES).index(table), seed])
    _, sizes, positions = draw_kinds(members, table, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        templates = TemplateDraws.of(quantifier)
        ends, parents = separate_ends(quantifier, pool[positions], sizes)[1], np.zeros_like(sizes)
        others = learn_others(templates, pool, positions, sizes, ends, TAIL, parents)
        alike = not others.differ
        if alike:  # the chains decide
            made = lean_on_others(
                *(templates, pool[positions], sizes, ends, TAIL),
                **{"random_state": seed, **EFFORT},
            )
            alike = made.alike
    far = np.arange(KINDS_GROUPS) == (FAR if table == "outlier" else -1)
    flags = others.strange
    return {
        "far flagged": float(flags[far].all()),
        "other flagged": float(flags[~far].any()),
        "alike": float(alike),
    }


def separate_ends(quantifier: Any, posteriors: np.ndarray, sizes: np.ndarray) -> tuple[Any, Any]:
    """Return separate estimates of groups, and the ends of their intervals at all levels."""
    bags = Bags(np.arange(len(posteriors)), offsets_of(sizes), len(posteriors))
    found = [
        quantifier.estimate_posteriors(
            posteriors, bags, check_fit=False, confidence=1.0 - 2.0 * TAIL * level
        )
        for level in LEVELS
    ]
    ends = SeparateEnds.of(found[0].estimate, [(e.low, e.high) for e in found], TAIL)
    return found[LEVELS.index(1.0)], ends


MEASURES = ("covered", "width", "error")


def run_kinds(
    tables: int, path: Path, outcome_of: Callable[..., dict[str, float]], sets: list[str]
) -> None:
    """Add tables of all kinds on some sets in turn."""
    quiet()
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["set"], row["table"], row["seed"]) for row in read_raw(path)}
    first, *others = TABLES  # those with outliers, then the others in turn
    turns = [(first, seed) for seed in range(tables)]
    turns += [(table, seed) for seed in range(tables) for table in others]
    for table, seed in turns:
        for name in sets:
            if (name, table, seed) not in done:
                row = {"set": name, "table": table, "seed": seed}
                row |= {k: round(v, 5) for k, v in outcome_of(name, table, seed).items()}
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")


def summarise_kinds() -> None:
    """Write a line for each kind of table, kind and size of groups and way: means over tables."""
    lines, rows = [], list(read_raw(KINDS_FILE))
    for row in rows:
        row["table"] += "" if row["set"] in KINDS_SETS[:3] else OTHER_SETS
    for table in dict.fromkeys(row["table"] for row in rows):
        own = [row for row in rows if row["table"] == table]
        for name in [name for name in own[0] if name.endswith(" covered")]:
            kind, size, way, _ = name.split(" ")
            values = {w: np.array([r[f"{kind} {size} {way} {w}"] for r in own]) for w in MEASURES}
            line = {"table": table, "kind": kind, "size": size, "way": way, "tables": len(own)}
            line |= {what: f"{column.mean():.4f}" for what, column in values.items()}
            line["se"] = f"{values['covered'].std() / np.sqrt(len(own)):.4f}"
            lines.append(line)
    update_summary(KINDS_SUMMARY, lines, ("table", "kind", "size", "way"))


def summarise_flags() -> None:
    """Write a line for each kind of table: how often something is said of its groups."""
    stored = {(row["table"], row["set"]): row for row in read_summary(FLAGS_SUMMARY)}
    lines, rows = [], list(read_raw(FLAGS_FILE))
    for table in TABLES:
        total, counts = 0, dict.fromkeys(FLAGS, 0.0)
        for name in (*KINDS_SETS, "all"):
            own = [row for row in rows if (row["table"], row["set"]) == (table, name)]
            known = stored.get((table, name), {})
            n = total if name == "all" else len(own) or int(known.get("tables", 0))
            line = {"table": table, "set": name, "tables": n}
            for flag in FLAGS:
                found = float(np.mean([row[flag] for row in own])) if own else known.get(flag, 0)
                share = counts[flag] / n if name == "all" else float(found)
                counts[flag] += n * share
                error = np.sqrt(share * (1.0 - share) / max(n, 1))
                line |= {flag: f"{share:.3f}", f"{flag}, se": f"{error:.3f}"}
            total += n
            lines += [line] if n else []
    update_summary(FLAGS_SUMMARY, lines, ("table", "set"))


def show_kinds() -> None:
    """Print a line for each kind of group, and sentences about flags and widths."""
    rows = read_summary(KINDS_SUMMARY)
    print("| table | groups | size | n", *WAYS, "se | width |", sep=" | ")
    print("|---|---|---|---|---|---|---|---|---|---|")
    means: dict[str, list[float]] = {}
    for first in (row for row in rows if row["way"] == WAYS[0]):
        key = [first[name] for name in ("table", "kind", "size")]
        count = first["tables"]
        own = {r["way"]: r for r in rows if [r[n] for n in ("table", "kind", "size")] == key}
        covered = " | ".join(f"{float(own[way]['covered']):.3f}" for way in WAYS)
        widths = [float(own[way]["width"]) for way in WAYS]
        for way in WAYS:
            means.setdefault(way, []).append(float(own[way]["covered"]))
            means.setdefault(f"{way} width", []).append(float(own[way]["width"]) / widths[0])
        wide = ", ".join(f"{width:.2f}" for width in widths)
        print(f"| {' | '.join(key)} | {count} | {covered} | {own['each-group']['se']} | {wide} |")
    for way in WAYS:
        print(f"{way}: least covered {min(means[way]):.3f}")
        print(f"{way}: width over separate {np.mean(means[f'{way} width']):.2f}")
    print()
    print("| table | set | tables | far group flagged | another group flagged | said to be alike |")
    print("|---|---|---|---|---|---|")
    places = {table: number for number, table in enumerate(TABLES)}
    for row in sorted(read_summary(FLAGS_SUMMARY), key=lambda row: places[row["table"]]):
        shown = [f"{row[flag]} ({row[f'{flag}, se']})" for flag in FLAGS]
        shown[0] = shown[0] if row["table"] == "outlier" else "-"
        name = row["set"].split("/")[-1]
        print(f"| {row['table']} | {name} | {row['tables']} | {' | '.join(shown)} |")


def cells() -> Iterator[tuple[str, int, int]]:
    for name in SETS:
        for kappa in KAPPAS:
            for size in SIZES:
                yield name, kappa, size


def run(splits: int) -> None:
    """Add splits to all cells in turn."""
    quiet()
    FILE.parent.mkdir(parents=True, exist_ok=True)
    done = {(*(row[key] for key in KEYS), row["split"]) for row in read_raw(FILE)}
    for number in range(FIRST_SPLIT, FIRST_SPLIT + splits):
        for cell in cells():
            if (*cell, number) in done:
                continue
            row = {**dict(zip(KEYS, cell, strict=True)), "split": number}
            row |= {key: round(value, 6) for key, value in outcome(*cell, number).items()}
            with FILE.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        scored.cache_clear()
        print("split", number, flush=True)


def summarise() -> None:
    """Write one line per cell: means over the tables (of kappa, the median)."""
    import csv

    rows = list(read_raw(FILE))
    RESULTS.mkdir(exist_ok=True)
    with SUMMARY.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*KEYS, "tables", *MEANS])
        for cell in cells():
            own = [row for row in rows if tuple(row[key] for key in KEYS) == cell]
            if not own:
                continue
            numbers = [
                np.median([row[name] for row in own])
                if name == "kappa found"
                else np.mean([row[name] for row in own])
                for name in MEANS
            ]
            writer.writerow([*cell, len(own), *(f"{number:.4f}" for number in numbers)])


def show() -> None:
    """Print a line for each kappa and size, over the sets, and sentences about all cells."""
    rows = read_summary(SUMMARY)
    print("| kappa | size | separate | pooled | gain | covered | farthest | kappa found |")
    print("|---|---|---|---|---|---|---|---|")
    for kappa in KAPPAS:
        for size in SIZES:
            own = [r for r in rows if (int(r["kappa"]), int(r["size"])) == (kappa, size)]
            means = {n: np.mean([float(r[n]) for r in own]) for n in MEANS if n != "kappa found"}
            found = [float(row["kappa found"]) for row in own]
            gain = 1 - means["pooled error"] / means["separate error"]
            print(
                f"| {kappa} | {size} | {means['separate error']:.4f} | "
                f"{means['pooled error']:.4f} | {gain:.0%} | {means['pooled covered']:.3f} | "
                f"{means['pooled farthest covered']:.3f} | {min(found):.0f} to {max(found):.0f} |"
            )
    covered = [float(row["pooled covered"]) for row in rows]
    ratios = [float(row["pooled error"]) / float(row["separate error"]) for row in rows]
    print(
        f"coverage of cells: {min(covered):.3f} to {max(covered):.3f}, mean {np.mean(covered):.3f}"
    )
    print(f"pooled over separate error of cells: {min(ratios):.2f} to {max(ratios):.2f}")
    for name in ("separate covered", "pooled farthest covered", "kappa covered"):
        print(f"mean {name}: {np.mean([float(row[name]) for row in rows]):.3f}")
    alike = [float(row["told apart"]) for row in rows if int(row["kappa"]) == KAPPAS[-1]]
    print(f"tables with kappa {KAPPAS[-1]} that are not told apart: {1 - np.mean(alike):.2f}")


def measure(n_groups: int, size: int, n_jobs: int) -> None:
    """Print the seconds that many groups take."""
    quantifier, pool, members = scored("uci-multi/dry-bean", 0)
    truth, positions = draw_groups(members, 50, size, n_groups, np.random.default_rng(0))
    tree = GroupTree.of(np.full(n_groups, size))
    started = time.perf_counter()
    pooled = shrink_groups(
        TemplateDraws.of(quantifier), pool[positions], tree, n_threads=thread_count(n_jobs)
    )
    estimate, (low, high) = pooled.estimate(), pooled.interval(0.025)
    seconds = time.perf_counter() - started
    covered = float(((low <= truth) & (truth <= high)).mean())
    error = float(np.abs(estimate - truth).mean())
    print(
        f"{n_groups:,} groups of {size}, {truth.shape[1]} classes, {thread_count(n_jobs)} threads: "
        f"{seconds:.0f} s; error {error:.4f}, covered {covered:.3f}, "
        f"kappa {np.median(pooled.kappa):.1f}, converged {pooled.converged}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--flags", action="store_true")
    parser.add_argument("--sets", nargs="+", choices=KINDS_SETS, default=KINDS_SETS)
    parser.add_argument("--kinds-table", action="store_true")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=-1)
    arguments = parser.parse_args()
    if arguments.run:
        run(arguments.splits)
    if arguments.kinds:
        run_kinds(arguments.splits, KINDS_FILE, outcome_of_kind, arguments.sets)
    if arguments.flags:
        run_kinds(arguments.splits, FLAGS_FILE, flags_of_kind, arguments.sets)
    if arguments.summary and FILE.exists():
        summarise()
    if arguments.summary and KINDS_FILE.exists():
        summarise_kinds()
    if arguments.summary and FLAGS_FILE.exists():
        summarise_flags()
    if arguments.kinds_table:
        show_kinds()
    if arguments.table:
        show()
    if arguments.time:
        measure(arguments.groups, arguments.size, arguments.jobs)


if __name__ == "__main__":
    main()
