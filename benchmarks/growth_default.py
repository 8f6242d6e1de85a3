"""Growth of processor time and memory with rows, classes, groups and columns, by default settings.

    OMP_NUM_THREADS=1 python benchmarks/growth_default.py              # an hour of one core
    OMP_NUM_THREADS=1 python benchmarks/growth_default.py --only rows columns --most 100000
    OMP_NUM_THREADS=1 python benchmarks/growth_default.py --keep       # points that are missing

    python benchmarks/growth_default.py --table                        # of the stored results
    python benchmarks/growth_default.py --figure

``Quantifier()`` is fitted on a labelled table, and ``predict_groups`` answers new rows with
intervals and checks; nothing is set. Along an axis everything else stays. Rows are read from a
Parquet file, the others are a frame in memory, and groups have ten rows each. Classes begin with
scores: classifiers of a thousand classes are not kdey's. Every point has a process of its own;
its processor seconds, and the most memory that it held while it answered, are kept in
``results/growth_default.json``. An axis ends at a point that takes more than ``--limit`` of them.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import kdey
from printing import markdown
from run import machine, today

RESULTS = Path(__file__).parent / "results" / "growth_default.json"
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "growth-default.png"
#: Values of each axis, and what the other sizes are along it.
AXES: dict[str, list[int]] = {
    "rows": [10_000, 100_000, 1_000_000, 10_000_000],
    "classes": [2, 10, 50, 200, 1_000],
    "groups": [1, 10, 100, 1_000, 10_000, 100_000],
    "columns": [10, 100, 1_000, 10_000],
}
FIXED = {"rows": 5_000, "classes": 3, "groups": 5, "columns": 10}
LABELS, LABELS_PER_CLASS, ROWS_PER_GROUP = 1_000, 20, 10


def sizes_at(axis: str, value: int) -> dict[str, int]:
    """Return the sizes at a point of an axis."""
    sizes = FIXED | {axis: value}
    if axis == "groups":
        sizes["rows"] = ROWS_PER_GROUP * value
    return sizes


def table(n: int, sizes: dict[str, int], seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return rows of all classes, which differ in ten columns, by group; and their classes."""
    rng = np.random.default_rng(seed)
    means = np.random.default_rng(0).normal(0.0, 0.6, (sizes["classes"], 10))
    y = rng.permutation(np.arange(n) % sizes["classes"])
    X = rng.normal(size=(n, sizes["columns"])).astype(np.float32)
    X[:, :10] += means[y]
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(sizes["columns"])])
    frame["group"] = rng.permutation(np.arange(n) % sizes["groups"])
    return frame, y


