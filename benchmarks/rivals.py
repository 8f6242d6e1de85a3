"""``Quantifier()`` against what other libraries choose for themselves: error and processor time.

    python benchmarks/rivals.py --peer-python .venv-quapy/bin/python [--sets NAME ...]
    python benchmarks/rivals.py --table
    python benchmarks/rivals.py --figure

The peer's environment has QuaPy 0.2.3, mlquantify 0.5.1 and quantificationlib 0.1.2, each of which
chooses among four methods on logistic regression, random forest and boosted trees, and FLAML 2.7.0,
whose classifier gets QuaPy's EMQ-BCTS (``rivals_peer.py``). Same split, same 100 test bags, one
thread; processor seconds are the whole of it: fits, choice, estimates of all bags. Sets with more
than 3,100 labels are reduced to about as many, the same for all. One line per set and library in
``results/rivals.jsonl``; a stopped run goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import kdey
from automatic import error
from cases import EXTRA, PAPER, Case, Records, geometric_mean, load_case, quiet
from printing import markdown

KEYS = ("set", "method")
OURS = ("kdey Quantifier()", "kdey KDEyML()")
PEERS = ("QuaPy", "mlquantify", "quantificationlib", "FLAML")
SETS = (*EXTRA[:4], *PAPER, *EXTRA[4:])
N_BAGS = 100
#: Labels that a search is given at most, but for some more of rare classes.
MOST_LABELS, OF_RARE = 3_100, 20
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "rivals.png"


def reduced(case: Case) -> Case:
    """Return the case with about ``MOST_LABELS`` labels, in the proportions of its classes."""
    if len(case.y) <= MOST_LABELS:
        return case
    rng, kept = np.random.default_rng(0), []
    for label in np.unique(case.y):
        own = np.flatnonzero(case.y == label)
        n = max(round(len(own) * MOST_LABELS / len(case.y)), min(len(own), OF_RARE))
        kept.append(rng.permutation(own)[:n])
    rows = np.sort(np.concatenate(kept))
    return replace(case, X=case.X[rows], y=case.y[rows])


def ours(case: Case, name: str) -> tuple[np.ndarray, float, str]:
    """Return the estimates of all bags, processor seconds, and what was chosen."""
    start = sum(os.times()[:4])
    made: Any = kdey.Quantifier(random_state=0, n_jobs=1)
    if name == OURS[1]:
        made = kdey.KDEyML(tune_bag_size=case.bag_size, random_state=0, n_jobs=1)
    made.fit(case.X, case.y)
    estimates = made.predict_bags(case.X_test, case.bags(N_BAGS, 0).bags)
    return estimates, sum(os.times()[:4]) - start, ""


def peer(case: Case, library: str, python: str) -> tuple[np.ndarray, float, str]:
    """Return the same of another library, in a process of its own; RuntimeError if it fails."""
    bags = case.bags(N_BAGS, 0).bags
    codes = np.unique(case.y)
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "given.npz", Path(folder) / "made.npz"
        np.savez(
            given, X=case.X, y=np.searchsorted(codes, case.y), X_test=case.X_test,
            indices=bags.indices, offsets=bags.offsets, bag_size=case.bag_size,
        )  # fmt: skip
        script = Path(__file__).with_name("rivals_peer.py")
        asked = [python, str(script), str(given), str(made), json.dumps({"method": library})]
        done = subprocess.run(asked, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            told = [row for row in done.stderr.splitlines() if "Error" in row] or ["failed"]
            raise RuntimeError(told[-1].strip())
        with np.load(made) as found:
            return found["estimates"], float(found["seconds"]), str(found["chosen"])


def run(records: Records, sets: list[str], python: str | None) -> None:
    for name in sets:
        case = None
        for method in (*OURS, *(PEERS if python else ())):
            if (name, method) in records:
                continue
            case = reduced(load_case(name, 0)) if case is None else case
            row: dict[str, Any] = {"set": name, "method": method}
            try:
                found = ours(case, method) if method in OURS else peer(case, method, str(python))
            except RuntimeError as failure:
                records.add(row | {"failed": str(failure)})
                continue
            estimates, seconds, chosen = found
            bags = case.bags(N_BAGS, 0)
            row |= {metric: error(metric, bags, estimates) for metric in ("ae", "rae")}
            records.add(row | {"seconds": round(seconds, 2), "chosen": chosen})


def finished(rows: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the rows by set and method, for the sets that every method has been run on."""
    by_set: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_set.setdefault(row["set"], {})[row["method"]] = row
    return {name: by_set[name] for name in SETS if len(by_set.get(name, {})) == 6}


