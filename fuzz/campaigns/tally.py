"""Totals of a campaign: what was tried and what came of it, kept in a JSON file."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Tally:
    """What came of the cases of one kind.

    Attributes
    ----------
    cases, problems : int
        Generated cases, and bags solved in them.
    refused : int
        Cases refused by an error of the documented family that names its argument.
    warned : int
        Cases with a warning of the documented family.
    unconverged : int
        Bags said not to have converged (bags without an optimum among them).
    no_optimum : int
        Bags without an optimum, by their data.
    largest_gap : float
        The largest gap of a bag that did not converge, and ``largest_gap_case`` its case.
    twins, oracles : int
        Cases compared with the other path, and bags compared with SLSQP.
    faults : list
        Failing cases: their number, and what is wrong.
    """

    cases: int = 0
    problems: int = 0
    refused: int = 0
    warned: int = 0
    unconverged: int = 0
    no_optimum: int = 0
    largest_gap: float = 0.0
    largest_gap_case: int = -1
    twins: int = 0
    oracles: int = 0
    refusals: dict[str, int] = field(default_factory=dict)
    faults: list[dict[str, Any]] = field(default_factory=list)

    def fault(self, number: int, what: str) -> None:
        """Note a failing case; a hundred of a kind are enough to work on."""
        if len(self.faults) < 100:
            self.faults.append({"case": number, "what": what})

    def refuse(self, message: str) -> None:
        """Note a refusal by the first words of its message."""
        self.refused += 1
        key = " ".join(message.split()[:6])
        if key in self.refusals or len(self.refusals) < 40:
            self.refusals[key] = self.refusals.get(key, 0) + 1


@dataclass
class Totals:
    """The tallies of all kinds of one campaign."""

    campaign: str
    seed: int
    seconds: float = 0.0
    kinds: dict[str, Tally] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, campaign: str, seed: int) -> Totals:
        """Return the totals in ``path``, or new ones where there is no such file."""
        if not path.exists():
            return cls(campaign, seed)
        held = json.loads(path.read_text())
        if held["seed"] != seed:
            raise ValueError(f"{path} holds seed {held['seed']}, not {seed}: give another file")
        kinds = {name: Tally(**values) for name, values in held["kinds"].items()}
        return cls(campaign, seed, held["seconds"], kinds)

    def write(self, path: Path) -> None:
        """Write the totals, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        summary = {"problems": self.problems, "cases": self.cases, "faults": self.faults}
        part.write_text(json.dumps(summary | asdict(self), indent=1) + "\n")
        os.replace(part, path)

    @property
    def problems(self) -> int:
        """Problems of all kinds together."""
        return sum(tally.problems for tally in self.kinds.values())

    @property
    def cases(self) -> int:
        """Cases of all kinds together."""
        return sum(tally.cases for tally in self.kinds.values())

    @property
    def faults(self) -> int:
        """Failing cases of all kinds together."""
        return sum(len(tally.faults) for tally in self.kinds.values())
