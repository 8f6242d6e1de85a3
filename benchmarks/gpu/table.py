"""The figures of ``gpu/results`` as one table; needs no GPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from printing import markdown, significant  # noqa: E402


def read(name: str) -> dict[str, Any]:
    """Return what one of the scripts measured."""
    return dict(json.loads((HERE / "results" / f"{name}.json").read_text()))


def rows() -> list[tuple[str, str]]:
    """Return what was measured."""
    kernel, t1b, grid, limits = read("kernel"), read("t1b"), read("grid"), read("limits")
    fit, means = limits["automatic fit"], limits["PACC, 5000 bags"]
    bounds = limits["KDEyML, limits of 500 bags"]
    ml, cs = t1b["KDEyML"], t1b["KDEyCS"]
    one, twenty = kernel["one bandwidth"], kernel["20 bandwidths"]
    calls = kernel["seconds of calls"]
    return [
        ("kernel, pairs a second", f"{one['pairs_per_second']:.2e}"),
        (
            "the same with 200,000 references",
            f"{kernel['one bandwidth, 200000 references']['pairs_per_second']:.2e}",
        ),
        ("share of the pairs that is padding", f"{one['share of padding']:.1%}"),
        ("whole call for a million rows, s", significant(calls["next, 1000000 queries"])),
        ("whole call for one row, references packed, s", significant(calls["next, one query"])),
        ("the same, first call with these references, s", significant(calls["first, one query"])),
        ("of the exponential units, one bandwidth", share(one)),
        ("of the exponential units, 20 bandwidths", share(twenty)),
        (f"KDEy-ML, {ml['bags']:,} bags of 1,000, from host arrays, s", shortest(ml)),
        ("largest gap", f"{ml['largest gap']:.1e}"),
        ("largest difference from the host", f"{ml['difference from host']:.1e}"),
        (f"KDEy-CS, {cs['bags']:,} bags of 1,000, from host arrays, s", shortest(cs)),
        ("20 bandwidths x 1,000 bags, pool of 20,000, s", spent(grid["pool of 20,000"])),
        ("20 bandwidths x 1,000 bags, pool of a million, s", spent(grid["pool of a million"])),
        ("PACC, 5,000 bags of 1,000, tensors, s", significant(means["device"])),
        ("the same on 16 cores, s", significant(means["host"])),
        ("KDEy-ML, analytic limits of 500 bags, tensors, s", significant(bounds["device"])),
        ("the same on 16 cores, s", significant(bounds["host"])),
        ("automatic fit on tensors, s", spent(fit["device"])),
        ("the same on 16 cores, s", spent(fit["host"])),
    ]


def share(made: dict[str, Any]) -> str:
    """Return the share of the hardware's limit."""
    return f"{made['of the exponential units']:.0%}"


def shortest(made: dict[str, Any]) -> str:
    """Return the shortest of the repeats."""
    return significant(min(made["seconds from host arrays"]))


def spent(made: dict[str, Any]) -> str:
    """Return the seconds of a grid."""
    return significant(made["seconds"])


def main() -> None:
    hardware = read("kernel")["hardware"]
    print(
        f"One {hardware['gpu']}, {hardware['date']}, torch {hardware['torch']}, Triton "
        f"{hardware['triton']}; 28 classes, 20,000 references (scripts in `benchmarks/gpu`):\n"
    )
    print(markdown(["", "measured"], rows()))


if __name__ == "__main__":
    main()
