"""Run a campaign up to a number of problems, or one of its cases again."""

from __future__ import annotations

import argparse
import importlib
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from fuzz.campaigns.tally import Tally, Totals

RESULTS = Path(__file__).parents[1] / "results"
#: Cases run before the next kind has its turn, and seconds between two writes.
TURN, PAUSE = 20, 20.0


def main() -> int:
    """Run what the command line asks for; 1 where a case failed."""
    options = _options()
    module = importlib.import_module(f"fuzz.campaigns.{options.campaign}")
    with threadpool_limits(1):
        if options.replay:
            return _replay(module, options.replay, options.seed)
        path = options.out or RESULTS / f"campaign_{options.campaign}.json"
        totals = Totals.read(path, options.campaign, options.seed)
        goal = ("problems", options.problems) if options.cases is None else ("cases", options.cases)
        _run(module, totals, path, *goal, options.seconds)
    _show(totals)
    return int(totals.faults > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz.campaigns", description=__doc__)
    parser.add_argument("campaign", choices=["solvers", "estimators", "features", "tables"])
    parser.add_argument("--problems", type=int, default=1_000_000, help="total to reach")
    parser.add_argument("--cases", type=int, help="total to reach, cases in the place of problems")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="file of the totals")
    parser.add_argument("--replay", metavar="KIND:NUMBER", help="run one case again")
    return parser.parse_args()


def _run(module: Any, totals: Totals, path: Path, counted: str, goal: int, seconds: float) -> None:
    """Give turns to the kinds until each has its share of what is ``counted``."""
    begun, written = time.process_time(), time.process_time()
    before = totals.seconds
    while open_kinds := [
        kind
        for kind, share in module.SHARES.items()
        if getattr(totals.kinds.setdefault(kind, Tally()), counted) < share * goal
    ]:
        for kind in open_kinds:
            tally = totals.kinds[kind]
            for number in range(tally.cases, tally.cases + TURN):
                module.run_case(kind, totals.seed, number, tally)
        now = time.process_time()
        totals.seconds = round(before + now - begun, 1)
        if now - written > PAUSE:
            totals.write(path)
            written = now
        if now - begun > seconds:
            break
    totals.write(path)


def _replay(module: Any, which: str, seed: int) -> int:
    kind, number = which.rsplit(":", 1)
    tally = Tally()
    module.run_case(kind, seed, int(number), tally)
    print(json.dumps(asdict(tally), indent=1))
    return int(bool(tally.faults))


def _show(totals: Totals) -> None:
    print(
        f"{totals.campaign}: {totals.problems} problems of {totals.cases} cases, "
        f"seed {totals.seed}, {totals.seconds} s"
    )
    for kind, t in totals.kinds.items():
        print(
            f"  {kind}: {t.cases} cases, {t.problems} problems, {t.refused} refused, "
            f"{t.unconverged} unconverged ({t.no_optimum} without an optimum; largest gap "
            f"{t.largest_gap:.3g}), {t.twins} twins, {t.oracles} oracles, {len(t.faults)} faults"
        )
        for fault in t.faults[:10]:
            print(f"    --replay {kind}:{fault['case']}  {fault['what']}")


if __name__ == "__main__":
    raise SystemExit(main())