def scores(n: int, sizes: dict[str, int], seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return scores of all classes by group, and the classes."""
    rng, k = np.random.default_rng(seed), sizes["classes"]
    y = rng.permutation(np.arange(n) % k)
    made = rng.standard_gamma(0.2, (n, k))
    made[np.arange(n), y] += rng.standard_gamma(2.0, n)
    made /= made.sum(axis=1, keepdims=True)
    frame = pd.DataFrame(made, columns=[f"p{i}" for i in range(k)])
    frame["group"] = rng.permutation(np.arange(n) % sizes["groups"])
    return frame, y


def most_memory() -> float:
    """Return the most MB that this process has held since :func:`forget_memory`."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1e3


def forget_memory() -> None:
    """Count memory from here on; see proc(5)."""
    Path("/proc/self/clear_refs").write_text("5")


def measure(axis: str, value: int) -> dict[str, float]:
    """Return seconds of the fit and of the answer at a point, and the most MB of the answer."""
    warnings.simplefilter("ignore")
    sizes, options = sizes_at(axis, value), {}
    begin = time.process_time()
    if axis == "classes":
        labelled, y = scores(max(LABELS, LABELS_PER_CLASS * value), sizes, 1)
        names = [name for name in labelled if name != "group"]
        begin = time.process_time()
        q = kdey.Quantifier().fit_posteriors(labelled[names].to_numpy(), y)
        new, options = scores(sizes["rows"], sizes, 2)[0], {"scores": names}
    else:
        labelled, y = table(LABELS, sizes, 1)
        begin = time.process_time()
        q = kdey.Quantifier().fit(labelled.drop(columns="group"), y)
        new = None if axis == "rows" else table(sizes["rows"], sizes, 2)[0]
    fitted = time.process_time() - begin
    with tempfile.TemporaryDirectory() as folder:
        source: Any = new
        if new is None:
            source = write_rows(Path(folder) / "rows.parquet", sizes)
        forget_memory()
        begin = time.process_time()
        answers = kdey.predict_groups(q, source, "group", **options).to_frame("pandas")
        seconds = time.process_time() - begin
    assert len(answers) == sizes["groups"] * sizes["classes"]
    return {"fit": fitted, "seconds": seconds, "MB": most_memory()}


def write_rows(path: Path, sizes: dict[str, int]) -> Path:
    """Write the new rows to a Parquet file, a part at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n, step, writer = sizes["rows"], 200_000, None
    for number, start in enumerate(range(0, n, step)):
        part = pa.Table.from_pandas(table(min(step, n - start), sizes, 10 + number)[0])
        writer = writer or pq.ParquetWriter(path, part.schema)
        writer.write_table(part)
    assert writer is not None
    writer.close()
    return path


def measure_axis(
    axis: str, most: int, limit: float, points: list[dict[str, float]]
) -> list[dict[str, float]]:
    """Return the points of an axis after those given; it ends where one takes too long."""
    for value in AXES[axis][len(points) :]:
        if value > most:
            break
        call = [sys.executable, __file__, "--point", axis, str(value), "--limit", str(limit)]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        if done.returncode:
            said = [f"stopped after {limit} seconds", *done.stderr.strip().splitlines()][-1]
            print(f"{axis} {value:,}: {said}", flush=True)
            break
        points = [*points, {"value": value, **json.loads(done.stdout)}]
        print(axis, points[-1], flush=True)
    return points


def exponent(points: list[dict[str, float]], name: str) -> float:
    """Return the slope between logarithms of the last two points."""
    (a, b), (x, y) = ([point[key] for point in points[-2:]] for key in ("value", name))
    return float(np.log(y / x) / np.log(b / a))


def print_tables(results: dict[str, Any]) -> None:
    rows, slopes = [], []
    for axis in AXES:
        points = results["axes"].get(axis, [])
        rows += [
            [axis, f"{p['value']:,}", f"{p['fit']:.1f}", f"{p['seconds']:.2f}", f"{p['MB']:,.0f}"]
            for p in points
        ]
        if len(points) > 1:
            slopes.append([axis, *(f"{exponent(points, n):.2f}" for n in ("fit", "seconds", "MB"))])
    print("Processor seconds of fit and answer, and the most memory of the answer:\n")
    print(markdown(["varied", "value", "fit, s", "answer, s", "MB"], rows))
    print("\nSlopes between logarithms of the last two points:\n")
    print(markdown(["varied", "fit", "answer", "memory"], slopes))


def draw(results: dict[str, Any]) -> None:
    """Draw seconds and memory of the answer along each axis."""
    from matplotlib.ticker import NullLocator

    from kdey.plots.style import new_figure, remove_clutter
    from kdey.report.page import COLOURS

    figure = new_figure(11.0, 5.0)
    panels = figure.subplots(2, len(AXES), sharey="row", sharex="col")
    for column, axis in zip(panels.T, AXES, strict=True):
        points = results["axes"].get(axis, [])
        values = [point["value"] for point in points]
        for panel, name, colour in zip(column, ("seconds", "MB"), COLOURS, strict=False):
            panel.loglog(values, [point[name] for point in points], "o-", ms=4, color=colour)
            panel.set_xticks(values, [f"{value:,}" for value in values])
            panel.xaxis.set_minor_locator(NullLocator())
            remove_clutter(panel)
        column[1].tick_params(axis="x", rotation=45)
        column[1].set_xlabel(f"number of {axis}")
    panels[0, 0].set_ylim(0.1, 1_000)
    panels[1, 0].set_ylim(100, 10_000)
    panels[0, 0].set_ylabel("processor seconds")
    panels[1, 0].set_ylabel("most memory, MB")
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=AXES, default=list(AXES))
    parser.add_argument("--most", type=int, default=10_000_000, help="largest value of an axis")
    parser.add_argument("--limit", type=int, default=1200, help="processor seconds of a point")
    parser.add_argument("--keep", action="store_true", help="go on where an axis has ended")
    parser.add_argument("--table", action="store_true", help="measure nothing, print the tables")
    parser.add_argument("--figure", action="store_true", help="measure nothing, draw the figure")
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.point:
        resource.setrlimit(resource.RLIMIT_CPU, (asked.limit, asked.limit))
        print(json.dumps(measure(asked.point[0], int(asked.point[1]))))
        return
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"axes": {}}
    if not (asked.table or asked.figure):
        for axis in asked.only:
            known = kept["axes"].get(axis, []) if asked.keep else []
            kept["axes"][axis] = measure_axis(axis, asked.most, asked.limit, known)
            kept |= {"when": today(), "machine": machine()}
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if not asked.figure:
        print_tables(kept)
    if not asked.table:
        draw(kept)


if __name__ == "__main__":
    main()
