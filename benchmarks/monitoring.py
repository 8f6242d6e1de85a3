"""Monitoring and comparisons: false alarms, delays, family-wise errors and false discoveries.

Parts, which ``--run`` measures and ``--table`` prints:

* ``limits``: the limits of the sequential statistics, by simulated normal errors of 100 periods
  (``kdey.monitoring.alarms`` contains them);
* ``false-alarms``: histories of 100 periods in which nothing changes, with training sets redrawn.
  Bounds lie exactly at the true shares, where false alarms are most frequent. In the case "shares
  drawn" there is no classifier: shares are those of multinomial samples and p-values of the fit
  are uniform, so that the sequential tests stand alone;
* ``delays``: the number of periods until an alarm after a share has moved by five points at
  period 21, or lies five points beyond a bound from the start, by size of the periods;
* ``accusations``: histories in which some classes move and one does not, with what templates have
  in common and (in the case "without") as if their errors cancelled: how often the unchanged class
  is accused, and when the alarm of the moved ones comes;
* ``quiet``, ``groups``: histories in which nothing moves, of one group and of ten, judged in the
  same two ways; and of the accuracy, with a bound at the true one and five points above it;
* ``comparisons``: tables of ten groups and three classes. All groups are the same (family-wise
  error of Holm's method), or five of them have other shares (share of false discoveries, and of
  true differences that are found, by Benjamini and Hochberg's method).

Populations are known. Their posteriors are drawn once; bags are positions in this pool, and
thousands of them are solved in one call. Outcomes go to ``build/benchmarks/monitoring.jsonl``, one
line per case and training set, all cases in turn, so that a stopped run goes on from there;
``--summary`` writes ``results/monitoring.csv``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kdey import EMQ
from kdey.bags import Bags
from kdey.diagnostics.default_checks import default_checker
from kdey.diagnostics.performance import expected_accuracy
from kdey.groups import adjust_p_values
from kdey.intervals import Estimates, difference
from kdey.monitoring import (
    Bound,
    History,
    MonitorSettings,
    Period,
    error_parts,
    find_alarms,
    template_draws,
)
from kdey.monitoring.history import HORIZON
from populations import SYNTHETIC
from summaries import RAW, RESULTS, read_raw, read_summary, update_summary

FILE = RAW / "monitoring.jsonl"
LIMITS, SUMMARY = RESULTS / "monitoring-limits.csv", RESULTS / "monitoring.csv"
CHANCES = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001)
#: Instances per class of the pool, and of the training sets.
POOL, TRAINING = 20_000, 200
#: Training sets.
SETS = 100
#: Name -> population, shares, size of a period, bounds at the true shares, whether fit is checked,
#: histories per training set.
QUIET: dict[str, tuple[str, tuple[float, ...], int, tuple[Bound, ...], bool, int]] = {
    "three classes": (
        *("dirichlet", (0.5, 0.3, 0.2), 100),
        *((Bound("2", "above", 0.2), Bound("0", "below", 0.5)), True, 10),
    ),
    "two classes, one rare": ("beta", (0.97, 0.03), 500, (Bound("1", "above", 0.03),), False, 5),
    "five classes, one absent": (
        *("softmax", (0.0, 0.1, 0.2, 0.3, 0.4), 200, (Bound("1", "above", 0.1),), False, 2),
    ),
}
#: Sets of 100 histories of shares that are drawn, and the size of their periods.
DRAWN_SETS, DRAWN_SIZE = 10, 100
#: Sizes of the periods in which five points are to be seen, and where they come from.
SIZES, BEFORE, AFTER, CHANGE = (200, 500, 1_000, 2_000), (0.5, 0.3, 0.2), (0.45, 0.3, 0.25), 20
#: Training sets of the delays, and histories of each.
DELAY_SETS, DELAY_HISTORIES = 5, 10
#: Name -> population, shares before and after the change, size of a period.
MOVES: dict[str, tuple[str, tuple[float, ...], tuple[float, ...], int]] = {
    "three classes, half of all move": ("dirichlet", (0.4, 0.55, 0.05), (0.4, 0.05, 0.55), 500),
    "three classes, 20 points move": ("dirichlet", (0.3, 0.45, 0.25), (0.3, 0.25, 0.45), 500),
    "three classes, 5 points move": ("dirichlet", (0.3, 0.5, 0.2), (0.3, 0.45, 0.25), 500),
    "five classes, half of all move": (
        *("softmax", (0.3, 0.5, 0.0, 0.1, 0.1), (0.3, 0.0, 0.5, 0.1, 0.1), 500),
    ),
}
#: Training sets of these histories.
MOVE_SETS = 200
#: Periods of these histories, of which the first few come before the change; groups of the last.
MOVE_PERIODS, WATCHED_GROUPS = 50, 10
#: Tables per training set, their groups, instances per group, and the other shares.
TABLES, GROUPS, GROUP_SIZE, OTHER = 10, 10, 200, (0.4, 0.3, 0.3)
#: Name -> what groups are compared with, whether some differ, and the correction.
TABLE_CASES = {
    "same groups, previous": ("previous", False, "holm"),
    "same groups, reference": ("reference", False, "holm"),
    "same groups, rest": ("rest", False, "holm"),
    "five of ten groups differ, previous": ("previous", True, "fdr"),
    "five of ten groups differ, reference": ("reference", True, "fdr"),
}
Records = Iterator[dict[str, Any]]


class Pool:
    """A population with its scored pool, and a quantifier fitted on a training set of its own."""

    def __init__(self, name: str, seed: int) -> None:
        population = SYNTHETIC[name]
        self.rng = np.random.default_rng([seed, 18])
        k = population.n_classes
        labels = np.repeat(np.arange(k), TRAINING)
        posteriors = population.draw(labels, self.rng)
        self.quantifier = EMQ(calibration="bcts").fit_posteriors(posteriors, labels)
        self.posteriors = population.draw(np.repeat(np.arange(k), POOL), self.rng)

    def bags(self, shares: np.ndarray, size: int) -> Bags:
        """Return one bag for each row of shares, drawn with replacement."""
        n, k = shares.shape
        labels = np.vstack([self.rng.choice(k, size, p=row) for row in shares])
        positions = labels * POOL + self.rng.integers(0, POOL, (n, size))
        offsets = np.arange(0, n * size + 1, size, dtype=np.int64)
        return Bags(positions.ravel().astype(np.int64), offsets, len(self.posteriors))

    def estimates(self, bags: Bags) -> Estimates:
        """Return the estimates of bags."""
        return self.quantifier.estimate_posteriors(self.posteriors, bags, check_fit=False)

    def fit_p_values(self, bags: Bags, n_null: int) -> np.ndarray:
        """Return the p-values of the fit check."""
        checker = default_checker(self.quantifier, False)
        verdicts = checker.screen(self.posteriors, bags, n_null=n_null)
        return np.array([verdict.p_value for verdict in verdicts])

    def histories(
        self, shares: np.ndarray, size: int, settings: MonitorSettings, n: int
    ) -> Iterator[History]:
        """Yield n histories whose periods have the given shares."""
        bags = self.bags(np.tile(shares, (n, 1)), size)
        estimates, p_values = self.estimates(bags), np.full(len(bags), np.nan)
        if settings.check_fit:
            p_values = self.fit_p_values(bags, settings.n_null())
        periods = [
            _period(number % len(shares), estimate, p_value)
            for number, (estimate, p_value) in enumerate(zip(estimates, p_values, strict=True))
        ]
        k = shares.shape[1]
        empty = History(tuple(range(k)), (1 / k,) * k, settings)
        if settings.accuracy_below is not None:
            found = expected_accuracy(self.quantifier, estimates, settings.accuracy_below)
            periods = [replace(p, **parts) for p, parts in zip(periods, found, strict=True)]
        for start in range(0, len(periods), len(shares)):
            yield empty.with_periods(periods[start : start + len(shares)])

    def accuracy(self, shares: np.ndarray) -> float:
        """Return the accuracy of the decisions in a population with the given shares."""
        right = self.posteriors.argmax(axis=1) == np.repeat(np.arange(len(shares)), POOL)
        return float(shares @ right.reshape(len(shares), POOL).mean(axis=1))


def _period(number: int, estimate: Any, p_value: float) -> Period:
    share, noise, template = error_parts(estimate)
    values = (estimate.estimate, estimate.low, estimate.high, estimate.estimate)
    sizes = (estimate.size, 0, float(estimate.size))
    return Period(
        *(str(number), *sizes, *values, share, noise, template, float(p_value), "ok", "model", ""),
        template_draws=template_draws(estimate),
    )


def run_limits(batches: int = 200) -> None:
    """Simulate the largest statistics of 100 periods, 2,000 histories a batch."""
    parts = [_maxima(2_000, seed) for seed in range(batches)]
    moved, beyond = (np.concatenate(column) for column in zip(*parts, strict=True))
    rows = [
        {
            "chance": chance,
            "moved": round(float(np.quantile(moved, 1 - chance)), 3),
            "beyond": round(float(np.quantile(beyond, 1 - chance)), 3),
        }
        for chance in CHANCES
    ]
    update_summary(LIMITS, rows, ["chance"])


def _maxima(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest statistics of n histories: of a move, and of a bound."""
    rng = np.random.default_rng(1_000 + seed)
    sums = np.zeros((HORIZON + 1, n))
    sums[1:] = np.cumsum(rng.standard_normal((HORIZON, n)), axis=0)
    moved, beyond = np.zeros(n), np.full(n, -np.inf)
    for t in range(1, HORIZON + 1):
        starts = np.arange(t)[:, None]
        windows = (sums[t] - sums[:t]) / np.sqrt(t - starts)
        np.maximum(beyond, windows.max(axis=0), out=beyond)
        if t > 1:
            before, after = starts[1:], t - starts[1:]
            step = (sums[t] - sums[1:t]) / after - sums[1:t] / before
            statistics = np.abs(step) / np.sqrt(1 / before + 1 / after)
            np.maximum(moved, statistics.max(axis=0), out=moved)
    return moved, beyond


