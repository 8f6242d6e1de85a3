"""A validation pass over 20 bandwidths and 1,000 bags of 1,000, by KDEy-ML, certified.

Run ``PYTHONPATH=src python benchmarks/gpu/grid.py``. Two pools: one of 20,000 instances that the
bags draw from (a validation part), and one of a million (every instance in one bag). Wall-clock
times of rows, in one pass over the distances, and of all 20,000 solutions, as a search computes
them; the device is synchronised.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from setting import N_REFERENCES, bag_labels, posteriors, require_cuda, training, write

from kdey import Bags
from kdey.gpu import family_rows_on, match_together
from kdey.kernels import DEFAULT_SHRINKAGE
from kdey.matching.likelihood import MaximiseLikelihood
from kdey.posteriors import TrainingPosteriors
from kdey.rows.kernel import KernelDensityMap, KernelSpec, fit_family

N_BAGS, SIZE, N_POOL = 1_000, 1_000, 20_000
BANDWIDTHS = [0.01 * (i + 1) for i in range(20)]


def one_pass(train: TrainingPosteriors, pool: Any, bags: Bags) -> dict[str, Any]:
    """Return the time of one pass, and the largest gap of all solutions."""
    specs = [KernelDensityMap(KernelSpec(h, "gaussian", DEFAULT_SHRINKAGE)) for h in BANDWIDTHS]
    matching = MaximiseLikelihood()
    torch.cuda.synchronize()
    start = time.perf_counter()
    maps = fit_family(specs, train, 28)
    family = family_rows_on(maps, matching, pool, torch.device("cuda"))
    fitted = [(row_map, rows, bags) for row_map, rows in zip(maps, family, strict=True)]
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    gap = max(solution.gap.max() for solution in match_together(matching, fitted))
    torch.cuda.synchronize()
    spent = time.perf_counter() - start
    return {"seconds": spent, "seconds of rows": first, "largest gap": float(gap)}


def main() -> None:
    device = require_cuda()
    points, labels = training(device)
    train = TrainingPosteriors(points.cpu().numpy(), labels.cpu().numpy(), None)
    rng = np.random.default_rng(4)
    small = posteriors(bag_labels(1, N_POOL, device), seed=5).cpu().numpy()
    drawn = Bags.from_indices(rng.integers(0, N_POOL, (N_BAGS, SIZE)), N_POOL)
    large = posteriors(bag_labels(N_BAGS, SIZE, device), seed=6).cpu().numpy()
    total = N_BAGS * SIZE
    apart = Bags(np.arange(total), np.arange(N_BAGS + 1) * SIZE, total)
    results: dict[str, Any] = {"bandwidths": BANDWIDTHS, "bags": N_BAGS, "size": SIZE}
    results["references"] = N_REFERENCES
    for name, pool, bags in (("pool of 20,000", small, drawn), ("pool of a million", large, apart)):
        runs = [one_pass(train, pool, bags) for _ in range(3)]
        best = min(runs[1:], key=lambda run: run["seconds"])
        results[name] = {"first run": runs[0]["seconds"], **best}
    write("grid", results)


if __name__ == "__main__":
    main()
