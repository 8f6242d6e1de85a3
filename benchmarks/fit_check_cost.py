"""What the fit check costs: seconds and memory by the size of a bag, of groups, and of a report.

    python benchmarks/fit_check_cost.py bags      # one bag of 1,000 to 2,000,000 rows
    python benchmarks/fit_check_cost.py groups    # 10,000 groups, with and without the check
    python benchmarks/fit_check_cost.py report    # kdey report on 2,000,000 rows, 1 and 500 groups
    python benchmarks/fit_check_cost.py fit       # kdey fit with and without fold models

Every figure comes from a process of its own. "CPU" counts the seconds of all threads, which a
loaded machine changes less than the clock; "peak" is the largest resident memory of the process.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from printing import markdown, significant

FEATURES = [f"x{i}" for i in range(15)]
#: What ``kdey fit`` is told, by the name of the model.
MODELS = {"KDEy-ML": ("--method", "kdey-ml"), "the default": ()}
SIZES = (1_000, 10_000, 100_000, 2_000_000)
#: Name: classes and training rows. The second is like the data set letter.
SHAPES = {"5 classes": (5, 5_000), "26 classes": (26, 14_000), "100 classes": (100, 20_000)}


def draw(n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return instances of k overlapping Gaussian classes, and their labels."""
    centres = 1.2 * np.random.default_rng(7).normal(size=(k, len(FEATURES)))
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return centres[y] + rng.normal(size=(n, len(FEATURES))), y