def false_alarms(seed: int) -> Records:
    """Yield for each case how many histories have a false alarm, by kind."""
    for name, (population, shares, size, bounds, check, n) in QUIET.items():
        pool = Pool(population, seed)
        settings = MonitorSettings(bounds=bounds, check_fit=check)
        rows = np.tile(shares, (HORIZON, 1))
        kinds = [
            {alarm.kind for alarm in find_alarms(history)}
            for history in pool.histories(rows, size, settings, n)
        ]
        counts = {k: sum(k in found for found in kinds) for k in ("moved", "bound", "fit")}
        yield {"case": name, "histories": n, "any": sum(map(bool, kinds)), **counts}


def drawn_histories(seed: int) -> Records:
    """Yield how many of 100 histories of multinomial shares have a false alarm, by kind."""
    if seed >= DRAWN_SETS:
        return
    rng = np.random.default_rng([seed, 21])
    settings = MonitorSettings(bounds=QUIET["three classes"][3])
    empty, zeros = History((0, 1, 2), (1 / 3,) * 3, settings), np.zeros(3)
    kinds = []
    for _ in range(100):
        counts = rng.multinomial(DRAWN_SIZE, BEFORE, HORIZON)
        ranks = rng.integers(1, settings.n_null() + 2, HORIZON)
        periods = []
        for number, (shares, rank) in enumerate(zip(counts / DRAWN_SIZE, ranks, strict=True)):
            sizes, p_value = (DRAWN_SIZE, 0, float(DRAWN_SIZE)), rank / (settings.n_null() + 1)
            values = (*[shares] * 5, zeros, zeros, float(p_value))
            periods.append(Period(str(number), *sizes, *values, "ok", "model", ""))
        kinds.append({alarm.kind for alarm in find_alarms(empty.with_periods(periods))})
    tallies = {k: sum(k in found for found in kinds) for k in ("moved", "bound", "fit")}
    yield {"case": "shares drawn", "histories": 100, "any": sum(map(bool, kinds)), **tallies}


