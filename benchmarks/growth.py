"""Growth of time with rows, references and classes: measured, and against the cost model.

    OPENBLAS_NUM_THREADS=1 python benchmarks/growth.py            # a few minutes, one thread
    OPENBLAS_NUM_THREADS=1 python benchmarks/growth.py --quick    # half a minute, shorter axes

    python benchmarks/growth.py --table                           # of the stored results
    python benchmarks/growth.py --figure

Each axis is varied over a factor of 32 or more with the others fixed. Measured are making the rows
(kernel) and the whole estimate of ten groups. Times are the best of several, in processor seconds;
they are kept in ``results/growth.json``. ``--table`` prints the constants of the cost model and the
times of ``docs/lab/scale.md``, ``--figure`` draws ``docs/figures/growth.png``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kdey import KDEyML
from printing import markdown
from run import machine, today

RESULTS = Path(__file__).parent / "results" / "growth.json"
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "growth.png"
#: Values of each axis; the others stay at ``FIXED``.
AXES = {
    "rows": [25_000, 50_000, 100_000, 200_000, 400_000, 800_000],
    "references": [1_000, 2_000, 4_000, 8_000, 16_000, 32_000],
    "classes": [2, 4, 8, 16, 32, 64],
}
QUICK = {
    "rows": [10_000, 40_000, 160_000, 320_000],
    "references": [1_000, 4_000, 16_000, 32_000],
    "classes": [2, 8, 32, 64],
}
FIXED = {"rows": 50_000, "references": 2_000, "classes": 5}
#: With more classes than this, limits take far longer than rows: whole estimates are left out.
MOST_CLASSES = 32
#: Off the axes, so that the terms n, k and n k of the model can be told apart.
OFF = (
    {"rows": 20_000, "references": 16_000, "classes": 28},
    {"rows": 20_000, "references": 500, "classes": 64},
    {"rows": 20_000, "references": 8_000, "classes": 2},
)
#: What is measured, and what the figure calls it.
STAGES = {
    "rows once": "kernel sums of all rows, once",
    "all in memory": "whole estimate",
}


def posteriors(labels: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    made = rng.standard_gamma(np.eye(k)[labels] * 3.0 + 0.6)
    return made / made.sum(axis=1, keepdims=True)


def best(call: Callable[[], Any], repeats: int) -> float:
    """Return the least processor time of a call: other work on the machine does not enter."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def measure(rows: int, references: int, classes: int, repeats: int) -> dict[str, float]:
    """Return the seconds of every stage for ten groups."""
    rng = np.random.default_rng(0)
    labels = np.arange(references) % classes
    q = KDEyML(bandwidth=0.1).fit_posteriors(posteriors(labels, classes, rng), labels)
    points = posteriors(rng.integers(0, classes, rows), classes, rng)
    bags = [np.arange(g, rows, 10) for g in range(10)]
    if classes <= MOST_CLASSES:
        q.estimate_posteriors(points[:1000], check_fit=False)  # what is computed once per fit

    calls = (
        lambda: q.row_map_(points),
        lambda: q.estimate_posteriors(points, bags, check_fit=False),
    )
    times = dict(zip(STAGES, calls, strict=True))
    shown = times if classes <= MOST_CLASSES else {name: times[name] for name in TERMS}
    return {name: best(call, repeats) for name, call in shown.items()}


def exponent(values: list[int], seconds: list[float]) -> float:
    """Return the slope between logarithms over the upper half of an axis."""
    half = len(values) // 2 - 1
    return float(np.polyfit(np.log(values[half:]), np.log(seconds[half:]), 1)[0])


#: Terms of the cost model per row, by stage: functions of references n and classes k.
TERMS: dict[str, dict[str, Callable[[float, float], float]]] = {
    "rows once": {
        "1": lambda n, k: 1.0,
        "k": lambda n, k: k,
        "n": lambda n, k: n,
        "n k": lambda n, k: n * k,
    },
}


def fit_model(points: list[dict[str, Any]], stage: str) -> dict[str, float]:
    """Return seconds per row of each term, none negative, relative errors made small."""
    from scipy.optimize import nnls

    seconds = np.array([point[stage] for point in points])
    terms = np.array([_terms(point, stage) for point in points])
    constants, _ = nnls(terms / seconds[:, None], np.ones(len(seconds)))
    return dict(zip(TERMS[stage], constants.tolist(), strict=True))


def _terms(size: dict[str, int], stage: str) -> list[float]:
    return [size["rows"] * f(size["references"], size["classes"]) for f in TERMS[stage].values()]


