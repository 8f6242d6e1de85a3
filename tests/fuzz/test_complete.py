"""Every public name is fuzzed here, or it is said why not."""

from __future__ import annotations

import re
from pathlib import Path

import kdey

#: Public names that no test of this folder calls, and why.
EXEMPT = {
    "Difference": "what difference() returns: tried with it",
    "Estimate": "what estimate() returns: tried with it",
    "Estimates": "what estimate_bags() returns: tried with estimate_posteriors and reports",
    "show_versions": "takes nothing",
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
