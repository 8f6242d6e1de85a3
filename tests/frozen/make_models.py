"""Store a model file of every method with its answers, for later versions to read.

    python -m tests.frozen.make_models

It writes ``tests/frozen/models-FORMAT.zip``: a file of each quantifier of the contract tests that
the archive does not have, and ``answers.json`` with the points of one bag, and for each file the
shares that the quantifier estimated. What the archive has stays as it is: a file that can no longer
be read, or answers otherwise, wants a new number of the format.

The files hold no classifiers: those of scikit-learn belong to its version.
"""

from __future__ import annotations

import json
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

import kdey
from kdey.persistence.archive import FORMAT, TIME_STAMP
from tests.quantifiers.methods import binary, multiclass

ARCHIVE = Path(__file__).parent / f"models-{FORMAT}.zip"
ANSWERS = "answers.json"


def quantifiers() -> dict[str, tuple[int, Any]]:
    """Return the number of classes and the quantifier, by the name of its file."""
    made = {
        f"{name}-{k}": (k, q)
        for k, of in ((3, multiclass()), (2, binary()))
        for name, q in of.items()
    }
    for _, quantifier in made.values():
        smaller = {"n_points": 100, "n_members": 3, "classifiers": "auto", "random_state": 0}
        known = quantifier.get_params()
        changes = {name: value for name, value in smaller.items() if name in known}
        changes |= {name: None for name in known if name.rpartition("__")[2] == "classifier"}
        quantifier.set_params(**changes)
    return made


def points(n_classes: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return posteriors with few digits, and labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    P = 0.5 * np.eye(n_classes)[y] + 0.5 * rng.dirichlet(np.ones(n_classes), n)
    P = np.round(P[:, :-1], 3)
    return np.column_stack([P, 1.0 - P.sum(axis=1)]), y


def answer(quantifier: Any, bag: np.ndarray) -> list[float]:
    """Return the shares of the classes in a bag of posteriors, or of features."""
    ask = getattr(quantifier, "aggregate", quantifier.predict)
    return [float(share) for share in ask(bag)]


def main() -> None:
    """Add what the archive does not have."""
    members: dict[str, bytes] = {}
    if ARCHIVE.exists():
        with zipfile.ZipFile(ARCHIVE) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    bags = {k: points(k, 25, seed=1)[0][5:] for k in (2, 3)}
    answers = json.loads(members.get(ANSWERS, b'{"shares": {}}'))
    answers["bags"] = {str(k): bag.tolist() for k, bag in bags.items()}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (k, quantifier) in quantifiers().items():
            if name in answers["shares"]:
                continue
            fit = getattr(quantifier, "fit_posteriors", quantifier.fit)
            file = kdey.save(fit(*points(k, 45, seed=0)), Path(folder) / name)
            members[name] = Path(file).read_bytes()
            answers["shares"][name] = answer(quantifier, bags[k])
    members[ANSWERS] = json.dumps(answers, indent=1).encode()
    with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(members):
            archive.writestr(zipfile.ZipInfo(name, TIME_STAMP), members[name], zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
