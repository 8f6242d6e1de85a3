"""Every public name is fuzzed here, or it is said why not."""

from __future__ import annotations

import re
from pathlib import Path

import kdey

#: Public names that no test of this folder calls, and why.
_PICTURES = (
    *("Bias", "CriticalDifference", "Diagonal", "ErrorByShift", "FitCheck", "Identifiability"),
    *("Intervals", "Plan", "PrevalenceOverTime", "Region", "Reliability", "Sensitivity"),
    "Simplex",
)
EXEMPT = {f"{name}Display": "a picture of what was tried" for name in _PICTURES} | {
    "Difference": "what difference() returns: tried with it",
    "Estimate": "what estimate() returns: tried with it",
    "Estimates": "what estimate_bags() returns: tried with estimate_posteriors and reports",
    "FitChecker": "what check_fit() makes inside, once per quantifier",
    "OptunaSearchQ": "its parameters are those of RandomSearchQ; each trial takes too long here",
    "Region": "made by an estimate alone, from arrays that it has checked",
    "Solution": "what solve() returns: tried with it",
    "Tuning": "made by fit alone, and only read by users",
    "TuningDisplay": "a picture of a Tuning",
    "show_versions": "takes nothing",
    "check_quantifier": "takes a quantifier to try out: it raises what that one does",
}


def test_every_public_name_is_fuzzed_or_exempt() -> None:
    here = Path(__file__).parent
    texts = [
        p.read_text(encoding="utf-8") for p in here.glob("*.py") if p.name != Path(__file__).name
    ]
    used = set(re.findall(r"kdey\.([A-Za-z_0-9]+)", "\n".join(texts)))
    missing = sorted(set(kdey.__all__) - used - set(EXEMPT))
    assert not missing, f"not fuzzed, and no reason given: {missing}"
    assert not set(EXEMPT) - set(kdey.__all__)
