"""The automatic KDEy-ML against QuaPy's methods, at their defaults and at a small grid.

    python benchmarks/field.py --peer-python .venv-quapy/bin/python [--sets 5] [--bags 100]
    python benchmarks/field.py --table
    python benchmarks/field.py --pools --peer-python .venv-quapy/bin/python [--sets 9]
    python benchmarks/field.py --pools --table

With ``--pools``: ``Quantifier()``, which combines classifiers, against QuaPy's best methods on each
of three classifiers and its ensembles.

The same splits, classifiers and bags; processor seconds (all threads and child processes) are the
whole of it: classifier fits, choice of parameters, estimates of all bags. QuaPy runs in a process
of its own (``field_peer.py``), in an environment that has it. One line per set, classifier and
method in ``results/field.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import kdey
from automatic import CLASSIFIERS, error
from cases import (
    EXTRA,
    PAPER,
    Case,
    Records,
    geometric_mean,
    load_case,
    make_classifier,
    quiet as silence,
)
from printing import markdown

KEYS = ("set", "classifier", "method")
OURS = "kdey KDEyML()"
#: What stands for a case that is not there.
ROWLESS = {"failed": "not run"}
POOL = "kdey Quantifier()"
#: What Quantifier() is compared with: classifier and method of QuaPy.
POOL_PEERS = (
    *((c, m) for m in ("KDEyML", "EMQ-BCTS") for c in (*CLASSIFIERS, "gradient boosting")),
    ("logistic regression", "Ensemble of EMQ-BCTS"),
    ("extra trees", "Ensemble of EMQ-BCTS"),
)
#: The sets on which pools are compared, cheap ones first.
POOL_SETS = (
    *("uci-extra/maternal-health-risk", "uci-extra/phishing", "uci-extra/cmc", "uci-extra/yeast"),
    *PAPER,
)
PEERS = ("KDEyML", "EMQ", "EMQ-BCTS", "PACC", "KDEyML, grid", "PACC, grid", "EMQ, grid")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--pools", action="store_true")
    parser.add_argument("--peer-python", help="a Python that can import quapy 0.2.3")
    parser.add_argument("--sets", type=int, default=len(PAPER), help="the first so many")
    parser.add_argument("--bags", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    records = Records("field.jsonl", KEYS)
    if args.table:
        (print_pools if args.pools else print_table)(records.rows)
        return
    silence()
    if args.pools:
        compare_pools(records, args)
        return
    for name in (PAPER + EXTRA)[: args.sets]:
        case = load_case(name, 0)
        for classifier in CLASSIFIERS:
            if (name, classifier, OURS) not in records:
                records.add(ours(case, classifier, args.bags, args.jobs))
            for peer in PEERS if args.peer_python else ():
                if (name, classifier, f"QuaPy {peer}") not in records:
                    records.add(run_peer(case, classifier, peer, args))


def ours(case: Case, classifier: str, n_bags: int, n_jobs: int) -> dict[str, Any]:
    bags = case.bags(n_bags, 0)
    start = sum(os.times()[:4])
    q = kdey.KDEyML(
        make_classifier(classifier), tune_bag_size=case.bag_size, random_state=0, n_jobs=n_jobs
    )
    estimates = q.fit(case.X, case.y).predict_bags(case.X_test, bags.bags)
    seconds = sum(os.times()[:4]) - start
    return line(case, classifier, OURS, bags, estimates, seconds)


def compare_pools(records: Records, args: Any) -> None:
    """Add the lines of Quantifier() and of its peers that the records lack."""
    for name in POOL_SETS[: args.sets]:
        case = load_case(name, 0)
        if (name, "several", POOL) not in records:
            bags = case.bags(args.bags, 0)
            start = sum(os.times()[:4])
            q = kdey.Quantifier(random_state=0, n_jobs=args.jobs).fit(case.X, case.y)
            estimates = q.predict_bags(case.X_test, bags.bags)
            seconds = sum(os.times()[:4]) - start
            records.add(line(case, "several", POOL, bags, estimates, seconds))
        for classifier, peer in POOL_PEERS if args.peer_python else ():
            if (name, classifier, f"QuaPy {peer}") not in records:
                records.add(run_peer(case, classifier, peer, args))


def run_peer(case: Case, classifier: str, peer: str, args: Any) -> dict[str, Any]:
    """Let the peer's process do all of it, given arrays in a file."""
    bags = case.bags(args.bags, 0)
    codes = np.unique(case.y)
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "given.npz", Path(folder) / "made.npz"
        np.savez(
            given, X=case.X, y=np.searchsorted(codes, case.y), X_test=case.X_test,
            indices=bags.bags.indices, offsets=bags.bags.offsets, bag_size=case.bag_size,
        )  # fmt: skip
        script = Path(__file__).with_name("field_peer.py")
        options = json.dumps({"classifier": classifier, "method": peer, "jobs": args.jobs})
        done = subprocess.run(
            [args.peer_python, script, given, made, options], stderr=subprocess.PIPE, text=True
        )
        if done.returncode:
            told = [row for row in done.stderr.splitlines() if "Error" in row] or ["failed"]
            named = dict(zip(KEYS, (case.name, classifier, f"QuaPy {peer}"), strict=True))
            return named | {"failed": told[-1].strip()}
        with np.load(made) as found:
            return line(
                case, classifier, f"QuaPy {peer}", bags, found["estimates"], float(found["seconds"])
            )


