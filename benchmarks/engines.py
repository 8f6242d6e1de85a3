r"""The same group table from every source: a frame, CSV, Parquet, Dask with a killed worker, Spark.

Two million rows in 2,000 groups, one of which has half of them; all groups lie in all partitions.
Weights, clusters, labels and merged classes are in use, or what ``--asked`` names. Every source is
read by a process of its own; printed are seconds, processor seconds of all processes, the most
memory of that process (the driver) and of its workers, bytes that engines shuffled and that came to
the driver, both per row, and the largest difference from the first source.

    python benchmarks/engines.py                               # of this size
    python benchmarks/engines.py --rows 100000 --groups 200    # in a few minutes
    python benchmarks/engines.py --rows 20000000 --groups 10000 --largest 0.05 --partitions 64 \
        --asked weights --only parquet dask spark
    python benchmarks/engines.py --only frame dask --folder build/engines

Tables and answers that lie in the folder from an earlier call are taken from there, so that one
source can be asked at a time. Spark needs a JVM (``apt-get install openjdk-17-jre-headless``) and
``pip install pyspark``; Dask is an extra. Ends with 1 where a table differs from that of the first
source: by more than 1e-6 in estimates and intervals, or at all in sizes, p-values of the fit,
statuses and verdicts.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SOURCES = ("frame", "csv", "parquet", "dask", "spark")
FEATURES, CLASSES = ["u", "v", "w"], np.array(["a", "b", "c"])
WORKERS, LIMIT = 2, "2GB"
ASKED: dict[str, Any] = {
    "weights": "weight",
    "clusters": "house",
    "labelled": "sorted",
    "merge": {"both": ["a", "b"]},
}
#: Numbers that must agree to rounding, and columns that must be equal.
CLOSE, TOLERANCE = ("estimate", "low", "high", "classify_and_count", "prediction_powered"), 1e-6
EQUAL = ("class", "n", "n_missing", "fit_p_value", "n_labels", "label_shift_p_value", "status")


def rows_of(n: int, n_groups: int, largest: float, rng: np.random.Generator) -> pd.DataFrame:
    """Return rows of all groups, of which the first has a share of its own."""
    group = np.where(rng.random(n) < largest, 0, rng.integers(1, n_groups, n))
    y = (rng.random(n)[:, None] > np.array([0.2, 0.6])).sum(axis=1)
    y = np.where(rng.random(n) < (group % 7) / 10, 0, y)
    frame = pd.DataFrame(rng.normal(size=(n, 3)) + 1.3 * np.eye(3)[y], columns=FEATURES).round(9)
    frame["sorted"] = np.where(rng.random(n) < 0.03, CLASSES[y], "")
    frame["group"] = group
    frame["weight"] = rng.uniform(0.5, 2.0, n).round(3)
    frame["house"] = rng.integers(0, n // 4 + 1, n)
    frame.loc[rng.random(n) < 0.001, "v"] = np.nan
    return frame


def prepare(folder: Path, n_rows: int, n_groups: int, largest: float, n_parts: int) -> None:
    """Fit the model, and write the rows as a folder of partitions."""
    from sklearn.linear_model import LogisticRegression

    from kdey import KDEyML, save

    rng = np.random.default_rng(0)
    y = np.arange(2_000) % 3
    X = pd.DataFrame(rng.normal(size=(2_000, 3)) + 1.3 * np.eye(3)[y], columns=FEATURES)
    q = KDEyML(LogisticRegression(), bandwidth=0.1).fit(X, CLASSES[y])
    save(q, folder / "model.kdey")
    (folder / "parts").mkdir()
    for number in range(n_parts):
        size = n_rows * (number + 1) // n_parts - n_rows * number // n_parts
        frame = rows_of(size, n_groups, largest, np.random.default_rng([1, number]))
        frame.to_parquet(folder / "parts" / f"{number:03d}.parquet", index=False)


def write_one_file(kind: str, folder: Path) -> None:
    """Write the rows to one file, for the sources that read such a file."""
    import pyarrow.csv
    import pyarrow.dataset
    import pyarrow.parquet

    whole = pyarrow.dataset.dataset(folder / "parts")
    make = pyarrow.parquet.ParquetWriter if kind == "parquet" else pyarrow.csv.CSVWriter
    with make(folder / f"rows.{kind}", whole.schema) as file:
        for batch in whole.to_batches(batch_size=100_000):
            file.write_batch(batch)


class Moved:
    """Counts the bytes that engines bring to this process, and those of a row that they shuffle."""

    def __init__(self, some_rows: pd.DataFrame) -> None:
        self.received, self.shuffled, self._some_rows = 0, 0.0, some_rows

    def watch(self, engine: type) -> None:
        """Count what the methods of an engine return."""
        for name in ("collect", "shuffle"):
            setattr(engine, name, self._counting(getattr(engine, name)))

    def _counting(self, method: Any) -> Any:
        def counted(engine: Any, task: Any, *args: Any) -> Any:
            if method.__name__ == "shuffle":
                scored = task(self._some_rows)
                held = scored.memory_usage(index=False, deep=True).sum()
                self.shuffled = float(held) / len(self._some_rows)
            made = method(engine, task, *args)
            self.received += sum(len(pickle.dumps(part)) for part in made)
            return made

        return counted


class Workers:
    """Watches the memory and the time of the processes that this one has started."""

    def __init__(self) -> None:
        self.most: dict[int, tuple[str, int]] = {}
        self.times: dict[int, float] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        import psutil

        while True:
            for child in psutil.Process().children(recursive=True):
                try:
                    name, held, times = child.name(), child.memory_info().rss, child.cpu_times()
                except psutil.NoSuchProcess:
                    continue
                self.times[child.pid] = times.user + times.system
                self.most[child.pid] = (name, max(held, self.most.get(child.pid, ("", 0))[1]))
            time.sleep(0.2)

    def peak(self, java: bool) -> float:
        """Return the most MB that one of them has held; of the JVM, or of the others."""
        held = [n for name, n in self.most.values() if ("java" in name) == java]
        return max(held, default=0) / 1e6


@contextmanager
def source(kind: str, folder: Path) -> Iterator[Any]:
    """Yield the table as one kind of source."""
    n_parts = len(list((folder / "parts").iterdir()))
    if kind == "frame":
        yield pd.read_parquet(folder / "parts")
    elif kind in ("csv", "parquet"):
        yield folder / f"rows.{kind}"
    elif kind == "dask":
        import dask.dataframe as dd
        from distributed import Client, LocalCluster

        cluster = LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, memory_limit=LIMIT, dashboard_address=None
        )
        with cluster, Client(cluster) as client:
            kill_a_worker(client, n_parts)
            yield dd.read_parquet(folder / "parts")
    else:
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        session = (
            SparkSession.builder.master(f"local[{WORKERS}]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", LIMIT.replace("GB", "g"))
            .config("spark.sql.files.minPartitionNum", str(n_parts))
            .getOrCreate()
        )
        yield session.read.parquet(str(folder / "parts"))
        session.stop()


def kill_a_worker(client: Any, n_parts: int) -> None:
    """Kill a worker once half of the partitions are scored and on their way to their groups."""
    victim = min(client.run(os.getpid).values())

    def watch() -> None:
        sent = 0
        while sent < n_parts / 2:
            time.sleep(0.05)
            held = [key for key, where in client.who_has().items() if where]
            sent = sum("shuffle-transfer" in str(key) for key in held)
        os.kill(victim, signal.SIGKILL)
        print(f"  worker {victim} killed", flush=True)

    threading.Thread(target=watch, daemon=True).start()


def measure(kind: str, folder: Path, n_rows: int, names: list[str]) -> None:
    """Answer the groups of one source, and write the table and what it cost."""
    import kdey
    from kdey.groups.cluster import Dask, Spark

    first = pd.read_parquet(folder / "parts" / "000.parquet").head(20_000)
    moved, workers = Moved(first), Workers()
    for engine in (Dask, Spark):
        moved.watch(engine)
    q = kdey.load(folder / "model.kdey")
    with source(kind, folder) as table:
        start = time.perf_counter()
        made = kdey.predict_groups(q, table, "group", **{name: ASKED[name] for name in names})
        seconds = time.perf_counter() - start
    made.to_frame("pandas").to_parquet(folder / f"{kind}.answers.parquet")
    cost = {
        "seconds": seconds,
        "processor": time.process_time() + sum(workers.times.values()),
        "driver": most_memory() / 1e6,
        "workers": workers.peak(java=False),
        "jvm": workers.peak(java=True),
        "shuffled": moved.shuffled,
        "received": moved.received / n_rows,
    }
    (folder / f"{kind}.json").write_text(json.dumps(cost))


def most_memory() -> int:
    """Return the most bytes that this program has held.

    ``ru_maxrss`` would count what the process that started it held then, too.
    """
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def differences(made: pd.DataFrame, expected: pd.DataFrame) -> tuple[float, list[str]]:
    """Return the largest difference of numbers, and the columns that are not as they must be."""
    wrong = [name for name in EQUAL if name in expected and not _same(made[name], expected[name])]
    # A text file holds texts.
    if made["group"].astype(str).tolist() != expected["group"].astype(str).tolist():
        wrong.append("group")
    largest = 0.0
    for name in [name for name in CLOSE if name in expected]:
        a, b = made[name].to_numpy(dtype=float), expected[name].to_numpy(dtype=float)
        apart = np.abs(a - b)[~(np.isnan(a) & np.isnan(b))]
        most = float(apart.max(initial=0.0))
        largest = max(largest, most)
        if not most <= TOLERANCE:
            wrong.append(name)
    return largest, wrong


def _same(a: pd.Series, b: pd.Series) -> bool:
    """Return whether two columns are equal; p-values are counts of draws, up to rounding."""
    if a.dtype.kind == "f":
        return bool(np.allclose(a, b.astype(float), rtol=0, atol=1e-12, equal_nan=True))
    return a.astype(str).tolist() == b.astype(str).tolist()


def show(kinds: list[str], folder: Path) -> bool:
    """Print what each source cost, and how far its table is from that of the first."""
    print(
        f"{'source':8} {'seconds':>8} {'processor':>9} {'driver MB':>10} {'worker MB':>10} "
        f"{'JVM MB':>8} {'shuffled':>9} {'received':>9} {'difference':>11}  wrong"
    )
    expected, good = pd.read_parquet(folder / f"{kinds[0]}.answers.parquet"), True
    for kind in kinds:
        cost = json.loads((folder / f"{kind}.json").read_text())
        table = pd.read_parquet(folder / f"{kind}.answers.parquet")
        largest, wrong = differences(table, expected)
        good &= not wrong
        print(
            f"{kind:8} {cost['seconds']:8.1f} {cost['processor']:9.1f} {cost['driver']:10.0f} "
            f"{cost['workers']:10.0f} {cost['jvm']:8.0f} {cost['shuffled']:9.1f} "
            f"{cost['received']:9.2f} {largest:11.1e}  {', '.join(wrong) or '-'}"
        )
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--groups", type=int, default=2_000)
    parser.add_argument("--largest", type=float, default=0.5, help="share of the first group")
    parser.add_argument("--partitions", type=int, default=16, help="of Dask and Spark")
    parser.add_argument("--asked", nargs="+", choices=ASKED, default=list(ASKED))
    parser.add_argument("--only", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--folder", type=Path, help="keep the tables here (default: nowhere)")
    parser.add_argument("--one", choices=SOURCES, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        measure(asked.one, asked.folder, asked.rows, asked.asked)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "parts").exists():
            prepare(folder, asked.rows, asked.groups, asked.largest, asked.partitions)
        print(f"{asked.rows:,} rows in {asked.groups:,} groups", flush=True)
        for kind in asked.only:
            if kind in ("csv", "parquet") and not (folder / f"rows.{kind}").exists():
                write_one_file(kind, folder)
            if not (folder / f"{kind}.json").exists():
                call = [sys.executable, __file__, "--one", kind, "--folder", str(folder)]
                call += ["--rows", str(asked.rows), "--asked", *asked.asked]
                subprocess.run(call, check=True)
        sys.exit(0 if show(asked.only, folder) else 1)


if __name__ == "__main__":
    main()
