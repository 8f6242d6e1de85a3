"""The Triton kernel against the oracle; run by ``test_fused.py`` in Triton's interpreter."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import torch

from kdey.gpu.fused import Shape, fused_log_sums
from kdey.gpu.sums import DeviceReferences
from tests.gpu.cases import Sums, sums
from tests.kernels.cases import worst_error

#: Of exp(l - max l).
TOLERANCE = 2e-4


def error(case: Sums, device: torch.device, shape: Shape | None) -> float:
    """Return the kernel's largest error in exp(l - max l); infinite if other sums are zero."""
    refs = DeviceReferences.of(case.references, case.offsets, case.weights, device)
    x = torch.from_numpy(case.queries).float().to(device)
    gone = None if case.exclude is None else torch.from_numpy(case.exclude).to(device)
    found = fused_log_sums(x, refs, case.bandwidths, gone, shape)
    logs, wanted = found.cpu().double().numpy(), case.oracle()
    if not np.array_equal(np.isneginf(logs), np.isneginf(wanted)):
        return np.inf
    return float(worst_error(logs, wanted))


def cases(large: bool) -> dict[str, Sums]:
    """Return cases that take every branch of the kernel."""
    n = 3_000 if large else 90
    made = {
        "one bandwidth": sums(0, n=n, bandwidths=[0.1]),
        "three": sums(1, n=n, bandwidths=[0.05, 0.1, 0.4]),
        "weighted": sums(2, n=n, bandwidths=[0.1], weighted=True),
        "leaving one out": sums(3, n=n, bandwidths=[0.1], leaving=True),
        "all of it": sums(4, n=n, bandwidths=[0.05, 0.2], weighted=True, leaving=True),
        "28 classes": sums(5, m=40, n=3 * n, k=28, bandwidths=[0.1]),
        "31 classes": sums(10, m=40, n=3 * n, k=31, bandwidths=[0.1, 0.3]),
        # No room for norms, and lanes that have nothing but padding.
        "31 classes, one": sums(14, m=40, n=3 * n, k=31, bandwidths=[0.1], leaving=True),
        "wide": sums(11, n=n, bandwidths=[30.0, 2.0]),
        "nothing left": _nothing_left(),
        "far from zero": _moved(sums(13, n=n, bandwidths=[0.1]), 16.0),
        # Classes of several tiles, whose maximum moves on the way.
        "tiles": sums(8, n=4 * n, bandwidths=[0.05]),
        "tiles, two": sums(9, n=4 * n, bandwidths=[0.05, 0.1]),
    }
    if large:
        many = np.linspace(0.06, 0.5, 40).tolist()
        made["more than one pass"] = sums(6, m=700, n=n, bandwidths=many)
        made["65 columns, one"] = sums(15, m=200, n=4 * n, k=65, bandwidths=[0.1], leaving=True)
        made["65 columns"] = sums(7, m=200, n=4 * n, k=65, bandwidths=[0.1, 0.2])
    return made


def _nothing_left() -> Sums:
    """Return sums in which a class has a single reference, which some queries leave out."""
    rng = np.random.default_rng(12)
    references, offsets = rng.dirichlet(np.ones(3), 9), np.array([0, 1, 5, 9])
    exclude = np.array([0, -1, 3, 0])
    return Sums(rng.dirichlet(np.ones(3), 4), references, offsets, [0.2], None, exclude)


def _moved(case: Sums, shift: float) -> Sums:
    """Return a case whose coordinates are far larger than its distances."""
    return replace(case, queries=case.queries + shift, references=case.references + shift)


def main() -> int:
    device = torch.device("cpu")
    with np.errstate(all="ignore"):  # the interpreter computes infinities by NumPy
        found = {
            name: error(case, device, Shape(32, 64, 4, 1)) for name, case in cases(False).items()
        }
    print(found)
    return int(max(found.values()) > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
