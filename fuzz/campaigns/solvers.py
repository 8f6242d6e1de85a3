"""The campaign over the solvers: one case made, solved, checked and counted."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fuzz.campaigns.case import Case, faults, oracle_faults, twin_faults
from fuzz.campaigns.solver_kinds import KINDS
from fuzz.campaigns.tally import Tally
from kdey.matching import Solution

#: One case in this many has a bag compared with a slow general method.
ORACLE_EVERY = 40
SHARES = {name: share for name, (_, share) in KINDS.items()}


def run_case(kind: str, seed: int, number: int, tally: Tally) -> None:
    """Make case ``number`` of ``kind``, solve and check it, and count what came of it."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind), number])
    tally.cases += 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            case = KINDS[kind][0](rng)
        except ValueError as error:
            tally.refuse(str(error))
            return
        except Exception:
            tally.fault(number, _last_lines("making"))
            return
        try:
            solution = case.solve()
            warned = any(w.category is ConvergenceWarning for w in caught)
            for text in _all_faults(case, solution, warned, rng, number, tally):
                tally.fault(number, text)
        except Exception:
            tally.fault(number, _last_lines("solving"))
            return
    _count(case, solution, warned, number, tally)


def _all_faults(
    case: Case,
    solution: Solution,
    warned: bool,
    rng: np.random.Generator,
    number: int,
    tally: Tally,
) -> Iterator[str]:
    yield from faults(case, solution, warned, rng)
    if case.twin is not None:
        tally.twins += 1
        yield from twin_faults(case, solution)
    if number % ORACLE_EVERY == 0:
        tally.oracles += 1
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            yield from oracle_faults(case, solution, rng)


def _count(case: Case, solution: Solution, warned: bool, number: int, tally: Tally) -> None:
    tally.problems += len(solution)
    tally.warned += warned
    tally.no_optimum += int(case.silent.sum())
    tally.unconverged += int((~solution.converged).sum())
    left = ~solution.converged & np.isfinite(solution.gap)
    if left.any() and solution.gap[left].max() > tally.largest_gap:
        tally.largest_gap = float(solution.gap[left].max())
        tally.largest_gap_case = number


def _last_lines(stage: str) -> str:
    lines = [line.strip() for line in traceback.format_exc().strip().splitlines()]
    places = [line.rsplit("/", 1)[-1] for line in lines if line.startswith("File")]
    return f"{stage}: {lines[-1]} | {' < '.join(reversed(places[-3:]))}"