def errors_of(model: dict[str, float], points: list[dict[str, Any]], stage: str) -> np.ndarray:
    """Return the relative errors of the cost model at the measured points."""
    made = [float(np.dot(_terms(point, stage), list(model.values()))) for point in points]
    return np.abs(np.array(made) / np.array([point[stage] for point in points]) - 1)


def on_axis(points: list[dict[str, Any]], axis: str) -> list[dict[str, Any]]:
    """Return the points at which one axis is varied, in its order."""
    found = [p for p in points if all(p[name] == FIXED[name] for name in FIXED if name != axis)]
    return sorted(found, key=lambda point: int(point[axis]))


def measure_all(axes: dict[str, list[int]], repeats: int) -> list[dict[str, Any]]:
    """Return sizes with their seconds, those off the axes last; tell each as it is measured."""
    sizes = [FIXED | {axis: value} for axis, values in axes.items() for value in values]
    distinct = [size for i, size in enumerate(sizes) if size not in sizes[:i]]
    points = []
    for size in [*distinct, *OFF]:
        points.append(size | measure(**size, repeats=repeats))
        print(points[-1], flush=True)
    return points


def print_tables(points: list[dict[str, Any]]) -> None:
    """Print the constants of the model, the ends of each axis, and the slopes."""
    names = list(dict.fromkeys(term for terms in TERMS.values() for term in terms))
    rows = []
    for stage in TERMS:
        model = fit_model(points, stage)
        constants = [f"{1e9 * model[term]:.2g}" if model.get(term) else "" for term in names]
        rows.append(
            [stage, *constants, f"{100 * np.median(errors_of(model, points, stage)):.0f} %"]
        )
    print("Nanoseconds per row:\n")
    print(markdown(["", *names, "median error"], rows))
    ends, slopes = [], []
    for axis in AXES:
        own = on_axis(points, axis)
        ends += [
            [axis, f"{point[axis]:,}", *map(_seconds, (point.get(stage) for stage in STAGES))]
            for point in (own[0], own[-1])
        ]
        values = [point[axis] for point in own]
        both = (exponent(values, [point[stage] for point in own]) for stage in TERMS)
        slopes.append([axis, *(f"{slope:.2f}" for slope in both)])
    print("\nSeconds:\n")
    print(markdown(["varied", "value", *STAGES], ends))
    print("\nSlopes between logarithms over the upper half of each axis:\n")
    print(markdown(["varied", *TERMS], slopes))


def draw(points: list[dict[str, Any]]) -> None:
    """Draw the times of each axis beside the cost model."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    from kdey.plots.style import new_figure, remove_clutter
    from kdey.report.page import COLOURS

    models = {stage: fit_model(points, stage) for stage in TERMS}
    figure = new_figure(11.0, 4.0)
    panels = figure.subplots(1, 3, sharey=True)
    for panel, axis in zip(panels, AXES, strict=True):
        own = on_axis(points, axis)
        values = [point[axis] for point in own]
        for (name, label), colour in zip(STAGES.items(), COLOURS, strict=False):
            seconds = [point.get(name, np.nan) for point in own]
            panel.loglog(values, seconds, "o", ms=4, color=colour, label=label)
            line = seconds
            if name in models:
                model = list(models[name].values())
                line = [float(np.dot(_terms(point, name), model)) for point in own]
            panel.loglog(values, line, "-" if name in models else ":", lw=1.3, color=colour)
        panel.set(xlabel=f"number of {axis}", xticks=values)
        panel.set_title(", ".join(f"{v:,} {k}" for k, v in FIXED.items() if k != axis), fontsize=9)
        panel.xaxis.set_major_formatter(FuncFormatter(lambda v, _: _short(v)))
        panel.xaxis.set_minor_locator(NullLocator())
        remove_clutter(panel)
    panels[0].set(ylabel="processor seconds, one core")
    panels[0].legend(fontsize=8, frameon=False, loc="upper left")
    figure.suptitle(
        "Points: measured. Solid: the cost model. Dotted: a guide to the eye.", fontsize=9
    )
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=130)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--table", action="store_true", help="measure nothing, print the tables")
    parser.add_argument("--figure", action="store_true", help="measure nothing, draw the figure")
    asked = parser.parse_args()
    if not (asked.table or asked.figure):
        points = measure_all(QUICK if asked.quick else AXES, asked.repeats)
        stored = {"when": today(), "machine": machine(), "points": points}
        RESULTS.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    points = json.loads(RESULTS.read_text(encoding="utf-8"))["points"]
    if not asked.figure:
        print_tables(points)
    if not asked.table:
        draw(points)


if __name__ == "__main__":
    main()