def delays(seed: int) -> Records:
    """Yield for each case the delays of alarms, 0 where none came."""
    if seed >= DELAY_SETS:
        return
    moving = np.vstack([np.tile(BEFORE, (CHANGE, 1)), np.tile(AFTER, (HORIZON - CHANGE, 1))])
    standing = np.tile(AFTER, (HORIZON, 1))
    bounded = MonitorSettings(bounds=(Bound("2", "above", 0.2),), check_fit=False)
    cases = {
        "moved by 5 points": (moving, MonitorSettings(check_fit=False), "moved", CHANGE),
        "5 points above a bound": (standing, bounded, "bound", 0),
    }
    pool = Pool("dirichlet", 10_000 + seed)
    for size in SIZES:
        for name, (shares, settings, kind, first) in cases.items():
            waits = []
            for history in pool.histories(shares, size, settings, DELAY_HISTORIES):
                rung = [int(a.period) for a in find_alarms(history) if a.kind == kind]
                after = [period + 1 - first for period in rung if period >= first]
                waits.append(min(after, default=0))
            yield {"case": f"{name}, periods of {size:,}", "delays": waits}


def accusations(seed: int) -> Records:
    """Yield who is accused where some classes move."""
    if seed >= MOVE_SETS:
        return
    for name, (population, before, after, size) in MOVES.items():
        pool, quiet = Pool(population, 30_000 + seed), MOVE_PERIODS - CHANGE
        shares = np.vstack([np.tile(before, (CHANGE, 1)), np.tile(after, (quiet, 1))])
        stays = {str(c) for c in np.flatnonzero(np.isclose(before, after))}
        settings = MonitorSettings(check_fit=False)
        (history,) = pool.histories(shares, size, settings, 1)
        yield from _accused(name, history, stays)


