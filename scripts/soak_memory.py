"""What a soak measures of its own process, and what it makes of the readings.

Flat means: after the warm-up, in which caches fill and libraries load, a robust line through the
resident memory rises by less than :data:`SLOPE_LIMIT` in ten minutes and by less than
:data:`SHARE_LIMIT` of the memory over the whole run, and neither open files nor threads grow.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import theilslopes

#: Largest rise of the resident memory in ten minutes, in MiB.
SLOPE_LIMIT = 2.0
#: Largest rise over the whole measured time, as a share of the median.
SHARE_LIMIT = 0.05
TEN_MINUTES = 600.0


@dataclass(frozen=True)
class Reading:
    """One look at the process.

    Attributes
    ----------
    seconds : since the start
    operations : done so far
    memory : resident, in MiB, after garbage collection
    files : open descriptors
    threads : of the process, native ones included
    """

    seconds: float
    operations: int
    memory: float
    files: int
    threads: int


@dataclass(frozen=True)
class Verdict:
    """What the readings after the warm-up say.

    Attributes
    ----------
    slope : MiB in ten minutes, by Theil and Sen's line (the median of all slopes)
    share : rise along that line over the whole measured time, as a share of the median memory
    more_files, more_threads : last third against first third, medians
    n_readings : how many there were after the warm-up
    """

    slope: float
    share: float
    more_files: float
    more_threads: float
    n_readings: int

    @property
    def flat(self) -> bool:
        """Whether nothing grows beyond the limits."""
        steady = self.more_files <= 0 and self.more_threads <= 0
        return steady and self.slope < SLOPE_LIMIT and self.share < SHARE_LIMIT


def measure(seconds: float, operations: int) -> Reading:
    """Return a reading of this process; what is free but kept by malloc is given back first."""
    gc.collect()
    _trim()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    memory = int(status["VmRSS"].split()[0]) / 1024
    files = len(os.listdir("/proc/self/fd"))
    return Reading(round(seconds, 1), operations, round(memory, 2), files, int(status["Threads"]))


def _trim() -> None:
    """Give free memory back to the system, where the C library can (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def judge(readings: Sequence[Reading], warm_up: float) -> Verdict:
    """Return the verdict on the readings later than ``warm_up`` seconds."""
    kept = [one for one in readings if one.seconds >= warm_up]
    if len(kept) < 6:
        raise ValueError(f"{len(kept)} readings after the warm-up; a verdict needs six")
    at = np.array([one.seconds for one in kept])
    memory = np.array([one.memory for one in kept])
    slope = float(theilslopes(memory, at)[0])
    share = slope * float(at[-1] - at[0]) / float(np.median(memory))
    files = _rise([one.files for one in kept])
    threads = _rise([one.threads for one in kept])
    return Verdict(slope * TEN_MINUTES, share, files, threads, len(kept))


def _rise(counts: Sequence[int]) -> float:
    """Return the median of the last third less that of the first."""
    third = len(counts) // 3
    return float(np.median(counts[-third:]) - np.median(counts[:third]))
