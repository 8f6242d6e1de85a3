"""Growth of time with rows, references and classes: measured, and against the cost model.

    OPENBLAS_NUM_THREADS=1 python benchmarks/growth.py            # a few minutes, one thread
    OPENBLAS_NUM_THREADS=1 python benchmarks/growth.py --quick    # half a minute, shorter axes

Each axis is varied over a factor of 32 or more with the others fixed. Measured are making the rows
(kernel), one pass of the sums, the whole estimate from sums, and the same in memory. Writes
``docs/figures/growth.png`` and prints the table of ``docs/scale.md`` with slopes between logarithms
and the constants of the model. Times are the best of several, in processor seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kdey import KDEyML
from kdey.groups.sums import LocalSource, estimate_sums, plan_of
from kdey.groups.sums.solve import Trial
from kdey.intervals import IntervalOptions

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "growth.png"
BATCH = 100_000
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
#: Off the axes, so that the terms n, k and n k of the model can be told apart.
OFF = (
    {"rows": 20_000, "references": 16_000, "classes": 28},
    {"rows": 20_000, "references": 500, "classes": 64},
    {"rows": 20_000, "references": 8_000, "classes": 2},
)
STAGES = ("rows once", "one pass of sums", "all from sums", "all in memory")


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
    codes = np.arange(rows) % 10
    bags = [np.arange(g, rows, 10) for g in range(10)]
    q.estimate_posteriors(points[:1000])  # what is computed once per fit

    def source() -> LocalSource:
        runs = [slice(a, a + BATCH) for a in range(0, rows, BATCH)]
        return LocalSource(lambda: [(points[run], codes[run], None) for run in runs])

    held = source()
    held.first(plan_of(q), True)
    trial = Trial(np.arange(10), np.full((10, classes), 1.0 / classes), 10)
    calls = (
        lambda: q.row_map_(points),
        lambda: held.total(trial),
        lambda: estimate_sums(q, source(), IntervalOptions()),
        lambda: q.estimate_posteriors(points, bags),
    )
    return {name: best(call, repeats) for name, call in zip(STAGES, calls, strict=True)}


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
    "one pass of sums": {"1": lambda n, k: 1.0, "k": lambda n, k: k, "k^2": lambda n, k: k * k},
}


def fit_model(
    sizes: list[dict[str, int]], found: list[dict[str, float]], stage: str
) -> dict[str, float]:
    """Return seconds per row of each term, none negative, relative errors made small."""
    from scipy.optimize import nnls

    seconds = np.array([one[stage] for one in found])
    terms = np.array([_terms(size, stage) for size in sizes])
    constants, _ = nnls(terms / seconds[:, None], np.ones(len(seconds)))
    return dict(zip(TERMS[stage], constants.tolist(), strict=True))


def _terms(size: dict[str, int], stage: str) -> list[float]:
    return [size["rows"] * f(size["references"], size["classes"]) for f in TERMS[stage].values()]


def draw(
    axes: dict[str, list[int]],
    found: dict[str, list[dict[str, float]]],
    models: dict[str, dict[str, float]],
) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    from kdey.plots.style import COLOURS, new_figure, remove_clutter

    figure = new_figure(11.0, 4.0)
    panels = figure.subplots(1, 3, sharey=True)
    for panel, (axis, values) in zip(panels, axes.items(), strict=True):
        for name, colour in zip(STAGES, COLOURS, strict=False):
            seconds = [one[name] for one in found[axis]]
            panel.loglog(values, seconds, "o", ms=4, color=colour, label=name)
            line = seconds
            if name in models:
                sizes = [FIXED | {axis: value} for value in values]
                line = [float(np.dot(_terms(s, name), list(models[name].values()))) for s in sizes]
            panel.loglog(values, line, "-" if name in models else ":", lw=1.3, color=colour)
        panel.set(xlabel=axis, xticks=values)
        panel.set_title(", ".join(f"{v:,} {k}" for k, v in FIXED.items() if k != axis), fontsize=9)
        panel.xaxis.set_major_formatter(FuncFormatter(lambda v, _: _short(v)))
        panel.xaxis.set_minor_locator(NullLocator())
        remove_clutter(panel)
    panels[0].set(ylabel="seconds, one core")
    panels[0].legend(fontsize=8, frameon=False, loc="upper left")
    figure.suptitle(
        "Points: measured. Solid: the cost model. Dotted: a guide to the eye.", fontsize=9
    )
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=130)


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def told(axis: str, value: str, size: dict[str, int], repeats: int) -> dict[str, float]:
    """Measure one size, print its line of the table, and return its seconds."""
    one = measure(**size, repeats=repeats)
    speed = size["rows"] * size["references"] / one["rows once"]
    seconds = " | ".join(f"{one[name]:.3f}" for name in STAGES)
    print(f"| {axis} | {value} | {seconds} | {speed:.2e} |", flush=True)
    return one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    axes = QUICK if asked.quick else AXES
    found: dict[str, list[dict[str, float]]] = {}
    print("| axis | value | " + " | ".join(STAGES) + " | pairs/s |")
    print("|---|---|" + "---|" * (len(STAGES) + 1))
    for axis, values in axes.items():
        sizes = [FIXED | {axis: value} for value in values]
        found[axis] = [told(axis, f"{size[axis]:,}", size, asked.repeats) for size in sizes]
        slopes = {n: exponent(values, [one[n] for one in found[axis]]) for n in STAGES}
        print(f"| {axis} | slope | " + " | ".join(f"{s:.2f}" for s in slopes.values()) + " | |")
    found["off"] = [
        told("none", ", ".join(f"{v:,} {n}" for n, v in size.items()), size, asked.repeats)
        for size in OFF
    ]
    sizes = [FIXED | {axis: value} for axis, values in axes.items() for value in values]
    sizes, flat = [*sizes, *OFF], [one for part in found.values() for one in part]
    models = {stage: fit_model(sizes, flat, stage) for stage in TERMS}
    for stage, constants in models.items():
        terms = " + ".join(f"{1e9 * c:.3g} {term}" for term, c in constants.items() if c > 0)
        errors = [
            abs(float(np.dot(_terms(size, stage), list(constants.values()))) / one[stage] - 1)
            for size, one in zip(sizes, flat, strict=True)
        ]
        print(f"{stage}: {terms} ns per row; median error {100 * np.median(errors):.0f} %")
    draw(axes, found, models)
    print(f"figure: {FIGURE}")


if __name__ == "__main__":
    main()