def quiet_histories(seed: int) -> Records:
    """Yield false alarms of histories in which nothing moves, and, of fewer, of the accuracy."""
    pool, shares = Pool("dirichlet", 40_000 + seed), np.tile(BEFORE, (HORIZON, 1))
    settings = MonitorSettings(check_fit=False)
    (history,) = pool.histories(shares, 200, settings, 1)
    yield from _accused("three classes, nothing moves", history, {"0", "1", "2"})
    if seed >= MOVE_SETS:
        return
    at_truth = replace(settings, accuracy_below=pool.accuracy(np.array(BEFORE)))
    (history,) = pool.histories(shares, 200, at_truth, 1)
    rung = any(alarm.kind == "accuracy" for alarm in find_alarms(history))
    yield {"case": "accuracy at its bound", "accused": rung, "delay": 0}
    five = replace(at_truth, accuracy_below=at_truth.accuracy_below + 0.05)
    (history,) = pool.histories(shares, 200, five, 1)
    waits = [int(a.period) + 1 for a in find_alarms(history) if a.kind == "accuracy"]
    yield {"case": "accuracy 5 points below", "accused": False, "delay": min(waits, default=0)}


def groups(seed: int) -> Records:
    """Yield whether anything rings in a quiet history of several groups."""
    pool, shares = Pool("dirichlet", 50_000 + seed), np.tile(BEFORE, (HORIZON, 1))
    settings = MonitorSettings(check_fit=False)
    several = [
        replace(period, group=str(group))
        for group, one in enumerate(pool.histories(shares, 100, settings, WATCHED_GROUPS))
        for period in one.periods
    ]
    history = History((0, 1, 2), (1 / 3,) * 3, settings, tuple(several), by="group")
    yield from _accused("ten groups, nothing moves", history, {"0", "1", "2"})


def _accused(name: str, history: History, stays: set[str]) -> Records:
    """Yield whether an unchanged class is accused, and the delay of the others' first alarm."""
    none = np.zeros((len(history.classes), 0))
    alone = tuple(replace(period, template_draws=none) for period in history.periods)
    for case, known in (("", history), (", without", replace(history, periods=alone))):
        alarms = find_alarms(known)
        waits = [int(alarm.period) + 1 - CHANGE for alarm in alarms if alarm.label not in stays]
        yield {
            "case": name + case,
            "accused": any(alarm.label in stays for alarm in alarms),
            "delay": min((wait for wait in waits if wait > 0), default=0),
        }


