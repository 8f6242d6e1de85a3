"""Pairs per second and error of the fused kernel: 28 classes, 20,000 references.

Run ``PYTHONPATH=src python benchmarks/gpu/kernel.py [--shapes]``; ``--shapes`` tries several tile
shapes first and prints them all. A pair is one reference at one query, whatever the bandwidths.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch
from setting import (
    BANDWIDTH,
    N_REFERENCES,
    limits,
    posteriors,
    require_cuda,
    seconds,
    training,
    write,
)

from kdey.gpu.fused import DEFAULT, MANY, Shape, fused_log_sums, launch
from kdey.gpu.sums import PADDING, DeviceReferences, PaddedReferences, plain_log_sums

N_QUERIES, N_CHECKED, N_MANY = 1_000_000, 2_000, 200_000
MANY_BANDWIDTHS = [0.01 * (i + 2) for i in range(20)]
SHAPES = [
    *(Shape(64, 64, 4, 2), Shape(64, 64, 4, 3), Shape(64, 64, 4, 4), Shape(128, 64, 4, 2)),
    *(Shape(128, 64, 4, 3), Shape(128, 64, 8, 2), Shape(64, 128, 4, 2), Shape(64, 128, 4, 3)),
    *(Shape(128, 128, 8, 2), Shape(64, 32, 4, 2), Shape(64, 32, 4, 3), Shape(128, 32, 4, 2)),
]
MANY_SHAPES = [
    *(Shape(64, 32, 4, 2), Shape(64, 32, 4, 3), Shape(64, 64, 4, 2), Shape(128, 32, 4, 2)),
    *(Shape(128, 32, 8, 2), Shape(64, 128, 4, 2)),
]


def references(device: torch.device, n: int = N_REFERENCES) -> DeviceReferences:
    points, labels = training(device, n)
    counts = torch.bincount(labels).cumsum(0).cpu()
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts]).numpy()
    return DeviceReferences.of(points.cpu().numpy(), offsets, None, device)


def rate(x: torch.Tensor, refs: DeviceReferences, bandwidths: list[float], shape: Shape) -> float:
    """Return pairs per second by the median of several runs; nothing but the kernel is timed."""
    padded = PaddedReferences.of(refs, float(x.abs().max()), max(bandwidths))
    queries = padded.queries(x)
    size = (len(bandwidths), len(x), refs.n_classes)
    out = torch.full(size, float("nan"), device=x.device)
    times = seconds(lambda: launch(queries, padded, bandwidths, None, out, shape))
    if bool(out.isnan().any()):
        raise RuntimeError("an output was not written")
    return len(x) * refs.offsets[-1] / times[len(times) // 2]


def calls(x: torch.Tensor, refs: DeviceReferences) -> dict[str, float]:
    """Return seconds of whole calls, with checks and packing, by the median of several runs.

    The references are packed in the first call with them, which copies of them make again.
    """

    def unpacked() -> DeviceReferences:
        return DeviceReferences(
            refs.points, refs.offsets, refs.centres, refs.weights, refs.position
        )

    def median(times: list[float]) -> float:
        return times[len(times) // 2]

    return {
        "first, one query": median(seconds(lambda: fused_log_sums(x[:1], unpacked(), [BANDWIDTH]))),
        "next, one query": median(seconds(lambda: fused_log_sums(x[:1], refs, [BANDWIDTH]))),
        f"next, {len(x)} queries": median(seconds(lambda: fused_log_sums(x, refs, [BANDWIDTH]))),
    }


def tried(
    x: torch.Tensor, refs: DeviceReferences, bandwidths: list[float], shapes: list[Shape]
) -> dict[str, float | str]:
    found: dict[str, float | str] = {}
    for shape in shapes:
        start = time.perf_counter()
        try:
            found[str(shape)] = rate(x, refs, bandwidths, shape)
        except Exception as error:  # a shape may not fit the chip
            found[str(shape)] = f"{type(error).__name__}: {str(error)[:80]}"
        spent = time.perf_counter() - start
        print(f"{len(bandwidths)} {shape}: {found[str(shape)]} ({spent:.1f} s)", flush=True)
    return found


def errors(x: torch.Tensor, refs: DeviceReferences, bandwidths: list[float]) -> dict[str, Any]:
    """Return the largest error against float64, in exp(l - max l) and in l, per bandwidth."""
    part = x[:N_CHECKED].contiguous()
    exact = plain_log_sums(part.double(), refs, bandwidths, None, torch.float64)
    found = {
        "fused": fused_log_sums(part, refs, bandwidths).double(),
        "plain float32": plain_log_sums(part, refs, bandwidths, None, torch.float32).double(),
    }
    top = exact.amax(dim=2, keepdim=True)
    made: dict[str, Any] = {"bandwidths": bandwidths}
    for name, logs in found.items():
        off = ((logs - top).exp() - (exact - top).exp()).abs()
        made[name] = {
            "share": off.amax(dim=(1, 2)).tolist(),
            "mean share": off.mean(dim=(1, 2)).tolist(),
            "log": (logs - exact).abs().amax(dim=(1, 2)).tolist(),
        }
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", action="store_true")
    asked = parser.parse_args()
    device = require_cuda()
    labels = torch.randint(0, 28, (N_QUERIES,), device=device)
    x, refs = posteriors(labels), references(device)
    few = x[: N_QUERIES // 4].contiguous()
    results: dict[str, Any] = {}
    if asked.shapes:
        results["shapes, one bandwidth"] = tried(x, refs, [BANDWIDTH], SHAPES)
        results["shapes, 20 bandwidths"] = tried(few, refs, MANY_BANDWIDTHS, MANY_SHAPES)
    one = rate(x, refs, [BANDWIDTH], DEFAULT)
    many = rate(few, refs, MANY_BANDWIDTHS, MANY)
    peak = limits()
    tile, counts = PADDING, np.diff(refs.offsets)
    results["one bandwidth"] = {
        "pairs_per_second": one,
        "share of padding": float(1.0 - counts.sum() / (-(-counts // tile) * tile).sum()),
        "of the exponential units": one / peak["exponentials"],
        "of the tensor cores": one / peak["tensor_pairs"],
    }
    results["seconds of calls"] = calls(x, refs)
    # Classes are padded to whole small tiles, which matters less the more references they have.
    large = rate(few, references(device, N_MANY), [BANDWIDTH], DEFAULT)
    results[f"one bandwidth, {N_MANY} references"] = {
        "pairs_per_second": large,
        "of the exponential units": large / peak["exponentials"],
        "of the tensor cores": large / peak["tensor_pairs"],
    }
    results["20 bandwidths"] = {
        "pairs_per_second": many,
        "exponentials_per_second": 20 * many,
        "of the exponential units": 20 * many / peak["exponentials"],
    }
    results["errors"] = errors(x, refs, [0.02, 0.05, 0.1, 0.2])
    write("kernel", results)


if __name__ == "__main__":
    main()