def measured(label: str, command: list[str]) -> dict[str, float | str]:
    """Return clock, processor seconds and peak memory of a command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    # A shell of its own, so that the peak is that of this command alone.
    done = subprocess.run(
        [sys.executable, __file__, "_watch", json.dumps(command)],
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(done.stderr)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = json.loads(done.stdout.splitlines()[-1])["peak"]
    said = f"{label}: {seconds:.1f} s, CPU {used:.1f} s, {peak:.0f} MB"
    print(said, file=sys.stderr, flush=True)
    return {"case": label, "seconds": seconds, "CPU": used, "peak MB": peak}


def watch(command: list[str]) -> None:
    """Run a command and print its peak memory in MB."""
    subprocess.run(command, check=True)
    print(json.dumps({"peak": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}))


def table(rows: list[dict[str, float | str]]) -> str:
    """Return the rows as a Markdown table."""
    names = list(rows[0])
    cells = [[v if isinstance(v, str) else significant(v) for v in row.values()] for row in rows]
    return markdown(names, cells)


def bags() -> None:
    """Print what the check adds to the estimate of one bag, in this process."""
    from kdey import KDEyML

    rows: list[dict[str, float | str]] = []
    for shape, (k, n) in SHAPES.items():
        q = KDEyML(bandwidth=0.1, random_state=0).fit(*draw(n, k, 0))
        start = time.perf_counter()
        q.estimate(draw(100, k, 1)[0])
        rows.append(
            {"case": f"{shape}: the first estimate", "seconds": time.perf_counter() - start}
        )
        rows[-1] |= {"check": np.nan, "check CPU": np.nan, "check MB": np.nan}
        for size in SIZES:
            X = draw(size, k, 2)[0]
            posteriors = q.classifier_.predict_proba(X)
            rows.append({"case": f"{shape}, {size:,} rows", **cost_of_check(q, X, posteriors)})
    print(table(rows))


def cost_of_check(q, X: np.ndarray, posteriors: np.ndarray) -> dict[str, float]:
    """Return seconds of an estimate and what the check adds; the slowest of five bags."""
    import tracemalloc

    from kdey.bags import Bags
    from kdey.diagnostics import full_check, with_fit_checks

    start = time.perf_counter()
    estimates = q.estimate_bags(X, [np.arange(len(X))], check_fit=False)
    seconds = time.perf_counter() - start
    whole, clock, cpu = Bags.whole(len(X)), [], []
    for _ in range(5):
        first, used = time.perf_counter(), time.process_time()
        with_fit_checks(q, estimates, posteriors, whole, X)
        clock.append(time.perf_counter() - first)
        cpu.append(time.process_time() - used)
    tracemalloc.start()
    full_check(q, posteriors)  # all null bags, whatever they say
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return {
        "seconds": seconds,
        "check": float(np.median(clock)),
        "check CPU": float(np.median(cpu)),
        "check MB": peak,
    }


def write_rows(path: Path, rows: int, groups: int, k: int = 3) -> None:
    """Write a table of features with a column of groups."""
    X, _ = draw(rows, k, 3)
    group = np.random.default_rng(4).integers(0, groups, rows)
    columns = {name: pa.array(X[:, i]) for i, name in enumerate(FEATURES)}
    names = pa.array([f"g{g:05d}" for g in range(groups)]).take(pa.array(group))
    pq.write_table(pa.table({"group": names, **columns}), path)


def write_training(path: Path, n: int = 5_000, k: int = 3) -> None:
    """Write a labelled table."""
    X, y = draw(n, k, 0)
    columns = {name: pa.array(X[:, i]) for i, name in enumerate(FEATURES)}
    pq.write_table(pa.table({"label": pa.array([f"c{i}" for i in y]), **columns}), path)


def kdey(*arguments: str | Path) -> list[str]:
    """Return the command line of kdey."""
    return [sys.executable, "-m", "kdey.cli", *map(str, arguments)]


def groups(n_rows: int, n_groups: int) -> None:
    """Print the time of ``kdey estimate`` on many groups, with and without the check."""
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_training(folder / "l.parquet")
        write_rows(folder / "t.parquet", n_rows, n_groups)
        for name, model in write_models(folder).items():
            for check in ("--no-check-fit", "--check-fit"):
                label = f"{name}, {check}"
                command = kdey("estimate", model, folder / "t.parquet", "--by", "group", check)
                rows.append(measured(label, [*command, "-o", str(folder / "o.parquet")]))
    print(f"{n_rows:,} rows in {n_groups:,} groups\n")
    print(table(rows))


def report(n_rows: int) -> None:
    """Print the time of ``kdey report`` with the check on."""
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_training(folder / "l.parquet")
        models = write_models(folder)
        for n_groups in (1, 500):
            write_rows(folder / "t.parquet", n_rows, n_groups)
            for name, model in models.items():
                command = kdey("report", model, folder / "t.parquet", "--by", "group")
                label = f"{name}, {n_groups} group{'s' if n_groups > 1 else ''}"
                rows.append(measured(label, [*command, "-o", str(folder / "r.html")]))
    size = f"{n_rows:,} rows with {len(FEATURES)} features and 3 classes"
    print(f"`kdey report` of {size}, fit check on:\n")
    print(table(rows))


def write_models(folder: Path) -> dict[str, Path]:
    """Fit the models on the labelled table in ``folder``; return their files by name."""
    paths = {name: folder / f"{number}.kdey" for number, name in enumerate(MODELS)}
    for name, path in paths.items():
        fit = kdey("fit", folder / "l.parquet", "--label", "label", "-o", path, *MODELS[name])
        subprocess.run(fit, check=True, capture_output=True)
    return paths


def fit() -> None:
    """Print the time of ``kdey fit`` with and without fold models."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_training(folder / "l.parquet", 20_000)
        for classifier in ("logistic", "random-forest"):
            for folds in ("--no-fold-models", "--fold-models"):
                command = kdey("fit", folder / "l.parquet", "--label", "label", folds)
                command += ["--classifier", classifier, "--method", "kdey-ml"]
                command += ["--option", "bandwidth=0.1"]
                command += ["-o", str(folder / "m.kdey")]
                row = measured(f"{classifier}, {folds}", command)
                size = (folder / "m.kdey").stat().st_size / 1e6
                rows.append({**row, "file MB": size})
    print(table(rows))


def main() -> None:
    if sys.argv[1:2] == ["_watch"]:
        watch(json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["bags", "groups", "report", "fit"])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--groups", type=int, default=10_000)
    asked = parser.parse_args()
    if asked.what == "bags":
        bags()
    elif asked.what == "groups":
        groups(asked.rows, asked.groups)
    elif asked.what == "report":
        report(asked.rows)
    else:
        fit()


if __name__ == "__main__":
    main()
