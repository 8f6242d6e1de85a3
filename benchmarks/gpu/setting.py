"""What the GPU benchmarks share: data made on the device, timing by its events, results as JSON."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

N_CLASSES, N_REFERENCES, BANDWIDTH = 28, 20_000, 0.1
#: Special-function units: 16 exponentials per clock and multiprocessor.
EXP_PER_CLOCK = 16


def posteriors(labels: torch.Tensor, seed: int = 0, k: int = N_CLASSES) -> torch.Tensor:
    """Return posteriors of shape (m, k) that lean towards the given labels, float32."""
    generator = torch.Generator(device=labels.device).manual_seed(seed)
    shape = (len(labels), k)
    logits = 1.5 * torch.randn(shape, generator=generator, device=labels.device)
    logits.scatter_add_(1, labels[:, None], torch.full_like(logits[:, :1], 3.0))
    return torch.softmax(logits, dim=1)


def training(device: torch.device, n: int = N_REFERENCES) -> tuple[torch.Tensor, torch.Tensor]:
    """Return n training posteriors and their labels, sorted by class."""
    labels = torch.arange(n, device=device) * N_CLASSES // n
    return posteriors(labels, seed=1), labels


def bag_labels(n_bags: int, size: int, device: torch.device, seed: int = 2) -> torch.Tensor:
    """Return the labels of bags whose prevalences are uniform on the simplex, (n_bags * size,)."""
    rng = np.random.default_rng(seed)
    prevalences = torch.from_numpy(rng.dirichlet(np.ones(N_CLASSES), n_bags)).to(device)
    generator = torch.Generator(device=device).manual_seed(seed)
    return torch.multinomial(prevalences, size, True, generator=generator).reshape(-1)


def seconds(work: Callable[[], Any], repeats: int = 7, warm: int = 2) -> list[float]:
    """Return the times of ``work`` in seconds by device events, after ``warm`` calls, sorted."""
    for _ in range(warm):
        work()
    times = []
    for _ in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) / 1e3)
    return sorted(times)


def limits() -> dict[str, float]:
    """Return what the chip could do at most, per second, at its highest clock."""
    properties = torch.cuda.get_device_properties(0)
    clock = 1e3 * float(getattr(properties, "clock_rate", 0) or 1_980_000)
    exponentials = properties.multi_processor_count * EXP_PER_CLOCK * clock
    # Half precision on tensor cores: 4096 flops per clock and multiprocessor on Hopper; a pair
    # takes three products of 32 columns.
    flops = properties.multi_processor_count * 4096.0 * clock
    return {"clock_hz": clock, "exponentials": exponentials, "tensor_pairs": flops / (3 * 2 * 32)}


def hardware() -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(0)
    import triton

    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "gpu": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "limits_per_second": limits(),
    }


def write(name: str, results: dict[str, Any]) -> None:
    """Print the results, and keep them with date and hardware as ``<name>.json``."""
    folder = Path(os.environ.get("OUT") or Path(__file__).parent / "results")
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"hardware": hardware(), **results}, indent=2)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(f"--- {name}\n{json.dumps(results, indent=1)}", flush=True)


def require_cuda() -> torch.device:
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device")
    return torch.device("cuda")
