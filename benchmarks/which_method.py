"""The figures of docs/lab/methods.md, from the committed results; nothing is run again.

``python benchmarks/which_method.py`` prints the numbers that the page quotes and draws
``docs/figures/which-method.png`` and ``docs/figures/which-classifier.png``.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kdey.plots.style import new_figure, remove_clutter
from kdey.report.page import COLOURS

sys.path.append(str(Path(__file__).parents[1]))  # the experiments are not installed
from experiments.results import Results, read_results
from experiments.scores import gather
from experiments.settings import AUTOMATIC_METHODS

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
#: From counting and correcting to densities; KDEy-L2 and DM-CS are left to the tables.
SEARCHED = ["ACC", "PACC", "DM-T", "DM-HD", "EMQ", "EMQ-BCTS", "KDEy-HD", "KDEy-CS", "KDEy-ML"]
#: Those, and the methods that choose for themselves, without validation bags.
METHODS = [*SEARCHED, *AUTOMATIC_METHODS]
#: Errors below this count as this in ratios: two sets have bags without any.
FLOOR = 1e-3
#: Split in two by their development rows, the binary sets say what little data does.
SMALL = 500
BLUE, VERMILION, GREEN, PURPLE, *_, GREY = COLOURS


@cache
def results_of(experiment: str) -> Results:
    """Return the stored results of an experiment, read once."""
    return read_results(ROOT / "results" / f"{experiment}.jsonl")


def scores(experiment: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return MAE, shape (n_sets, n_methods) in the order of ``METHODS``, and the sets' names."""
    found = gather(results_of(experiment), experiment, "mae", METHODS)
    columns = [found.methods.index(name) for name in METHODS]
    return found.means()[:, columns], found.datasets


def development_rows() -> dict[str, int]:
    """Return how many rows each binary set has to train on."""
    bags = results_of("binary").bags
    return {name: record.n_development for (_, name, _), record in bags.items()}


def relative(errors: np.ndarray) -> np.ndarray:
    """Return errors relative to the best searched method of each set; the others may be below."""
    floored = np.maximum(errors, FLOOR)
    return np.asarray(floored / floored[:, : len(SEARCHED)].min(axis=1, keepdims=True))


def geometric(values: Any, axis: int = 0) -> Any:
    """Return geometric means."""
    return np.exp(np.log(values).mean(axis=axis))


def by_classifier() -> tuple[list[str], list[str], np.ndarray]:
    """Return classifiers, quantifiers and geometric-mean MAE over the sets of classifiers.py."""
    lines = (ROOT / "benchmarks" / "results" / "classifiers.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    names = list(dict.fromkeys(record["classifier"] for record in records))
    methods = ["CC", "PACC", "EMQ", "DM", "KDEyML"]
    table = [
        [geometric([r[m][0] for r in records if r["classifier"] == name]) for m in methods]
        for name in names
    ]
    return names, methods, np.array(table)


def draw_methods(tables: dict[str, np.ndarray]) -> Any:
    """Draw how far each method is from the best of each set."""
    figure = new_figure(9.5, 4.5)
    axes = figure.subplots(1, 3, sharey=True)
    for ax, (title, errors) in zip(axes, tables.items(), strict=True):
        for place, column in enumerate(relative(errors).T):
            own = METHODS[place] in ("KDEy-ML", *AUTOMATIC_METHODS)
            spread = place + np.linspace(-0.22, 0.22, len(column))
            ax.plot(column, spread, "o", ms=4, alpha=0.5, color=BLUE if own else GREY, mew=0)
            ax.plot(geometric(column), place, "|", ms=16, mew=2.5, color=VERMILION)
        ax.axvline(1.0, color=GREY, linewidth=0.6)
        ax.set(xscale="log", xlabel="MAE / best of the nine searched")
        ax.set_xticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
        ax.minorticks_off()
        remove_clutter(ax)
        ax.set_title(f"{title}: {len(errors)} sets", fontsize="medium")
    axes[0].set_yticks(range(len(METHODS)), METHODS)
    return figure


def draw_classifiers(names: list[str], methods: list[str], table: np.ndarray) -> Any:
    """Draw the error of each quantifier under each classifier."""
    figure = new_figure(6.8, 3.2)
    ax = figure.subplots()
    looks = [("s", GREY), ("^", GREEN), ("D", VERMILION), ("v", PURPLE), ("o", BLUE)]
    for column, method, (mark, colour) in zip(table.T, methods, looks, strict=True):
        ax.plot(column, range(len(names)), mark, color=colour, ms=8, label=method)
    lines = [name.replace("calibrated ", "calibrated\n") for name in names]
    ax.set_yticks(range(len(names)), lines)
    ax.set(xscale="log", xlabel="MAE, geometric mean over 12 sets", ylim=(len(names) - 0.5, -0.5))
    ax.set_xticks([0.015, 0.02, 0.03, 0.05, 0.07], ["0.015", "0.02", "0.03", "0.05", "0.07"])
    ax.minorticks_off()
    remove_clutter(ax)
    ax.legend(frameon=False, ncols=5, loc="lower center", bbox_to_anchor=(0.45, 1.0))
    return figure


def show(title: str, errors: np.ndarray) -> None:
    """Print how far methods are from the best of each set, and how often each is it."""
    ratios = relative(errors)
    print(f"{title}: {len(errors)} sets")
    for name, column in zip(METHODS, ratios.T, strict=True):
        worst, wins = column.max(), int((column == 1).sum())
        print(f"  {name:12s} mean ratio {geometric(column):.2f}, worst {worst:.2f}, best on {wins}")


def main(folder: Path = FIGURES) -> None:
    """Print the numbers and draw the figures into a folder."""
    multi, binary = scores("multi"), scores("binary")
    rows = development_rows()
    small = np.array([rows[name] < SMALL for name in binary[1]])
    parts = {
        "multiclass": multi[0],
        f"binary, below {SMALL} rows": binary[0][small],
        f"binary, {SMALL} rows or more": binary[0][~small],
    }
    for title, errors in {**parts, "binary, all": binary[0]}.items():
        show(title, errors)
    names, methods, table = by_classifier()
    for name, line in zip(names, table, strict=True):
        print(name, dict(zip(methods, line.round(4).tolist(), strict=True)))
    draw_methods(parts).savefig(folder / "which-method.png", dpi=110)
    draw_classifiers(names, methods, table).savefig(folder / "which-classifier.png", dpi=110)


if __name__ == "__main__":
    main()