def comparisons(seed: int) -> Records:
    """Yield for each case what tables of comparisons find, right and wrong."""
    pool = Pool("dirichlet", 20_000 + seed)
    same = np.tile(BEFORE, (GROUPS, 1))
    mixed = np.where(np.arange(GROUPS)[:, None] >= GROUPS // 2, OTHER, BEFORE)
    for name, (against, differ, correction) in TABLE_CASES.items():
        shares = mixed if differ else same
        outcomes = _table_outcomes(pool, shares, against, correction)
        yield {"case": name, "outcomes": outcomes}


def _table_outcomes(
    pool: Pool, shares: np.ndarray, against: str, correction: str
) -> list[tuple[int, int, int]]:
    """Return the numbers of false findings, true findings and true differences of tables."""
    drawn = pool.bags(np.tile(shares, (TABLES, 1)), GROUP_SIZE).indices
    parts = list(drawn.reshape(-1, GROUP_SIZE))
    groups = [parts[GROUPS * t : GROUPS * (t + 1)] for t in range(TABLES)]
    if against == "rest":
        parts += [np.concatenate(t[:g] + t[g + 1 :]) for t in groups for g in range(GROUPS)]
    estimates = pool.estimates(Bags(parts, pool_size=len(pool.posteriors)))
    if against == "rest":
        pairs = [(g, TABLES * GROUPS + g) for g in range(GROUPS)]
    else:
        pairs = [(g, g - 1 if against == "previous" else 0) for g in range(1, GROUPS)]
    outcomes = []
    for first in range(0, TABLES * GROUPS, GROUPS):
        sides = [(estimates[first + a], estimates[first + b]) for a, b in pairs]
        raw = np.array([difference(*side).p_value for side in sides])
        found = adjust_p_values(raw, correction) <= 0.05
        if against == "rest":
            apart = np.zeros(found.shape, dtype=bool)  # all groups are the same
        else:
            apart = np.array([np.abs(shares[a] - shares[b]) > 1e-9 for a, b in pairs])
        counts = (found & ~apart, found & apart, apart)
        outcomes.append((int(counts[0].sum()), int(counts[1].sum()), int(counts[2].sum())))
    return outcomes


PARTS = {
    "drawn histories": drawn_histories,
    "delays": delays,
    "accusations": accusations,
    "quiet": quiet_histories,
    "groups": groups,
    "false-alarms": false_alarms,
    "comparisons": comparisons,
}


def run(n_sets: int, parts: Sequence[str]) -> None:
    """Measure all cases, one training set after another; what is there already is skipped."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    done = {(record["part"], record["seed"]) for record in read_raw(FILE)}
    for seed in range(n_sets):
        for part in parts:
            if (part, seed) in done:
                continue
            records = PARTS[part](seed)
            lines = [json.dumps({"part": part, "seed": seed, **record}) for record in records]
            with FILE.open("a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))


def summarise() -> None:
    """Write one line per case to the summary."""
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in read_raw(FILE):
        cells.setdefault((record["part"], record["case"]), []).append(record)
    rows: list[dict[str, Any]] = []
    for (part, case), records in cells.items():
        for measure, value, n in _measures(part, records):
            line = {"part": part, "case": case, "measure": measure}
            rows.append({**line, "value": round(value, 4), "n": n})
    update_summary(SUMMARY, rows, ["part", "case", "measure"])


def _measures(part: str, records: list[dict[str, Any]]) -> list[tuple[str, float, int]]:
    """Return names, values and numbers of histories or tables behind them."""
    if part in ("false-alarms", "drawn histories"):
        n = sum(record["histories"] for record in records)
        kinds = ("any", "moved", "bound", "fit")
        return [(kind, sum(r[kind] for r in records) / n, n) for kind in kinds]
    if part in ("accusations", "quiet", "groups"):
        n, waits = len(records), [record["delay"] for record in records if record["delay"]]
        accused = sum(record["accused"] for record in records) / n
        rung = [("mean delay", float(np.mean(waits)), len(waits))] if waits else []
        rung += [("share with an alarm", len(waits) / n, n)] if waits else []
        error = np.sqrt(max(accused * (1.0 - accused), 0.25 / n) / n)
        return [("accused", accused, n), ("accused, standard error", float(error), n), *rung]
    if part == "delays":
        delays = np.array([delay for record in records for delay in record["delays"]])
        rung = delays[delays > 0]
        return [
            ("share with an alarm", len(rung) / len(delays), len(delays)),
            ("mean delay", float(rung.mean()) if len(rung) else float("nan"), len(rung)),
            ("90 % point", float(np.quantile(rung, 0.9)) if len(rung) else np.nan, len(rung)),
        ]
    outcomes = np.array([outcome for record in records for outcome in record["outcomes"]])
    false, true, apart = outcomes.T
    n = len(outcomes)
    measures = [("any false finding", float((false > 0).mean()), n)]
    if apart.any():
        share = false / np.maximum(false + true, 1)
        measures.append(("share of false findings", float(share.mean()), n))
        measures.append(("differences found", float(true.sum() / apart.sum()), n))
    return measures


def table() -> None:
    """Print the summaries."""
    for row in read_summary(LIMITS):
        print(f"limits  chance {row['chance']:>7}: moved {row['moved']}, beyond {row['beyond']}")
    for row in read_summary(SUMMARY):
        value = f"{float(row['value']):8.3f}  (n = {row['n']})"
        print(f"{row['part']:13} {row['case']:40} {row['measure']:24} {value}")


def main() -> None:
    """Run, summarise and print, as the options say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true", help="measure what is not there yet")
    parser.add_argument("--sets", type=int, default=SETS, help="training sets")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--limits", action="store_true", help="simulate the limits")
    parser.add_argument("--summary", action="store_true", help="write results from raw outcomes")
    parser.add_argument("--table", action="store_true", help="print the results")
    arguments = parser.parse_args()
    if arguments.limits:
        run_limits()
    if arguments.run:
        run(arguments.sets, arguments.parts)
    if arguments.summary:
        summarise()
    if arguments.table:
        table()


if __name__ == "__main__":
    main()
