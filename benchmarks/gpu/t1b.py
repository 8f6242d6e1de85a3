"""A test of T1B's size, from posteriors to certified prevalences, by the public methods.

5,000 bags of 1,000 instances, all of them different (a pool of five million), 20,000 references, 28
classes: KDEy-ML and KDEy-CS, and KDEy-HD on the first 1,000 bags. Run
``PYTHONPATH=src python benchmarks/gpu/t1b.py``. Wall-clock times with the device synchronised; the
first run, which compiles the kernel, is given apart.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from setting import (
    BANDWIDTH,
    N_CLASSES,
    N_REFERENCES,
    bag_labels,
    posteriors,
    require_cuda,
    training,
    write,
)

from kdey import Bags, KDEyCS, KDEyHD, KDEyML
from kdey.gpu.device_rows import device_rows
from kdey.gpu.solve import solve_bags

N_BAGS, SIZE, N_CHECKED = 5_000, 1_000, 8
#: Bags of KDEy-HD, which compares each of them with 10,000 points in float64.
N_FEWER = 1_000


def bags_in_order(n_bags: int, size: int) -> Bags:
    total = n_bags * size
    return Bags(np.arange(total), np.arange(n_bags + 1) * size, total)


def timed(work: Any, repeats: int = 4) -> tuple[Any, list[float]]:
    """Return what ``work`` gives, and the sorted times of its runs; the first one comes last."""
    times = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        made = work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return made, [*sorted(times[1:]), times[0]]


def stages(quantifier: KDEyML, pool: torch.Tensor, bags: Bags) -> dict[str, float]:
    """Return the best times of the two stages on the device."""
    rows, row_times = timed(
        lambda: device_rows([quantifier.row_map_], pool, pool.device)[0], repeats=3
    )
    _, times = timed(
        lambda: solve_bags(quantifier.model_.matching, quantifier.row_map_, rows, bags), repeats=3
    )
    return {"seconds of rows": row_times[0], "seconds of solving": times[0]}


def against_host(quantifier: Any, pool: Any, solution: Any) -> float:
    """Return the largest difference from the host's prevalences on the first bags."""
    host = type(quantifier)(**{**quantifier.get_params(), "device": "cpu"})
    training = quantifier.training_
    host.fit_posteriors(training.posteriors, training.labels)
    exact = host.solve_posteriors(pool[: N_CHECKED * SIZE], bags_in_order(N_CHECKED, SIZE))
    return float(np.abs(exact.prevalence - solution.prevalence[:N_CHECKED]).max())


def measure(quantifier: Any, pool: torch.Tensor, host: Any, bags: Bags) -> dict[str, Any]:
    found, from_host = timed(lambda: quantifier.solve_posteriors(host, bags))
    _, from_device = timed(lambda: quantifier.solve_posteriors(pool, bags))
    return {
        "seconds from host arrays": from_host[:-1],
        "seconds from device tensors": from_device[:-1],
        "first run": from_host[-1],
        "largest gap": float(found.gap.max()),
        "converged": int(found.converged.sum()),
        "most iterations": int(found.n_iter.max()),
        "difference from host": against_host(quantifier, host, found),
    }


def main() -> None:
    device = require_cuda()
    points, labels = training(device)
    pool = posteriors(bag_labels(N_BAGS, SIZE, device), seed=3)
    host = pool.cpu().numpy()
    truth = torch.nn.functional.one_hot(bag_labels(N_BAGS, SIZE, device), N_CLASSES)
    prevalence = truth.reshape(N_BAGS, SIZE, -1).double().mean(dim=1).cpu().numpy()
    results: dict[str, Any] = {"size": SIZE, "references": N_REFERENCES}
    for make, n_bags in ((KDEyML, N_BAGS), (KDEyCS, N_BAGS), (KDEyHD, N_FEWER)):
        total, bags = n_bags * SIZE, bags_in_order(n_bags, SIZE)
        quantifier = make(bandwidth=BANDWIDTH, kernel="gaussian", device="cuda", random_state=0)
        start = time.perf_counter()
        quantifier.fit_posteriors(points.cpu().numpy(), labels.cpu().numpy())
        fitting = time.perf_counter() - start
        measured = measure(quantifier, pool[:total], host[:total], bags)
        estimate = quantifier.aggregate_bags(pool[:total], bags)
        measured["mean absolute error"] = float(np.abs(estimate - prevalence[:n_bags]).mean())
        measured["stages"] = stages(quantifier, pool[:total], bags)
        results[make.__name__] = {"bags": n_bags, "seconds of fit": fitting, **measured}
        print(make.__name__, results[make.__name__], flush=True)
    write("t1b", results)


if __name__ == "__main__":
    main()
