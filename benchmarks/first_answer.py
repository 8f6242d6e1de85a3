"""What a newcomer waits for: the import, the first answer of a stored model, and the demonstration.

Run with ``python benchmarks/first_answer.py``. Everything is measured in fresh processes, the best
of several: seconds by the clock, and processor seconds, which other work on the machine does not
enter (``--processor``: those alone). The time of an interpreter that does nothing is taken off.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import kdey
from printing import markdown

#: Loads a model and answers once; the bag is made by the process itself.
_ANSWER = """
import sys
import numpy as np
import kdey
q = kdey.load(sys.argv[1])
q.predict(np.random.default_rng(0).integers(0, 16, (500, 64)).astype(float))
"""
_DEMO = "import sys; sys.argv = ['kdey', 'demo']; from kdey.cli import main; main()"


@dataclass(frozen=True)
class Seconds:
    """By the clock, and of the processor."""

    clock: float
    processor: float

    def beyond(self, other: Seconds) -> Seconds:
        """Return the difference."""
        return Seconds(self.clock - other.clock, self.processor - other.processor)


def measure(code: str, *arguments: str, times: int = 3) -> Seconds:
    """Return the least seconds of a process that runs ``code``."""
    clock, processor = [], []
    for _ in range(times):
        before, start = _children(), time.perf_counter()
        command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        clock.append(time.perf_counter() - start)
        processor.append(_children() - before)
    return Seconds(min(clock), min(processor))


def _children() -> float:
    """Return the processor seconds of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processor", action="store_true", help="processor seconds alone")
    only_processor = parser.parse_args().processor
    X, y = load_digits(return_X_y=True)
    bare = measure("pass")
    lines: dict[str, Seconds] = {
        "`import sklearn`": measure("import sklearn"),
        "`import kdey`": measure("import kdey"),
        "`from kdey import KDEyML`": measure("from kdey import KDEyML"),
        "`from kdey import Quantifier`": measure("from kdey import Quantifier"),
    }
    with tempfile.TemporaryDirectory() as folder:
        models = {
            "KDEyML": kdey.KDEyML(LogisticRegression(max_iter=1000), random_state=0),
            "Quantifier": kdey.Quantifier(random_state=0, effort="low"),
        }
        for name, quantifier in models.items():
            path = kdey.save(quantifier.fit(X, y), Path(folder) / f"{name}.kdey")
            label = f"import, load a {name} and answer for 500 rows"
            lines[label] = measure(_ANSWER, str(path))
    lines["`kdey demo`"] = measure(_DEMO, times=1)
    rows = []
    for label, seconds in lines.items():
        took = seconds.beyond(bare)
        times = (took.processor,) if only_processor else (took.clock, took.processor)
        rows.append([label, *(f"{t:.2f}" for t in times)])
    heads = ["in a fresh process", "seconds", "processor seconds"]
    print(markdown(heads[:1] + heads[2:] if only_processor else heads, rows))


if __name__ == "__main__":
    main()
