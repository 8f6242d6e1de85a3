"""The official checkers and scorers of LeQua beside kdey's, on made-up files.

    git clone https://github.com/HLT-ISTI/LeQua2022_scripts
    git clone https://github.com/HLT-ISTI/LeQua2024_scripts
    python scripts/lequa_checker.py LeQua2022_scripts LeQua2024_scripts

Every file is given to ``format_checker.py`` and to ``kdey.paper.submission.read_submission``; the
verdicts must agree. Measures of ``evaluate.py`` and of ``kdey.paper.submission.score`` must agree
to the digits that are printed. The exit code is 1 if anything differs.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from kdey.paper.datasets.lequa_tasks import TASKS
from kdey.paper.submission import read_submission, score, write_submission


def main(folders: list[str]) -> int:
    """Compare with each folder of official scripts; return 1 if anything differs."""
    if not folders:
        sys.exit(__doc__)
    differences = 0
    with tempfile.TemporaryDirectory() as scratch:
        files = make_files(Path(scratch))
        for folder in map(Path, folders):
            for path in files:
                official, ours = official_verdict(folder, path), our_verdict(path)
                differences += official != ours
                print(f"{folder.name}: {path.stem}: official {official}, kdey {ours}")
            edition = 2024 if "2024" in folder.name else 2022
            for task in [task for task in TASKS.values() if task.edition == edition]:
                differences += not same_scores(folder, task.name, Path(scratch))
    print(f"{differences} differences")
    return int(differences > 0)


def make_files(folder: Path) -> list[Path]:
    """Write valid submissions as kdey does, and files with one fault each; return their paths."""
    paths = []
    for n_bags, k in ((1000, 2), (5000, 2), (1000, 28), (5000, 5)):
        paths.append(folder / f"valid-{n_bags}-{k}.csv")
        write_submission(paths[-1], random_prevalences(n_bags, k))
    header, *lines = paths[0].read_text(encoding="utf-8").splitlines()
    faults = {
        "too few lines": [header, *lines[:-1]],
        "no line": [header],
        "lines in another order": [header, *lines[::-1]],
        "header without id": [header.replace("id", "sample"), *lines],
        "classes in another order": ["id,1,0", *lines],
        "classes from one": ["id,1,2", *lines],
        "one class": ["id,0", *(line.rpartition(",")[0] for line in lines)],
        "twice the same bag": [header, lines[1], *lines[1:]],
        "bags from one": [header, *lines[1:], "1000,0.5,0.5"],
        "negative": [header, "0,-0.0005,1", *lines[1:]],
        "above one": [header, "0,1.0005,0", *lines[1:]],
        "sum too small": [header, "0,0.5,0.4985", *lines[1:]],
        "sum a little too small": [header, "0,0.5,0.4995", *lines[1:]],
        "rounded": [header, "0,0.3333,0.6667", *lines[1:]],
    }
    for name, content in faults.items():
        paths.append(folder / f"{name}.csv")
        paths[-1].write_text("\n".join(content) + "\n", encoding="utf-8")
    return paths


def random_prevalences(n_bags: int, k: int, seed: int = 0) -> np.ndarray:
    """Return prevalences, some of them at corners."""
    rows = np.random.default_rng(seed).dirichlet(np.full(k, 0.7), size=n_bags)
    rows[:k] = np.eye(k)
    return rows


def official_verdict(folder: Path, path: Path) -> bool:
    """Return whether the official checker accepts a file."""
    return "[passed]" in run(folder, "format_checker.py", str(path))


def our_verdict(path: Path) -> bool:
    """Return whether kdey accepts a file."""
    try:
        read_submission(path)
    except ValueError:
        return False
    return True


def same_scores(folder: Path, task: str, scratch: Path) -> bool:
    """Return whether both scorers print the same for random estimates of a task."""
    k = TASKS[task].n_classes
    # No bag of T3 has a mean rating of exactly 5: the official bins have no place for it.
    true, estimated = random_prevalences(1000, k)[k:], random_prevalences(1000, k, seed=1)[k:]
    true, estimated = np.vstack([true, true[:k]]), np.vstack([estimated, estimated[:k]])
    paths = [scratch / "true.csv", scratch / "estimated.csv"]
    for path, rows in zip(paths, (true, estimated), strict=True):
        write_submission(path, rows)
    printed = run(folder, "evaluate.py", task, *map(str, paths))
    official = dict(re.findall(r"^([\w-]+): ([\d.]+)", printed, flags=re.MULTILINE))
    ours = score(task, true, estimated)
    print(f"{folder.name}: {task}: official {official}, kdey {ours}")
    return set(official) == set(ours) and all(
        abs(float(official[name]) - value) <= 0.51 * 10.0 ** -len(official[name].split(".")[1])
        for name, value in ours.items()
    )


def run(folder: Path, script: str, *arguments: str) -> str:
    """Return what an official script prints."""
    command = [sys.executable, script, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