def print_tables(rows: list[dict[str, Any]]) -> None:
    done = finished(rows)
    names = (*OURS, *PEERS)
    print(f"MAE over {N_BAGS} bags; processor seconds in brackets:\n")
    lines = []
    for name, found in done.items():
        cells = [cell(found[method]) for method in names]
        lines.append([name.split("/")[1], *cells])
    print(markdown(["set", *names], lines))
    print(f"\nGeometric means over {len(done)} sets, relative to {OURS[0]}:\n")
    lines = []
    for method in names[1:]:
        known = [f for f in done.values() if "ae" in f[method]]
        ratios = [
            geometric_mean(f[method][what] / f[OURS[0]][what] for f in known)
            for what in ("ae", "rae", "seconds")
        ]
        wins = sum(f[method]["ae"] < f[OURS[0]]["ae"] for f in known)
        lines.append([method, *(f"{r:.2f}" for r in ratios), f"{wins} of {len(known)}"])
    print(markdown(["", "MAE", "MRAE", "processor time", "sets with a smaller MAE"], lines))
    print("\nWhat the others chose:\n")
    lines = [
        [name.split("/")[1], *(in_words(found[m].get("chosen", "failed")) for m in PEERS)]
        for name, found in done.items()
    ]
    print(markdown(["set", *PEERS], lines))


def cell(row: dict[str, Any]) -> str:
    return f"{row['ae']:.4f} ({row['seconds']:.3g})" if "ae" in row else "failed"


def in_words(chosen: str) -> str:
    """Return a choice without the marks of a dict, and without what was no choice."""
    text = chosen.replace("classifier__", "").replace("'val_split': 5", "")
    return re.sub(r"[{}']", "", text).replace(": ", " = ").rstrip(", ")


def draw(rows: list[dict[str, Any]]) -> None:
    """Draw the error and the time of each library on each set, relative to Quantifier()."""
    from kdey.plots.style import (
        add_figure_legend,
        file_style,
        label_log_axis,
        new_figure,
        remove_clutter,
    )
    from kdey.report.page import COLOURS

    done = finished(rows)
    with file_style():
        figure = new_figure(9.2, 1.6 + 0.32 * len(done))
        axes = figure.subplots(1, 2, sharey=True)
        places = np.arange(len(done))[::-1]
        marks = dict(zip((*OURS[1:], *PEERS), "osD^v", strict=True))
        for ax, what in zip(axes, ("ae", "seconds"), strict=True):
            for colour, (method, mark) in zip(COLOURS, marks.items(), strict=False):
                ratios = [f[method].get(what, np.nan) / f[OURS[0]][what] for f in done.values()]
                ax.plot(ratios, places, mark, color=colour, label=method, markersize=5)
            ax.axvline(1.0, color="0.5", linewidth=1)
            ax.set_xscale("log")
            label_log_axis(ax.xaxis)
            ax.margins(0.08, 0.12)
            remove_clutter(ax)
        axes[0].set_yticks(places, [name.split("/")[1] for name in done])
        axes[0].set_xlabel("MAE, relative to Quantifier()")
        axes[1].set_xlabel("processor time, relative to Quantifier()")
        add_figure_legend(figure, axes[0])
        figure.savefig(FIGURE, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true", help="print tables of what there is")
    parser.add_argument("--figure", action="store_true", help="draw the picture of the page")
    parser.add_argument("--peer-python", help="a Python that can import the other libraries")
    parser.add_argument("--sets", nargs="*", default=SETS)
    args = parser.parse_args()
    records = Records("rivals.jsonl", KEYS)
    if args.table:
        print_tables(records.rows)
    elif args.figure:
        draw(records.rows)
    else:
        quiet()
        run(records, args.sets, args.peer_python)


if __name__ == "__main__":
    main()
