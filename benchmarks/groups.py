"""Score rows of a Parquet file in many groups: ``kdey estimate`` in seconds and memory.

10 million rows of 5 classes in 10,000 groups, KDEy-ML with 5,000 references and analytic limits;
the first 50 groups are compared with the route in memory.

    python benchmarks/groups.py              # of this size
    python benchmarks/groups.py --rows 200000 --groups 200
    python benchmarks/groups.py --auto       # settings chosen at fit: two kernels
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kdey import KDEyML, load, save
from printing import markdown

K, REFERENCES, CHUNK = 5, 5_000, 500_000
NAMES = [f"p_{c}" for c in range(K)]


def posteriors(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    made = rng.standard_gamma(np.eye(K)[labels] * 3.0 + 0.6)
    return made / made.sum(axis=1, keepdims=True)


def write_model(path: Path, automatic: bool) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(REFERENCES) % K
    chosen = {} if automatic else {"bandwidth": 0.1}
    save(KDEyML(random_state=0, **chosen).fit_posteriors(posteriors(labels, rng), labels), path)


def write_rows(path: Path, rows: int, groups: int) -> None:
    """Write rows in no order: every group has members all over the file."""
    rng = np.random.default_rng(1)
    mixes = rng.dirichlet(np.ones(K), groups)
    schema = pa.schema([("group", pa.string()), *((name, pa.float64()) for name in NAMES)])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, CHUNK):
            n = min(CHUNK, rows - start)
            group = rng.integers(0, groups, n)
            draws = rng.random(n)[:, None] > np.cumsum(mixes[group], axis=1)[:, :-1]
            p = posteriors(draws.sum(axis=1), rng)
            names = pa.array(np.array([f"g{g:05d}" for g in range(groups)])[group].tolist())
            columns = [names, *(pa.array(p[:, c]) for c in range(K))]
            writer.write_table(pa.table(columns, schema=schema))


def compare(model: Path, rows: Path, answers: Path, n_groups: int) -> float:
    """Return the largest difference from the in-memory route on the first groups."""
    q = load(model).set_params(n_jobs=-1)
    found = pq.read_table(answers)
    wanted = sorted(set(found["group"].to_pylist()))[:n_groups]
    own = pq.read_table(rows, filters=[("group", "in", wanted)])
    expected = q.predict_groups(own, "group", scores=NAMES).to_frame()
    part = found.slice(0, expected.num_rows)
    return max(
        float(np.abs(part[name].to_numpy() - expected[name].to_numpy()).max())
        for name in ("estimate", "low", "high", "classify_and_count")
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--auto", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model, rows, answers = (Path(folder) / n for n in ("m.kdey", "rows.parquet", "a.parquet"))
        write_model(model, asked.auto)
        write_rows(rows, asked.rows, asked.groups)
        command = [sys.executable, "-m", "kdey.cli", "estimate", str(model), str(rows)]
        start = time.perf_counter()
        options = ["--by", "group", "--scores", ",".join(NAMES), "-o", str(answers)]
        subprocess.run([*command, *options], check=True, capture_output=True)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        members = len(getattr(load(model).row_map_, "parts", [0]))
        print(f"{asked.rows:,} score rows in {asked.groups:,} groups, {members} kernel(s):\n")
        told = [
            ("seconds", f"{seconds:.1f}"),
            ("most memory, GiB", f"{peak:.2f}"),
            ("largest difference from memory", f"{compare(model, rows, answers, 50):.1e}"),
        ]
        print(markdown(["", "measured"], told))


if __name__ == "__main__":
    main()
