"""Score rows of a Dask data frame in groups of very unequal size, under a memory limit.

20 million rows of 5 classes, KDEy-ML with 2,000 references, 1,000 groups of which one has a third
of all rows, on a LocalCluster of two processes with 1.5 GB each. The prevalences are compared with
those of the route in memory, also when a worker is killed in the middle.

    python benchmarks/dask_groups.py                   # of this size
    python benchmarks/dask_groups.py --kill            # once more, killing a worker half way
    python benchmarks/dask_groups.py --rows 1000000 --groups 200
    python benchmarks/dask_groups.py --bootstrap       # limits by weights tied to row keys
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kdey import KDEyML
from kdey.groups import predict_groups

K, REFERENCES, PARTITION, WORKERS, LIMIT = 5, 2_000, 200_000, 2, "1.5GB"
NAMES = [f"p_{c}" for c in range(K)]


def posteriors(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    made = rng.standard_gamma(np.eye(K)[labels] * 3.0 + 0.6)
    return made / made.sum(axis=1, keepdims=True)


def shares(groups: int, rng: np.random.Generator) -> np.ndarray:
    """Return the groups' shares of the rows: a third for one, a heavy tail for the others."""
    rest = 1.0 + rng.pareto(1.0, groups - 1)
    return np.concatenate([[1 / 3], rest / rest.sum() * 2 / 3])


def write_rows(folder: Path, rows: int, groups: int) -> None:
    """Write one file per partition; every group may have members in all of them."""
    rng = np.random.default_rng(1)
    mixes, odds = rng.dirichlet(np.full(K, 0.7), groups), shares(groups, rng)
    for number, start in enumerate(range(0, rows, PARTITION)):
        n = min(PARTITION, rows - start)
        group = rng.choice(groups, size=n, p=odds)
        draws = rng.random(n)[:, None] > np.cumsum(mixes[group], axis=1)[:, :-1]
        frame = pd.DataFrame(posteriors(draws.sum(axis=1), rng), columns=NAMES)
        frame["group"], frame["row"] = group.astype(np.int32), np.arange(start, start + n)
        frame.to_parquet(folder / f"part-{number:05d}.parquet")


def run(q: KDEyML, folder: Path, options: dict[str, Any]) -> tuple[pd.DataFrame, float]:
    import dask.dataframe as dd

    start = time.perf_counter()
    made = predict_groups(q, dd.read_parquet(folder), "group", scores=NAMES, **options).to_frame()
    return made, time.perf_counter() - start


def peak() -> tuple[int, float]:
    """Return the id of a worker's process and the most memory it has held, in GiB."""
    return os.getpid(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def tell(client: Any, what: str, seconds: float) -> None:
    held = ", ".join(f"{gib:.2f}" for _, gib in client.run(peak).values())
    print(f"{what}: {seconds:.1f} s; most memory of the workers: {held} GiB", flush=True)


def with_a_kill(client: Any, partitions: int, call: Any) -> Any:
    """Run ``call``, and kill a worker once half of the partitions have their rows."""
    victim = min(pid for pid, _ in client.run(peak).values())

    def watch() -> None:
        while sum(bool(where) for where in client.who_has().values()) < partitions / 2:
            time.sleep(0.1)
        os.kill(victim, signal.SIGKILL)
        print(f"worker {victim} killed", flush=True)

    threading.Thread(target=watch, daemon=True).start()
    return call()  # the worker is started again meanwhile, or the other one does it all


def in_memory(q: KDEyML, folder: Path, options: dict[str, Any]) -> tuple[pd.DataFrame, float]:
    kept = {name: value for name, value in options.items() if name == "confidence"}
    frame = pd.read_parquet(folder)
    start = time.perf_counter()
    made = predict_groups(q, frame, "group", scores=NAMES, **kept).to_frame()
    return made, time.perf_counter() - start


def difference(a: pd.DataFrame, b: pd.DataFrame, columns: list[str]) -> float:
    assert (a["group"].to_numpy() == b["group"].to_numpy()).all()
    assert (a["n"].to_numpy() == b["n"].to_numpy()).all()
    return float(np.nanmax(np.abs(a[columns].to_numpy() - b[columns].to_numpy())))


def measure(asked: argparse.Namespace, folder: Path) -> None:
    from distributed import Client, LocalCluster

    rng = np.random.default_rng(0)
    labels = np.arange(REFERENCES) % K
    q = KDEyML(bandwidth=0.1).fit_posteriors(posteriors(labels, rng), labels)
    options: dict[str, Any] = {"keep": not asked.again}
    if asked.bootstrap:
        options |= {"method": "bootstrap", "key": "row", "n_replicates": 200}
    cluster = LocalCluster(
        n_workers=WORKERS,
        threads_per_worker=1,
        memory_limit=LIMIT,
        processes=True,
        dashboard_address=None,
    )
    with cluster, Client(cluster) as client:
        found, seconds = run(q, folder, options)
        tell(client, "Dask", seconds)
        if asked.kill:
            partitions = len(list(folder.glob("*.parquet")))
            again, spent = with_a_kill(client, partitions, lambda: run(q, folder, options))
            tell(client, "Dask, one worker killed", spent)
            columns = ["estimate", "low", "high"]
            print(f"  difference from the first run: {difference(found, again, columns):.1e}")
    if not asked.alone:
        expected, spent = in_memory(q.set_params(n_jobs=-1), folder, options)
        told = difference(found, expected, ["estimate"])
        limits = difference(found, expected, ["low", "high"])
        print(f"in memory: {spent:.1f} s; largest difference {told:.1e}, of limits {limits:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--kill", action="store_true", help="run again and kill a worker")
    parser.add_argument("--again", action="store_true", help="make rows again in every pass")
    parser.add_argument("--bootstrap", action="store_true")
    parser.add_argument("--alone", action="store_true", help="do not compare with memory")
    parser.add_argument("--folder", type=Path, help="keep (and take up) the Parquet files here")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch) / "rows"
        if not folder.exists():
            folder.mkdir(parents=True)
            write_rows(folder, asked.rows, asked.groups)
        print(f"{asked.rows:,} rows in {asked.groups:,} groups, {WORKERS} workers of {LIMIT}")
        measure(asked, folder)


if __name__ == "__main__":
    main()
