"""An hour of random work with flat memory.

``python scripts/soak.py --minutes 60 --out FILE.jsonl`` (``make soak``)

Random fits, predictions, intervals, searches, model files, reports, pictures, group tables and
commands (``soak_operations.py``) run one after the other in this process, on the native core and,
for one operation in ten, on the NumPy path. Every 30 seconds memory, open files and threads are
read (``soak_memory.py``) and written as a line of FILE.jsonl; the verdict goes to
FILE.summary.json. The exit code is 0 where memory is flat and no operation failed.

``--leak 1024`` keeps that many bytes per operation: the verdict must then be that memory grows.
``--only NUMBER`` repeats one operation, with its error shown. Linux only (``/proc``).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT)]

from soak_memory import SHARE_LIMIT, SLOPE_LIMIT, Reading, Verdict, judge, measure  # noqa: E402

WARM_UP, EVERY = 600.0, 30.0
MOST_FAILURES = 20


@dataclass
class Soak:
    """The loop, with its clock and its measuring handed in.

    Parameters
    ----------
    perform : number of the operation -> its kind
    look : (seconds, operations) -> Reading
    clock : seconds, rising
    """

    perform: Callable[[int], str]
    look: Callable[[float, int], Reading] = measure
    clock: Callable[[], float] = time.monotonic
    readings: list[Reading] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    kept: list[bytes] = field(default_factory=list)

    def run(self, seconds: float, every: float, leak: int, tell: Callable[[Reading], Any]) -> None:
        """Work for ``seconds``, with a reading every ``every`` seconds, the last at the end."""
        start, number, due = self.clock(), 0, every
        while (now := self.clock() - start) < seconds and len(self.failures) < MOST_FAILURES:
            self._one(number)
            self.kept.append(bytes(leak))
            number += 1
            if now >= due:
                due += every
                self._look(now, number, tell)
        self._look(self.clock() - start, number, tell)

    def _one(self, number: int) -> None:
        try:
            self.kinds[self.perform(number)] += 1
        except Exception as error:
            self.failures.append({"number": number, "error": f"{type(error).__name__}: {error}"})

    def _look(self, now: float, number: int, tell: Callable[[Reading], Any]) -> None:
        self.readings.append(self.look(now, number))
        tell(self.readings[-1])


def summary(soak: Soak, verdict: Verdict, seed: int, warm_up: float) -> dict[str, Any]:
    """Return what is worth keeping of a run."""
    return {
        "seed": seed,
        "minutes": round(soak.readings[-1].seconds / 60, 1),
        "warm_up_minutes": round(warm_up / 60, 1),
        "operations": sum(soak.kinds.values()),
        "kinds": dict(soak.kinds.most_common()),
        "failures": soak.failures,
        "first": asdict(soak.readings[0]),
        "last": asdict(soak.readings[-1]),
        "limits": {"mib_in_ten_minutes": SLOPE_LIMIT, "share": SHARE_LIMIT},
        "verdict": asdict(verdict),
        "flat": verdict.flat,
    }


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(description="Random work with flat memory.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--warm-up", type=float, default=WARM_UP, help="seconds not judged")
    parser.add_argument("--every", type=float, default=EVERY, help="seconds between readings")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("soak.jsonl"))
    parser.add_argument("--leak", type=int, default=0, help="bytes to keep per operation")
    parser.add_argument("--only", type=int, help="repeat this operation alone")
    return parser.parse_args(words)


def main() -> int:
    """Run, write, and return 0 where all is well."""
    asked = arguments()
    import matplotlib

    from soak_operations import perform

    matplotlib.use("agg")
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder, asked.out.open("w", encoding="utf-8") as stream:

        def tell(reading: Reading) -> None:
            stream.write(json.dumps(asdict(reading)) + "\n")
            stream.flush()

        soak = Soak(lambda number: perform(asked.seed, number, Path(folder)))
        if asked.only is not None:
            print(soak.perform(asked.only))
            return 0
        soak.run(60 * asked.minutes, asked.every, asked.leak, tell)
    made = summary(soak, judge(soak.readings, asked.warm_up), asked.seed, asked.warm_up)
    asked.out.with_suffix(".summary.json").write_text(json.dumps(made, indent=1) + "\n")
    print(json.dumps(made, indent=1))
    return 0 if made["flat"] and not soak.failures else 1


if __name__ == "__main__":
    sys.exit(main())
