"""Fits, means and limits on the device and on the host: 28 classes, 20,000 references.

Run ``PYTHONPATH=src python benchmarks/gpu/limits.py``. Times are wall-clock seconds, the second of
two runs, with the device synchronised; the host has all its cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from setting import BANDWIDTH, N_CLASSES, bag_labels, posteriors, require_cuda, training, write

import kdey

N_BAGS, SIZE, N_LIMITS = 5_000, 1_000, 500


def wall(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what the second of two calls returns, and its time."""
    work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return result, time.perf_counter() - start


def bags(n_bags: int) -> kdey.Bags:
    """Return bags of successive instances."""
    n = n_bags * SIZE
    return kdey.Bags(np.arange(n), np.arange(n_bags + 1) * SIZE, n)


def automatic_fit(points: torch.Tensor, labels: np.ndarray) -> dict[str, Any]:
    """Return the times of an automatic fit, and the bandwidths that were chosen."""
    host = points.cpu().numpy()
    found: dict[str, Any] = {}
    for name, values in (("device", points), ("host", host)):
        q = kdey.KDEyML(random_state=0, n_jobs=-1)
        fitted, seconds = wall(lambda q=q, values=values: q.fit_posteriors(values, labels))
        members = [(str(t.setting), t.value, round(t.weight, 3)) for t in fitted.tuning_.members]
        found[name] = {"seconds": seconds, "members": members}
    return found


def answers(method: Any, pool: torch.Tensor) -> dict[str, Any]:
    """Return the times of prevalences of all bags, and how far those of device and host differ."""
    host = pool.cpu().numpy()
    there, seconds = wall(lambda: method.aggregate_bags(pool, bags(N_BAGS)))
    here, host_seconds = wall(lambda: method.aggregate_bags(host, bags(N_BAGS)))
    off = float(np.abs(there - here).max())
    return {"device": seconds, "host": host_seconds, "largest difference": off}


def limits(method: Any, pool: torch.Tensor) -> dict[str, Any]:
    """Return the times of analytic limits, and how far those of device and host differ."""
    part, some = pool[: N_LIMITS * SIZE], bags(N_LIMITS)
    options = {"method": "analytic", "check_fit": False}
    host = part.cpu().numpy()
    there, seconds = wall(
        lambda: method.estimate_posteriors(part, some, options=kdey.Options(**options))
    )
    here, host_seconds = wall(
        lambda: method.estimate_posteriors(host, some, options=kdey.Options(**options))
    )
    off = max(np.abs(there.low - here.low).max(), np.abs(there.high - here.high).max())
    return {"device": seconds, "host": host_seconds, "largest difference": float(off)}


def main() -> None:
    device = require_cuda()
    points, labels = training(device)
    codes = labels.cpu().numpy()
    pool = posteriors(bag_labels(N_BAGS, SIZE, device), seed=3)
    results: dict[str, Any] = {"bags": N_BAGS, "size": SIZE, "classes": N_CLASSES}
    results["automatic fit"] = automatic_fit(points, codes)
    pacc = kdey.PACC(n_jobs=-1).fit_posteriors(points, codes)
    results["PACC, 5000 bags"] = answers(pacc, pool)
    results["PACC, limits of 500 bags"] = limits(pacc, pool)
    kernel = kdey.KDEyML(bandwidth=BANDWIDTH, n_jobs=-1).fit_posteriors(points, codes)
    results["KDEyML, limits of 500 bags"] = limits(kernel, pool)
    write("limits", results)


if __name__ == "__main__":
    main()