def line(
    case: Case, classifier: str, method: str, bags: Any, estimates: np.ndarray, seconds: float
) -> dict[str, Any]:
    made: dict[str, Any] = dict(zip(KEYS, (case.name, classifier, method), strict=True))
    made |= {m: error(m, bags, estimates) for m in ("ae", "rae")}
    return made | {"seconds": round(seconds, 2), "bags": len(bags.sizes)}


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print geometric means over the cases that every method without a failure has."""
    methods = [OURS, *(f"QuaPy {peer}" for peer in PEERS)]
    known = {m: {(r["set"], r["classifier"]): r for r in rows if r["method"] == m} for m in methods}
    known = {m: own for m, own in known.items() if own}
    failed = {m: [r for r in own.values() if "failed" in r] for m, own in known.items()}
    whole = [set(own) for m, own in known.items() if not failed[m]]
    cases = set.intersection(*whole) if whole else set()
    print(f"{len(cases)} cases (set and classifier):\n")
    lines = []
    for method, own in known.items():
        done = [own[case] for case in sorted(cases) if "failed" not in own.get(case, ROWLESS)]
        values = [geometric_mean(r[m] for r in done) for m in ("ae", "rae")]
        if failed[method]:
            among = sum((r["set"], r["classifier"]) in cases for r in failed[method])
            values = [f"failed on {among}", ""]
        lines.append([method, *values, f"{sum(r['seconds'] for r in done):.0f}"])
    print(markdown(["method", "MAE", "MRAE", "processor seconds in all"], lines))
    print_losses(known, sorted(cases))


def print_losses(known: dict[str, dict[Any, dict[str, Any]]], cases: list[Any]) -> None:
    """Print the cases in which another method than ours has the smallest MAE."""
    lines = []
    for case in cases:
        errors = {m: own[case]["ae"] for m, own in known.items() if "ae" in own.get(case, ROWLESS)}
        best = min(errors, key=lambda method: errors[method])
        if best != OURS:
            lines.append([case[0].split("/")[1], case[1], errors[OURS], best, errors[best]])
    print(
        f"\nIn {len(lines)} of the {len(cases)} cases a method of QuaPy's has the smallest MAE:\n"
    )
    print(markdown(["set", "classifier", "MAE of kdey", "best method", "its MAE"], lines))


def print_pools(rows: list[dict[str, Any]]) -> None:
    """Print Quantifier() and its peers: geometric means over the sets that all of them have."""
    known = {(r["set"], r["classifier"], r["method"]): r for r in rows}
    contestants = [("several", POOL), *((c, f"QuaPy {m}") for c, m in POOL_PEERS)]
    sets = [s for s in POOL_SETS if all((s, *place) in known for place in contestants)]
    lines = []
    for place in contestants:
        done = [known[s, *place] for s in sets]
        failures = [r["set"] for r in done if "failed" in r]
        means: list[Any] = [f"failed on {len(failures)} of {len(sets)} sets", ""]
        if not failures:
            means = [geometric_mean(r[m] for r in done) for m in ("ae", "rae")]
        seconds = sum(r["seconds"] for r in done if "failed" not in r)
        lines.append([place[1], place[0], *means, f"{seconds:.0f}"])
    print(f"{len(sets)} sets: {', '.join(sets)}\n")
    print(markdown(["method", "classifier", "MAE", "MRAE", "processor seconds in all"], lines))


if __name__ == "__main__":
    main()
